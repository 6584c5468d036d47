/* parity_tiny: generated models of every architecture against transformers and llama.cpp.
 *
 * usage: parity_tiny files | ref | folders | mutants | bits [model]
 *   files    keys and tensors of the kit's GGUF files, equal to those of llama.cpp's converter
 *   ref      log-probabilities of the table `ref`, within 1e-4 of those of transformers
 *   folders  the same of Hugging Face directories whose config.json transformers wrote
 *   mutants  one thing about a model changed: at least 20 times that bound from its golden
 *   bits     logits of fast tables: equal bits to those of ref_int8, over batches of 1 to 32 rows,
 *            chunks and threads; two tables for each model, all with BANYAN_TEST_ALL
 * Each prints its figures with their counts as JSON lines and fails when a bound is broken. Run
 * from the repository root.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/rng.h"
#include "tests/kit/model_run.h"
#include "tests/kit/rounds.h"
#include "tests/kit/tiny_folder.h"
#include "tests/parity/tiny_golden.h"
#include "tests/parity/tiny_mutant.h"

#define BOUND         1e-4
#define MUTANT_BOUNDS 20

enum { ROWS = 64, SEQUENCES = 32, TEXT = 40 };

static const char *only; /* a model's name, or NULL */

static bool is_wanted(const char *name)
{
    return only == NULL || strcmp(only, name) == 0;
}

static _Noreturn void die(const char *name, const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", name, what, status_note()->message);
    exit(1);
}

/* --- files --- */

static uint64_t digest(const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3;
    return hash;
}

/* Whether a tensor has the converter's type, shape and bytes, or, where these are `values` that it
 * computed, the same numbers within 1e-6 of each. */
static bool is_same_tensor(const struct gguf *gguf, const char *name, const json_t *want,
                           const json_t *values)
{
    struct tensor tensor;
    char hex[17];
    if (gguf_get_tensor(gguf, name, &tensor) != STATUS_OK)
        return false;
    const json_t *dims = json_array_get(want, 1);
    bool is_same = strcasecmp(tensor.type->name, json_string_value(json_array_get(want, 0))) == 0 &&
                   tensor.dim_count == json_array_size(dims);
    for (uint32_t d = 0; is_same && d < tensor.dim_count; d++)
        is_same = tensor.dims[d] == (uint64_t)json_integer_value(json_array_get(dims, d));
    if (!is_same)
        return false;
    if (values == NULL) {
        snprintf(hex, sizeof hex, "%016" PRIx64, digest(tensor.data, (size_t)tensor.bytes));
        return strcmp(hex, json_string_value(json_array_get(want, 2))) == 0;
    }
    for (uint64_t i = 0; i < tensor.dims[0]; i++) {
        double value = json_real_value(json_array_get(values, i));
        is_same &= fabs((double)((const float *)tensor.data)[i] - value) <= 1e-6 * fabs(value);
    }
    return is_same;
}

static bool is_same_array(const struct gguf *gguf, const char *key, const json_t *value)
{
    struct gguf_array array;
    if (gguf_get_array(gguf, key, &array) != STATUS_OK || array.count != json_array_size(value))
        return false;
    for (size_t i = 0; i < array.count; i++)
        if ((array.cursor[i] != 0) != json_is_true(json_array_get(value, i)))
            return false;
    return true;
}

static bool is_same_key(const struct gguf *gguf, const char *key, const json_t *want)
{
    const char *type = json_string_value(json_array_get(want, 0));
    const json_t *value = json_array_get(want, 1);
    if (strcmp(type, "UINT32") == 0) {
        uint32_t number;
        return gguf_get_u32(gguf, key, &number) == STATUS_OK && number == json_integer_value(value);
    }
    if (strcmp(type, "FLOAT32") == 0) {
        float number;
        return gguf_get_f32(gguf, key, &number) == STATUS_OK &&
               fabs((double)number - json_number_value(value)) <= 1e-6 * fabs((double)number);
    }
    if (strcmp(type, "STRING") == 0) {
        struct slice text;
        return gguf_get_string(gguf, key, &text) == STATUS_OK &&
               slice_is(text, json_string_value(value));
    }
    return strcmp(type, "ARRAY+BOOL") == 0 && is_same_array(gguf, key, value);
}

