/* auth_token_cache: kept until its end, replaced by print, bounded whatever comes. */
#include "auth/identity/auth_token_cache.h"

#include <pthread.h>

#include "tests/unit/base_kit.h"

static void print_of(uint32_t number, uint8_t out[AUTH_CRYPTO_BYTES])
{
    static const uint8_t key[AUTH_CRYPTO_BYTES] = {1};
    assert_int_equal(
        auth_crypto_hmac(key, (struct slice){(const char *)&number, sizeof number}, out),
        STATUS_OK);
}

static void put(struct auth_token_cache *cache, uint32_t number, int64_t until_s)
{
    uint8_t print[AUTH_CRYPTO_BYTES];
    const struct auth_token_entry entry = {.scopes = number};
    print_of(number, print);
    auth_token_cache_put(cache, print, &entry, until_s);
}

static bool has(struct auth_token_cache *cache, uint32_t number, int64_t now_s)
{
    uint8_t print[AUTH_CRYPTO_BYTES];
    struct auth_token_entry entry;
    print_of(number, print);
    bool is_found = auth_token_cache_get(cache, print, now_s, &entry);
    assert_true(!is_found || entry.scopes == number);
    return is_found;
}

static void test_until(void **state)
{
    struct auth_token_cache *cache;
    (void)state;
    assert_int_equal(auth_token_cache_create(&cache, 64), STATUS_OK);
    assert_false(has(cache, 1, 0));
    put(cache, 1, 100);
    assert_true(has(cache, 1, 99));
    assert_false(has(cache, 1, 100));
    assert_false(has(cache, 2, 0));
    put(cache, 1, 200); /* in its own place */
    assert_true(has(cache, 1, 150));
    put(cache, 1, 120);
    assert_false(has(cache, 1, 150));
    auth_token_cache_destroy(cache);
}

/* Of one set: what ends first gives way, and a hundred times as many as there is room are no more
 * than there is room. */
static void test_room(void **state)
{
    struct auth_token_cache *cache;
    size_t found = 0;
    (void)state;
    assert_int_equal(auth_token_cache_create(&cache, 8), STATUS_OK);
    for (uint32_t i = 0; i < 8; i++)
        put(cache, i, 100 + i);
    for (uint32_t i = 0; i < 8; i++)
        assert_true(has(cache, i, 50));
    put(cache, 8, 1000);
    assert_false(has(cache, 0, 50));
    for (uint32_t i = 1; i < 9; i++)
        assert_true(has(cache, i, 50));
    auth_token_cache_destroy(cache);
    assert_int_equal(auth_token_cache_create(&cache, 800), STATUS_OK);
    for (uint32_t i = 0; i < 80000; i++)
        put(cache, i, 100 + i);
    for (uint32_t i = 0; i < 80000; i++)
        found += has(cache, i, 50);
    assert_true(found <= 800);
    assert_true(has(cache, 79999, 50));
    auth_token_cache_destroy(cache);
    auth_token_cache_destroy(NULL);
}

static void *run_thread(void *context)
{
    for (uint32_t i = 0; i < 5000; i++) {
        put(context, i % 100, 1000);
        (void)has(context, (i * 7) % 100, 50);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct auth_token_cache *cache;
    pthread_t threads[3];
    (void)state;
    assert_int_equal(auth_token_cache_create(&cache, 64), STATUS_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_thread, cache), 0);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    auth_token_cache_destroy(cache);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int nth = 1; nth <= 2; nth++) {
        struct auth_token_cache *cache;
        int left = nth;
        mem_hook_set(kit_fail_at, &left);
        assert_int_equal(auth_token_cache_create(&cache, 64), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
        assert_null(cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_until),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
