#include "config/base/json_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/limits.h"

#define VALUE(literal) ((struct json_value){(literal), sizeof(literal) - 1})

static void accept(const char *text)
{
    if (json_scan(slice_of(text), NULL, 0) != STATUS_OK)
        fail_msg("%s: %s", text, status_note()->message);
}

static void refuse(const char *text, const char *message)
{
    if (json_scan(slice_of(text), NULL, 0) != STATUS_INVALID)
        fail_msg("%s: accepted", text);
    if (strstr(status_note()->message, message) == NULL)
        fail_msg("%s: %s", text, status_note()->message);
}

static void test_grammar(void **state)
{
    (void)state;
    accept("{}");
    accept(" \t\r\n{ \"a\" : [ ] , \"b\" : { } , \"\" : \"\" } \n");
    accept("{\"a\":[[],{},[1,-0,0.5,1e2,1E-2,1.25e+2],true,false,null,\"x\"]}");
    static const char *const broken[] = {
        "{",
        "}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":[1,]}",
        "{\"a\":[,]}",
        "{\"a\":[1}]",
        "{\"a\":[1 2]}",
        "{\"a\":+1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":1e}",
        "{\"a\":1e+}",
        "{\"a\":-}",
        "{\"a\":tru}",
        "{\"a\":truex}",
        "{\"a\":NaN}",
        "{\"a\":\"x}",
        "{\"a\":\"\\x\"}",
        "{\f}",
        "{'a':1}",
        "{\"a\":1]",
        "  ",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\\",
        "{1:2}",
        "{\"a\":0x1}",
        "{\"a\":\"\\u12g4\"}",
        "\xef\xbb\xbf{}",
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        refuse(broken[i], "not valid JSON");
    refuse("", "empty");
    refuse("[1]", "object");
    refuse("17", "object");
    refuse("\"x\"", "object");
    refuse("{} x", "after its end");
    assert_int_equal(json_scan((struct slice){"{\"a\":\0}", 7}, NULL, 0), STATUS_INVALID);
}

static void test_numbers(void **state)
{
    (void)state;
    accept("{\"a\":[9223372036854775807,-9223372036854775808,0e99999999999999999999]}");
    accept("{\"a\":[9.99e307,-9.99e307,1e-99999999999,0.00001e312,1000e304,0.0e5]}");
    refuse("{\"a\":9223372036854775808}", "too large");
    refuse("{\"a\":-9223372036854775809}", "too large");
    refuse("{\"a\":99999999999999999999999}", "too large");
    refuse("{\"a\":1e308}", "too large");
    refuse("{\"a\":-0.001e311}", "too large");
    refuse("{\"a\":10000e304}", "too large");
    refuse("{\"a\":1e99999999999999999999}", "too large");
}

static void test_strings(void **state)
{
    (void)state;
    accept("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\"}");
    accept("{\"a\":\"\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\x7f\"}");
    accept("{\"a\":\"a\\u0000b\",\"b\":[\"\\u0000\",{\"c\":\"\\u0000\"}]}");
    refuse("{\"a\\u0000\":1}", "name has a NUL");
    refuse("{\"a\":\"\\u0000\",\"b\":[{\"\\u0000\":1}]}", "name has a NUL");
    accept("{\"a\":\"\\uffff\\ufdd0\xef\xbf\xbf\xf4\x8f\xbf\xbf\"}"); /* noncharacters */
    refuse("{\"a\":\"\\ud800\"}", "surrogate");
    refuse("{\"a\":\"\\ud800x\"}", "surrogate");
    refuse("{\"a\":\"\\ud800\\u0041\"}", "surrogate");
    refuse("{\"a\":\"\\ud800\\ud800\"}", "surrogate");
    refuse("{\"a\":\"\\udc00\"}", "surrogate");
    refuse("{\"a\":\"\\udc00\\ud800\"}", "surrogate");
    refuse("{\"a\":\"\\ud800\\u00g1\"}", "not valid JSON");
    refuse("{\"a\":\"\\u00\"}", "not valid JSON");
    refuse("{\"a\":\"\xc0\xaf\"}", "UTF-8");
    refuse("{\"a\":\"\xed\xa0\x80\"}", "UTF-8");
    refuse("{\"a\":\"\xf4\x90\x80\x80\"}", "UTF-8");
    refuse("{\"a\":\"\xe2\x82\"}", "UTF-8");
    refuse("\xff{}", "UTF-8");
}

