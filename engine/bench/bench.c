#include "engine/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/flag_word.h"
#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/bench/bench_report.h"
#include "engine/bench/bench_speculate.h"
#include "engine/models/model_codes.h"
#include "kernels/kernels_step.h"

enum {
    BENCH_BATCH_MAX = 1024,
    BENCH_CHUNK_MAX = 8192, /* rows of one prefill step */
    BENCH_DEVICE_MAX = 63,
};

static const char BENCH_HELP[] =
    "usage: banyan bench --model FILE [options]\n"
    "Measures prefill and decode of a model on this machine, and the machine's ceilings.\n"
    "\n"
    "  --model FILE      the model, in GGUF\n"
    "  --prompt N        tokens of the prefill (512)\n"
    "  --prefill-at N    position of the prefill's first token; the tokens before it are computed\n"
    "                    already (0)\n"
    "  --chunk N         tokens of one prefill step (512)\n"
    "  --gen N           tokens generated in each stream (128)\n"
    "  --batch N,N,...   streams decoded together, one measurement each (1,16)\n"
    "  --context N       mean context of the streams while they are measured (128)\n"
    "  --shared N        also: streams that begin with the same N tokens, at least 64: in pages\n"
    "                    of their own (private), in the same pages (plain), and in the same pages\n"
    "                    that attention reads once for all of them (grouped)\n"
    "  --ops             also: repeats each measurement with its operations timed; prints, of the\n"
    "                    fastest run, time, waiting for other threads, part of its ceiling\n"
    "  --speculate NAME  instead of all that: compares the engine with speculation (lookup,\n"
    "                    model, exit) and without: one stream that copies, one that does not\n"
    "  --draft-model F   the draft model, for --speculate model\n"
    "  --draft-layers N  the layers that draft, for --speculate exit\n"
    "  --repeat N        runs of each measurement; the median counts, the best is printed too (3)\n"
    "  --threads N       compute threads (0 = one for each processor)\n"
    "  --isa NAME        kernels to use (auto)\n"
    "  --device N        number of the device, for kernels of a device (0)\n"
    "  --deterministic B for kernels of a device: false lets cuBLASLt multiply many rows with\n"
    "                    16-bit weights (true)\n"
    "  --no-early, --no-graphs, --few-stages, --carveout\n"
    "                    for kernels of a device, to find out what a time depends on: kernels do\n"
    "                    not start early; steps are not graphs; kernels stage as little as they\n"
    "                    can; all of the first-level cache is shared memory\n"
    "  --kv-type NAME    type of KV pages (f16)\n"
    "  --weights NAME    matrices as in the file (file), as q8_0 (q8), or those of layers as "
    "4-bit\n"
    "                    codes (int4)\n"
    "  --json            one JSON object instead of a table\n"
    "  --help            this text\n"
    "\n"
    "Ceilings are measured before the first run and after each run, for some tenths of a second;\n"
    "the highest one counts, because machines change their speed for seconds. With a model of 100 "
    "MB\n"
    "and no other option, all takes about ten seconds. Nothing else should run meanwhile: another\n"
    "process on one core costs a third of the rates.\n";

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
                FAIL(STATUS_INVALID, "--batch: %u appears twice", batch);
        options->batches[options->batch_count++] = batch;
        if (text[length] == '\0')
            return STATUS_OK;
        text += length + 1;
    }
}

static enum status options_speculation(struct bench_options *options, const char *name)
{
    static const char *const names[] = {[ENGINE_SPECULATION_LOOKUP] = "lookup",
                                        [ENGINE_SPECULATION_MODEL] = "model",
                                        [ENGINE_SPECULATION_EXIT] = "exit"};
    for (uint32_t i = ENGINE_SPECULATION_LOOKUP; i <= ENGINE_SPECULATION_EXIT; i++)
        if (strcmp(name, names[i]) == 0) {
            options->speculation = (enum engine_speculation)i;
            return STATUS_OK;
        }
    FAIL(STATUS_INVALID, "--speculate: '%.32s' is not lookup, model or exit", name);
}

