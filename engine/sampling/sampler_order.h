/* sampler_order: the first tokens of a row of logits, found by counting instead of comparing.
 *
 * Owns:     nothing.
 * Thread:   any; pure.
 * Cost:     sampler_order_find: one pass over the row and three over an eighth of it if a sample
 *           represents the row, else three passes. sampler_order_sort: three passes over the ids,
 *           whatever their values.
 * Not here: small counts (the sampler keeps a heap), the weight of a token.
 *
 * The order is by falling value, and by rising id among equals. A NaN counts as the least value;
 * its place among equals of that value is undefined.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* The last token of a run from the top of the order; the run is all tokens up to it. */
struct sampler_order_cut {
    float value;
    uint32_t id;
};

/* Finds the `wanted`-th of `count` tokens in order, 1 ≤ wanted ≤ count. `ids` [count +
 * ROW_IDS_MORE] and `scratch` [count] are scratch. */
struct sampler_order_cut sampler_order_find(const struct kernels *kernels, const float *values,
                                            uint32_t count, uint32_t wanted, uint32_t *ids,
                                            uint32_t *scratch);

/* Whether a token belongs to the run that ends with `cut`. */
static inline bool sampler_order_has(const struct sampler_order_cut *cut, float value, uint32_t id)
{
    return value > cut->value || (value >= cut->value && id <= cut->id);
}

/* Sorts `ids` [count], which come by rising id. `scratch` [count] is scratch. */
void sampler_order_sort(const float *values, uint32_t *ids, uint32_t count, uint32_t *scratch);
