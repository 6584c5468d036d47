/* Several engines behind one door: what they answer is what one answers, a prompt goes where its
 * beginning is, a published one is in all of them, and ids of one are not those of another. */
#include "engine/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/engine_run.h"

enum { ENGINES = 3, PROMPT = 128, ANSWER = 8, NAP_US = 200, NAPS_MAX = 300000, MOST = 64 };

struct asked {
    engine_request_id id;
    uint32_t tokens[ENGINE_RUN_TOKENS];
    uint32_t count;
    uint32_t starts, ends;
    bool is_refused;
    struct engine_report report;
    struct error_note note;
};

static uint32_t prompt_tokens[MOST][PROMPT];
static struct asked asked[MOST];
static struct fleet *fleet;

static struct engine_request request_of(uint32_t index, uint32_t answer)
{
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt_tokens[index][i] = 3 + (index * 31 + i * 7) % 250;
    return (struct engine_request){
        .request_id = SLICE("req_fleet"),
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = prompt_tokens[index],
        .token_count = PROMPT,
        .choices = 1,
        .tokens_max = answer,
        .sampling = {.top_p = 1},
        .ignore_end = true,
        .domain = {{(uint8_t)(1 + index)}},
        .service_class = SERVICE_CLASS_STANDARD,
    };
}

static void open_fleet(uint32_t engines)
{
    struct engine_options options = engine_run_options();
    options.model_path = engine_run_make_model();
    options.pin_percent = 50;
    memset(asked, 0, sizeof asked);
    assert_int_equal(fleet_open(&fleet, &options, NULL, engines), STATUS_OK);
    assert_int_equal(fleet_count(fleet), engines);
}

static void close_fleet(void)
{
    fleet_close(fleet);
    engine_run_remove_model();
}

static void submit(uint32_t place, const struct engine_request *request)
{
    struct engine_request own = *request;
    asked[place] = (struct asked){0};
    own.context = &asked[place];
    assert_int_equal(fleet_submit(fleet, &own, &asked[place].id), STATUS_OK);
}

static void take(void)
{
    struct engine_event event;
    while (fleet_next_event(fleet, &event)) {
        struct asked *to = event.context;
        assert_int_equal(event.id, to->id);
        assert_int_equal(to->ends, 0);
        to->starts += event.kind == ENGINE_EVENT_START;
        if (event.kind == ENGINE_EVENT_TOKEN) {
            to->tokens[to->count++] = event.token;
            fleet_acknowledge(fleet, event.id, event.choice, 1);
        }
        if (event.kind == ENGINE_EVENT_END || event.kind == ENGINE_EVENT_ERROR) {
            to->ends++;
            to->is_refused = event.kind == ENGINE_EVENT_ERROR;
            to->report = event.report;
            to->note = event.note;
        }
    }
}

static void finish(uint32_t count)
{
    uint32_t naps = 0;
    for (;;) {
        uint32_t over = 0;
        take();
        for (uint32_t i = 0; i < count; i++)
            over += asked[i].ends;
        if (over == count)
            return;
        assert_true(++naps < NAPS_MAX);
        usleep(NAP_US);
    }
}

static uint32_t engine_of(uint32_t place)
{
    return (uint32_t)asked[place].id >> 24;
}

static void test_same_answers(void **state)
{
    (void)state;
    enum { REQUESTS = 24 };
    static uint32_t alone[REQUESTS][ANSWER];
    uint32_t counts[ENGINES] = {0};
    for (uint32_t engines = 1; engines <= ENGINES; engines += ENGINES - 1) {
        open_fleet(engines);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            const struct engine_request request = request_of(i, ANSWER);
            submit(i, &request);
        }
        finish(REQUESTS);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            assert_int_equal(asked[i].count, ANSWER);
            assert_int_equal(asked[i].starts, 1);
            if (engines == 1)
                memcpy(alone[i], asked[i].tokens, sizeof alone[i]);
            else {
                assert_memory_equal(alone[i], asked[i].tokens, sizeof alone[i]);
                counts[engine_of(i)]++;
            }
        }
        close_fleet();
    }
    for (uint32_t i = 0; i < ENGINES; i++)
        assert_true(counts[i] > 0);
}

static void test_prompt_finds_its_pages(void **state)
{
    (void)state;
    open_fleet(ENGINES);
    for (uint32_t i = 0; i < 8; i++) {
        const struct engine_request request = request_of(i, 1);
        submit(0, &request);
        finish(1);
        assert_int_equal(asked[0].report.cached_tokens, 0);
        const uint32_t home = engine_of(0);
        submit(0, &request);
        finish(1);
        assert_int_equal(engine_of(0), home);
        assert_true(asked[0].report.cached_tokens >= PROMPT - 16);
    }
    struct engine_stats stats;
    fleet_stats(fleet, &stats);
    assert_int_equal(stats.cache_query_tokens, 16 * PROMPT);
    assert_int_equal(stats.tokens_generated, 16);
    close_fleet();
}

/* The list is as the last step of each engine leaves it, which is behind the event of an end. */
static void wait_for_published(size_t domains, uint32_t pages)
{
    struct engine_published rows[4];
    size_t count = fleet_published(fleet, rows, 4);
    for (uint32_t naps = 0; count != domains || (count > 0 && rows[0].pages != pages); naps++) {
        assert_true(naps < NAPS_MAX);
        usleep(NAP_US);
        count = fleet_published(fleet, rows, 4);
    }
}

