/* kernels_experts: feed-forward layers of experts: which experts each row uses, and their work.
 *
 * Owns:     nothing; the caller makes the memory of the routes and the scratch at the start.
 * Thread:   as kernels.h says.
 * Cost:     kernels_experts reads the weights of the experts that some row uses, once each. No
 *           allocation.
 * Not here: the router's linear layer (kernels_linear, which adds a router's bias), the norm before
 *           both (kernels_norm), sums over ranks (kernels_all_reduce).
 *
 * A pair is a row and one of its slots: row r uses expert[r][slot] with weight[r][slot]. Pairs are
 * sorted by expert, row and slot, so that the rows of an expert are neighbours. Each pair has an
 * output row of its own, and a row adds up its own slots in order. So the bits of a row depend on
 * that row alone, whichever experts other rows use.
 *
 * Of a layer with 4 experts, 2 used, and the choices {2, 0}, {2, 3} of two rows:
 *     pairs in order  (row 0, slot 1) (row 0, slot 0) (row 1, slot 0) (row 1, slot 1)
 *     begin = {0, 1, 1, 3, 4}   row = {0, 0, 1, 1}   place = {{1, 0}, {2, 3}}
 */
#pragma once

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* Outputs of an expert's matrix are a multiple of this, so that no group of outputs (16, in
     * every table) belongs to two experts. The experts in use have 512 to 14,336. */
    KERNELS_EXPERTS_OUTPUTS = 16,
    /* most pairs of one piece of an expert's work on a device */
    KERNELS_EXPERTS_PIECE = 16
};

/* A piece of an expert's work on a device: pairs [first, first + pairs). */
struct kernels_experts_piece {
    uint32_t expert;
    uint32_t first;
    uint32_t pairs; /* 0: none */
};

/* What kernels_route writes. The arrays are in one buffer of the kernels, so that on a device no
 * routing is known to the host, and a captured step serves any routing. */
struct kernels_routes {
    uint32_t experts;
    uint32_t used;
    uint32_t *expert; /* [rows][used] by falling logit; of equal ones the lower expert first */
    float *weight;    /* [rows][used] */
    uint32_t *begin;  /* [experts + 1] the pairs of expert e are begin[e] … begin[e + 1] − 1 */
    uint32_t *row;    /* [rows × used] of each pair, in their order */
    uint32_t *place;  /* [rows][used] where the pair is in that order */
    struct kernels_experts_piece *pieces; /* [kernels_routes_pieces], which only devices write */
};

/* Returns for how many pieces of work there is room: an upper bound for any routing. */
static inline uint32_t kernels_routes_pieces(uint32_t rows, uint32_t experts, uint32_t used)
{
    const uint32_t pairs = rows * used;
    const uint32_t spread = pairs / KERNELS_EXPERTS_PIECE + experts;
    return pairs < spread ? pairs : spread;
}

/* Returns the bytes of the buffer for up to `rows_max` rows. */
size_t kernels_routes_bytes(uint32_t rows_max, uint32_t experts, uint32_t used);
/* Lays the arrays out in such a buffer. */
void kernels_routes_init(struct kernels_routes *out, void *buffer, uint32_t rows_max,
                         uint32_t experts, uint32_t used);

/* Chooses the `used` greatest logits of each row, and weighs them by softmax: over all experts, or
 * over the chosen ones (which is the same as over all, divided by the sum of the chosen weights). A
 * NaN counts as −∞ in the choice; where one is part of the sum, the row's weights are NaN. */
struct route_args {
    const float *logits; /* [rows][experts] */
    uint32_t rows;
    bool is_normalised; /* the weights of a row add up to 1 */
    const struct kernels_routes *routes;
};
void kernels_route(struct kernels *kernels, const struct route_args *args);

/* Packs the matrices of a layer's experts, a tensor {cols, rows, experts}, into one weight of rows
 * × experts outputs. UNSUPPORTED when an expert's rows are no multiple of KERNELS_EXPERTS_OUTPUTS,
 * when there are more than LIMIT_EXPERTS, or as kernels_weight_create; the message does not name
 * the tensor. */
enum status kernels_experts_weight(struct kernels *kernels, struct weight *out,
                                   const struct tensor *tensor);

/* Returns the bytes of scratch that kernels_experts needs for up to `rows_max` rows. */
size_t kernels_experts_bytes(const struct kernels *kernels, uint32_t rows_max, uint32_t used,
                             uint32_t width, uint32_t hidden);

/* y[r] = Σ over the slots of r, in order, of weight × (down of act(gate · x[r], up · x[r])) of the
 * slot's expert, or y[r] += that sum. */
struct experts_args {
    const float *x; /* [rows][width] */
    float *y;       /* [rows][width], not x */
    uint32_t rows;
    const struct kernels_routes *routes; /* of the same rows */
    /* Of the weights, and the biases (NULL: none): [experts here][outputs of one]. Biases are added
     * to each matrix's outputs, that of `down` before the sum. */
    const struct weight *gate, *up; /* outputs: hidden, inputs: width */
    const struct weight *down;      /* outputs: width, inputs: hidden */
    const float *gate_bias, *up_bias, *down_bias;
    enum act_kind act; /* one that takes two */
    bool accumulate;
    /* With whole experts in each rank: the weights hold experts e with e mod `every` = `own`, and
     * the sum leaves the others out. 0: they hold all. */
    uint32_t every;
    uint32_t own;
    void *scratch; /* a buffer of kernels_experts_bytes */
};
void kernels_experts(struct kernels *kernels, const struct experts_args *args);

/* Returns how many of `experts` a step of `rows` rows reads on average, if each row chose its
 * `used` ones at random: experts × (1 − (1 − used ÷ experts)^rows). With 128 experts and 8 used: 8
 * for one row, 82 for sixteen. */
double kernels_experts_read(uint32_t experts, uint32_t used, uint32_t rows);

#ifdef __cplusplus
}
#endif
