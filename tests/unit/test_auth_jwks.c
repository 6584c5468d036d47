/* auth_jwks: key sets as issuers publish them, and every key that must not be one. */
#include "auth/credential/auth_jwks.h"

#include "tests/unit/jwt_kit.h"

enum { ALL = (1 << AUTH_JWT_ALGORITHMS) - 1 };

static enum status read_text(const char *json, uint32_t algorithms, struct auth_jwks **out)
{
    return auth_jwks_read(slice_of(json), algorithms, out);
}

static void refused(const char *json, uint32_t algorithms, const char *param)
{
    struct auth_jwks *jwks;
    enum status status = read_text(json, algorithms, &jwks);
    assert_null(jwks);
    if (status == STATUS_OK || strcmp(status_note()->param, param) != 0)
        fail_msg("%.200s: %s (%s)", json, status_note()->param, status_note()->message);
}

static void test_all_kinds(void **state)
{
    struct jwt_kit_key keys[AUTH_JWT_ALGORITHMS];
    static const char *const kids[] = {"a", "b", "c", "d", "e"};
    static const size_t signatures[] = {256, 256, 64, 64, 32};
    struct auth_jwks *jwks;
    struct auth_jwks *again;
    (void)state;
    for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++)
        keys[i] = jwt_kit_make((enum auth_jwt_algorithm)i, kids[i], 0);
    struct buffer json = jwt_kit_jwks(keys, AUTH_JWT_ALGORITHMS);
    assert_int_equal(auth_jwks_read(buffer_slice(&json), ALL, &jwks), STATUS_OK);
    assert_int_equal(auth_jwks_read(buffer_slice(&json), ALL, &again), STATUS_OK);
    assert_int_equal(jwks->count, AUTH_JWT_ALGORITHMS);
    for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++) {
        const struct auth_jwks_key *key = auth_jwks_find(jwks, kids[i]);
        assert_ptr_equal(key, &jwks->keys[i]);
        assert_int_equal(key->algorithm, i);
        assert_int_equal(key->signature_bytes, signatures[i]);
        assert_memory_equal(key->print, again->keys[i].print, sizeof key->print);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(key->print, jwks->keys[j].print, sizeof key->print);
    }
    assert_null(auth_jwks_find(jwks, "f"));
    auth_jwks_free(again);
    auth_jwks_free(jwks);
    /* Only what is allowed is taken. */
    assert_int_equal(auth_jwks_read(buffer_slice(&json), 1u << AUTH_JWT_ES256, &jwks), STATUS_OK);
    assert_int_equal(jwks->count, 1);
    assert_non_null(auth_jwks_find(jwks, "c"));
    auth_jwks_free(jwks);
    buffer_deinit(&json);
    for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++)
        jwt_kit_free(&keys[i]);
}

/* Keys for other uses stand beside in what issuers publish. */
static void test_passed_over(void **state)
{
    struct jwt_kit_key key = jwt_kit_make(AUTH_JWT_EDDSA, "mine", 0);
    struct buffer json;
    struct auth_jwks *jwks;
    (void)state;
    buffer_init(&json, 1 << 16);
    buffer_append_text(&json, "{\"other\":1,\"keys\":["
                              "{\"kty\":\"RSA\",\"use\":\"enc\",\"kid\":\"x\",\"n\":\"!\"},"
                              "{\"kty\":\"EC\",\"crv\":\"P-384\",\"alg\":\"ES384\"},"
                              "{\"kty\":\"EC\",\"crv\":\"secp256k1\"},"
                              "{\"kty\":\"MLWE\"},{},"
                              "{\"kty\":\"oct\",\"key_ops\":[\"sign\"],\"k\":\"AAAA\"},");
    jwt_kit_jwk(&json, &key, ",\"use\":\"sig\",\"key_ops\":[\"verify\"],\"x5t\":\"…\"");
    buffer_append_text(&json, "]}");
    assert_int_equal(auth_jwks_read(buffer_slice(&json), ALL, &jwks), STATUS_OK);
    assert_int_equal(jwks->count, 1);
    assert_string_equal(jwks->keys[0].kid, "mine");
    auth_jwks_free(jwks);
    buffer_deinit(&json);
    jwt_kit_free(&key);
}

