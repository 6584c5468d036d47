#include "engine/engine.h"
#include "engine/engine_show.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "kernels/tensor.h"
#include "tests/kit/engine_run.h"

enum { END_TOKEN = 258 }; /* <|im_end|> of the small model */

static uint32_t prompt_tokens[ENGINE_RUN_TOKENS];

static struct engine_request plain(uint32_t first, uint32_t token_count, uint32_t tokens_max)
{
    return (struct engine_request){
        .request_id = SLICE("req_test"),
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = prompt_tokens + first,
        .token_count = token_count,
        .choices = 1,
        .tokens_max = tokens_max,
        .sampling = {.top_p = 1},
        .ignore_end = true,
        .want_logprobs = true,
        .top_logprobs = 2,
    };
}

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ENGINE_RUN_TOKENS; i++)
        prompt_tokens[i] = (uint32_t)(rng_at(11, 0, i) % 256);
    return 0;
}

static void run_one(struct engine *engine, const struct engine_request *request,
                    struct engine_run_transcript *out)
{
    engine_run_submit(engine, request, out);
    engine_run_finish(engine, &out, 1);
}

/* All slots, pages and places are back. */
static void assert_idle(struct engine *engine)
{
    struct engine_stats stats;
    engine_stats(engine, &stats);
    assert_int_equal(stats.requests, 0);
    assert_int_equal(stats.sequences_running, 0);
    assert_int_equal(stats.sequences_waiting, 0);
    assert_int_equal(stats.pages_free + stats.pages_cached + stats.pages_pinned, stats.pages_total);
}

/* --- the same bits in any company --- */

enum { MIXED = 12 };

/* Requests of all kinds: short, long, sampled, penalised, echoed, of several choices, in two share
 * domains and in none. */
static struct engine_request mixed(uint32_t index)
{
    struct rng rng = {.seed = 100 + index};
    uint32_t length = 1 + (uint32_t)rng_below(&rng, index % 3 == 0 ? 200 : 40);
    uint32_t first = (uint32_t)rng_below(&rng, ENGINE_RUN_TOKENS - 200);
    struct engine_request request = plain(first, length, 4 + (uint32_t)rng_below(&rng, 30));
    if (index % 2 == 1) {
        request.sampling.temperature = 0.8f;
        request.sampling.seed = index;
    }
    if (index % 4 == 1)
        request.sampling.top_p = 0.9f;
    if (index % 4 == 3)
        request.sampling.frequency_penalty = 0.5f;
    if (index % 5 == 2) {
        request.sampling.temperature = 1;
        request.choices = 3;
    }
    request.echo = index % 6 == 4;
    if (index % 3 != 0) /* the others have no cache */
        request.domain.bytes[0] = (uint8_t)(index % 3);
    return request;
}

static struct engine_run_transcript alone[MIXED];
static struct engine_run_transcript together[MIXED];

static void run_mixed(struct engine *engine, const struct engine_options *options, uint64_t seed)
{
    struct engine_run_transcript *all[MIXED];
    struct rng rng = {.seed = seed};
    bool is_submitted[MIXED] = {false};
    for (uint32_t left = MIXED; left > 0; left--) {
        uint32_t pick = (uint32_t)rng_below(&rng, MIXED);
        while (is_submitted[pick])
            pick = (pick + 1) % MIXED;
        is_submitted[pick] = true;
        struct engine_request request = mixed(pick);
        all[left - 1] = &together[pick];
        engine_run_submit(engine, &request, &together[pick]);
        if (rng_below(&rng, 3) == 0) {
            usleep(1000);
            engine_run_take(engine);
        }
    }
    engine_run_finish(engine, all, MIXED);
    assert_idle(engine);
    for (uint32_t i = 0; i < MIXED; i++) {
        if (!engine_run_same(&alone[i], &together[i]))
            print_error("request %u differs at rows %u, threads %u\n", i, options->rows_max,
                        options->threads);
        assert_true(engine_run_same(&alone[i], &together[i]));
    }
}

/* Cold, and again with what the first time has left in the cache. */
static void run_together(const struct engine_options *options, uint64_t seed)
{
    struct engine_stats stats;
    struct engine *engine = engine_run_open(options);
    run_mixed(engine, options, seed);
    run_mixed(engine, options, seed + 100);
    engine_stats(engine, &stats);
    assert_true(options->no_prefix_cache || stats.cache_hit_tokens > 0);
    engine_run_close(engine);
}

static void test_same_bits_in_any_company(void **state)
{
    (void)state;
    struct engine_options options = engine_run_options();
    options.no_prefix_cache = true;
    struct engine *engine = engine_run_open(&options);
    for (uint32_t i = 0; i < MIXED; i++) {
        const struct engine_request request = mixed(i);
        run_one(engine, &request, &alone[i]);
        assert_false(alone[i].is_refused);
        assert_int_equal(alone[i].choices[0].count, request.tokens_max);
        assert_int_equal(alone[i].choices[request.choices - 1].finish, ENGINE_FINISH_LENGTH);
    }
    assert_idle(engine);
    engine_run_close(engine);

    options.no_prefix_cache = false;
    static const uint32_t rows[] = {1, 7, 64, 512};
    for (uint32_t i = 0; i < 4; i++) {
        options.rows_max = rows[i];
        options.threads = 1 + i % 3;
        run_together(&options, i);
    }
}

/* Room for one full sequence alone: the younger are paused and computed again, in the same stream,
 * with the same bits. */
