#include "engine/bench.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "config/base/slice.h"
#include "engine/model.h"

enum {
    BENCH_BATCHES_MAX = 8,
    BENCH_BATCH_MAX = 1024,
    BENCH_REPEAT_MAX = 100,
    BENCH_CHUNK_ROWS = 512, /* rows of one prefill step */
    BENCH_PAGE_TOKENS = 16,
};

static const char BENCH_HELP[] =
    "usage: banyan bench --model FILE [options]\n"
    "Measures prefill and decode of the model on this machine, and the machine's ceilings.\n"
    "\n"
    "  --model FILE      the model, in GGUF\n"
    "  --prompt N        tokens of the prefill (512)\n"
    "  --gen N           tokens generated in each stream (128)\n"
    "  --batch N,N,...   streams decoded together, one measurement each (1,16)\n"
    "  --context N       mean context of the streams while they are measured (128)\n"
    "  --shared N        also: streams that begin with the same N tokens, at least 64: in pages "
    "of\n"
    "                    their own (private), in the same pages (plain), and those read once for\n"
    "                    all of them (grouped)\n"
    "  --repeat N        runs of each measurement; the median counts (3)\n"
    "  --threads N       compute threads (0 = one for each processor)\n"
    "  --isa NAME        kernels to use (auto)\n"
    "  --json            one JSON object instead of a table\n"
    "  --help            this text\n"
    "\n"
    "Nothing else should run meanwhile: a neighbour on one core costs a third of the rates.\n";

struct bench_options {
    const char *model;
    const char *isa;
    uint32_t prompt;
    uint32_t gen;
    uint32_t context;
    uint32_t shared; /* 0 = not asked for */
    uint32_t repeat;
    uint32_t threads;
    uint32_t batches[BENCH_BATCHES_MAX];
    uint32_t batch_count;
    bool is_json;
    bool is_help;
};

/* --- options --- */

static enum status options_number(const char *name, const char *text, uint32_t min, uint32_t max,
                                  uint32_t *out)
{
    char *end;
    bool is_number = text[0] >= '0' && text[0] <= '9';
    unsigned long long value = is_number ? strtoull(text, &end, 10) : 0;
    if (!is_number || *end != '\0')
        FAIL(STATUS_INVALID, "%s: '%.32s' is not a number", name, text);
    if (value < min || value > max)
        FAIL(STATUS_OUT_OF_RANGE, "%s: %.32s is not from %u to %u", name, text, min, max);
    *out = (uint32_t)value;
    return STATUS_OK;
}

static enum status options_batches(struct bench_options *options, const char *text)
{
    options->batch_count = 0;
    while (true) {
        char number[16] = {0};
        size_t length = strcspn(text, ",");
        if (options->batch_count == BENCH_BATCHES_MAX)
            FAIL(STATUS_OUT_OF_RANGE, "--batch: more than %d sizes", BENCH_BATCHES_MAX);
        if (length >= sizeof number)
            FAIL(STATUS_INVALID, "--batch: '%.32s' is not a list of numbers", text);
        memcpy(number, text, length);
        uint32_t batch = 0;
        TRY(options_number("--batch", number, 1, BENCH_BATCH_MAX, &batch));
        for (uint32_t i = 0; i < options->batch_count; i++)
            if (options->batches[i] == batch)
                FAIL(STATUS_INVALID, "--batch: %u is there twice", batch);
        options->batches[options->batch_count++] = batch;
        if (text[length] == '\0')
            return STATUS_OK;
        text += length + 1;
    }
}

static enum status options_set(struct bench_options *options, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint32_t min;
        uint32_t max;
        uint32_t *out;
    } numbers[] = {{"--prompt", 1, LIMIT_CONTEXT, &options->prompt},
                   {"--gen", 1, LIMIT_CONTEXT, &options->gen},
                   {"--context", 1, LIMIT_CONTEXT, &options->context},
                   {"--shared", ATTENTION_BLOCK_KEYS, LIMIT_CONTEXT, &options->shared},
                   {"--repeat", 1, BENCH_REPEAT_MAX, &options->repeat},
                   {"--threads", 0, LIMIT_THREADS, &options->threads}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(name, numbers[i].name) == 0)
            return options_number(name, value, numbers[i].min, numbers[i].max, numbers[i].out);
    if (strcmp(name, "--batch") == 0)
        return options_batches(options, value);
    if (strcmp(name, "--model") == 0)
        options->model = value;
    else if (strcmp(name, "--isa") == 0)
        options->isa = value;
    else
        FAIL(STATUS_INVALID, "unknown option '%.64s'; banyan bench --help lists them", name);
    return STATUS_OK;
}

