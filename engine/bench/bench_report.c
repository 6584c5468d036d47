#include "engine/bench/bench_report.h"

#include <string.h>

#include "config/base/slice.h"
#include "kernels/kernels_experts.h"

enum { REPORT_BYTES_MAX = 256 << 10 };

static const char *const BENCH_WAY_NAMES[BENCH_WAYS] = {"private", "plain", "grouped"};

/* Weights that a decode step of `batch` rows reads: more rows use more of the experts. */
static double report_step_bytes(const struct bench_result *result, uint32_t batch)
{
    const struct model_config *config = result->model;
    if (result->experts_bytes == 0)
        return (double)result->step_bytes;
    const double more = kernels_experts_read(config->experts, config->experts_used, batch) -
                        kernels_experts_read(config->experts, config->experts_used, 1);
    return (double)result->step_bytes + (double)result->experts_bytes * more / config->experts;
}

/* Tokens a second at the ceilings of this run. Prefill is bounded by the arithmetic of all layers
 * (of the last one only K and V: the rest runs for one row of a chunk). Decode is bounded by
 * arithmetic including the output layer, or by reading every weight once a step, whichever is less.
 * Attention is not counted. */
static double report_ceiling(const struct bench_result *result, uint32_t batch)
{
    const struct model_config *config = result->model;
    double attention = (double)config->heads * config->head_dim;
    double kv = (double)config->kv_heads * config->head_dim;
    double hidden = (double)config->hidden * (config->experts > 0 ? config->experts_used : 1);
    double layers = config->layers * ((double)config->width * (2 * attention + 2 * kv) +
                                      3.0 * config->width * hidden);
    double last = config->width * (2 * attention + 3.0 * hidden);
    double output = (double)config->vocab * config->width;
    double operations = result->is_int8 ? result->ceilings.int8_gops : result->ceilings.f32_gflops;
    if (batch == 0)
        return operations * 1e9 / (2 * (layers - last));
    double by_arithmetic = operations * 1e9 / (2 * (layers + output));
    double by_reading =
        result->ceilings.read_gbps_model * 1e9 / report_step_bytes(result, batch) * batch;
    return by_arithmetic < by_reading ? by_arithmetic : by_reading;
}

static struct slice report_model_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct slice name = slice_of(slash != NULL ? slash + 1 : path);
    if (name.length > 5 && memcmp(name.bytes + name.length - 5, ".gguf", 5) == 0)
        name.length -= 5;
    return name;
}

/* The fraction of an operation's time in which the machine could have done it, by the ceilings, and
 * the name of the ceiling that bounds it; NULL when nothing was counted. */
static double report_fraction(const struct bench_result *result, const struct kernels_time *time,
                              const char **bound)
{
    const struct kernels_ceilings *ceilings = &result->ceilings;
    double int8 = (double)time->int8_operations / ceilings->int8_gops;
    double f32 = (double)time->f32_operations / ceilings->f32_gflops;
    double reading = (double)time->bytes / ceilings->read_gbps_model;
    double most = int8 + f32; /* both use the same execution ports */
    *bound = int8 == 0 ? "f32" : f32 == 0 ? "int8" : "int8 and f32";
    if (reading > most) {
        most = reading;
        *bound = "reading";
    }
    if (most == 0)
        *bound = NULL;
    return most / (double)(time->ns > 0 ? time->ns : 1);
}

/* µs outside of operations: dividing work, gathering rows, the bench itself. */
static double report_between(const struct bench_pass *pass)
{
    double us = pass->us;
    for (uint32_t i = 0; i < pass->count; i++)
        us -= (double)pass->times[i].ns / 1e3;
    return us;
}

/* {"1": …, "16": …} by batch size. */
static void report_rates(const struct bench_result *result, struct buffer *out,
                         const struct bench_rate *rates, bool wants_best)
{
    for (uint32_t i = 0; i < result->options.batch_count; i++)
        buffer_printf(out, "%s\"%u\": %.1f", i > 0 ? ", " : "{", result->options.batches[i],
                      wants_best ? rates[i].best : rates[i].median);
    buffer_append_text(out, "}");
}

