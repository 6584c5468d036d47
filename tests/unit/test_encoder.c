/* Encoders: the model against its formulas in double, and through an engine. */
#include "engine/models/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_show.h"
#include "kernels/kernels_measure.h"
#include "tests/kit/bert_folder.h"
#include "tests/kit/engine_run.h"
#include "tests/kit/model_run.h"

enum { TEXTS = 40, LONGEST = BERT_CONTEXT, HEAD = BERT_WIDTH / BERT_HEADS };

static struct hf_writer folder;
static uint32_t texts[TEXTS][LONGEST];

static uint32_t length_of(uint32_t text)
{
    return 1 + text * 41 % LONGEST;
}

static void fill(void)
{
    for (uint32_t t = 0; t < TEXTS; t++)
        for (uint32_t i = 0; i < length_of(t); i++)
            texts[t][i] = (t * 7 + i * (3 + t % 5)) % BERT_VOCAB;
}

/* --- the judge: Devlin et al. 2019, in double --- */

struct rows {
    double x[LONGEST][BERT_HIDDEN];
};

static void judge_norm(struct rows *rows, uint32_t count, const char *prefix)
{
    char name[2][128];
    snprintf(name[0], sizeof name[0], "%s.weight", prefix);
    snprintf(name[1], sizeof name[1], "%s.bias", prefix);
    for (uint32_t r = 0; r < count; r++) {
        double mean = 0;
        double variance = 0;
        for (uint32_t i = 0; i < BERT_WIDTH; i++)
            mean += rows->x[r][i] / BERT_WIDTH;
        for (uint32_t i = 0; i < BERT_WIDTH; i++)
            variance += (rows->x[r][i] - mean) * (rows->x[r][i] - mean) / BERT_WIDTH;
        for (uint32_t i = 0; i < BERT_WIDTH; i++)
            rows->x[r][i] = (rows->x[r][i] - mean) / sqrt(variance + 1e-12) *
                                (double)bert_folder_value(name[0], i) +
                            (double)bert_folder_value(name[1], i);
    }
}

static void judge_linear(const struct rows *in, struct rows *out, uint32_t count, uint32_t cols,
                         uint32_t rows, const char *prefix)
{
    char name[2][128];
    snprintf(name[0], sizeof name[0], "%s.weight", prefix);
    snprintf(name[1], sizeof name[1], "%s.bias", prefix);
    for (uint32_t o = 0; o < rows; o++) {
        double weights[BERT_HIDDEN];
        for (uint32_t i = 0; i < cols; i++)
            weights[i] = (double)bert_folder_value(name[0], (uint64_t)o * cols + i);
        for (uint32_t r = 0; r < count; r++) {
            out->x[r][o] = (double)bert_folder_value(name[1], o);
            for (uint32_t i = 0; i < cols; i++)
                out->x[r][o] += weights[i] * in->x[r][i];
        }
    }
}

static void judge_attention(const struct rows *q, const struct rows *k, const struct rows *v,
                            struct rows *out, uint32_t count)
{
    for (uint32_t h = 0; h < BERT_HEADS; h++)
        for (uint32_t r = 0; r < count; r++) {
            double weights[LONGEST];
            double sum = 0;
            for (uint32_t c = 0; c < count; c++) {
                double score = 0;
                for (uint32_t i = h * HEAD; i < (h + 1) * HEAD; i++)
                    score += q->x[r][i] * k->x[c][i];
                weights[c] = exp(score / sqrt(HEAD));
                sum += weights[c];
            }
            for (uint32_t i = h * HEAD; i < (h + 1) * HEAD; i++) {
                out->x[r][i] = 0;
                for (uint32_t c = 0; c < count; c++)
                    out->x[r][i] += weights[c] / sum * v->x[c][i];
            }
        }
}

static void judge_add(struct rows *to, const struct rows *from, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t i = 0; i < BERT_WIDTH; i++)
            to->x[r][i] += from->x[r][i];
}

