#include "auth/credential/auth_crypto.h"

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

/* The standard's test case 14 (McGrew and Viega, 256-bit key of zeros, 16 bytes of zeros, no more
 * data) has the nonce of zeros; here nonces are random, so what it pins is opening. */
static void test_seal(void **state)
{
    (void)state;
    static const char vector[] = "\0\0\0\0\0\0\0\0\0\0\0\0"
                                 "\xce\xa7\x40\x3d\x4d\x60\x6b\x6e\x07\x4e\xc5\xd3\xba\xf3\x9d\x18"
                                 "\xd0\xd1\xc8\xa7\x99\x99\x6b\xf0\x26\x5b\x98\xb5\xd4\x8a\xb9\x19";
    uint8_t key[AUTH_CRYPTO_BYTES] = {0};
    static const char zeros[16];
    struct buffer out;
    struct buffer again;
    buffer_init(&out, 4096);
    buffer_init(&again, 4096);
    assert_int_equal(auth_crypto_open(key, (struct slice){0}, SLICE(vector), &out), STATUS_OK);
    assert_int_equal(out.length, 16);
    assert_memory_equal(out.bytes, zeros, 16);
    for (size_t length = 0; length < 100; length += 33) {
        static const char text[] = "a text of a hundred bytes, or about as many, of which some are "
                                   "sealed and opened again, and all of them";
        buffer_clear(&out);
        buffer_clear(&again);
        assert_int_equal(auth_crypto_seal(key, SLICE("here"), (struct slice){text, length}, &out),
                         STATUS_OK);
        assert_int_equal(out.length, length + AUTH_CRYPTO_SEAL_BYTES);
        assert_int_equal(auth_crypto_open(key, SLICE("here"), buffer_slice(&out), &again),
                         STATUS_OK);
        assert_int_equal(again.length, length);
        assert_memory_equal(again.bytes, text, length);
        assert_int_equal(auth_crypto_open(key, SLICE("there"), buffer_slice(&out), &again),
                         STATUS_CORRUPT);
        for (size_t at = 0; at < out.length; at++) { /* every byte counts */
            out.bytes[at] = (char)(out.bytes[at] ^ 1);
            assert_int_equal(auth_crypto_open(key, SLICE("here"), buffer_slice(&out), &again),
                             STATUS_CORRUPT);
            out.bytes[at] = (char)(out.bytes[at] ^ 1);
        }
        assert_int_equal(again.length, length);
        assert_int_equal(auth_crypto_open(key, SLICE("here"),
                                          (struct slice){out.bytes, AUTH_CRYPTO_SEAL_BYTES - 1},
                                          &again),
                         STATUS_CORRUPT);
    }
    out.limit_bytes = out.length;
    assert_int_equal(auth_crypto_seal(key, SLICE("here"), SLICE("more"), &out), STATUS_LIMIT);
    buffer_deinit(&out);
    buffer_deinit(&again);
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
        cmocka_unit_test(test_vectors),      cmocka_unit_test(test_seal),
        cmocka_unit_test(test_keys_in_turn), cmocka_unit_test(test_equals),
        cmocka_unit_test(test_forget),       cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
