/* tiles: the tile instructions of AMX in plain C, for machines without them.
 *
 * Owns:     a configuration and eight tiles for each thread.
 * Thread:   any, each its own.
 * Cost:     a product of 16 × 16 × 64 bytes is 16,384 multiplications.
 * Not here: what the leaves do with them. k_linear_tiles and k_spin_int8_tiles are the source of
 *           kernels/cpu/amx, built with these operations in place of the instructions. A use that
 *           the processor would answer with #UD ends the test.
 */
#pragma once

#include "kernels/cpu/table.h"

/* k_linear_amx and k_spin_int8_amx over these tiles. They need AVX-512 with VNNI. */
void k_linear_tiles(const struct table_linear *call);
uint64_t k_spin_int8_tiles(uint64_t rounds, uint64_t *sink);

/* Return the number of products of tiles on this thread, and whether it has a configuration. */
uint64_t tiles_products(void);
bool tiles_are_held(void);
