#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/kv/kv_swap.h"
#include "kernels/cpu/ops/ops.h"
#include "tests/kit/cache_bed.h"
#include "tests/kit/death.h"
#include "tests/kit/late_pages.h"
#include "tests/kit/rounds.h"

enum { SYMBOLS = CACHE_BED_SYMBOLS, CONTEXT = CACHE_BED_CONTEXT, PLACES = 6 };

/* A bed with a swap, and what runs or is paused in its places. */
struct world {
    struct cache_bed bed;
    struct kv_swap swap;
    struct clock clock;
    struct cache_bed_text texts[PLACES];
    struct cache_bed_runner runners[PLACES];
    struct kv_swap_owner owners[PLACES];
    bool is_used[PLACES];
    bool is_paused[PLACES];
};

static struct world world;

static const struct engine_domain zero = {{0}};
static const struct engine_domain tenant_a = {{0xa}};
static const struct engine_domain tenant_b = {{0xb}};
static const struct engine_domain prompt = {{0x1}};

static const struct prefix_view view_a = {.domain = &tenant_a, .weight = 100};
static const struct prefix_view view_b = {.domain = &tenant_b, .weight = 100};
static const struct prefix_view view_zero = {.domain = &zero, .weight = 100};
static const struct prefix_view view_prompt = {.domain = &prompt, .weight = 100};
/* Who may read the published prompt. */
static const struct prefix_view view_reader = {.domain = &tenant_a,
                                               .weight = 100,
                                               .visible = &prompt,
                                               .visible_count = 1,
                                               .visible_public = 1};

static void open_swap(const struct clock *clock, uint32_t exchange)
{
    const struct kv_swap_options options = {.cache = &world.bed.cache,
                                            .kernels = cache_bed_kernels,
                                            .clock = clock,
                                            .places = PLACES,
                                            .context = CONTEXT,
                                            .exchange_pages = exchange};
    assert_int_equal(kv_swap_init(&world.swap, &options), STATUS_OK);
}

static void open_world(uint32_t pages, uint32_t host_pages, uint32_t exchange)
{
    memset(&world, 0, sizeof world);
    clock_manual_init(&world.clock, 0);
    cache_bed_init(&world.bed, pages, host_pages, 0);
    open_swap(&world.clock, exchange);
}

/* A paused sequence's pages, wherever they are, hold its text. */
static void check_paused(uint32_t place)
{
    const struct kv_swap_list *list = kv_swap_list(&world.swap, place);
    const struct kv_host *host = &world.bed.cache.host;
    const struct cache_bed_runner *runner = &world.runners[place];
    for (uint32_t i = 0; i < list->page_count; i++) {
        uint32_t left = runner->computed - i * SYMBOLS;
        uint32_t entry = list->pages[i] & ~KV_SWAP_HOST;
        const void *page = kv_pool_memory(&world.bed.pool, 0);
        if ((list->pages[i] & KV_SWAP_HOST) != 0)
            page = kv_host_get(host, entry, 0, &host->domains[entry]);
        else
            page = kv_pool_memory(&world.bed.pool, entry);
        assert_true(runner->computed > i * SYMBOLS);
        cache_bed_must_hold(page, runner->tokens, i, left < SYMBOLS ? left : SYMBOLS);
    }
}

static void check(void)
{
    uint32_t holders[1024];
    memcpy(holders, world.bed.holders, sizeof holders);
    kv_swap_count_holders(&world.swap, holders, NULL);
    assert_true(prefix_cache_check(&world.bed.cache));
    assert_true(kv_pool_check(&world.bed.pool, holders, NULL));
    assert_true(kv_swap_check(&world.swap));
    for (uint32_t i = 0; i < PLACES; i++) {
        if (world.is_used[i] && !world.is_paused[i])
            cache_bed_verify(&world.runners[i]);
        if (world.is_used[i] && world.is_paused[i])
            check_paused(i);
    }
}

static void close_world(void)
{
    for (uint32_t i = 0; i < PLACES; i++)
        if (world.is_used[i] && !world.is_paused[i])
            cache_bed_release(&world.runners[i]);
    kv_swap_deinit(&world.swap);
    assert_int_equal(world.bed.pool.free_count + world.bed.pool.idle_count +
                         world.bed.pool.pinned_count,
                     world.bed.pool.unit_count);
    cache_bed_deinit(&world.bed);
}

