#include "kernels/cuda/cuda_act.cuh"
#include "kernels/cuda/cuda_linear.cuh"
#include "kernels/cuda/cuda_linear_lt.cuh"
#include "kernels/cuda/cuda_ops.h"

/* Rounds a layer's input once for all its matrices, and chooses the kernels. */

enum {
    LINEAR_INPUT_EXPONENT = 8, /* a row's greatest input, scaled, is in [2^8, 2^9) */
    LINEAR_ROWS = 8,           /* of a float32 block */
};

/* How inputs are rounded, and their order. */
enum linear_kind {
    LINEAR_KIND_F32,   /* not at all; only the norm's factor is computed */
    LINEAR_KIND_CODES, /* float16 of x × the row's own power of two, in the order of fragments */
    LINEAR_KIND_F16,   /* the same, in column order */
    LINEAR_KIND_BF16,
    LINEAR_KIND_F16_LT, /* one power of two for all rows, which alpha undoes */
};

struct linear_input {
    const float *x;        /* [rows][cols] */
    const uint32_t *order; /* [rows] of x, or NULL: row i is row order[i] of x */
    uint32_t rows;
    uint32_t cols;
    uint32_t pairs;
    enum linear_kind kind;
    const float *norm; /* [cols], or NULL */
    const float *norm_bias;
    enum norm_kind norm_kind;
    float epsilon;
    uint16_t *packed; /* [row][pairs × 64] */
    float *sums;      /* [row][part] of the rounded inputs; for float32 [row]: the norm's mean */
    float *scales;    /* [row] the reciprocal of the row's scale; for float32 the norm's factor */
};

/* Returns the power of two that scales a row; *undo is its reciprocal. */
static __device__ float linear_scale(float max, float *undo)
{
    uint32_t exponent = 254 + LINEAR_INPUT_EXPONENT - (__float_as_uint(max) >> 23);
    exponent = exponent > 253 ? 253 : exponent;
    *undo = __uint_as_float((254 - exponent) << 23);
    return __uint_as_float(exponent << 23);
}

static __device__ const float *linear_row(const struct linear_input *input, uint32_t row)
{
    return input->x + (size_t)(input->order != NULL ? input->order[row] : row) * input->cols;
}

/* Returns the norm's factors of a row, with the bits of k_norm_f32_cuda. */
static __device__ struct cuda_act_norm linear_norm(const struct linear_input *input, uint32_t row)
{
    const struct cuda_act_norm none = {0, 1};
    return input->norm == NULL ? none
                               : cuda_act_norm_of(input->norm_kind, linear_row(input, row),
                                                  input->cols, input->epsilon);
}

static __device__ float linear_element(const struct linear_input *input, uint32_t row, uint32_t col,
                                       const struct cuda_act_norm &norm)
{
    const float x = linear_row(input, row)[col];
    return input->norm == NULL
               ? x
               : cuda_act_normed(input->norm_kind, norm, x, input->norm[col],
                                 input->norm_bias != NULL ? input->norm_bias + col : NULL);
}

static __device__ uint16_t linear_round(const struct linear_input *input, uint32_t row,
                                        uint32_t col, const struct cuda_act_norm &norm, float scale)
{
    if (col >= input->cols)
        return 0;
    const float x = linear_element(input, row, col, norm);
    return input->kind == LINEAR_KIND_BF16 ? cuda_machine_bf16(x) : cuda_machine_half(x * scale);
}

/* Returns the position of input `col` in its row. For codes, each lane's eight inputs of a part are
 * adjacent, in the order of the instruction's B side. */
static __device__ uint32_t linear_column(enum linear_kind kind, uint32_t col)
{
    const uint32_t in = col % CUDA_WEIGHT_PART;
    const uint32_t k = col % CUDA_WEIGHT_STEP;
    if (kind != LINEAR_KIND_CODES)
        return col;
    return col - in + k % 8 / 2 * 8 + (in / CUDA_WEIGHT_STEP * 2 + k / 8) * 2 + k % 2;
}

