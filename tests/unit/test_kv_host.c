#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/kv_host.h"
#include "tests/kit/death.h"

enum { PAGE_BYTES = 192, PAGES = 7 };

static struct kernels *kernels;
static const struct engine_domain domain_a = {{1}};
static const struct engine_domain domain_b = {{2}};

static int setup(void **state)
{
    (void)state;
    const struct kernels_options options = {
        .isa = "ref", .threads = 1, .rows_max = 4, .cols_max = 64};
    return kernels_create(&kernels, &options) != STATUS_OK;
}

static int teardown(void **state)
{
    (void)state;
    kernels_destroy(kernels);
    return 0;
}

static void test_no_budget_is_always_full(void **state)
{
    (void)state;
    const char page[PAGE_BYTES] = {0};
    for (uint64_t bytes = 0; bytes < PAGE_BYTES; bytes += PAGE_BYTES - 1) {
        struct kv_host host;
        assert_int_equal(kv_host_init(&host, kernels, PAGE_BYTES, bytes), STATUS_OK);
        assert_int_equal(host.page_count, 0);
        assert_int_equal(kv_host_store(&host, page, &domain_a), KV_POOL_NONE);
        assert_true(kv_host_check(&host));
        kv_host_deinit(&host);
    }
}

/* Random stores and releases beside a copy of what was stored. */
static void test_model(void **state)
{
    (void)state;
    struct kv_host host;
    assert_int_equal(kv_host_init(&host, kernels, PAGE_BYTES, PAGE_BYTES * PAGES + 5), STATUS_OK);
    assert_int_equal(host.page_count, PAGES);
    static char stored[PAGES][PAGE_BYTES];
    struct engine_domain domains[PAGES];
    bool is_held[PAGES] = {false};
    uint32_t held = 0;
    struct rng rng = {.seed = 73};
    for (int step = 0; step < 20000; step++) {
        host_page page = (host_page)rng_below(&rng, PAGES);
        if (rng_below(&rng, 2) == 0) {
            char bytes[PAGE_BYTES];
            const struct engine_domain domain = {{(uint8_t)rng_below(&rng, 3)}};
            memset(bytes, (int)rng_below(&rng, 256), sizeof bytes);
            page = kv_host_store(&host, bytes, &domain);
            assert_int_equal(page == KV_POOL_NONE, held == PAGES);
            if (page != KV_POOL_NONE) {
                assert_false(is_held[page]);
                is_held[page] = true;
                domains[page] = domain;
                memcpy(stored[page], bytes, PAGE_BYTES);
                held++;
            }
        } else if (is_held[page]) {
            kv_host_release(&host, page);
            is_held[page] = false;
            held--;
        }
        for (host_page i = 0; i < PAGES; i++)
            if (is_held[i])
                assert_memory_equal(kv_host_get(&host, i, &domains[i]), stored[i], PAGE_BYTES);
        assert_true(kv_host_check(&host));
    }
    host.references[0] = host.references[0] == 0;
    assert_false(kv_host_check(&host)); /* the check can fail */
    kv_host_deinit(&host);
}

/* A page of the tree and of a paused sequence goes when both let go of it. */
static void test_holders(void **state)
{
    (void)state;
    struct kv_host host;
    assert_int_equal(kv_host_init(&host, kernels, PAGE_BYTES, PAGE_BYTES), STATUS_OK);
    host_page page = kv_host_acquire(&host, &domain_a);
    assert_int_equal(kv_host_acquire(&host, &domain_a), KV_POOL_NONE);
    kv_host_retain(&host, page);
    kv_host_release(&host, page);
    assert_ptr_equal(kv_host_get(&host, page, &domain_a), host.memory);
    assert_int_equal(host.free_count, 0);
    assert_true(kv_host_check(&host));
    kv_host_release(&host, page);
    assert_int_equal(host.free_count, 1);
    assert_true(kv_host_check(&host));
    kv_host_deinit(&host);
}

static const char a_page[PAGE_BYTES] = {1};

/* A tier that forgets whose a page is: sgl-project/sglang#37160, LMCache/LMCache#4825. */
static void body_foreign_domain(void *context)
{
    struct kv_host *host = context;
    host_page page = kv_host_store(host, a_page, &domain_a);
    (void)kv_host_get(host, page, &domain_b);
}

static void body_own_domain(void *context)
{
    struct kv_host *host = context;
    host_page page = kv_host_store(host, a_page, &domain_a);
    (void)kv_host_get(host, page, &domain_a);
}

static void body_released(void *context)
{
    struct kv_host *host = context;
    host_page page = kv_host_store(host, a_page, &domain_a);
    kv_host_release(host, page);
    (void)kv_host_get(host, page, &domain_a);
}

static void body_released_twice(void *context)
{
    struct kv_host *host = context;
    host_page page = kv_host_store(host, a_page, &domain_a);
    kv_host_release(host, page);
    kv_host_release(host, page);
}

static void test_assertions_stay_on(void **state)
{
    (void)state;
    struct kv_host host;
    assert_int_equal(kv_host_init(&host, kernels, PAGE_BYTES, PAGE_BYTES * PAGES), STATUS_OK);
    assert_true(death_by(body_foreign_domain, &host));
    assert_true(death_by(body_released, &host));
    assert_true(death_by(body_released_twice, &host));
    assert_false(death_by(body_own_domain, &host));
    kv_host_deinit(&host);
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
        struct kv_host host;
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        status = kv_host_init(&host, kernels, PAGE_BYTES, PAGE_BYTES * PAGES);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        if (status == STATUS_OK)
            kv_host_deinit(&host);
        else
            assert_non_null(strstr(status_note()->message, "7 host pages of 192 bytes"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_budget_is_always_full),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_holders),
        cmocka_unit_test(test_assertions_stay_on),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
