/* avxvnni: linear layers by AVX-VNNI: dot products of bytes in 256-bit vectors, which some
 * processors without AVX-512 have. All else is avx2's. Equal bits with ref_int8.
 *
 * Owns:     nothing.
 * Thread:   any compute thread.
 * Cost:     one dot product replaces a product, a sum and part of a widening of avx2.
 * Not here: the frame of the leaves (avx2_leaves.h), everything else (avx2).
 */
#pragma once

#include "kernels/cpu/avx2/avx2.h"

void k_linear_avxvnni(const struct table_linear *call);
uint64_t k_spin_int8_avxvnni(uint64_t rounds, uint64_t *sink);
