#include "auth/auth_crypto.h"

#include "tests/unit/base_kit.h"

#include <pthread.h>

/* RFC 4231 has keys of other lengths; a shorter key is padded with zeros by the definition of HMAC,
 * so its cases 1 and 2 (20 and 4 bytes) can be asked with 32. */
static void test_vectors(void **state)
{
    static const struct {
        const char *key;
        size_t key_length;
        const char *message;
        const char *mac;
    } cases[] = {
        {"\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b", 20,
         "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {"Jefe", 4, "what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t key[AUTH_CRYPTO_BYTES] = {0};
        uint8_t mac[AUTH_CRYPTO_BYTES];
        char hex[2 * AUTH_CRYPTO_BYTES + 1];
        memcpy(key, cases[i].key, cases[i].key_length);
        for (int round = 0; round < 2; round++) { /* the kept context starts anew each time */
            assert_int_equal(auth_crypto_hmac(key, slice_of(cases[i].message), mac), STATUS_OK);
            for (int j = 0; j < AUTH_CRYPTO_BYTES; j++)
                snprintf(hex + 2 * j, 3, "%02x", mac[j]);
            assert_string_equal(hex, cases[i].mac);
        }
    }
}

/* A context that keeps its key must notice another one, and one that differs in a single bit. */
static void test_keys_in_turn(void **state)
{
    (void)state;
    uint8_t key[AUTH_CRYPTO_BYTES] = {7};
    uint8_t first[AUTH_CRYPTO_BYTES];
    uint8_t mac[AUTH_CRYPTO_BYTES];
    assert_int_equal(auth_crypto_hmac(key, SLICE("m"), first), STATUS_OK);
    for (int bit = 0; bit < 8 * AUTH_CRYPTO_BYTES; bit++) {
        key[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(auth_crypto_hmac(key, SLICE("m"), mac), STATUS_OK);
        assert_memory_not_equal(mac, first, sizeof mac);
        key[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(auth_crypto_hmac(key, SLICE("m"), mac), STATUS_OK);
        assert_memory_equal(mac, first, sizeof mac);
    }
}

static void test_equals(void **state)
{
    (void)state;
    uint8_t a[32] = {0};
    uint8_t b[32] = {0};
    assert_true(auth_crypto_equals(a, b, 32));
    for (int i = 0; i < 32; i++) {
        b[i] = 1;
        assert_false(auth_crypto_equals(a, b, 32));
        b[i] = 0;
    }
    assert_true(auth_crypto_equals(a, b, 0));
}

static void test_forget(void **state)
{
    (void)state;
    char secret[16] = "secret";
    auth_crypto_forget(secret, sizeof secret);
    for (size_t i = 0; i < sizeof secret; i++)
        assert_int_equal(secret[i], 0);
}

static void *many(void *context)
{
    const uint8_t *key = context;
    uint8_t first[AUTH_CRYPTO_BYTES];
    uint8_t mac[AUTH_CRYPTO_BYTES];
    if (auth_crypto_hmac(key, SLICE("message"), first) != STATUS_OK)
        return "failed";
    for (int i = 0; i < 1000; i++) {
        if (auth_crypto_hmac(key, SLICE("message"), mac) != STATUS_OK ||
            memcmp(mac, first, 32) != 0)
            return "differs";
    }
    return NULL;
}

/* Contexts are the threads' own; leak checkers see that they go with the thread. */
static void test_threads(void **state)
{
    (void)state;
    uint8_t keys[4][AUTH_CRYPTO_BYTES] = {{1}, {2}, {3}, {4}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many, keys[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_keys_in_turn),
        cmocka_unit_test(test_equals),  cmocka_unit_test(test_forget),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
