#include "engine/step/step_draft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/step/step_metrics.h"
#include "tests/kit/step_world.h"

enum { PAGE = STEP_WORLD_PAGE, PROMPT = 50, ANSWER = 60, SAID = 65 };

static uint32_t prompt[STEP_WORLD_CONTEXT];

static struct step_world *open_world(enum engine_speculation speculation, uint32_t rows_max,
                                     uint32_t pages)
{
    const struct step_world_options options = {.rows_max = rows_max,
                                               .sequences_max = 4,
                                               .pages = pages,
                                               .pin_percent = 50,
                                               .speculation = speculation};
    return step_world_open(&options);
}

/* Whose every answer is the same token again and again: each guess is right. */
static struct engine_request parrot(uint32_t prompt_count, uint32_t answer, uint8_t domain)
{
    for (uint32_t i = 0; i < prompt_count; i++)
        prompt[i] = i % 60 + 100;
    struct engine_request asked = step_world_request(prompt, prompt_count, answer, domain);
    asked.want_logprobs = true;
    asked.sampling.bias_count = 1;
    asked.sampling.bias[0] = (struct engine_bias){.token = SAID, .bias = 100};
    return asked;
}

/* Whose prompt repeats itself, and whose answer goes on otherwise: guesses are wrong. */
static struct engine_request deceiver(uint32_t answer)
{
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = i % 2 == 0 ? SAID : 100 + i;
    struct engine_request asked = step_world_request(prompt, PROMPT, answer, 0);
    asked.want_logprobs = true;
    asked.sampling.temperature = 200; /* the three are alike to it, and all others far below */
    asked.sampling.seed = 3;
    asked.sampling.bias_count = 3;
    for (uint32_t i = 0; i < 3; i++)
        asked.sampling.bias[i] = (struct engine_bias){.token = SAID + i, .bias = 10000};
    return asked;
}

static struct step_world_told run_alone(enum engine_speculation speculation,
                                        const struct engine_request *asked, uint64_t *steps,
                                        struct step_draft *draft)
{
    struct step_world *world = open_world(speculation, 64, 64);
    step_world_submit(world, asked);
    while (step_world_step(world)) {
        const struct sequence *sequence = &world->step.sequences.slots[0];
        if (sequence->is_running) /* nothing is kept for guesses that were wrong */
            assert_int_equal(sequence->page_count,
                             kv_pool_pages_for(&world->step.pool, sequence->computed));
    }
    struct step_world_told told = world->told[0];
    assert_true(told.is_over);
    *steps = atomic_load(&world->step.figures.steps);
    *draft = world->step.draft;
    step_world_close(world);
    return told;
}

static void test_right_guesses(void **state)
{
    (void)state;
    const struct engine_request asked = parrot(PROMPT, ANSWER, 0);
    struct step_draft draft;
    uint64_t plain, ahead;
    struct step_world_told expected = run_alone(ENGINE_SPECULATION_OFF, &asked, &plain, &draft);
    assert_int_equal(plain, ANSWER);
    struct step_world_told told = run_alone(ENGINE_SPECULATION_LOOKUP, &asked, &ahead, &draft);
    assert_true(step_world_same(&told, &expected));
    assert_int_equal(told.report.completion_tokens, ANSWER);
    /* Three tokens until the run of two comes again, then four a step. */
    assert_int_equal(ahead, 3 + (ANSWER - 3 + DRAFT_LOOKUP_MOST) / (1 + DRAFT_LOOKUP_MOST));
    assert_int_equal(draft.rejected, 0);
    assert_int_equal(draft.accepted, ANSWER - ahead);
}

static void test_wrong_guesses(void **state)
{
    (void)state;
    const struct engine_request asked = deceiver(ANSWER);
    struct step_draft draft;
    uint64_t plain, ahead;
    struct step_world_told expected = run_alone(ENGINE_SPECULATION_OFF, &asked, &plain, &draft);
    struct step_world_told told = run_alone(ENGINE_SPECULATION_LOOKUP, &asked, &ahead, &draft);
    assert_true(step_world_same(&told, &expected));
    assert_true(draft.rejected > 0);
    assert_int_equal(plain - ahead, draft.accepted);
    assert_int_equal(told.report.drafts_accepted, draft.accepted);
    assert_int_equal(told.report.drafts_rejected, draft.rejected);
    assert_int_equal(expected.report.drafts_accepted + expected.report.drafts_rejected, 0);
}