static void judge_layer(struct rows *x, uint32_t count, int layer)
{
    static struct rows parts[4];
    char name[128];
#define PART(text) (snprintf(name, sizeof name, "encoder.layer.%d." text, layer), name)
    judge_linear(x, &parts[0], count, BERT_WIDTH, BERT_WIDTH, PART("attention.self.query"));
    judge_linear(x, &parts[1], count, BERT_WIDTH, BERT_WIDTH, PART("attention.self.key"));
    judge_linear(x, &parts[2], count, BERT_WIDTH, BERT_WIDTH, PART("attention.self.value"));
    judge_attention(&parts[0], &parts[1], &parts[2], &parts[3], count);
    judge_linear(&parts[3], &parts[0], count, BERT_WIDTH, BERT_WIDTH,
                 PART("attention.output.dense"));
    judge_add(x, &parts[0], count);
    judge_norm(x, count, PART("attention.output.LayerNorm"));
    judge_linear(x, &parts[0], count, BERT_WIDTH, BERT_HIDDEN, PART("intermediate.dense"));
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t i = 0; i < BERT_HIDDEN; i++)
            parts[0].x[r][i] *= 0.5 * (1 + erf(parts[0].x[r][i] / sqrt(2)));
    judge_linear(&parts[0], &parts[1], count, BERT_HIDDEN, BERT_WIDTH, PART("output.dense"));
    judge_add(x, &parts[1], count);
    judge_norm(x, count, PART("output.LayerNorm"));
#undef PART
}

static void judge_run(struct rows *x, const uint32_t *tokens, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t i = 0; i < BERT_WIDTH; i++)
            x->x[r][i] = (double)bert_folder_value("embeddings.word_embeddings.weight",
                                                   (uint64_t)tokens[r] * BERT_WIDTH + i) +
                         (double)bert_folder_value("embeddings.position_embeddings.weight",
                                                   (uint64_t)r * BERT_WIDTH + i) +
                         (double)bert_folder_value("embeddings.token_type_embeddings.weight", i);
    judge_norm(x, count, "embeddings.LayerNorm");
    for (int layer = 0; layer < BERT_LAYERS; layer++)
        judge_layer(x, count, layer);
}

/* --- the model --- */

static void open_run(struct model_run *run, struct model_source *source, const char *isa,
                     enum kv_type kv_type, uint32_t threads)
{
    assert_int_equal(model_source_open(source, folder.path), STATUS_OK);
    const enum status status =
        model_run_open_source(run, source,
                              &(struct model_run_options){.isa = isa,
                                                          .threads = threads,
                                                          .kv_type = kv_type,
                                                          .rows_max = 3 * LONGEST,
                                                          .sequences = 3,
                                                          .tokens_max = LONGEST,
                                                          .has_states = true});
    if (status != STATUS_OK)
        fail_msg("%s", status_note()->message);
    assert_true(model_is_encoder(run->model));
}

static void test_ref_is_the_model(void **state)
{
    static struct rows right;
    struct model_source source;
    struct model_run run;
    (void)state;
    open_run(&run, &source, "ref", KV_TYPE_F32, 1);
    for (uint32_t text = 0; text < TEXTS; text += 6) {
        const uint32_t count = length_of(text);
        judge_run(&right, texts[text], count);
        const float *got = model_run_chunk(&run, 1, 0, texts[text], count);
        assert_ptr_equal(got, model_states(run.model));
        for (uint32_t r = 0; r < count; r++)
            for (uint32_t i = 0; i < BERT_WIDTH; i++)
                assert_float_equal(got[(size_t)r * BERT_WIDTH + i], right.x[r][i], 1e-5);
    }
    model_run_close(&run);
    model_source_close(&source);
}