/* A block is one row. */
__global__ void k_linear_input_cuda(struct linear_input input)
{
    cuda_machine_begin();
    const uint32_t row = blockIdx.x;
    const uint32_t width = input.pairs * 2 * CUDA_WEIGHT_PART;
    const struct cuda_act_norm norm = linear_norm(&input, row);
    float max = 0;
    float undo = 1;
    float scale = 1;
    if (input.kind == LINEAR_KIND_CODES || input.kind == LINEAR_KIND_F16) {
        for (uint32_t col = threadIdx.x; col < input.cols; col += CUDA_MACHINE_BLOCK)
            max = fmaxf(max, fabsf(linear_element(&input, row, col, norm)));
        scale = linear_scale(cuda_machine_block_max(max), &undo);
    } else if (input.kind == LINEAR_KIND_F16_LT) {
        scale = 1 / CUDA_LINEAR_LT_SCALE;
    }
    if (threadIdx.x == 0)
        input.scales[row] = input.kind == LINEAR_KIND_F32 ? norm.scale : undo;
    if (input.kind == LINEAR_KIND_F32) {
        if (threadIdx.x == 0)
            input.sums[row] = norm.mean;
        return;
    }
    for (uint32_t col = threadIdx.x; col < width; col += CUDA_MACHINE_BLOCK)
        input.packed[(size_t)row * width + linear_column(input.kind, col)] =
            linear_round(&input, row, col, norm, scale);
    if (input.kind != LINEAR_KIND_CODES)
        return;
    for (uint32_t part = threadIdx.x; part < input.pairs * 2; part += CUDA_MACHINE_BLOCK) {
        float sum = 0;
        for (uint32_t i = 0; i < CUDA_WEIGHT_PART; i++)
            sum += cuda_machine_half_float(
                linear_round(&input, row, part * CUDA_WEIGHT_PART + i, norm, scale));
        input.sums[(size_t)row * input.pairs * 2 + part] = sum;
    }
}

/* --- weights of float32 ---
 * Matrix instructions do not take them. A warp computes one output and eight rows with
 * multiply-adds, in the order of a lane, then lane by lane. */

struct linear_f32 {
    const unsigned char *packed;
    struct linear_input input;
    float *y;
    const float *bias; /* [outputs], or NULL */
    uint32_t outputs;
    bool accumulate;
};

/* Computes output `output` of the layer from row `of` of the weights, for up to LINEAR_ROWS of the
 * `left` rows from `row` on. */
static __device__ void linear_f32_rows(const struct linear_f32 *call, uint32_t of, uint32_t output,
                                       uint32_t row, uint32_t left)
{
    const struct linear_input *input = &call->input;
    const uint32_t lane = threadIdx.x % 32;
    const float *w = (const float *)(call->packed + CUDA_WEIGHT_HEAD) +
                     (size_t)of * input->pairs * 2 * CUDA_WEIGHT_PART;
    float total[LINEAR_ROWS] = {};
    for (uint32_t col = lane; col < input->cols; col += 32) {
        const float weight = w[col];
#pragma unroll
        for (uint32_t r = 0; r < LINEAR_ROWS; r++)
            if (r < left) {
                const struct cuda_act_norm norm = {input->sums[row + r], input->scales[row + r]};
                total[r] = fmaf(weight, linear_element(input, row + r, col, norm), total[r]);
            }
    }
#pragma unroll
    for (uint32_t r = 0; r < LINEAR_ROWS; r++) {
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2)
            total[r] += __shfl_xor_sync(0xffffffffu, total[r], mask);
        float *y = call->y + (size_t)(row + r) * call->outputs + output;
        if (call->bias != NULL)
            total[r] += call->bias[of];
        if (lane == 0 && r < left)
            *y = call->accumulate ? *y + total[r] : total[r];
    }
}

__global__ void k_linear_f32_cuda(struct linear_f32 call)
{
    cuda_machine_begin();
    const uint32_t output = blockIdx.x * LINEAR_WARPS + threadIdx.x / 32;
    const uint32_t row = blockIdx.y * LINEAR_ROWS;
    if (output < call.outputs)
        linear_f32_rows(&call, output, output, row, call.input.rows - row);
}

struct linear_f32_pieces {
    struct linear_f32 call; /* outputs: those of one expert */
    struct linear_pieces pieces;
};

