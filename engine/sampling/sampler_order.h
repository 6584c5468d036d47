/* sampler_order: the first tokens of a row of logits, found by counting instead of comparing.
 *
 * Owns:     nothing.
 * Thread:   any; pure.
 * Cost:     sampler_order_find: one pass over the row and three over an eighth of it, if a sample
 *           of the row is like the whole; else three passes. sampler_order_sort: three passes over
 *           what is sorted, however the values are spread.
 * Not here: small counts (the sampler keeps a heap), what a token weighs.
 *
 * The order: the greater value first, the lower id among equals. A NaN counts as the least value;
 * its place among equals of that value is not stated.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* The last token of a run from the top of the order. */
struct sampler_order_cut {
    float value;
    uint32_t id;
};

/* The `wanted`-th of `count` tokens, 1 ≤ wanted ≤ count. `ids` [count + ROW_IDS_MORE] and
 * `scratch` [count] are scratch. */
struct sampler_order_cut sampler_order_find(const struct kernels *kernels, const float *values,
                                            uint32_t count, uint32_t wanted, uint32_t *ids,
                                            uint32_t *scratch);

/* Whether a token belongs to the run that ends with `cut`. */
static inline bool sampler_order_has(const struct sampler_order_cut *cut, float value, uint32_t id)
{
    return value > cut->value || (value >= cut->value && id <= cut->id);
}

/* Puts `ids` [count], which rise, in order. `scratch` [count]. */
void sampler_order_sort(const float *values, uint32_t *ids, uint32_t count, uint32_t *scratch);
