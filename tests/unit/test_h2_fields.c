/* h2_fields: the fields of an encoded head are counted as the decoder counts them, however the
 * block is cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "gateway/http/h2_fields.h"

enum { NO_LIMIT = 1 << 30 };

static uint32_t count_of(const void *bytes, size_t length)
{
    struct h2_fields fields = {0};
    assert_true(h2_fields_count(&fields, bytes, length, NO_LIMIT));
    assert_int_equal(fields.number_kind, H2_FIELDS_NO_NUMBER);
    assert_int_equal(fields.strings_left, 0);
    assert_int_equal(fields.skip, 0);
    return fields.count;
}

static void test_rows(void **state)
{
    (void)state;
    const struct {
        const char *block;
        size_t length;
        uint32_t count;
    } rows[] = {
        {"", 0, 0},
        {"\x82\x84\x87", 3, 3},     /* indexed */
        {"\xff\x80\x01\x82", 4, 2}, /* an index of three bytes */
        {"\x3f\xe1\x1f\x82", 4, 2}, /* a change of the table's size */
        {"\x40\x01"
         "a\x02"
         "bc\x82",
         7, 2},                             /* remembered, with its name */
        {"\x04\x03/ab\x82", 6, 2},          /* not remembered, with the name's index */
        {"\x0f\x10\x00\x82", 4, 2},         /* the same: an index of two bytes, no value */
        {"\x10\x81\x1f\x00", 4, 1},         /* never remembered, a Huffman name */
        {"\x41\x03\x82\x82\x82\xbe", 6, 2}, /* bytes of a value are no fields */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(count_of(rows[i].block, rows[i].length), rows[i].count);
}

static void test_the_limit_is_kept(void **state)
{
    (void)state;
    uint8_t block[16000];
    struct h2_fields fields = {0};
    memset(block, 0xbe, sizeof block);
    assert_true(h2_fields_count(&fields, block, 100, 100));
    assert_false(h2_fields_count(&fields, block, sizeof block, 100));
    assert_int_equal(fields.count, 101); /* it counts no further */
}

static void put_number(uint8_t *block, size_t *length, uint8_t form, uint8_t mask, uint64_t number)
{
    if (number < mask) {
        block[(*length)++] = (uint8_t)(form | number);
        return;
    }
    block[(*length)++] = form | mask;
    for (number -= mask; number >= 128; number >>= 7)
        block[(*length)++] = (uint8_t)(number | 128);
    block[(*length)++] = (uint8_t)number;
}

static void put_string(struct rng *rng, uint8_t *block, size_t *length)
{
    uint64_t bytes = rng_below(rng, rng_below(rng, 4) == 0 ? 400 : 8);
    put_number(block, length, rng_below(rng, 2) != 0 ? 0x80 : 0, 0x7f, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        block[(*length)++] = (uint8_t)rng_below(rng, 256);
}

static void put_field(struct rng *rng, uint8_t *block, size_t *length)
{
    static const uint8_t forms[][2] = {
        {0x80, 0x7f}, {0x20, 0x1f}, {0x40, 0x3f}, {0x10, 0x0f}, {0, 0x0f}};
    uint64_t form = rng_below(rng, 5);
    uint64_t number = rng_below(rng, rng_below(rng, 2) != 0 ? 3 : 5000);
    put_number(block, length, forms[form][0], forms[form][1], number);
    if (form < 2)
        return;
    if (number == 0)
        put_string(rng, block, length);
    put_string(rng, block, length);
}

static void test_random_blocks_in_pieces(void **state)
{
    (void)state;
    struct rng rng = {.seed = 19};
    for (int round = 0; round < 20000; round++) {
        static uint8_t block[32 * 1024];
        size_t length = 0;
        uint32_t count = (uint32_t)rng_below(&rng, 12);
        for (uint32_t i = 0; i < count; i++)
            put_field(&rng, block, &length);
        assert_int_equal(count_of(block, length), count);
        struct h2_fields fields = {0};
        for (size_t at = 0, step; at < length; at += step) {
            step = 1 + (size_t)rng_below(&rng, 40);
            step = step < length - at ? step : length - at;
            assert_true(h2_fields_count(&fields, block + at, step, NO_LIMIT));
        }
        assert_int_equal(fields.count, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_the_limit_is_kept),
        cmocka_unit_test(test_random_blocks_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