static void report_json_shared(const struct bench_result *result, struct buffer *out)
{
    const struct bench_options *options = &result->options;
    if (options->shared == 0)
        return;
    buffer_printf(out,
                  "\"shared_prefix\": {\"tokens\": %u, \"mean_context\": %u, "
                  "\"decode_tokens_per_second\": {",
                  options->shared, options->shared + options->gen / 2);
    for (int way = 0; way < BENCH_WAYS; way++) {
        buffer_printf(out, "%s\"%s\": ", way > 0 ? ", " : "", BENCH_WAY_NAMES[way]);
        report_rates(result, out, result->shared[way], false);
    }
    buffer_append_text(out, "}}, ");
}

static void report_json_time(const struct bench_result *result, struct buffer *out,
                             const struct bench_pass *pass, const struct kernels_time *time)
{
    const char *bound;
    double fraction = report_fraction(result, time, &bound);
    double tokens = (double)pass->tokens;
    buffer_printf(out, "{\"name\": \"%s\", ", time->name);
    if (time->outputs > 0)
        buffer_printf(out, "\"outputs\": %u, \"inputs\": %u, ", time->outputs, time->inputs);
    buffer_printf(out,
                  "\"calls\": %llu, \"us_per_token\": %.3f, \"wait_us_per_token\": %.3f, "
                  "\"share\": %.4f",
                  (unsigned long long)time->calls, (double)time->ns / 1e3 / tokens,
                  (double)time->wait_ns / 1e3 / tokens, (double)time->ns / 1e3 / pass->us);
    if (bound != NULL)
        buffer_printf(out, ", \"bound\": \"%s\", \"fraction_of_ceiling\": %.3f", bound, fraction);
    buffer_append_text(out, "}");
}

static void report_json_passes(const struct bench_result *result, struct buffer *out)
{
    if (result->pass_count == 0)
        return;
    buffer_append_text(out, "\"operations\": [");
    for (uint32_t p = 0; p < result->pass_count; p++) {
        const struct bench_pass *pass = &result->passes[p];
        double tokens = (double)pass->tokens;
        buffer_printf(out, "%s{\"phase\": \"%s\", ", p > 0 ? ", " : "",
                      pass->streams > 0 ? "decode" : "prefill");
        if (pass->way < BENCH_WAYS)
            buffer_printf(out, "\"shared_prefix\": \"%s\", ", BENCH_WAY_NAMES[pass->way]);
        buffer_printf(out,
                      "\"streams\": %u, \"tokens\": %llu, \"us_per_token\": %.3f, "
                      "\"between_us_per_token\": %.3f, \"times\": [",
                      pass->streams > 0 ? pass->streams : 1, (unsigned long long)pass->tokens,
                      pass->us / tokens, report_between(pass) / tokens);
        for (uint32_t i = 0; i < pass->count; i++) {
            buffer_append_text(out, i > 0 ? ", " : "");
            report_json_time(result, out, pass, &pass->times[i]);
        }
        buffer_append_text(out, "]}");
    }
    buffer_append_text(out, "], ");
}

static double report_each(uint64_t all, uint64_t count)
{
    return count > 0 ? (double)all / (double)count : 0;
}

static void report_json_captures(const struct bench_result *result, struct buffer *out)
{
    const struct kernels_captures *captures = &result->captures;
    if (result->is_device)
        buffer_printf(out,
                      "\"captures\": {\"count\": %llu, \"in_measured_runs\": %llu, "
                      "\"ms_each\": %.3f, \"bytes_each\": %.0f}, ",
                      (unsigned long long)captures->count,
                      (unsigned long long)result->captures_measured,
                      report_each(captures->us, captures->count) / 1e3,
                      report_each(captures->bytes, captures->count));
}

