#include "config/base/utf8.h"

#include "tests/unit/base_kit.h"

/* The table of well-formed sequences, Unicode 15, table 3-7, read as a plain predicate. */
static size_t model_length(const unsigned char *b, size_t length)
{
#define IN(i, low, high) (length > (i) && b[i] >= (low) && b[i] <= (high))
#define TAIL(i)          IN(i, 0x80, 0xbf)
    if (IN(0, 0x00, 0x7f))
        return 1;
    if (IN(0, 0xc2, 0xdf) && TAIL(1))
        return 2;
    if ((IN(0, 0xe0, 0xe0) && IN(1, 0xa0, 0xbf) && TAIL(2)) ||
        (IN(0, 0xe1, 0xec) && TAIL(1) && TAIL(2)) ||
        (IN(0, 0xed, 0xed) && IN(1, 0x80, 0x9f) && TAIL(2)) ||
        (IN(0, 0xee, 0xef) && TAIL(1) && TAIL(2)))
        return 3;
    if ((IN(0, 0xf0, 0xf0) && IN(1, 0x90, 0xbf) && TAIL(2) && TAIL(3)) ||
        (IN(0, 0xf1, 0xf3) && TAIL(1) && TAIL(2) && TAIL(3)) ||
        (IN(0, 0xf4, 0xf4) && IN(1, 0x80, 0x8f) && TAIL(2) && TAIL(3)))
        return 4;
    return 0;
#undef IN
#undef TAIL
}

/* Bytes around every edge of the table, in all four places. */
static const unsigned char edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                      0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                      0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
enum { EDGES = sizeof edges };

static void test_lengths(void **state)
{
    (void)state;
    for (int n = 0; n < EDGES * EDGES * EDGES * EDGES; n++) {
        unsigned char bytes[4] = {edges[n % EDGES], edges[n / EDGES % EDGES],
                                  edges[n / EDGES / EDGES % EDGES],
                                  edges[n / EDGES / EDGES / EDGES]};
        for (size_t length = 1; length <= 4; length++) {
            size_t wanted = model_length(bytes, length);
            if (utf8_sequence_length((const char *)bytes, length) != wanted)
                fail_msg("%02x %02x %02x %02x of %zu", bytes[0], bytes[1], bytes[2], bytes[3],
                         length);
        }
    }
    assert_int_equal(utf8_sequence_length("", 0), 0);
}

/* Encoded, decoded, measured: all code points. */
static void test_code_points(void **state)
{
    (void)state;
    for (uint32_t code_point = 0; code_point <= 0x10ffff; code_point++) {
        char bytes[4];
        if (code_point >= 0xd800 && code_point <= 0xdfff)
            continue;
        size_t length = utf8_encode(code_point, bytes);
        assert_int_equal(utf8_sequence_length(bytes, length), length);
        assert_int_equal(utf8_decode(bytes, length), code_point);
        for (size_t cut = 1; cut < length; cut++) {
            assert_int_equal(utf8_sequence_length(bytes, cut), 0);
            assert_int_equal(utf8_incomplete_tail(bytes, cut), cut);
        }
        assert_int_equal(utf8_incomplete_tail(bytes, length), 0);
    }
}

static void test_tail(void **state)
{
    static const struct {
        const char *text;
        size_t tail;
    } cases[] = {
        {"", 0},
        {"abc", 0},
        {"abc\xc3", 1},
        {"a\xe2\x82", 2},
        {"\xf0\x9f\x8c", 3},
        {"ab\xff", 0},
        {"\xe2\x82\xac", 0},
        {"\xe2\x82\xac\xe2", 1},
        {"\xe0\x80", 0}, /* overlong: nothing will complete it */
        {"\xed\xa0", 0}, /* surrogate */
        {"\xf4\x90", 0}, /* over U+10FFFF */
        {"\x80\x80\x80", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(utf8_incomplete_tail(cases[i].text, strlen(cases[i].text)), cases[i].tail);
}

static void test_valid(void **state)
{
    (void)state;
    assert_true(utf8_is_valid("", 0));
    assert_true(utf8_is_valid("gr\xc3\xbc\xc3\x9f", 6));
    assert_false(utf8_is_valid("gr\xc3\xbc\xc3", 5));
    assert_false(utf8_is_valid("\xc0\x80", 2));
    assert_true(utf8_is_valid("a\0b", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_code_points),
        cmocka_unit_test(test_tail),
        cmocka_unit_test(test_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