/* A sequence of `count` computed tokens; its text shares `common` with the other places' texts. */
static void start(uint32_t place, const struct prefix_view *view, uint32_t common, uint32_t count)
{
    static const struct cache_bed_text base;
    cache_bed_text_make(&world.texts[place], &base, common, place + 1);
    cache_bed_start(&world.runners[place], &world.bed, view, &world.texts[place], count);
    assert_true(cache_bed_grow(&world.runners[place], count));
    world.owners[place] =
        (struct kv_swap_owner){*view->domain, view->weight, SERVICE_CLASS_STANDARD, count};
    world.is_used[place] = true;
    check();
}

static bool out(uint32_t place)
{
    struct cache_bed_runner *runner = &world.runners[place];
    page_id table[CACHE_BED_TABLE];
    const uint32_t count = runner->page_count;
    uint32_t units;
    const uint32_t wanted =
        kv_swap_private(&world.swap, runner->pages, count, runner->computed, &units);
    const uint32_t free_count = world.bed.pool.free_count;
    memcpy(table, runner->pages, sizeof table);
    world.owners[place].computed = runner->computed;
    if (!kv_swap_out(&world.swap, place, runner->pages, &runner->page_count,
                     &world.owners[place])) {
        assert_int_equal(runner->page_count, count);
        assert_memory_equal(table, runner->pages, count * sizeof *table);
        check();
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        world.bed.holders[table[i]]--;
    world.is_paused[place] = true;
    assert_int_equal(runner->page_count, 0);
    assert_int_equal(kv_swap_list(&world.swap, place)->page_count, count);
    assert_int_equal(kv_swap_list(&world.swap, place)->host_count, wanted);
    assert_true(world.bed.pool.free_count >= free_count + wanted); /* more: of those who fell */
    check();
    return true;
}

static bool in(uint32_t place)
{
    struct cache_bed_runner *runner = &world.runners[place];
    if (!kv_swap_in(&world.swap, place, runner->pages, &runner->page_count)) {
        assert_int_equal(runner->page_count, 0);
        check();
        return false;
    }
    for (uint32_t i = 0; i < runner->page_count; i++)
        world.bed.holders[runner->pages[i]]++;
    const uint32_t held = runner->page_count * SYMBOLS;
    runner->computed = runner->computed < held ? runner->computed : held;
    runner->full = runner->full < runner->page_count ? runner->full : runner->page_count;
    world.is_paused[place] = false;
    check();
    return true;
}

static void end(uint32_t place)
{
    if (world.is_paused[place])
        kv_swap_drop(&world.swap, place);
    else
        cache_bed_end(&world.runners[place]);
    world.is_used[place] = false;
    world.is_paused[place] = false;
    check();
}

static const struct kv_swap_list *list(uint32_t place)
{
    return kv_swap_list(&world.swap, place);
}

static uint32_t host_free(void)
{
    return world.bed.cache.host.free_count;
}

static uint32_t found_in(const struct prefix_view *view, uint32_t place, uint32_t count,
                         uint32_t *host_pages)
{
    struct prefix_match match;
    prefix_cache_find(&world.bed.cache, view, world.texts[place].tokens, count, &match);
    *host_pages = match.host_pages;
    return match.tokens;
}

/* --- there and back --- */

/* In the middle of a page, as in the middle of a prefill chunk; a request without a domain too. */
static void test_back_with_the_same_bytes(void **state)
{
    (void)state;
    open_world(12, 12, 0);
    start(0, &view_zero, 0, 2 * SYMBOLS + 5);
    start(1, &view_a, 0, 3 * SYMBOLS);
    assert_true(out(0));
    assert_true(out(1));
    assert_int_equal(world.bed.pool.free_count, 12);
    assert_int_equal(host_free(), 6);
    start(2, &view_b, 0, 4 * SYMBOLS); /* others write the pages that were left */
    start(3, &view_b, 0, 4 * SYMBOLS);
    assert_true(in(0));
    assert_false(in(1)); /* two of three pages are left, and nothing is idle */
    end(2);
    assert_true(in(1));
    assert_int_equal(world.runners[0].computed, 2 * SYMBOLS + 5);
    assert_true(cache_bed_grow(&world.runners[0], 3 * SYMBOLS + 1));
    assert_true(cache_bed_grow(&world.runners[1], 4 * SYMBOLS));
    assert_int_equal(world.swap.figures.pages_out, 6);
    assert_int_equal(world.swap.figures.pages_in, 6);
    end(0);
    end(1);
    end(3);
    close_world();
}

/* What is kept free for copies is there for who comes back: that it was planned is enough. */
static void test_back_into_what_is_kept_free(void **state)
{
    (void)state;
    open_world(12, 12, 0);
    start(0, &view_zero, 0, 3 * SYMBOLS);
    assert_true(out(0));
    start(1, &view_zero, 0, 5 * SYMBOLS);
    start(2, &view_zero, 0, 4 * SYMBOLS);
    world.bed.cache.options.exchange = 3;
    assert_int_equal(prefix_cache_available(&world.bed.cache), 0);
    assert_true(in(0));
    assert_int_equal(world.bed.pool.free_count, 0);
    world.bed.cache.options.exchange = 0;
    for (uint32_t i = 0; i < 3; i++)
        end(i);
    close_world();
}

static void test_shared_pages_stay(void **state)
{
    (void)state;
    open_world(12, 12, 0);
    start(0, &view_a, 2 * SYMBOLS, 4 * SYMBOLS);
    start(1, &view_a, 2 * SYMBOLS, 3 * SYMBOLS + 1);
    const page_id shared = world.runners[0].pages[1];
    assert_int_equal(world.runners[1].pages[1], shared);
    assert_true(out(1));
    assert_int_equal(list(1)->host_count, 2);
    assert_int_equal(list(1)->pages[1], shared);
    assert_int_equal(kv_swap_protected(&world.swap), 0); /* the other one reads them */
    end(0);
    assert_int_equal(kv_swap_protected(&world.swap), 2);
    assert_int_equal(prefix_cache_available(&world.bed.cache), 10);
    assert_false(prefix_cache_make_room(&world.bed.cache, 11));
    assert_true(in(1));
    assert_int_equal(world.runners[1].pages[1], shared);
    end(1);
    close_world();
}

/* What a paused sequence has put into the tree is found there, and whoever brings it back brings it
 * back for all: one copy. */
static void test_one_copy_that_is_found(void **state)
{
    (void)state;
    uint32_t host_pages = 0;
    open_world(12, 12, 0);
    start(0, &view_a, 3 * SYMBOLS, 4 * SYMBOLS + 3);
    assert_true(out(0));
    assert_int_equal(found_in(&view_a, 0, CONTEXT, &host_pages), 4 * SYMBOLS);
    assert_int_equal(host_pages, 4);
    assert_int_equal(found_in(&view_b, 0, CONTEXT, &host_pages), 0);
    assert_int_equal(host_free(), 7);
    start(1, &view_a, 3 * SYMBOLS, 5 * SYMBOLS);
    assert_int_equal(world.runners[1].match.host_pages, 3);
    assert_int_equal(list(0)->host_count, 2);
    assert_int_equal(host_free(), 10);
    assert_true(in(0));
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(world.runners[0].pages[i], world.runners[1].pages[i]);
    assert_int_equal(host_free(), 12);
    assert_int_equal(found_in(&view_a, 0, CONTEXT, &host_pages), 4 * SYMBOLS);
    assert_int_equal(host_pages, 0);
    end(0);
    end(1);
    close_world();
}

/* Two compute the same prompt; one inserts it and is paused, the other inserts its own pages. */
static void test_others_insert_what_is_swapped(void **state)
{
    (void)state;
    open_world(12, 12, 0);
    start(0, &view_a, CONTEXT, SYMBOLS - 1);
    start(1, &view_a, CONTEXT, SYMBOLS - 1);
    assert_true(cache_bed_grow(&world.runners[0], 3 * SYMBOLS));
    assert_true(out(0));
    assert_int_equal(list(0)->host_count, 3);
    assert_true(cache_bed_grow(&world.runners[1], 2 * SYMBOLS));
    check();
    assert_int_equal(list(0)->host_count, 1);
    assert_int_equal(list(0)->pages[1], world.runners[1].pages[1]);
    assert_true(in(0));
    end(0);
    end(1);
    close_world();
}

/* Two that are paused share pages in host memory: the first to come back brings them for both. */
static void test_two_paused_share(void **state)
{
    (void)state;
    open_world(12, 12, 0);
    start(0, &view_a, 2 * SYMBOLS, 3 * SYMBOLS);
    start(1, &view_a, 2 * SYMBOLS, 3 * SYMBOLS);
    assert_true(out(0));
    assert_true(out(1));
    assert_int_equal(kv_swap_protected(&world.swap), 2);
    assert_int_equal(kv_swap_give_way(&world.swap, 9), 2);
    check();
    assert_int_equal(world.bed.pool.free_count, 12);
    assert_int_equal(host_free(), 8);
    assert_int_equal(list(0)->host_count, 3);
    assert_int_equal(list(1)->host_count, 3);
    assert_true(in(1));
    assert_int_equal(list(0)->host_count, 1);
    assert_true(in(0));
    assert_int_equal(world.runners[0].pages[0], world.runners[1].pages[0]);
    assert_int_equal(host_free(), 12);
    end(0);
    end(1);
    close_world();
}

/* --- ends while swapped --- */

static void test_cancel_while_swapped(void **state)
{
    (void)state;
    uint32_t host_pages = 0;
    open_world(12, 6, 0);
    start(0, &view_a, 0, 3 * SYMBOLS + 2);
    start(1, &view_zero, 0, 2 * SYMBOLS);
    assert_true(out(0));
    assert_true(out(1));
    assert_int_equal(prefix_cache_host_available(&world.bed.cache), 0);
    end(1);
    assert_int_equal(host_free(), 2); /* nobody else knows them */
    end(0);
    assert_int_equal(host_free(), 3); /* the open page; the others are the tree's now, */
    assert_int_equal(found_in(&view_a, 0, CONTEXT, &host_pages), 3 * SYMBOLS);
    assert_int_equal(host_pages, 3);
    assert_int_equal(prefix_cache_host_available(&world.bed.cache), 6); /* and may go */
    kv_swap_drop(&world.swap, 0);                                       /* nothing is held */
    check();
    close_world();
}

/* Drain: everything is given back whatever is paused. */
static void test_deinit_while_swapped(void **state)
{
    (void)state;
    open_world(12, 12, 2);
    start(0, &view_a, SYMBOLS, 3 * SYMBOLS);
    start(1, &view_a, SYMBOLS, 2 * SYMBOLS + 9);
    start(2, &view_zero, 0, SYMBOLS);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(out(i));
    close_world();
}

/* The published prompt is dropped while a reader is paused: it goes on with what it holds. */
static void test_unpublish_while_paused(void **state)
{
    (void)state;
    uint32_t pinned = 0;
    uint32_t host_pages = 0;
    open_world(16, 12, 0);
    start(0, &view_prompt, 2 * SYMBOLS, 2 * SYMBOLS);
    assert_int_equal(prefix_cache_pin(&world.bed.cache, &view_prompt, world.texts[0].tokens,
                                      2 * SYMBOLS, &pinned),
                     STATUS_OK);
    end(0);
    start(1, &view_reader, 2 * SYMBOLS, 4 * SYMBOLS);
    assert_true(out(1));
    assert_int_equal(list(1)->host_count, 2);
    assert_int_equal(kv_swap_protected(&world.swap), 0); /* pinned */
    prefix_cache_drop_domain(&world.bed.cache, &prompt);
    check();
    assert_int_equal(found_in(&view_reader, 1, 2 * SYMBOLS + 1, &host_pages), 0);
    assert_int_equal(kv_swap_protected(&world.swap), 2);
    assert_int_equal(kv_swap_give_way(&world.swap, 1), 1); /* the second page, to host memory */
    prefix_cache_drop_domain(&world.bed.cache, &tenant_a);
    check();
    assert_true(in(1));
    assert_int_equal(world.runners[1].computed, 4 * SYMBOLS);
    cache_bed_release(&world.runners[1]);
    world.is_used[1] = false;
    assert_int_equal(world.bed.pool.free_count, 16);
    assert_int_equal(host_free(), 12);
    close_world();
}

static void body_foreign(void *context)
{
    (void)context;
    const struct cache_bed_runner *runner = &world.runners[0];
    kv_pool_assert_visible(&world.bed.pool, runner->pages, runner->page_count, &tenant_b, 1);
}

static void body_own(void *context)
{
    (void)context;
    const struct cache_bed_runner *runner = &world.runners[0];
    kv_pool_assert_visible(&world.bed.pool, runner->pages, runner->page_count, &tenant_a, 1);
}

static void test_domains_come_back_too(void **state)
{
    (void)state;
    open_world(12, 12, 0);
    start(0, &view_a, 0, SYMBOLS + 1);
    assert_true(out(0));
    start(1, &view_b, 0, 4 * SYMBOLS);
    assert_true(in(0));
    assert_true(death_by(body_foreign, NULL));
    assert_false(death_by(body_own, NULL));
    end(0);
    end(1);
    close_world();
}

/* --- host memory is short --- */

/* Lines that were logged since the file was opened. */
static uint32_t lines_of(int file)
{
    char text[4096];
    uint32_t lines = 0;
    ssize_t count = pread(file, text, sizeof text, 0);
    for (ssize_t i = 0; i < count; i++)
        lines += text[i] == '\n';
    return lines;
}

/* None, or too little of it: whoever is paused is computed again, and that is said once. */
static void test_too_small(void **state)
{
    (void)state;
    for (uint32_t host_pages = 0; host_pages <= 2; host_pages += 2) {
        char path[] = "/tmp/test_kv_swap.XXXXXX";
        int file = mkstemp(path);
        assert_int_equal(unlink(path), 0);
        log_open(file, LOG_WARN, "test");
        open_world(12, host_pages, 4);
        start(0, &view_a, 0, 3 * SYMBOLS);
        start(1, &view_b, 0, 4 * SYMBOLS);
        assert_false(out(0));
        assert_false(out(1));
        assert_false(out(0));
        log_open(STDERR_FILENO, LOG_ERROR, "test");
        assert_int_equal(lines_of(file), 1);
        assert_int_equal(world.swap.figures.refused, 3);
        end(0);
        end(1);
        close_world();
        close(file);
    }
}

/* What is only cached makes room, the least recently used first. */
static void test_outranks_what_is_cached(void **state)
{
    (void)state;
    uint32_t host_pages = 0;
    open_world(12, 4, 0);
    start(0, &view_b, 0, 4 * SYMBOLS);
    end(0);
    assert_true(prefix_cache_make_room(&world.bed.cache, 12));
    assert_int_equal(host_free(), 0);
    start(1, &view_a, 0, 3 * SYMBOLS);
    assert_true(out(1));
    assert_int_equal(found_in(&view_b, 0, CONTEXT, &host_pages), SYMBOLS);
    start(2, &view_b, 0, 2 * SYMBOLS);
    end(2);
    assert_true(prefix_cache_make_room(&world.bed.cache, 12)); /* one of its pages has room */
    assert_int_equal(found_in(&view_a, 1, CONTEXT, &host_pages), 3 * SYMBOLS);
    assert_int_equal(host_pages, 3);
    assert_true(in(1));
    end(1);
    close_world();
}

static void test_exchange_pages_are_kept(void **state)
{
    (void)state;
    open_world(24, 16, 2); /* an eighth of 16 */
    start(0, &view_b, 0, CONTEXT);
    start(1, &view_b, 0, CONTEXT);
    start(2, &view_b, 0, CONTEXT);
    for (uint32_t i = 0; i < 3; i++)
        end(i);
    assert_true(prefix_cache_make_room(&world.bed.cache, 24));
    assert_int_equal(host_free(), 2);
    start(3, &view_zero, 0, 2 * SYMBOLS);
    uint64_t dropped = world.bed.cache.figures.host_dropped;
    assert_true(out(3));
    assert_int_equal(world.bed.cache.figures.host_dropped, dropped);
    end(3);
    close_world();
}

/* Who falls: the lower class, then the tenant with more, then who has computed less; and who would
 * fall itself is refused. */
static void test_who_falls(void **state)
{
    (void)state;
    open_world(24, 6, 0);
    for (uint32_t i = 0; i < 4; i++)
        start(i, i == 3 ? &view_b : &view_a, 0, 2 * SYMBOLS + i);
    assert_true(out(1));                                 /* a: 3 pages */
    world.owners[0].service_class = SERVICE_CLASS_BATCH; /* a: 2 */
    assert_true(out(0));
    world.owners[3].service_class = SERVICE_CLASS_BATCH; /* b: 3, more than the 2 of the other */
    assert_false(out(3));
    world.owners[3].weight = 200; /* 1.5 a unit of weight */
    assert_true(out(3));
    assert_int_equal(list(0)->page_count, 0);
    assert_int_equal(world.swap.figures.fallen, 1);
    world.is_used[0] = false;
    assert_true(out(2)); /* a: standard: the batch one falls, 1 and 2 have six pages */
    assert_int_equal(list(3)->page_count, 0);
    world.is_used[3] = false;
    start(3, &view_a, 0, 2 * SYMBOLS + 1);
    assert_false(out(3)); /* no less computed than the first: stays as it is */
    assert_true(cache_bed_grow(&world.runners[3], 2 * SYMBOLS + 5));
    assert_true(out(3));
    assert_int_equal(list(1)->page_count, 0);
    assert_int_equal(list(2)->page_count, 3);
    world.is_used[1] = false;
    start(4, &view_b, 0, 4); /* another tenant: 1 page against six */
    assert_true(out(4));
    assert_int_equal(list(2)->page_count, 0);
    world.is_used[2] = false;
    start(5, &view_zero, 0, CONTEXT);
    assert_false(out(5)); /* alone it wants more than the others have together */
    world.owners[5].service_class = SERVICE_CLASS_REALTIME;
    assert_true(out(5));
    assert_int_equal(list(3)->page_count + list(4)->page_count, 0);
    world.is_used[3] = world.is_used[4] = false;
    assert_int_equal(host_free(), 0);
    end(5);
    close_world();
}

/* --- protected pages are taken last --- */

static void test_give_way_cuts(void **state)
{
    (void)state;
    open_world(12, 2, 0);
    start(0, &view_a, 2 * SYMBOLS, 3 * SYMBOLS + 4);
    start(1, &view_a, 2 * SYMBOLS, 2 * SYMBOLS + 4);
    assert_true(out(0)); /* two pages to host memory, two stay */
    assert_true(!out(1));
    cache_bed_release(&world.runners[1]);
    world.is_used[1] = false;
    assert_int_equal(kv_swap_protected(&world.swap), 2);
    world.bed.cache.options.exchange = 12; /* no more than is asked gives way for those */
    assert_int_equal(kv_swap_give_way(&world.swap, 1), 1);
    world.bed.cache.options.exchange = 0;
    assert_int_equal(list(0)->page_count, 1); /* the second page is gone, what is behind too */
    assert_int_equal(list(0)->host_count, 0);
    check();
    assert_int_equal(kv_swap_give_way(&world.swap, 5), 1); /* now host memory has room */
    assert_int_equal(list(0)->host_count, 1);
    check();
    assert_int_equal(kv_swap_give_way(&world.swap, 5), 0);
    assert_true(in(0));
    assert_int_equal(world.runners[0].computed, SYMBOLS);
    assert_true(cache_bed_grow(&world.runners[0], 3 * SYMBOLS + 4));
    end(0);
    close_world();
}

/* Who comes back in this step neither falls nor is cut, whoever needs room first. */
static void test_kept(void **state)
{
    (void)state;
    open_world(12, 4, 0);
    start(0, &view_a, 2 * SYMBOLS, 3 * SYMBOLS);
    start(1, &view_a, 2 * SYMBOLS, 3 * SYMBOLS);
    start(2, &view_zero, 0, 4 * SYMBOLS);
    world.owners[2].service_class = SERVICE_CLASS_REALTIME;
    assert_true(out(0));
    assert_true(out(1));
    assert_int_equal(kv_swap_protected(&world.swap), 2);
    kv_swap_keep(&world.swap, 0, true);
    assert_false(out(2)); /* all that the other list has is not enough */
    assert_int_equal(list(1)->page_count, 3);
    assert_int_equal(kv_swap_give_way(&world.swap, 2), 0);
    assert_int_equal(list(0)->page_count, 3);
    assert_true(in(0));
    kv_swap_keep(&world.swap, 1, true);
    kv_swap_keep(&world.swap, 1, false);
    assert_true(out(2));
    assert_int_equal(list(1)->page_count, 0);
    world.is_used[1] = false;
    end(0);
    end(2);
    close_world();
}

/* --- the rest --- */

static void test_without_cache(void **state)
{
    (void)state;
    open_world(12, 12, 0);
    kv_swap_deinit(&world.swap);
    prefix_cache_deinit(&world.bed.cache);
    const struct prefix_cache_options off = {.kernels = cache_bed_kernels,
                                             .pool = &world.bed.pool,
                                             .host_bytes = 8 * cache_bed_layout.page_bytes,
                                             .context = CONTEXT,
                                             .is_off = true};
    assert_int_equal(prefix_cache_init(&world.bed.cache, &off), STATUS_OK);
    open_swap(clock_system(), 0);
    start(0, &view_a, 0, CONTEXT);
    assert_true(out(0));
    assert_int_equal(host_free(), 2);
    start(1, &view_a, CONTEXT, 2 * SYMBOLS);
    assert_true(in(0));
    assert_true(kv_swap_cost_us(&world.swap, 1000) >= 0);
    end(1);
    end(0);
    close_world();
}

enum { OUT_US = 20000, IN_US = 10000 };
static const struct kernels_ops *own_ops;

/* Takes so long at the least. */
static uint64_t slow_copy(struct kernels *kernels, const struct pages_copy_args *args)
{
    usleep(args->to == world.bed.pool.memory ? IN_US : OUT_US);
    return own_ops->pages_copy(kernels, args);
}

/* What a page takes is measured at the start, each way, and is what a pause is predicted to take;
 * beside the work, where nobody waits, it is what a batch is said to have taken. */
static void test_rates(void **state)
{
    enum { MEASURED = 8 };
    (void)state;
    open_world(12, 12, 0);
    kv_swap_deinit(&world.swap);
    own_ops = cache_bed_kernels->ops;
    struct kernels_ops slow = *own_ops;
    slow.pages_copy = slow_copy;
    cache_bed_kernels->ops = &slow;
    open_swap(clock_system(), 0);
    cache_bed_kernels->ops = own_ops;
    const double out_us = world.swap.out_us;
    const double in_us = world.swap.in_us;
    assert_true(out_us >= OUT_US / MEASURED);
    assert_true(in_us >= IN_US / MEASURED);
    assert_int_equal(kv_swap_cost_us(&world.swap, 3), (int64_t)(3 * (out_us + in_us)));
    late_pages_begin(cache_bed_kernels, 1000);
    start(0, &view_a, 0, CONTEXT);
    page_id pages[CACHE_BED_TABLE];
    uint32_t count = CACHE_BED_TABLE;
    memcpy(pages, world.runners[0].pages, sizeof pages);
    assert_true(kv_swap_out(&world.swap, 0, pages, &count, &world.owners[0]));
    assert_int_equal(world.swap.figures.out_us, (int64_t)(out_us * CACHE_BED_TABLE));
    assert_true(kv_swap_in(&world.swap, 0, pages, &count));
    assert_int_equal(world.swap.figures.in_us, (int64_t)(in_us * CACHE_BED_TABLE));
    /* They are still to end: that teaches nothing. */
    assert_true(world.swap.out_us <= out_us && world.swap.out_us >= out_us);
    assert_true(world.swap.in_us <= in_us && world.swap.in_us >= in_us);
    assert_int_equal(late_pages_waited(), 0);
    late_pages_end();
    kv_pool_land(&world.bed.pool);
    for (uint32_t i = 0; i < CACHE_BED_TABLE; i++) {
        world.bed.holders[world.runners[0].pages[i]]--;
        world.bed.holders[pages[i]]++;
    }
    memcpy(world.runners[0].pages, pages, sizeof pages);
    check();
    close_world();
}

static int refuse_after(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- <= 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    enum status status = STATUS_NO_MEMORY;
    open_world(12, 12, 0);
    for (int allowed = 0; status != STATUS_OK; allowed++) {
        assert_true(allowed < 10);
        const struct kv_swap_options options = world.swap.options;
        struct kv_swap swap;
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        status = kv_swap_init(&swap, &options);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        if (status == STATUS_OK)
            kv_swap_deinit(&swap);
        else
            assert_non_null(strstr(status_note()->message, "swap lists of 6 sequences"));
    }
    close_world();
}

/* --- random schedules --- */

static struct rng rng;

static uint32_t below(uint32_t count)
{
    return (uint32_t)rng_below(&rng, count);
}

/* Texts share what their common tokens say; some are of no domain, some of a published prompt's. */
static void model_start(uint32_t place)
{
    static const struct cache_bed_text bases[2] = {{{7}}, {{9, 9}}};
    static const uint32_t commons[] = {0, SYMBOLS, 2 * SYMBOLS + 1, 4 * SYMBOLS, CONTEXT};
    static const struct prefix_view *const views[] = {&view_a, &view_b, &view_zero, &view_reader};
    const struct prefix_view *view = views[below(4)];
    cache_bed_text_make(&world.texts[place], &bases[below(2)], commons[below(5)], 1 + below(5));
    uint32_t count = 1 + below(CONTEXT);
    cache_bed_start(&world.runners[place], &world.bed, view, &world.texts[place], count);
    world.owners[place] = (struct kv_swap_owner){*view->domain, view->weight,
                                                 (enum service_class)below(SERVICE_CLASS_COUNT), 0};
    world.is_used[place] = true;
    if (!cache_bed_grow(&world.runners[place], count) && world.runners[place].computed == 0) {
        world.is_used[place] = false;
        cache_bed_release(&world.runners[place]);
    }
}

/* One that fell or was dropped starts again from its tokens. */
static void model_again(uint32_t place)
{
    struct cache_bed_runner *runner = &world.runners[place];
    const struct prefix_view view = runner->view;
    world.is_paused[place] = false;
    cache_bed_start(runner, &world.bed, &view, &world.texts[place], runner->computed);
    if (runner->computed == 0)
        world.is_used[place] = false;
}

static void model_step(uint32_t place)
{
    struct cache_bed_runner *runner = &world.runners[place];
    uint32_t pinned = 0;
    uint32_t what = below(12);
    if (what == 10) {
        kv_swap_give_way(&world.swap, below(4));
    } else if (what == 11 && below(4) == 0) {
        prefix_cache_drop_domain(&world.bed.cache, &prompt);
    } else if (what == 11) { /* published again, from a sequence of its own */
        static struct cache_bed_text text;
        struct cache_bed_runner maker;
        uint32_t count = 1 + below(2 * SYMBOLS);
        cache_bed_text_make(&text, &(struct cache_bed_text){{7}}, CONTEXT, 0);
        cache_bed_start(&maker, &world.bed, &view_prompt, &text, count);
        if (cache_bed_grow(&maker, count)) {
            cache_bed_rest(&maker, false);
            (void)prefix_cache_pin(&world.bed.cache, &view_prompt, text.tokens, count, &pinned);
        }
        cache_bed_release(&maker);
    } else if (!world.is_used[place]) {
        model_start(place);
    } else if (world.is_paused[place]) {
        if (what == 0)
            end(place);
        else if (list(place)->page_count == 0)
            model_again(place);
        else
            in(place);
    } else if (what < 4) {
        out(place);
    } else if (what < 5) {
        end(place);
    } else {
        uint32_t more = 1 + below(2 * SYMBOLS);
        more = runner->computed + more < CONTEXT ? more : CONTEXT - runner->computed;
        cache_bed_grow(runner, runner->computed + more);
    }
}

static uint64_t protected_taken;

static void check_model(uint32_t pages, uint32_t host_pages, uint64_t seed)
{
    open_world(pages, host_pages, 2);
    rng = (struct rng){.seed = seed};
    for (uint32_t i = rounds(500, 1500); i > 0; i--) {
        model_step(below(PLACES));
        check();
    }
    const struct kv_swap_figures *figures = &world.swap.figures;
    assert_int_equal(figures->pages_out > 10, host_pages > 0);
    assert_int_equal(figures->pages_in > 10, host_pages > 0);
    protected_taken += figures->protected_dropped + figures->protected_to_host;
    close_world();
}

static void test_model(void **state)
{
    (void)state;
    check_model(40, 40, 1); /* room for all */
    check_model(16, 24, 2);
    check_model(16, 6, 3);
    check_model(8, 12, 4);
    check_model(10, 1, 5);
    check_model(10, 0, 6);
    assert_true(protected_taken > rounds(15, 50));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_back_with_the_same_bytes),
        cmocka_unit_test(test_back_into_what_is_kept_free),
        cmocka_unit_test(test_shared_pages_stay),
        cmocka_unit_test(test_one_copy_that_is_found),
        cmocka_unit_test(test_others_insert_what_is_swapped),
        cmocka_unit_test(test_two_paused_share),
        cmocka_unit_test(test_cancel_while_swapped),
        cmocka_unit_test(test_deinit_while_swapped),
        cmocka_unit_test(test_unpublish_while_paused),
        cmocka_unit_test(test_domains_come_back_too),
        cmocka_unit_test(test_too_small),
        cmocka_unit_test(test_outranks_what_is_cached),
        cmocka_unit_test(test_exchange_pages_are_kept),
        cmocka_unit_test(test_who_falls),
        cmocka_unit_test(test_give_way_cuts),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_without_cache),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_model),
    };
    int failed = cmocka_run_group_tests_name("f16", tests, cache_bed_setup, cache_bed_teardown);
    return failed +
           cmocka_run_group_tests_name("i8", tests, cache_bed_setup_i8, cache_bed_teardown);
}