__global__ void k_linear_f32_pieces_cuda(struct linear_f32_pieces of)
{
    cuda_machine_begin();
    const struct linear_piece piece = linear_piece_of(&of.pieces, blockIdx.x);
    const uint32_t output = blockIdx.y * LINEAR_WARPS + threadIdx.x / 32;
    const uint32_t row = blockIdx.z * LINEAR_ROWS; /* of the piece */
    if (output < of.call.outputs && row < piece.rows)
        linear_f32_rows(&of.call, piece.expert * of.call.outputs + output, output,
                        piece.first + row, piece.rows - row);
}

static void linear_f32(struct cuda_backend *backend, const struct linear_args *args,
                       const struct linear_input *input, uint32_t index, float *y)
{
    const struct weight *weight = args->weights[index];
    struct linear_f32 call = {};
    call.packed = (const unsigned char *)weight->packed;
    call.input = *input;
    call.y = y;
    call.bias = args->bias[index];
    call.outputs = weight->rows;
    call.accumulate = args->accumulate;
    cuda_backend_launch_early(backend, "linear",
                              dim3((weight->rows + LINEAR_WARPS - 1) / LINEAR_WARPS,
                                   (args->rows + LINEAR_ROWS - 1) / LINEAR_ROWS),
                              LINEAR_THREADS, k_linear_f32_cuda, call);
}

/* --- what cuBLASLt leaves to others --- */

struct linear_bias {
    float *y;
    const float *bias;
    uint32_t rows;
    uint32_t outputs;
};

__global__ void k_linear_bias_cuda(struct linear_bias call)
{
    cuda_machine_begin();
    const size_t i = (size_t)blockIdx.x * LINEAR_THREADS + threadIdx.x;
    if (i < (size_t)call.rows * call.outputs)
        call.y[i] += call.bias[i % call.outputs];
}

static void linear_lt(struct cuda_backend *backend, const struct linear_args *args, uint32_t index,
                      uint32_t parts, float *y)
{
    const struct weight *weight = args->weights[index];
    const struct linear_bias call = {y, args->bias[index], args->rows, weight->rows};
    const size_t all = (size_t)args->rows * weight->rows;
    cuda_linear_lt(backend, weight, parts, args->rows, y, args->accumulate);
    if (call.bias != NULL)
        cuda_backend_launch_early(backend, "linear's bias",
                                  dim3((unsigned)((all + LINEAR_THREADS - 1) / LINEAR_THREADS)),
                                  LINEAR_THREADS, k_linear_bias_cuda, call);
}

/* --- the choice --- */

static enum linear_form linear_form_of(const struct cuda_weight_form *form)
{
    if (form->bits == 16)
        return form->is_bf16 ? LINEAR_BF16 : LINEAR_F16;
    if (form->bits == 4)
        return form->group > 1 ? LINEAR_4_GROUP : form->has_m ? LINEAR_4_M : LINEAR_4;
    return form->has_m ? LINEAR_8_M : form->is_split ? LINEAR_8_SPLIT : LINEAR_8;
}

/* Returns whether one launch can compute matrices of both forms. */
static bool linear_is_alike(const struct cuda_weight_form *a, const struct cuda_weight_form *b)
{
    return a->parts == b->parts && a->bits == b->bits && linear_form_of(a) == linear_form_of(b);
}

/* Returns whether cuBLASLt computes the layer: many rows of 16-bit floats, where bits may depend on
 * other rows. */
static bool linear_is_lt(const struct cuda_backend *backend, const struct linear_args *args,
                         const struct cuda_weight_form *form)
{
    return backend->lt != NULL && form->bits == 16 && args->rows >= CUDA_LINEAR_LT_ROWS;
}

static enum linear_kind linear_kind_of(const struct cuda_weight_form *form, bool is_lt)
{
    if (form->bits == 32)
        return LINEAR_KIND_F32;
    if (form->bits < 16)
        return LINEAR_KIND_CODES;
    return form->is_bf16 ? LINEAR_KIND_BF16 : is_lt ? LINEAR_KIND_F16_LT : LINEAR_KIND_F16;
}