static enum status options_deterministic(struct bench_options *options, const char *value)
{
    options->is_free = strcmp(value, "false") == 0;
    if (!options->is_free && strcmp(value, "true") != 0)
        FAIL(STATUS_INVALID, "--deterministic: '%.32s' is not true or false", value);
    return STATUS_OK;
}

static enum status options_set(struct bench_options *options, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint32_t min;
        uint32_t max;
        uint32_t *out;
    } numbers[] = {{"--prompt", 1, LIMIT_CONTEXT, &options->prompt},
                   {"--prefill-at", 0, LIMIT_CONTEXT, &options->prefill_at},
                   {"--chunk", 1, BENCH_CHUNK_MAX, &options->chunk},
                   {"--gen", 1, LIMIT_CONTEXT, &options->gen},
                   {"--context", 1, LIMIT_CONTEXT, &options->context},
                   {"--shared", ATTENTION_BLOCK_KEYS, LIMIT_CONTEXT, &options->shared},
                   {"--draft-layers", 1, LIMIT_LAYERS, &options->draft_layers},
                   {"--repeat", 1, BENCH_REPEAT_MAX, &options->repeat},
                   {"--threads", 0, LIMIT_THREADS, &options->threads},
                   {"--device", 0, BENCH_DEVICE_MAX, &options->device}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(name, numbers[i].name) == 0)
            return options_number(name, value, numbers[i].min, numbers[i].max, numbers[i].out);
    if (strcmp(name, "--batch") == 0)
        return options_batches(options, value);
    if (strcmp(name, "--model") == 0)
        options->model = value;
    else if (strcmp(name, "--draft-model") == 0)
        options->draft_model = value;
    else if (strcmp(name, "--speculate") == 0)
        return options_speculation(options, value);
    else if (strcmp(name, "--isa") == 0)
        options->isa = value;
    else if (strcmp(name, "--deterministic") == 0)
        return options_deterministic(options, value);
    else if (strcmp(name, "--kv-type") == 0)
        TRY(kernels_kv_type_find(&options->kv_type, value));
    else if (strcmp(name, "--weights") == 0)
        TRY(model_weights_find(&options->weights, value));
    else
        FAIL(STATUS_INVALID, "unknown option '%.64s'; banyan bench --help lists them", name);
    return STATUS_OK;
}

/* Options without a value. */
static bool options_set_flag(struct bench_options *options, const char *name)
{
    const struct {
        const char *name;
        bool *out;
    } flags[] = {{"--help", &options->is_help},
                 {"-h", &options->is_help},
                 {"--json", &options->is_json},
                 {"--ops", &options->wants_ops}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(name, flags[i].name) == 0) {
            *flags[i].out = true;
            return true;
        }
    return strncmp(name, "--", 2) == 0 && kernels_trial_set(&options->trial, name + 2);
}

/* Options have the form "--name value" or "--name=value". */
static enum status options_parse(struct bench_options *options, int count, char *const *arguments)
{
    *options = (struct bench_options){.isa = "auto",
                                      .kv_type = KV_TYPE_F16,
                                      .prompt = 512,
                                      .chunk = 512,
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
        if (strcmp(name, "--") == 0 && i + 1 == count)
            break; /* it ends the options; there are no other arguments */
        if (equals == NULL && options_set_flag(options, name))
            continue;
        if (value == NULL && (strncmp(name, "--", 2) != 0 || i + 1 == count))
            FAIL(STATUS_INVALID, "%s: no such option, or its value is missing; see --help", name);
        if (value == NULL)
            value = arguments[++i];
        if (equals == NULL && flag_word_is(value))
            FAIL(STATUS_INVALID,
                 "%s wants a value; one that begins with a dash is written %s=%.32s", name, name,
                 value);
        TRY(options_set(options, name, value));
    }
    if (!options->is_help && options->model == NULL)
        FAIL(STATUS_INVALID, "--model FILE is missing");
    if (options->speculation != ENGINE_SPECULATION_OFF && kernels_trial_is_set(&options->trial))
        FAIL(STATUS_UNSUPPORTED, "--speculate measures an engine, which has none of --no-early, "
                                 "--no-graphs, --few-stages and --carveout");
    return STATUS_OK;
}

