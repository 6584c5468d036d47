/* isa_ceilings: what a table's ceilings count is done, and none of it can be left out.
 *
 * Owns:     nothing. A test of one instruction set includes it, and calls it where that can run.
 * Not here: how fast it is (cpu_ceilings).
 */
#pragma once

#include "tests/unit/kernels_kit.h"

typedef uint64_t isa_ceilings_spin(uint64_t rounds, uint64_t *sink);
typedef void isa_ceilings_read(const void *bytes, size_t count, uint64_t *sink);

/* Operations grow with the rounds, and the work depends on the sink, so it cannot be left out. */
static void isa_ceilings_check_counts(isa_ceilings_spin *int8, isa_ceilings_spin *f32,
                                      uint64_t int8_least, uint64_t f32_least)
{
    uint64_t sink = 3;
    uint64_t one = int8(1, &sink);
    assert_true(one >= int8_least);
    assert_int_equal(int8(1000, &sink), 1000 * one);
    one = f32(1, &sink);
    assert_true(one >= f32_least);
    assert_int_equal(f32(1000, &sink), 1000 * one);
    assert_true(sink != 3);
}

/* Every line is read: changing one byte anywhere changes what comes out. */
static inline void isa_ceilings_check_read(isa_ceilings_read *read)
{
    unsigned char memory[64 * 7 + 1] = {0};
    for (size_t at = 1; at < sizeof memory; at += 31) {
        uint64_t before = 0;
        uint64_t after = 0;
        read(memory + 1, 64 * 7, &before);
        memory[at] ^= 5;
        read(memory + 1, 64 * 7, &after);
        assert_true(before != after);
    }
    uint64_t sink = 9;
    read(memory, 0, &sink);
    assert_int_equal(sink, 9);
}