static void test_same_bits_when_pages_are_short(void **state)
{
    (void)state;
    enum { GROWING = 6 };
    struct engine_run_transcript *all[GROWING];
    struct engine_options options = engine_run_options();
    options.context = 240;
    options.kv_bytes = 15 * (options.kv_bytes / 128);
    run_together(&options, 77);
    struct engine *engine = engine_run_open(&options);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < GROWING; i++) {
            struct engine_request request = plain(i, 8 + i, 110);
            request.sampling.temperature = 1;
            request.echo = i == 2;
            all[i] = pass == 0 ? &alone[i] : &together[i];
            engine_run_submit(engine, &request, all[i]);
            if (pass == 0)
                engine_run_finish(engine, &all[i], 1);
        }
        engine_run_finish(engine, all, GROWING);
    }
    uint32_t preemptions = 0;
    for (uint32_t i = 0; i < GROWING; i++) {
        assert_true(engine_run_same(&alone[i], &together[i]));
        assert_int_equal(alone[i].report.preemptions, 0);
        preemptions += together[i].report.preemptions;
    }
    assert_true(preemptions > 0);
    assert_idle(engine);
    engine_run_close(engine);
}

static void test_choices(void **state)
{
    (void)state;
    static struct engine_run_transcript three;
    static struct engine_run_transcript one;
    struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(0, 20, 24);
    request.sampling.temperature = 1;
    request.sampling.seed = 5;
    run_one(engine, &request, &one);
    request.choices = 3;
    run_one(engine, &request, &three);
    assert_int_equal(three.report.prompt_tokens, 20); /* once for all choices */
    assert_int_equal(three.report.completion_tokens, 72);
    assert_memory_equal(&one.choices[0], &three.choices[0], sizeof(one.choices[0]));
    assert_memory_not_equal(three.choices[0].tokens, three.choices[1].tokens,
                            24 * sizeof(struct engine_run_token));
    assert_memory_not_equal(three.choices[1].tokens, three.choices[2].tokens,
                            24 * sizeof(struct engine_run_token));
    request.sampling.seed = 6;
    request.choices = 1;
    run_one(engine, &request, &three);
    assert_memory_not_equal(one.choices[0].tokens, three.choices[0].tokens,
                            24 * sizeof(struct engine_run_token));
    assert_idle(engine);
    engine_run_close(engine);
}

/* --- ends --- */

/* The prompt is scored as with an answer behind it, and nothing is generated. */
static void test_an_echo_alone(void **state)
{
    (void)state;
    static struct engine_run_transcript alone_run;
    static struct engine_run_transcript with_answer;
    struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(7, 100, 3);
    request.echo = true;
    request.choices = 2;
    run_one(engine, &request, &with_answer);
    request.is_scored = true;
    run_one(engine, &request, &alone_run);
    for (uint32_t i = 0; i < 2; i++) {
        const struct engine_run_choice *choice = &alone_run.choices[i];
        assert_int_equal(choice->prompt_count, 100);
        assert_int_equal(choice->count, 0);
        assert_int_equal(choice->finish, ENGINE_FINISH_LENGTH);
        assert_memory_equal(choice->prompt, with_answer.choices[i].prompt,
                            100 * sizeof(choice->prompt[0]));
    }
    assert_int_equal(alone_run.report.prompt_tokens, 100);
    assert_int_equal(alone_run.report.completion_tokens, 0);
    request.want_logprobs = false;
    run_one(engine, &request, &alone_run);
    assert_int_equal(alone_run.choices[1].prompt_count, 100);
    request.echo = false;
    run_one(engine, &request, &alone_run);
    assert_int_equal(alone_run.note.status, STATUS_OUT_OF_RANGE);
    assert_idle(engine);
    engine_run_close(engine);
}

static void test_end_token(void **state)
{
    (void)state;
    static struct engine_run_transcript out;
    struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(3, 9, 5);
    request.sampling.bias_count = 1;
    request.sampling.bias[0] = (struct engine_bias){END_TOKEN, 100};
    run_one(engine, &request, &out);
    assert_int_equal(out.choices[0].count, 5);
    assert_int_equal(out.choices[0].text_bytes, 0); /* its name is no text */
    assert_int_equal(out.report.finish, ENGINE_FINISH_LENGTH);
    request.ignore_end = false;
    run_one(engine, &request, &out);
    assert_int_equal(out.choices[0].count, 1); /* the end token is counted */
    assert_int_equal(out.choices[0].tokens[0].token, END_TOKEN);
    assert_int_equal(out.choices[0].text_bytes, 0);
    assert_int_equal(out.choices[0].finish, ENGINE_FINISH_STOP);
    assert_int_equal(out.report.completion_tokens, 1);
    assert_idle(engine);
    engine_run_close(engine);
}

static void test_stop_string(void **state)
{
    (void)state;
    static struct engine_run_transcript free_run;
    static struct engine_run_transcript stopped;
    struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(40, 12, 60);
    request.sampling.temperature = 1;
    /* Lower-case letters only, so that the text is plain and its tokens are its bytes. */
    for (uint32_t i = 0; i < 26; i++)
        request.sampling.bias[i] = (struct engine_bias){'a' + i, 60};
    request.sampling.bias_count = 26;
    run_one(engine, &request, &free_run);
    const struct engine_run_choice *whole = &free_run.choices[0];
    assert_int_equal(whole->text_bytes, 60);
    request.stop[0] = SLICE("never, in lower case");
    request.stop[1] = (struct slice){whole->text + 30, 4};
    request.stop_count = 2;
    run_one(engine, &request, &stopped);
    size_t first = (size_t)((char *)memmem(whole->text, 60, whole->text + 30, 4) - whole->text);
    assert_int_equal(stopped.choices[0].finish, ENGINE_FINISH_STOP);
    assert_int_equal(stopped.choices[0].text_bytes, first);
    assert_memory_equal(stopped.choices[0].text, whole->text, first);
    assert_int_equal(stopped.choices[0].count, first + 4); /* those of the stop string count */
    assert_idle(engine);
    engine_run_close(engine);
}