/* --- measuring --- */

struct bench {
    struct bench_result result; /* includes the options */
    struct kernels *kernels;
    struct model *model;
    struct kv_layout layout;
    enum status status; /* of the steps: the first failure of the device */
    uint32_t rows_max;
    uint32_t batch_max;
    uint32_t pages_each;    /* pages of a stream */
    uint32_t context_start; /* keys of a stream before the first measured step */
    void *pages;
    void *open;                   /* an open group for each page, if the KV type has such */
    uint32_t *open_of;            /* [rows_max] */
    uint32_t *page_ids;           /* [batch_max × pages_each], in order */
    const uint32_t **page_tables; /* [batch_max] */
    uint32_t *tokens;             /* [rows_max] */
    uint32_t *sequences;          /* [rows_max] */
    uint32_t *positions;          /* [rows_max] */
    uint32_t *logit_row;          /* [rows_max] */
    uint32_t *order;              /* [batch_max] 0, 1, 2, … */
    uint32_t *shared;             /* [batch_max] */
    const struct attention_groups *groups;
};

/* One step, with logits of the last row, or of every row of a decode. */
static void bench_step(struct bench *bench, uint32_t rows, bool wants_all)
{
    for (uint32_t i = 0; i < rows; i++)
        bench->open_of[i] =
            bench
                ->page_tables[bench->sequences[i]][bench->positions[i] / bench->layout.page_tokens];
    struct model_batch batch = {.rows = rows,
                                .tokens = bench->tokens,
                                .kv = {.layout = &bench->layout,
                                       .pages = bench->pages,
                                       .sequence = bench->sequences,
                                       .position = bench->positions,
                                       .page_tables = bench->page_tables,
                                       .open = bench->open,
                                       .open_of = bench->open_of},
                                .groups = bench->groups,
                                .logit_rows = wants_all ? rows : 1,
                                .logit_row = bench->logit_row};
    for (uint32_t i = 0; i < batch.logit_rows; i++)
        bench->logit_row[i] = wants_all ? i : rows - 1;
    if (bench->status != STATUS_OK)
        return;
    if (model_forward(bench->model, &batch) == NULL)
        bench->status = status_note()->status;
    else
        bench->status = kernels_step_end(bench->kernels); /* the next step needs its tokens */
}

static uint32_t bench_token(const struct bench *bench, uint32_t sequence, uint32_t position)
{
    return (uint32_t)(rng_at(1, sequence, position) % model_config(bench->model)->vocab);
}