#define SECRET       "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" /* 32 bytes */
#define OCT(members) "{\"keys\":[{\"kty\":\"oct\"," members "}]}"

static void test_refused(void **state)
{
    (void)state;
    refused("", ALL, "jwks");
    refused("[]", ALL, "jwks");
    refused("{\"keys\":[],\"keys\":[]}", ALL, "jwks");
    refused("{}", ALL, "jwks.keys");
    refused("{\"keys\":{}}", ALL, "jwks.keys");
    refused("{\"keys\":[]}", ALL, "jwks.keys");
    refused("{\"keys\":[7]}", ALL, "jwks.keys[0]");
    refused("{\"keys\":[{\"kty\":\"oct\",\"use\":\"enc\"}]}", ALL, "jwks.keys");
    refused(OCT("\"kid\":\"a\",\"k\":\"\""), ALL, "jwks.keys[0].k");
    refused(OCT("\"kid\":\"a\""), ALL, "jwks.keys[0].k");
    refused(OCT("\"kid\":\"a\",\"k\":7"), ALL, "jwks.keys[0].k");
    refused(OCT("\"kid\":\"a\",\"k\":\"AAAA\""), ALL, "jwks.keys[0].k");
    refused(OCT("\"kid\":\"a\",\"k\":\"" SECRET "=\""), ALL, "jwks.keys[0].k");
    refused(OCT("\"k\":\"" SECRET "\""), ALL, "jwks.keys[0].kid");
    refused(OCT("\"kid\":\"a b\",\"k\":\"" SECRET "\""), ALL, "jwks.keys[0].kid");
    refused(OCT("\"kid\":\"a\",\"alg\":\"RS256\",\"k\":\"" SECRET "\""), ALL, "jwks.keys[0].alg");
    refused("{\"keys\":[{\"kty\":\"oct\",\"kid\":\"a\",\"k\":\"" SECRET "\"},"
            "{\"kty\":\"oct\",\"kid\":\"a\",\"k\":\"" SECRET "\"}]}",
            ALL, "jwks.keys[1].kid");
    refused("{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"a\",\"n\":\"AAAA\",\"e\":\"AQAB\"}]}", ALL,
            "jwks.keys[0].alg");
    refused("{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"a\",\"alg\":\"RS256\",\"n\":\"AAAA\"}]}", ALL,
            "jwks.keys[0].e");
    refused("{\"keys\":[{\"kty\":\"EC\",\"kid\":\"a\",\"alg\":\"ES256\",\"crv\":\"P-384\"}]}", ALL,
            "jwks.keys[0].alg");
    refused("{\"keys\":[{\"kty\":\"EC\",\"kid\":\"a\",\"crv\":\"P-256\",\"x\":\"" SECRET
            "\",\"y\":\"" SECRET "\"}]}",
            ALL, "jwks.keys[0].kty"); /* a point off the curve */
    refused(
        "{\"keys\":[{\"kty\":\"EC\",\"kid\":\"a\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\""
        "}]}",
        ALL, "jwks.keys[0].x");
    refused("{\"keys\":[{\"kty\":\"OKP\",\"kid\":\"a\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}]}", ALL,
            "jwks.keys[0].x");
    refused("{\"keys\":[{\"kty\":\"OKP\",\"kid\":\"a\",\"crv\":\"Ed25519\",\"x\":\"" SECRET
            "\",\"d\":\"" SECRET "\"}]}",
            ALL, "jwks.keys[0].d");
}