/* Published: in all engines, once in the list, found wherever a request goes; unpublished: gone. */
static void test_published_everywhere(void **state)
{
    (void)state;
    open_fleet(ENGINES);
    struct engine_info info;
    struct engine_stats stats;
    struct engine_request prompt = request_of(0, 0);
    prompt.is_published = true;
    submit(0, &prompt);
    finish(1);
    fleet_info(fleet, &info);
    fleet_stats(fleet, &stats);
    assert_false(asked[0].is_refused);
    assert_int_equal(asked[0].report.pinned_pages, fleet_pages_pinned_by(fleet, PROMPT));
    assert_int_equal(asked[0].report.pinned_pages, ENGINES * PROMPT / 16);
    assert_int_equal(stats.pages_pinned, ENGINES * PROMPT / 16);
    assert_true(info.pin_pages >= ENGINES * PROMPT / 16);
    wait_for_published(1, ENGINES * PROMPT / 16);
    for (uint32_t i = 1; i <= 12; i++) {
        struct engine_request reader = request_of(0, 1);
        reader.domain =
            (struct engine_domain){{99}}; /* one home, then by load: none is taken yet */
        reader.visible[0] = prompt.domain;
        reader.visible_count = reader.visible_public = 1;
        submit(i, &reader);
    }
    finish(13);
    uint32_t seen = 0;
    for (uint32_t i = 1; i <= 12; i++) {
        assert_true(asked[i].report.cached_public >= PROMPT - 16);
        seen |= 1u << engine_of(i);
    }
    assert_int_equal(seen, (1u << ENGINES) - 1);
    assert_int_equal(fleet_unpublish(fleet, &prompt.domain), STATUS_OK);
    wait_for_published(0, 0);
    close_fleet();
}

/* One that no engine can pin is told once, with the reason; the next one is not disturbed. */
static void test_published_over_the_cap(void **state)
{
    (void)state;
    struct engine_options options = engine_run_options();
    options.model_path = engine_run_make_model();
    options.pin_percent = 1;
    memset(asked, 0, sizeof asked);
    assert_int_equal(fleet_open(&fleet, &options, NULL, ENGINES), STATUS_OK);
    struct engine_request prompt = request_of(0, 0);
    prompt.is_published = true;
    for (int round = 0; round < 40; round++) { /* more often than there are places */
        submit(0, &prompt);
        finish(1);
        assert_true(asked[0].is_refused);
        assert_int_equal(asked[0].note.status, STATUS_LIMIT);
    }
    close_fleet();
}

/* Cancelling means one request, in the engine that has it; a stale id nothing. */
static void test_cancel_is_of_one(void **state)
{
    (void)state;
    enum { REQUESTS = 12 };
    struct engine_request_info rows[MOST];
    open_fleet(ENGINES);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct engine_request request = request_of(i, 256);
        submit(i, &request);
    }
    take();
    const size_t listed = fleet_requests(fleet, rows, MOST);
    assert_true(listed <= REQUESTS);
    for (size_t k = 0; k < listed; k++) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < REQUESTS; i++)
            found += rows[k].id == asked[i].id;
        assert_int_equal(found, 1);
    }
    for (uint32_t i = 0; i < REQUESTS; i += 2)
        fleet_cancel(fleet, asked[i].id);
    for (uint32_t i = 1; i < REQUESTS; i += 4)
        fleet_lower(fleet, asked[i].id);
    fleet_cancel(fleet, 0);
    fleet_cancel(fleet, UINT64_MAX);
    finish(REQUESTS);
    for (uint32_t i = 1; i < REQUESTS; i += 2)
        assert_int_equal(asked[i].count, 256);
    for (uint32_t i = 0; i < REQUESTS; i += 2)
        assert_true(asked[i].is_refused || asked[i].report.finish == ENGINE_FINISH_CANCELLED ||
                    asked[i].count == 256);
    close_fleet();
}

static void test_open_says_which(void **state)
{
    (void)state;
    struct engine_options options = engine_run_options();
    options.model_path = engine_run_make_model();
    assert_int_equal(fleet_open(&fleet, &options, NULL, 0), STATUS_OUT_OF_RANGE);
    assert_int_equal(fleet_open(&fleet, &options, NULL, LIMIT_ENGINES + 1), STATUS_OUT_OF_RANGE);
    options.kv_bytes = 1;
    assert_int_equal(fleet_open(&fleet, &options, NULL, 2), STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, "engine 0: "));
    engine_run_remove_model();
}

/* Each engine has series of its own, told apart by a label; one alone has none. */
static void test_series_of_each(void **state)
{
    (void)state;
    for (uint32_t engines = 1; engines <= 2; engines++) {
        struct engine_options options = engine_run_options();
        struct buffer text;
        options.model_path = engine_run_make_model();
        assert_int_equal(metrics_create(&options.metrics), STATUS_OK);
        assert_int_equal(fleet_open(&fleet, &options, NULL, engines), STATUS_OK);
        buffer_init(&text, 1 << 20);
        metrics_render(options.metrics, &text);
        buffer_append_char(&text, '\0');
        assert_int_equal(strstr(text.bytes, "engine=\"0\"") != NULL, engines == 2);
        assert_int_equal(strstr(text.bytes, "banyan_kv_pages{engine=\"1\",state=\"free\"}") != NULL,
                         engines == 2);
        buffer_deinit(&text);
        fleet_close(fleet);
        metrics_destroy(options.metrics);
    }
    engine_run_remove_model();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_answers),
        cmocka_unit_test(test_prompt_finds_its_pages),
        cmocka_unit_test(test_published_everywhere),
        cmocka_unit_test(test_cancel_is_of_one),
        cmocka_unit_test(test_published_over_the_cap),
        cmocka_unit_test(test_open_says_which),
        cmocka_unit_test(test_series_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
