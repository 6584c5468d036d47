/* tiles: the tile instructions of AMX in plain C, for machines without them.
 *
 * Owns:     a thread's configuration and eight tiles.
 * Thread:   any, each its own.
 * Cost:     a product of 16 × 16 × 64 bytes is 16,384 multiplications.
 * Not here: what the leaves do with them. The same source as kernels/cpu/amx, built with these
 *           operations in place of the instructions, is k_linear_tiles and k_spin_int8_tiles. A use
 *           that the processor would answer with #UD ends the test.
 */
#pragma once

#include "kernels/cpu/table.h"

/* k_linear_amx and k_spin_int8_amx. They need AVX-512 with VNNI. */
void k_linear_tiles(const struct table_linear *call);
uint64_t k_spin_int8_tiles(uint64_t rounds, uint64_t *sink);

/* Products of tiles that this thread has made, and whether it holds a configuration. */
uint64_t tiles_products(void);
bool tiles_are_held(void);
