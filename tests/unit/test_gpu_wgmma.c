/* gpu_wgmma: a wgmma as the PTX ISA describes it, in integers. With the maps of gpu_wgmma it gives
 * the wanted product, whether A is in shared memory or in registers. */
#include "tests/gpu/gpu_wgmma.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"

enum { THREADS = 128, OUTPUTS = 64, INPUTS = 16, COLUMNS_MAX = 256, SHARED = 1 << 16 };

static unsigned char shared[SHARED]; /* a multiprocessor's, from address 0 on */
static int16_t a[OUTPUTS][INPUTS];
static int16_t b[COLUMNS_MAX][INPUTS];

static void fill(int16_t (*matrix)[INPUTS], uint32_t rows, uint64_t seed)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < INPUTS; k++)
            matrix[r][k] = (int16_t)((int32_t)(rng_at(seed, r, k) % 2001) - 1000);
}

static void stage(const int16_t (*matrix)[INPUTS], uint32_t rows, uint32_t address)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < INPUTS; k++)
            memcpy(shared + address + gpu_wgmma_staged(r, k), &matrix[r][k], sizeof(int16_t));
}

/* --- the PTX ISA --- */

/* The element of a K-major matrix without swizzle: in pieces of 16 bytes, ((8, m), 2) with strides
 * ((1, stride offset), leading offset). */
static int16_t ptx_element(uint64_t descriptor, uint32_t row, uint32_t input)
{
    const uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4;
    const uint32_t leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4;
    const uint32_t stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    const uint32_t at =
        start + row % 8 * 16 + row / 8 * stride + input / 8 * leading + input % 8 * 2;
    int16_t value;
    assert_true(at + sizeof value <= SHARED);
    memcpy(&value, shared + at, sizeof value);
    return value;
}

/* The element i of a thread's fragment of A, i < 8, two in a register. */
static void ptx_fragment(uint32_t thread, uint32_t i, uint32_t *row, uint32_t *input)
{
    const uint32_t group = thread % 32 >> 2;
    const uint32_t in_group = thread % 4;
    *row = thread / 32 * 16 + (i < 2 || (i >= 4 && i < 6) ? group : group + 8);
    *input = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
}

/* The place of sum i of a thread. */
static void ptx_sum(uint32_t thread, uint32_t i, uint32_t *row, uint32_t *column)
{
    const uint32_t group = thread % 32 >> 2;
    *row = thread / 32 * 16 + (i % 4 < 2 ? group : group + 8);
    *column = i / 4 * 8 + thread % 4 * 2 + (i & 1);
}

/* Multiplies; `registers` has two inputs each, or is NULL where A is in shared memory. */
static void ptx_wgmma(uint32_t columns, const int16_t (*registers)[4][2], uint64_t a_at,
                      uint64_t b_at, int32_t (*sums)[COLUMNS_MAX / 2])
{
    static int16_t left[OUTPUTS][INPUTS];
    uint32_t row;
    uint32_t place;
    for (uint32_t r = 0; r < OUTPUTS; r++)
        for (uint32_t k = 0; k < INPUTS && registers == NULL; k++)
            left[r][k] = ptx_element(a_at, r, k);
    for (uint32_t t = 0; t < THREADS && registers != NULL; t++)
        for (uint32_t i = 0; i < 8; i++) {
            ptx_fragment(t, i, &row, &place);
            left[row][place] = registers[t][i / 2][i % 2];
        }
    for (uint32_t t = 0; t < THREADS; t++)
        for (uint32_t i = 0; i < columns / 2; i++) {
            ptx_sum(t, i, &row, &place);
            sums[t][i] = 0;
            for (uint32_t k = 0; k < INPUTS; k++)
                sums[t][i] += left[row][k] * ptx_element(b_at, place, k);
        }
}

/* --- the product, as gpu_probe makes it --- */

static void check(uint32_t columns, bool is_shared, uint32_t a_address, uint32_t b_address)
{
    static int32_t sums[THREADS][COLUMNS_MAX / 2];
    static int16_t registers[THREADS][4][2];
    static int32_t out[OUTPUTS][COLUMNS_MAX];
    memset(shared, 0x5a, sizeof shared);
    memset(out, 0x5a, sizeof out);
    stage((const int16_t(*)[INPUTS])b, columns, b_address);
    if (is_shared)
        stage((const int16_t(*)[INPUTS])a, OUTPUTS, a_address);
    for (uint32_t t = 0; t < THREADS; t++)
        for (uint32_t i = 0; i < 4; i++) {
            const struct gpu_wgmma_place place = gpu_wgmma_of_a(t, i);
            registers[t][i][0] = a[place.row][place.column];
            registers[t][i][1] = a[place.row][place.column + 1];
        }
    ptx_wgmma(columns, is_shared ? NULL : (const int16_t(*)[4][2])registers,
              gpu_wgmma_descriptor(a_address), gpu_wgmma_descriptor(b_address), sums);
    for (uint32_t t = 0; t < THREADS; t++)
        for (uint32_t i = 0; i < columns / 2; i++) {
            const struct gpu_wgmma_place place = gpu_wgmma_of_sum(t, i);
            out[place.row][place.column] = sums[t][i];
        }
    for (uint32_t r = 0; r < OUTPUTS; r++)
        for (uint32_t c = 0; c < columns; c++) {
            int32_t want = 0;
            for (uint32_t k = 0; k < INPUTS; k++)
                want += a[r][k] * b[c][k];
            assert_int_equal(out[r][c], want);
        }
}

static void test_the_wanted_product(void **state)
{
    (void)state;
    static const uint32_t columns[] = {8, 128, 256};
    fill(a, OUTPUTS, 1);
    fill(b, COLUMNS_MAX, 2);
    for (uint32_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        check(columns[i], true, 1024, 4096);
        check(columns[i], true, 48 * 1024, 2048);
        check(columns[i], false, 0, 4096);
    }
}

/* Base offset, swizzle and the bits between the fields are 0. */
static void test_the_descriptor(void **state)
{
    (void)state;
    const uint64_t fields = 0x3fff | 0x3fffULL << 16 | 0x3fffULL << 32;
    for (uint32_t address = 0; address < 228 * 1024; address += 16)
        assert_int_equal(gpu_wgmma_descriptor(address) & ~fields, 0);
    assert_int_equal(gpu_wgmma_descriptor(0x12340) & 0x3fff, 0x1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_wanted_product),
                                       cmocka_unit_test(test_the_descriptor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
