#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
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

/* A pool is large enough in units, and the refusal says units and bytes. */
static void test_start_wants_one_full_sequence_with_its_window(void **state)
{
    (void)state;
    struct kv_layout own = layout;
    struct kv_pool pool;
    own.window_units = 3;
    own.window = 40;
    /* 200 tokens need 13 pages; of these 7 + 1 have window units at once. */
    const uint64_t bytes = own.page_bytes * (13 + 8 * 3);
    assert_int_equal(kv_pool_init(&pool, kernels, &own, bytes - 1, 200), STATUS_LIMIT);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "needs 37 units = %llu bytes", (unsigned long long)bytes);
    assert_non_null(strstr(status_note()->message, wanted));
    assert_non_null(strstr(status_note()->message, "holds 36 units"));
    assert_int_equal(kv_pool_init(&pool, kernels, &own, bytes, 200), STATUS_OK);
    assert_int_equal(kv_pool_units_least(&pool, 100), 7 + 7 * 3);
    kv_pool_deinit(&pool);
}

/* No window has more pages than kv_pool_window_pages says, and some have as many. */
static void test_window_pages(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {16, 32, 48, 64, 80, 128};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t window = 1; window < 300; window += 7) {
            const struct kv_pool pool = {
                .layout = {.page_tokens = sizes[i], .window_units = 1, .window = window}};
            uint32_t most = 0;
            for (uint32_t position = 0; position < 4000; position++) {
                const uint32_t pages =
                    kv_pool_pages_for(&pool, position) - kv_pool_window_page(&pool, position);
                most = pages > most ? pages : most;
            }
            assert_true(most <= kv_pool_window_pages(&pool));
            assert_true(most + (64 % sizes[i] != 0) >= kv_pool_window_pages(&pool));
        }
}

/* Gemma 3 270M: 18 layers, of which 15 have a window of 512; one KV head of 256; f16. */
static void test_longest_text_of_gemma(void **state)
{
    (void)state;
    enum { CONTEXT = 32768, CHUNK = 512, MEMORY = 128 << 20 };
    struct kv_layout units, whole;
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_F16, 16, 3, 1, 256, &units), STATUS_OK);
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_F16, 16, 18, 1, 256, &whole), STATUS_OK);
    units.window_units = 5;
    units.window = 512;
    const struct kv_pool pool = {.layout = units};
    const uint32_t windows = kv_pool_window_pages(&pool) + CHUNK / 16;
    const uint32_t room = MEMORY / (uint32_t)units.page_bytes;
    const uint32_t longest = (room - windows * units.window_units) * 16;
    const uint32_t before = MEMORY / (uint32_t)whole.page_bytes * 16;
    assert_int_equal(before, 7280);
    assert_true(longest >= CONTEXT); /* the model's context, while chunks of 512 are computed */
    assert_true((double)CONTEXT / before >= 4);
}

enum { WINDOWS_UNITS = 40, WINDOWS_EACH = 2 };

struct windows_model {
    struct kv_pool pool;
    uint32_t holders[WINDOWS_UNITS], needs[WINDOWS_UNITS];
    bool cached[WINDOWS_UNITS], pinned[WINDOWS_UNITS];
    uint64_t given_up;
    bool told[WINDOWS_UNITS]; /* of pages that the cache holds: window units, as the pool says */
    uint64_t told_count;
};

/* Called of pages that the cache holds, and of changes alone. */
static void windows_tell(void *context, page_id page)
{
    struct windows_model *model = context;
    const bool has = kv_pool_has_window(&model->pool, page);
    assert_true(kv_pool_is_cached(&model->pool, page));
    assert_int_not_equal(model->told[page], has);
    model->told[page] = has;
    model->told_count++;
}

static void windows_hold(struct windows_model *model, struct rng *rng, page_id page)
{
    struct kv_pool *pool = &model->pool;
    const bool is_held = model->holders[page] > 0 || model->cached[page];
    switch (rng_below(rng, 5)) {
    case 0:
        if (pool->free_count < 1 + WINDOWS_EACH)
            break;
        page = kv_pool_acquire(pool, &domain_a);
        kv_pool_add_window(pool, page);
        model->holders[page] = model->needs[page] = 1;
        break;
    case 1:
        if (!is_held || rng_below(rng, 3) > 0)
            break;
        kv_pool_retain(pool, page);
        model->holders[page]++;
        break;
    case 2:
        if (model->holders[page] == model->needs[page])
            break;
        kv_pool_release(pool, page);
        model->holders[page]--;
        break;
    case 3:
        if (!is_held || !kv_pool_has_window(pool, page) ||
            model->holders[page] == model->needs[page])
            break;
        kv_pool_need_window(pool, page);
        model->needs[page]++;
        break;
    default:
        if (model->needs[page] == 0)
            break;
        kv_pool_unneed_window(pool, page);
        model->needs[page]--;
    }
}

