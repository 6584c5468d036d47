/* avxvnni: linear layers by AVX-VNNI, dot products of bytes in vectors of 256 bits, which
 * processors without AVX-512 have too; all else is avx2's. Equal bits with ref_int8.
 *
 * Owns:     nothing.
 * Thread:   any compute thread.
 * Cost:     a dot product does what avx2 takes a product, a sum and a part of a widening for.
 * Not here: the frame of the leaves (avx2_leaves.h), everything else (avx2).
 */
#pragma once

#include "kernels/cpu/avx2/avx2.h"

void k_linear_avxvnni(const struct table_linear *call);
uint64_t k_spin_int8_avxvnni(uint64_t rounds, uint64_t *sink);
