/* Window units in pool, cache, host memory and swap lists: what is found and for how much, what is
 * given up first, and random runs whose pages and units are compared byte by byte. */
#include "engine/kv/kv_swap.h"
#include "tests/kit/cache_bed.h"
#include "tests/kit/death.h"
#include "tests/kit/rounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"

enum { SYMBOLS = CACHE_BED_SYMBOLS, CONTEXT = CACHE_BED_CONTEXT, UNITS = 2, WINDOW_PAGE = 4 };

static struct cache_bed bed;
static struct cache_bed_text texts[8];
static const struct engine_domain domain_a = {{1}}, domain_b = {{2}}, nobody;
static const struct prefix_view view_a = {.domain = &domain_a, .weight = 1};
static const struct prefix_view view_b = {.domain = &domain_b, .weight = 1};

/* Text 0, and texts that share their first 40, 48, 64, 80 tokens with it; others share nothing. */
static void open_bed(uint32_t units, uint32_t host_units)
{
    static const uint32_t common[] = {0, 40, 48, 64, 80, 0, 0, 0};
    static const struct cache_bed_text none;
    memset(&bed, 0, sizeof bed);
    cache_bed_init(&bed, units, host_units, 0);
    for (uint32_t i = 0; i < 8; i++)
        cache_bed_text_make(&texts[i], i == 0 ? &none : &texts[0], common[i], i + 1);
}

static struct prefix_match found(uint32_t text, uint32_t count)
{
    struct prefix_match match;
    prefix_cache_find(&bed.cache, &view_a, texts[text].tokens, count, &match);
    return match;
}

static uint32_t spare(enum kv_spare list)
{
    return bed.pool.spares[list].count;
}

static void drop_middle(void)
{
    while (kv_pool_drop_spare(&bed.pool, KV_SPARE_MIDDLE)) {
    }
    cache_bed_check(&bed);
}

static void test_a_text_is_found_as_far_as_the_window_behind_it_is_there(void **state)
{
    (void)state;
    open_bed(60, 0);
    assert_int_equal(cache_bed_run(&bed, &view_a, &texts[0], CONTEXT), 0);
    assert_int_equal(spare(KV_SPARE_MIDDLE), WINDOW_PAGE);
    assert_int_equal(spare(KV_SPARE_TAIL), 2);
    for (uint32_t text = 1; text <= 4; text++) { /* while nothing was given up */
        const uint32_t common[] = {0, 40, 48, 64, 80};
        const struct prefix_match match = found(text, CONTEXT);
        assert_int_equal(match.tokens, common[text]);
        assert_int_equal(match.window_lost, 0);
    }
    assert_int_equal(found(1, CONTEXT).cost, 2 + 2 * UNITS + 1 + UNITS); /* two pages and a copy */
    assert_int_equal(found(4, CONTEXT).cost, 5 + UNITS); /* of page 4 alone the window, too */
    drop_middle();
    const uint32_t kept[] = {CONTEXT - 1, 0, 0, 64, 80};
    for (uint32_t text = 0; text <= 4; text++) {
        const struct prefix_match match = found(text, CONTEXT);
        const uint32_t lost[] = {0, 40, 48, 0, 0};
        assert_int_equal(match.tokens, kept[text]);
        assert_int_equal(match.window_lost, lost[text]);
    }
    cache_bed_deinit(&bed);
}

static void test_a_duplicate_hands_its_units_to_the_page_that_takes_its_place(void **state)
{
    (void)state;
    open_bed(60, 0);
    cache_bed_run(&bed, &view_a, &texts[0], CONTEXT);
    drop_middle();
    struct cache_bed_runner runner;
    assert_int_equal(cache_bed_start(&runner, &bed, &view_a, &texts[2], CONTEXT), 0);
    assert_int_equal(runner.match.window_lost, 48);
    assert_true(cache_bed_grow(&runner, 48));
    for (uint32_t i = 0; i < 3; i++) { /* the tree's pages, with the units that it brought */
        assert_int_equal(kv_pool_needs(&bed.pool, runner.pages[i]), 1);
        assert_int_equal(bed.pool.references[runner.pages[i]], 2);
    }
    cache_bed_check(&bed);
    cache_bed_end(&runner);
    assert_int_equal(found(2, CONTEXT).tokens, 48);
    cache_bed_check(&bed);
    cache_bed_deinit(&bed);
}