static void test_context_is_filled(void **state)
{
    (void)state;
    static struct engine_run_transcript out;
    struct engine_options options = engine_run_options();
    options.context = 64;
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(0, 50, 0);
    run_one(engine, &request, &out);
    assert_int_equal(out.choices[0].count, 14);
    assert_int_equal(out.choices[0].finish, ENGINE_FINISH_LENGTH);
    request = plain(0, 63, 1);
    run_one(engine, &request, &out);
    assert_int_equal(out.choices[0].count, 1);
    request = plain(0, 64, 1);
    run_one(engine, &request, &out);
    assert_int_equal(out.note.status, STATUS_CONTEXT_LENGTH);
    request = plain(0, 63, 2);
    run_one(engine, &request, &out);
    assert_int_equal(out.note.status, STATUS_CONTEXT_LENGTH);
    assert_non_null(strstr(out.note.message, "63 in the prompt, 2 in the completion"));
    assert_idle(engine);
    engine_run_close(engine);
}

static void test_echo(void **state)
{
    (void)state;
    static struct engine_run_transcript big;
    static struct engine_run_transcript small;
    struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(7, 150, 3);
    request.echo = true;
    request.choices = 2;
    run_one(engine, &request, &big);
    const struct engine_run_choice *choice = &big.choices[1];
    assert_int_equal(choice->prompt_count, 150);
    assert_int_equal(choice->prompt[0].top_count, 0);
    double sum = 0;
    for (uint32_t i = 0; i < 150; i++) {
        assert_int_equal(choice->prompt[i].token, prompt_tokens[7 + i]);
        sum += (double)choice->prompt[i].logprob;
        assert_true(i == 0 || choice->prompt[i].top_count == 2);
        assert_true(i == 0 || choice->prompt[i].top[0].logprob >= choice->prompt[i].logprob);
    }
    assert_true(sum < -100);
    engine_run_close(engine);

    /* What an echo says of a token is what generation says of it. */
    options.rows_max = 5;
    engine = engine_run_open(&options);
    run_one(engine, &request, &small);
    assert_true(engine_run_same(&big, &small));
    static uint32_t continued[60];
    struct engine_request once = plain(0, 40, 20);
    run_one(engine, &once, &big);
    memcpy(continued, prompt_tokens, 40 * sizeof(uint32_t));
    for (uint32_t i = 0; i < 20; i++)
        continued[40 + i] = big.choices[0].tokens[i].token;
    request = plain(0, 60, 1);
    request.tokens = continued;
    request.echo = true;
    run_one(engine, &request, &small);
    for (uint32_t i = 0; i < 20; i++)
        assert_memory_equal(&small.choices[0].prompt[40 + i].logprob,
                            &big.choices[0].tokens[i].logprob, sizeof(float));
    request.want_logprobs = false;
    run_one(engine, &request, &small);
    assert_int_equal(small.choices[0].prompt_count, 60);
    assert_int_equal(small.choices[0].prompt[59].top_count, 0);
    assert_idle(engine);
    engine_run_close(engine);
}

/* --- slow readers, cancels, deadlines --- */

/* Takes events until the first choice has `count` tokens, then gives it time for more. */
static void take_tokens(struct engine *engine, const struct engine_run_transcript *transcript,
                        uint32_t count)
{
    for (uint32_t naps = 0; transcript->choices[0].count < count; naps++) {
        assert_true(naps < 600000);
        usleep(100);
        engine_run_take(engine);
    }
    usleep(30000);
    engine_run_take(engine);
    assert_int_equal(transcript->choices[0].count, count);
}

static void test_slow_reader(void **state)
{
    (void)state;
    static struct engine_run_transcript slow;
    static struct engine_run_transcript other;
    static struct engine_run_transcript free_run;
    struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    const struct engine_request request = plain(0, 10, 200);
    run_one(engine, &request, &free_run);
    slow.holds_acknowledgements = true;
    engine_run_submit(engine, &request, &slow);
    take_tokens(engine, &slow, LIMIT_UNDELIVERED_TOKENS);
    assert_false(slow.is_over);
    run_one(engine, &request, &other); /* nobody waits for the slow one */
    assert_int_equal(slow.choices[0].count, LIMIT_UNDELIVERED_TOKENS);
    engine_acknowledge(engine, slow.id, 0, 10);
    slow.unacknowledged[0] -= 10;
    take_tokens(engine, &slow, LIMIT_UNDELIVERED_TOKENS + 10);
    while (!slow.is_over) {
        engine_run_acknowledge(engine, &slow);
        engine_run_take(engine);
        usleep(200);
    }
    assert_true(engine_run_same(&slow, &free_run));
    assert_true(engine_run_same(&other, &free_run));
    assert_idle(engine);
    engine_run_close(engine);
}

/* Until the step loop stands still: nobody can compute. It may also be the machine that stands, so
 * it is looked at ten times. */
static uint64_t steps_at_rest(struct engine *engine)
{
    struct engine_stats before;
    struct engine_stats after;
    engine_stats(engine, &before);
    for (uint32_t same = 0; same < 10; before = after) {
        usleep(10000);
        engine_run_take(engine);
        engine_stats(engine, &after);
        same = before.steps == after.steps ? same + 1 : 0;
    }
    return after.steps;
}

enum { SLOW_MAX = 16 };

/* With one place to compute: readers who stop, as many as one client has places for, and behind
 * them one more who waits. How many have come in. */