/* "--name value" and "--name=value". */
static enum status options_parse(struct bench_options *options, int count, char *const *arguments)
{
    *options = (struct bench_options){.isa = "auto",
                                      .prompt = 512,
                                      .gen = 128,
                                      .context = 128,
                                      .repeat = 3,
                                      .batches = {1, 16},
                                      .batch_count = 2};
    for (int i = 0; i < count; i++) {
        char name[64];
        const char *equals = strchr(arguments[i], '=');
        const char *value = equals != NULL ? equals + 1 : NULL;
        size_t length = equals != NULL ? (size_t)(equals - arguments[i]) : strlen(arguments[i]);
        snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), arguments[i]);
        bool is_help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
        if (is_help || strcmp(name, "--json") == 0) {
            options->is_help = options->is_help || is_help;
            options->is_json = options->is_json || !is_help;
            continue;
        }
        if (value == NULL && (strncmp(name, "--", 2) != 0 || i + 1 == count))
            FAIL(STATUS_INVALID, "%s: no such option, or its value is missing; see --help", name);
        if (value == NULL)
            value = arguments[++i];
        TRY(options_set(options, name, value));
    }
    if (!options->is_help && options->model == NULL)
        FAIL(STATUS_INVALID, "--model FILE is missing");
    return STATUS_OK;
}

/* --- measuring --- */

/* How streams hold what they have in common. */
enum bench_way { BENCH_PRIVATE, BENCH_PLAIN, BENCH_GROUPED, BENCH_WAYS };
static const char *const BENCH_WAY_NAMES[BENCH_WAYS] = {"private", "plain", "grouped"};

struct bench {
    struct bench_options options;
    struct kernels *kernels;
    struct model *model;
    struct kv_layout layout;
    uint32_t rows_max;
    uint32_t batch_max;
    uint32_t pages_each;    /* of a stream */
    uint32_t context_start; /* keys of a stream before the first measured step */
    void *pages;
    uint32_t *page_ids;           /* [batch_max × pages_each], in order */
    const uint32_t **page_tables; /* [batch_max] */
    uint32_t *tokens;             /* [rows_max] */
    uint32_t *sequences;          /* [rows_max] */
    uint32_t *positions;          /* [rows_max] */
    uint32_t *logit_row;          /* [rows_max] */
    uint32_t *order;              /* [batch_max] 0, 1, 2, … */
    uint32_t *shared;             /* [batch_max] */
    const struct attention_groups *groups;
    uint64_t step_bytes; /* weights read by a decode step */
    bool is_quantised;

    double prefill_rate; /* tokens a second */
    double decode_rates[BENCH_BATCHES_MAX];
    double shared_rates[BENCH_WAYS][BENCH_BATCHES_MAX];
    struct kernels_ceilings ceilings;
};

/* One step; logits of the last row, or of every row when they are streams. */
static void bench_step(struct bench *bench, uint32_t rows, bool wants_all)
{
    struct model_batch batch = {.rows = rows,
                                .tokens = bench->tokens,
                                .kv = {.layout = &bench->layout,
                                       .pages = bench->pages,
                                       .sequence = bench->sequences,
                                       .position = bench->positions,
                                       .page_tables = bench->page_tables},
                                .groups = bench->groups,
                                .logit_rows = wants_all ? rows : 1,
                                .logit_row = bench->logit_row};
    for (uint32_t i = 0; i < batch.logit_rows; i++)
        bench->logit_row[i] = wants_all ? i : rows - 1;
    model_forward(bench->model, &batch);
}

static uint32_t bench_token(const struct bench *bench, uint32_t sequence, uint32_t position)
{
    return (uint32_t)(rng_at(1, sequence, position) % model_config(bench->model)->vocab);
}

static void bench_prefill(struct bench *bench, uint32_t sequence, uint32_t count)
{
    for (uint32_t from = 0; from < count; from += BENCH_CHUNK_ROWS) {
        uint32_t rows = count - from < BENCH_CHUNK_ROWS ? count - from : BENCH_CHUNK_ROWS;
        for (uint32_t r = 0; r < rows; r++) {
            bench->sequences[r] = sequence;
            bench->positions[r] = from + r;
            bench->tokens[r] = bench_token(bench, sequence, from + r);
        }
        bench_step(bench, rows, false);
    }
}