static void windows_keep(struct windows_model *model, struct rng *rng, page_id page)
{
    struct kv_pool *pool = &model->pool;
    switch (rng_below(rng, 4)) {
    case 0:
        if (model->holders[page] > 0 && !model->cached[page])
            kv_pool_cache(pool, page);
        else if (model->cached[page] && !model->pinned[page])
            kv_pool_uncache(pool, page);
        else
            break;
        model->cached[page] = !model->cached[page];
        model->told[page] = kv_pool_has_window(pool, page); /* the cache looks when it takes it */
        break;
    case 1:
        if (!model->cached[page] || (!model->pinned[page] && rng_below(rng, 4) > 0))
            break;
        (model->pinned[page] ? kv_pool_unpin : kv_pool_pin)(pool, page);
        model->pinned[page] = !model->pinned[page];
        break;
    case 2:
        if ((model->holders[page] > 0 || model->cached[page]) && rng_below(rng, 4) == 0)
            kv_pool_keep_tail(pool, page);
        break;
    default:
        model->given_up +=
            kv_pool_drop_spare(pool, rng_below(rng, 2) == 0 ? KV_SPARE_MIDDLE : KV_SPARE_TAIL);
    }
}

/* Who has spare window units, and what is available. */
static void windows_compare(const struct windows_model *model)
{
    const struct kv_pool *pool = &model->pool;
    uint32_t available = pool->free_count;
    for (uint32_t i = 0; i < WINDOWS_UNITS; i++) {
        const bool is_held = model->holders[i] > 0 || model->cached[i];
        const bool is_spare = is_held && kv_pool_window_units(pool, i) > 0 &&
                              model->needs[i] == 0 &&
                              !(model->pinned[i] && kv_pool_is_tail(pool, i));
        assert_int_equal(kv_pool_is_spare(pool, i), is_spare);
        assert_true(!is_spare || model->cached[i]);
        assert_true(!model->cached[i] || model->told[i] == kv_pool_has_window(pool, i));
        available += model->cached[i] && !model->pinned[i] && model->holders[i] == 0;
        available += is_spare ? WINDOWS_EACH : 0;
    }
    assert_int_equal(kv_pool_available(pool), available);
    assert_true(kv_pool_check(pool, model->holders, model->needs));
}

/* Random holders, needs, cache, pins and tails beside arrays of them. */
static void test_windows_model(void **state)
{
    (void)state;
    struct windows_model model = {.given_up = 0};
    struct kv_layout own = layout;
    struct rng rng = {.seed = 73};
    own.window_units = WINDOWS_EACH;
    own.window = 20;
    assert_int_equal(kv_pool_init(&model.pool, kernels, &own, own.page_bytes * WINDOWS_UNITS, 16),
                     STATUS_OK);
    kv_pool_set_tell(&model.pool,
                     &(struct kv_pool_tell){.window = windows_tell, .context = &model});
    for (int step = 0; step < 20000; step++) {
        const page_id page = (page_id)rng_below(&rng, WINDOWS_UNITS);
        (rng_below(&rng, 2) == 0 ? windows_hold : windows_keep)(&model, &rng, page);
        windows_compare(&model);
    }
    assert_true(model.given_up > 100);
    assert_true(model.told_count >= model.given_up);
    model.needs[0]++;
    assert_false(kv_pool_check(&model.pool, model.holders, model.needs)); /* the check can fail */
    kv_pool_deinit(&model.pool);
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
    kv_pool_set_tell(&pool, &(struct kv_pool_tell){.idle = tell, .context = told_idle});
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
        cmocka_unit_test(test_start_wants_one_full_sequence_with_its_window),
        cmocka_unit_test(test_window_pages),
        cmocka_unit_test(test_longest_text_of_gemma),
        cmocka_unit_test(test_full_is_an_answer),
        cmocka_unit_test(test_windows_model),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_idle_model),
        cmocka_unit_test(test_assertions_stay_on),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
