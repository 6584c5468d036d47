#include "kernels/cpu/amx/amx.h"

#include <string.h>

#include "kernels/cpu/amx/amx_tiles.h"

/* Uses full tiles, which no linear layer with a scale for each 32 inputs has. Four independent sums
 * hide a product's latency. */
uint64_t k_spin_int8_amx(uint64_t rounds, uint64_t *sink)
{
    enum { SUMS = 4, ROWS = 16, DEPTH = 16 };
    _Alignas(64) uint8_t bytes[ROWS][64];
    _Alignas(64) int32_t sums[ROWS][16];
    struct amx_config config = {0};
    for (int i = 0; i < SUMS; i++)
        amx_config_product(&config, i, 4, 5, ROWS, DEPTH);
    memset(bytes, (int)(*sink & 63) + 1, sizeof bytes);
    AMX_CONFIGURE(&config);
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
    AMX_LOAD(4, bytes, 64);
    AMX_LOAD(5, bytes, 64);
    for (uint64_t r = 0; r < rounds; r++) {
        AMX_DOT(0, 4, 5);
        AMX_DOT(1, 4, 5);
        AMX_DOT(2, 4, 5);
        AMX_DOT(3, 4, 5);
    }
    AMX_STORE(0, sums, 64);
    AMX_RELEASE();
    *sink += (uint64_t)(uint32_t)sums[0][0] + 1;
    return rounds * SUMS * ROWS * 16 * 4 * DEPTH * 2;
}