/* Each stream generates from position `start` on. */
static void bench_decode(struct bench *bench, uint32_t batch, uint32_t start)
{
    for (uint32_t step = 0; step < bench->options.gen; step++) {
        for (uint32_t s = 0; s < batch; s++) {
            bench->sequences[s] = s;
            bench->positions[s] = start + step;
            bench->tokens[s] = bench_token(bench, s, bench->positions[s]);
        }
        bench_step(bench, batch, true);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    const double *left = a;
    const double *right = b;
    return (*left > *right) - (*left < *right);
}

static double bench_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Streams are filled once; measuring again overwrites the same positions. A first run warms up. */
static double bench_measure(struct bench *bench, uint32_t batch)
{
    double seconds[BENCH_REPEAT_MAX];
    const struct clock *clock = clock_system();
    if (batch > 0)
        for (uint32_t s = 0; s < batch; s++)
            bench_prefill(bench, s, bench->context_start);
    for (uint32_t i = 0; i <= bench->options.repeat; i++) {
        int64_t start = clock_mono_us(clock);
        if (batch > 0)
            bench_decode(bench, batch, bench->context_start);
        else
            bench_prefill(bench, 0, bench->options.prompt);
        int64_t took = clock_mono_us(clock) - start;
        if (i > 0)
            seconds[i - 1] = (double)(took > 0 ? took : 1) / 1e6;
    }
    double tokens = batch > 0 ? (double)batch * bench->options.gen : (double)bench->options.prompt;
    return tokens / bench_median(seconds, bench->options.repeat);
}

/* The whole pages of what is shared: those of stream 0 for all, or each its own. */
static void bench_share(struct bench *bench, uint32_t batch, enum bench_way way)
{
    static struct attention_groups groups;
    uint32_t pages = bench->options.shared / BENCH_PAGE_TOKENS;
    uint32_t keys = bench->options.shared / ATTENTION_BLOCK_KEYS * ATTENTION_BLOCK_KEYS;
    for (uint32_t s = 0; s < batch; s++) {
        for (uint32_t p = 0; p < pages; p++)
            bench->page_ids[(size_t)s * bench->pages_each + p] =
                p + (way == BENCH_PRIVATE ? s * bench->pages_each : 0);
        bench->order[s] = s;
        bench->shared[s] = s > 0 ? keys : 0;
    }
    groups = (struct attention_groups){.order = bench->order, .shared = bench->shared};
    bench->groups = way == BENCH_GROUPED ? &groups : NULL;
}

/* The ways take turns, so that a neighbour disturbs all of them. */
static void bench_measure_shared(struct bench *bench, uint32_t index)
{
    double seconds[BENCH_WAYS][BENCH_REPEAT_MAX];
    const struct clock *clock = clock_system();
    uint32_t batch = bench->options.batches[index];
    for (uint32_t s = 0; s < batch; s++)
        bench_prefill(bench, s, bench->options.shared);
    for (uint32_t i = 0; i <= bench->options.repeat; i++)
        for (int way = 0; way < BENCH_WAYS; way++) {
            bench_share(bench, batch, (enum bench_way)way);
            int64_t start = clock_mono_us(clock);
            bench_decode(bench, batch, bench->options.shared);
            int64_t took = clock_mono_us(clock) - start;
            if (i > 0)
                seconds[way][i - 1] = (double)(took > 0 ? took : 1) / 1e6;
        }
    bench_share(bench, batch, BENCH_PRIVATE);
    for (int way = 0; way < BENCH_WAYS; way++)
        bench->shared_rates[way][index] =
            (double)batch * bench->options.gen / bench_median(seconds[way], bench->options.repeat);
}

/* --- opening --- */

static enum status bench_open_pages(struct bench *bench, const struct model_config *config)
{
    const struct bench_options *options = &bench->options;
    uint32_t half = options->gen / 2;
    bench->context_start = options->context > half ? options->context - half : 0;
    uint32_t start =
        bench->context_start > options->shared ? bench->context_start : options->shared;
    uint64_t keys = (uint64_t)start + options->gen;
    if (keys < options->prompt)
        keys = options->prompt;
    if (keys > config->context)
        FAIL(STATUS_OUT_OF_RANGE,
             "--prompt, --gen, --context, --shared: %llu tokens, the model's context "
             "is %u",
             (unsigned long long)keys, config->context);
    bench->pages_each = (uint32_t)((keys + BENCH_PAGE_TOKENS - 1) / BENCH_PAGE_TOKENS);
    TRY(kernels_kv_layout(bench->kernels, KV_TYPE_F16, BENCH_PAGE_TOKENS, config->layers,
                          config->kv_heads, config->head_dim, &bench->layout));
    size_t total = (size_t)bench->batch_max * bench->pages_each;
    size_t bytes;
    if (__builtin_mul_overflow(total, bench->layout.page_bytes, &bytes))
        FAIL(STATUS_NO_MEMORY, "the pages of %u streams do not fit memory", bench->batch_max);
    bench->pages = kernels_buffer_create(bench->kernels, bytes);
    bench->page_ids = mem_zalloc(total, sizeof *bench->page_ids);
    bench->page_tables = mem_zalloc(bench->batch_max, sizeof *bench->page_tables);
    bench->tokens = mem_zalloc(bench->rows_max, sizeof *bench->tokens);
    bench->sequences = mem_zalloc(bench->rows_max, sizeof *bench->sequences);
    bench->positions = mem_zalloc(bench->rows_max, sizeof *bench->positions);
    bench->logit_row = mem_zalloc(bench->rows_max, sizeof *bench->logit_row);
    bench->order = mem_zalloc(bench->batch_max, sizeof *bench->order);
    bench->shared = mem_zalloc(bench->batch_max, sizeof *bench->shared);
    if (bench->pages == NULL || bench->page_ids == NULL || bench->page_tables == NULL ||
        bench->tokens == NULL || bench->sequences == NULL || bench->positions == NULL ||
        bench->logit_row == NULL || bench->order == NULL || bench->shared == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu MiB of pages", bytes >> 20);
    for (size_t i = 0; i < total; i++)
        bench->page_ids[i] = (uint32_t)i;
    for (uint32_t s = 0; s < bench->batch_max; s++)
        bench->page_tables[s] = bench->page_ids + (size_t)s * bench->pages_each;
    return STATUS_OK;
}

/* What a decode step reads, and whether most weights are quantised (then the products are of
 * integers, and that ceiling counts). */
static void bench_open_weights(struct bench *bench, const struct gguf *gguf,
                               const struct model_config *config)
{
    struct tensor tensor;
    uint64_t quantised = 0;
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        gguf_tensor_at(gguf, i, NULL, &tensor);
        if (tensor.type->block_elements > 1)
            quantised += tensor.dims[0] * tensor.dims[1] * tensor.dims[2] * tensor.dims[3];
    }
    bench->is_quantised = quantised > config->parameters / 2;
    bench->step_bytes = config->weight_bytes;
    /* With an output layer of its own, only the embeddings of the step's tokens are read. */
    if (gguf_get_tensor(gguf, "output.weight", &tensor) == STATUS_OK &&
        gguf_get_tensor(gguf, "token_embd.weight", &tensor) == STATUS_OK)
        bench->step_bytes -= tensor.bytes;
}

static enum status bench_open(struct bench *bench, const struct gguf *gguf)
{
    const struct bench_options *options = &bench->options;
    struct model_config config;
    TRY(model_config_read(&config, gguf));
    bench->batch_max = 1;
    for (uint32_t i = 0; i < options->batch_count; i++)
        if (options->batches[i] > bench->batch_max)
            bench->batch_max = options->batches[i];
    bench->rows_max = BENCH_CHUNK_ROWS > bench->batch_max ? BENCH_CHUNK_ROWS : bench->batch_max;
    TRY(kernels_create(&bench->kernels,
                       &(struct kernels_options){.isa = options->isa,
                                                 .threads = options->threads,
                                                 .rows_max = bench->rows_max,
                                                 .cols_max = model_cols_max(&config)}));
    TRY(model_open(&bench->model, bench->kernels, gguf, bench->rows_max, bench->batch_max));
    bench_open_weights(bench, gguf, &config);
    return bench_open_pages(bench, &config);
}

static void bench_close(struct bench *bench)
{
    mem_free(bench->page_ids);
    mem_free(bench->page_tables);
    mem_free(bench->tokens);
    mem_free(bench->sequences);
    mem_free(bench->positions);
    mem_free(bench->logit_row);
    mem_free(bench->order);
    mem_free(bench->shared);
    if (bench->pages != NULL)
        kernels_buffer_destroy(bench->kernels, bench->pages);
    model_close(bench->model);
    if (bench->kernels != NULL)
        kernels_destroy(bench->kernels);
}

/* --- reporting --- */

/* What the machine could do at best, from the ceilings of this very run: prefill by arithmetic of
 * all layers (the output layer runs for one row only); decode by arithmetic with the output layer
 * or by reading every weight once a step, whichever is less. Attention is not counted. */
static double bench_ceiling(const struct bench *bench, uint32_t batch)
{
    const struct model_config *config = model_config(bench->model);
    double attention = (double)config->heads * config->head_dim;
    double kv = (double)config->kv_heads * config->head_dim;
    double layers = config->layers * ((double)config->width * (2 * attention + 2 * kv) +
                                      3.0 * config->width * config->hidden);
    double output = (double)config->vocab * config->width;
    double operations =
        bench->is_quantised ? bench->ceilings.int8_gops : bench->ceilings.f32_gflops;
    if (batch == 0)
        return operations * 1e9 / (2 * layers);
    double by_arithmetic = operations * 1e9 / (2 * (layers + output));
    double by_reading = bench->ceilings.read_gbps_model * 1e9 / (double)bench->step_bytes * batch;
    return by_arithmetic < by_reading ? by_arithmetic : by_reading;
}

static struct slice bench_model_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct slice name = slice_of(slash != NULL ? slash + 1 : path);
    if (name.length > 5 && memcmp(name.bytes + name.length - 5, ".gguf", 5) == 0)
        name.length -= 5;
    return name;
}

