/* schema_string: lengths in code points, patterns, formats, and their contraries. */
#include "tests/unit/schema_kit.h"

static void lengths_are_code_points(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
         {"\"ab\"", "\"éß\"", "\"a\\n€\"", "\"\\\"\\\\\""},
         {"\"\"", "\"a\"", "\"abcd\"", "\"ab", "ab", "1"}},
        {"{\"type\":\"string\",\"not\":{\"minLength\":2}}", {"\"\"", "\"x\""}, {"\"xy\""}},
        {"{\"type\":\"string\",\"not\":{\"maxLength\":1}}", {"\"xy\""}, {"\"\"", "\"x\""}},
    };
    KIT_TRY(cases);
}

static void patterns_are_searched(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"string\",\"pattern\":\"^a+$\"}",
         {"\"a\"", "\"aaa\""},
         {"\"\"", "\"ab\"", "\"A\""}},
        {"{\"type\":\"string\",\"pattern\":\"b\"}", {"\"b\"", "\"abc\""}, {"\"ac\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[^a]$\"}",
         {"\"\\\"\"", "\"\\n\"", "\"é\""},
         {"\"a\"", "\"\"\""}},
        {"{\"type\":\"string\",\"not\":{\"pattern\":\"//\"}}", {"\"a/b\"", "\"\""}, {"\"a//b\""}},
        {"{\"pattern\":\"^x\"}", {"\"x\"", "1", "null", "[]"}, {"\"y\""}},
    };
    KIT_TRY(cases);
}

static void formats_are_exact(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"string\",\"format\":\"date\"}",
         {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\""},
         {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\""}},
        {"{\"type\":\"string\",\"format\":\"date-time\"}",
         {"\"2024-02-29T23:59:59Z\"", "\"2024-01-01T00:00:00.5+02:00\""},
         {"\"2024-01-01T23:59:60Z\"", "\"2024-01-01\""}},
        {"{\"type\":\"string\",\"format\":\"uuid\"}",
         {"\"123e4567-e89b-12d3-a456-426614174000\""},
         {"\"123e4567\""}},
        {"{\"type\":\"string\",\"format\":\"ipv4\"}",
         {"\"127.0.0.1\"", "\"255.255.255.255\""},
         {"\"256.0.0.1\"", "\"01.2.3.4\""}},
        {"{\"type\":\"string\",\"format\":\"ipv6\"}",
         {"\"::1\"", "\"fe80::1:2\"", "\"1:2:3:4:5:6:7:8\""},
         {"\"1::2::3\"", "\":1\""}},
        {"{\"type\":\"string\",\"format\":\"email\"}",
         {"\"a.b@c.de\""},
         {"\"a\"", "\"a@\"", "\"@b\""}},
        {"{\"type\":\"string\",\"format\":\"hostname\"}",
         {"\"a-b.example\""},
         {"\"-a\"", "\"a_b\"", "\"\""}},
        {"{\"type\":\"string\",\"format\":\"uri\"}",
         {"\"https://a.b/c?d#e\"", "\"urn:x:y\""},
         {"\"/a\"", "\"a b:c\""}},
        {"{\"type\":\"string\",\"format\":\"duration\"}",
         {"\"P1Y2M\"", "\"PT5S\"", "\"P2W\""},
         {"\"P\"", "\"PT\"", "\"P1Y2D3\""}},
        {"{\"type\":\"string\",\"format\":\"time\"}",
         {"\"01:02:03Z\""},
         {"\"24:00:00Z\"", "\"01:02:03\""}},
        {"{\"type\":\"integer\",\"format\":\"int32\"}",
         {"2147483647", "-2147483648"},
         {"2147483648", "1.5"}},
        {"{\"type\":\"string\",\"format\":\"no such format\"}", {"\"x\""}, {"1"}},
    };
    KIT_TRY(cases);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"properties\":{\"x\":{\"pattern\":\"(\"}}}", STATUS_INVALID, ".properties.x.pattern",
         "pattern"},
        {"{\"minLength\":-1}", STATUS_INVALID, ".minLength", "minLength"},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", STATUS_INVALID, "", ""},
        {"{\"type\":\"string\",\"pattern\":\"^a$\",\"format\":\"date\"}", STATUS_INVALID, "", ""},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_code_points),
        cmocka_unit_test(patterns_are_searched),
        cmocka_unit_test(formats_are_exact),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
