#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/kv_host.h"

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
    host.is_held[0] = !host.is_held[0];
    assert_false(kv_host_check(&host)); /* the check can fail */
    kv_host_deinit(&host);
}

static bool dies(void (*body)(struct kv_host *), struct kv_host *host)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        body(host);
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

static const char a_page[PAGE_BYTES] = {1};

/* A tier that forgets whose a page is: sgl-project/sglang#37160, LMCache/LMCache#4825. */
static void body_foreign_domain(struct kv_host *host)
{
    host_page page = kv_host_store(host, a_page, &domain_a);
    (void)kv_host_get(host, page, &domain_b);
}

static void body_own_domain(struct kv_host *host)
{
    host_page page = kv_host_store(host, a_page, &domain_a);
    (void)kv_host_get(host, page, &domain_a);
}

static void body_released(struct kv_host *host)
{
    host_page page = kv_host_store(host, a_page, &domain_a);
    kv_host_release(host, page);
    (void)kv_host_get(host, page, &domain_a);
}

static void body_released_twice(struct kv_host *host)
{
    host_page page = kv_host_store(host, a_page, &domain_a);
    kv_host_release(host, page);
    kv_host_release(host, page);
}

static void test_assertions_stay_on(void **state)
{
    (void)state;
    struct kv_host host;
    assert_int_equal(kv_host_init(&host, kernels, PAGE_BYTES, PAGE_BYTES * PAGES), STATUS_OK);
    assert_true(dies(body_foreign_domain, &host));
    assert_true(dies(body_released, &host));
    assert_true(dies(body_released_twice, &host));
    assert_false(dies(body_own_domain, &host));
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
        cmocka_unit_test(test_assertions_stay_on),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
