#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/kv/kv_host.h"
#include "kernels/cpu/ops/ops.h"
#include "tests/kit/death.h"
#include "tests/kit/late_pages.h"

enum { POOL_PAGES = 6, HOST_PAGES = 7 };

static struct kernels *kernels;
static struct kv_layout layout;
static struct kv_pool pool;
static const struct engine_domain domain_a = {{1}};
static const struct engine_domain domain_b = {{2}};

static int setup(void **state)
{
    (void)state;
    const struct kernels_options options = {
        .isa = "ref", .threads = 1, .rows_max = 4, .cols_max = 64};
    if (kernels_create(&kernels, &options) != STATUS_OK ||
        kernels_kv_layout(kernels, KV_TYPE_F16, 16, 1, 1, 4, &layout) != STATUS_OK)
        return -1;
    return kv_pool_init(&pool, kernels, &layout, POOL_PAGES * layout.page_bytes, 16) != STATUS_OK;
}

static int teardown(void **state)
{
    (void)state;
    kv_pool_deinit(&pool);
    kernels_destroy(kernels);
    return 0;
}

static void test_no_budget_is_always_full(void **state)
{
    (void)state;
    for (uint64_t bytes = 0; bytes < layout.page_bytes; bytes += layout.page_bytes - 1) {
        struct kv_host host;
        assert_int_equal(kv_host_init(&host, kernels, &layout, bytes), STATUS_OK);
        assert_int_equal(host.unit_count, 0);
        assert_int_equal(kv_host_acquire(&host, &domain_a), KV_POOL_NONE);
        assert_true(kv_host_check(&host));
        kv_host_deinit(&host);
    }
}

/* A page of the pool whose bytes are all one. */
static page_id pool_page(const struct engine_domain *domain, int byte)
{
    page_id page = kv_pool_acquire(&pool, domain);
    assert_int_not_equal(page, KV_POOL_NONE);
    memset(kv_pool_memory(&pool, page), byte, layout.page_bytes);
    return page;
}

static bool is_all(const void *bytes, int byte)
{
    const unsigned char *at = bytes;
    return at[0] == byte && memcmp(at, at + 1, layout.page_bytes - 1) == 0;
}

static void body_read_in_flight(void *context)
{
    kv_pool_assert_visible(&pool, context, 1, &domain_a, 1);
}

/* A batch out and back; whatever the copies take, what comes back is what went out. */
static void there_and_back(struct rng *rng, struct kv_host *host)
{
    page_id pages[POOL_PAGES];
    host_page stored[POOL_PAGES];
    int bytes[POOL_PAGES];
    const struct engine_domain domain = {{(uint8_t)rng_below(rng, 3)}};
    uint32_t count = 1 + (uint32_t)rng_below(rng, POOL_PAGES / 2);
    for (uint32_t i = 0; i < count; i++) {
        bytes[i] = (int)rng_below(rng, 255);
        pages[i] = pool_page(&domain, bytes[i]);
        stored[i] = kv_host_acquire(host, &domain);
    }
    kv_host_out(host, &pool, pages, stored, count);
    for (uint32_t i = 0; i < count; i++)
        kv_pool_release(&pool, pages[i]); /* at once, but given to nobody who could see it */
    for (uint32_t steps = (uint32_t)rng_below(rng, 4); steps > 0; steps--)
        late_pages_step();
    kv_pool_land(&pool);
    for (uint32_t i = 0; i < count; i++)
        pages[i] = pool_page(&domain, 255);
    kv_host_in(host, &pool, stored, pages, count);
    for (uint32_t i = 0; i < count; i++)
        kv_host_release(host, stored[i]);
    kv_pool_wait(&pool, pages, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_false(kv_pool_is_flying(&pool, pages[i]));
        assert_true(is_all(kv_pool_memory(&pool, pages[i]), bytes[i]));
        kv_pool_release(&pool, pages[i]);
    }
    assert_int_equal(host->free_count, HOST_PAGES);
    assert_true(kv_host_check(host));
}

static void test_there_and_back(void **state)
{
    (void)state;
    static const uint32_t none[POOL_PAGES];
    for (uint32_t late = 0; late < 4; late++) {
        struct kv_host host;
        struct rng rng = {.seed = 73 + late};
        assert_int_equal(kv_host_init(&host, kernels, &layout, HOST_PAGES * layout.page_bytes + 5),
                         STATUS_OK);
        assert_int_equal(host.unit_count, HOST_PAGES);
        if (late > 0)
            late_pages_begin(kernels, late);
        for (int round = 0; round < 500; round++) {
            there_and_back(&rng, &host);
            assert_true(kv_pool_check(&pool, none, NULL));
        }
        assert_int_equal(pool.flying_count > 0 || pool.waits > 0, late > 0);
        if (late > 0)
            late_pages_end();
        kv_pool_land(&pool);
        assert_int_equal(pool.flying_count, 0);
        host.references[0] = host.references[0] == 0;
        assert_false(kv_host_check(&host)); /* the check can fail */
        kv_host_deinit(&host);
    }
}