static void test_units_are_given_up_in_order(void **state)
{
    (void)state;
    open_bed(60, 0);
    struct cache_bed_runner runner;
    cache_bed_run(&bed, &view_a, &texts[0], CONTEXT);
    cache_bed_run(&bed, &view_a, &texts[5], CONTEXT); /* 12 pages, 8 middle and 4 tail ones */
    assert_int_equal(cache_bed_start(&runner, &bed, &view_a, &texts[0], CONTEXT), CONTEXT - 1);
    const uint32_t free_count = bed.pool.free_count;
    assert_true(prefix_cache_make_room(&bed.cache, free_count + 8 * UNITS));
    assert_int_equal(spare(KV_SPARE_MIDDLE), 0);
    assert_int_equal(spare(KV_SPARE_TAIL), 2 + 1); /* of text 5, and the page that was copied */
    assert_int_equal(bed.cache.figures.evicted_dropped, 0);
    assert_true(prefix_cache_make_room(&bed.cache, free_count + 8 * UNITS + 6 + 2 * UNITS));
    assert_int_equal(found(5, CONTEXT).tokens, 0); /* pages went with their tails */
    assert_true(bed.cache.figures.evicted_dropped >= 6);
    cache_bed_verify(&runner);
    cache_bed_check(&bed);
    cache_bed_release(&runner);
    cache_bed_deinit(&bed);
}

/* Shares of the cache are of memory. A tenant with nine short texts has fewer pages than a tenant
 * with two long ones. It has more units, because each of its pages is in a window, so its pages are
 * evicted first, though they are younger. */
static void test_shares_of_the_cache_count_units(void **state)
{
    (void)state;
    open_bed(60, 8);
    struct prefix_match match;
    cache_bed_run(&bed, &view_a, &texts[0], CONTEXT);
    cache_bed_run(&bed, &view_a, &texts[5], CONTEXT);
    drop_middle(); /* 12 pages, of which 4 are tails: 20 units */
    for (uint32_t i = 0; i < 9; i++) {
        struct cache_bed_text once;
        cache_bed_text_make(&once, NULL, 0, 100 + i);
        cache_bed_run(&bed, &view_b, &once, SYMBOLS); /* a page with its window: 3 units */
    }
    const uint32_t full = bed.pool.free_count;
    assert_int_equal(60 - full, 12 + 4 * UNITS + 9 * (1 + UNITS));
    assert_true(prefix_cache_make_room(&bed.cache, full + 2 * (1 + UNITS)));
    assert_int_equal(found(0, CONTEXT).tokens, CONTEXT - 1);
    assert_int_equal(found(5, CONTEXT).tokens, CONTEXT - 1);
    assert_int_equal(found(5, CONTEXT).tokens_host, 0);
    for (uint32_t i = 0; i < 9; i++) {
        struct cache_bed_text once;
        cache_bed_text_make(&once, NULL, 0, 100 + i);
        prefix_cache_find(&bed.cache, &view_b, once.tokens, SYMBOLS + 1, &match);
        assert_int_equal(match.tokens, SYMBOLS);
        assert_int_equal(match.tokens_host, i < 2 ? SYMBOLS : 0);
    }
    cache_bed_check(&bed); /* of host pages the units too */
    cache_bed_deinit(&bed);
}