/* Prefills positions [from, end) of one stream. */
static void bench_prefill(struct bench *bench, uint32_t sequence, uint32_t from, uint32_t end)
{
    const uint32_t chunk = bench->result.options.chunk;
    for (; from < end; from += chunk) {
        uint32_t rows = end - from < chunk ? end - from : chunk;
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
    for (uint32_t step = 0; step < bench->result.options.gen; step++) {
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

static struct bench_rate bench_rate(double tokens, double *seconds, uint32_t count)
{
    qsort(seconds, count, sizeof *seconds, compare_doubles);
    double middle = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
    return (struct bench_rate){.median = tokens / middle, .best = tokens / seconds[0]};
}

static enum status bench_moment(struct bench *bench)
{
    if (bench->status != STATUS_OK)
        return bench->status;
    bench->result.moments++;
    return kernels_measure_ceilings(bench->kernels, (size_t)bench->result.step_bytes,
                                    &bench->result.ceilings);
}

/* One run, in µs: decode of `batch` streams that have `from` tokens, or with 0 the prefill. */
static int64_t bench_run_once(struct bench *bench, uint32_t batch, uint32_t from)
{
    const struct bench_options *options = &bench->result.options;
    const struct clock *clock = clock_system();
    int64_t start = clock_mono_us(clock);
    if (batch > 0)
        bench_decode(bench, batch, from);
    else
        bench_prefill(bench, 0, options->prefill_at, options->prefill_at + options->prompt);
    int64_t took = clock_mono_us(clock) - start;
    return took > 0 ? took : 1;
}

/* A run that counts, in seconds. */
static double bench_run_seconds(struct bench *bench, uint32_t batch, uint32_t from)
{
    const uint64_t before = kernels_measure_captures(bench->kernels).count;
    const int64_t took = bench_run_once(bench, batch, from);
    bench->result.captures_measured += kernels_measure_captures(bench->kernels).count - before;
    return (double)took / 1e6;
}

/* Runs before those that count. A device captures the graph of a step when it sees its shape for
 * the second time, so a shape that a run has only once is captured in the second run. */
static uint32_t bench_warm_ups(const struct bench *bench)
{
    return kernels_is_device(bench->kernels) ? 2 : 1;
}

static void bench_time(struct bench *bench, uint32_t batch, uint32_t from, enum bench_way way)
{
    const struct bench_options *options = &bench->result.options;
    struct bench_pass *best = &bench->result.passes[bench->result.pass_count++];
    for (uint32_t i = 0; i < options->repeat; i++) {
        struct bench_pass pass = {.streams = batch, .way = way};
        pass.tokens = batch > 0 ? (uint64_t)batch * options->gen : options->prompt;
        kernels_times_begin(bench->kernels);
        pass.us = (double)bench_run_once(bench, batch, from);
        pass.count = kernels_times_end(bench->kernels, pass.times);
        if (i == 0 || pass.us < best->us)
            *best = pass;
    }
}

/* Streams are prefilled once; each run overwrites the same positions. Operations are timed in runs
 * of their own, which count in no rate. */
static enum status bench_measure(struct bench *bench, uint32_t batch, struct bench_rate *out)
{
    const struct bench_options *options = &bench->result.options;
    double tokens = batch > 0 ? (double)batch * options->gen : (double)options->prompt;
    double seconds[BENCH_REPEAT_MAX];
    if (batch == 0)
        bench_prefill(bench, 0, 0, options->prefill_at);
    for (uint32_t s = 0; s < batch; s++)
        bench_prefill(bench, s, 0, bench->context_start);
    for (uint32_t i = 0; i < bench_warm_ups(bench); i++)
        (void)bench_run_once(bench, batch, bench->context_start);
    for (uint32_t i = 0; i < options->repeat; i++) {
        seconds[i] = bench_run_seconds(bench, batch, bench->context_start);
        TRY(bench_moment(bench)); /* after warm-ups too: they take the longest */
    }
    if (options->wants_ops)
        bench_time(bench, batch, bench->context_start, BENCH_WAYS);
    *out = bench_rate(tokens, seconds, options->repeat);
    return STATUS_OK;
}

/* Gives the streams the whole pages of the shared prefix: those of stream 0, or each its own. */
static void bench_share(struct bench *bench, uint32_t batch, enum bench_way way)
{
    static struct attention_groups groups;
    uint32_t pages = bench->result.options.shared / bench->layout.page_tokens;
    uint32_t keys = bench->result.options.shared / ATTENTION_BLOCK_KEYS * ATTENTION_BLOCK_KEYS;
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

/* The ways take turns, so that a disturbance affects all of them. */
static enum status bench_measure_shared(struct bench *bench, uint32_t index)
{
    const struct bench_options *options = &bench->result.options;
    double seconds[BENCH_WAYS][BENCH_REPEAT_MAX];
    uint32_t batch = options->batches[index];
    for (uint32_t s = 0; s < batch; s++)
        bench_prefill(bench, s, 0, options->shared);
    const uint32_t warm_ups = bench_warm_ups(bench);
    for (uint32_t i = 0; i < warm_ups + options->repeat; i++) {
        for (int way = 0; way < BENCH_WAYS; way++) {
            bench_share(bench, batch, (enum bench_way)way);
            if (i < warm_ups)
                (void)bench_run_once(bench, batch, options->shared);
            else
                seconds[way][i - warm_ups] = bench_run_seconds(bench, batch, options->shared);
        }
        TRY(bench_moment(bench)); /* after warm-ups too: they take the longest */
    }
    for (int way = 0; options->wants_ops && way < BENCH_WAYS; way++) {
        bench_share(bench, batch, (enum bench_way)way);
        bench_time(bench, batch, options->shared, (enum bench_way)way);
    }
    bench_share(bench, batch, BENCH_PRIVATE);
    for (int way = 0; way < BENCH_WAYS; way++)
        bench->result.shared[way][index] =
            bench_rate((double)batch * options->gen, seconds[way], options->repeat);
    return STATUS_OK;
}

/* --- opening --- */

static enum status bench_open_pages(struct bench *bench, const struct model_config *config)
{
    const struct bench_options *options = &bench->result.options;
    uint32_t half = options->gen / 2;
    bench->context_start = options->context > half ? options->context - half : 0;
    uint32_t start =
        bench->context_start > options->shared ? bench->context_start : options->shared;
    uint64_t keys = (uint64_t)start + options->gen;
    if (keys < (uint64_t)options->prefill_at + options->prompt)
        keys = (uint64_t)options->prefill_at + options->prompt;
    if (keys > config->context)
        FAIL(STATUS_OUT_OF_RANGE,
             "--prompt, --prefill-at, --gen, --context, --shared: %llu tokens, the model's "
             "context is %u",
             (unsigned long long)keys, config->context);
    const uint32_t page_tokens = kernels_page_tokens(bench->kernels);
    bench->pages_each = (uint32_t)((keys + page_tokens - 1) / page_tokens);
    TRY(kernels_kv_layout(bench->kernels, options->kv_type, page_tokens, config->layers,
                          config->kv_heads, config->head_dim, &bench->layout));
    bench->result.token_bytes = bench->layout.page_bytes / page_tokens;
    size_t total = (size_t)bench->batch_max * bench->pages_each;
    size_t bytes;
    if (__builtin_mul_overflow(total, bench->layout.page_bytes + bench->layout.open_bytes, &bytes))
        FAIL(STATUS_NO_MEMORY, "the pages of %u streams do not fit memory", bench->batch_max);
    bench->pages = kernels_buffer_create(bench->kernels, total * bench->layout.page_bytes);
    if (bench->pages != NULL && bench->layout.open_bytes > 0)
        bench->open = kernels_buffer_create(bench->kernels, total * bench->layout.open_bytes);
    if (bench->pages == NULL || (bench->open == NULL && bench->layout.open_bytes > 0))
        return kernels_no_memory(bench->kernels, bytes, "KV pages");
    bench->open_of = mem_zalloc(bench->rows_max, sizeof *bench->open_of);
    bench->page_ids = mem_zalloc(total, sizeof *bench->page_ids);
    bench->page_tables = mem_zalloc(bench->batch_max, sizeof *bench->page_tables);
    bench->tokens = mem_zalloc(bench->rows_max, sizeof *bench->tokens);
    bench->sequences = mem_zalloc(bench->rows_max, sizeof *bench->sequences);
    bench->positions = mem_zalloc(bench->rows_max, sizeof *bench->positions);
    bench->logit_row = mem_zalloc(bench->rows_max, sizeof *bench->logit_row);
    bench->order = mem_zalloc(bench->batch_max, sizeof *bench->order);
    bench->shared = mem_zalloc(bench->batch_max, sizeof *bench->shared);
    if (bench->open_of == NULL || bench->page_ids == NULL || bench->page_tables == NULL ||
        bench->tokens == NULL || bench->sequences == NULL || bench->positions == NULL ||
        bench->logit_row == NULL || bench->order == NULL || bench->shared == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu MiB of pages", bytes >> 20);
    for (size_t i = 0; i < total; i++)
        bench->page_ids[i] = (uint32_t)i;
    for (uint32_t s = 0; s < bench->batch_max; s++)
        bench->page_tables[s] = bench->page_ids + (size_t)s * bench->pages_each;
    return STATUS_OK;
}

/* Returns the bytes that a tensor has as packed; of one that became codes, the same share of its
 * bytes in the file as of all matrices that did. */
static double bench_packed_bytes(const struct bench *bench, const struct tensor *tensor)
{
    const struct model_codes_sums *codes = &bench->result.codes;
    const double bytes = (double)tensor->bytes;
    if (codes->file_bytes == 0 || !model_codes_takes(bench->result.options.weights, tensor->type))
        return bytes;
    return bytes * (double)codes->bytes / (double)codes->file_bytes;
}

/* Returns the bytes of the tensors {columns, rows, experts}. */
static uint64_t bench_experts_bytes(const struct bench *bench, const struct model_source *source)
{
    double bytes = 0;
    for (uint32_t i = 0; i < model_source_tensor_count(source); i++) {
        struct tensor tensor;
        model_source_tensor_at(source, i, NULL, &tensor);
        if (tensor.dims[2] > 1)
            bytes += bench_packed_bytes(bench, &tensor);
    }
    return (uint64_t)bytes;
}

/* Bytes of weights that a decode step of one row reads. With an output layer of its own, a model
 * reads only the embeddings of the step's tokens; with experts, only those that the row uses. */
static void bench_open_weights(struct bench *bench, const struct model_source *source,
                               const struct model_config *config)
{
    const struct model_source_name embedding = {"token_embd.weight", "model.embed_tokens.weight"};
    const struct model_source_name output = {"output.weight", "lm_head.weight"};
    char names[2][MODEL_SOURCE_NAME_BYTES];
    struct tensor tensor;
    bench->result.codes = *model_codes_sums(bench->model);
    bench->result.step_bytes =
        config->weight_bytes - bench->result.codes.file_bytes + bench->result.codes.bytes;
    model_source_tensor_name(source, output, MODEL_SOURCE_NO_LAYER, names[0]);
    model_source_tensor_name(source, embedding, MODEL_SOURCE_NO_LAYER, names[1]);
    if (model_source_get_tensor(source, names[0], &tensor) == STATUS_OK &&
        model_source_get_tensor(source, names[1], &tensor) == STATUS_OK)
        bench->result.step_bytes -= bench->result.options.weights == MODEL_WEIGHTS_Q8
                                        ? (uint64_t)bench_packed_bytes(bench, &tensor)
                                        : tensor.bytes;
    if (config->experts > 0) {
        bench->result.experts_bytes = bench_experts_bytes(bench, source);
        bench->result.step_bytes -= bench->result.experts_bytes / config->experts *
                                    (config->experts - config->experts_used);
    }
}

/* Whether most products of weights are of integers, which depends on their types and the kernels:
 * then that ceiling counts. */
static bool bench_is_int8(struct bench *bench)
{
    static struct kernels_time times[KERNELS_TIMES_MAX];
    uint64_t int8 = 0;
    uint64_t f32 = 0;
    kernels_times_begin(bench->kernels);
    bench_prefill(bench, 0, 0, 1);
    uint32_t count = kernels_times_end(bench->kernels, times);
    for (uint32_t i = 0; i < count; i++)
        if (times[i].outputs > 0) {
            int8 += times[i].int8_operations;
            f32 += times[i].f32_operations;
        }
    return int8 > f32;
}

static enum status bench_open(struct bench *bench, const struct model_source *source,
                              int64_t begin_us)
{
    const struct bench_options *options = &bench->result.options;
    struct model_config config;
    struct model_share whole;
    TRY(model_config_read(&config, source));
    TRY(model_config_check_kv(&config, options->kv_type));
    TRY(model_share_of(&whole, &config, 0, 1));
    bench->batch_max = 1;
    for (uint32_t i = 0; i < options->batch_count; i++)
        if (options->batches[i] > bench->batch_max)
            bench->batch_max = options->batches[i];
    bench->rows_max = options->chunk > bench->batch_max ? options->chunk : bench->batch_max;
    TRY(kernels_create(&bench->kernels,
                       &(struct kernels_options){.isa = options->isa,
                                                 .threads = options->threads,
                                                 .device = options->device,
                                                 .is_free = options->is_free,
                                                 .trial = options->trial,
                                                 .rows_max = bench->rows_max,
                                                 .cols_max = model_cols_max(&config)}));
    const struct model_options model_options = {.rows_max = bench->rows_max,
                                                .logit_rows_max = bench->batch_max,
                                                .weights = options->weights};
    TRY(model_open_share(&bench->model, bench->kernels, source, &model_options, &whole));
    if (options->wants_ops && kernels_is_device(bench->kernels))
        FAIL(STATUS_UNSUPPORTED, "--ops: a device has no times of single operations");
    if (kernels_trial_is_set(&options->trial) && !kernels_is_device(bench->kernels))
        FAIL(STATUS_UNSUPPORTED,
             "--no-early, --no-graphs, --few-stages and --carveout are for kernels of a device");
    bench->result.ready_seconds = (double)(clock_mono_us(clock_system()) - begin_us) / 1e6;
    bench_open_weights(bench, source, &config);
    TRY(bench_open_pages(bench, &config));
    bench->result.model = model_config(bench->model);
    bench->result.isa = kernels_isa(bench->kernels);
    bench->result.is_device = kernels_is_device(bench->kernels);
    bench->result.threads = kernels_threads(bench->kernels);
    bench->result.processors = kernels_processors();
    bench->result.mean_context = bench->context_start + options->gen / 2;
    return STATUS_OK;
}

static void bench_close(struct bench *bench)
{
    mem_free(bench->page_ids);
    mem_free(bench->page_tables);
    mem_free(bench->open_of);
    mem_free(bench->tokens);
    mem_free(bench->sequences);
    mem_free(bench->positions);
    mem_free(bench->logit_row);
    mem_free(bench->order);
    mem_free(bench->shared);
    if (bench->pages != NULL)
        kernels_buffer_destroy(bench->kernels, bench->pages);
    if (bench->open != NULL)
        kernels_buffer_destroy(bench->kernels, bench->open);
    model_close(bench->model);
    if (bench->kernels != NULL)
        kernels_destroy(bench->kernels);
}

static enum status bench_all(struct bench *bench, FILE *out)
{
    struct model_source source;
    const int64_t begin_us = clock_mono_us(clock_system());
    TRY(model_source_open(&source, bench->result.options.model));
    enum status status = bench_open(bench, &source, begin_us);
    model_source_close(&source);
    TRY(status);
    const struct bench_machine begin = bench_machine_now();
    struct bench_result *result = &bench->result;
    result->is_int8 = bench_is_int8(bench);
    TRY(bench_moment(bench)); /* after warm-ups too: they take the longest */
    TRY(bench_measure(bench, 0, &result->prefill));
    for (uint32_t i = 0; i < result->options.batch_count; i++)
        TRY(bench_measure(bench, result->options.batches[i], &result->decode[i]));
    for (uint32_t i = 0; result->options.shared > 0 && i < result->options.batch_count; i++)
        TRY(bench_measure_shared(bench, i));
    result->captures = kernels_measure_captures(bench->kernels);
    const struct bench_machine end = bench_machine_now();
    result->others = bench_machine_others(&begin, &end);
    return bench_report_print(result, out);
}

enum status bench_run(int count, char *const *arguments, FILE *out)
{
    struct bench bench = {.result = {.load = -1}};
    (void)getloadavg(&bench.result.load, 1);
    TRY(options_parse(&bench.result.options, count, arguments));
    if (bench.result.options.is_help)
        return fputs(BENCH_HELP, out) >= 0
                   ? STATUS_OK
                   : status_fail(STATUS_IO, __FILE__, __LINE__, NULL, "the help cannot be written");
    if (bench.result.options.speculation != ENGINE_SPECULATION_OFF)
        return bench_speculate(&bench.result.options, out);
    enum status status = bench_all(&bench, out);
    bench_close(&bench);
    return status;
}