static uint32_t hold_places(struct engine *engine, const struct engine_request *request,
                            struct engine_run_transcript slow[SLOW_MAX])
{
    struct engine_stats stats;
    for (uint32_t i = 0; i < SLOW_MAX; i++) {
        slow[i].holds_acknowledgements = true;
        engine_run_submit(engine, request, &slow[i]);
        do {
            steps_at_rest(engine);
            engine_stats(engine, &stats);
        } while (stats.sequences_throttled <= i && stats.sequences_waiting == 0);
        if (stats.sequences_waiting == 1) {
            assert_int_equal(stats.sequences_throttled, i);
            assert_false(slow[i].is_started);
            return i;
        }
    }
    fail();
    return 0;
}

/* One place to compute: readers who have stopped do not hold it, as long as there are places. */
static void test_throttled_leave_the_door_open(void **state)
{
    (void)state;
    static struct engine_run_transcript slow[SLOW_MAX];
    struct engine_options options = engine_run_options();
    options.sequences_max = 1;
    struct engine *engine = engine_run_open(&options);
    const struct engine_request request = plain(0, 10, 200);
    uint32_t held = hold_places(engine, &request, slow);
    assert_true(held >= 2);
    /* The next one comes in when a reader goes on. */
    for (uint32_t i = held; i <= held; i--) { /* the last two, then the others */
        slow[i].holds_acknowledgements = false;
        engine_run_acknowledge(engine, &slow[i]);
        if (i < held)
            engine_run_finish(engine, (struct engine_run_transcript *[]){&slow[i]}, 1);
        if (i == held - 1)
            engine_run_finish(engine, (struct engine_run_transcript *[]){&slow[held]}, 1);
    }
    for (uint32_t i = 0; i < held; i++)
        assert_true(engine_run_same(&slow[i], &slow[held]));
    assert_idle(engine);
    engine_run_close(engine);
}

/* Its pages are the first to be taken; it is computed again, bit for bit, when it may go on. */
static void test_throttled_give_their_pages(void **state)
{
    (void)state;
    static struct engine_run_transcript slow;
    static struct engine_run_transcript alone_run;
    static struct engine_run_transcript big;
    struct engine_options options = engine_run_options();
    options.kv_bytes /= 4; /* one full sequence */
    struct engine *engine = engine_run_open(&options);
    const struct engine_request request = plain(0, 10, 150);
    const struct engine_request all_pages = plain(3, 490, 22);
    run_one(engine, &request, &alone_run);
    slow.holds_acknowledgements = true;
    engine_run_submit(engine, &request, &slow);
    take_tokens(engine, &slow, LIMIT_UNDELIVERED_TOKENS);
    run_one(engine, &all_pages, &big);
    assert_int_equal(big.report.preemptions, 0);
    slow.holds_acknowledgements = false;
    engine_run_acknowledge(engine, &slow);
    engine_run_finish(engine, (struct engine_run_transcript *[]){&slow}, 1);
    assert_int_equal(slow.report.preemptions, 1);
    assert_true(engine_run_same(&slow, &alone_run));
    assert_idle(engine);
    engine_run_close(engine);
}

/* Choices are read one by one: one that is not stops alone. */
static void test_one_choice_is_throttled(void **state)
{
    (void)state;
    static struct engine_run_transcript out;
    struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(0, 10, 150);
    request.choices = 3;
    out.holds_acknowledgements = true;
    engine_run_submit(engine, &request, &out);
    for (uint32_t naps = 0; out.choices[1].count < 150; naps++) {
        assert_true(naps < 600000);
        usleep(100);
        engine_run_take(engine);
        engine_acknowledge(engine, out.id, 1, out.unacknowledged[1]);
        out.unacknowledged[1] = 0;
    }
    steps_at_rest(engine);
    assert_int_equal(out.choices[0].count, LIMIT_UNDELIVERED_TOKENS);
    assert_int_equal(out.choices[2].count, LIMIT_UNDELIVERED_TOKENS);
    out.holds_acknowledgements = false;
    engine_run_acknowledge(engine, &out);
    engine_run_finish(engine, (struct engine_run_transcript *[]){&out}, 1);
    assert_int_equal(out.report.completion_tokens, 450);
    assert_idle(engine);
    engine_run_close(engine);
}

/* A consumer that takes nothing: the queue of events stays within its bound, whatever is
 * acknowledged in advance. */
static void test_consumer_that_sleeps(void **state)
{
    (void)state;
    static struct engine_run_transcript out[12];
    struct engine_run_transcript *all[12];
    struct engine_options options = engine_run_options();
    options.sequences_max = 4;
    struct engine *engine = engine_run_open(&options);
    for (uint32_t i = 0; i < 12; i++) {
        struct engine_request request = plain(i, 5, i % 2 == 0 ? 100 : 20);
        request.top_logprobs = LIMIT_LOGPROBS;
        all[i] = &out[i];
        engine_run_submit(engine, &request, &out[i]);
        engine_acknowledge(engine, out[i].id, 0, UINT32_MAX);
    }
    struct engine_stats before;
    struct engine_stats after;
    do {
        engine_stats(engine, &before);
        usleep(50000);
        engine_stats(engine, &after);
    } while (before.steps != after.steps || after.steps == 0);
    /* Four compute; when they stand, they are throttled, and four more come in. */
    assert_true(after.tokens_generated <= 8 * LIMIT_UNDELIVERED_TOKENS);
    engine_run_finish(engine, all, 12);
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(out[i].choices[0].count, i % 2 == 0 ? 100 : 20);
    assert_idle(engine);
    engine_run_close(engine);
}

