/* engine: models whose layers have two kinds. What their units do to the start, to figures and to
 * metrics; what is refused for them, and leaves nothing behind. */
#include "engine/engine.h"

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/metrics.h"
#include "engine/engine_show.h"
#include "tests/kit/engine_run.h"

enum {
    PAGE = 16,
    TEXT = 300,
    /* gemma3 of tiny_models.def: of 7 layers one reads all keys and six have a window of 16. A unit
     * is one layer of two KV heads of 32 dimensions, K and V, f16. */
    UNIT_BYTES = PAGE * 2 * 2 * 32 * 2,
    WINDOWS = 6,
    /* A context of 512 tokens: 32 pages; the window begins up to a block of 64 keys early, so 5
     * pages have window units, and the row's own. */
    UNITS_LEAST = 32 + 6 * WINDOWS,
};

static uint32_t tokens[TEXT];

static struct engine_options options_of_units(uint32_t units)
{
    struct engine_options options = engine_run_options();
    options.isa = "auto";
    options.page_tokens = PAGE;
    options.kv_bytes = (uint64_t)units * UNIT_BYTES;
    return options;
}

static uint32_t descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void expect_refused(const struct engine_options *options, enum status status,
                           const char *says)
{
    struct engine *engine = NULL;
    struct engine_options own = *options;
    const uint32_t before = descriptors();
    own.model_path = engine_run_make_model();
    assert_int_equal(engine_open(&engine, &own), status);
    if (strstr(status_note()->message, says) == NULL)
        fail_msg("'%s' is not in: %s", says, status_note()->message);
    assert_null(engine);
    assert_int_equal(descriptors(), before);
}

static void test_memory_that_does_not_hold_one_context(void **state)
{
    (void)state;
    struct engine_options options = options_of_units(UNITS_LEAST - 1);
    struct engine_info info;
    char says[256];
    snprintf(says, sizeof says,
             "KV memory of %" PRIu64 " bytes holds %d units of 16 tokens (%d bytes each), but one "
             "sequence of the full context (512 tokens) needs %d units = %d bytes",
             options.kv_bytes, UNITS_LEAST - 1, UNIT_BYTES, UNITS_LEAST, UNITS_LEAST * UNIT_BYTES);
    expect_refused(&options, STATUS_LIMIT, says);
    options = options_of_units(UNITS_LEAST);
    struct engine *engine = engine_run_open(&options);
    engine_info(engine, &info);
    assert_int_equal(info.kv_pages, UNITS_LEAST);
    engine_close(engine);
}

static void test_keys_of_4_bits_are_refused(void **state)
{
    (void)state;
    static const char *const types[] = {"k4v8", "k4v4"};
    struct engine_options options = options_of_units(4 * UNITS_LEAST);
    for (size_t i = 0; i < 2; i++) {
        char says[64];
        snprintf(says, sizeof says, "KV pages of type %s: the layers of this gemma3 model",
                 types[i]);
        options.kv_type = types[i];
        expect_refused(&options, STATUS_UNSUPPORTED, says);
    }
}

/* The value of a series of /metrics. */
static uint32_t series(const char *text, const char *name)
{
    char line[128];
    const int length = snprintf(line, sizeof line, "\n%s ", name);
    const char *found = strstr(text, line);
    if (found == NULL)
        fail_msg("no series %s in\n%s", name, text);
    return (uint32_t)strtoul(found + length, NULL, 10);
}

/* Every unit is in one state, the metrics say what the figures say, and window units are those of
 * pages that are in use or spare. */
static void expect_units(struct engine *engine, struct metrics *metrics, uint32_t units)
{
    struct engine_stats stats = {0};
    struct buffer text;
    buffer_init(&text, 1 << 20);
    metrics_render(metrics, &text);
    engine_stats(engine, &stats);
    const uint32_t unused = series(text.bytes, "banyan_kv_pages{state=\"free\"}");
    const uint32_t cached = series(text.bytes, "banyan_kv_pages{state=\"cached\"}");
    const uint32_t pinned = series(text.bytes, "banyan_kv_pages{state=\"pinned\"}");
    const uint32_t active = series(text.bytes, "banyan_kv_pages{state=\"active\"}");
    assert_int_equal(unused + cached + pinned + active, units);
    assert_int_equal(stats.pages_total, units);
    assert_int_equal(stats.pages_free, unused);
    assert_int_equal(stats.pages_cached, cached);
    assert_int_equal(stats.pages_pinned, pinned);
    assert_int_equal(active, 0); /* nothing runs */
    const uint32_t windows = series(text.bytes, "banyan_kv_window_units");
    assert_int_equal(windows % WINDOWS, 0);
    assert_true(windows <= cached);
    assert_int_equal(series(text.bytes, "banyan_kv_token_bytes"), UNIT_BYTES / PAGE);
    buffer_deinit(&text);
}

static void test_metrics_count_units(void **state)
{
    (void)state;
    enum { UNITS = 2 * UNITS_LEAST, ROUNDS = 6 };
    static struct engine_run_transcript out;
    struct engine_run_transcript *const all[] = {&out};
    struct engine_options options = options_of_units(UNITS);
    struct metrics *metrics = NULL;
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    options.metrics = metrics;
    options.kv_host_bytes = 20 * UNIT_BYTES;
    struct engine *engine = engine_run_open(&options);
    for (uint32_t i = 0; i < ROUNDS; i++) { /* more texts than the pool holds */
        for (uint32_t t = 0; t < TEXT; t++)
            tokens[t] = (t < 40 ? t : t * (3 + i)) % 256;
        const struct engine_request request = {.prompt_kind = ENGINE_PROMPT_TOKENS,
                                               .tokens = tokens,
                                               .token_count = 50 + i * 40,
                                               .choices = 1 + i % 2,
                                               .tokens_max = 20,
                                               .sampling = {.top_p = 1},
                                               .ignore_end = true,
                                               .domain = {.bytes = {1}},
                                               .weight = 100};
        engine_run_submit(engine, &request, &out);
        engine_run_finish(engine, all, 1);
        assert_false(out.is_refused);
        expect_units(engine, metrics, UNITS);
    }
    struct engine_stats stats = {0};
    engine_stats(engine, &stats);
    assert_true(stats.pages_cached > 0 && stats.pages_host > 0);
    engine_close(engine);
    metrics_destroy(metrics);
}

static int setup(void **state)
{
    (void)state;
    engine_run_tiny = "gemma3";
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    engine_run_remove_model();
    engine_run_tiny = NULL;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_that_does_not_hold_one_context),
        cmocka_unit_test(test_keys_of_4_bits_are_refused),
        cmocka_unit_test(test_metrics_count_units),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
