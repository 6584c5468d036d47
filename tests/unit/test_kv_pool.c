#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/kv/kv_pool.h"
#include "tests/kit/death.h"

static struct kernels *kernels;
static struct kv_layout layout;

static int setup(void **state)
{
    (void)state;
    const struct kernels_options options = {
        .isa = "ref", .threads = 1, .rows_max = 4, .cols_max = 64};
    if (kernels_create(&kernels, &options) != STATUS_OK)
        return -1;
    return kernels_kv_layout(kernels, KV_TYPE_F16, 16, 1, 1, 4, &layout) != STATUS_OK;
}

static int teardown(void **state)
{
    (void)state;
    kernels_destroy(kernels);
    return 0;
}

static const struct engine_domain domain_a = {{1}};
static const struct engine_domain domain_b = {{2}};

static void test_start_wants_one_full_sequence(void **state)
{
    (void)state;
    struct kv_pool pool;
    /* 33 tokens need 3 pages of 16. */
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * 3 - 1, 33),
                     STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, "needs 3 pages"));
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * 3, 33), STATUS_OK);
    assert_int_equal(pool.unit_count, 3);
    assert_int_equal(kv_pool_pages_for(&pool, 0), 0);
    assert_int_equal(kv_pool_pages_for(&pool, 1), 1);
    assert_int_equal(kv_pool_pages_for(&pool, 16), 1);
    assert_int_equal(kv_pool_pages_for(&pool, 17), 2);
    kv_pool_deinit(&pool);
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * 2, 33),
                     STATUS_LIMIT);
}

static void test_full_is_an_answer(void **state)
{
    (void)state;
    struct kv_pool pool;
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * 2, 32), STATUS_OK);
    page_id first = kv_pool_acquire(&pool, &domain_a);
    page_id second = kv_pool_acquire(&pool, &domain_a);
    assert_int_not_equal(first, second);
    assert_int_equal(kv_pool_acquire(&pool, &domain_a), KV_POOL_NONE);
    kv_pool_retain(&pool, first);
    kv_pool_release(&pool, first);
    assert_int_equal(kv_pool_acquire(&pool, &domain_a), KV_POOL_NONE);
    kv_pool_release(&pool, first);
    assert_int_equal(kv_pool_acquire(&pool, &domain_b), first);
    kv_pool_deinit(&pool);
}

/* Random operations beside an array of counts and domains. */
static void test_model(void **state)
{
    (void)state;
    enum { PAGES = 13, STEPS = 20000 };
    struct kv_pool pool;
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * PAGES, 16),
                     STATUS_OK);
    uint32_t holders[PAGES] = {0};
    struct engine_domain domains[PAGES];
    struct rng rng = {.seed = 71};
    for (int step = 0; step < STEPS; step++) {
        uint32_t held = 0;
        for (uint32_t i = 0; i < PAGES; i++)
            held += holders[i] > 0;
        page_id page = (page_id)rng_below(&rng, PAGES);
        uint64_t kind = rng_below(&rng, 3);
        if (kind == 0) {
            const struct engine_domain domain = {{(uint8_t)rng_below(&rng, 3)}};
            page_id got = kv_pool_acquire(&pool, &domain);
            assert_true((got == KV_POOL_NONE) == (held == PAGES));
            if (got != KV_POOL_NONE) {
                assert_int_equal(holders[got], 0);
                holders[got] = 1;
                domains[got] = domain;
            }
        } else if (kind == 1 && holders[page] > 0) {
            kv_pool_retain(&pool, page);
            holders[page]++;
        } else if (kind == 2 && holders[page] > 0) {
            kv_pool_release(&pool, page);
            holders[page]--;
        }
        assert_true(kv_pool_check(&pool, holders, NULL));
        for (uint32_t i = 0; i < PAGES; i++)
            if (holders[i] > 0)
                kv_pool_assert_visible(&pool, &i, 1, &domains[i], 1);
    }
    holders[0]++;
    assert_false(kv_pool_check(&pool, holders, NULL)); /* the check can fail */
    kv_pool_deinit(&pool);
}

/* What the pool tells of idle pages, beside what the model says. */
static bool told_idle[13];

static void tell(void *context, page_id page, bool is_idle)
{
    assert_ptr_equal(context, told_idle);
    assert_int_not_equal(told_idle[page], is_idle); /* told of changes alone */
    told_idle[page] = is_idle;
}

static void idle_compare(const struct kv_pool *pool, const uint32_t *holders, const bool *cached,
                         const bool *pinned)
{
    assert_true(kv_pool_check(pool, holders, NULL));
    uint32_t free_count = 0;
    uint32_t idle_count = 0;
    uint32_t pinned_count = 0;
    for (uint32_t i = 0; i < pool->unit_count; i++) {
        bool is_idle = cached[i] && !pinned[i] && holders[i] == 0;
        free_count += !cached[i] && holders[i] == 0;
        idle_count += is_idle;
        pinned_count += pinned[i];
        assert_int_equal(told_idle[i], is_idle);
        assert_int_equal(kv_pool_is_cached(pool, i), cached[i]);
        assert_int_equal(kv_pool_is_pinned(pool, i), pinned[i]);
    }
    assert_int_equal(pool->free_count, free_count);
    assert_int_equal(pool->idle_count, idle_count);
    assert_int_equal(pool->pinned_count, pinned_count);
}

