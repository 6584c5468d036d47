/* Embeddings: the states of the model's rows, alone and in company, whole and in chunks. */
#include "engine/step/step_embed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_show.h"
#include "tests/kit/engine_run.h"
#include "tests/kit/model_run.h"

enum { TEXTS = 64, LONGEST = 120, VOCAB_USED = 256 };

static struct engine_run_transcript told[TEXTS + 1];
static uint32_t texts[TEXTS][LONGEST];

static uint32_t length_of(uint32_t text)
{
    return 1 + text * 37 % LONGEST;
}

static struct engine_request embed(uint32_t text, enum engine_pooling pooling)
{
    for (uint32_t i = 0; i < length_of(text); i++)
        texts[text][i] = (text * 31 + i * (7 + text % 5)) % VOCAB_USED;
    return (struct engine_request){.prompt_kind = ENGINE_PROMPT_TOKENS,
                                   .tokens = texts[text],
                                   .token_count = length_of(text),
                                   .choices = 1,
                                   .sampling = {.temperature = 1, .top_p = 1},
                                   .service_class = SERVICE_CLASS_STANDARD,
                                   .pooling = pooling};
}

static struct engine *open_engine(const char *embeddings, uint32_t rows_max)
{
    struct engine_options options = engine_run_options();
    options.embeddings = embeddings;
    options.rows_max = rows_max;
    options.isa = "auto"; /* whose bits are those of ref_int8 */
    return engine_run_open(&options);
}

/* Embeds one text after the other into `out`. */
static void run_alone(struct engine *engine, enum engine_pooling pooling,
                      float out[TEXTS][ENGINE_RUN_WIDTH])
{
    for (uint32_t i = 0; i < TEXTS; i++) {
        struct engine_run_transcript *const one = &told[0];
        const struct engine_request request = embed(i, pooling);
        engine_run_submit(engine, &request, &told[0]);
        engine_run_finish(engine, &one, 1);
        assert_false(told[0].is_refused);
        assert_int_equal(told[0].embeddings, 1);
        assert_int_equal(told[0].choices[0].finish, ENGINE_FINISH_STOP);
        assert_int_equal(told[0].report.prompt_tokens, length_of(i));
        assert_int_equal(told[0].report.completion_tokens, 0);
        memcpy(out[i], told[0].embedding, sizeof out[i]);
    }
}

/* Computes what the model's own states give, without an engine. */
static void judge(enum engine_pooling pooling, uint32_t text, double out[ENGINE_RUN_WIDTH])
{
    struct model_source source;
    struct model_run run;
    const uint32_t rows = length_of(text);
    double squares = 0;
    assert_int_equal(model_source_open(&source, engine_run_make_model()), STATUS_OK);
    assert_int_equal(model_run_open_source(&run, &source,
                                           &(struct model_run_options){.isa = "ref_int8",
                                                                       .threads = 1,
                                                                       .kv_type = KV_TYPE_F16,
                                                                       .rows_max = LONGEST,
                                                                       .sequences = 1,
                                                                       .tokens_max = LONGEST,
                                                                       .has_states = true}),
                     STATUS_OK);
    (void)model_run_chunk(&run, 0, 0, texts[text], rows);
    const float *states = model_states(run.model);
    memset(out, 0, ENGINE_RUN_WIDTH * sizeof *out);
    for (uint32_t r = pooling == ENGINE_POOLING_LAST ? rows - 1 : 0; r < rows; r++)
        for (uint32_t i = 0; i < ENGINE_RUN_WIDTH; i++)
            out[i] += states[(size_t)r * ENGINE_RUN_WIDTH + i];
    for (uint32_t i = 0; i < ENGINE_RUN_WIDTH; i++)
        squares += out[i] * out[i];
    for (uint32_t i = 0; i < ENGINE_RUN_WIDTH; i++)
        out[i] /= sqrt(squares);
    model_run_close(&run);
    model_source_close(&source);
}

static const struct {
    enum engine_pooling pooling;
    const char *word;
} KINDS[] = {{ENGINE_POOLING_LAST, "last"}, {ENGINE_POOLING_MEAN, "mean"}};

static void test_values(void **state)
{
    static float got[TEXTS][ENGINE_RUN_WIDTH];
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct engine *engine = open_engine(KINDS[k].word, 128);
        run_alone(engine, KINDS[k].pooling, got);
        for (uint32_t text = 0; text < TEXTS; text += 7) {
            double right[ENGINE_RUN_WIDTH];
            judge(KINDS[k].pooling, text, right);
            for (uint32_t i = 0; i < ENGINE_RUN_WIDTH; i++)
                assert_float_equal(got[text][i], right[i], 1e-6);
        }
        engine_run_close(engine);
    }
}