/* The model's first layer guesses, from the first token on. */
static void test_exit(void **state)
{
    (void)state;
    struct step_draft draft;
    uint64_t plain, ahead;
    struct engine_request asked = parrot(PROMPT, ANSWER, 0);
    struct step_world_told expected = run_alone(ENGINE_SPECULATION_OFF, &asked, &plain, &draft);
    struct step_world_told told = run_alone(ENGINE_SPECULATION_EXIT, &asked, &ahead, &draft);
    assert_true(step_world_same(&told, &expected));
    assert_int_equal(draft.rejected, 0); /* the first token, then four a step */
    assert_int_equal(ahead, 1 + (ANSWER - 1 + DRAFT_GUESS_MOST) / (1 + DRAFT_GUESS_MOST));
    asked = deceiver(ANSWER);
    expected = run_alone(ENGINE_SPECULATION_OFF, &asked, &plain, &draft);
    told = run_alone(ENGINE_SPECULATION_EXIT, &asked, &ahead, &draft);
    assert_true(step_world_same(&told, &expected));
    assert_int_equal(plain - ahead, draft.accepted);
}

/* By rejection: the same where nothing is left to chance, else the same distribution. */
static void test_rejection(void **state)
{
    (void)state;
    struct step_draft draft;
    uint64_t steps;
    struct engine_request asked = parrot(PROMPT, ANSWER, 0);
    struct step_world_told expected = run_alone(ENGINE_SPECULATION_OFF, &asked, &steps, &draft);
    struct step_world *world = open_world(ENGINE_SPECULATION_LOOKUP, 64, 64);
    world->step.options.acceptance = ENGINE_ACCEPTANCE_REJECTION;
    step_world_submit(world, &asked);
    step_world_run(world);
    assert_true(step_world_same(&world->told[0], &expected));
    uint32_t counts[3] = {0};
    for (uint32_t i = 0; i < 40; i++) {
        asked = deceiver(ANSWER);
        asked.sampling.seed = 100 + i;
        uint32_t told = step_world_submit(world, &asked);
        step_world_run(world);
        assert_int_equal(world->told[told].answers[0].count, ANSWER);
        for (uint32_t t = 0; t < ANSWER; t++) {
            uint32_t which = world->told[told].answers[0].tokens[t] - SAID;
            assert_true(which < 3);
            counts[which]++;
        }
    }
    assert_true(world->step.draft.accepted > 100);
    assert_true(world->step.draft.rejected > 100);
    for (uint32_t i = 0; i < 3; i++) { /* a third of 2400, within ten standard deviations */
        assert_true(counts[i] > 800 - 230);
        assert_true(counts[i] < 800 + 230);
    }
    step_world_close(world);
}

/* Ends in the middle of what was guessed right: a stop string, the most tokens. */
static void test_ends(void **state)
{
    (void)state;
    struct step_draft draft;
    uint64_t steps;
    for (uint32_t answer = 1; answer < 14; answer++) {
        struct engine_request asked = parrot(PROMPT, answer, 0);
        struct step_world_told told = run_alone(ENGINE_SPECULATION_LOOKUP, &asked, &steps, &draft);
        assert_int_equal(told.answers[0].count, answer);
        assert_int_equal(told.answers[0].finish, ENGINE_FINISH_LENGTH);
        char stop[14];
        memset(stop, SAID, sizeof stop); /* this vocabulary's ids below 256 are bytes */
        asked = parrot(PROMPT, ANSWER, 0);
        asked.stop[0] = (struct slice){stop, answer};
        asked.stop_count = 1;
        told = run_alone(ENGINE_SPECULATION_LOOKUP, &asked, &steps, &draft);
        assert_int_equal(told.answers[0].count, answer);
        assert_int_equal(told.answers[0].finish, ENGINE_FINISH_STOP);
    }
}

/* At most LIMIT_UNDELIVERED_TOKENS tokens wait for a reader, however many a step may tell. */
static void test_undelivered(void **state)
{
    (void)state;
    struct step_world *world = open_world(ENGINE_SPECULATION_LOOKUP, 64, 64);
    const struct engine_request asked = parrot(PROMPT, 100, 0);
    world->holds_acknowledgements = true;
    step_world_submit(world, &asked);
    step_world_run(world);
    assert_int_equal(world->told[0].answers[0].count, LIMIT_UNDELIVERED_TOKENS);
    assert_true(world->step.draft.accepted > 0);
    for (uint32_t i = 0; i < 2; i++) { /* the reader takes two: two more, no guess beyond */
        ticket_acknowledge(&world->tickets, world->told[0].id, 0, 2);
        step_world_run(world);
        assert_int_equal(world->told[0].answers[0].count, LIMIT_UNDELIVERED_TOKENS + 2 * (i + 1));
    }
    step_world_close(world);
}

static bool all_decode(const struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++)
        if (sequence_generated(&table->slots[table->order[i]]) == 0)
            return false;
    return table->order_count == 4;
}