/* A tail in the middle of a running text is given up when nothing else is left. */
static void test_tails_of_held_pages_go_last(void **state)
{
    (void)state;
    open_bed(24, 0);
    struct cache_bed_runner runner;
    cache_bed_run(&bed, &view_a, &texts[3], 60); /* a tail of four pages */
    assert_int_equal(cache_bed_start(&runner, &bed, &view_a, &texts[0], CONTEXT), 60);
    assert_true(cache_bed_grow(&runner, CONTEXT));
    for (uint32_t i = 0; i < 3; i++)
        assert_true(kv_pool_is_spare(&bed.pool, runner.pages[i]));
    assert_true(prefix_cache_make_room(&bed.cache, kv_pool_available(&bed.pool)));
    for (uint32_t i = 0; i < 3; i++)
        assert_false(kv_pool_has_window(&bed.pool, runner.pages[i]));
    assert_false(prefix_cache_make_room(&bed.cache, bed.pool.free_count + 1));
    cache_bed_verify(&runner);
    cache_bed_check(&bed);
    cache_bed_release(&runner);
    cache_bed_deinit(&bed);
}

static void test_host_pages_keep_the_units_of_tails(void **state)
{
    (void)state;
    open_bed(60, 40);
    cache_bed_run(&bed, &view_a, &texts[0], CONTEXT);
    assert_true(prefix_cache_make_room(&bed.cache, 60));
    assert_int_equal(bed.cache.figures.evicted_to_host, 6);
    assert_int_equal(bed.cache.host.unit_count - bed.cache.host.free_count, 6 + 2 * UNITS);
    assert_int_equal(prefix_cache_host_available(&bed.cache), 40);
    assert_int_equal(found(0, CONTEXT).tokens, CONTEXT - 1);
    assert_int_equal(found(0, CONTEXT).cost, 5 + UNITS + 1 + UNITS);
    assert_int_equal(found(2, CONTEXT).window_lost, 48);
    assert_int_equal(cache_bed_run(&bed, &view_a, &texts[4], CONTEXT), 80);
    cache_bed_check(&bed);
    cache_bed_deinit(&bed);
}

/* A host page for which there is no more room comes without its units. */
static void test_a_full_host_keeps_pages_alone(void **state)
{
    (void)state;
    open_bed(60, 2);
    cache_bed_run(&bed, &view_a, &texts[0], CONTEXT);
    assert_true(prefix_cache_make_room(&bed.cache, 60));
    assert_true(kv_host_check(&bed.cache.host));
    assert_int_equal(found(0, CONTEXT).tokens, 0);
    cache_bed_check(&bed);
    cache_bed_deinit(&bed);
}

static void test_pins_keep_the_tail(void **state)
{
    (void)state;
    open_bed(60, 0);
    uint32_t pages;
    cache_bed_run(&bed, &view_a, &texts[0], CONTEXT);
    assert_int_equal(kv_pool_units_kept(&bed.pool, CONTEXT), 6 + 5 * UNITS); /* at most */
    assert_int_equal(bed.cache.pin_units_max, 30);
    assert_int_equal(prefix_cache_pin(&bed.cache, &view_a, texts[0].tokens, CONTEXT, &pages),
                     STATUS_OK);
    assert_int_equal(pages, 6);
    assert_int_equal(kv_pool_units_pinned(&bed.pool), 6 + 2 * UNITS);
    assert_int_equal(prefix_cache_pin_check(&bed.cache, 20), STATUS_OK);
    assert_int_equal(prefix_cache_pin_check(&bed.cache, 21), STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, "KV units"));
    assert_true(prefix_cache_make_room(&bed.cache, 60 - 6 - 2 * UNITS));
    assert_false(prefix_cache_make_room(&bed.cache, 60 - 6 - 2 * UNITS + 1));
    assert_int_equal(found(0, CONTEXT).tokens, CONTEXT - 1);
    cache_bed_check(&bed);
    prefix_cache_drop_domain(&bed.cache, &domain_a);
    assert_int_equal(bed.pool.free_count, 60);
    cache_bed_check(&bed);
    cache_bed_deinit(&bed);
}

