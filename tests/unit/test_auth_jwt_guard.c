/* auth_jwt_guard: every token that is no token, each for its own reason; what claims may say. */
#include "auth/credential/auth_jwt_guard.h"

#include "tests/unit/jwt_kit.h"

#define GOOD_HEADER "{\"alg\":\"HS256\",\"kid\":\"a\"}"

/* The reason for a token of this header and these claims; signed with nothing. */
static enum auth_jwt_reason open_parts(const char *header, const char *claims)
{
    struct buffer token;
    struct auth_jwt jwt;
    buffer_init(&token, 1 << 20);
    jwt_kit_base64(&token, header, strlen(header));
    buffer_append_char(&token, '.');
    jwt_kit_base64(&token, claims, strlen(claims));
    buffer_append_text(&token, ".AAAA");
    enum auth_jwt_reason reason = auth_jwt_guard_open(buffer_slice(&token), &jwt);
    auth_jwt_guard_close(&jwt);
    buffer_deinit(&token);
    return reason;
}

static void test_headers(void **state)
{
    static const struct {
        const char *header;
        enum auth_jwt_reason reason;
    } cases[] = {
        {GOOD_HEADER, AUTH_JWT_NONE},
        {"{\"typ\":\"JWT\",\"alg\":\"EdDSA\",\"kid\":\"a/b+c=.-_:\",\"x5t\":\"q\"}", AUTH_JWT_NONE},
        {"{\"alg\":\"none\",\"kid\":\"a\"}", AUTH_JWT_ALGORITHM},
        {"{\"alg\":\"None\",\"kid\":\"a\"}", AUTH_JWT_ALGORITHM},
        {"{\"alg\":\"nOnE\",\"kid\":\"a\"}", AUTH_JWT_ALGORITHM},
        {"{\"alg\":\"\",\"kid\":\"a\"}", AUTH_JWT_ALGORITHM},
        {"{\"alg\":\"hs256\",\"kid\":\"a\"}", AUTH_JWT_ALGORITHM},
        {"{\"alg\":\"HS384\",\"kid\":\"a\"}", AUTH_JWT_ALGORITHM},
        {"{\"alg\":5,\"kid\":\"a\"}", AUTH_JWT_ALGORITHM},
        {"{\"alg\":[\"RS256\"],\"kid\":\"a\"}", AUTH_JWT_ALGORITHM},
        {"{\"kid\":\"a\"}", AUTH_JWT_ALGORITHM},
        {"{\"alg\":\"HS256\"}", AUTH_JWT_KID},
        {"{\"alg\":\"HS256\",\"kid\":\"\"}", AUTH_JWT_KID},
        {"{\"alg\":\"HS256\",\"kid\":7}", AUTH_JWT_KID},
        {"{\"alg\":\"HS256\",\"kid\":null}", AUTH_JWT_KID},
        {"{\"alg\":\"HS256\",\"kid\":\"a b\"}", AUTH_JWT_KID},
        {"{\"alg\":\"HS256\",\"kid\":\"a' or '1'='1\"}", AUTH_JWT_KID},
        {"{\"alg\":\"HS256\",\"kid\":\"a|id\"}", AUTH_JWT_KID},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"jku\":\"https://evil.example/jwks\"}",
         AUTH_JWT_HEADER_KEY},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"jwk\":{\"kty\":\"oct\"}}", AUTH_JWT_HEADER_KEY},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"x5u\":\"https://evil.example\"}", AUTH_JWT_HEADER_KEY},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"x5c\":[]}", AUTH_JWT_HEADER_KEY},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"crit\":[\"exp\"]}", AUTH_JWT_HEADER_CRIT},
        {"{\"alg\":\"dir\",\"enc\":\"A128GCM\"}", AUTH_JWT_HEADER_CRIT},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"zip\":\"DEF\"}", AUTH_JWT_HEADER_CRIT},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"b64\":false}", AUTH_JWT_HEADER_CRIT},
        {"{\"typ\":\"JWE\",\"alg\":\"HS256\",\"kid\":\"a\"}", AUTH_JWT_TYPE},
        {"{\"typ\":\"at+jwt\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_NONE},
        {"{\"typ\":\"application/at+jwt\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_NONE},
        {"{\"typ\":\"Application/AT+JWT\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_NONE},
        {"{\"typ\":\"jwt\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_NONE},
        {"{\"typ\":\"application/\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_TYPE},
        {"{\"typ\":\"application/application/jwt\",\"alg\":\"RS256\",\"kid\":\"a\"}",
         AUTH_JWT_TYPE},
        {"{\"typ\":\"\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_TYPE},
        {"{\"typ\":null,\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_TYPE},
        {"{\"typ\":\"at+jwt2\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_TYPE},
        {"{\"typ\":\"JWT\\u0000\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_HEADER},
        {"{\"typ\":\"dpop+jwt\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_TYPE},
        {"{\"typ\":\"logout+jwt\",\"alg\":\"RS256\",\"kid\":\"a\"}", AUTH_JWT_TYPE},
        {"{\"typ\":7,\"alg\":\"HS256\",\"kid\":\"a\"}", AUTH_JWT_TYPE},
        {"{\"alg\":\"HS256\",\"alg\":\"none\",\"kid\":\"a\"}", AUTH_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"a\",\"\\u006bid\":\"b\"}", AUTH_JWT_HEADER},
        {"[]", AUTH_JWT_HEADER},
        {"\"HS256\"", AUTH_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"a\"", AUTH_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"a\"} x", AUTH_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"\\u0000\"}", AUTH_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"\xff\"}", AUTH_JWT_HEADER},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (open_parts(cases[i].header, "{}") != cases[i].reason)
            fail_msg("%s", cases[i].header);
    }
}

static void test_claims_form(void **state)
{
    char deep[256];
    (void)state;
    assert_int_equal(open_parts(GOOD_HEADER, "{\"a\":{\"b\":[1,2]}}"), AUTH_JWT_NONE);
    assert_int_equal(open_parts(GOOD_HEADER, "{\"sub\":\"a\",\"sub\":\"b\"}"), AUTH_JWT_CLAIMS);
    assert_int_equal(open_parts(GOOD_HEADER, "{\"x\":{\"a\":1,\"a\":2}}"), AUTH_JWT_CLAIMS);
    assert_int_equal(open_parts(GOOD_HEADER, "[1]"), AUTH_JWT_CLAIMS);
    assert_int_equal(open_parts(GOOD_HEADER, "{\"exp\":1e400}"), AUTH_JWT_CLAIMS);
    assert_int_equal(open_parts(GOOD_HEADER, "{\"exp\":99999999999999999999}"), AUTH_JWT_CLAIMS);
    snprintf(deep, sizeof deep, "{\"a\":%.40s%.40s}", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
             "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
    assert_int_equal(open_parts(GOOD_HEADER, deep), AUTH_JWT_CLAIMS);
}

static void test_forms(void **state)
{
    static const char *const forms[] = {"",
                                        ".",
                                        "..",
                                        "a",
                                        "a.b",
                                        "AAAA.AAAA",
                                        "...",
                                        "AAAA..AAAA",
                                        "AAAA.AAAA.",
                                        ".AAAA.AAAA",
                                        "AAAA.AAAA.AAAA.AAAA",
                                        "AAAA.AAAA.AAAA.AAAA.AAAA",
                                        "AAA=.AAAA.AAAA",
                                        "AA+A.AAAA.AAAA",
                                        "AA/A.AAAA.AAAA",
                                        "AAAA.AAAA.AAAA=",
                                        "AA A.AAAA.AAAA",
                                        "AAAA.AAAA.A",
                                        "AAAA.AAAA.AB",
                                        "AAAA.AAAA.AAAA\n",
                                        "AAAA.AAB.AAAA"};
    struct auth_jwt jwt;
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (auth_jwt_guard_open(slice_of(forms[i]), &jwt) != AUTH_JWT_FORM)
            fail_msg("%s", forms[i]);
        auth_jwt_guard_close(&jwt);
    }
    /* A NUL is a character like any other that does not belong. */
    assert_int_equal(auth_jwt_guard_open((struct slice){"AA\0A.AAAA.AAAA", 14}, &jwt),
                     AUTH_JWT_FORM);
    auth_jwt_guard_close(&jwt);
}

/* The limit, one more, and a megabyte: refused before anything is copied. */
static void test_lengths(void **state)
{
    struct auth_jwt jwt;
    size_t most = 1 << 20;
    char *long_one = malloc(most);
    (void)state;
    memset(long_one, 'A', most);
    assert_int_equal(auth_jwt_guard_open((struct slice){long_one, LIMIT_JWT_BYTES}, &jwt),
                     AUTH_JWT_FORM);
    assert_int_equal(auth_jwt_guard_open((struct slice){long_one, LIMIT_JWT_BYTES + 1}, &jwt),
                     AUTH_JWT_LENGTH);
    assert_int_equal(auth_jwt_guard_open((struct slice){long_one, most}, &jwt), AUTH_JWT_LENGTH);
    /* A signature longer than any key's. */
    memcpy(long_one, "AAAA.AAAA.", 10);
    assert_int_equal(auth_jwt_guard_open((struct slice){long_one, 10 + 684}, &jwt), AUTH_JWT_FORM);
    free(long_one);
    char kid[200] = {0};
    char header[300];
    memset(kid, 'k', LIMIT_JWT_KID_BYTES);
    snprintf(header, sizeof header, "{\"alg\":\"HS256\",\"kid\":\"%s\"}", kid);
    assert_int_equal(open_parts(header, "{}"), AUTH_JWT_NONE);
    kid[LIMIT_JWT_KID_BYTES] = 'k';
    snprintf(header, sizeof header, "{\"alg\":\"HS256\",\"kid\":\"%s\"}", kid);
    assert_int_equal(open_parts(header, "{}"), AUTH_JWT_KID);
}

/* What the rules say about claims at JWT_KIT_NOW = 1,790,000,000. */
static enum auth_jwt_reason judge(const char *claims)
{
    static const char audiences[2][LIMIT_NAME_BYTES] = {"banyan", "https://api.example/"};
    const struct auth_jwt_rules rules = {
        .audiences = audiences, .audience_count = 2, .lifetime_s = 3600};
    struct buffer token;
    struct auth_jwt jwt;
    int64_t expires_s = 0;
    buffer_init(&token, 1 << 16);
    jwt_kit_base64(&token, GOOD_HEADER, strlen(GOOD_HEADER));
    buffer_append_char(&token, '.');
    jwt_kit_base64(&token, claims, strlen(claims));
    buffer_append_text(&token, ".AAAA");
    assert_int_equal(auth_jwt_guard_open(buffer_slice(&token), &jwt), AUTH_JWT_NONE);
    enum auth_jwt_reason reason = auth_jwt_guard_claims(&jwt, &rules, JWT_KIT_NOW, &expires_s);
    if (reason == AUTH_JWT_NONE)
        assert_true(expires_s > JWT_KIT_NOW);
    auth_jwt_guard_close(&jwt);
    buffer_deinit(&token);
    return reason;
}

#define AUD ",\"aud\":\"banyan\"}"

static void test_times(void **state)
{
    static const struct {
        const char *claims;
        enum auth_jwt_reason reason;
    } cases[] = {
        {"{\"exp\":1790000001" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790000000" AUD, AUTH_JWT_EXPIRED},
        {"{\"exp\":1789999999" AUD, AUTH_JWT_EXPIRED},
        {"{\"exp\":0" AUD, AUTH_JWT_EXPIRED},
        {"{\"iat\":1" AUD, AUTH_JWT_EXP_MISSING},
        {"{\"exp\":null" AUD, AUTH_JWT_TIME},
        {"{\"exp\":\"1790000100\"" AUD, AUTH_JWT_TIME},
        {"{\"exp\":1790000100.5" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1.7900001e9" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790000001.0" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790000000.999" AUD, AUTH_JWT_EXPIRED}, /* cut to the second before */
        {"{\"exp\":0.5" AUD, AUTH_JWT_EXPIRED},
        {"{\"exp\":-0.0" AUD, AUTH_JWT_EXPIRED},
        {"{\"exp\":1e-400" AUD, AUTH_JWT_EXPIRED},
        {"{\"exp\":1e300" AUD, AUTH_JWT_TIME},
        {"{\"exp\":9007199254740993.5" AUD, AUTH_JWT_TIME},
        {"{\"exp\":9.007199254740994e15" AUD, AUTH_JWT_TIME},
        {"{\"exp\":-0.5" AUD, AUTH_JWT_TIME},
        {"{\"exp\":-1e300" AUD, AUTH_JWT_TIME},
        {"{\"exp\":1790003600.999" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790003601.0" AUD, AUTH_JWT_LIFETIME},
        {"{\"exp\":1790000100,\"nbf\":1790000059.5" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790000100,\"nbf\":1790000060.5" AUD, AUTH_JWT_NOT_YET},
        {"{\"exp\":1790000100,\"nbf\":-0.5" AUD, AUTH_JWT_TIME},
        {"{\"exp\":1790000100,\"iat\":1790000060.001" AUD, AUTH_JWT_ISSUED_LATER},
        {"{\"exp\":1790000010.123,\"iat\":1789996410.123" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790000010.123,\"iat\":1789996408.123" AUD, AUTH_JWT_LIFETIME},
        {"{\"exp\":-1" AUD, AUTH_JWT_TIME},
        {"{\"exp\":9007199254740993" AUD, AUTH_JWT_TIME},
        {"{\"exp\":9223372036854775807" AUD, AUTH_JWT_TIME},
        {"{\"exp\":9007199254740992" AUD, AUTH_JWT_LIFETIME},
        {"{\"exp\":1790003600" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790003601" AUD, AUTH_JWT_LIFETIME},
        {"{\"exp\":1790000010,\"iat\":1789996410" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790000010,\"iat\":1789996409" AUD, AUTH_JWT_LIFETIME},
        {"{\"exp\":1790000100,\"nbf\":1790000060" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790000100,\"nbf\":1790000061" AUD, AUTH_JWT_NOT_YET},
        {"{\"exp\":1790000100,\"nbf\":true" AUD, AUTH_JWT_TIME},
        {"{\"exp\":1790000100,\"iat\":1790000060" AUD, AUTH_JWT_NONE},
        {"{\"exp\":1790000100,\"iat\":1790000061" AUD, AUTH_JWT_ISSUED_LATER},
        {"{\"exp\":1790000100,\"iat\":1790000000.0" AUD, AUTH_JWT_NONE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (judge(cases[i].claims) != cases[i].reason)
            fail_msg("%s: %s", cases[i].claims, auth_jwt_guard_word(judge(cases[i].claims)));
    }
}

#define EXP "{\"exp\":1790000100,\"aud\":"

static void test_audiences(void **state)
{
    (void)state;
    assert_int_equal(judge(EXP "\"banyan\"}"), AUTH_JWT_NONE);
    assert_int_equal(judge(EXP "[\"other\",\"https://api.example/\"]}"), AUTH_JWT_NONE);
    assert_int_equal(judge(EXP "\"https://api.example\"}"), AUTH_JWT_AUDIENCE);
    assert_int_equal(judge(EXP "\"Banyan\"}"), AUTH_JWT_AUDIENCE);
    assert_int_equal(judge(EXP "\"\"}"), AUTH_JWT_AUDIENCE);
    assert_int_equal(judge(EXP "[]}"), AUTH_JWT_AUDIENCE);
    assert_int_equal(judge(EXP "[\"banyan\",7]}"), AUTH_JWT_AUDIENCE);
    assert_int_equal(judge(EXP "{\"banyan\":1}}"), AUTH_JWT_AUDIENCE);
    assert_int_equal(judge(EXP "null}"), AUTH_JWT_AUDIENCE);
    assert_int_equal(judge("{\"exp\":1790000100}"), AUTH_JWT_AUDIENCE);
}

static void take(void *context, struct slice word)
{
    struct buffer *out = context;
    buffer_append_slice(out, word);
    buffer_append_char(out, ';');
}

static void test_words(void **state)
{
    struct buffer token, words;
    struct auth_jwt jwt;
    const char *claims = "{\"a\":\" one  two \",\"b\":[\"one\",\"two three\"],\"c\":[\"one\",2],"
                         "\"d\":7,\"e\":\"\",\"t\":\"tnt_1\",\"n\":[\"tnt_1\"]}";
    (void)state;
    buffer_init(&token, 4096);
    buffer_init(&words, 4096);
    jwt_kit_base64(&token, GOOD_HEADER, strlen(GOOD_HEADER));
    buffer_append_char(&token, '.');
    jwt_kit_base64(&token, claims, strlen(claims));
    buffer_append_text(&token, ".AAAA");
    assert_int_equal(auth_jwt_guard_open(buffer_slice(&token), &jwt), AUTH_JWT_NONE);
    assert_true(auth_jwt_guard_words(&jwt, "a", &words, take));
    assert_true(auth_jwt_guard_words(&jwt, "b", &words, take));
    assert_true(auth_jwt_guard_words(&jwt, "e", &words, take));
    assert_true(auth_jwt_guard_words(&jwt, "nothing", &words, take));
    assert_true(slice_is(buffer_slice(&words), "one;two;one;two three;"));
    assert_false(auth_jwt_guard_words(&jwt, "c", &words, take));
    assert_false(auth_jwt_guard_words(&jwt, "d", &words, take));
    assert_true(slice_is(auth_jwt_guard_claim(&jwt, "t"), "tnt_1"));
    assert_null(auth_jwt_guard_claim(&jwt, "n").bytes);
    assert_null(auth_jwt_guard_claim(&jwt, "d").bytes);
    auth_jwt_guard_close(&jwt);
    buffer_deinit(&token);
    buffer_deinit(&words);
}

/* Words and sentences: all there, no two alike. */
static void test_reasons(void **state)
{
    (void)state;
    for (int i = 0; i < AUTH_JWT_REASONS; i++) {
        assert_true(strlen(auth_jwt_guard_text((enum auth_jwt_reason)i)) > 10);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(auth_jwt_guard_word((enum auth_jwt_reason)i),
                                    auth_jwt_guard_word((enum auth_jwt_reason)j));
            assert_string_not_equal(auth_jwt_guard_text((enum auth_jwt_reason)i),
                                    auth_jwt_guard_text((enum auth_jwt_reason)j));
        }
    }
}

/* Names of algorithms, and the decoder by itself. */
static void test_small_things(void **state)
{
    enum auth_jwt_algorithm algorithm;
    uint8_t bytes[8];
    size_t length;
    (void)state;
    for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++) {
        assert_true(auth_jwt_guard_find_algorithm(
            slice_of(auth_jwt_guard_algorithm((enum auth_jwt_algorithm)i)), &algorithm));
        assert_int_equal(algorithm, i);
    }
    assert_true(auth_jwt_guard_decode(SLICE("-_8"), bytes, 2, &length));
    assert_int_equal(length, 2);
    assert_int_equal(bytes[0], 0xfb);
    assert_int_equal(bytes[1], 0xff);
    assert_false(auth_jwt_guard_decode(SLICE("-_8"), bytes, 1, &length));
    assert_true(auth_jwt_guard_decode(SLICE(""), bytes, 0, &length));
    assert_int_equal(length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),      cmocka_unit_test(test_claims_form),
        cmocka_unit_test(test_forms),        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_times),        cmocka_unit_test(test_audiences),
        cmocka_unit_test(test_words),        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_small_things),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
