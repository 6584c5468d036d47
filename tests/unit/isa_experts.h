/* isa_experts: equal bits of a table and ref_int8 in layers of experts of every weight type.
 *
 * Owns:     nothing. A test of one instruction set includes it and calls isa_experts_check(its
 *           name).
 * Not here: what holds in every table (test_op_experts).
 */
#pragma once

#include "tests/unit/experts_kit.h"

enum { ISA_EXPERTS_ROWS = 70 };

/* Weights of routes, and results. */
static void isa_experts_compare(const struct experts_side *fast, const struct experts_side *judge,
                                struct rng *rng, enum experts_routing routing, uint32_t rows)
{
    const struct experts_layer *layer = fast->layer;
    float *logits = experts_kit_logits(rng, routing, rows, layer->experts);
    float *x = kit_floats(rng, (size_t)rows * layer->width + 1, 3);
    float *a = kit_floats(rng, (size_t)rows * layer->width + 1, 1);
    float *b = malloc(((size_t)rows * layer->width + 1) * sizeof *b);
    memcpy(b, a, ((size_t)rows * layer->width + 1) * sizeof *b);
    const bool is_normalised = rng_below(rng, 2) == 1;
    /* One float beyond the start of the allocation: no pointer is aligned to a vector. */
    struct experts_args of_fast = experts_kit_args(fast, x + 1, rows, a + 1);
    struct experts_args of_judge = experts_kit_args(judge, x + 1, rows, b + 1);
    of_fast.accumulate = of_judge.accumulate = rng_below(rng, 2) == 1;
    of_fast.act = of_judge.act = rng_below(rng, 2) == 1 ? ACT_CLAMPED_MUL : ACT_SILU_MUL;
    experts_kit_route(fast, logits, rows, is_normalised);
    experts_kit_route(judge, logits, rows, is_normalised);
    kit_assert_same_bits(fast->routes.weight, judge->routes.weight, (size_t)rows * layer->used);
    assert_memory_equal(fast->routes.expert, judge->routes.expert,
                        (size_t)rows * layer->used * sizeof(uint32_t));
    kernels_experts(fast->kernels, &of_fast);
    kernels_experts(judge->kernels, &of_judge);
    kit_assert_same_bits(a, b, (size_t)rows * layer->width + 1);
    free(logits);
    free(x);
    free(a);
    free(b);
}

/* Every number of rows with one routing in turn, or with each. */
static void isa_experts_shape(struct kernels *fast, struct kernels *judge,
                              const struct experts_shape *shape, bool is_each, uint64_t seed)
{
    static const uint32_t row_counts[] = {0, 1, 2, 5, 16, 17, ISA_EXPERTS_ROWS};
    struct rng rng = {.seed = seed};
    struct experts_layer layer = experts_kit_layer(&rng, shape);
    struct experts_side a = experts_kit_open(fast, &layer, ISA_EXPERTS_ROWS);
    struct experts_side b = experts_kit_open(judge, &layer, ISA_EXPERTS_ROWS);
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++)
        for (size_t routing = 0; routing < EXPERTS_ROUTINGS; routing++)
            if (is_each || routing == (seed + i) % EXPERTS_ROUTINGS)
                isa_experts_compare(&a, &b, &rng, (enum experts_routing)routing, row_counts[i]);
    experts_kit_close(&a);
    experts_kit_close(&b);
    experts_kit_free(&layer);
}

/* Every type; then other numbers of experts, other types in one layer, wider experts than a pass
 * keeps at once. */
static void isa_experts_check(const char *isa)
{
    static const struct experts_shape shapes[] = {
        {1, 1, 32, 32, {TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_0}, false},
        {37, 5, 96, 64, {TENSOR_TYPE_q5_0, TENSOR_TYPE_f32, TENSOR_TYPE_mxfp4}, true},
        {2, 2, 64, 1056, {TENSOR_TYPE_q4_1, TENSOR_TYPE_bf16, TENSOR_TYPE_q8_0}, false},
    };
    struct kernels *fast = kit_fast(isa, 2, ISA_EXPERTS_ROWS, 1056);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, ISA_EXPERTS_ROWS, 1056);
    for (size_t t = 0; t < KIT_TYPES; t++) {
        const uint32_t cols = tensor_type_info(kit_types[t])->block_elements > 32 ? 256 : 96;
        const struct experts_shape shape = {
            6, 2, cols, cols, {kit_types[t], kit_types[t], kit_types[t]}, t % 2 == 0};
        isa_experts_shape(fast, judge, &shape, false, t);
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        isa_experts_shape(fast, judge, &shapes[i], true, 100 + i);
    kernels_destroy(fast);
    kernels_destroy(judge);
}