/* Without a cache nobody finds a page again, so no units stay behind the window. */
static void test_pages_that_nobody_finds_give_their_units_up_at_once(void **state)
{
    (void)state;
    open_bed(60, 0);
    const struct prefix_view view = {.domain = &nobody, .weight = 1};
    struct cache_bed_runner runner;
    assert_int_equal(cache_bed_start(&runner, &bed, &view, &texts[0], CONTEXT), 0);
    assert_true(cache_bed_grow(&runner, 70));
    assert_int_equal(bed.pool.free_count, 60 - 5 - UNITS);
    assert_int_equal(spare(KV_SPARE_MIDDLE) + spare(KV_SPARE_TAIL), 0);
    cache_bed_check(&bed);
    cache_bed_release(&runner);
    assert_int_equal(bed.pool.free_count, 60);
    cache_bed_deinit(&bed);
}

static void body_read_without_units(void *context)
{
    const struct cache_bed_runner *runner = context;
    kv_pool_assert_window(&bed.pool, runner->pages, 0, runner->page_count);
}

static void body_read_with_units(void *context)
{
    const struct cache_bed_runner *runner = context;
    kv_pool_assert_window(&bed.pool, runner->pages, WINDOW_PAGE, runner->page_count);
}

static void test_assertions_stay_on(void **state)
{
    (void)state;
    open_bed(60, 0);
    struct cache_bed_runner runner;
    cache_bed_start(&runner, &bed, &view_a, &texts[0], CONTEXT);
    assert_true(cache_bed_grow(&runner, CONTEXT));
    assert_true(death_by(body_read_without_units, &runner));
    assert_false(death_by(body_read_with_units, &runner));
    cache_bed_release(&runner);
    cache_bed_deinit(&bed);
}

/* --- swapped-out sequences --- */

enum { PLACES = 5 };

static struct kv_swap swap;
static struct clock test_clock;
static struct cache_bed_runner runners[PLACES];
static uint32_t totals[PLACES];
static bool is_used[PLACES], is_out[PLACES];

static void open_swap(uint32_t units, uint32_t host_units)
{
    open_bed(units, host_units);
    clock_manual_init(&test_clock, 1000);
    const struct kv_swap_options options = {.cache = &bed.cache,
                                            .kernels = cache_bed_kernels,
                                            .clock = &test_clock,
                                            .places = PLACES,
                                            .context = CONTEXT};
    assert_int_equal(kv_swap_init(&swap, &options), STATUS_OK);
    memset(is_used, 0, sizeof is_used);
    memset(is_out, 0, sizeof is_out);
}

/* All references, needs, units and contents, with those of the lists. */
static void check_swap(void)
{
    static uint32_t holders[1024], needs[1024];
    memcpy(holders, bed.holders, sizeof holders);
    memcpy(needs, bed.needs, sizeof needs);
    kv_swap_count_holders(&swap, holders, needs);
    assert_true(kv_pool_check(&bed.pool, holders, needs));
    assert_true(kv_swap_check(&swap));
    assert_true(prefix_cache_check(&bed.cache));
    for (uint32_t i = 0; i < PLACES; i++)
        if (is_used[i] && !is_out[i])
            cache_bed_verify(&runners[i]);
}

static void hold(struct cache_bed_runner *runner, int by)
{
    for (uint32_t i = 0; i < runner->page_count; i++) {
        bed.holders[runner->pages[i]] += (uint32_t)by;
        bed.needs[runner->pages[i]] += i >= runner->window_page ? (uint32_t)by : 0;
    }
}