/* Rows that the plan has left free, up to STEP_DRAFT_ROWS_MAX in all. */
static void test_rows(void **state)
{
    (void)state;
    static const uint32_t rows[] = {4, 5, 8, 64};
    for (uint32_t r = 0; r < 4; r++) {
        struct step_world *world = open_world(ENGINE_SPECULATION_LOOKUP, rows[r], 64);
        uint32_t most = rows[r] < STEP_DRAFT_ROWS_MAX ? rows[r] : STEP_DRAFT_ROWS_MAX;
        for (uint32_t i = 0; i < 4; i++) {
            const struct engine_request asked = parrot(3 + i, ANSWER, 0);
            step_world_submit(world, &asked);
        }
        uint64_t before = 0;
        for (bool is_full = false; step_world_step(world);) {
            uint64_t now = world->step.draft.accepted + world->step.draft.rejected;
            if (now > before)
                assert_true(world->step.batch.model.rows <= most);
            if (is_full)
                assert_int_equal(now, before);
            before = now;
            is_full = rows[r] == 4 && all_decode(&world->step);
        }
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(world->told[i].answers[0].count, ANSWER);
        assert_int_equal(world->step.draft.rejected, 0);
        if (rows[r] > 4)
            assert_true(before > 0);
        step_world_close(world);
    }
}

/* Pages that are free: what others left in the cache is evicted for tokens, not for guesses. */
static void test_pages(void **state)
{
    (void)state;
    uint64_t evicted[2];
    for (uint32_t on = 0; on < 2; on++) {
        struct step_world *world = open_world((enum engine_speculation)on, 64, 32);
        struct engine_request asked = parrot(27 * PAGE, 1, 1);
        step_world_submit(world, &asked);
        step_world_run(world);
        asked = parrot(PROMPT, 100, 2);
        step_world_submit(world, &asked);
        step_world_run(world);
        struct prefix_figures figures;
        prefix_cache_figures(&world->step.cache, &figures);
        evicted[on] = figures.evicted_dropped;
        assert_int_equal(world->told[1].answers[0].count, 100);
        assert_int_equal(world->step.draft.accepted > 0, on == 1);
        step_world_close(world);
    }
    assert_true(evicted[0] > 0);
    assert_int_equal(evicted[0], evicted[1]);
}

/* What the cache keeps of an answer is its text: who goes on from it reads no guess. */
static void test_cache(void **state)
{
    (void)state;
    static struct step_world_told told[2];
    for (uint32_t on = 0; on < 2; on++) {
        struct step_world *world = open_world((enum engine_speculation)on, 64, 64);
        struct engine_request asked = deceiver(ANSWER);
        asked.domain = step_world_domain(1);
        step_world_submit(world, &asked);
        step_world_run(world);
        for (uint32_t i = 0; i < ANSWER; i++)
            prompt[PROMPT + i] = world->told[0].answers[0].tokens[i];
        prompt[PROMPT + ANSWER] = 99;
        asked.token_count = PROMPT + ANSWER + 1;
        step_world_submit(world, &asked);
        step_world_run(world);
        told[on] = world->told[1];
        assert_true(told[on].report.cached_tokens >= (PROMPT + ANSWER) / PAGE * PAGE - PAGE);
        step_world_close(world);
    }
    assert_true(step_world_same(&told[0], &told[1]));
    assert_int_equal(told[0].report.cached_tokens, told[1].report.cached_tokens);
}

static void cost(struct step_world *world, int64_t one_us, int64_t sixteen_us)
{
    for (uint32_t i = 0; i < STEP_COST_EVERY; i++) {
        step_cost_add(&world->step.cost, 1, 100, one_us);
        step_cost_add(&world->step.cost, 16, 1600, sixteen_us);
    }
}

/* Nobody guesses where a row takes as long as a step of its own. */
static void test_cost(void **state)
{
    (void)state;
    for (uint32_t dear = 0; dear < 2; dear++) {
        struct step_world *world = open_world(ENGINE_SPECULATION_LOOKUP, 64, 64);
        const struct engine_request asked = parrot(PROMPT, ANSWER, 0);
        cost(world, 1000, dear == 1 ? 16000 : 1100);
        step_world_submit(world, &asked);
        step_world_run(world);
        assert_int_equal(world->told[0].answers[0].count, ANSWER);
        assert_int_equal(world->step.draft.accepted > 0, dear == 0);
        assert_int_equal(world->step.draft.rejected, 0);
        step_world_close(world);
    }
}

/* Steps that take longer than they may with one row: those with guesses take little more. */
static void test_limit(void **state)
{
    (void)state;
    for (uint32_t dear = 0; dear < 2; dear++) {
        struct step_world *world = open_world(ENGINE_SPECULATION_LOOKUP, 64, 64);
        const struct engine_request asked = parrot(PROMPT, ANSWER, 0);
        /* Each guess would pay; four thirds of a step's time is too long for one. */
        cost(world, 4000, dear == 1 ? 30000 : 4400);
        step_world_submit(world, &asked);
        step_world_step(world);
        world->step.options.step_ms = 1;
        step_world_run(world);
        assert_int_equal(world->told[0].answers[0].count, ANSWER);
        assert_int_equal(world->step.draft.accepted > 0, dear == 0);
        step_world_close(world);
    }
}