static void test_cancel_storm(void **state)
{
    (void)state;
    enum { ROUNDS = 6, EACH = 24 };
    static struct engine_run_transcript out[EACH];
    struct engine_run_transcript *all[EACH];
    struct engine_options options = engine_run_options();
    options.threads = 2;
    struct engine *engine = engine_run_open(&options);
    struct rng rng = {.seed = 31};
    uint32_t cancelled = 0;
    uint32_t refused = 0;
    engine_request_id stale = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < EACH; i++) {
            struct engine_request request = mixed((uint32_t)rng_below(&rng, MIXED));
            request.tokens_max = 1 + (uint32_t)rng_below(&rng, 120);
#if BANYAN_TEXT
            if (rng_below(&rng, 3) == 0) {
                request.prompt_kind = ENGINE_PROMPT_TEXT;
                request.text = SLICE("some text that is tokenised on another thread");
            }
#endif
            all[i] = &out[i];
            out[i].holds_acknowledgements = rng_below(&rng, 4) == 0;
            engine_run_submit(engine, &request, &out[i]);
            if (rng_below(&rng, 3) == 0)
                engine_cancel(engine, out[i].id); /* in the queue, or while it is prepared */
        }
        for (uint32_t i = 0; i < EACH; i++) {
            usleep((useconds_t)rng_below(&rng, 1500));
            engine_run_take(engine);
            if (out[i].holds_acknowledgements || rng_below(&rng, 2) == 0)
                engine_cancel(engine, out[i].id); /* while it runs */
            engine_cancel(engine, stale);
            engine_acknowledge(engine, stale, 0, 1000);
        }
        stale = out[0].id;
        engine_run_finish(engine, all, EACH);
        for (uint32_t i = 0; i < EACH; i++) {
            cancelled += !out[i].is_refused && out[i].report.finish == ENGINE_FINISH_CANCELLED;
            refused += out[i].is_refused;
            assert_true(!out[i].is_refused || out[i].note.status == STATUS_CANCELLED);
        }
        assert_idle(engine);
    }
    assert_true(cancelled > 0);
    assert_true(refused > 0);
    engine_run_close(engine);
}

/* Where a request can stand when its client leaves. The engine is idle one step later at most: the
 * one that was being computed. */
enum cancel_state {
    CANCEL_AT_ONCE, /* a text, still being made into tokens */
    CANCEL_QUEUED,
    CANCEL_PREFILL,
    CANCEL_DECODE,
    CANCEL_CHOICES,
    CANCEL_THROTTLED,
    CANCEL_LAST_TOKEN,
    CANCEL_OVER,
    CANCEL_STATES,
};

static struct engine_request cancel_request(enum cancel_state at)
{
    struct engine_request request = plain(0, 10, 200);
    static char text[400];
    memset(text, 'x', sizeof text);
    if (at == CANCEL_AT_ONCE) {
        request.prompt_kind = ENGINE_PROMPT_TEXT;
        request.text = (struct slice){text, sizeof text};
    }
    if (at == CANCEL_PREFILL)
        request = plain(0, 500, 4); /* 63 steps of 8 rows */
    if (at == CANCEL_CHOICES)
        request.choices = 4;
    if (at == CANCEL_LAST_TOKEN || at == CANCEL_OVER)
        request.tokens_max = 6;
    return request;
}

/* Waits until the request stands there. */
static void cancel_reach(struct engine *engine, const struct engine_run_transcript *out,
                         enum cancel_state at)
{
    static const uint32_t tokens[CANCEL_STATES] = {
        [CANCEL_DECODE] = 5,
        [CANCEL_CHOICES] = 5,
        [CANCEL_THROTTLED] = LIMIT_UNDELIVERED_TOKENS,
        [CANCEL_LAST_TOKEN] = 5,
        [CANCEL_OVER] = 6,
    };
    if (at == CANCEL_AT_ONCE)
        return;
    for (uint32_t naps = 0; at != CANCEL_QUEUED && !out->is_started; naps++) {
        assert_true(naps < 600000);
        usleep(20);
        engine_run_take(engine);
    }
    for (uint32_t naps = 0; out->choices[0].count < tokens[at]; naps++) {
        assert_true(naps < 600000);
        usleep(20);
        engine_run_take(engine);
    }
    if (at == CANCEL_THROTTLED || at == CANCEL_QUEUED)
        steps_at_rest(engine);
}

static void test_cancel_anywhere(void **state)
{
    (void)state;
    static struct engine_run_transcript slow[SLOW_MAX];
    static struct engine_run_transcript out;
    struct engine_options options = engine_run_options();
    options.sequences_max = 4;
    options.rows_max = 8;
    for (enum cancel_state at = 0; at < CANCEL_STATES; at++) {
        struct engine_stats before;
        struct engine_stats after;
        /* One who waits needs all places taken, by readers who have stopped. */
        options.sequences_max = at == CANCEL_QUEUED ? 1 : 4;
        struct engine *engine = engine_run_open(&options);
        const struct engine_request request = cancel_request(at);
        const struct engine_request filler = plain(0, 10, 200);
        uint32_t held = at == CANCEL_QUEUED ? hold_places(engine, &filler, slow) + 1 : 0;
        out.holds_acknowledgements = at == CANCEL_THROTTLED;
        engine_run_submit(engine, &request, &out);
        cancel_reach(engine, &out, at);
        if (at == CANCEL_QUEUED || at == CANCEL_THROTTLED)
            engine_stats(engine, &before);
        engine_cancel(engine, out.id);
        engine_cancel(engine, out.id); /* again: nothing more */
        if (at != CANCEL_QUEUED && at != CANCEL_THROTTLED)
            engine_stats(engine, &before); /* said before this: one step may be under way */
        engine_run_finish(engine, (struct engine_run_transcript *[]){&out}, 1);
        engine_stats(engine, &after);
        if (at != CANCEL_AT_ONCE)
            assert_true(after.steps <= before.steps + 1);
        if (at == CANCEL_QUEUED || at == CANCEL_THROTTLED)
            assert_int_equal(after.steps, before.steps);
        if (at == CANCEL_QUEUED) {
            assert_true(out.is_refused);
            assert_int_equal(out.note.status, STATUS_CANCELLED);
        }
        if (at == CANCEL_PREFILL)
            assert_int_equal(out.report.completion_tokens, 0);
        if (at >= CANCEL_PREFILL && at <= CANCEL_THROTTLED)
            assert_int_equal(out.report.finish, ENGINE_FINISH_CANCELLED);
        if (at == CANCEL_OVER)
            assert_int_equal(out.report.finish, ENGINE_FINISH_LENGTH);
        for (uint32_t i = 0; i < held; i++) {
            engine_cancel(engine, slow[i].id);
            engine_run_finish(engine, (struct engine_run_transcript *[]){&slow[i]}, 1);
        }
        engine_cancel(engine, out.id); /* stale */
        out.holds_acknowledgements = false;
        run_one(engine, &filler, &out);
        assert_int_equal(out.report.completion_tokens, 200);
        assert_idle(engine);
        engine_run_close(engine);
    }
}

