#include "tests/kit/tiles.h"

#if defined(__x86_64__)
#include <stdlib.h>
#include <string.h>

#include "config/base/status.h"

enum { TILES = 8, TILES_ROWS = 16, TILES_ROW_BYTES = 64 };

/* The operand of LDTILECFG, palette 1. */
struct tiles_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static _Thread_local struct {
    struct tiles_config config;
    uint8_t tile[TILES][TILES_ROWS][TILES_ROW_BYTES];
    uint64_t products;
} own;

static void tiles_configure(const void *config)
{
    memcpy(&own.config, config, sizeof own.config);
    memset(own.tile, 0, sizeof own.tile);
    ASSERT(own.config.palette == 1 && own.config.start_row == 0);
    for (int i = 0; i < 14; i++)
        ASSERT(own.config.reserved[i] == 0);
    for (int i = 0; i < 16; i++) {
        ASSERT(own.config.rows[i] <= TILES_ROWS && own.config.row_bytes[i] <= TILES_ROW_BYTES);
        ASSERT((own.config.rows[i] == 0) == (own.config.row_bytes[i] == 0));
        ASSERT(i < TILES || own.config.rows[i] == 0);
    }
}

static void tiles_release(void)
{
    memset(&own.config, 0, sizeof own.config);
}

static void tiles_zero(int tile)
{
    ASSERT(own.config.rows[tile] > 0);
    memset(own.tile[tile], 0, sizeof own.tile[tile]);
}

/* Bytes beyond a tile's rows and row length are not read and are zero in the tile. */
static void tiles_load(int tile, const void *from, size_t stride)
{
    tiles_zero(tile);
    for (size_t row = 0; row < own.config.rows[tile]; row++)
        memcpy(own.tile[tile][row], (const char *)from + row * stride, own.config.row_bytes[tile]);
}

static void tiles_store(int tile, void *to, size_t stride)
{
    ASSERT(own.config.rows[tile] > 0);
    for (size_t row = 0; row < own.config.rows[tile]; row++)
        memcpy((char *)to + row * stride, own.tile[tile][row], own.config.row_bytes[tile]);
}

/* TDPBSSD: sums[m][n] += Σ over k and i < 4 of inputs[m][4k + i] × weights[k][4n + i], signed. */
static void tiles_dot(int sums, int inputs, int weights)
{
    const struct tiles_config *config = &own.config;
    ASSERT(sums != inputs && sums != weights && inputs != weights);
    ASSERT(config->palette == 1 && config->rows[sums] > 0);
    ASSERT(config->rows[sums] == config->rows[inputs]);
    ASSERT(config->row_bytes[sums] == config->row_bytes[weights]);
    ASSERT(config->row_bytes[inputs] == 4 * config->rows[weights]);
    for (uint32_t m = 0; m < config->rows[sums]; m++)
        for (uint32_t n = 0; n < config->row_bytes[sums] / 4u; n++) {
            int32_t sum;
            memcpy(&sum, &own.tile[sums][m][4 * n], 4);
            for (uint32_t k = 0; k < config->rows[weights]; k++)
                for (uint32_t i = 0; i < 4; i++)
                    sum += (int8_t)own.tile[inputs][m][4 * k + i] *
                           (int8_t)own.tile[weights][k][4 * n + i];
            memcpy(&own.tile[sums][m][4 * n], &sum, 4);
        }
    own.products++;
}

uint64_t tiles_products(void)
{
    return own.products;
}

bool tiles_are_held(void)
{
    return own.config.palette != 0;
}

#define AMX_CONFIGURE(config)          tiles_configure(config)
#define AMX_RELEASE()                  tiles_release()
#define AMX_ZERO(tile)                 tiles_zero(tile)
#define AMX_LOAD(tile, from, stride)   tiles_load(tile, from, stride)
#define AMX_STORE(tile, to, stride)    tiles_store(tile, to, stride)
#define AMX_DOT(sums, inputs, weights) tiles_dot(sums, inputs, weights)
#define k_linear_amx                   k_linear_tiles
#define k_spin_int8_amx                k_spin_int8_tiles
#include "kernels/cpu/amx/amx_ceilings.c"
#include "kernels/cpu/amx/amx_linear.c"
#endif
