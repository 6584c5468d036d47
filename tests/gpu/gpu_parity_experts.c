/* gpu_parity_experts: routing, and layers of experts against linear layers of each expert alone. */
#include "tests/gpu/gpu_parity.h"

#include "kernels/kernels_experts.h"

enum { EXPERTS_RANDOM, EXPERTS_ONE, EXPERTS_APART, EXPERTS_EQUAL, EXPERTS_ROUTINGS };

struct shape {
    uint32_t experts, used, width, hidden, rows;
    uint32_t types[3]; /* of gate, up and down */
    enum act_kind act;
    bool has_bias;
};

/* Everything of one layer: weights of all experts together, inputs on both sides. */
struct layer {
    const struct shape *shape;
    struct tensor tensors[3]; /* {cols, rows of one expert × experts} */
    struct weight weights[3];
    float *bias[3]; /* on the host; NULL: none */
    float *bias_there[3];
    float *x;
    float *logits;
    float *x_there;
    float *logits_there;
    void *buffer; /* of the routes */
    void *scratch;
    struct kernels_routes routes; /* on the device, and on the host: */
    struct kernels_routes judge;
};

static uint32_t outputs_of(const struct shape *shape, int matrix)
{
    return matrix == 2 ? shape->width : shape->hidden;
}

static uint32_t inputs_of(const struct shape *shape, int matrix)
{
    return matrix == 2 ? shape->hidden : shape->width;
}

static void make_logits(struct layer *layer, int routing)
{
    const struct shape *shape = layer->shape;
    for (uint32_t i = 0; i < shape->rows * shape->experts; i++) {
        const uint32_t r = i / shape->experts;
        const uint32_t e = i % shape->experts;
        if (routing == EXPERTS_ONE)
            layer->logits[i] = (float)e;
        else if (routing == EXPERTS_APART)
            layer->logits[i] = -(float)((e + shape->experts - r % shape->experts) % shape->experts);
        else if (routing == EXPERTS_EQUAL)
            layer->logits[i] = 0.5f;
    }
    layer->logits_there =
        parity_up(layer->logits, shape->rows * shape->experts * sizeof *layer->logits);
}

static void open_layer(struct layer *layer, const struct shape *shape, int routing)
{
    const size_t bytes = kernels_routes_bytes(shape->rows, shape->experts, shape->used);
    *layer = (struct layer){.shape = shape};
    for (int i = 0; i < 3; i++) {
        const uint32_t outputs = outputs_of(shape, i) * shape->experts;
        layer->tensors[i] = parity_tensor(shape->types[i], outputs, inputs_of(shape, i));
        parity_must(
            cuda_backend_weight_create(parity.device, &layer->weights[i], &layer->tensors[i]),
            "weight");
        if (!shape->has_bias)
            continue;
        layer->bias[i] = parity_randoms(outputs, 1);
        layer->bias_there[i] = parity_up(layer->bias[i], outputs * sizeof(float));
    }
    layer->x = parity_randoms((size_t)shape->rows * shape->width, 1);
    layer->x_there = parity_up(layer->x, (size_t)shape->rows * shape->width * sizeof(float));
    layer->logits = parity_randoms((size_t)shape->rows * shape->experts, 3);
    make_logits(layer, routing);
    layer->buffer = parity_poison(bytes);
    kernels_routes_init(&layer->routes, layer->buffer, shape->rows, shape->experts, shape->used);
    kernels_routes_init(&layer->judge, parity_host(bytes), shape->rows, shape->experts,
                        shape->used);
    layer->scratch =
        parity_poison(cuda_experts_bytes(shape->rows, shape->used, shape->width, shape->hidden));
}

static void close_layer(struct layer *layer)
{
    for (int i = 0; i < 3; i++) {
        cuda_backend_weight_destroy(parity.device, &layer->weights[i]);
        free((void *)(uintptr_t)layer->tensors[i].data);
        free(layer->bias[i]);
        parity_drop(layer->bias_there[i]);
    }
    parity_drop(layer->x_there), parity_drop(layer->logits_there);
    parity_drop(layer->buffer), parity_drop(layer->scratch);
    free(layer->x), free(layer->logits), free(layer->judge.expert);
}