/* Every table of this machine, one and two threads: alone, and three texts in one batch. */
static void test_same_bits(void **state)
{
    static float first[3][LONGEST * BERT_WIDTH];
    static const uint32_t some[3] = {5, 12, 33};
    bool is_first = true;
    (void)state;
    for (const char *const *isa = kernels_built(); *isa != NULL; isa++) {
        if (!kernels_can_run(*isa) || strcmp(*isa, "ref") == 0 || strcmp(*isa, "cuda") == 0)
            continue;
        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct model_source source;
            struct model_run run;
            uint32_t sequences[3 * LONGEST], positions[3 * LONGEST], tokens[3 * LONGEST];
            uint32_t rows = 0;
            open_run(&run, &source, *isa, KV_TYPE_F16, threads);
            for (uint32_t t = 0; t < 3; t++) {
                const uint32_t count = length_of(some[t]);
                const float *got = model_run_chunk(&run, t, 0, texts[some[t]], count);
                if (is_first)
                    memcpy(first[t], got, count * BERT_WIDTH * sizeof *got);
                assert_memory_equal(got, first[t], count * BERT_WIDTH * sizeof *got);
                for (uint32_t i = 0; i < count; i++, rows++) {
                    sequences[rows] = t;
                    positions[rows] = i;
                    tokens[rows] = texts[some[t]][i];
                }
            }
            is_first = false;
            const float *all = model_run_batch(&run, rows, sequences, positions, tokens);
            for (uint32_t t = 0; t < 3; t++) {
                const uint32_t count = length_of(some[t]);
                assert_memory_equal(all, first[t], count * BERT_WIDTH * sizeof *all);
                all += (size_t)count * BERT_WIDTH;
            }
            model_run_close(&run);
            model_source_close(&source);
        }
    }
    assert_false(is_first);
}

/* --- through an engine --- */

static struct engine_run_transcript told[TEXTS];

static struct engine_options options_of(const char *embeddings)
{
    struct engine_options options = engine_run_options();
    options.model_path = folder.path;
    options.embeddings = embeddings;
    options.isa = "auto";
    options.context = 0;
    options.rows_max = 128;
    return options;
}

static struct engine_request request_of(uint32_t text, enum engine_pooling pooling)
{
    return (struct engine_request){.prompt_kind = ENGINE_PROMPT_TOKENS,
                                   .tokens = texts[text],
                                   .token_count = length_of(text),
                                   .choices = 1,
                                   .sampling = {.temperature = 1, .top_p = 1},
                                   .service_class = SERVICE_CLASS_STANDARD,
                                   .pooling = pooling,
                                   .domain.bytes = {1}};
}

/* What the judge says of a text's embedding. */
static void judge_embed(enum engine_pooling pooling, uint32_t text, double out[BERT_WIDTH])
{
    static struct rows right;
    const uint32_t count = length_of(text);
    const uint32_t from = pooling == ENGINE_POOLING_LAST ? count - 1 : 0;
    const uint32_t to = pooling == ENGINE_POOLING_FIRST ? 1 : count;
    double squares = 0;
    judge_run(&right, texts[text], count);
    memset(out, 0, BERT_WIDTH * sizeof *out);
    for (uint32_t r = from; r < to; r++)
        for (uint32_t i = 0; i < BERT_WIDTH; i++)
            out[i] += right.x[r][i];
    for (uint32_t i = 0; i < BERT_WIDTH; i++)
        squares += out[i] * out[i];
    for (uint32_t i = 0; i < BERT_WIDTH; i++)
        out[i] /= sqrt(squares);
}