static uint32_t wrong_parts(const struct tiny_golden *golden, const struct gguf *gguf)
{
    json_t *keys = json_object_get(golden->json, "keys");
    json_t *tensors = json_object_get(golden->json, "tensors");
    const json_t *values = json_object_get(golden->json, "values");
    uint32_t wrong = 0;
    const char *name;
    json_t *want;
    json_object_foreach(keys, name, want)
    {
        if (is_same_key(gguf, name, want))
            continue;
        fprintf(stderr, "%s: key %s differs\n", golden->model->name, name);
        wrong++;
    }
    json_object_foreach(tensors, name, want)
    {
        if (is_same_tensor(gguf, name, want, json_object_get(values, name)))
            continue;
        fprintf(stderr, "%s: tensor %s differs\n", golden->model->name, name);
        wrong++;
    }
    return wrong;
}

static bool check_file(const struct tiny_model *model)
{
    struct tiny_golden golden;
    struct gguf_writer writer;
    struct buffer file;
    struct gguf *gguf;
    tiny_golden_open(&golden, model);
    gguf_writer_init(&writer);
    tiny_model_write(&writer, model);
    gguf_writer_finish(&writer, &file);
    if (gguf_parse(&gguf, file.bytes, file.length) != STATUS_OK)
        die(model->name, "reading the file");
    const size_t keys = json_object_size(json_object_get(golden.json, "keys"));
    const size_t tensors = json_object_size(json_object_get(golden.json, "tensors"));
    uint32_t wrong = wrong_parts(&golden, gguf);
    bool is_whole = writer.key_count == keys && writer.tensor_count == tensors;
    printf("{\"check\":\"files\",\"model\":\"%s\",\"keys\":%" PRIu64 ",\"keys_expected\":%zu,"
           "\"tensors\":%" PRIu64 ",\"tensors_expected\":%zu,\"wrong\":%u}\n",
           model->name, writer.key_count, keys, writer.tensor_count, tensors, wrong);
    gguf_close(gguf);
    buffer_deinit(&file);
    gguf_writer_deinit(&writer);
    tiny_golden_close(&golden);
    return wrong == 0 && is_whole && tensors > 0;
}

/* --- ref --- */

/* The converter drops Mistral's window, which the golden has; a file may say it nevertheless. */
static struct tiny_model served(const struct tiny_model *model)
{
    struct tiny_model own = *model;
    if (strcmp(own.name, "mistral") == 0)
        own.window = 16;
    return own;
}

static void open_run(struct model_run *run, const struct tiny_model *model,
                     const struct model_run_options *options)
{
    struct buffer file;
    struct gguf *gguf;
    tiny_model_build(model, &file);
    if (gguf_parse(&gguf, file.bytes, file.length) != STATUS_OK ||
        model_run_open(run, gguf, options) != STATUS_OK)
        die(model->name, "opening the model");
    gguf_close(gguf);
    buffer_deinit(&file);
}

/* Returns how far the table `ref` is from the golden with a model. */
static double difference_of(const struct tiny_golden *golden, const struct tiny_model *model)
{
    struct model_run run;
    open_run(&run, model,
             &(struct model_run_options){.isa = "ref",
                                         .threads = 1,
                                         .kv_type = KV_TYPE_F32,
                                         .rows_max = ROWS,
                                         .sequences = 1,
                                         .tokens_max = ROWS});
    const float *logits = model_run_chunk(&run, 0, 0, golden->tokens, TINY_GOLDEN_TOKENS);
    double difference = tiny_golden_difference(golden, logits);
    model_run_close(&run);
    return difference;
}

static bool check_ref(const struct tiny_model *model)
{
    struct tiny_golden golden;
    struct tiny_model own = served(model);
    tiny_golden_open(&golden, model);
    double difference = difference_of(&golden, &own);
    bool is_near = difference <= BOUND;
    printf("{\"check\":\"ref\",\"model\":\"%s\",\"positions\":%u,\"difference\":%.2e%s}\n",
           model->name, golden.positions, difference, is_near ? "" : ",\"broken\":true");
    tiny_golden_close(&golden);
    return is_near;
}

/* --- folders --- */