static void report_json(const struct bench_result *result, struct buffer *out)
{
    const struct bench_options *options = &result->options;
    buffer_append_text(out, "{\"model\": ");
    buffer_append_json_string(out, report_model_name(options->model));
    buffer_printf(out, ", \"kv_type\": \"%s\", \"kv_bytes_per_token\": %zu",
                  kernels_kv_type_name(options->kv_type), result->token_bytes);
    buffer_printf(out, ", \"weights\": \"%s\", \"weight_bytes_per_step\": %llu",
                  model_weights_name(options->weights), (unsigned long long)result->step_bytes);
    buffer_printf(
        out,
        ", \"threads\": %u, \"processors\": %u, \"load_average\": %.2f, \"others\": %.3f, "
        "\"isa\": \"%s\", \"backend\": \"%s\", \"deterministic\": %s, "
        "\"prompt_tokens\": %u, \"chunk\": %u, \"prefill_at\": %u, \"generated_tokens\": %u, "
        "\"mean_context\": "
        "%u, "
        "\"repeat\": %u, \"model_ready_seconds\": %.3f, \"prefill_tokens_per_second\": %.1f, "
        "\"decode_tokens_per_second\": ",
        result->threads, result->processors, result->load, result->others, result->isa,
        result->is_device ? "device" : "cpu", options->is_free ? "false" : "true", options->prompt,
        options->chunk, options->prefill_at, options->gen, result->mean_context, options->repeat,
        result->ready_seconds, result->prefill.median);
    report_rates(result, out, result->decode, false);
    buffer_printf(out, ", \"best\": {\"prefill_tokens_per_second\": %.1f, ", result->prefill.best);
    buffer_append_text(out, "\"decode_tokens_per_second\": ");
    report_rates(result, out, result->decode, true);
    buffer_append_text(out, "}, ");
    report_json_shared(result, out);
    report_json_passes(result, out);
    report_json_captures(result, out);
    buffer_printf(out,
                  "\"ceilings\": {\"moments\": %u, \"int8_gops\": %.1f, \"f32_gflops\": %.1f, "
                  "\"read_gbps_model\": %.2f, \"read_gbps_dram\": %.2f}, "
                  "\"fraction_of_ceiling\": {\"prefill_tokens_per_second\": %.3f, "
                  "\"decode_tokens_per_second\": {",
                  result->moments, result->ceilings.int8_gops, result->ceilings.f32_gflops,
                  result->ceilings.read_gbps_model, result->ceilings.read_gbps_dram,
                  result->prefill.median / report_ceiling(result, 0));
    for (uint32_t i = 0; i < options->batch_count; i++)
        buffer_printf(out, "%s\"%u\": %.3f", i > 0 ? ", " : "", options->batches[i],
                      result->decode[i].median / report_ceiling(result, options->batches[i]));
    buffer_append_text(out, "}}}\n");
}

static void report_row(struct buffer *out, const char *what, struct bench_rate rate, double ceiling)
{
    buffer_printf(out, "%-44s %9.1f tok/s  %5.1f %% of %.0f, best %.1f\n", what, rate.median,
                  100 * rate.median / ceiling, ceiling, rate.best);
}

static void report_pass(const struct bench_result *result, struct buffer *out,
                        const struct bench_pass *pass)
{
    double tokens = (double)pass->tokens;
    double between = report_between(pass);
    if (pass->streams > 0)
        buffer_printf(out, "\ndecode of %u", pass->streams);
    else
        buffer_append_text(out, "\nprefill");
    if (pass->way < BENCH_WAYS)
        buffer_printf(out, ", %u shared, %s", result->options.shared, BENCH_WAY_NAMES[pass->way]);
    buffer_printf(out, ", by operation: %.1f µs a token\n", pass->us / tokens);
    for (uint32_t i = 0; i < pass->count; i++) {
        const struct kernels_time *time = &pass->times[i];
        const char *bound;
        double fraction = report_fraction(result, time, &bound);
        double us = (double)time->ns / 1e3;
        char what[64];
        snprintf(what, sizeof what, "%s", time->name);
        if (time->outputs > 0)
            snprintf(what, sizeof what, "%s %u x %u", time->name, time->outputs, time->inputs);
        buffer_printf(out, "  %-24s %8.2f µs %6.1f %%, waiting %5.1f %%", what, us / tokens,
                      100 * us / pass->us, (double)time->wait_ns / 10 / pass->us);
        if (bound != NULL)
            buffer_printf(out, ", %5.1f %% of %s", 100 * fraction, bound);
        buffer_append_text(out, "\n");
    }
    buffer_printf(out, "  %-24s %8.2f µs %6.1f %%\n", "between operations", between / tokens,
                  100 * between / pass->us);
}