/* Runs matrices `begin` to `end`, all of one form. */
static void linear_run(struct cuda_backend *backend, const struct linear_args *args,
                       const struct cuda_weight_form *forms, float *const *y, uint32_t begin,
                       uint32_t end)
{
    struct linear_call call = {};
    for (uint32_t i = begin; i < end; i++) {
        struct linear_matrix *matrix = &call.matrix[call.count++];
        matrix->packed = (const unsigned char *)args->weights[i]->packed;
        matrix->factors_at = forms[i].factors_at;
        matrix->y = y[i];
        matrix->bias = args->bias[i];
        matrix->tiles = forms[i].tiles;
        matrix->outputs = args->weights[i]->rows;
        matrix->column = call.columns;
        call.columns += matrix->outputs;
    }
    call.pairs = forms[begin].parts / 2;
    call.segment = cuda_weight_segment(call.pairs);
    call.rows = args->rows;
    call.input = (const unsigned char *)backend->input;
    call.sums = backend->input_sums;
    call.scales = backend->input_scales;
    call.accumulate = args->accumulate;
    if (args->rows > LINEAR_ROWS_FEW)
        cuda_linear_tile(backend, linear_form_of(&forms[begin]), &call);
    else
        cuda_linear_few(backend, linear_form_of(&forms[begin]), &call);
}

static void linear_pack(struct cuda_backend *backend, const struct linear_args *args,
                        const struct cuda_weight_form *form, enum linear_kind kind,
                        struct linear_input *input)
{
    input->x = args->x;
    input->rows = args->rows;
    input->cols = args->weights[0]->cols;
    input->pairs = form->parts / 2;
    input->kind = kind;
    input->norm = args->norm;
    input->norm_bias = args->norm_bias;
    input->norm_kind = args->norm_kind;
    input->epsilon = args->epsilon;
    input->packed = (uint16_t *)backend->input;
    input->sums = backend->input_sums;
    input->scales = backend->input_scales;
    cuda_backend_launch_early(backend, "linear's input", dim3(args->rows), CUDA_MACHINE_BLOCK,
                              k_linear_input_cuda, *input);
}

static void linear_all(struct cuda_backend *backend, const struct linear_args *args,
                       const struct cuda_weight_form *forms, float *const *y)
{
    struct linear_input input = {};
    for (uint32_t i = 0, next; i < args->count; i = next) {
        const bool is_lt = linear_is_lt(backend, args, &forms[i]);
        const enum linear_kind kind = linear_kind_of(&forms[i], is_lt);
        if (i == 0 || input.kind != kind || input.pairs != forms[i].parts / 2)
            linear_pack(backend, args, &forms[i], kind, &input);
        next = i + 1;
        if (kind == LINEAR_KIND_F32) {
            linear_f32(backend, args, &input, i, y[i]);
        } else if (is_lt) {
            linear_lt(backend, args, i, forms[i].parts, y[i]);
        } else {
            while (next < args->count && linear_is_alike(&forms[next], &forms[i]))
                next++;
            linear_run(backend, args, forms, y, i, next);
        }
    }
}

/* Runs the activation over what the matrices have left in y. */
static void linear_act(struct cuda_backend *backend, const struct linear_args *args,
                       float *const *y)
{
    const bool takes_two = kernels_act_takes_two(args->act);
    for (uint32_t i = 0; i < (takes_two ? 1 : args->count); i++) {
        struct act_args act = {};
        act.kind = args->act;
        act.x = y[i];
        act.up = takes_two ? y[1] : NULL;
        act.rows = args->rows;
        act.cols = args->weights[i]->rows;
        cuda_act(backend, &act);
    }
}

extern "C" void cuda_linear(struct cuda_backend *backend, const struct linear_args *args)
{
    struct cuda_weight_form forms[LINEAR_WEIGHTS_MAX];
    float *y[LINEAR_WEIGHTS_MAX];
    const bool takes_two = kernels_act_takes_two(args->act);
    ASSERT(args->rows <= backend->options.rows_max);
    ASSERT(args->weights[0]->cols <= backend->options.cols_max);
    ASSERT(args->act == ACT_NONE || !args->accumulate);
    if (takes_two) {
        ASSERT(args->count == 2);
        ASSERT(args->weights[0]->rows == args->weights[1]->rows);
        ASSERT(args->weights[0]->rows <= backend->options.cols_max);
    }
    for (uint32_t i = 0; i < args->count; i++) {
        const struct weight *weight = args->weights[i];
        ASSERT(weight->cols == args->weights[0]->cols);
        if (cuda_weight_form(&forms[i], weight->type, weight->rows, weight->cols, weight->group) !=
            STATUS_OK)
            return; /* such a weight was never created */
        y[i] = i == 1 && takes_two ? backend->gated : args->y[i];
    }
    if (args->rows > 0)
        linear_all(backend, args, forms, y);
    if (args->act != ACT_NONE)
        linear_act(backend, args, y);
}

