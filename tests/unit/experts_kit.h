/* experts_kit: layers of experts with random weights, and routings made on purpose.
 *
 * Owns:     nothing but what experts_kit_free and experts_kit_close free.
 * Not here: assertions about results.
 */
#pragma once

#include "kernels/kernels_experts.h"
#include "tests/unit/kernels_kit.h"

struct experts_layer {
    uint32_t experts, used, width, hidden;
    struct tensor gate, up, down;           /* {cols, rows, experts} */
    float *gate_bias, *up_bias, *down_bias; /* NULL: none */
};

struct experts_shape {
    uint32_t experts, used, width, hidden;
    uint32_t types[3]; /* of gate, up and down */
    bool has_bias;
};

/* Experts' matrices as a file has them: one behind the other. */
static inline struct tensor experts_kit_tensor(struct rng *rng, uint32_t type, uint32_t experts,
                                               uint32_t rows, uint32_t cols)
{
    struct tensor tensor = kit_tensor(rng, type, rows * experts, cols);
    tensor.dim_count = 3;
    tensor.dims[1] = rows;
    tensor.dims[2] = experts;
    return tensor;
}

static inline struct experts_layer experts_kit_layer(struct rng *rng,
                                                     const struct experts_shape *shape)
{
    const uint32_t n = shape->experts;
    struct experts_layer out = {
        .experts = n, .used = shape->used, .width = shape->width, .hidden = shape->hidden};
    out.gate = experts_kit_tensor(rng, shape->types[0], n, shape->hidden, shape->width);
    out.up = experts_kit_tensor(rng, shape->types[1], n, shape->hidden, shape->width);
    out.down = experts_kit_tensor(rng, shape->types[2], n, shape->width, shape->hidden);
    if (shape->has_bias) {
        out.gate_bias = kit_floats(rng, (size_t)n * shape->hidden, 1);
        out.up_bias = kit_floats(rng, (size_t)n * shape->hidden, 1);
        out.down_bias = kit_floats(rng, (size_t)n * shape->width, 1);
    }
    return out;
}

static inline void experts_kit_free(struct experts_layer *layer)
{
    kit_tensor_free(&layer->gate);
    kit_tensor_free(&layer->up);
    kit_tensor_free(&layer->down);
    free(layer->gate_bias);
    free(layer->up_bias);
    free(layer->down_bias);
}

/* Returns the matrix of one expert. */
static inline struct tensor experts_kit_one(const struct tensor *tensor, uint32_t expert)
{
    struct tensor one = *tensor;
    one.dim_count = 2;
    one.dims[2] = 1;
    one.bytes = tensor->bytes / tensor->dims[2];
    one.data = (const char *)tensor->data + expert * one.bytes;
    return one;
}

/* A layer as kernels have it. */
struct experts_side {
    struct kernels *kernels;
    const struct experts_layer *layer;
    struct weight gate, up, down;
    struct kernels_routes routes;
    void *buffer;
    void *scratch;
};

static inline struct experts_side
experts_kit_open(struct kernels *kernels, const struct experts_layer *layer, uint32_t rows_max)
{
    struct experts_side side = {.kernels = kernels, .layer = layer};
    assert_int_equal(kernels_experts_weight(kernels, &side.gate, &layer->gate), STATUS_OK);
    assert_int_equal(kernels_experts_weight(kernels, &side.up, &layer->up), STATUS_OK);
    assert_int_equal(kernels_experts_weight(kernels, &side.down, &layer->down), STATUS_OK);
    side.buffer =
        kernels_buffer_create(kernels, kernels_routes_bytes(rows_max, layer->experts, layer->used));
    side.scratch =
        kernels_buffer_create(kernels, kernels_experts_bytes(kernels, rows_max, layer->used,
                                                             layer->width, layer->hidden));
    assert_non_null(side.buffer);
    assert_non_null(side.scratch);
    kernels_routes_init(&side.routes, side.buffer, rows_max, layer->experts, layer->used);
    return side;
}

static inline void experts_kit_close(struct experts_side *side)
{
    kernels_weight_destroy(side->kernels, &side->gate);
    kernels_weight_destroy(side->kernels, &side->up);
    kernels_weight_destroy(side->kernels, &side->down);
    kernels_buffer_destroy(side->kernels, side->buffer);
    kernels_buffer_destroy(side->kernels, side->scratch);
}

static inline struct experts_args experts_kit_args(const struct experts_side *side, const float *x,
                                                   uint32_t rows, float *y)
{
    return (struct experts_args){.x = x,
                                 .y = y,
                                 .rows = rows,
                                 .routes = &side->routes,
                                 .gate = &side->gate,
                                 .up = &side->up,
                                 .down = &side->down,
                                 .gate_bias = side->layer->gate_bias,
                                 .up_bias = side->layer->up_bias,
                                 .down_bias = side->layer->down_bias,
                                 .act = ACT_SILU_MUL,
                                 .scratch = side->scratch};
}

static inline void experts_kit_route(const struct experts_side *side, const float *logits,
                                     uint32_t rows, bool is_normalised)
{
    kernels_route(side->kernels, &(struct route_args){.logits = logits,
                                                      .rows = rows,
                                                      .is_normalised = is_normalised,
                                                      .routes = &side->routes});
}

enum experts_routing {
    EXPERTS_RANDOM,
    EXPERTS_ONE,   /* all rows use the same experts, the last ones */
    EXPERTS_APART, /* each row begins at another expert */
    EXPERTS_EQUAL, /* all logits are equal */
    EXPERTS_ROUTINGS
};

static inline float *experts_kit_logits(struct rng *rng, enum experts_routing routing,
                                        uint32_t rows, uint32_t experts)
{
    float *logits = kit_floats(rng, (size_t)rows * experts, 4);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t e = 0; e < experts; e++) {
            float *at = &logits[(size_t)r * experts + e];
            if (routing == EXPERTS_ONE)
                *at = (float)e;
            else if (routing == EXPERTS_APART)
                *at = -(float)((e + experts - r % experts) % experts);
            else if (routing == EXPERTS_EQUAL)
                *at = 1.5f;
        }
    return logits;
}