/* Whatever stands before it, each byte that is not plain is seen. */
static void test_every_byte_at_every_place_of_a_word(void **state)
{
    (void)state;
    for (int c = 1; c < 256; c++) {
        for (size_t at = 0; at < 20; at++) {
            char text[40] = "{\"a\":\"aaaaaaaaaaaaaaaaaaaa\"}";
            text[6 + at] = (char)c;
            bool is_plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
            enum status status = json_scan(slice_of(text), NULL, 0);
            if (c == '\\' && at == 19)
                assert_int_equal(status, STATUS_INVALID); /* escapes the quote */
            else
                assert_int_equal(status, is_plain ? STATUS_OK : STATUS_INVALID);
        }
    }
}

static void assert_span(const struct json_scan_field *field, const char *expected)
{
    if (expected == NULL)
        assert_null(field->value.bytes);
    else if (!slice_is(json_scan_text(field->value), expected))
        fail_msg("%s: %.*s, not %s", field->name, (int)field->value.length, field->value.bytes,
                 expected);
}

static void test_spans(void **state)
{
    (void)state;
    struct json_scan_field fields[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
    const char *text = "{ \"x\":{\"a\":1}, \"a\" : [ {\"b\":2} , 3 ] ,\"b\": -1.5e3 ,"
                       "\"\\u0063\":\"q\\\"q\"}";
    assert_int_equal(json_scan(slice_of(text), fields, 4), STATUS_OK);
    assert_span(&fields[0], "[ {\"b\":2} , 3 ]");
    assert_span(&fields[1], "-1.5e3");
    assert_span(&fields[2], "\"q\\\"q\"");
    assert_span(&fields[3], NULL);
    assert_int_equal(json_scan(SLICE("{\"d\":null}"), fields, 4), STATUS_OK);
    assert_span(&fields[0], NULL);
    assert_span(&fields[3], "null");
}

static void test_a_key_twice(void **state)
{
    (void)state;
    refuse("{\"a\":1,\"b\":2,\"a\":3}", "twice");
    refuse("{\"a\":1,\"\\u0061\":3}", "twice");
    refuse("{\"\xc3\xa9\":1,\"\\u00e9\":3}", "twice");
    refuse("{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\ude00\":3}", "twice");
    refuse("{\"\":1,\"\":3}", "twice");
    accept("{\"a\":1,\"aa\":2,\"A\":3,\"\":4}");
    /* 32-bit FNV-1a gives these two the same hash. */
    accept("{\"costarring\":1,\"liquid\":2}");
    accept("{\"x\":{\"a\":1,\"a\":2}}"); /* deeper ones are the engine's to refuse */
}

static void repeat(struct buffer *out, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buffer_append_text(out, text);
}

static void test_depth_and_elements_at_the_limit(void **state)
{
    (void)state;
    for (size_t extra = 0; extra < 2; extra++) {
        enum status expected = extra == 0 ? STATUS_OK : STATUS_INVALID;
        struct buffer text;
        buffer_init(&text, LIMIT_BODY_BYTES);
        repeat(&text, "{\"a\":", LIMIT_JSON_DEPTH + extra);
        buffer_append_text(&text, "1");
        repeat(&text, "}", LIMIT_JSON_DEPTH + extra);
        assert_int_equal(json_scan(buffer_slice(&text), NULL, 0), expected);
        buffer_clear(&text);
        /* One for the object, one for the array, one for each comma. */
        buffer_append_text(&text, "{\"a\":[1");
        repeat(&text, ",1", LIMIT_JSON_ELEMENTS - 2 + extra);
        buffer_append_text(&text, "]}");
        assert_int_equal(json_scan(buffer_slice(&text), NULL, 0), expected);
        buffer_clear(&text);
        buffer_append_text(&text, "{\"n0\":0");
        for (size_t i = 1; i < LIMIT_JSON_MEMBERS + extra; i++)
            buffer_printf(&text, ",\"n%zu\":0", i);
        buffer_append_text(&text, "}");
        assert_int_equal(json_scan(buffer_slice(&text), NULL, 0), expected);
        buffer_clear(&text);
        buffer_append_text(&text, "{\"");
        repeat(&text, "n", LIMIT_NAME_BYTES + extra);
        buffer_append_text(&text, "\":0}");
        assert_int_equal(json_scan(buffer_slice(&text), NULL, 0), expected);
        buffer_deinit(&text);
    }
}

static void test_places_are_told_and_texts_are_not(void **state)
{
    (void)state;
    refuse("{\n\n\"a\":\n  secretsecret}", "line 4, byte 3");
    assert_null(strstr(status_note()->message, "secret"));
    refuse("{\"secret\":1,\"secret\":1}", "twice");
    assert_null(strstr(status_note()->message, "secret"));
}

static void test_values(void **state)
{
    (void)state;
    bool flag = false;
    assert_true(json_scan_bool(VALUE("true"), &flag));
    assert_true(flag);
    assert_true(json_scan_bool(VALUE("false"), &flag));
    assert_false(flag);
    assert_false(json_scan_bool(VALUE("\"true\""), &flag));
    assert_false(json_scan_bool((struct json_value){NULL, 0}, &flag));
    assert_true(json_scan_is_null(VALUE("null")));
    assert_false(json_scan_is_null((struct json_value){NULL, 0}));
    assert_true(json_scan_is_string(VALUE("\"\"")));
    assert_true(json_scan_is_object(VALUE("{}")));
    assert_false(json_scan_is_object(VALUE("[]")));
}

static void test_unescape(void **state)
{
    (void)state;
    char text[8];
    assert_int_equal(json_scan_unescape(VALUE("\"\""), text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(json_scan_unescape(VALUE("\"a\\n\\u00e9\""), text, sizeof text), 4);
    assert_string_equal(text, "a\n\xc3\xa9");
    assert_int_equal(json_scan_unescape(VALUE("\"1234567\""), text, sizeof text), 7);
    assert_int_equal(json_scan_unescape(VALUE("\"12345678\""), text, sizeof text), 7);
    assert_string_equal(text, "1234567");
    assert_int_equal(json_scan_unescape(VALUE("\"123456\xc3\xa9\""), text, sizeof text), 6);
    assert_string_equal(text, "123456");
    assert_int_equal(json_scan_unescape(VALUE("\"123456\\u00e9z\""), text, sizeof text), 6);
    assert_int_equal(json_scan_unescape(VALUE("\"1234\\ud83d\\ude00\""), text, sizeof text), 4);
}

/* What a string says is compared, not how it is written. */
static void test_strings_are_told_by_what_they_say(void **state)
{
    (void)state;
    assert_true(json_scan_is(VALUE("\"a\""), "a"));
    assert_true(json_scan_is(VALUE("\"\""), ""));
    assert_true(json_scan_is(VALUE("\"say \\\"hi\\\"\""), "say \"hi\""));
    assert_true(json_scan_is(VALUE("\"\\u0073ay \\u0022hi\\u0022\""), "say \"hi\""));
    assert_true(json_scan_is(VALUE("\"\\u00e9\\ud83d\\ude00\""), "\xc3\xa9\xf0\x9f\x98\x80"));
    assert_true(json_scan_is(VALUE("\"\\\\\""), "\\"));
    assert_false(json_scan_is(VALUE("\"say \\\"hi\\\"\""), "say \\\"hi\\\""));
    assert_false(json_scan_is(VALUE("\"ab\""), "a"));
    assert_false(json_scan_is(VALUE("\"\\u0061b\""), "a"));
    assert_false(json_scan_is(VALUE("\"\\u0061\""), "ab"));
    assert_false(json_scan_is(VALUE("\"\\ud83d\""), "a")); /* not valid, and not read */
    assert_false(json_scan_is(VALUE("\"\\u00\""), "a"));
    assert_false(json_scan_is(VALUE("null"), "null"));
    assert_false(json_scan_is((struct json_value){NULL, 0}, ""));
}

static void test_a_nul_in_a_string(void **state)
{
    (void)state;
    char text[8];
    assert_int_equal(json_scan_unescape(VALUE("\"a\\u0000b\""), text, sizeof text), 3);
    assert_memory_equal(text, "a\0b", 4);
    assert_true(json_scan_has_nul(VALUE("\"a\\u0000b\"")));
    assert_true(json_scan_has_nul(VALUE("\"\\\\\\u0000\"")));
    assert_false(json_scan_has_nul(VALUE("\"\\\\u0000\""))); /* a backslash and u0000 */
    assert_false(json_scan_has_nul(VALUE("\"\"")));
}

static void test_more_elements(void **state)
{
    (void)state;
    struct buffer text;
    for (size_t extra = 0; extra < 2; extra++) {
        buffer_init(&text, 1024);
        buffer_append_text(&text, "{\"a\":[1");
        repeat(&text, ",1", 98 + extra);
        buffer_append_text(&text, "]}");
        assert_int_equal(json_scan_most(buffer_slice(&text), NULL, 0, 100),
                         extra == 0 ? STATUS_OK : STATUS_INVALID);
        buffer_deinit(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_every_byte_at_every_place_of_a_word),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_a_key_twice),
        cmocka_unit_test(test_depth_and_elements_at_the_limit),
        cmocka_unit_test(test_a_nul_in_a_string),
        cmocka_unit_test(test_more_elements),
        cmocka_unit_test(test_places_are_told_and_texts_are_not),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_unescape),
        cmocka_unit_test(test_strings_are_told_by_what_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
