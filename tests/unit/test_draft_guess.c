#include "engine/draft/draft_guess.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/engine_run.h"

enum { REQUESTS = 12, PROMPT = 90, ANSWER = 70 };

static uint32_t prompt[PROMPT];
static struct engine_run_transcript expected[REQUESTS], told[REQUESTS];
static char draft_path[64];
/* Stands still: steps take no time, nothing is known of their cost, and whoever can guess does. */
static struct clock clock_still;

/* A model of the engine_run's vocabulary: of its very weights, or of others. */
static void make_draft(uint32_t layers, uint64_t more_seed)
{
    struct llama_shape shape = engine_run_shape();
    shape.layers = layers;
    shape.seed += more_seed;
    engine_run_write_model(&shape, draft_path, sizeof draft_path);
}

static struct engine_request request_of(uint32_t i)
{
    struct engine_request asked = {
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = prompt,
        .token_count = 10 + 80 * i / REQUESTS,
        .choices = 1 + i % 2,
        .tokens_max = ANSWER,
        .sampling = {.top_p = 1, .seed = i, .temperature = i % 3 == 0 ? 0 : 0.9f},
        .ignore_end = true,
        .want_logprobs = true,
    };
    if (i % 4 == 3)
        asked.sampling.frequency_penalty = 0.5f;
    if (i % 5 == 4) {
        asked.sampling.bias_count = 1;
        asked.sampling.bias[0] = (struct engine_bias){.token = 'e', .bias = 3};
    }
    return asked;
}

/* All at once; what was guessed right and wrong. */
static void run(const struct engine_options *options, struct engine_run_transcript *out,
                uint64_t *right, uint64_t *wrong)
{
    struct engine_run_transcript *all[REQUESTS];
    struct engine *engine = engine_run_open(options);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct engine_request asked = request_of(i);
        all[i] = &out[i];
        engine_run_submit(engine, &asked, all[i]);
    }
    engine_run_finish(engine, all, REQUESTS);
    *right = *wrong = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        assert_false(out[i].is_refused);
        *right += out[i].report.drafts_accepted;
        *wrong += out[i].report.drafts_rejected;
    }
    engine_run_close(engine);
}

static struct engine_options options_of(enum engine_speculation speculation)
{
    struct engine_options options = engine_run_options();
    options.speculation = speculation;
    options.draft_path = draft_path;
    options.clock = &clock_still;
    return options;
}

static int begin(void **state)
{
    (void)state;
    uint64_t right, wrong;
    clock_manual_init(&clock_still, 1000000);
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = 'a' + i * i % 26;
    const struct engine_options plain = options_of(ENGINE_SPECULATION_OFF);
    run(&plain, expected, &right, &wrong);
    return right + wrong == 0 ? 0 : -1;
}

static void same_answers(uint64_t *right, uint64_t *wrong)
{
    const struct engine_options options = options_of(ENGINE_SPECULATION_MODEL);
    run(&options, told, right, wrong);
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_true(engine_run_same(&told[i], &expected[i]));
    unlink(draft_path);
}

/* The model as its own draft: whatever it guesses is right, greedy and sampled. */
static void test_its_own(void **state)
{
    (void)state;
    uint64_t right, wrong;
    make_draft(2, 0);
    same_answers(&right, &wrong);
    assert_true(right > 100);
    assert_int_equal(wrong, 0);
}

/* A text is new to its draft model: beside another tenant it is read in small parts, so guesses
 * come later than alone. */