/* {"1": …, "16": …} by batch size. */
static void report_rates(const struct bench *bench, struct buffer *out, const double *rates)
{
    for (uint32_t i = 0; i < bench->options.batch_count; i++)
        buffer_printf(out, "%s\"%u\": %.1f", i > 0 ? ", " : "{", bench->options.batches[i],
                      rates[i]);
    buffer_append_text(out, "}");
}

static void report_json_shared(const struct bench *bench, struct buffer *out)
{
    const struct bench_options *options = &bench->options;
    if (options->shared == 0)
        return;
    buffer_printf(out,
                  "\"shared_prefix\": {\"tokens\": %u, \"mean_context\": %u, "
                  "\"decode_tokens_per_second\": {",
                  options->shared, options->shared + options->gen / 2);
    for (int way = 0; way < BENCH_WAYS; way++) {
        buffer_printf(out, "%s\"%s\": ", way > 0 ? ", " : "", BENCH_WAY_NAMES[way]);
        report_rates(bench, out, bench->shared_rates[way]);
    }
    buffer_append_text(out, "}}, ");
}

static void report_json(const struct bench *bench, struct buffer *out)
{
    const struct bench_options *options = &bench->options;
    buffer_append_text(out, "{\"model\": ");
    buffer_append_json_string(out, bench_model_name(options->model));
    buffer_printf(out,
                  ", \"threads\": %u, \"isa\": \"%s\", \"backend\": \"cpu\", "
                  "\"prompt_tokens\": %u, \"generated_tokens\": %u, \"mean_context\": %u, "
                  "\"repeat\": %u, \"prefill_tokens_per_second\": %.1f, "
                  "\"decode_tokens_per_second\": ",
                  kernels_threads(bench->kernels), kernels_isa(bench->kernels), options->prompt,
                  options->gen, bench->context_start + options->gen / 2, options->repeat,
                  bench->prefill_rate);
    report_rates(bench, out, bench->decode_rates);
    buffer_append_text(out, ", ");
    report_json_shared(bench, out);
    buffer_printf(out,
                  "\"ceilings\": {\"int8_gops\": %.1f, \"f32_gflops\": %.1f, "
                  "\"read_gbps_model\": %.2f, \"read_gbps_dram\": %.2f}, "
                  "\"fraction_of_ceiling\": {\"prefill_tokens_per_second\": %.3f, "
                  "\"decode_tokens_per_second\": {",
                  bench->ceilings.int8_gops, bench->ceilings.f32_gflops,
                  bench->ceilings.read_gbps_model, bench->ceilings.read_gbps_dram,
                  bench->prefill_rate / bench_ceiling(bench, 0));
    for (uint32_t i = 0; i < options->batch_count; i++)
        buffer_printf(out, "%s\"%u\": %.3f", i > 0 ? ", " : "", options->batches[i],
                      bench->decode_rates[i] / bench_ceiling(bench, options->batches[i]));
    buffer_append_text(out, "}}}\n");
}

