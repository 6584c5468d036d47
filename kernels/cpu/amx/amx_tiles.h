/* amx_tiles: the instructions for tiles, and the tile shapes that the AMX leaves use.
 *
 * Owns:     nothing.
 * Thread:   any; tiles and their configuration belong to the thread that loads it.
 * Cost:     one instruction each.
 * Not here: leaves. Included only by files built with the instruction set's flags.
 */
#pragma once

#include <stdint.h>

/* The operand of LDTILECFG (Intel SDM vol. 2, LDTILECFG; palette 1: tiles of ≤ 16 rows of ≤ 64
 * bytes). */
struct amx_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

_Static_assert(sizeof(struct amx_config) == 64, "as the processor reads it");

/* Configures a product: n × 16 sums, n × (4 × depth) inputs, (4 × depth) × 16 weights. */
static inline void amx_config_product(struct amx_config *config, int sums, int inputs, int weights,
                                      uint32_t n, uint32_t depth)
{
    config->palette = 1;
    config->rows[sums] = config->rows[inputs] = (uint8_t)n;
    config->rows[weights] = (uint8_t)depth;
    config->row_bytes[sums] = config->row_bytes[weights] = 64;
    config->row_bytes[inputs] = (uint16_t)(4 * depth);
}

/* `tile` is a number as text. gcc 12's intrinsics do not tell the compiler which memory they read,
 * so it could drop stores before them. Tests on machines without AMX define these macros themselves
 * (tests/kit/tiles.c). */
#ifndef AMX_LOAD
#define AMX_TEXT(tile)        #tile
#define AMX_CONFIGURE(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(config)))
#define AMX_RELEASE()         __asm__ volatile("tilerelease" ::: "memory")
#define AMX_ZERO(tile)        __asm__ volatile("tilezero %%tmm" AMX_TEXT(tile)::)
#define AMX_LOAD(tile, from, stride)                                                               \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" AMX_TEXT(tile)::"r"(from), "r"((long)(stride))   \
                     : "memory")
#define AMX_STORE(tile, to, stride)                                                                \
    __asm__ volatile("tilestored %%tmm" AMX_TEXT(tile) ", (%0,%1,1)" ::"r"(to),                    \
                     "r"((long)(stride))                                                           \
                     : "memory")
/* sums += inputs × weights, signed bytes. */
#define AMX_DOT(sums, inputs, weights)                                                             \
    __asm__ volatile(                                                                              \
        "tdpbssd %%tmm" AMX_TEXT(weights) ", %%tmm" AMX_TEXT(inputs) ", %%tmm" AMX_TEXT(sums)::)
#endif
