#include "gateway/dialect/ask_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/limits.h"

static enum status parse(const char *text)
{
    json_t *root = NULL;
    enum status status = ask_json_parse(slice_of(text), &root);
    json_decref(root);
    return status;
}

static void test_bodies(void **state)
{
    (void)state;
    assert_int_equal(parse("{}"), STATUS_OK);
    assert_int_equal(parse(" {\"a\": [1, \"]]]]\\\"[[\"]} "), STATUS_OK);
    assert_int_equal(parse("{\"a\":\"b\\u0000c\"}"), STATUS_OK);
    const char *const wrong[] = {"",
                                 "{",
                                 "[]",
                                 "null",
                                 "\"x\"",
                                 "{} {}",
                                 "{\"a\":1,\"a\":2}",
                                 "{\"a\":1e999}",
                                 "{\"\\u0000\":1}",
                                 "{\"a\":\"\xff\"}",
                                 "{a:1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(parse(wrong[i]), STATUS_INVALID);
    assert_int_equal(ask_json_parse((struct slice){NULL, 0}, &(json_t *){NULL}), STATUS_INVALID);
}

static void test_depth_at_the_limit_and_over(void **state)
{
    (void)state;
    for (int over = 0; over <= 1; over++) {
        char text[4 * LIMIT_JSON_DEPTH + 16] = "{\"a\":";
        int arrays = LIMIT_JSON_DEPTH - 1 + over;
        size_t at = strlen(text);
        memset(text + at, '[', (size_t)arrays);
        memset(text + at + arrays, ']', (size_t)arrays);
        text[at + 2 * (size_t)arrays] = '}';
        text[at + 2 * (size_t)arrays + 1] = '\0';
        assert_int_equal(parse(text), over == 0 ? STATUS_OK : STATUS_INVALID);
    }
}

static void test_values_at_the_limit_and_over(void **state)
{
    (void)state;
    for (size_t over = 0; over <= 1; over++) {
        struct buffer text;
        buffer_init(&text, 4 * LIMIT_JSON_ELEMENTS);
        /* Two brackets, and a comma less than there are numbers. */
        buffer_append_text(&text, "{\"a\":[0");
        for (size_t i = 2; i < LIMIT_JSON_ELEMENTS + over; i++)
            buffer_append_text(&text, ",0");
        buffer_append_text(&text, "]}");
        assert_int_equal(parse(text.bytes), over == 0 ? STATUS_OK : STATUS_INVALID);
        buffer_deinit(&text);
    }
    assert_non_null(strstr(status_note()->message, "values"));
}

static void test_members(void **state)
{
    (void)state;
    static const char *const known[] = {"a", "b", NULL};
    json_t *good = json_pack("{s:i,s:n}", "a", 1, "z");
    json_t *bad = json_pack("{s:i,s:i}", "b", 1, "z", 2);
    assert_int_equal(ask_json_members(good, "x[0]", known), STATUS_OK);
    assert_int_equal(ask_json_members(bad, "x[0]", known), STATUS_UNSUPPORTED);
    assert_string_equal(status_note()->param, "x[0].z");
    json_decref(good);
    json_decref(bad);
    json_t *array = json_array();
    assert_int_equal(ask_json_members(array, "x[0]", known), STATUS_INVALID);
    json_decref(array);
}

static void test_an_error_never_quotes_the_body(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"a\": canary-prompt }"), STATUS_INVALID);
    assert_null(strstr(status_note()->message, "canary"));
    assert_non_null(strstr(status_note()->message, "line 1"));
}

static void test_integers(void **state)
{
    (void)state;
    int64_t out = 0;
    json_t *five = json_integer(5);
    json_t *real = json_real(5.5);
    assert_int_equal(ask_json_integer(five, "n", 5, 5, &out), STATUS_OK);
    assert_int_equal(out, 5);
    assert_int_equal(ask_json_integer(five, "n", 6, 9, &out), STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "n");
    assert_int_equal(ask_json_integer(five, "n", 0, 4, &out), STATUS_OUT_OF_RANGE);
    assert_int_equal(ask_json_integer(real, "n", 0, 9, &out), STATUS_INVALID);
    assert_string_equal(status_note()->message, "Invalid type for 'n': expected an integer, but "
                                                "got a decimal number instead.");
    json_decref(five);
    json_decref(real);
}

static void test_numbers(void **state)
{
    (void)state;
    double out = 0;
    json_t *zero = json_integer(0);
    json_t *two = json_real(2.0);
    json_t *text = json_string("2");
    assert_int_equal(ask_json_number(zero, "x", 0, 2, false, &out), STATUS_OK);
    assert_int_equal(ask_json_number(zero, "x", 0, 2, true, &out), STATUS_OUT_OF_RANGE);
    assert_int_equal(ask_json_number(two, "x", 0, 2, true, &out), STATUS_OK);
    assert_int_equal(ask_json_number(two, "x", 0, 1.99, false, &out), STATUS_OUT_OF_RANGE);
    assert_int_equal(ask_json_number(text, "x", 0, 2, false, &out), STATUS_INVALID);
    json_decref(zero);
    json_decref(two);
    json_decref(text);
}

static void test_other_kinds(void **state)
{
    (void)state;
    bool flag = false;
    struct slice slice;
    size_t count;
    json_t *values = json_pack("[b, s, [], {}, n]", 1, "text");
    const json_t *truth = json_array_get(values, 0);
    const json_t *text = json_array_get(values, 1);
    assert_int_equal(ask_json_bool(truth, "b", &flag), STATUS_OK);
    assert_true(flag);
    assert_int_equal(ask_json_bool(text, "b", &flag), STATUS_INVALID);
    assert_int_equal(ask_json_string(text, "s", &slice), STATUS_OK);
    assert_true(slice_is(slice, "text"));
    assert_int_equal(ask_json_string(truth, "s", &slice), STATUS_INVALID);
    assert_int_equal(ask_json_array(values, "a", 5, &count), STATUS_OK);
    assert_int_equal(count, 5);
    assert_int_equal(ask_json_array(values, "a", 4, &count), STATUS_OUT_OF_RANGE);
    assert_int_equal(ask_json_array(text, "a", 4, &count), STATUS_INVALID);
    assert_int_equal(ask_json_object(json_array_get(values, 3), "o"), STATUS_OK);
    assert_int_equal(ask_json_object(json_array_get(values, 4), "o"), STATUS_INVALID);
    assert_non_null(strstr(status_note()->message, "got null"));
    json_decref(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_depth_at_the_limit_and_over),
        cmocka_unit_test(test_values_at_the_limit_and_over),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_an_error_never_quotes_the_body),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_other_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