static void report_row(struct buffer *out, const char *what, double rate, double ceiling)
{
    buffer_printf(out, "%-44s %9.1f tok/s  %5.1f %% of %.0f\n", what, rate, 100 * rate / ceiling,
                  ceiling);
}

static void report_table(const struct bench *bench, struct buffer *out)
{
    const struct bench_options *options = &bench->options;
    const struct model_config *config = model_config(bench->model);
    struct slice name = bench_model_name(options->model);
    char what[96];
    buffer_printf(out, "model     %.*s (%s, %.1f M parameters, %.1f MiB)\n", (int)name.length,
                  name.bytes, config->architecture, (double)config->parameters / 1e6,
                  (double)config->weight_bytes / 1048576);
    buffer_printf(out, "kernels   %s, %u threads, cpu\n", kernels_isa(bench->kernels),
                  kernels_threads(bench->kernels));
    buffer_printf(out,
                  "ceilings  int8 %.0f GOP/s, f32 %.0f GFLOP/s, reading %.1f GB/s (as many bytes "
                  "as the model), %.1f GB/s (1 GiB)\n",
                  bench->ceilings.int8_gops, bench->ceilings.f32_gflops,
                  bench->ceilings.read_gbps_model, bench->ceilings.read_gbps_dram);
    snprintf(what, sizeof what, "prefill   %u tokens", options->prompt);
    report_row(out, what, bench->prefill_rate, bench_ceiling(bench, 0));
    for (uint32_t i = 0; i < options->batch_count; i++) {
        snprintf(what, sizeof what, "decode    %u stream%s, mean context %u", options->batches[i],
                 options->batches[i] > 1 ? "s" : "", bench->context_start + options->gen / 2);
        report_row(out, what, bench->decode_rates[i], bench_ceiling(bench, options->batches[i]));
    }
    for (uint32_t i = 0; options->shared > 0 && i < options->batch_count; i++)
        for (int way = 0; way < BENCH_WAYS; way++) {
            snprintf(what, sizeof what, "decode    %u, %u shared, %s", options->batches[i],
                     options->shared, BENCH_WAY_NAMES[way]);
            report_row(out, what, bench->shared_rates[way][i],
                       bench_ceiling(bench, options->batches[i]));
        }
}