/* --- routing --- */

/* The host has the judge's routes and then, with them equal, the device's weights. */
static void check_route(struct layer *layer, bool is_normalised, const char *what)
{
    const struct shape *shape = layer->shape;
    const size_t pairs = (size_t)shape->rows * shape->used;
    const size_t bytes = kernels_routes_bytes(shape->rows, shape->experts, shape->used);
    struct kernels_routes got;
    struct route_args args = {layer->logits, shape->rows, is_normalised, &layer->judge};
    kernels_route(parity.ref, &args);
    args.logits = layer->logits_there;
    args.routes = &layer->routes;
    cuda_route(parity.device, &args);
    kernels_routes_init(&got, parity_host(bytes), shape->rows, shape->experts, shape->used);
    parity_down(got.expert, layer->buffer, bytes);
    double worst = parity_same(got.expert, layer->judge.expert, pairs * sizeof *got.expert);
    worst = fmax(worst, parity_same(got.begin, layer->judge.begin,
                                    (shape->experts + 1) * sizeof *got.begin));
    worst = fmax(worst, parity_same(got.row, layer->judge.row, pairs * sizeof *got.row));
    worst = fmax(worst, parity_same(got.place, layer->judge.place, pairs * sizeof *got.place));
    parity_tell(worst, "route %u rows, %u of %u, %s: order", shape->rows, shape->used,
                shape->experts, what);
    /* e^x to 2 ulp in each of two sums; weights are at most 1. */
    parity_tell(parity_worst(got.weight, layer->judge.weight, pairs, 1e-6),
                "route %u rows, %u of %u, %s: weights", shape->rows, shape->used, shape->experts,
                what);
    memcpy(layer->judge.weight, got.weight, pairs * sizeof *got.weight);
    free(got.expert);
}

/* Each pair is in one piece, a piece has pairs of one expert, and there are as many as announced.
 */
static void check_pieces(const struct layer *layer)
{
    const struct shape *shape = layer->shape;
    const uint32_t count = kernels_routes_pieces(shape->rows, shape->experts, shape->used);
    const uint32_t pairs = shape->rows * shape->used;
    struct kernels_experts_piece *pieces = parity_host(count * sizeof *pieces);
    uint32_t *seen = parity_host(pairs * sizeof *seen);
    double worst = 0;
    parity_down(pieces, layer->routes.pieces, count * sizeof *pieces);
    for (uint32_t i = 0; i < count; i++) {
        const struct kernels_experts_piece *piece = &pieces[i];
        if (piece->pairs == 0)
            continue;
        const bool is_whole = piece->expert < shape->experts &&
                              piece->pairs <= KERNELS_EXPERTS_PIECE &&
                              piece->first >= layer->judge.begin[piece->expert] &&
                              piece->first + piece->pairs <= layer->judge.begin[piece->expert + 1];
        for (uint32_t p = 0; is_whole && p < piece->pairs; p++)
            seen[piece->first + p]++;
        worst = is_whole ? worst : INFINITY;
    }
    for (uint32_t p = 0; p < pairs; p++)
        worst = seen[p] == 1 ? worst : INFINITY;
    parity_tell(worst, "route %u rows, %u of %u: pieces", shape->rows, shape->used, shape->experts);
    free(pieces), free(seen);
}

/* --- layers --- */

static struct experts_args args_of(const struct layer *layer, const float *x, uint32_t rows,
                                   float *y)
{
    return (struct experts_args){.x = x,
                                 .y = y,
                                 .rows = rows,
                                 .routes = &layer->routes,
                                 .gate = &layer->weights[0],
                                 .up = &layer->weights[1],
                                 .down = &layer->weights[2],
                                 .gate_bias = layer->bias_there[0],
                                 .up_bias = layer->bias_there[1],
                                 .down_bias = layer->bias_there[2],
                                 .act = layer->shape->act,
                                 .scratch = layer->scratch};
}

