#include "kernels/cuda/cuda_linear.cuh"
#include "kernels/cuda/cuda_ops.h"

/* A layer of experts is the linear layer of gate and up over the pieces of a routing, the
 * activation, the linear layer of down, and the sum of each row's slots. The grid of every launch
 * depends on the number of rows alone: an expert that no row uses has no piece, and blocks of
 * pieces that do not exist end at once. */

enum { EXPERTS_ALIGNMENT = 256 };

/* The scratch, laid out for `pairs`. */
struct experts_scratch {
    struct cuda_linear_room room;
    float *gate;   /* [pairs][hidden], then activated */
    float *up;     /* [pairs][hidden] */
    float *result; /* [pairs][width] */
};

static void *experts_take(char *scratch, size_t *used, size_t bytes)
{
    char *out = scratch == NULL ? NULL : scratch + *used;
    *used += (bytes + EXPERTS_ALIGNMENT - 1) / EXPERTS_ALIGNMENT * EXPERTS_ALIGNMENT;
    return out;
}

/* Returns the bytes used. */
static size_t experts_lay(struct experts_scratch *out, void *scratch, size_t pairs, uint32_t width,
                          uint32_t hidden)
{
    const size_t cols = width > hidden ? width : hidden;
    const size_t padded = (cols + CUDA_WEIGHT_GROUP - 1) / CUDA_WEIGHT_GROUP * CUDA_WEIGHT_GROUP;
    char *memory = (char *)scratch;
    size_t used = 0;
    out->room.packed = (uint16_t *)experts_take(memory, &used, pairs * padded * sizeof(uint16_t));
    out->room.sums =
        (float *)experts_take(memory, &used, pairs * (padded / CUDA_WEIGHT_PART) * sizeof(float));
    out->room.scales = (float *)experts_take(memory, &used, pairs * sizeof(float));
    out->gate = (float *)experts_take(memory, &used, pairs * hidden * sizeof(float));
    out->up = (float *)experts_take(memory, &used, pairs * hidden * sizeof(float));
    out->result = (float *)experts_take(memory, &used, pairs * width * sizeof(float));
    return used;
}

extern "C" size_t cuda_experts_bytes(uint32_t rows_max, uint32_t used, uint32_t width,
                                     uint32_t hidden)
{
    struct experts_scratch scratch;
    return experts_lay(&scratch, NULL, (size_t)rows_max * used, width, hidden);
}

struct experts_sum {
    struct experts_args args;
    struct kernels_routes routes;
    const float *result;
    uint32_t width;
};

/* A thread is one column of one row. */
__global__ void k_experts_sum_cuda(struct experts_sum call)
{
    cuda_machine_begin();
    const size_t at = (size_t)blockIdx.x * CUDA_MACHINE_BLOCK + threadIdx.x;
    const size_t row = at / call.width;
    const uint32_t column = (uint32_t)(at % call.width);
    const uint32_t used = call.routes.used;
    float sum = 0;
    if (row >= call.args.rows)
        return;
    for (uint32_t slot = 0; slot < used; slot++) {
        const size_t pair = row * used + slot;
        const uint32_t expert = call.routes.expert[pair];
        if (call.args.every > 1 && expert % call.args.every != call.args.own)
            continue;
        sum = fmaf(call.routes.weight[pair],
                   call.result[(size_t)call.routes.place[pair] * call.width + column], sum);
    }
    call.args.y[at] = call.args.accumulate ? call.args.y[at] + sum : sum;
}

static struct cuda_linear_pieces experts_layer(const struct experts_args *args,
                                               const struct experts_scratch *scratch)
{
    const struct kernels_routes *routes = args->routes;
    struct cuda_linear_pieces layer = {};
    layer.rows = args->rows * routes->used;
    layer.room = scratch->room;
    layer.pieces.piece = routes->pieces;
    layer.pieces.count = kernels_routes_pieces(args->rows, routes->experts, routes->used);
    layer.pieces.every = args->every;
    layer.pieces.own = args->own;
    return layer;
}

extern "C" void cuda_experts(struct cuda_backend *backend, const struct experts_args *args)
{
    const uint32_t width = args->gate->cols;
    const uint32_t hidden = args->down->cols;
    const uint32_t pairs = args->rows * args->routes->used;
    struct experts_scratch scratch;
    ASSERT(args->rows <= backend->options.rows_max);
    if (args->rows == 0)
        return;
    experts_lay(&scratch, args->scratch, pairs, width, hidden);
    struct cuda_linear_pieces first = experts_layer(args, &scratch);
    first.x = args->x;
    first.order = args->routes->row;
    first.outputs = hidden;
    first.count = 2;
    first.weights[0] = args->gate, first.weights[1] = args->up;
    first.bias[0] = args->gate_bias, first.bias[1] = args->up_bias;
    first.y[0] = scratch.gate, first.y[1] = scratch.up;
    cuda_linear_pieces(backend, &first);
    struct act_args act = {};
    act.kind = args->act;
    act.x = scratch.gate;
    act.up = scratch.up;
    act.rows = pairs;
    act.cols = hidden;
    cuda_act(backend, &act);
    struct cuda_linear_pieces second = experts_layer(args, &scratch);
    second.x = scratch.gate;
    second.outputs = width;
    second.count = 1;
    second.weights[0] = args->down;
    second.bias[0] = args->down_bias;
    second.y[0] = scratch.result;
    cuda_linear_pieces(backend, &second);
    struct experts_sum sum = {};
    sum.args = *args;
    sum.routes = *args->routes;
    sum.result = scratch.result;
    sum.width = width;
    const size_t all = (size_t)args->rows * width;
    cuda_backend_launch_early(backend, "experts",
                              dim3((unsigned)((all + CUDA_MACHINE_BLOCK - 1) / CUDA_MACHINE_BLOCK)),
                              CUDA_MACHINE_BLOCK, k_experts_sum_cuda, sum);
}