static void test_deadline(void **state)
{
    (void)state;
    static struct engine_run_transcript slow[SLOW_MAX];
    static struct engine_run_transcript after;
    struct engine_options options = engine_run_options();
    struct clock clock;
    clock_manual_init(&clock, 1000);
    options.clock = &clock;
    options.sequences_max = 1;
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(0, 10, 300);
    request.deadline_us = 5000;
    uint32_t held = hold_places(engine, &request, slow);
    clock_manual_advance(&clock, 4000); /* it runs for those who are throttled, too */
    for (uint32_t i = 0; i <= held; i++)
        engine_run_finish(engine, (struct engine_run_transcript *[]){&slow[i]}, 1);
    for (uint32_t i = 0; i < held; i++) {
        assert_int_equal(slow[i].report.finish, ENGINE_FINISH_DEADLINE);
        assert_int_equal(slow[i].choices[0].finish, ENGINE_FINISH_DEADLINE);
    }
    assert_true(slow[held].is_refused);
    assert_int_equal(slow[held].note.status, STATUS_DEADLINE);
    request.deadline_us = 5001;
    request.tokens_max = 2;
    run_one(engine, &request, &after);
    assert_int_equal(after.report.finish, ENGINE_FINISH_LENGTH);
    assert_idle(engine);
    engine_run_close(engine);
}

/* --- refusals --- */

static void test_full(void **state)
{
    (void)state;
    static struct engine_run_transcript out;
    static struct engine_event event;
    struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    const struct engine_request request = plain(0, 3, 1);
    engine_request_id id;
    for (uint32_t i = 0; i < LIMIT_REQUESTS_IN_ENGINE; i++)
        assert_int_equal(engine_submit(engine, &request, &id), STATUS_OK);
    assert_int_equal(engine_submit(engine, &request, &id), STATUS_BUSY);
    for (uint32_t ends = 0; ends < LIMIT_REQUESTS_IN_ENGINE;) {
        if (engine_next_event(engine, &event))
            ends += event.kind == ENGINE_EVENT_END;
        else
            usleep(100);
    }
    run_one(engine, &request, &out);
    assert_idle(engine);
    engine_run_close(engine);
}

static void test_bad_requests(void **state)
{
    (void)state;
    static struct engine_run_transcript out;
    struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    struct engine_info info;
    engine_info(engine, &info);
    assert_string_equal(info.model_name, "tiny");
    assert_int_equal(info.context, 512);
    assert_int_equal(info.kv_pages, 128);
    assert_string_equal(info.isa, "ref_int8");
    const uint32_t foreign[2] = {1, info.vocab};
    struct engine_request request = plain(0, 2, 1);
    request.tokens = foreign;
    run_one(engine, &request, &out);
    assert_int_equal(out.note.status, STATUS_OUT_OF_RANGE);
    assert_string_equal(out.note.param, "prompt[1]");
    request = plain(0, 0, 1);
    run_one(engine, &request, &out);
    assert_int_equal(out.note.status, STATUS_INVALID);
    request = plain(0, 2, 1);
    request.sampling.temperature = 2.5f;
    run_one(engine, &request, &out);
    assert_string_equal(out.note.param, "temperature");
#if !BANYAN_TEXT
    request = plain(0, 0, 1);
    request.prompt_kind = ENGINE_PROMPT_TEXT;
    request.text = SLICE("hello");
    run_one(engine, &request, &out);
    assert_int_equal(out.note.status, STATUS_UNSUPPORTED);
#endif
    struct buffer text;
    buffer_init(&text, 100);
    const uint32_t hello[2] = {'h', 'i'};
    assert_int_equal(engine_detokenize(engine, hello, 2, true, &text), STATUS_OK);
    assert_true(slice_is(buffer_slice(&text), "hi"));
    assert_int_equal(engine_detokenize(engine, foreign, 2, true, &text), STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "tokens[1]");
    buffer_deinit(&text);
    assert_true(slice_is(engine_token_bytes(engine, 'x'), "x"));
    assert_idle(engine);
    engine_run_close(engine);
}