/* y[rows] = x · one expert's matrixᵀ + bias, as a layer of its own; x and y on the device. */
static void one_linear(const struct layer *layer, int matrix, uint32_t expert, const float *x,
                       uint32_t rows, float *y)
{
    const uint32_t outputs = outputs_of(layer->shape, matrix);
    struct tensor tensor = layer->tensors[matrix];
    struct weight weight;
    tensor.dims[1] = outputs;
    tensor.bytes /= layer->shape->experts;
    tensor.data = (const char *)tensor.data + expert * tensor.bytes;
    parity_must(cuda_backend_weight_create(parity.device, &weight, &tensor), "weight");
    struct linear_args args = {.x = x, .rows = rows, .count = 1, .weights = {&weight}, .y = {y}};
    if (layer->bias[matrix] != NULL)
        args.bias[0] = layer->bias_there[matrix] + (size_t)expert * outputs;
    cuda_linear(parity.device, &args);
    parity_must(cuda_backend_end(parity.device), "linear");
    cuda_backend_weight_destroy(parity.device, &weight);
}

/* Computes one expert's pairs by separate operations; `results` [pairs][width] on the host. */
static void one_expert(const struct layer *layer, uint32_t expert, float *results)
{
    const struct shape *shape = layer->shape;
    const uint32_t begin = layer->judge.begin[expert];
    const uint32_t rows = layer->judge.begin[expert + 1] - begin;
    const size_t width = shape->width;
    if (rows == 0)
        return;
    float *x = parity_host(rows * width * sizeof *x);
    for (uint32_t i = 0; i < rows; i++)
        memcpy(x + i * width, layer->x + layer->judge.row[begin + i] * width, width * sizeof *x);
    float *x_there = parity_up(x, rows * width * sizeof *x);
    float *gate = parity_poison((size_t)rows * shape->hidden * sizeof *x);
    float *up = parity_poison((size_t)rows * shape->hidden * sizeof *x);
    float *out = parity_poison(rows * width * sizeof *x);
    one_linear(layer, 0, expert, x_there, rows, gate);
    one_linear(layer, 1, expert, x_there, rows, up);
    cuda_act(parity.device,
             &(struct act_args){
                 .kind = shape->act, .x = gate, .up = up, .rows = rows, .cols = shape->hidden});
    one_linear(layer, 2, expert, gate, rows, out);
    parity_down(results + begin * width, out, rows * width * sizeof *x);
    parity_drop(x_there), parity_drop(gate), parity_drop(up), parity_drop(out);
    free(x);
}

/* All rows at once give the bits of each expert alone and of the sum in slot order. */
static void check_layer(const struct layer *layer, float *y)
{
    const struct shape *shape = layer->shape;
    const size_t width = shape->width;
    const size_t n = shape->rows * width;
    float *results = parity_host(n * shape->used * sizeof *results);
    float *want = parity_randoms(n, 1);
    float *y_there = parity_up(want, n * sizeof *want);
    struct experts_args args = args_of(layer, layer->x_there, shape->rows, y_there);
    args.accumulate = true;
    cuda_experts(parity.device, &args);
    parity_down(y, y_there, n * sizeof *y);
    for (uint32_t e = 0; e < shape->experts; e++)
        one_expert(layer, e, results);
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t slot = 0; slot < shape->used; slot++) {
            const size_t pair = i / width * shape->used + slot;
            sum = fmaf(layer->judge.weight[pair],
                       results[layer->judge.place[pair] * width + i % width], sum);
        }
        want[i] += sum;
    }
    parity_tell(parity_same(y, want, n * sizeof *y), "experts %s, %s: %u rows, %u of %u: bits",
                layer->tensors[0].type->name, layer->tensors[2].type->name, shape->rows,
                shape->used, shape->experts);
    args.accumulate = false;
    cuda_experts(parity.device, &args);
    parity_down(y, y_there, n * sizeof *y);
    parity_drop(y_there);
    free(results), free(want);
}