static bool check_folder(const struct tiny_model *model)
{
    struct tiny_golden golden;
    struct hf_writer folder;
    struct model_source source;
    struct model_run run;
    tiny_golden_open(&golden, model);
    char *config = json_dumps(json_object_get(golden.json, "config"), 0);
    hf_writer_init(&folder);
    tiny_folder_write(&folder, model, 2, TINY_SPELLING_NEW);
    hf_writer_file(&folder, "config.json", slice_of(config));
    const struct model_run_options options = {.isa = "ref",
                                              .threads = 1,
                                              .kv_type = KV_TYPE_F32,
                                              .rows_max = ROWS,
                                              .sequences = 1,
                                              .tokens_max = ROWS};
    if (model_source_open(&source, folder.path) != STATUS_OK ||
        model_run_open_source(&run, &source, &options) != STATUS_OK)
        die(model->name, "opening the directory");
    const float *logits = model_run_chunk(&run, 0, 0, golden.tokens, TINY_GOLDEN_TOKENS);
    const double difference = tiny_golden_difference(&golden, logits);
    const bool is_near = difference <= BOUND;
    printf("{\"check\":\"folders\",\"model\":\"%s\",\"positions\":%u,\"difference\":%.2e%s}\n",
           model->name, golden.positions, difference, is_near ? "" : ",\"broken\":true");
    model_run_close(&run);
    model_source_close(&source);
    hf_writer_deinit(&folder);
    free(config);
    tiny_golden_close(&golden);
    return is_near;
}

/* --- mutants: what an engine that overlooks one thing would compute --- */

static void add_scale(struct tiny_model *model, const char *suffix, float scale, float add)
{
    uint32_t i = 0;
    while (model->scales[i].suffix != NULL)
        i++;
    if (i == TINY_SCALES)
        abort();
    model->scales[i] = (struct tiny_scale){suffix, scale, add};
}

static void halves_paired(struct tiny_model *model)
{
    model->is_unpermuted = true;
}

static void no_rope_freqs(struct tiny_model *model)
{
    model->has_no_rope_freqs = true;
}

static void no_window(struct tiny_model *model)
{
    model->window = 0;
}

static void window_off_by_one(struct tiny_model *model)
{
    model->window++;
}

static void biases_of_zero(struct tiny_model *model)
{
    add_scale(model, "proj.bias", 0, 0);
}

static void no_score_cap(struct tiny_model *model)
{
    model->attention_softcap = 1e6f;
}

static void no_logit_cap(struct tiny_model *model)
{
    model->logit_softcap = 1e6f;
}

static void local_base_global(struct tiny_model *model)
{
    model->rope_base_local = model->rope_base;
}

static void rope_not_scaled(struct tiny_model *model)
{
    model->rope = TINY_ROPE_PLAIN;
}

static void up_first(struct tiny_model *model)
{
    model->is_up_first = true;
}

static void factors_swapped(struct tiny_model *model)
{
    model->has_factors_swapped = true;
}

static void no_sinks(struct tiny_model *model)
{
    add_scale(model, "self_attn.sinks", 0, -1000);
}

static void row_unscaled(struct arch *row)
{
    row->features &= ~(uint32_t)ARCH_EMBED_SCALE;
}

static void row_normalised(struct arch *row)
{
    row->features ^= ARCH_NORMALISED;
}

static void row_rounded(struct arch *row)
{
    row->features &= ~(uint32_t)ARCH_YARN_NOT_ROUNDED;
}

static void row_all_roped(struct arch *row)
{
    row->nope_period = 0;
}

static void row_silu(struct arch *row)
{
    row->act = ACT_SILU_MUL;
}

static void row_pairs_neighbours(struct arch *row)
{
    row->pairing = ROPE_INTERLEAVED;
}

/* A change of the model's file, or of what the decoder does. */
struct mutant {
    const char *model;
    const char *what;
    void (*change)(struct tiny_model *model);
    struct tiny_mutant decoder;
};