/* Random holders, cache and pins: counts of free, idle and pinned pages, and what is told. */
static void test_idle_model(void **state)
{
    (void)state;
    enum { PAGES = 13, STEPS = 20000 };
    struct kv_pool pool;
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * PAGES, 16),
                     STATUS_OK);
    kv_pool_set_idle(&pool, tell, told_idle);
    uint32_t holders[PAGES] = {0};
    bool cached[PAGES] = {false};
    bool pinned[PAGES] = {false};
    struct rng rng = {.seed = 72};
    for (int step = 0; step < STEPS; step++) {
        page_id page = (page_id)rng_below(&rng, PAGES);
        bool is_held = holders[page] > 0 || cached[page];
        switch (rng_below(&rng, 7)) {
        case 0:
            page = kv_pool_acquire(&pool, &domain_a);
            if (page != KV_POOL_NONE)
                holders[page] = 1;
            break;
        case 1:
            if (is_held) {
                kv_pool_retain(&pool, page);
                holders[page]++;
            }
            break;
        case 2:
            if (holders[page] > 0) {
                kv_pool_release(&pool, page);
                holders[page]--;
            }
            break;
        case 3:
            if (holders[page] > 0 && !cached[page]) {
                kv_pool_cache(&pool, page);
                cached[page] = true;
            }
            break;
        case 4:
            if (cached[page] && !pinned[page]) {
                kv_pool_uncache(&pool, page);
                cached[page] = false;
                told_idle[page] = false; /* the cache knows */
            }
            break;
        case 5:
            if (cached[page] && !pinned[page]) {
                kv_pool_pin(&pool, page);
                pinned[page] = true;
            }
            break;
        default:
            if (pinned[page]) {
                kv_pool_unpin(&pool, page);
                pinned[page] = false;
            }
        }
        idle_compare(&pool, holders, cached, pinned);
    }
    kv_pool_deinit(&pool);
}

static void body_foreign_domain(void *context)
{
    struct kv_pool *pool = context;
    const page_id page = kv_pool_acquire(pool, &domain_a);
    kv_pool_assert_visible(pool, &page, 1, &domain_b, 1);
}

static void body_own_domain(void *context)
{
    struct kv_pool *pool = context;
    const struct engine_domain visible[2] = {domain_b, domain_a};
    const page_id page = kv_pool_acquire(pool, &domain_a);
    kv_pool_assert_visible(pool, &page, 1, visible, 2);
}

static void body_free_page(void *context)
{
    struct kv_pool *pool = context;
    const page_id page = kv_pool_acquire(pool, &domain_a);
    kv_pool_release(pool, page);
    kv_pool_assert_visible(pool, &page, 1, &domain_a, 1);
}

static void body_double_release(void *context)
{
    struct kv_pool *pool = context;
    const page_id page = kv_pool_acquire(pool, &domain_a);
    kv_pool_release(pool, page);
    kv_pool_release(pool, page);
}

/* The cache's reference is not a sequence's to give back. */
static void body_release_of_caches(void *context)
{
    struct kv_pool *pool = context;
    const page_id page = kv_pool_acquire(pool, &domain_a);
    kv_pool_cache(pool, page);
    kv_pool_release(pool, page);
    kv_pool_release(pool, page);
}

static void body_cache_twice(void *context)
{
    struct kv_pool *pool = context;
    const page_id page = kv_pool_acquire(pool, &domain_a);
    kv_pool_cache(pool, page);
    kv_pool_cache(pool, page);
}

static void body_evict_pinned(void *context)
{
    struct kv_pool *pool = context;
    const page_id page = kv_pool_acquire(pool, &domain_a);
    kv_pool_cache(pool, page);
    kv_pool_pin(pool, page);
    kv_pool_uncache(pool, page);
}

static void body_pin_uncached(void *context)
{
    struct kv_pool *pool = context;
    kv_pool_pin(pool, kv_pool_acquire(pool, &domain_a));
}

static void test_assertions_stay_on(void **state)
{
    (void)state;
    struct kv_pool pool;
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * 2, 32), STATUS_OK);
    assert_true(death_by(body_foreign_domain, &pool));
    assert_true(death_by(body_free_page, &pool));
    assert_true(death_by(body_double_release, &pool));
    assert_true(death_by(body_release_of_caches, &pool));
    assert_true(death_by(body_cache_twice, &pool));
    assert_true(death_by(body_evict_pinned, &pool));
    assert_true(death_by(body_pin_uncached, &pool));
    assert_false(death_by(body_own_domain, &pool));
    kv_pool_deinit(&pool);
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
    for (int allowed = 0; status != STATUS_OK; allowed++) {
        assert_true(allowed < 10);
        struct kv_pool pool;
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        status = kv_pool_init(&pool, kernels, &layout, layout.page_bytes * 4, 32);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        assert_true(allowed >= 4 || status == STATUS_NO_MEMORY);
        if (status == STATUS_OK)
            kv_pool_deinit(&pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_wants_one_full_sequence),
        cmocka_unit_test(test_full_is_an_answer),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_idle_model),
        cmocka_unit_test(test_assertions_stay_on),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