static void test_open_refuses(void **state)
{
    (void)state;
    struct engine_options options = engine_run_options();
    struct engine *engine = NULL;
    options.model_path = "/nowhere/model.gguf";
    assert_int_equal(engine_open(&engine, &options), STATUS_IO);
    options.model_path = engine_run_make_model();
    options.context = 513;
    assert_int_equal(engine_open(&engine, &options), STATUS_OUT_OF_RANGE);
    options.context = 512;
    options.kv_type = "int3";
    assert_int_equal(engine_open(&engine, &options), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "f16 f16q i8"));
    options.kv_type = "f32"; /* twice the bytes: 2 full sequences fit */
    options.isa = "ref";
    assert_int_equal(engine_open(&engine, &options), STATUS_OK);
    engine_close(engine);
    engine = NULL;
    options.model_descriptor = open(options.model_path, O_RDONLY | O_CLOEXEC);
    options.model_path = NULL; /* the descriptor alone will do, and stays the caller's */
    options.model_name = NULL;
    assert_int_equal(engine_open(&engine, &options), STATUS_OK);
    struct engine_info info;
    engine_info(engine, &info);
    assert_string_equal(info.model_name, "model");
    assert_true(info.created_wall_s > 0);
    engine_close(engine);
    engine = NULL;
    assert_int_equal(close(options.model_descriptor), 0);
    options.model_descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(engine_open(&engine, &options), STATUS_INVALID);
    close(options.model_descriptor);
    options.model_descriptor = -1;
    options.model_path = engine_run_make_model();
    options.kv_bytes = options.kv_bytes / 2 - 1;
    assert_int_equal(engine_open(&engine, &options), STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, "needs 32 pages"));
    options.isa = "avx9";
    assert_int_not_equal(engine_open(&engine, &options), STATUS_OK);
    assert_null(engine);
    engine_run_remove_model();
}

/* KiB of all mappings of a file that are in this process's memory; -1 where there is none. */
static long resident_kib(const char *path)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    char line[512];
    bool is_it = false;
    long kib = -1;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) /* a mapping's head, of no file too */
            is_it = strstr(line, path) != NULL;
        else if (is_it && strncmp(line, "Rss:", 4) == 0)
            kib = (kib > 0 ? kib : 0) + strtol(line + 4, NULL, 10);
    }
    if (maps != NULL)
        fclose(maps);
    return kib;
}

/* Once weights are packed the file's bytes are not in memory a second time: its head is, and what
 * the system maps around a page. */
static void test_file_leaves_memory(void **state)
{
    (void)state;
    struct engine_options options = engine_run_options();
    options.model_path = engine_run_make_model();
    struct stat file;
    assert_int_equal(stat(options.model_path, &file), 0);
    struct engine *engine = NULL;
    assert_int_equal(engine_open(&engine, &options), STATUS_OK);
    long kib = resident_kib(options.model_path);
    assert_true(kib < (long)file.st_size / 1024 / 2);
    engine_run_close(engine);
}

/* Of an F16 file: answers as of the file's weights but for the codes' rounding, the same bits again
 * and again, and the file's bytes leave memory as they do without. */
static void test_weights_int4(void **state)
{
    (void)state;
    static const char *const weights[] = {"file", "int4", "int4"};
    struct engine_options options = engine_run_options();
    struct llama_shape shape = engine_run_shape();
    char path[64];
    shape.type = TENSOR_TYPE_f16;
    shape.hidden = 1024;
    engine_run_write_model(&shape, path, sizeof path);
    options.model_path = path;
    options.weights = "int3";
    struct engine *engine = NULL;
    assert_int_equal(engine_open(&engine, &options), STATUS_INVALID);
    assert_null(engine);
    struct stat file;
    assert_int_equal(stat(options.model_path, &file), 0);
    for (uint32_t i = 0; i < 3; i++) {
        options.weights = weights[i];
        options.threads = 1 + i;
        assert_int_equal(engine_open(&engine, &options), STATUS_OK);
        assert_true(resident_kib(options.model_path) < (long)file.st_size / 1024 / 2);
        const struct engine_request request = plain(0, 60, 40);
        run_one(engine, &request, &alone[i]);
        assert_false(alone[i].is_refused);
        assert_int_equal(alone[i].choices[0].count, 40);
        assert_idle(engine);
        engine_close(engine);
        engine = NULL;
    }
    assert_true(engine_run_same(&alone[1], &alone[2]));
    assert_false(engine_run_same(&alone[0], &alone[1]));
    unlink(path);
}

static int refuse_after(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- <= 0;
}

/* Opening fails at the n-th allocation, for the first ones each and then at strides, until it does
 * not; whatever was made before is given back (the leak check of the ASan build sees to that). */
static void test_open_without_memory(void **state)
{
    (void)state;
    struct engine_options options = engine_run_options();
    options.model_path = engine_run_make_model();
    struct engine *engine = NULL;
    int allowed = 0;
    for (; engine == NULL; allowed += allowed < 60 ? 1 : 23) {
        assert_true(allowed < 100000);
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        enum status status = engine_open(&engine, &options);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        assert_true((status == STATUS_OK) == (engine != NULL));
    }
    assert_true(allowed > 60);
    engine_run_close(engine);
}