/* Alone, all at once, with a chat beside them, in chunks of 16 rows, with few pages. */
static void test_same_bits(void **state)
{
    static float alone[TEXTS][ENGINE_RUN_WIDTH];
    struct engine_run_transcript *all[TEXTS + 1];
    (void)state;
    for (uint32_t i = 0; i <= TEXTS; i++)
        all[i] = &told[i];
    for (size_t k = 0; k < 2; k++) {
        struct engine *engine = open_engine(KINDS[k].word, 128);
        run_alone(engine, KINDS[k].pooling, alone);
        engine_run_close(engine);
        for (uint32_t rows = 16; rows <= 128; rows *= 8) {
            engine = open_engine(KINDS[k].word, rows);
            struct engine_request chat = embed(5, ENGINE_POOLING_NONE);
            chat.tokens_max = 200;
            chat.ignore_end = true;
            engine_run_submit(engine, &chat, &told[TEXTS]);
            for (uint32_t i = 0; i < TEXTS; i++) {
                const struct engine_request request = embed(i, KINDS[k].pooling);
                engine_run_submit(engine, &request, &told[i]);
            }
            engine_run_finish(engine, all, TEXTS + 1);
            assert_int_equal(told[TEXTS].choices[0].count, 200);
            assert_int_equal(told[TEXTS].embeddings, 0);
            for (uint32_t i = 0; i < TEXTS; i++)
                assert_memory_equal(told[i].embedding, alone[i], sizeof alone[i]);
            engine_run_close(engine);
        }
    }
}

/* A text whose beginning is in the cache has the same last state. The mean needs all rows. */
static void test_cache(void **state)
{
    static float alone[TEXTS][ENGINE_RUN_WIDTH];
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct engine *engine = open_engine(KINDS[k].word, 64);
        run_alone(engine, KINDS[k].pooling, alone);
        for (uint32_t turn = 0; turn < 2; turn++) {
            struct engine_run_transcript *const one = &told[0];
            struct engine_request request = embed(3, KINDS[k].pooling);
            memset(&request.domain, 7, sizeof request.domain);
            engine_run_submit(engine, &request, &told[0]);
            engine_run_finish(engine, &one, 1);
            const bool is_found = turn == 1 && KINDS[k].pooling == ENGINE_POOLING_LAST;
            assert_true(length_of(3) > 32);
            assert_int_equal(told[0].report.cached_tokens > 0, is_found);
            assert_memory_equal(told[0].embedding, alone[3], sizeof alone[3]);
        }
        engine_run_close(engine);
    }
}

static void refuse(struct engine *engine, const struct engine_request *request, enum status status,
                   const char *param)
{
    struct engine_run_transcript *const one = &told[0];
    engine_run_submit(engine, request, &told[0]);
    engine_run_finish(engine, &one, 1);
    assert_true(told[0].is_refused);
    assert_int_equal(told[0].note.status, status);
    assert_string_equal(told[0].note.param, param);
}

static void test_refusals(void **state)
{
    static uint32_t many[600];
    (void)state;
    struct engine *engine = open_engine("last", 64);
    struct engine_request request = embed(2, ENGINE_POOLING_MEAN);
    refuse(engine, &request, STATUS_UNSUPPORTED, "model");
    request = embed(2, ENGINE_POOLING_LAST);
    request.choices = 2;
    refuse(engine, &request, STATUS_OUT_OF_RANGE, "n");
    request = embed(2, ENGINE_POOLING_LAST);
    request.token_count = 0;
    refuse(engine, &request, STATUS_INVALID, "input");
    request.tokens = many;
    request.token_count = 512;
    refuse(engine, &request, STATUS_CONTEXT_LENGTH, "input");
    many[17] = 320;
    request.token_count = 20;
    refuse(engine, &request, STATUS_OUT_OF_RANGE, "input[17]");
    many[17] = 0;
    struct engine_run_transcript *const one = &told[0];
    request.token_count = 511;
    engine_run_submit(engine, &request, &told[0]);
    engine_run_finish(engine, &one, 1);
    assert_int_equal(told[0].embeddings, 1);
    engine_run_close(engine);
    engine = open_engine("off", 64);
    refuse(engine, &request, STATUS_UNSUPPORTED, "model");
    engine_run_close(engine);
}

static void test_cancel(void **state)
{
    (void)state;
    struct engine *engine = open_engine("mean", 16);
    struct engine_run_transcript *all[TEXTS];
    uint32_t whole = 0;
    for (uint32_t i = 0; i < TEXTS; i++) {
        const struct engine_request request = embed(i, ENGINE_POOLING_MEAN);
        all[i] = &told[i];
        engine_run_submit(engine, &request, &told[i]);
        engine_cancel(engine, told[i].id);
    }
    engine_run_finish(engine, all, TEXTS);
    for (uint32_t i = 0; i < TEXTS; i++)
        whole += told[i].embeddings;
    assert_true(whole < TEXTS);
    struct engine_stats stats;
    engine_stats(engine, &stats);
    assert_int_equal(stats.requests, 0);
    assert_int_equal(stats.pages_free + stats.pages_cached, stats.pages_total);
    engine_run_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_cache),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