/* --- layers of experts --- */

static void linear_pieces_pack(struct cuda_backend *backend, const struct cuda_linear_pieces *layer,
                               const struct cuda_weight_form *form, enum linear_kind kind,
                               struct linear_input *input)
{
    *input = linear_input{};
    input->x = layer->x;
    input->order = layer->order;
    input->rows = layer->rows;
    input->cols = layer->weights[0]->cols;
    input->pairs = form->parts / 2;
    input->kind = kind;
    input->packed = layer->room.packed;
    input->sums = layer->room.sums;
    input->scales = layer->room.scales;
    cuda_backend_launch_early(backend, "experts' input", dim3(layer->rows), CUDA_MACHINE_BLOCK,
                              k_linear_input_cuda, *input);
}

static void linear_pieces_f32(struct cuda_backend *backend, const struct cuda_linear_pieces *layer,
                              const struct linear_input *input, uint32_t index)
{
    struct linear_f32_pieces of = {};
    of.call.packed = (const unsigned char *)layer->weights[index]->packed;
    of.call.input = *input;
    of.call.y = layer->y[index];
    of.call.bias = layer->bias[index];
    of.call.outputs = layer->outputs;
    of.pieces = layer->pieces;
    cuda_backend_launch_early(backend, "experts",
                              dim3(of.pieces.count,
                                   (layer->outputs + LINEAR_WARPS - 1) / LINEAR_WARPS,
                                   KERNELS_EXPERTS_PIECE / LINEAR_ROWS),
                              LINEAR_THREADS, k_linear_f32_pieces_cuda, of);
}

/* Runs matrices `begin` to `end`, all of one form. */
static void linear_pieces_run(struct cuda_backend *backend, const struct cuda_linear_pieces *layer,
                              const struct cuda_weight_form *forms, uint32_t begin, uint32_t end)
{
    struct linear_call call = {};
    for (uint32_t i = begin; i < end; i++) {
        struct linear_matrix *matrix = &call.matrix[call.count++];
        matrix->packed = (const unsigned char *)layer->weights[i]->packed;
        matrix->factors_at = forms[i].factors_at;
        matrix->y = layer->y[i];
        matrix->bias = layer->bias[i];
        matrix->tiles = layer->outputs / CUDA_WEIGHT_TILE;
        matrix->outputs = layer->outputs;
        matrix->column = call.columns;
        call.columns += matrix->outputs;
    }
    call.pairs = forms[begin].parts / 2;
    call.segment = cuda_weight_segment(call.pairs);
    call.rows = layer->rows;
    call.input = (const unsigned char *)layer->room.packed;
    call.sums = layer->room.sums;
    call.scales = layer->room.scales;
    cuda_linear_few_pieces(backend, linear_form_of(&forms[begin]), &call, &layer->pieces);
}

void cuda_linear_pieces(struct cuda_backend *backend, const struct cuda_linear_pieces *layer)
{
    struct cuda_weight_form forms[LINEAR_WEIGHTS_MAX];
    struct linear_input input = {};
    for (uint32_t i = 0; i < layer->count; i++) {
        const struct weight *weight = layer->weights[i];
        ASSERT(weight->cols == layer->weights[0]->cols);
        ASSERT(layer->outputs % CUDA_WEIGHT_TILE == 0);
        if (cuda_weight_form(&forms[i], weight->type, weight->rows, weight->cols, weight->group) !=
            STATUS_OK)
            return; /* such a weight was never created */
    }
    for (uint32_t i = 0, next; i < layer->count; i = next) {
        const enum linear_kind kind = linear_kind_of(&forms[i], false);
        if (i == 0 || input.kind != kind || input.pairs != forms[i].parts / 2)
            linear_pieces_pack(backend, layer, &forms[i], kind, &input);
        next = i + 1;
        if (kind == LINEAR_KIND_F32) {
            linear_pieces_f32(backend, layer, &input, i);
            continue;
        }
        while (next < layer->count && linear_is_alike(&forms[next], &forms[i]))
            next++;
        linear_pieces_run(backend, layer, forms, i, next);
    }
}