/* What engine_requests and engine_published show, and that unpublishing gives the pages back. */
static void test_what_is_under_way(void **state)
{
    (void)state;
    static struct engine_run_transcript slow;
    static struct engine_run_transcript prompt;
    struct engine_options options = engine_run_options();
    options.pin_percent = 50;
    struct engine *engine = engine_run_open(&options);
    struct engine_request_info shown[4];
    struct engine_published published[2];
    struct engine_info info;
    engine_info(engine, &info);
    assert_int_equal(info.pin_pages, 64);
    assert_int_equal(engine_requests(engine, shown, 4), 0);

    struct engine_request request = plain(0, 40, 100);
    request.domain.bytes[0] = 1;
    slow.holds_acknowledgements = true;
    engine_run_submit(engine, &request, &slow);
    do {
        engine_run_take(engine);
        assert_int_equal(engine_requests(engine, shown, 4), 1);
    } while (shown[0].state != ENGINE_REQUEST_THROTTLED);
    assert_true(shown[0].id == slow.id);
    assert_string_equal(shown[0].request_id, "req_test");
    assert_string_equal(engine_request_state_name(shown[0].state), "throttled");
    assert_int_equal(shown[0].prompt_tokens, 40);
    assert_int_equal(shown[0].completion_tokens, LIMIT_UNDELIVERED_TOKENS);
    assert_int_equal(shown[0].computed, 40 + LIMIT_UNDELIVERED_TOKENS - 1);
    assert_memory_equal(&shown[0].domain, &request.domain, sizeof(request.domain));

    struct engine_request text = plain(0, 100, 0);
    text.domain.bytes[0] = 9;
    text.is_published = true;
    run_one(engine, &text, &prompt);
    assert_false(prompt.is_refused);
    assert_int_equal(prompt.report.pinned_pages, 7);
    assert_int_equal(prompt.report.completion_tokens, 0);
    while (engine_published(engine, published, 2) == 0)
        usleep(1000);
    assert_int_equal(published[0].pages, 7);
    assert_memory_equal(&published[0].domain, &text.domain, sizeof(text.domain));
    assert_int_equal(engine_unpublish(engine, &text.domain), STATUS_OK);
    while (engine_published(engine, published, 2) > 0)
        usleep(1000);
    engine_cancel(engine, slow.id);
    engine_run_finish(engine, (struct engine_run_transcript *[]){&slow}, 1);
    assert_idle(engine);
    engine_run_close(engine);
}

static void test_metrics(void **state)
{
    (void)state;
    static struct engine_run_transcript out;
    struct engine_options options = engine_run_options();
    struct metrics *metrics = NULL;
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    options.metrics = metrics;
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(0, 30, 7);
    request.choices = 2;
    run_one(engine, &request, &out);
    struct buffer text;
    buffer_init(&text, 1 << 20);
    metrics_render(metrics, &text);
    static const char *const lines[] = {
        "banyan_engine_tokens_total{kind=\"prompt\"} 30\n",
        "banyan_engine_tokens_total{kind=\"generated\"} 14\n",
        "banyan_kv_pages{state=\"free\"} 128\n",
        "banyan_kv_pages{state=\"active\"} 0\n",
        "banyan_kernel_info{isa=\"ref_int8\",backend=\"cpu\"} 1\n",
        "banyan_queue_seconds_count{class=\"realtime\"} 1\n",
        "banyan_engine_first_token_seconds_count{class=\"realtime\"} 1\n",
        "banyan_inter_token_seconds_count{class=\"realtime\"} 12\n",
        "banyan_batch_rows_sum 72\n", /* 2 × (30 + 6): the last token is never computed */
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (strstr(text.bytes, lines[i]) == NULL)
            print_error("no line %s in\n%s", lines[i], text.bytes);
        assert_non_null(strstr(text.bytes, lines[i]));
    }
    buffer_deinit(&text);
    assert_idle(engine);
    engine_run_close(engine);
    metrics_destroy(metrics);
}

/* --- guesses --- */

enum { GUESSING = 6 };

/* A text that repeats itself, answered with a few letters again and again. */
static struct engine_request guessing(const uint32_t *tokens, uint32_t count, uint32_t index)
{
    struct engine_request request = plain(0, count, 100);
    request.tokens = tokens;
    request.choices = 1 + index % 2;
    request.sampling.seed = index;
    request.sampling.temperature = index < 3 ? 0 : 0.8f;
    request.sampling.bias_count = 1 + index % 3;
    for (uint32_t b = 0; b < request.sampling.bias_count; b++)
        request.sampling.bias[b] = (struct engine_bias){.token = 'a' + b, .bias = 60};
    if (index == 3) {
        request.stop[0] = SLICE("aaaaaaa");
        request.stop_count = 1;
    }
    return request;
}

/* By the engine's own thread: every answer as without guesses, its text and the likeliest tokens
 * too. The first runs alone, before anything is known of what a step takes: it does guess. */
static void test_guesses(void **state)
{
    (void)state;
    uint32_t tokens[60];
    struct engine_options options = engine_run_options();
    for (uint32_t i = 0; i < 60; i++)
        tokens[i] = 'a' + i % 7;
    for (uint32_t on = 0; on < 2; on++) {
        struct engine_run_transcript *all[GUESSING];
        options.speculation = on == 1 ? ENGINE_SPECULATION_LOOKUP : ENGINE_SPECULATION_OFF;
        struct engine *engine = engine_run_open(&options);
        for (uint32_t i = 0; i < GUESSING; i++) {
            const struct engine_request request = guessing(tokens, 60, i);
            all[i] = on == 1 ? &together[i] : &alone[i];
            engine_run_submit(engine, &request, all[i]);
            if (i == 0)
                engine_run_finish(engine, all, 1);
        }
        engine_run_finish(engine, all, GUESSING);
        assert_idle(engine);
        engine_run_close(engine);
    }
    for (uint32_t i = 0; i < GUESSING; i++)
        assert_true(engine_run_same(&together[i], &alone[i]));
    assert_true(together[0].report.drafts_accepted > 0);
    assert_int_equal(alone[0].report.drafts_accepted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_in_any_company),
        cmocka_unit_test(test_same_bits_when_pages_are_short),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_an_echo_alone),
        cmocka_unit_test(test_end_token),
        cmocka_unit_test(test_stop_string),
        cmocka_unit_test(test_context_is_filled),
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_throttled_leave_the_door_open),
        cmocka_unit_test(test_throttled_give_their_pages),
        cmocka_unit_test(test_one_choice_is_throttled),
        cmocka_unit_test(test_consumer_that_sleeps),
        cmocka_unit_test(test_cancel_storm),
        cmocka_unit_test(test_cancel_anywhere),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_open_refuses),
        cmocka_unit_test(test_file_leaves_memory),
        cmocka_unit_test(test_weights_int4),
        cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_what_is_under_way),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_guesses),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
