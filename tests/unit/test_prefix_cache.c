#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "kernels/cpu/ops/ops.h"
#include "tests/kit/cache_bed.h"
#include "tests/kit/rounds.h"

static uint32_t find(struct cache_bed *bed, const struct prefix_view *view,
                     const struct cache_bed_text *text, uint32_t count)
{
    struct prefix_match match;
    prefix_cache_find(&bed->cache, view, text->tokens, count, &match);
    return match.tokens;
}

/* Everything idle leaves the pool, as under the pressure of others. */
static void evict_all(struct cache_bed *bed)
{
    assert_true(prefix_cache_make_room(&bed->cache, prefix_cache_available(&bed->cache)));
    cache_bed_check(bed);
}

static const struct engine_domain zero = {{0}};
static const struct engine_domain tenant_a = {{0xa}};
static const struct engine_domain tenant_b = {{0xb}};
static const struct engine_domain group = {{0x9}};
static const struct engine_domain prompt = {{0x1}};
static const struct engine_domain public_and_group[] = {{{0x1}}, {{0x9}}};

static const struct prefix_view view_a = {.domain = &tenant_a, .weight = 100};
static const struct prefix_view view_b = {.domain = &tenant_b, .weight = 100};
static const struct prefix_view view_prompt = {.domain = &prompt, .weight = 100};
static const struct prefix_view view_zero = {.domain = &zero, .weight = 100};
/* Member of the group, user of the published prompt; its pages go into the group's tree. */
static const struct prefix_view view_group = {.domain = &group,
                                              .weight = 100,
                                              .visible = public_and_group,
                                              .visible_count = 2,
                                              .visible_public = 1,
                                              .visible_group = 1};
/* The same, with its pages in its own tree. */
static const struct prefix_view view_member = {.domain = &tenant_a,
                                               .weight = 100,
                                               .visible = public_and_group,
                                               .visible_count = 2,
                                               .visible_public = 1,
                                               .visible_group = 1};

/* --- what is found --- */

static void test_next_turn_finds_prompt_and_answer(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_runner runner;
    cache_bed_init(&bed, 24, 0, 0);
    cache_bed_text_make(&text, NULL, 0, 1);
    /* A prompt of 35 tokens, then 15 more one by one, as in decode. */
    assert_int_equal(cache_bed_start(&runner, &bed, &view_a, &text, 35), 0);
    assert_true(cache_bed_grow(&runner, 35));
    cache_bed_rest(&runner, true);
    cache_bed_check(&bed);
    for (uint32_t count = 36; count <= 50; count++)
        assert_true(cache_bed_grow(&runner, count));
    cache_bed_end(&runner);
    cache_bed_check(&bed);
    /* The rest of 3 tokens is no more: page 2 says the same. Its 50 tokens are 3 pages and 2. */
    assert_int_equal(bed.pool.idle_count, 4);
    assert_int_equal(find(&bed, &view_a, &text, 90), 50);
    assert_int_equal(find(&bed, &view_a, &text, 49), 48);
    cache_bed_deinit(&bed);
}

static void test_one_token_is_always_computed(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    cache_bed_init(&bed, 24, 0, 0);
    cache_bed_text_make(&text, NULL, 0, 1);
    assert_int_equal(cache_bed_run(&bed, &view_a, &text, 32), 0);
    assert_int_equal(find(&bed, &view_a, &text, 0), 0);
    assert_int_equal(find(&bed, &view_a, &text, 1), 0);
    assert_int_equal(find(&bed, &view_a, &text, 2), 1);
    assert_int_equal(cache_bed_run(&bed, &view_a, &text, 32), 31);
    assert_int_equal(cache_bed_run(&bed, &view_a, &text, 33), 32);
    cache_bed_deinit(&bed);
}

/* The same 16 tokens elsewhere in a text are another page: what is before them differs. */
static void test_a_page_means_all_before_it(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_text moved;
    cache_bed_init(&bed, 24, 0, 0);
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_text_make(&moved, NULL, 0, 2);
    memcpy(moved.tokens + CACHE_BED_SYMBOLS, text.tokens + CACHE_BED_SYMBOLS,
           CACHE_BED_SYMBOLS * sizeof(uint32_t));
    (void)cache_bed_run(&bed, &view_a, &text, 64);
    assert_int_equal(find(&bed, &view_a, &moved, 64), 0);
    memcpy(moved.tokens, text.tokens + CACHE_BED_SYMBOLS, CACHE_BED_SYMBOLS * sizeof(uint32_t));
    assert_int_equal(find(&bed, &view_a, &moved, 64), 0);
    cache_bed_deinit(&bed);
}

/* Beyond the last whole page the matched part of the best child is copied, and what the taker
 * writes behind it is not seen by who has the original. */
static void test_partial_page_is_copied(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_text fork;
    struct cache_bed_runner first;
    struct cache_bed_runner second;
    cache_bed_init(&bed, 24, 0, 0);
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_text_make(&fork, &text, 42, 2);
    (void)cache_bed_start(&first, &bed, &view_a, &text, 48);
    assert_true(cache_bed_grow(&first, 48)); /* holds its third page all the while */
    assert_int_equal(cache_bed_start(&second, &bed, &view_a, &fork, 60), 42);
    assert_int_equal(second.match.rest_tokens, 10);
    assert_int_equal(second.pages[0], first.pages[0]);
    assert_int_not_equal(second.pages[2], first.pages[2]);
    assert_true(cache_bed_grow(&second, 60));
    cache_bed_verify(&first);
    cache_bed_end(&second);
    cache_bed_verify(&first);
    cache_bed_end(&first);
    cache_bed_check(&bed);
    assert_int_equal(find(&bed, &view_a, &text, 60), 48);
    assert_int_equal(find(&bed, &view_a, &fork, 61), 60);
    cache_bed_deinit(&bed);
}

