/* auth_jwt: signatures of every algorithm, good and bad, and the ways in which libjwt alone would
 * take what it must not. */
#include "auth/identity/auth_jwt.h"

#include "tests/unit/jwt_kit.h"

enum { ALL = (1 << AUTH_JWT_ALGORITHMS) - 1 };

static struct jwt_kit_key keys[AUTH_JWT_ALGORITHMS];
static struct auth_jwks *jwks;
static struct buffer token;
static const char claims[] = "{\"sub\":\"me\"}";
/* libjwt takes the first, OpenSSL alone the second. */
static const char *const types[] = {"JWT", "at+jwt"};

static int setup(void **state)
{
    static const char *const kids[] = {"a", "b", "c", "d", "e"};
    (void)state;
    for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++)
        keys[i] = jwt_kit_make((enum auth_jwt_algorithm)i, kids[i], 0);
    struct buffer json = jwt_kit_jwks(keys, AUTH_JWT_ALGORITHMS);
    assert_int_equal(auth_jwks_read(buffer_slice(&json), ALL, &jwks), STATUS_OK);
    buffer_deinit(&json);
    buffer_init(&token, 1 << 16);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++)
        jwt_kit_free(&keys[i]);
    auth_jwks_free(jwks);
    buffer_deinit(&token);
    return 0;
}

static enum auth_jwt_reason verify(struct slice text, int with)
{
    struct auth_jwt jwt;
    enum auth_jwt_reason reason = auth_jwt_guard_open(text, &jwt);
    if (reason == AUTH_JWT_NONE)
        reason = auth_jwt_verify(&jwt, &jwks->keys[with]);
    auth_jwt_guard_close(&jwt);
    return reason;
}

/* Each key takes its own tokens and no other's. */
static void test_each_with_each(void **state)
{
    (void)state;
    for (size_t type = 0; type < 2; type++) {
        for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++) {
            jwt_kit_token_of(&token, &keys[i], types[type], claims);
            for (int j = 0; j < AUTH_JWT_ALGORITHMS; j++)
                assert_int_equal(verify(buffer_slice(&token), j),
                                 i == j ? AUTH_JWT_NONE : AUTH_JWT_KEY_ALGORITHM);
        }
    }
}

/* Another bit in any part; a signature of another key, of another length, of zeros. */
static void check_wrong_signatures(const char *type)
{
    for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++) {
        struct slice text = jwt_kit_token_of(&token, &keys[i], type, claims);
        char *last = memrchr(token.bytes, '.', text.length);
        char was = last[10];
        last[10] = was == 'A' ? 'B' : 'A';
        assert_int_equal(verify(text, i), AUTH_JWT_SIGNATURE);
        last[10] = was;
        assert_int_equal(verify(text, i), AUTH_JWT_NONE);
        /* The claims are others: {"sub":"mf"} */
        last[-2] = last[-2] == '0' ? '1' : '0';
        assert_int_not_equal(verify(text, i), AUTH_JWT_NONE);
        struct jwt_kit_key other = jwt_kit_make((enum auth_jwt_algorithm)i, "x", 0);
        other.kid = keys[i].kid;
        assert_int_equal(verify(jwt_kit_token_of(&token, &other, type, claims), i),
                         AUTH_JWT_SIGNATURE);
        jwt_kit_free(&other);
        text = jwt_kit_token_of(&token, &keys[i], type, claims);
        for (char *at = memrchr(token.bytes, '.', text.length) + 1; *at != '\0'; at++)
            *at = 'A';
        assert_int_equal(verify(text, i), AUTH_JWT_SIGNATURE);
        text.length -= 4; /* three bytes less */
        assert_int_equal(verify(text, i), AUTH_JWT_SIGNATURE);
    }
}

static void test_wrong_signatures(void **state)
{
    (void)state;
    check_wrong_signatures(types[0]);
    check_wrong_signatures(types[1]);
}

/* HS256 with the public key's text as the secret: the oldest of all (CVE-2015-9235). */
static void test_confusion(void **state)
{
    struct jwt_kit_key liar = {.algorithm = AUTH_JWT_HS256, .kid = "a"};
    uint8_t mac[64];
    unsigned made = 0;
    (void)state;
    struct slice text = jwt_kit_token(&token, &liar, claims);
    size_t length = (size_t)((char *)memrchr(token.bytes, '.', text.length) - token.bytes);
    const char *pem = jwks->keys[AUTH_JWT_RS256].pem;
    assert_non_null(HMAC(EVP_sha256(), pem, (int)strlen(pem), (const unsigned char *)token.bytes,
                         length, mac, &made));
    token.length = length + 1;
    jwt_kit_base64(&token, mac, made);
    assert_int_equal(verify(buffer_slice(&token), AUTH_JWT_RS256), AUTH_JWT_KEY_ALGORITHM);
    /* And with an empty secret. */
    assert_int_equal(verify(jwt_kit_token(&token, &liar, claims), AUTH_JWT_HS256),
                     AUTH_JWT_SIGNATURE);
    /* ES256 said by a P-384 key's owner: its signature is longer, and its key never in the map. */
    struct jwt_kit_key large = jwt_kit_make(AUTH_JWT_ES256, "c", 384);
    assert_int_equal(verify(jwt_kit_token(&token, &large, claims), AUTH_JWT_ES256),
                     AUTH_JWT_SIGNATURE);
    jwt_kit_free(&large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_with_each),
        cmocka_unit_test(test_wrong_signatures),
        cmocka_unit_test(test_confusion),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