static enum status bench_report(const struct bench *bench, FILE *out)
{
    struct buffer text;
    buffer_init(&text, 65536);
    if (bench->options.is_json)
        report_json(bench, &text);
    else
        report_table(bench, &text);
    enum status status = text.status;
    if (status == STATUS_OK &&
        (fwrite(text.bytes, 1, text.length, out) != text.length || fflush(out) != 0))
        status = status_fail(STATUS_IO, __FILE__, __LINE__, NULL, "the report cannot be written");
    buffer_deinit(&text);
    return status;
}

static enum status bench_all(struct bench *bench, FILE *out)
{
    struct gguf *gguf;
    TRY(gguf_open(&gguf, bench->options.model));
    enum status status = bench_open(bench, gguf);
    gguf_close(gguf);
    TRY(status);
    TRY(kernels_measure_ceilings(bench->kernels, (size_t)bench->step_bytes, &bench->ceilings));
    bench->prefill_rate = bench_measure(bench, 0);
    for (uint32_t i = 0; i < bench->options.batch_count; i++)
        bench->decode_rates[i] = bench_measure(bench, bench->options.batches[i]);
    for (uint32_t i = 0; bench->options.shared > 0 && i < bench->options.batch_count; i++)
        bench_measure_shared(bench, i);
    return bench_report(bench, out);
}

enum status bench_run(int count, char *const *arguments, FILE *out)
{
    struct bench bench = {.prefill_rate = 0};
    TRY(options_parse(&bench.options, count, arguments));
    if (bench.options.is_help)
        return fputs(BENCH_HELP, out) >= 0
                   ? STATUS_OK
                   : status_fail(STATUS_IO, __FILE__, __LINE__, NULL, "the help cannot be written");
    enum status status = bench_all(&bench, out);
    bench_close(&bench);
    return status;
}