/* Rows alone and a few together have the bits that they have together with all. */
static void check_row_bits(const struct layer *layer, const float *all, bool is_normalised)
{
    static const uint32_t cuts[] = {1, 3, 9};
    const struct shape *shape = layer->shape;
    double worst = 0;
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts && cuts[c] <= shape->rows; c++) {
        const uint32_t rows = cuts[c];
        const size_t first = shape->rows - rows;
        const size_t n = (size_t)rows * shape->width;
        float *y = parity_poison(n * sizeof *y);
        float *got = parity_host(n * sizeof *got);
        const struct route_args route = {layer->logits_there + first * shape->experts, rows,
                                         is_normalised, &layer->routes};
        const struct experts_args args =
            args_of(layer, layer->x_there + first * shape->width, rows, y);
        cuda_route(parity.device, &route);
        cuda_experts(parity.device, &args);
        parity_down(got, y, n * sizeof *got);
        worst = fmax(worst, parity_same(got, all + first * shape->width, n * sizeof *got));
        parity_drop(y);
        free(got);
    }
    parity_tell(worst, "experts %s, %u rows: bits of a row", layer->tensors[0].type->name,
                shape->rows);
}

static void check_shape(const struct shape *shape, int routing)
{
    static const char *const names[] = {"any", "one", "apart", "equal"};
    const bool is_normalised = routing % 2 == 0;
    struct layer layer;
    open_layer(&layer, shape, routing);
    float *y = parity_host((size_t)shape->rows * shape->width * sizeof *y);
    check_route(&layer, is_normalised, names[routing]);
    check_pieces(&layer);
    check_layer(&layer, y);
    check_row_bits(&layer, y, is_normalised);
    free(y);
    close_layer(&layer);
}

/* A NaN is chosen last, and reaches its own row's weights only. */
static void check_not_numbers(void)
{
    enum { ROWS = 3, EXPERTS = 40, USED = 2 };
    const size_t bytes = kernels_routes_bytes(ROWS, EXPERTS, USED);
    float *logits = parity_randoms(ROWS * EXPERTS, 1);
    struct kernels_routes there;
    struct kernels_routes got;
    void *buffer = parity_poison(bytes);
    for (uint32_t e = 0; e < EXPERTS; e++)
        logits[EXPERTS + e] = e == 33 ? 0 : NAN;
    float *logits_there = parity_up(logits, ROWS * EXPERTS * sizeof *logits);
    kernels_routes_init(&there, buffer, ROWS, EXPERTS, USED);
    kernels_routes_init(&got, parity_host(bytes), ROWS, EXPERTS, USED);
    cuda_route(parity.device, &(struct route_args){logits_there, ROWS, false, &there});
    parity_down(got.expert, buffer, bytes);
    bool is_well = got.expert[2] == 33 && got.expert[3] == 0 && got.begin[EXPERTS] == ROWS * USED;
    for (uint32_t i = 0; i < ROWS * USED; i++)
        is_well = is_well && isnan(got.weight[i]) == (i / USED == 1);
    parity_tell(is_well ? 0 : INFINITY, "route: not numbers");
    parity_drop(logits_there), parity_drop(buffer);
    free(logits), free(got.expert);
}

/* Whole experts in each of two ranks: a rank's sum has its own experts' share alone, and the two
 * sums add up to that of all experts. */
