/* amx: linear layers by tiles of AMX (int8), for 16 rows and more; equal bits with ref_int8.
 *
 * Owns:     nothing; weights and inputs are packed as packed.h says. The codes of a unit, once
 *           unpacked, fill a tile of 8 × 64 bytes; the inputs of a tile's rows are a tile of rows ×
 *           32 bytes as they lie in memory.
 * Thread:   any compute thread; its tiles are free again when a leaf returns.
 * Cost:     a block of 32 weights × 16 outputs × 16 rows is one product of tiles, which is stored
 *           and loaded again for the conversions and multiply-adds of avx512.
 * Not here: fewer rows and float weights (avx512; tiles sum products of bfloat16 in another order).
 *           No machine with AMX has run this: tests/kit/tiles.h emulates its tiles.
 */
#pragma once

#include "kernels/cpu/table.h"

/* With fewer rows the tiles would be too empty. */
enum { AMX_ROWS_MIN = 16 };

void k_linear_amx(const struct table_linear *call);

uint64_t k_spin_int8_amx(uint64_t rounds, uint64_t *sink);
