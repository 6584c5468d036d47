/* amx: linear layers by tiles of AMX (int8), for many rows; equal bits with ref_int8.
 *
 * Owns:     nothing; weights and inputs are packed as packed.h says. A group's codes are unpacked
 *           once into the call's scratch, where a unit is a tile of 8 × 64 bytes. The inputs of a
 *           tile's rows are a tile of rows × 32 bytes as they lie in memory.
 * Thread:   any compute thread; its tiles are free again when a leaf returns.
 * Cost:     a block of 32 weights × 16 outputs × 16 rows is one product of tiles (q6_k: two), which
 *           is stored and loaded again for the conversions and multiply-adds of avx512. On an
 *           Emerald Rapids the tile instructions of a block take 25 cycles. After them its
 *           multiply-adds take 33 (25 for types without m). With the unpacking and the loads from
 *           the second-level cache a block takes about 80 cycles. avx512 takes 100.
 * Not here: fewer rows and float weights (avx512; tiles sum products of bfloat16 in another order).
 *           tests/kit/tiles.h emulates the tiles for machines without them.
 */
#pragma once

#include "kernels/cpu/table.h"

/* From this number of rows on, tiles are faster than avx512 with every type: measured at 48 to 64
 * rows, by 1.03 (q6_k) to 1.5 (q5_0). With 33 rows q6_k takes 1.1 times as long by tiles, and with
 * 16 rows most types do, since each unit is unpacked for few rows. */
enum { AMX_ROWS_MIN = 48 };

void k_linear_amx(const struct table_linear *call);

uint64_t k_spin_int8_amx(uint64_t rounds, uint64_t *sink);