/* Free pages that a copy reads are given last, and then work waits for it. */
static void test_in_flight(void **state)
{
    (void)state;
    struct kv_host host;
    page_id pages[POOL_PAGES];
    host_page stored[POOL_PAGES];
    assert_int_equal(kv_host_init(&host, kernels, &layout, HOST_PAGES * layout.page_bytes),
                     STATUS_OK);
    late_pages_begin(kernels, 1000);
    for (uint32_t i = 0; i < POOL_PAGES; i++)
        pages[i] = pool_page(&domain_a, (int)i);
    for (uint32_t i = 0; i < POOL_PAGES; i++)
        stored[i] = kv_host_acquire(&host, &domain_a);
    kv_host_out(&host, &pool, pages, stored, 2);
    kv_host_out(&host, &pool, pages + 2, stored + 2, 2);
    assert_true(death_by(body_read_in_flight, &pages[0]));
    assert_false(death_by(body_read_in_flight, &pages[4]));
    const uint64_t waits = pool.waits;
    for (uint32_t i = 0; i < POOL_PAGES; i++)
        kv_pool_release(&pool, pages[i]);
    assert_int_equal(pool.free_count, POOL_PAGES);
    assert_int_equal(pool.flying_count, 4);
    for (uint32_t i = 0; i < POOL_PAGES; i++) {
        page_id page = pool_page(&domain_b, 200);
        assert_int_equal(pool.waits, waits + (i < 2 ? 0 : i < 4 ? 1 : 2));
        assert_int_equal(late_pages_waited(), i < 2 ? 0 : i < 4 ? 1 : 2); /* the first one first */
        pages[i] = page;
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_true(is_all(kv_host_get(&host, stored[i], 0, &domain_a), (int)i));
    for (uint32_t i = 0; i < POOL_PAGES; i++) {
        kv_pool_release(&pool, pages[i]);
        kv_host_release(&host, stored[i]);
    }
    late_pages_end();
    kv_host_deinit(&host);
}

/* A page of the tree and of a paused sequence goes when both let go of it. */
static void test_holders(void **state)
{
    (void)state;
    struct kv_host host;
    assert_int_equal(kv_host_init(&host, kernels, &layout, layout.page_bytes), STATUS_OK);
    host_page page = kv_host_acquire(&host, &domain_a);
    assert_int_equal(kv_host_acquire(&host, &domain_a), KV_POOL_NONE);
    kv_host_retain(&host, page);
    kv_host_release(&host, page);
    assert_ptr_equal(kv_host_get(&host, page, 0, &domain_a), host.memory);
    assert_int_equal(host.free_count, 0);
    assert_true(kv_host_check(&host));
    kv_host_release(&host, page);
    assert_int_equal(host.free_count, 1);
    assert_true(kv_host_check(&host));
    kv_host_deinit(&host);
}

/* A tier that forgets whose a page is: sgl-project/sglang#37160, LMCache/LMCache#4825. */
static void body_foreign_domain(void *context)
{
    struct kv_host *host = context;
    host_page page = kv_host_acquire(host, &domain_a);
    (void)kv_host_get(host, page, 0, &domain_b);
}

static void body_own_domain(void *context)
{
    struct kv_host *host = context;
    host_page page = kv_host_acquire(host, &domain_a);
    (void)kv_host_get(host, page, 0, &domain_a);
}

static void body_copy_to_foreign(void *context)
{
    struct kv_host *host = context;
    host_page from = kv_host_acquire(host, &domain_a);
    page_id to = kv_pool_acquire(&pool, &domain_b);
    kv_host_in(host, &pool, &from, &to, 1);
}

static void body_released(void *context)
{
    struct kv_host *host = context;
    host_page page = kv_host_acquire(host, &domain_a);
    kv_host_release(host, page);
    (void)kv_host_get(host, page, 0, &domain_a);
}

static void body_released_twice(void *context)
{
    struct kv_host *host = context;
    host_page page = kv_host_acquire(host, &domain_a);
    kv_host_release(host, page);
    kv_host_release(host, page);
}

static void test_assertions_stay_on(void **state)
{
    (void)state;
    struct kv_host host;
    assert_int_equal(kv_host_init(&host, kernels, &layout, layout.page_bytes * HOST_PAGES),
                     STATUS_OK);
    assert_true(death_by(body_foreign_domain, &host));
    assert_true(death_by(body_copy_to_foreign, &host));
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
        status = kv_host_init(&host, kernels, &layout, layout.page_bytes * HOST_PAGES);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        if (status == STATUS_OK)
            kv_host_deinit(&host);
        else
            assert_non_null(
                strstr(status_note()->message,
                       allowed == 0 ? "no host memory for 1 MiB of KV pages" : "7 host pages of "));
    }
}

static enum status device_status;

static enum status device_no_memory(struct kernels *of, size_t bytes, const char *what)
{
    (void)of;
    (void)bytes;
    FAIL(device_status, "%s; 7 MiB of the device's 8 MiB are free", what);
}

/* A device's free memory says nothing of the host's; that it is lost is told. */
static void test_no_memory_beside_a_device(void **state)
{
    (void)state;
    const struct kernels_ops *of_processor = kernels->ops;
    struct kernels_ops ops = *of_processor;
    struct kv_host host;
    ops.no_memory = device_no_memory;
    kernels->ops = &ops;
    for (int lost = 0; lost < 2; lost++) {
        int left = 0;
        device_status = lost ? STATUS_UNAVAILABLE : STATUS_NO_MEMORY;
        mem_hook_set(refuse_after, &left);
        assert_int_equal(kv_host_init(&host, kernels, &layout, layout.page_bytes), device_status);
        mem_hook_set(NULL, NULL);
        assert_int_equal(strstr(status_note()->message, "device") != NULL, lost);
    }
    kernels->ops = of_processor;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_budget_is_always_full),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_holders),
        cmocka_unit_test(test_assertions_stay_on),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_beside_a_device),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
