/* Why a request waits, or has waited: its class, how many are before it, coarsely, what its tenant
 * is owed, pages that it needs and that there are, and which class took its pages. */
#include "engine/engine_show.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/engine_run.h"

enum { NAP_US = 200, NAPS_MAX = 300000, SHOWN = 16 };

static uint32_t prompt_tokens[ENGINE_RUN_TOKENS];
static struct engine_request_info shown[SHOWN];

static struct engine_request ask(enum service_class class, uint32_t prompt, uint32_t answer)
{
    return (struct engine_request){
        .request_id = SLICE("req_shown"),
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = prompt_tokens,
        .token_count = prompt,
        .choices = 1,
        .tokens_max = answer,
        .sampling = {.top_p = 1},
        .ignore_end = true,
        .service_class = class,
    };
}

/* The row of a request; NULL when it is not listed. */
static const struct engine_request_info *row_of(struct engine *engine,
                                                const struct engine_run_transcript *transcript)
{
    engine_run_take(engine);
    size_t count = engine_requests(engine, shown, SHOWN);
    for (size_t i = 0; i < count; i++)
        if (shown[i].id == transcript->id)
            return &shown[i];
    return NULL;
}

static void nap(uint32_t *naps)
{
    assert_true(++*naps < NAPS_MAX);
    usleep(NAP_US);
}

static void wait_throttled(struct engine *engine, uint32_t count)
{
    struct engine_stats stats;
    uint32_t naps = 0;
    for (engine_stats(engine, &stats); stats.sequences_throttled < count;
         engine_stats(engine, &stats)) {
        engine_run_take(engine);
        nap(&naps);
    }
}

static void submit_all(struct engine *engine, struct clock *clock,
                       const struct engine_request *request, uint32_t count,
                       struct engine_run_transcript *out)
{
    for (uint32_t i = 0; i < count; i++) {
        clock_manual_advance(clock, 1000);
        out[i].holds_acknowledgements = true;
        engine_run_submit(engine, request, &out[i]);
    }
}

static void assert_waits(struct engine *engine, const struct engine_run_transcript *transcript,
                         const struct engine_request *request, uint32_t position)
{
    struct engine_stats stats;
    engine_stats(engine, &stats);
    const struct engine_request_info *row = row_of(engine, transcript);
    uint32_t there = stats.pages_free + stats.pages_cached;
    assert_non_null(row);
    assert_int_equal(row->state, ENGINE_REQUEST_WAITING);
    assert_int_equal(row->service_class, request->service_class);
    assert_int_equal(row->position, position);
    /* Of this clock a step takes no time, so nothing is known, or what it was advanced by
     * meanwhile: coarse, as pages are. */
    assert_int_equal(row->estimate_ms & (row->estimate_ms - 1), 0);
    assert_int_equal(row->pages_needed, 3);
    assert_in_range(row->pages_free, there / 2 + 1, there); /* coarse: a power of two */
    assert_int_equal(row->pages_free & (row->pages_free - 1), 0);
    assert_in_range(row->deficit_sign, 0, 1);
    assert_false(row->is_preempted);
}

/* Of a client whose readers have stopped three come in, of twelve places; those behind them see how
 * many of their class are before them. */
static void test_who_waits(void **state)
{
    (void)state;
    enum { IN = 3, URGENT = 10, USUAL = 5 };
    static struct engine_run_transcript urgent[URGENT];
    static struct engine_run_transcript usual[USUAL];
    static const uint32_t positions[] = {0, 1, 2, 2, 4, 4, 4};
    struct engine_options options = engine_run_options();
    struct clock clock;
    clock_manual_init(&clock, 1000);
    options.clock = &clock;
    options.sequences_max = 1;
    struct engine *engine = engine_run_open(&options);
    const struct engine_request first = ask(SERVICE_CLASS_REALTIME, 40, 200);
    const struct engine_request second = ask(SERVICE_CLASS_STANDARD, 40, 200);
    submit_all(engine, &clock, &first, URGENT, urgent);
    wait_throttled(engine, IN);
    submit_all(engine, &clock, &second, USUAL, usual);
    wait_throttled(engine, 2 * IN);
    for (uint32_t i = IN; i < URGENT; i++)
        assert_waits(engine, &urgent[i], &first, positions[i - IN]);
    for (uint32_t i = IN; i < USUAL; i++)
        assert_waits(engine, &usual[i], &second, positions[i - IN]);
    engine_run_close(engine);
}

/* The class that took its pages is told as long as the request is there, nothing else of who. */
static void test_who_was_preempted(void **state)
{
    (void)state;
    static struct engine_run_transcript batch;
    static struct engine_run_transcript urgent;
    const struct engine_request_info *row;
    struct engine_options options = engine_run_options();
    options.kv_bytes /= 4; /* one full sequence */
    struct engine *engine = engine_run_open(&options);
    const struct engine_request slow = ask(SERVICE_CLASS_BATCH, 380, 100);
    const struct engine_request quick = ask(SERVICE_CLASS_REALTIME, 300, 4);
    batch.holds_acknowledgements = true; /* it does not end before it is looked at */
    engine_run_submit(engine, &slow, &batch);
    uint32_t naps = 0;
    while ((row = row_of(engine, &batch)) == NULL || row->completion_tokens == 0)
        nap(&naps);
    assert_false(row->is_preempted);
    engine_run_submit(engine, &quick, &urgent);
    engine_run_finish(engine, (struct engine_run_transcript *[]){&urgent}, 1);
    row = row_of(engine, &batch);
    assert_non_null(row);
    assert_int_equal(row->service_class, SERVICE_CLASS_BATCH);
    assert_true(row->is_preempted);
    assert_int_equal(row->preempted_by, SERVICE_CLASS_REALTIME);
    batch.holds_acknowledgements = false;
    engine_run_acknowledge(engine, &batch);
    engine_run_finish(engine, (struct engine_run_transcript *[]){&batch}, 1);
    assert_int_equal(batch.report.preemptions, 1);
    assert_int_equal(batch.report.completion_tokens, 100);
    assert_int_equal(engine_requests(engine, shown, SHOWN), 0);
    engine_run_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_waits),
        cmocka_unit_test(test_who_was_preempted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