/* 16 at once behind one leader of the same prompt: its rest is there when its prompt ends, though
 * it goes on writing that page; so nobody else computes one token of the prompt. */
static void test_sixteen_at_once(void **state)
{
    (void)state;
    enum { COUNT = 16, PREFIX = 59 };
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_text own[COUNT];
    struct cache_bed_runner leader;
    struct cache_bed_runner runners[COUNT];
    cache_bed_init(&bed, 128, 0, 0);
    cache_bed_text_make(&text, NULL, 0, 1);
    (void)cache_bed_start(&leader, &bed, &view_a, &text, PREFIX);
    assert_true(cache_bed_grow(&leader, PREFIX));
    cache_bed_rest(&leader, true);
    assert_true(cache_bed_grow(&leader, PREFIX + 1));
    for (uint32_t i = 0; i < COUNT; i++) {
        cache_bed_text_make(&own[i], &text, PREFIX, i + 2);
        assert_int_equal(cache_bed_start(&runners[i], &bed, &view_a, &own[i], 80), PREFIX);
        assert_true(cache_bed_grow(&runners[i], 80));
        cache_bed_check(&bed);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        cache_bed_end(&runners[i]);
    cache_bed_end(&leader);
    cache_bed_check(&bed);
    cache_bed_deinit(&bed);
}

/* Two who computed the same beside each other hold one page each afterwards. */
static void test_duplicates_become_one(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_runner first;
    struct cache_bed_runner second;
    cache_bed_init(&bed, 24, 0, 0);
    cache_bed_text_make(&text, NULL, 0, 1);
    (void)cache_bed_start(&first, &bed, &view_a, &text, 64);
    assert_int_equal(cache_bed_start(&second, &bed, &view_a, &text, 64), 0);
    assert_true(cache_bed_grow(&first, 64));
    assert_true(cache_bed_grow(&second, 64));
    assert_memory_equal(first.pages, second.pages, 4 * sizeof(page_id));
    assert_int_equal(bed.pool.free_count, 20);
    cache_bed_check(&bed);
    cache_bed_end(&first);
    cache_bed_verify(&second);
    cache_bed_end(&second);
    assert_int_equal(bed.pool.idle_count, 4);
    cache_bed_deinit(&bed);
}

static void test_off_and_zero_domain(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_init(&bed, 24, 8, 0);
    assert_int_equal(cache_bed_run(&bed, &view_zero, &text, 60), 0);
    assert_int_equal(cache_bed_run(&bed, &view_zero, &text, 60), 0);
    assert_int_equal(bed.pool.free_count, 24);
    cache_bed_deinit(&bed);

    assert_int_equal(kv_pool_init(&bed.pool, cache_bed_kernels, &cache_bed_layout,
                                  24 * cache_bed_layout.page_bytes, CACHE_BED_CONTEXT),
                     STATUS_OK);
    const struct prefix_cache_options off = {.kernels = cache_bed_kernels,
                                             .pool = &bed.pool,
                                             .context = CACHE_BED_CONTEXT,
                                             .is_off = true};
    assert_int_equal(prefix_cache_init(&bed.cache, &off), STATUS_OK);
    assert_int_equal(cache_bed_run(&bed, &view_a, &text, 60), 0);
    assert_int_equal(cache_bed_run(&bed, &view_a, &text, 60), 0);
    uint32_t pages;
    assert_int_equal(prefix_cache_pin(&bed.cache, &view_a, text.tokens, 60, &pages),
                     STATUS_NOT_FOUND);
    assert_int_equal(prefix_cache_pin_check(&bed.cache, 1), STATUS_LIMIT);
    prefix_cache_drop_domain(&bed.cache, &tenant_a);
    assert_int_equal(bed.pool.free_count, 24);
    cache_bed_deinit(&bed);
}

/* --- isolation --- */

/* vllm#53347, ktransformers#2184: who may not see a domain finds nothing of it, in either tier. */
static void test_only_visible_domains_are_found(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_init(&bed, 24, 24, 0);
    (void)cache_bed_run(&bed, &view_a, &text, 60);
    for (int tier = 0; tier < 2; tier++) {
        assert_int_equal(find(&bed, &view_b, &text, 61), 0);
        assert_int_equal(find(&bed, &view_group, &text, 61), 0);
        assert_int_equal(find(&bed, &view_zero, &text, 61), 0);
        assert_int_equal(find(&bed, &view_a, &text, 61), 60);
        assert_int_equal(find(&bed, &view_member, &text, 61), 60);
        evict_all(&bed);
        assert_int_equal(bed.cache.figures.evicted_to_host, 4);
    }
    /* What comes back is still tenant A's; B's run of the same text gives B pages of its own. */
    assert_int_equal(cache_bed_run(&bed, &view_b, &text, 60), 0);
    assert_int_equal(cache_bed_run(&bed, &view_a, &text, 61), 60);
    assert_int_equal(find(&bed, &view_group, &text, 61), 0);
    cache_bed_deinit(&bed);
}

/* Public, then group, then own, page by page; what a tenant adds below is in its own tree. */
static void test_lockstep_of_public_group_own(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_runner runner;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_init(&bed, 24, 24, 0);
    (void)cache_bed_run(&bed, &view_prompt, &text, 36);
    (void)cache_bed_run(&bed, &view_group, &text, 53);
    (void)cache_bed_run(&bed, &view_member, &text, 70);
    for (int tier = 0; tier < 2; tier++) {
        assert_int_equal(cache_bed_start(&runner, &bed, &view_member, &text, 90), 70);
        assert_int_equal(runner.match.tokens_public, 32);
        assert_int_equal(runner.match.tokens_group, 16);
        assert_int_equal(runner.match.tokens_own, 22);
        assert_int_equal(runner.match.tokens_host, tier == 0 ? 0 : 70);
        assert_int_equal(runner.match.tokens_by[0], 32);
        assert_int_equal(runner.match.tokens_by[1], 16);
        assert_int_equal(runner.match.tokens_by[2], 22);
        cache_bed_release(&runner);
        cache_bed_check(&bed);
        evict_all(&bed);
    }
    /* Without the public part the own one is not reached, nor the group's. */
    assert_int_equal(find(&bed, &view_a, &text, 90), 0);
    prefix_cache_drop_domain(&bed.cache, &prompt);
    assert_int_equal(find(&bed, &view_member, &text, 90), 0);
    cache_bed_check(&bed);
    cache_bed_deinit(&bed);
}

/* A page that is taken again by somebody else is found by nobody under its old name. */
static void test_recycled_page_is_forgotten(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_text other;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_text_make(&other, NULL, 0, 2);
    cache_bed_init(&bed, 6, 0, 0);
    (void)cache_bed_run(&bed, &view_a, &text, 96);
    assert_int_equal(find(&bed, &view_a, &text, 96), 95);
    (void)cache_bed_run(&bed, &view_b, &other, 96); /* wants every page of the pool */
    assert_int_equal(find(&bed, &view_a, &text, 96), 0);
    assert_int_equal(find(&bed, &view_b, &other, 96), 95);
    assert_int_equal(bed.cache.figures.evicted_dropped, 6);
    cache_bed_deinit(&bed);
}

/* areal#421: the cache is of one opening. A new one knows nothing, whatever memory still holds. */
static void test_new_opening_is_empty(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_init(&bed, 24, 24, 0);
    (void)cache_bed_run(&bed, &view_a, &text, 60);
    cache_bed_deinit(&bed);
    cache_bed_init(&bed, 24, 24, 0);
    assert_int_equal(cache_bed_run(&bed, &view_a, &text, 60), 0);
    cache_bed_deinit(&bed);
}

/* --- eviction --- */

static void test_held_pages_are_not_evicted(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_text other;
    struct cache_bed_runner runner;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_text_make(&other, NULL, 0, 2);
    cache_bed_init(&bed, 12, 0, 0);
    (void)cache_bed_run(&bed, &view_a, &text, 64);
    assert_int_equal(cache_bed_start(&runner, &bed, &view_a, &text, 65), 64);
    assert_int_equal(bed.pool.idle_count, 0);
    assert_int_equal(prefix_cache_available(&bed.cache), 8);
    assert_false(prefix_cache_make_room(&bed.cache, 9));
    (void)cache_bed_run(&bed, &view_b, &other, 96);
    cache_bed_verify(&runner);
    cache_bed_end(&runner);
    assert_int_equal(find(&bed, &view_a, &text, 65), 64);
    cache_bed_deinit(&bed);
}

/* Leaves first: what is left of a text is its beginning. */
static void test_leaves_go_first(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    cache_bed_text_make(&text, NULL, 0, 1);
    for (uint32_t host = 0; host < 2; host++) {
        cache_bed_init(&bed, 6, host, 0);
        (void)cache_bed_run(&bed, &view_a, &text, 96);
        for (uint32_t left = 6; left-- > 0;) {
            assert_true(prefix_cache_make_room(&bed.cache, 6 - left));
            cache_bed_check(&bed);
            uint32_t found = (left + host) * CACHE_BED_SYMBOLS;
            if (left > 0) /* the page in the host tier is the one behind those */
                assert_int_equal(find(&bed, &view_a, &text, 96), found < 95 ? found : 95);
        }
        cache_bed_deinit(&bed);
    }
}

/* A flood of one-time prefixes takes the flooder's own pages, in both tiers. */
static void test_flood_stays_in_its_share(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text kept;
    cache_bed_init(&bed, 24, 8, 0);
    cache_bed_text_make(&kept, NULL, 0, 1);
    (void)cache_bed_run(&bed, &view_b, &kept, 80);
    for (uint32_t i = 0; i < 100; i++) {
        struct cache_bed_text once;
        cache_bed_text_make(&once, NULL, 0, 100 + i);
        assert_int_equal(cache_bed_run(&bed, &view_a, &once, 90), 0);
    }
    struct prefix_match match;
    prefix_cache_find(&bed.cache, &view_b, kept.tokens, 81, &match);
    assert_int_equal(match.tokens, 80);
    assert_int_equal(match.tokens_host, 0);
    cache_bed_deinit(&bed);
}

/* Demoted and returned: the same bytes, the same domain, one tier at a time. */
static void test_host_tier_and_back(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_runner runner;
    struct prefix_match match;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_init(&bed, 8, 8, 0);
    (void)cache_bed_run(&bed, &view_a, &text, 90);
    evict_all(&bed);
    /* The device's bytes are gone for good. */
    memset(bed.pool.memory, 0x5a, 8 * cache_bed_layout.page_bytes);
    prefix_cache_find(&bed.cache, &view_a, text.tokens, 96, &match);
    assert_int_equal(match.tokens, 90);
    assert_int_equal(match.tokens_host, 90);
    assert_int_equal(match.host_pages, 5);
    assert_int_equal(match.device_idle, 0);
    assert_int_equal(cache_bed_start(&runner, &bed, &view_a, &text, 96), 90);
    assert_int_equal(bed.cache.figures.returned_pages, 5);
    /* The rest stays there: its copy was made from the host page. */
    assert_int_equal(bed.cache.host.unit_count - bed.cache.host.free_count, 1);
    cache_bed_end(&runner);
    cache_bed_check(&bed);
    cache_bed_deinit(&bed);
}

static const struct kernels_ops *own_ops;
static uint32_t batches;

static uint64_t count_copy(struct kernels *kernels, const struct pages_copy_args *args)
{
    batches++;
    return own_ops->pages_copy(kernels, args);
}

/* What comes back is one batch; where others make room for it, in as few turns as the host tier has
 * free pages for, and nothing is dropped: what comes back leaves its place there. */
static void test_return_is_one_batch(void **state)
{
    (void)state;
    static const uint32_t pool_pages[] = {12, 8, 7};
    static const uint32_t host_pages[] = {8, 6, 5};
    static const uint32_t expected[] = {1, 3, 9}; /* in; in, out, in; in, four times out and in */
    struct cache_bed_text text;
    struct cache_bed_text other;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_text_make(&other, NULL, 0, 2);
    own_ops = cache_bed_kernels->ops;
    struct kernels_ops ops = *own_ops;
    ops.pages_copy = count_copy;
    cache_bed_kernels->ops = &ops;
    for (uint32_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct cache_bed bed;
        struct cache_bed_runner runner;
        cache_bed_init(&bed, pool_pages[i], host_pages[i], 0);
        (void)cache_bed_run(&bed, &view_a, &text, 80);
        evict_all(&bed);
        (void)cache_bed_run(&bed, &view_b, &other, 96);
        batches = 0;
        assert_int_equal(cache_bed_start(&runner, &bed, &view_a, &text, 81), 80);
        assert_int_equal(batches, expected[i]);
        assert_int_equal(bed.cache.figures.returned_pages, 5);
        assert_int_equal(bed.cache.figures.host_dropped, 0);
        assert_int_equal(bed.cache.figures.evicted_dropped, 0);
        assert_int_equal(find(&bed, &view_b, &other, 96), 95);
        cache_bed_release(&runner);
        cache_bed_check(&bed);
        cache_bed_deinit(&bed);
    }
    cache_bed_kernels->ops = own_ops;
}

/* More than one batch holds: each page comes back as itself. */
static void test_return_of_many(void **state)
{
    (void)state;
    enum { PAGES = PREFIX_BATCH + 36, TOKENS = PAGES * CACHE_BED_SYMBOLS, POOL = PAGES + 1 };
    static struct cache_bed bed;
    static uint32_t tokens[TOKENS + 1];
    page_id pages[POOL];
    struct prefix_match match;
    uint32_t count = 0;
    const size_t bytes = cache_bed_layout.page_bytes;
    const struct prefix_cache_options options = {.kernels = cache_bed_kernels,
                                                 .pool = &bed.pool,
                                                 .host_bytes = POOL * bytes,
                                                 .context = TOKENS + 1,
                                                 .seed = 5};
    assert_int_equal(kv_pool_init(&bed.pool, cache_bed_kernels, &cache_bed_layout, POOL * bytes,
                                  options.context),
                     STATUS_OK);
    assert_int_equal(prefix_cache_init(&bed.cache, &options), STATUS_OK);
    own_ops = cache_bed_kernels->ops;
    struct kernels_ops ops = *own_ops;
    ops.pages_copy = count_copy;
    cache_bed_kernels->ops = &ops;
    for (uint32_t i = 0; i < PAGES; i++) {
        pages[i] = kv_pool_acquire(&bed.pool, view_a.domain);
        memset(kv_pool_memory(&bed.pool, pages[i]), (int)i + 1, bytes);
    }
    prefix_cache_insert(&bed.cache, &view_a, tokens, 0, PAGES, pages);
    for (uint32_t i = 0; i < PAGES; i++)
        kv_pool_release(&bed.pool, pages[i]);
    evict_all(&bed);
    memset(bed.pool.memory, 0x5a, POOL * bytes);
    batches = 0;
    assert_int_equal(
        prefix_cache_take(&bed.cache, &view_a, tokens, TOKENS + 1, pages, &count, &match), TOKENS);
    assert_int_equal(count, PAGES);
    assert_int_equal(match.host_pages, PAGES);
    assert_int_equal(batches, 2);
    assert_int_equal(bed.cache.figures.returned_pages, PAGES);
    for (uint32_t i = 0; i < PAGES; i++) {
        const unsigned char *memory = kv_pool_memory(&bed.pool, pages[i]);
        assert_int_equal(memory[0], i + 1);
        assert_int_equal(memory[bytes - 1], i + 1);
        bed.holders[pages[i]]++;
    }
    cache_bed_check(&bed);
    for (uint32_t i = 0; i < PAGES; i++) {
        bed.holders[pages[i]]--;
        kv_pool_release(&bed.pool, pages[i]);
    }
    cache_bed_check(&bed);
    cache_bed_kernels->ops = own_ops;
    cache_bed_deinit(&bed);
}

/* No room to bring everything back: the beginning that fits is taken, the rest is computed. */
static void test_one_page_free(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_text other;
    struct cache_bed_runner holder;
    struct cache_bed_runner runner;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_text_make(&other, NULL, 0, 2);
    cache_bed_init(&bed, 7, 8, 0);
    (void)cache_bed_run(&bed, &view_a, &text, 60);
    evict_all(&bed);
    (void)cache_bed_start(&holder, &bed, &view_b, &other, 96);
    assert_true(cache_bed_grow(&holder, 96));
    assert_int_equal(prefix_cache_available(&bed.cache), 1);
    assert_int_equal(cache_bed_start(&runner, &bed, &view_a, &text, 96), 16);
    cache_bed_check(&bed);
    assert_false(cache_bed_grow(&runner, 96));
    cache_bed_release(&runner);
    assert_int_equal(find(&bed, &view_a, &text, 96), 60);
    /* A rest with no page for its copy. */
    assert_true(prefix_cache_make_room(&bed.cache, 1));
    page_id last = kv_pool_acquire(&bed.pool, &tenant_a);
    bed.holders[last]++;
    assert_int_equal(cache_bed_start(&runner, &bed, &view_b, &other, 90), 80);
    assert_int_equal(runner.match.rest_tokens, 0);
    cache_bed_release(&runner);
    cache_bed_check(&bed);
    bed.holders[last]--;
    kv_pool_release(&bed.pool, last);
    cache_bed_end(&holder);
    cache_bed_deinit(&bed);
}

/* Ghosts used up: what lies behind another domain's prefix is not kept, and nothing breaks. */
static void test_nodes_used_up(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_init(&bed, 24, 4, 1);
    (void)cache_bed_run(&bed, &view_prompt, &text, 64);
    assert_int_equal(cache_bed_run(&bed, &view_member, &text, 90), 64);
    assert_int_equal(cache_bed_run(&bed, &view_member, &text, 90), 64);
    assert_int_equal(bed.pool.idle_count, 4);
    assert_int_equal(cache_bed_run(&bed, &view_b, &text, 90), 0); /* needs no ghosts */
    assert_int_equal(find(&bed, &view_b, &text, 91), 90);
    cache_bed_deinit(&bed);
}

/* --- pins --- */

static void test_pins(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_text other;
    uint32_t pages = 0;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_text_make(&other, NULL, 0, 2);
    cache_bed_init(&bed, 12, 12, 0); /* half of 12, and 6 pages for a full context beside them */
    assert_int_equal(prefix_cache_pin(&bed.cache, &view_prompt, text.tokens, 40, &pages),
                     STATUS_NOT_FOUND);
    (void)cache_bed_run(&bed, &view_prompt, &text, 40);
    assert_int_equal(prefix_cache_pin(&bed.cache, &view_prompt, text.tokens, 41, &pages),
                     STATUS_NOT_FOUND);
    /* What is merely seen, in another domain, is not there to be pinned. */
    assert_int_equal(prefix_cache_pin(&bed.cache, &view_member, text.tokens, 40, &pages),
                     STATUS_NOT_FOUND);
    assert_int_equal(bed.pool.pinned_count, 0);
    evict_all(&bed); /* pinned from the host tier too */
    assert_int_equal(prefix_cache_pin(&bed.cache, &view_prompt, text.tokens, 40, &pages),
                     STATUS_OK);
    assert_int_equal(pages, 3);
    assert_int_equal(prefix_cache_pin(&bed.cache, &view_prompt, text.tokens, 40, &pages),
                     STATUS_OK);
    assert_int_equal(bed.pool.pinned_count, 3);
    assert_int_equal(prefix_cache_available(&bed.cache), 9);
    cache_bed_check(&bed);

    assert_int_equal(prefix_cache_pin_check(&bed.cache, 3), STATUS_OK);
    assert_int_equal(prefix_cache_pin_check(&bed.cache, 4), STATUS_LIMIT);
    assert_non_null(
        strstr(status_note()->message, "4 more pinned pages beside 3 exceed the cap of 6"));
    (void)cache_bed_run(&bed, &view_prompt, &other, 60);
    assert_int_equal(prefix_cache_pin(&bed.cache, &view_prompt, other.tokens, 60, &pages),
                     STATUS_LIMIT);
    assert_int_equal(bed.pool.pinned_count, 3);

    /* Neither a full pool nor a flood takes a pinned page; the largest request still fits. */
    for (uint32_t i = 0; i < 20; i++) {
        struct cache_bed_text once;
        cache_bed_text_make(&once, NULL, 0, 100 + i);
        (void)cache_bed_run(&bed, &view_a, &once, 96);
    }
    assert_int_equal(find(&bed, &view_member, &text, 60), 40);
    struct cache_bed_runner runner;
    assert_int_equal(cache_bed_start(&runner, &bed, &view_member, &text, 60), 40);
    prefix_cache_drop_domain(&bed.cache, &prompt);
    assert_int_equal(bed.pool.pinned_count, 0);
    assert_int_equal(find(&bed, &view_member, &text, 60), 0); /* at once, for new ones */
    cache_bed_verify(&runner);                                /* the running one keeps its pages */
    assert_true(cache_bed_grow(&runner, 60));
    cache_bed_end(&runner);
    cache_bed_check(&bed);
    cache_bed_deinit(&bed);
}

/* --- figures --- */

/* vllm#43736: an answer is counted once, not at each look or for each choice. */
static void test_hits_are_counted_once(void **state)
{
    (void)state;
    struct cache_bed bed;
    struct cache_bed_text text;
    struct cache_bed_runner runner;
    struct prefix_figures figures;
    struct prefix_published published[2];
    uint32_t pages;
    cache_bed_text_make(&text, NULL, 0, 1);
    cache_bed_init(&bed, 24, 8, 0);
    (void)cache_bed_run(&bed, &view_prompt, &text, 40);
    assert_int_equal(prefix_cache_pin(&bed.cache, &view_prompt, text.tokens, 40, &pages),
                     STATUS_OK);
    (void)cache_bed_run(&bed, &view_member, &text, 50);
    for (int choice = 0; choice < 3; choice++) {
        (void)find(&bed, &view_member, &text, 60);
        (void)cache_bed_start(&runner, &bed, &view_member, &text, 60);
        if (choice == 0)
            prefix_cache_count(&bed.cache, &view_member, 60, &runner.match);
        cache_bed_release(&runner);
    }
    prefix_cache_figures(&bed.cache, &figures);
    assert_int_equal(figures.query_tokens, 60);
    assert_int_equal(figures.hit_tokens, 50);
    assert_int_equal(prefix_cache_published(&bed.cache, published, 2), 1);
    assert_int_equal(published[0].pages, 3);
    assert_int_equal(published[0].hits, 1);
    assert_int_equal(published[0].hit_tokens, 32);
    assert_memory_equal(&published[0].domain, &prompt, sizeof prompt);
    /* vllm#12077: what is kept is seen. */
    assert_int_equal(figures.pages_pinned, 3);
    assert_int_equal(figures.pages_idle, 2);
    assert_int_equal(figures.pages_active, 0);
    assert_int_equal(figures.pages_free, 19);
    prefix_cache_drop_domain(&bed.cache, &prompt);
    assert_int_equal(prefix_cache_published(&bed.cache, published, 2), 0);
    cache_bed_deinit(&bed);
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
    struct cache_bed bed;
    assert_int_equal(kv_pool_init(&bed.pool, cache_bed_kernels, &cache_bed_layout,
                                  24 * cache_bed_layout.page_bytes, CACHE_BED_CONTEXT),
                     STATUS_OK);
    const struct prefix_cache_options options = {.kernels = cache_bed_kernels,
                                                 .pool = &bed.pool,
                                                 .host_bytes = 4 * cache_bed_layout.page_bytes,
                                                 .context = CACHE_BED_CONTEXT,
                                                 .pin_percent = 50,
                                                 .seed = 5};
    enum status status = STATUS_NO_MEMORY;
    for (int allowed = 0; status != STATUS_OK; allowed++) {
        assert_true(allowed < 40);
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        status = prefix_cache_init(&bed.cache, &options);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        assert_true(allowed >= 8 || status == STATUS_NO_MEMORY);
    }
    prefix_cache_deinit(&bed.cache);
    kv_pool_deinit(&bed.pool);
}

/* --- random operations beside a stupid model --- */

enum { TEXTS = 10, DOMAINS = 4, VIEWS = 6, RUNNERS = 6, PINS = 8, NOBODY = UINT32_MAX };

/* What was ever inserted into a domain since it was dropped last: an upper bound of what may be
 * found, and exactly that as long as nothing is evicted. */
struct model {
    struct cache_bed bed;
    struct rng rng;
    bool is_exact;
    struct cache_bed_text texts[TEXTS];
    bool full[DOMAINS][TEXTS][CACHE_BED_TABLE];
    uint32_t rest[DOMAINS][TEXTS][CACHE_BED_TABLE]; /* tokens of the longest */
    struct cache_bed_runner runners[RUNNERS];
    uint32_t runner_text[RUNNERS]; /* NOBODY: not running */
    struct pin {
        uint32_t text;
        uint32_t count; /* 0 = none */
    } pins[PINS];
    struct remembered {
        uint32_t view, text, count;
        uint64_t version;
        struct prefix_match match;
    } remembered;
};

static const struct engine_domain *const model_domains[DOMAINS] = {&prompt, &group, &tenant_a,
                                                                   &tenant_b};
static const struct prefix_view *const model_views[VIEWS] = {
    &view_prompt, &view_group, &view_member, &view_a, &view_b, &view_zero};

static uint32_t model_index(const struct engine_domain *domain)
{
    uint32_t index = 0;
    while (index < DOMAINS && memcmp(model_domains[index], domain, sizeof *domain) != 0)
        index++;
    return index;
}

static uint32_t model_common(const struct model *model, uint32_t a, uint32_t b)
{
    uint32_t common = 0;
    while (common < CACHE_BED_CONTEXT &&
           model->texts[a].tokens[common] == model->texts[b].tokens[common])
        common++;
    return common;
}

/* Most tokens of page `page` of a text that a domain holds in one page, `limit` at most. */
static uint32_t model_holds(const struct model *model, const struct engine_domain *domain,
                            uint32_t text, uint32_t page, uint32_t limit)
{
    uint32_t index = model_index(domain);
    uint32_t most = 0;
    for (uint32_t x = 0; x < TEXTS && index < DOMAINS; x++) {
        uint32_t common = model_common(model, x, text);
        uint32_t held =
            model->full[index][x][page] ? CACHE_BED_SYMBOLS : model->rest[index][x][page];
        if (common <= page * CACHE_BED_SYMBOLS)
            continue;
        held = held < common - page * CACHE_BED_SYMBOLS ? held : common - page * CACHE_BED_SYMBOLS;
        most = held > most ? held : most;
    }
    return most < limit ? most : limit;
}

/* What a prompt of `count` tokens would find if nothing had been evicted; by order of the view. */
static uint32_t model_find(const struct model *model, const struct prefix_view *view, uint32_t text,
                           uint32_t count, uint32_t *by)
{
    struct engine_domain order[3];
    uint32_t order_count = view->visible_count;
    uint32_t found = 0;
    for (uint32_t i = 0; i < view->visible_count; i++)
        order[i] = view->visible[i];
    if (memcmp(view->domain, &group, sizeof group) != 0)
        order[order_count++] = *view->domain;
    memset(by, 0, 3 * sizeof *by);
    for (uint32_t page = 0; model_index(view->domain) < DOMAINS && page < CACHE_BED_TABLE; page++) {
        uint32_t limit =
            count - 1 - found < CACHE_BED_SYMBOLS ? count - 1 - found : CACHE_BED_SYMBOLS;
        uint32_t best = 0;
        uint32_t from = 0;
        for (uint32_t i = 0; i < order_count; i++) {
            uint32_t held = model_holds(model, &order[i], text, page, limit);
            if (held > best) {
                best = held;
                from = i;
            }
        }
        by[from] += best;
        found += best;
        if (best < CACHE_BED_SYMBOLS)
            break;
    }
    return found;
}

static void model_compare(const struct model *model, const struct prefix_view *view, uint32_t text,
                          uint32_t count, const struct prefix_match *match)
{
    uint32_t by[3];
    uint32_t found = model_find(model, view, text, count, by);
    assert_true(match->tokens <= found);
    if (!model->is_exact)
        return;
    assert_int_equal(match->tokens, found);
    assert_memory_equal(match->tokens_by, by, sizeof by);
}

/* The runner computes, and its domain then holds the pages that became full, if those before them
 * could still be found. */
static bool model_compute(struct model *model, uint32_t index, uint32_t count)
{
    struct cache_bed_runner *runner = &model->runners[index];
    uint32_t domain = model_index(runner->view.domain);
    uint32_t text = model->runner_text[index];
    uint32_t first = runner->full;
    uint32_t by[3];
    bool is_reached = !model->is_exact ||
                      model_find(model, &runner->view, text, first * CACHE_BED_SYMBOLS + 1, by) ==
                          first * CACHE_BED_SYMBOLS;
    if (!cache_bed_grow(runner, count))
        return false;
    for (uint32_t i = first; domain < DOMAINS && is_reached && i < runner->full; i++)
        model->full[domain][text][i] = true;
    return true;
}

static void model_rest(struct model *model, uint32_t index, bool is_open)
{
    struct cache_bed_runner *runner = &model->runners[index];
    uint32_t text = model->runner_text[index];
    uint32_t domain = model_index(runner->view.domain);
    uint32_t page = runner->computed / CACHE_BED_SYMBOLS;
    uint32_t by[3];
    uint32_t found = model_find(model, &runner->view, text, runner->computed + 1, by);
    bool is_news =
        !model->is_exact || (found >= page * CACHE_BED_SYMBOLS && found < runner->computed);
    if (domain < DOMAINS && page < CACHE_BED_TABLE && is_news) {
        uint32_t *rest = &model->rest[domain][text][page];
        *rest = runner->computed % CACHE_BED_SYMBOLS > *rest ? runner->computed % CACHE_BED_SYMBOLS
                                                             : *rest;
    }
    cache_bed_rest(runner, is_open);
}

static void model_start(struct model *model, uint32_t index)
{
    const struct prefix_view *view = model_views[rng_below(&model->rng, VIEWS)];
    struct cache_bed_runner *runner = &model->runners[index];
    uint32_t text = (uint32_t)rng_below(&model->rng, TEXTS);
    uint32_t count = 1 + (uint32_t)rng_below(&model->rng, CACHE_BED_CONTEXT);
    model->runner_text[index] = text;
    (void)cache_bed_start(runner, &model->bed, view, &model->texts[text], count);
    model_compare(model, view, text, count, &runner->match);
    for (uint32_t i = 0; i < runner->match.pages; i++)
        assert_int_equal(model_holds(model, &model->bed.pool.domains[runner->pages[i]], text, i,
                                     CACHE_BED_SYMBOLS),
                         CACHE_BED_SYMBOLS);
    if (runner->match.rest_tokens > 0)
        assert_memory_equal(&model->bed.pool.domains[runner->pages[runner->match.pages]],
                            view->domain, sizeof *view->domain);
}

static void model_end(struct model *model, uint32_t index, bool is_cancelled)
{
    if (!is_cancelled)
        model_rest(model, index, false);
    cache_bed_release(&model->runners[index]);
    model->runner_text[index] = NOBODY;
}

static void model_drop(struct model *model)
{
    uint32_t domain = (uint32_t)rng_below(&model->rng, DOMAINS);
    for (uint32_t i = 0; i < RUNNERS; i++)
        if (model->runner_text[i] != NOBODY && model_index(model->runners[i].view.domain) == domain)
            model_end(model, i, true);
    prefix_cache_drop_domain(&model->bed.cache, model_domains[domain]);
    memset(model->full[domain], 0, sizeof model->full[domain]);
    memset(model->rest[domain], 0, sizeof model->rest[domain]);
    if (domain == 0)
        memset(model->pins, 0, sizeof model->pins);
}

static void model_pin(struct model *model, uint32_t index)
{
    struct cache_bed_runner *runner = &model->runners[index];
    struct pin *pin = &model->pins[rng_below(&model->rng, PINS)];
    uint32_t pages;
    if (pin->count > 0 || runner->computed == 0)
        return;
    model_rest(model, index, true);
    enum status status =
        prefix_cache_pin(&model->bed.cache, &view_prompt, runner->tokens, runner->computed, &pages);
    assert_true(status == STATUS_OK || status == STATUS_LIMIT || status == STATUS_NOT_FOUND ||
                status == STATUS_BUSY);
    if (model->is_exact)
        assert_true(status == STATUS_OK || status == STATUS_LIMIT);
    if (status == STATUS_OK)
        *pin = (struct pin){.text = model->runner_text[index], .count = runner->computed};
}

static void model_step(struct model *model)
{
    uint32_t index = (uint32_t)rng_below(&model->rng, RUNNERS);
    struct cache_bed_runner *runner = &model->runners[index];
    uint32_t available = prefix_cache_available(&model->bed.cache);
    if (rng_below(&model->rng, 400) == 0) {
        model_drop(model);
    } else if (!model->is_exact && rng_below(&model->rng, 20) == 0) {
        assert_true(prefix_cache_make_room(&model->bed.cache,
                                           (uint32_t)rng_below(&model->rng, available + 1)));
    } else if (model->runner_text[index] == NOBODY) {
        model_start(model, index);
    } else {
        uint32_t more = 1 + (uint32_t)rng_below(&model->rng, 20);
        uint32_t count = runner->computed + more < CACHE_BED_CONTEXT ? runner->computed + more
                                                                     : CACHE_BED_CONTEXT;
        uint64_t kind = rng_below(&model->rng, 10);
        if (kind < 6) {
            if (!model_compute(model, index, count)) /* preempted */
                model_end(model, index, true);
        } else if (kind < 8) {
            model_end(model, index, kind == 7);
        } else if (kind == 8 || model_index(runner->view.domain) != 0) {
            model_rest(model, index, true);
        } else {
            model_pin(model, index);
        }
    }
}

/* A find of anything; what is pinned is found; an answer is good as long as the version is. */
static void model_look(struct model *model)
{
    struct remembered *old = &model->remembered;
    struct prefix_match match;
    if (old->count > 0 && old->version == prefix_cache_version(&model->bed.cache)) {
        prefix_cache_find(&model->bed.cache, model_views[old->view], model->texts[old->text].tokens,
                          old->count, &match);
        assert_memory_equal(&match, &old->match, sizeof match);
    }
    *old = (struct remembered){.view = (uint32_t)rng_below(&model->rng, VIEWS),
                               .text = (uint32_t)rng_below(&model->rng, TEXTS),
                               .count = 1 + (uint32_t)rng_below(&model->rng, CACHE_BED_CONTEXT),
                               .version = prefix_cache_version(&model->bed.cache)};
    prefix_cache_find(&model->bed.cache, model_views[old->view], model->texts[old->text].tokens,
                      old->count, &old->match);
    assert_int_equal(old->version, prefix_cache_version(&model->bed.cache));
    model_compare(model, model_views[old->view], old->text, old->count, &old->match);
    const struct pin *pin = &model->pins[rng_below(&model->rng, PINS)];
    if (pin->count > 1)
        assert_int_equal(find(&model->bed, &view_prompt, &model->texts[pin->text], pin->count),
                         pin->count - 1);
}

static void model_run(uint32_t pages, uint32_t host_pages, uint32_t ghosts, bool is_exact,
                      uint64_t seed, uint32_t steps)
{
    static struct model model;
    memset(&model, 0, sizeof model);
    model.rng.seed = seed;
    model.is_exact = is_exact;
    cache_bed_init(&model.bed, pages, host_pages, ghosts);
    for (uint32_t i = 0; i < TEXTS; i++) {
        uint32_t other = i == 0 ? 0 : (uint32_t)rng_below(&model.rng, i);
        cache_bed_text_make(&model.texts[i], &model.texts[other],
                            i == 0 ? 0 : (uint32_t)rng_below(&model.rng, CACHE_BED_CONTEXT), i + 1);
    }
    for (uint32_t i = 0; i < RUNNERS; i++)
        model.runner_text[i] = NOBODY;
    for (uint32_t step = 0; step < steps; step++) {
        model_step(&model);
        cache_bed_check(&model.bed);
        model_look(&model);
        for (uint32_t i = 0; step % 16 == 0 && i < RUNNERS; i++)
            if (model.runner_text[i] != NOBODY)
                cache_bed_verify(&model.runners[i]);
    }
    const struct prefix_figures *figures = &model.bed.cache.figures;
    assert_int_equal(is_exact, figures->evicted_to_host + figures->evicted_dropped == 0);
    assert_int_equal(host_pages > 0, figures->returned_pages > 0);
    for (uint32_t i = 0; i < RUNNERS; i++)
        if (model.runner_text[i] != NOBODY)
            model_end(&model, i, true);
    assert_int_equal(prefix_cache_available(&model.bed.cache), pages - model.bed.pool.pinned_count);
    cache_bed_deinit(&model.bed);
}

static void test_model_without_pressure(void **state)
{
    (void)state;
    model_run(1000, 0, 0, true, 81, rounds(3000, 30000));
}

static void test_model_with_host(void **state)
{
    (void)state;
    model_run(26, 10, 64, false, 82, 80000);
    model_run(13, 40, 64, false, 83, 40000);
}

static void test_model_without_host(void **state)
{
    (void)state;
    model_run(26, 0, 64, false, 84, 40000);
    model_run(7, 3, 3, false, 85, 40000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_turn_finds_prompt_and_answer),
        cmocka_unit_test(test_one_token_is_always_computed),
        cmocka_unit_test(test_a_page_means_all_before_it),
        cmocka_unit_test(test_partial_page_is_copied),
        cmocka_unit_test(test_sixteen_at_once),
        cmocka_unit_test(test_duplicates_become_one),
        cmocka_unit_test(test_off_and_zero_domain),
        cmocka_unit_test(test_only_visible_domains_are_found),
        cmocka_unit_test(test_lockstep_of_public_group_own),
        cmocka_unit_test(test_recycled_page_is_forgotten),
        cmocka_unit_test(test_new_opening_is_empty),
        cmocka_unit_test(test_held_pages_are_not_evicted),
        cmocka_unit_test(test_leaves_go_first),
        cmocka_unit_test(test_flood_stays_in_its_share),
        cmocka_unit_test(test_host_tier_and_back),
        cmocka_unit_test(test_return_is_one_batch),
        cmocka_unit_test(test_return_of_many),
        cmocka_unit_test(test_one_page_free),
        cmocka_unit_test(test_nodes_used_up),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_hits_are_counted_once),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_model_without_pressure),
        cmocka_unit_test(test_model_with_host),
        cmocka_unit_test(test_model_without_host),
    };
    return cmocka_run_group_tests(tests, cache_bed_setup, cache_bed_teardown);
}
