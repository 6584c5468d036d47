/* cli_value: numbers, times, scopes and pairs as people type them, at and over their bounds. */
#include "gateway/cli/cli_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum status status;
        int64_t number;
    } rows[] = {
        {"1", STATUS_OK, 1},
        {"10", STATUS_OK, 10},
        {"0", STATUS_OUT_OF_RANGE, 0},
        {"11", STATUS_OUT_OF_RANGE, 0},
        {"-1", STATUS_OUT_OF_RANGE, 0},
        {"99999999999999999999", STATUS_OUT_OF_RANGE, 0},
        {"", STATUS_INVALID, 0},
        {" 1", STATUS_INVALID, 0},
        {"+1", STATUS_INVALID, 0},
        {"1x", STATUS_INVALID, 0},
        {"-", STATUS_INVALID, 0},
        {"1.0", STATUS_INVALID, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t number = 0;
        if (cli_value_number("--n", rows[i].text, 1, 10, &number) != rows[i].status)
            fail_msg("'%s'", rows[i].text);
        if (rows[i].status == STATUS_OK)
            assert_int_equal(number, rows[i].number);
        else
            assert_non_null(strstr(status_note()->message, "--n"));
    }
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum status status;
        int64_t seconds;
    } rows[] = {
        {"0s", STATUS_OK, 0},
        {"90s", STATUS_OK, 90},
        {"30m", STATUS_OK, 1800},
        {"12h", STATUS_OK, 43200},
        {"7d", STATUS_OK, 604800},
        {"36600d", STATUS_OK, INT64_C(36600) * 86400},
        {"", STATUS_INVALID, 0},
        {"7", STATUS_INVALID, 0},
        {"d", STATUS_INVALID, 0},
        {"7w", STATUS_INVALID, 0},
        {"7dd", STATUS_INVALID, 0},
        {"-7d", STATUS_INVALID, 0},
        {"1.5h", STATUS_INVALID, 0},
        {"36601d", STATUS_OUT_OF_RANGE, 0},
        {"9999999999999999s", STATUS_OUT_OF_RANGE, 0},
        {"999999999999999d", STATUS_OUT_OF_RANGE, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t seconds = -1;
        if (cli_value_duration("--t", rows[i].text, &seconds) != rows[i].status)
            fail_msg("'%s'", rows[i].text);
        if (rows[i].status == STATUS_OK)
            assert_int_equal(seconds, rows[i].seconds);
    }
}

static void test_expiry(void **state)
{
    (void)state;
    const int64_t now_s = 1800000000;
    json_t *value = NULL;
    assert_int_equal(cli_value_expiry("--e", "never", now_s, &value), STATUS_OK);
    assert_true(json_is_null(value));
    assert_int_equal(cli_value_expiry("--e", "1d", now_s, &value), STATUS_OK);
    assert_int_equal(json_integer_value(value), now_s + 86400);
    json_decref(value);
    assert_int_equal(cli_value_expiry("--e", "1900000000", now_s, &value), STATUS_OK);
    assert_int_equal(json_integer_value(value), 1900000000);
    json_decref(value);
    /* A plain small number is a time whose unit was forgotten. */
    assert_int_equal(cli_value_expiry("--e", "90", now_s, &value), STATUS_OUT_OF_RANGE);
    assert_int_equal(cli_value_expiry("--e", "", now_s, &value), STATUS_INVALID);
    assert_int_equal(cli_value_expiry("--e", "soon", now_s, &value), STATUS_INVALID);
}

static void test_words(void **state)
{
    (void)state;
    json_t *words = NULL;
    assert_int_equal(cli_value_words("--w", "admin:read,usage:read", &words), STATUS_OK);
    assert_int_equal(json_array_size(words), 2);
    assert_string_equal(json_string_value(json_array_get(words, 1)), "usage:read");
    json_decref(words);
    static const char *const wrong[] = {"", ",", "a,", ",a", "a,,b", "a,\xff"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(cli_value_words("--w", wrong[i], &words), STATUS_INVALID);
}

static void test_pairs(void **state)
{
    (void)state;
    json_t *pairs = NULL;
    static const char *const good[] = {"a=1", "b=x=y", "c="};
    assert_int_equal(cli_value_pairs("--meta", good, 3, &pairs), STATUS_OK);
    assert_string_equal(json_string_value(json_object_get(pairs, "b")), "x=y");
    assert_string_equal(json_string_value(json_object_get(pairs, "c")), "");
    json_decref(pairs);
    char longest[300];
    memset(longest, 'k', sizeof longest);
    longest[255] = '=';
    longest[256] = '\0';
    const char *one = longest;
    assert_int_equal(cli_value_pairs("--meta", &one, 1, &pairs), STATUS_OK);
    json_decref(pairs);
    longest[255] = 'k';
    longest[256] = '=';
    longest[257] = '\0';
    assert_int_equal(cli_value_pairs("--meta", &one, 1, &pairs), STATUS_OUT_OF_RANGE);
    static const char *const twice[] = {"a=1", "a=2"};
    assert_int_equal(cli_value_pairs("--meta", twice, 2, &pairs), STATUS_INVALID);
    static const char *const wrong[] = {"a", "=1", "", "a=\xff", "\xff=a"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(cli_value_pairs("--meta", &wrong[i], 1, &pairs), STATUS_INVALID);
}

static void time_is(json_t *value, const char *wanted)
{
    char text[CLI_VALUE_TIME_BYTES];
    cli_value_time_text(value, "never", text);
    assert_string_equal(text, wanted);
    json_decref(value);
}

static void test_time_text(void **state)
{
    (void)state;
    time_is(json_integer(0), "1970-01-01 00:00:00Z");
    time_is(json_integer(1795248417), "2026-11-21 08:06:57Z");
    time_is(json_integer(INT64_C(253402300799)), "9999-12-31 23:59:59Z");
    time_is(json_integer(INT64_C(253402300800)), "never");
    time_is(json_integer(-1), "never");
    time_is(json_integer(INT64_MAX), "never");
    time_is(json_null(), "never");
    time_is(json_string("1"), "never");
    time_is(NULL, "never");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_durations),
        cmocka_unit_test(test_expiry),  cmocka_unit_test(test_words),
        cmocka_unit_test(test_pairs),   cmocka_unit_test(test_time_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