static bool out(uint32_t place)
{
    struct cache_bed_runner *runner = &runners[place];
    const struct kv_swap_owner owner = {.tenant = *runner->view.domain,
                                        .weight = 1,
                                        .service_class = SERVICE_CLASS_STANDARD,
                                        .computed = runner->computed};
    hold(runner, -1);
    is_out[place] = kv_swap_out(&swap, place, runner->pages, &runner->page_count, &owner);
    if (!is_out[place])
        hold(runner, 1);
    check_swap();
    return is_out[place];
}

/* False when its list was dropped, or when there is no room. */
static bool in(uint32_t place)
{
    struct cache_bed_runner *runner = &runners[place];
    if (kv_swap_list(&swap, place)->page_count == 0 ||
        !kv_swap_in(&swap, place, runner->pages, &runner->page_count))
        return false;
    is_out[place] = false;
    hold(runner, 1);
    check_swap();
    return true;
}

static void end(uint32_t place)
{
    if (is_out[place])
        kv_swap_drop(&swap, place);
    else if (is_used[place])
        cache_bed_end(&runners[place]);
    is_used[place] = is_out[place] = false;
    check_swap();
}

static bool begin(uint32_t place, const struct prefix_view *view, uint32_t text, uint32_t count)
{
    cache_bed_start(&runners[place], &bed, view, &texts[text], count);
    is_used[place] = true;
    totals[place] = count;
    if (cache_bed_grow(&runners[place], count))
        return true;
    cache_bed_release(&runners[place]);
    is_used[place] = false;
    return false;
}

static void close_swap(void)
{
    for (uint32_t i = 0; i < PLACES; i++)
        end(i);
    kv_swap_deinit(&swap);
    cache_bed_deinit(&bed);
}

static void test_a_swap_takes_the_units_of_the_window(void **state)
{
    (void)state;
    open_swap(60, 40);
    assert_true(begin(0, &view_a, 0, CONTEXT));
    uint32_t units;
    assert_int_equal(kv_swap_private(&swap, runners[0].pages, 6, CONTEXT, &units), 6);
    assert_int_equal(units, 6 + 2 * UNITS);
    assert_true(out(0));
    assert_int_equal(kv_swap_list(&swap, 0)->host_count, 6);
    assert_int_equal(kv_swap_list(&swap, 0)->host_units, 6 + 2 * UNITS);
    assert_int_equal(bed.pool.free_count, 60);
    assert_true(in(0));
    assert_int_equal(swap.figures.units_in, 6 + 2 * UNITS);
    close_swap();
}

/* The list of a shared window needs it as its sequence did; giving way drops the whole list. */
static void test_shared_windows_are_protected_and_given_up_with_the_list(void **state)
{
    (void)state;
    open_swap(60, 0);
    assert_true(begin(0, &view_a, 0, CONTEXT));
    assert_true(begin(1, &view_a, 0, CONTEXT)); /* shares five pages, and copies the sixth */
    end(0);
    assert_int_equal(kv_swap_protected(&swap), 0);
    struct cache_bed_runner *runner = &runners[1];
    hold(runner, -1);
    bed.pool.references[runner->pages[5]]++; /* as if others read its last page: nothing to copy */
    for (uint32_t i = 0; i < 5; i++)
        kv_pool_retain(&bed.pool, runner->pages[i]);
    const struct kv_swap_owner owner = {domain_a, 1, SERVICE_CLASS_STANDARD, runner->computed};
    page_id table[6];
    memcpy(table, runner->pages, sizeof table);
    assert_true(kv_swap_out(&swap, 1, runner->pages, &runner->page_count, &owner));
    is_out[1] = true;
    for (uint32_t i = 0; i < 5; i++)
        kv_pool_release(&bed.pool, table[i]);
    bed.pool.references[table[5]]--;
    check_swap();
    assert_int_equal(kv_swap_list(&swap, 1)->host_count, 0);
    assert_int_equal(kv_swap_protected(&swap), 6 + 2 * UNITS);
    const uint32_t before = kv_pool_available(&bed.pool);
    const uint32_t given = kv_swap_give_way(&swap, 1);
    assert_int_equal(given, kv_pool_available(&bed.pool) - before);
    assert_int_equal(kv_swap_list(&swap, 1)->page_count, 0);
    assert_int_equal(kv_pool_available(&bed.pool), 60);
    check_swap();
    close_swap();
}