static void test_embeddings(void **state)
{
    static const struct {
        const char *word;
        enum engine_pooling pooling;
    } kinds[] = {{"auto", ENGINE_POOLING_MEAN},
                 {"cls", ENGINE_POOLING_FIRST},
                 {"last", ENGINE_POOLING_LAST}};
    static float alone[TEXTS][BERT_WIDTH];
    struct engine_run_transcript *all[TEXTS];
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        const struct engine_options options = options_of(kinds[k].word);
        struct engine *engine = engine_run_open(&options);
        struct engine_info info;
        engine_info(engine, &info);
        assert_int_equal(info.context, BERT_CONTEXT);
        assert_int_equal(info.pooling, kinds[k].pooling);
        for (uint32_t t = 0; t < TEXTS; t++) {
            const struct engine_request request = request_of(t, kinds[k].pooling);
            all[t] = &told[t];
            engine_run_submit(engine, &request, &told[t]);
            engine_run_finish(engine, &all[t], 1);
            assert_int_equal(told[t].embeddings, 1);
            assert_int_equal(told[t].report.cached_tokens, 0);
            memcpy(alone[t], told[t].embedding, sizeof alone[t]);
            double right[BERT_WIDTH];
            double dot = 0;
            judge_embed(kinds[k].pooling, t, right);
            for (uint32_t i = 0; i < BERT_WIDTH; i++)
                dot += right[i] * (double)alone[t][i];
            assert_true(dot > 0.99999);
        }
        for (uint32_t turn = 0; turn < 3; turn++) { /* together */
            for (uint32_t t = 0; t < TEXTS; t++) {
                const struct engine_request request = request_of(t, kinds[k].pooling);
                engine_run_submit(engine, &request, &told[t]);
            }
            engine_run_finish(engine, all, TEXTS);
            for (uint32_t t = 0; t < TEXTS; t++)
                assert_memory_equal(told[t].embedding, alone[t], sizeof alone[t]);
        }
        struct engine_stats stats;
        engine_stats(engine, &stats);
        assert_int_equal(stats.pages_free, stats.pages_total);
        engine_close(engine);
    }
}

static void test_refusals(void **state)
{
    struct engine_options options = options_of("auto");
    struct engine *engine = engine_run_open(&options);
    struct engine_run_transcript *const one = &told[0];
    uint32_t many[BERT_CONTEXT + 1] = {0};
    struct engine_request request = request_of(3, ENGINE_POOLING_NONE);
    (void)state;
    engine_run_submit(engine, &request, &told[0]);
    engine_run_finish(engine, &one, 1);
    assert_int_equal(told[0].note.status, STATUS_UNSUPPORTED);
    request = request_of(3, ENGINE_POOLING_MEAN);
    request.tokens = many;
    request.token_count = BERT_CONTEXT; /* as many as the model has positions */
    engine_run_submit(engine, &request, &told[0]);
    engine_run_finish(engine, &one, 1);
    assert_int_equal(told[0].embeddings, 1);
    request.token_count = BERT_CONTEXT + 1;
    engine_run_submit(engine, &request, &told[0]);
    engine_run_finish(engine, &one, 1);
    assert_int_equal(told[0].note.status, STATUS_CONTEXT_LENGTH);
    request = (struct engine_request){.text = SLICE("A b c"),
                                      .choices = 1,
                                      .sampling = {.temperature = 1, .top_p = 1},
                                      .service_class = SERVICE_CLASS_STANDARD,
                                      .pooling = ENGINE_POOLING_MEAN};
    engine_run_submit(engine, &request, &told[0]);
    engine_run_finish(engine, &one, 1);
    assert_int_equal(told[0].report.prompt_tokens, 5); /* [CLS] a b c [SEP] */
    engine_close(engine);
    engine = NULL;
    options.rows_max = BERT_CONTEXT - 1;
    assert_int_equal(engine_open(&engine, &options), STATUS_OUT_OF_RANGE);
    options = options_of("off");
    assert_int_equal(engine_open(&engine, &options), STATUS_UNSUPPORTED);
    options = options_of("auto");
    options.kv_type = "k4v8";
    assert_int_equal(engine_open(&engine, &options), STATUS_UNSUPPORTED);
    options = options_of("auto");
    options.weights = "int4";
    assert_int_equal(engine_open(&engine, &options), STATUS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref_is_the_model),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_refusals),
    };
    hf_writer_init(&folder);
    bert_folder_write(&folder);
    fill();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_writer_deinit(&folder);
    return failed;
}