static const struct mutant MUTANTS[] = {
    {"llama", "rope pairs halves", halves_paired, {0}},
    {"llama", "rope without factors", no_rope_freqs, {0}},
    {"mistral", "no window", no_window, {0}},
    {"mistral", "window off by one", window_off_by_one, {0}},
    {"qwen2", "no biases", biases_of_zero, {0}},
    {"gemma2", "no score cap", no_score_cap, {0}},
    {"gemma2", "no logit cap", no_logit_cap, {0}},
    {"gemma2", "window off by one", window_off_by_one, {0}},
    {"gemma3", "local base as the global one", local_base_global, {0}},
    {"gemma3", "window off by one", window_off_by_one, {0}},
    {"gemma3_linear", "rope not scaled", rope_not_scaled, {0}},
    {"phi3_long", "up before gate", up_first, {0}},
    {"phi3_long", "short factors", factors_swapped, {0}},
    {"phi3_short", "long factors", factors_swapped, {0}},
    {"olmo3", "window off by one", window_off_by_one, {0}},
    {"gpt_oss", "no sinks", no_sinks, {0}},
    {"gpt_oss", "window off by one", window_off_by_one, {0}},
    {"qwen3", "norm behind rope", NULL, {.has_norm_behind_rope = true}},
    {"gemma3", "norm behind rope", NULL, {.has_norm_behind_rope = true}},
    {"qwen2", "rope pairs neighbours", NULL, {.row = row_pairs_neighbours}},
    {"mixtral", "weights not normalised", NULL, {.row = row_normalised}},
    {"qwen3moe", "weights not normalised", NULL, {.row = row_normalised}},
    {"olmoe", "weights normalised", NULL, {.row = row_normalised}},
    {"gpt_oss", "weights not normalised", NULL, {.row = row_normalised}},
    {"gemma", "embedding not scaled", NULL, {.row = row_unscaled}},
    {"gemma", "SiLU in place of GELU", NULL, {.row = row_silu}},
    {"gemma2", "embedding not scaled", NULL, {.row = row_unscaled}},
    {"olmo2", "norm per head", NULL, {.head_dim = 32}},
    {"olmoe", "norm per head", NULL, {.head_dim = 32}},
    {"gpt_oss", "no clamp", NULL, {.has_no_clamp = true}},
    {"gpt_oss", "up without 1", NULL, {.has_no_one = true}},
    {"gpt_oss", "rope not multiplied", NULL, {.has_no_rope_factor = true}},
    {"gpt_oss", "YaRN's range rounded", NULL, {.row = row_rounded}},
    {"phi3_long", "rope not multiplied", NULL, {.has_no_rope_factor = true}},
    {"smollm3", "rope in all layers", NULL, {.row = row_all_roped}},
};

static bool check_mutant(const struct mutant *mutant)
{
    const struct tiny_model *model = tiny_model_find(mutant->model);
    struct tiny_golden golden;
    if (model == NULL)
        die(mutant->model, "no such model");
    struct tiny_model own = served(model);
    tiny_golden_open(&golden, model);
    if (mutant->change != NULL)
        mutant->change(&own);
    tiny_mutant = mutant->decoder;
    double difference = difference_of(&golden, &own);
    tiny_mutant = (struct tiny_mutant){0};
    bool is_far = difference >= MUTANT_BOUNDS * BOUND;
    printf("{\"check\":\"mutants\",\"model\":\"%s\",\"change\":\"%s\",\"difference\":%.2e%s}\n",
           model->name, mutant->what, difference, is_far ? "" : ",\"broken\":true");
    tiny_golden_close(&golden);
    return is_far;
}

/* --- bits --- */

/* Texts of many sequences and their logits under ref_int8, each text alone and in one call. */
static uint32_t texts[SEQUENCES][TEXT];
static float expected[SEQUENCES][TEXT][TINY_VOCAB];

struct batch {
    uint32_t rows;
    uint32_t sequences[ROWS];
    uint32_t positions[ROWS];
    uint32_t tokens[ROWS];
};

struct schedule {
    struct model_run run;
    struct rng rng;
    uint32_t done[SEQUENCES]; /* tokens of each text that were computed */
    uint32_t compared;
    uint32_t wrong;
};

static void add_rows(struct schedule *schedule, struct batch *batch, uint32_t sequence,
                     uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t position = schedule->done[sequence]++;
        batch->sequences[batch->rows] = sequence;
        batch->positions[batch->rows] = position;
        batch->tokens[batch->rows++] = texts[sequence][position];
    }
}

static void run_batch(struct schedule *schedule, const struct batch *batch)
{
    const float *logits = model_run_batch(&schedule->run, batch->rows, batch->sequences,
                                          batch->positions, batch->tokens);
    for (uint32_t r = 0; r < batch->rows; r++)
        schedule->wrong +=
            memcmp(logits + (size_t)r * TINY_VOCAB,
                   expected[batch->sequences[r]][batch->positions[r]], sizeof expected[0][0]) != 0;
    schedule->compared += batch->rows;
}

/* Runs batches of 1 to 32 rows of as many sequences, then random chunks until all texts are
 * over. */