/* Sizes at their limits; an exponent of one proves nothing. */
static void test_sizes(void **state)
{
    static const struct {
        unsigned bits;
        bool is_taken;
    } sizes[] = {{1024, false}, {2040, false}, {2048, true}, {4096, true}, {4104, false}};
    struct auth_jwks *jwks;
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct jwt_kit_key key = jwt_kit_make(AUTH_JWT_RS256, "a", sizes[i].bits);
        struct buffer json = jwt_kit_jwks(&key, 1);
        enum status status = auth_jwks_read(buffer_slice(&json), ALL, &jwks);
        assert_int_equal(status == STATUS_OK, sizes[i].is_taken);
        if (status != STATUS_OK)
            assert_string_equal(status_note()->param, "jwks.keys[0].n");
        auth_jwks_free(jwks);
        if (sizes[i].bits == 2048) {
            char *exponent = strstr(json.bytes, "AQAB");
            assert_non_null(exponent);
            memcpy(exponent, "AAAB", 4);
            refused(json.bytes, ALL, "jwks.keys[0].kty");
        }
        buffer_deinit(&json);
        jwt_kit_free(&key);
    }
}

static void test_how_many(void **state)
{
    struct jwt_kit_key keys[LIMIT_ISSUER_KEYS + 1];
    char kids[LIMIT_ISSUER_KEYS + 1][8];
    struct auth_jwks *jwks;
    (void)state;
    for (int i = 0; i <= LIMIT_ISSUER_KEYS; i++) {
        snprintf(kids[i], sizeof kids[i], "k%d", i);
        keys[i] = jwt_kit_make(AUTH_JWT_HS256, kids[i], 0);
    }
    struct buffer json = jwt_kit_jwks(keys, LIMIT_ISSUER_KEYS);
    assert_int_equal(auth_jwks_read(buffer_slice(&json), ALL, &jwks), STATUS_OK);
    assert_int_equal(jwks->count, LIMIT_ISSUER_KEYS);
    auth_jwks_free(jwks);
    buffer_deinit(&json);
    /* What is passed over counts for nothing, wherever it stands. */
    json = jwt_kit_jwks(keys, LIMIT_ISSUER_KEYS);
    ASSERT(json.length > 2 && json.bytes[json.length - 2] == ']');
    json.length -= 2;
    buffer_append_text(&json, ",{\"kty\":\"oct\",\"use\":\"enc\"}]}");
    assert_int_equal(auth_jwks_read(buffer_slice(&json), ALL, &jwks), STATUS_OK);
    assert_int_equal(jwks->count, LIMIT_ISSUER_KEYS);
    auth_jwks_free(jwks);
    buffer_deinit(&json);
    json = jwt_kit_jwks(keys, LIMIT_ISSUER_KEYS + 1);
    refused(json.bytes, ALL, "jwks.keys");
    buffer_deinit(&json);
    struct slice large = {calloc(1, LIMIT_JWKS_BYTES + 1), LIMIT_JWKS_BYTES + 1};
    assert_int_equal(auth_jwks_read(large, ALL, &jwks), STATUS_OUT_OF_RANGE);
    free((char *)(uintptr_t)large.bytes);
}

/* Without memory at any point: nothing leaks, nothing half made comes out. */
static void test_no_memory(void **state)
{
    struct jwt_kit_key keys[2] = {jwt_kit_make(AUTH_JWT_ES256, "a", 0),
                                  jwt_kit_make(AUTH_JWT_HS256, "b", 0)};
    struct buffer json = jwt_kit_jwks(keys, 2);
    struct auth_jwks *jwks = NULL;
    enum status status = STATUS_NO_MEMORY;
    (void)state;
    for (int nth = 1; status != STATUS_OK; nth++) {
        int left = nth;
        mem_hook_set(kit_fail_at, &left);
        status = auth_jwks_read(buffer_slice(&json), ALL, &jwks);
        mem_hook_set(NULL, NULL);
        assert_int_equal(jwks != NULL, status == STATUS_OK);
        assert_true(nth < 1000);
    }
    auth_jwks_free(jwks);
    buffer_deinit(&json);
    jwt_kit_free(&keys[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds), cmocka_unit_test(test_passed_over),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_how_many),  cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
