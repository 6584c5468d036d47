/* decimal: numbers, their bounds, and texts that are none. */
#include "config/base/decimal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t most;
        enum decimal result;
        uint64_t number;
    } rows[] = {
        {"0", 0, DECIMAL_READ, 0},
        {"7", 7, DECIMAL_READ, 7},
        {"007", 7, DECIMAL_READ, 7},
        {"000000000000000000000000000001", 1, DECIMAL_READ, 1},
        {"18446744073709551615", UINT64_MAX, DECIMAL_READ, UINT64_MAX},
        {"8", 7, DECIMAL_TOO_LARGE, 0},
        {"70", 7, DECIMAL_TOO_LARGE, 0},
        {"1", 0, DECIMAL_TOO_LARGE, 0},
        {"18446744073709551616", UINT64_MAX, DECIMAL_TOO_LARGE, 0},
        {"18446744073709551620", UINT64_MAX, DECIMAL_TOO_LARGE, 0},
        /* too large at first, and then a number below `most` if digits were simply added */
        {"184467440737095516160", 9, DECIMAL_TOO_LARGE, 0},
        {"99999999999999999999999999999999999999", UINT64_MAX, DECIMAL_TOO_LARGE, 0},
        {"", 9, DECIMAL_MALFORMED, 0},
        {"-1", 9, DECIMAL_MALFORMED, 0},
        {"+1", 9, DECIMAL_MALFORMED, 0},
        {" 1", 9, DECIMAL_MALFORMED, 0},
        {"1 ", 9, DECIMAL_MALFORMED, 0},
        {"1.0", 9, DECIMAL_MALFORMED, 0},
        {"1e3", 9, DECIMAL_MALFORMED, 0},
        {"0x1", 9, DECIMAL_MALFORMED, 0},
        {"/", 9, DECIMAL_MALFORMED, 0}, /* the bytes beside the digits */
        {":", 9, DECIMAL_MALFORMED, 0},
        {"99999999999999999999999999999999999999x", 9, DECIMAL_MALFORMED, 0},
        {"\xd9\xa1", 9, DECIMAL_MALFORMED, 0}, /* a digit of another script */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t number = 4711;
        assert_int_equal(decimal_read(slice_of(rows[i].text), rows[i].most, &number),
                         rows[i].result);
        assert_true(number == (rows[i].result == DECIMAL_READ ? rows[i].number : 4711));
    }
}

/* A slice ends at its length, whatever follows; NUL is no digit. */
static void test_ends_at_its_length(void **state)
{
    (void)state;
    uint64_t number = 0;
    assert_int_equal(decimal_read((struct slice){"123", 2}, 99, &number), DECIMAL_READ);
    assert_int_equal(number, 12);
    assert_int_equal(decimal_read((struct slice){"1\0002", 3}, 99, &number), DECIMAL_MALFORMED);
    assert_int_equal(decimal_read((struct slice){NULL, 0}, 99, &number), DECIMAL_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_ends_at_its_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
