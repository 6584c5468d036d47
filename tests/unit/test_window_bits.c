/* Layers of two kinds under the real step: prompts that are cut at every offset in a page go on
 * from what the cache has, with and without the windows of middle pages, on host memory too. Each
 * answer has the bits of a run without a cache over pages that hold all layers. */
#include "tests/kit/engine_run.h"
#include "tests/kit/rounds.h"
#include "tests/kit/step_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"

enum { LENGTH = 200, CUTS = 24, ANSWER = 3 };

static uint32_t text[LENGTH];
static struct step_world_told whole[CUTS];

/* Cuts over all offsets in a page; every second prompt goes on differently behind its cut. */
static uint32_t cut_of(uint32_t index)
{
    return 5 + index * 37 % (LENGTH - 6);
}

static struct engine_request request_of(uint32_t index, uint32_t *prompt)
{
    const uint32_t count = cut_of(index);
    memcpy(prompt, text, count * sizeof *prompt);
    if (index % 2 == 1)
        prompt[count - 1] = (text[count - 1] + 1 + index) % 256;
    struct engine_request asked = step_world_request(prompt, count, ANSWER, 1);
    asked.want_logprobs = true;
    return asked;
}

/* Runs a request alone in a world, in which others have left pages. */
static struct step_world_told *run(struct step_world *world, uint32_t index)
{
    uint32_t prompt[LENGTH];
    const struct engine_request asked = request_of(index, prompt);
    world->told_count = 0;
    memset(world->told, 0, sizeof world->told);
    step_world_submit(world, &asked);
    step_world_run(world);
    assert_true(world->told[0].is_over);
    assert_int_equal(world->told[0].refusal.status, STATUS_OK);
    return &world->told[0];
}

static void run_alone(void)
{
    const struct step_world_options options = {.isa = "auto",
                                               .rows_max = 64,
                                               .sequences_max = 1,
                                               .pages = 64,
                                               .is_whole = true,
                                               .no_prefix_cache = true};
    struct step_world *world = step_world_open(&options);
    for (uint32_t i = 0; i < CUTS; i++)
        whole[i] = *run(world, i);
    step_world_close(world);
}

static void drop_middle(struct step_world *world)
{
    while (kv_pool_drop_spare(&world->step.pool, KV_SPARE_MIDDLE)) {
    }
}

/* `lost`: middle pages give up their windows before each request. */
static void check_cuts(uint32_t rows, uint32_t pages, uint32_t host_pages, bool is_lost)
{
    const struct step_world_options options = {.isa = "auto",
                                               .rows_max = rows,
                                               .sequences_max = 2,
                                               .pages = pages,
                                               .host_pages = host_pages};
    struct step_world *world = step_world_open(&options);
    uint64_t found = 0;
    assert_true(world->layout.window_units > 0);
    for (uint32_t i = 0; i < CUTS; i++) {
        const struct step_world_told *told = run(world, i);
        assert_true(step_world_same(told, &whole[i]));
        found += told->report.cached_tokens;
        if (is_lost)
            drop_middle(world);
    }
    assert_true(found > 0);
    struct prefix_figures figures;
    prefix_cache_figures(&world->step.cache, &figures);
    if (is_lost)
        assert_true(figures.window_lost_tokens > 0);
    print_message("%u rows, %u pages: %llu of %llu tokens found, %llu lost with their windows\n",
                  rows, pages, (unsigned long long)found, (unsigned long long)figures.query_tokens,
                  (unsigned long long)figures.window_lost_tokens);
    step_world_close(world);
}

static void check_model(const char *model)
{
    engine_run_tiny = model;
    for (uint32_t i = 0; i < LENGTH; i++)
        text[i] = (uint32_t)(rng_at(31, 1, i) % 256);
    run_alone();
    check_cuts(64, 300, 0, false);
    check_cuts(33, 300, 0, true);
    check_cuts(16, 60, 200, false);
    check_cuts(7, 40, 30, true);
    engine_run_tiny = NULL;
}

static void test_prompts_cut_at_every_offset(void **state)
{
    (void)state;
    static const char *const models[] = {"gemma3", "gpt_oss", "gemma2", "olmo3"};
    for (uint32_t i = 0; i < rounds(1, 4); i++)
        check_model(models[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts_cut_at_every_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