static void run_schedule(struct schedule *schedule)
{
    struct batch batch;
    for (uint32_t rows = 1; rows <= SEQUENCES; rows++) {
        batch.rows = 0;
        for (uint32_t s = 0; s < rows; s++)
            add_rows(schedule, &batch, s, 1);
        run_batch(schedule, &batch);
    }
    do {
        uint32_t first = (uint32_t)rng_below(&schedule->rng, SEQUENCES);
        batch.rows = 0;
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            uint32_t s = (first + i) % SEQUENCES;
            uint32_t most = TEXT - schedule->done[s];
            uint32_t chunk = 1 + (uint32_t)rng_below(&schedule->rng, 24);
            chunk = chunk < most ? chunk : most;
            chunk = chunk < ROWS - batch.rows ? chunk : ROWS - batch.rows;
            add_rows(schedule, &batch, s, chunk);
        }
        if (batch.rows > 0)
            run_batch(schedule, &batch);
    } while (batch.rows > 0);
}

static struct model_run_options bits_options(const char *isa, uint32_t threads)
{
    return (struct model_run_options){.isa = isa,
                                      .threads = threads,
                                      .kv_type = KV_TYPE_F16,
                                      .rows_max = ROWS,
                                      .sequences = SEQUENCES,
                                      .tokens_max = TEXT};
}

static void expect(const struct tiny_model *model)
{
    struct model_run run;
    const struct model_run_options options = bits_options("ref_int8", 1);
    open_run(&run, model, &options);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t t = 0; t < TEXT; t++)
            texts[s][t] = (uint32_t)(rng_at(s, 7, t) % TINY_VOCAB);
        memcpy(expected[s], model_run_chunk(&run, s, 0, texts[s], TEXT), sizeof expected[s]);
    }
    model_run_close(&run);
}

/* Runs one table with 1 to 3 threads. */
static bool check_table(const struct tiny_model *model, const char *isa, uint32_t number)
{
    static struct schedule schedule;
    const struct model_run_options options = bits_options(isa, number % 3 + 1);
    schedule = (struct schedule){.rng = {.seed = 1 + number}};
    open_run(&schedule.run, model, &options);
    run_schedule(&schedule);
    model_run_close(&schedule.run);
    printf("{\"check\":\"bits\",\"model\":\"%s\",\"isa\":\"%s\",\"threads\":%u,\"rows\":%u,"
           "\"rows_different\":%u}\n",
           model->name, isa, options.threads, schedule.compared, schedule.wrong);
    return schedule.wrong == 0 && schedule.compared == SEQUENCES * TEXT;
}

/* Every table, or one of them by turns. */
static bool check_bits(const struct tiny_model *model)
{
    static uint32_t models;
    const struct tiny_model own = served(model);
    const char *tables[16];
    uint32_t count = 0;
    bool is_equal = true;
    for (const char *const *isa = kernels_built(); *isa != NULL && count < 16; isa++)
        if (strcmp(*isa, "ref") != 0 && strcmp(*isa, "cuda") != 0 && kernels_can_run(*isa))
            tables[count++] = *isa;
    expect(&own);
    const uint32_t taken = rounds(count < 1 ? count : 1, count);
    for (uint32_t i = 0; i < taken; i++)
        is_equal &= check_table(&own, tables[(models + i) % count], models + i);
    models++;
    return is_equal && count > 0;
}

/* --- the program --- */

static int check_all(bool (*check)(const struct tiny_model *model))
{
    bool holds = true;
    uint32_t checked = 0;
    for (uint32_t i = 0; i < tiny_model_count(); i++)
        if (is_wanted(tiny_model_at(i)->name)) {
            holds &= check(tiny_model_at(i));
            checked++;
        }
    return holds && checked > 0 ? 0 : 1;
}

static int check_mutants(void)
{
    bool holds = true;
    for (size_t i = 0; i < sizeof MUTANTS / sizeof MUTANTS[0]; i++)
        if (is_wanted(MUTANTS[i].model))
            holds &= check_mutant(&MUTANTS[i]);
    return holds ? 0 : 1;
}

int main(int argc, char **argv)
{
    only = argc > 2 ? argv[2] : NULL;
    if (argc >= 2 && strcmp(argv[1], "files") == 0)
        return check_all(check_file);
    if (argc >= 2 && strcmp(argv[1], "ref") == 0)
        return check_all(check_ref);
    if (argc >= 2 && strcmp(argv[1], "folders") == 0)
        return check_all(check_folder);
    if (argc >= 2 && strcmp(argv[1], "mutants") == 0)
        return check_mutants();
    if (argc >= 2 && strcmp(argv[1], "bits") == 0)
        return check_all(check_bits);
    fprintf(stderr, "usage: parity_tiny files | ref | folders | mutants | bits [model]\n");
    return 2;
}
