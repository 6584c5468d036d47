/* schema_decimal: numbers that fit, that are cut and that are too large; their shortest text. */
#include "engine/schema/schema_decimal.h"

#include "tests/unit/base_kit.h"

static void numbers_are_read_and_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum schema_decimal_fit fit;
        const char *written; /* NULL: it is too large */
    } cases[] = {
        {"0", SCHEMA_DECIMAL_EXACT, "0"},
        {"-0.0", SCHEMA_DECIMAL_EXACT, "0"},
        {"12.50", SCHEMA_DECIMAL_EXACT, "12.5"},
        {"-0.25e1", SCHEMA_DECIMAL_EXACT, "-2.5"},
        {"1e3", SCHEMA_DECIMAL_EXACT, "1000"},
        {"125e-5", SCHEMA_DECIMAL_EXACT, "0.00125"},
        {"999999999999999999", SCHEMA_DECIMAL_EXACT, "999999999999999999"},
        {"1e-17", SCHEMA_DECIMAL_EXACT, "0.00000000000000001"},
        {"1e-18", SCHEMA_DECIMAL_CUT, "0"},
        {"0.123456789012345678", SCHEMA_DECIMAL_CUT, "0.12345678901234567"},
        {"1e18", SCHEMA_DECIMAL_TOO_LARGE, NULL},
        {"-1e999999999999", SCHEMA_DECIMAL_TOO_LARGE, NULL},
        {"0e999999999999", SCHEMA_DECIMAL_EXACT, "0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        schema_decimal value;
        char text[SCHEMA_DECIMAL_BYTES];
        assert_int_equal(schema_decimal_read(slice_of(cases[i].text), &value), cases[i].fit);
        if (cases[i].written == NULL)
            continue;
        struct slice written = {text, schema_decimal_write(value, text)};
        if (!slice_is(written, cases[i].written))
            fail_msg("%s: %.*s", cases[i].text, (int)written.length, written.bytes);
    }
}

static void integers_around_a_number(void **state)
{
    (void)state;
    const schema_decimal half = SCHEMA_DECIMAL_ONE / 2;
    assert_true(schema_decimal_is_integer(3 * SCHEMA_DECIMAL_ONE));
    assert_false(schema_decimal_is_integer(half));
    assert_int_equal((int)schema_decimal_floor(half), 0);
    assert_int_equal((int)schema_decimal_floor(-half), -1);
    assert_int_equal((int)schema_decimal_ceiling(half), 1);
    assert_int_equal((int)schema_decimal_ceiling(-half), 0);
    assert_int_equal((int)schema_decimal_ceiling(-2 * SCHEMA_DECIMAL_ONE), -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_and_written),
        cmocka_unit_test(integers_around_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