static void test_reads_less_in_company(void **state)
{
    (void)state;
    static struct engine_run_transcript alone, beside, other;
    struct engine_run_transcript *both[] = {&other, &beside};
    const struct engine_options options = options_of(ENGINE_SPECULATION_MODEL);
    struct engine_request asked = {.prompt_kind = ENGINE_PROMPT_TOKENS,
                                   .tokens = prompt,
                                   .token_count = PROMPT,
                                   .choices = 1,
                                   .tokens_max = 40,
                                   .sampling = {.top_p = 1},
                                   .ignore_end = true};
    make_draft(2, 0);
    struct engine *engine = engine_run_open(&options);
    both[0] = &alone;
    engine_run_submit(engine, &asked, &alone);
    engine_run_finish(engine, both, 1);
    engine_run_close(engine);

    both[0] = &other;
    engine = engine_run_open(&options);
    struct engine_request first = asked;
    first.tenant = (struct engine_domain){.bytes = {7}};
    first.token_count = 10;
    first.tokens_max = 400; /* it waits for its reader, below, until both are in */
    engine_run_submit(engine, &first, &other);
    engine_run_submit(engine, &asked, &beside);
    engine_run_finish(engine, both, 2);
    engine_run_close(engine);
    unlink(draft_path);
    assert_true(engine_run_same(&alone, &beside));
    assert_int_equal(alone.report.drafts_rejected + beside.report.drafts_rejected, 0);
    /* 64 tokens a step, the rows of a step; and 16. */
    assert_true(beside.report.drafts_accepted + 2 <= alone.report.drafts_accepted);
    assert_true(beside.report.drafts_accepted > 10);
}

/* Another model, of another shape: what it guesses is wrong, and nobody is told it. */
static void test_another(void **state)
{
    (void)state;
    uint64_t right, wrong;
    make_draft(1, 5);
    same_answers(&right, &wrong);
    assert_true(wrong > 0);
}

/* The model's own first layer, in the pages that the answers stand in. */
static void test_exit(void **state)
{
    (void)state;
    uint64_t right, wrong;
    struct engine_options options = options_of(ENGINE_SPECULATION_EXIT);
    options.draft_layers = 1;
    run(&options, told, &right, &wrong);
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_true(engine_run_same(&told[i], &expected[i]));
    assert_true(wrong > 0);
    for (options.draft_layers = 0; options.draft_layers < 3; options.draft_layers += 2) {
        struct engine *engine = NULL;
        options.model_path = engine_run_make_model();
        assert_int_equal(engine_open(&engine, &options), STATUS_OUT_OF_RANGE);
        assert_non_null(strstr(status_note()->message, "must be 1 to 1, since the model has 2"));
    }
    engine_run_remove_model();
}

/* Keys that are packed by 16 tokens: guesses write row by row across the end of such a group. */
static void test_exit_with_packed_keys(void **state)
{
    (void)state;
    static struct engine_run_transcript plain[REQUESTS];
    uint64_t right, wrong;
    struct engine_options options = options_of(ENGINE_SPECULATION_OFF);
    options.kv_type = "k4v8";
    run(&options, plain, &right, &wrong);
    options.speculation = ENGINE_SPECULATION_EXIT;
    options.draft_layers = 1;
    run(&options, told, &right, &wrong);
    assert_true(right > 0);
    assert_true(wrong > 0);
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_true(engine_run_same(&told[i], &plain[i]));
}

/* By rejection: greedy answers are the same, the others as long. */
static void test_rejection(void **state)
{
    (void)state;
    uint64_t right, wrong;
    make_draft(1, 5);
    struct engine_options options = options_of(ENGINE_SPECULATION_MODEL);
    options.acceptance = ENGINE_ACCEPTANCE_REJECTION;
    run(&options, told, &right, &wrong);
    for (uint32_t i = 0; i < REQUESTS; i += 3)
        assert_true(engine_run_same(&told[i], &expected[i]));
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_int_equal(told[i].choices[0].count, ANSWER);
    assert_true(wrong > 0);
    unlink(draft_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_own),   cmocka_unit_test(test_another),
        cmocka_unit_test(test_exit),      cmocka_unit_test(test_exit_with_packed_keys),
        cmocka_unit_test(test_rejection), cmocka_unit_test(test_reads_less_in_company),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
