#include "kernels/cpu/ref/ref.h"

#include <string.h>

/* Without instruction-set flags these are the ceilings of this build's plain C, not of the machine.
 * The tables of instruction sets have their own. */
enum { CEILINGS_LANES = 256 };

uint64_t k_spin_int8_ref(uint64_t rounds, uint64_t *sink)
{
    int16_t a[CEILINGS_LANES];
    int16_t b[CEILINGS_LANES];
    int32_t sums[CEILINGS_LANES / 2] = {0};
    for (int i = 0; i < CEILINGS_LANES; i++) {
        a[i] = (int16_t)(i % 100);
        b[i] = (int16_t)(50 - i % 100);
    }
    for (uint64_t r = 0; r < rounds; r++) {
        for (int i = 0; i < CEILINGS_LANES / 2; i++)
            sums[i] += a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
        for (int i = 0; i < CEILINGS_LANES / 2; i++)
            sums[i] &= 0xffff; /* prevents overflow, however long it runs */
    }
    for (int i = 0; i < CEILINGS_LANES / 2; i++)
        *sink += (uint64_t)sums[i];
    return rounds * CEILINGS_LANES * 2;
}

uint64_t k_spin_f32_ref(uint64_t rounds, uint64_t *sink)
{
    float sums[CEILINGS_LANES];
    for (int i = 0; i < CEILINGS_LANES; i++)
        sums[i] = (float)i;
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CEILINGS_LANES; i++)
            sums[i] = sums[i] * 0.5f + 1.0f;
    for (int i = 0; i < CEILINGS_LANES; i++)
        *sink += (uint64_t)sums[i];
    return rounds * CEILINGS_LANES * 2;
}

void k_read_ref(const void *bytes, size_t count, uint64_t *sink)
{
    uint64_t sums[8] = {0};
    for (size_t at = 0; at + 64 <= count; at += 64) {
        uint64_t line[8];
        memcpy(line, (const char *)bytes + at, sizeof line);
        for (int i = 0; i < 8; i++)
            sums[i] += line[i];
    }
    for (int i = 0; i < 8; i++)
        *sink += sums[i];
}