static void report_codes(const struct bench_result *result, struct buffer *out)
{
    const struct model_codes_sums *codes = &result->codes;
    const double mib = 1048576;
    if (result->options.weights != MODEL_WEIGHTS_FILE)
        buffer_printf(out,
                      "weights   %s: %u matrices of %.1f MiB made into %.1f MiB; %u of %.1f MiB "
                      "as in the file\n",
                      model_weights_name(result->options.weights), codes->matrices,
                      (double)codes->file_bytes / mib, (double)codes->bytes / mib, codes->kept,
                      (double)codes->kept_bytes / mib);
}

static void report_table(const struct bench_result *result, struct buffer *out)
{
    const struct bench_options *options = &result->options;
    const struct model_config *config = result->model;
    struct slice name = report_model_name(options->model);
    char what[96];
    buffer_printf(out, "model     %.*s (%s, %.1f M parameters, %.1f MiB), ready in %.2f s\n",
                  (int)name.length, name.bytes, config->architecture,
                  (double)config->parameters / 1e6, (double)config->weight_bytes / 1048576,
                  result->ready_seconds);
    report_codes(result, out);
    buffer_printf(out, "kernels   %s, %u threads, %s; KV %s, %zu bytes a token\n", result->isa,
                  result->threads, result->is_device ? "device" : "cpu",
                  kernels_kv_type_name(options->kv_type), result->token_bytes);
    buffer_printf(out, "machine   %u processors for this process, load %.2f before",
                  result->processors, result->load);
    if (result->others >= 0)
        buffer_printf(out, ", others used %.2f processors meanwhile", result->others);
    buffer_printf(out,
                  "\nceilings  int8 %.0f GOP/s, f32 %.0f GFLOP/s, reading %.1f GB/s (as many bytes "
                  "as the model), %.1f GB/s (256 MiB); the highest of %u moments\n",
                  result->ceilings.int8_gops, result->ceilings.f32_gflops,
                  result->ceilings.read_gbps_model, result->ceilings.read_gbps_dram,
                  result->moments);
    if (result->is_device)
        buffer_printf(
            out,
            "graphs    %llu captured, %llu of them inside measured runs; each %.3f ms and "
            "%.0f KiB\n",
            (unsigned long long)result->captures.count,
            (unsigned long long)result->captures_measured,
            report_each(result->captures.us, result->captures.count) / 1e3,
            report_each(result->captures.bytes, result->captures.count) / 1024);
    buffer_printf(out, "rates     medians of %u runs, against the highest ceilings\n",
                  options->repeat);
    int length = snprintf(what, sizeof what, "prefill   %u tokens", options->prompt);
    if (options->prefill_at > 0)
        snprintf(what + length, sizeof what - (size_t)length, " after %u", options->prefill_at);
    report_row(out, what, result->prefill, report_ceiling(result, 0));
    for (uint32_t i = 0; i < options->batch_count; i++) {
        snprintf(what, sizeof what, "decode    %u stream%s, mean context %u", options->batches[i],
                 options->batches[i] > 1 ? "s" : "", result->mean_context);
        report_row(out, what, result->decode[i], report_ceiling(result, options->batches[i]));
    }
    for (uint32_t i = 0; options->shared > 0 && i < options->batch_count; i++)
        for (int way = 0; way < BENCH_WAYS; way++) {
            snprintf(what, sizeof what, "decode    %u, %u shared, %s", options->batches[i],
                     options->shared, BENCH_WAY_NAMES[way]);
            report_row(out, what, result->shared[way][i],
                       report_ceiling(result, options->batches[i]));
        }
    for (uint32_t p = 0; p < result->pass_count; p++)
        report_pass(result, out, &result->passes[p]);
}

enum status bench_report_print(const struct bench_result *result, FILE *out)
{
    struct buffer text;
    buffer_init(&text, REPORT_BYTES_MAX);
    if (result->options.is_json)
        report_json(result, &text);
    else
        report_table(result, &text);
    enum status status = text.status;
    if (status == STATUS_OK &&
        (fwrite(text.bytes, 1, text.length, out) != text.length || fflush(out) != 0))
        status = status_fail(STATUS_IO, __FILE__, __LINE__, NULL, "the report cannot be written");
    buffer_deinit(&text);
    return status;
}