/* The model's guesses took long once: nobody guesses, until that is long ago. */
static void test_slow_guesses(void **state)
{
    (void)state;
    struct step_world *world = open_world(ENGINE_SPECULATION_EXIT, 64, 64);
    const struct engine_request asked = parrot(PROMPT, ANSWER, 0);
    cost(world, 1000, 1100);
    world->step.draft.guess_us = 600; /* at half the steps' time one guess in two would pay */
    step_world_submit(world, &asked);
    step_world_run(world);
    assert_int_equal(world->step.draft.accepted + world->step.draft.rejected, 0);
    for (uint32_t i = 0; i < 20 && world->step.draft.accepted == 0; i++) {
        step_world_submit(world, &asked);
        step_world_run(world);
    }
    assert_true(world->step.draft.accepted > 0);
    step_world_close(world);
}

/* A wrong guess is charged half a token, a right one as the token that it is. */
static void test_charges(void **state)
{
    (void)state;
    double charged[2];
    double pages[2] = {0, 0};
    struct step_draft draft = {0};
    for (uint32_t on = 0; on < 2; on++) {
        struct step_world *world = open_world((enum engine_speculation)on, 64, 64);
        const struct engine_request asked = deceiver(ANSWER);
        step_world_submit(world, &asked);
        while (step_world_step(world)) {
            const struct sequence *sequence = &world->step.sequences.slots[0];
            pages[on] += sequence->is_running ? sequence->page_count : 0;
        }
        charged[on] = world->step.fair.clients[0].charged - pages[on] * SCHEDULER_PRICE_RESIDENCY;
        draft = world->step.draft;
        step_world_close(world);
    }
    assert_true(draft.rejected > 0);
    double wrong = charged[1] - charged[0] - (double)draft.rejected * SCHEDULER_PRICE_DRAFT;
    assert_true(wrong < 1e-6);
    assert_true(wrong > -1e-6);
}

/* Rows of right guesses are rows of the class; wrong ones are told apart. */
static void test_metrics(void **state)
{
    (void)state;
    struct metrics *metrics;
    struct step_world *world = open_world(ENGINE_SPECULATION_LOOKUP, 64, 64);
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    step_metrics_init(&world->step.metrics, metrics, NULL);
    cost(world, 1000, 1100);
    struct engine_request asked = deceiver(ANSWER);
    asked.service_class = SERVICE_CLASS_BATCH;
    step_world_submit(world, &asked);
    step_world_run(world);
    const struct step_metrics *told = &world->step.metrics;
    const struct step_draft *draft = &world->step.draft;
    assert_true(draft->accepted > 0);
    assert_true(draft->rejected > 0);
    assert_int_equal((uint64_t)metric_value(told->drafts_accepted), draft->accepted);
    assert_int_equal((uint64_t)metric_value(told->drafts_rejected), draft->rejected);
    assert_int_equal((uint64_t)metric_value(told->draft_length), draft->accepted);
    assert_int_equal((uint64_t)metric_value(told->classes[SERVICE_CLASS_BATCH].rows),
                     PROMPT + ANSWER - 1);
    assert_int_equal((uint64_t)metric_value(told->tokens_generated), ANSWER);
    /* One text: a right guess saves a whole step; guesses cost far less, and more than nothing. */
    double a_step = 1e-3;
    double saved = metric_value(told->draft_saved);
    assert_true(saved > 0.9 * a_step * (double)draft->accepted);
    assert_true(saved < 1.5 * a_step * (double)draft->accepted);
    assert_true(metric_value(told->draft_spent) > 0);
    assert_true(metric_value(told->draft_spent) <
                0.5 * a_step * (double)(draft->accepted + draft->rejected));
    step_world_close(world);
    metrics_destroy(metrics);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct step_draft draft;
    assert_int_equal(step_draft_init(&draft, 3, 100), STATUS_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_ptr_equal(draft.places[i].lookup.entries,
                         draft.entries + (size_t)i * DRAFT_LOOKUP_NUMBERS);
    step_draft_deinit(&draft);
    assert_null(draft.places);
    step_draft_deinit(&draft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_guesses), cmocka_unit_test(test_wrong_guesses),
        cmocka_unit_test(test_ends),          cmocka_unit_test(test_undelivered),
        cmocka_unit_test(test_rows),          cmocka_unit_test(test_pages),
        cmocka_unit_test(test_cache),         cmocka_unit_test(test_cost),
        cmocka_unit_test(test_charges),       cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_metrics),       cmocka_unit_test(test_rejection),
        cmocka_unit_test(test_exit),          cmocka_unit_test(test_slow_guesses),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