static void random_step(struct rng *rng)
{
    const struct prefix_view views[] = {view_a,
                                        {.domain = &domain_b, .weight = 2},
                                        {.domain = &domain_b,
                                         .weight = 2,
                                         .visible = &domain_a,
                                         .visible_count = 1,
                                         .visible_group = 1}};
    const uint32_t place = (uint32_t)rng_below(rng, PLACES);
    const uint32_t count = 1 + (uint32_t)rng_below(rng, CONTEXT);
    switch (rng_below(rng, 8)) {
    case 0:
    case 1:
        if (!is_used[place])
            (void)begin(place, &views[rng_below(rng, 3)], (uint32_t)rng_below(rng, 8), count);
        break;
    case 2:
        if (is_used[place] && !is_out[place] && count > runners[place].computed)
            (void)cache_bed_grow(&runners[place], count);
        break;
    case 3:
        if (is_used[place] && !is_out[place])
            (void)out(place);
        break;
    case 4:
        if (is_used[place] && is_out[place] && !in(place))
            end(place);
        break;
    case 5:
        (void)prefix_cache_make_room(&bed.cache, (uint32_t)rng_below(rng, bed.pool.unit_count));
        break;
    case 6:
        if (rng_below(rng, 4) == 0)
            (void)kv_swap_give_way(&swap, (uint32_t)rng_below(rng, 12));
        break;
    default:
        end(place);
    }
    if (rng_below(rng, 100) == 0) {
        for (uint32_t i = 0; i < PLACES; i++)
            end(i); /* nobody computes into it */
        prefix_cache_drop_domain(&bed.cache, &domain_a);
    }
    check_swap();
}

static void test_random_runs(void **state)
{
    (void)state;
    static const uint32_t hosts[] = {0, 7, 40};
    struct rng rng = {.seed = 77};
    uint64_t dropped = 0, swapped = 0, evicted = 0;
    for (uint32_t run = 0; run < 3; run++) {
        open_swap(30, hosts[run]);
        for (uint32_t i = 0; i < rounds(300, 20000); i++)
            random_step(&rng);
        dropped += bed.cache.figures.windows_dropped;
        evicted += bed.cache.figures.evicted_to_host;
        swapped += swap.figures.pages_in;
        close_swap();
    }
    print_message(
        "%llu pages gave up their windows, %llu were swapped in, %llu evicted to the host\n",
        (unsigned long long)dropped, (unsigned long long)swapped, (unsigned long long)evicted);
    assert_true(dropped > 50 && swapped > 10 && evicted > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_is_found_as_far_as_the_window_behind_it_is_there),
        cmocka_unit_test(test_a_duplicate_hands_its_units_to_the_page_that_takes_its_place),
        cmocka_unit_test(test_units_are_given_up_in_order),
        cmocka_unit_test(test_shares_of_the_cache_count_units),
        cmocka_unit_test(test_tails_of_held_pages_go_last),
        cmocka_unit_test(test_host_pages_keep_the_units_of_tails),
        cmocka_unit_test(test_a_full_host_keeps_pages_alone),
        cmocka_unit_test(test_pins_keep_the_tail),
        cmocka_unit_test(test_pages_that_nobody_finds_give_their_units_up_at_once),
        cmocka_unit_test(test_assertions_stay_on),
        cmocka_unit_test(test_a_swap_takes_the_units_of_the_window),
        cmocka_unit_test(test_shared_windows_are_protected_and_given_up_with_the_list),
        cmocka_unit_test(test_random_runs),
    };
    return cmocka_run_group_tests(tests, cache_bed_setup_windows, cache_bed_teardown);
}