static void check_whole_experts(void)
{
    enum { RANKS = 2, N = 9 * 64 };
    static const struct shape shape = {
        5, 3, 64, 32, 9, {TENSOR_TYPE_q8_0, TENSOR_TYPE_q8_0, TENSOR_TYPE_f32}, ACT_SILU_MUL, true};
    struct layer layer;
    float y[1 + RANKS][N];
    float *y_there = parity_poison(sizeof y[0]);
    open_layer(&layer, &shape, EXPERTS_RANDOM);
    struct experts_args args = args_of(&layer, layer.x_there, shape.rows, y_there);
    cuda_route(parity.device,
               &(struct route_args){layer.logits_there, shape.rows, true, &layer.routes});
    cuda_experts(parity.device, &args);
    parity_down(y[0], y_there, sizeof y[0]);
    args.every = RANKS;
    for (args.own = 0; args.own < RANKS; args.own++) {
        struct weight own[3];
        float *bias[3];
        for (int m = 0; m < 3; m++) {
            const uint32_t outputs = outputs_of(&shape, m);
            struct tensor tensor = layer.tensors[m];
            const size_t each = tensor.bytes / shape.experts;
            char *data = parity_host(tensor.bytes);
            float *biases = parity_host(shape.experts * outputs * sizeof *biases);
            uint32_t here = 0;
            for (uint32_t e = args.own; e < shape.experts; e += RANKS, here++) {
                memcpy(data + here * each, (const char *)tensor.data + e * each, each);
                memcpy(biases + here * outputs, layer.bias[m] + e * outputs,
                       outputs * sizeof *biases);
            }
            tensor.data = data;
            tensor.bytes = here * each;
            tensor.dims[1] = here * outputs;
            parity_must(cuda_backend_weight_create(parity.device, &own[m], &tensor), "weight");
            bias[m] = parity_up(biases, here * outputs * sizeof *biases);
            free(data), free(biases);
        }
        args.gate = &own[0], args.up = &own[1], args.down = &own[2];
        args.gate_bias = bias[0], args.up_bias = bias[1], args.down_bias = bias[2];
        cuda_experts(parity.device, &args);
        parity_down(y[1 + args.own], y_there, sizeof y[0]);
        for (int m = 0; m < 3; m++) {
            cuda_backend_weight_destroy(parity.device, &own[m]);
            parity_drop(bias[m]);
        }
    }
    for (uint32_t i = 0; i < N; i++)
        y[1][i] += y[2][i];
    /* Three terms, each rounded otherwise; results are about 10. */
    parity_tell(parity_worst(y[1], y[0], N, 2e-5), "experts, whole in two ranks");
    parity_drop(y_there);
    close_layer(&layer);
}

void gpu_parity_experts(void)
{
    static const uint32_t TYPES[] = {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m) TENSOR_TYPE_##name,
#include "kernels/types/tensor_types.def"
    };
    static const struct shape shapes[] = {
        {1,
         1,
         32,
         32,
         2,
         {TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_0},
         ACT_SILU_MUL,
         false},
        {37,
         5,
         96,
         64,
         21,
         {TENSOR_TYPE_f32, TENSOR_TYPE_q5_0, TENSOR_TYPE_mxfp4},
         ACT_SILU_MUL,
         true},
        {3,
         2,
         64,
         160,
         70,
         {TENSOR_TYPE_q4_1, TENSOR_TYPE_q4_1, TENSOR_TYPE_f32},
         ACT_SILU_MUL,
         false},
    };
    check_not_numbers();
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        const bool is_large = tensor_type_info(TYPES[t])->block_elements > 32;
        struct shape shape = {.experts = 3, .used = 2, .rows = 4};
        shape.width = is_large ? 256 : 64;
        shape.hidden = is_large ? 256 : 32;
        shape.act = t % 2 == 0 ? ACT_SILU_MUL : ACT_CLAMPED_MUL;
        shape.has_bias = t % 2 == 1;
        for (int i = 0; i < 3; i++)
            shape.types[i] = TYPES[t];
        check_shape(&shape, (int)t % EXPERTS_ROUTINGS);
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int routing = 0; routing < EXPERTS_ROUTINGS; routing++)
            check_shape(&shapes[i], routing);
    check_whole_experts();
}
