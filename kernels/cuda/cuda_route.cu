#include "config/base/limits.h"
#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/cuda/cuda_ops.h"

/* Two launches. In the first a warp is one row and chooses its experts. In the second a warp is one
 * expert: it counts the pairs of lower experts, so that it knows where its own begin without
 * waiting for others, and writes its own pairs in their order. 512 rows of 8 used experts are 4,096
 * pairs, 128 steps of a warp, each time it passes over them. */

enum {
    ROUTE_WARPS = CUDA_MACHINE_BLOCK / 32,
    ROUTE_EACH = LIMIT_EXPERTS / 32 /* experts of a lane: lane, lane + 32, … */
};
#define ROUTE_ALL 0xffffffffu

struct route_call {
    const float *logits;
    struct kernels_routes routes;
    uint32_t rows;
    bool is_normalised;
};

/* The best expert that a lane knows; none while `expert` is UINT32_MAX. */
struct route_best {
    float logit;
    uint32_t expert;
};

/* Of equal logits the lower expert is better. */
static __device__ bool route_is_better(struct route_best a, struct route_best b)
{
    if (a.expert == UINT32_MAX || b.expert == UINT32_MAX)
        return b.expert == UINT32_MAX && a.expert != UINT32_MAX;
    return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
}

/* Returns the warp's best expert among those that are left: bit j of a lane's `left` is expert lane
 * + 32 j. */
static __device__ uint32_t route_choose(const float *values, uint32_t left, uint32_t lane)
{
    struct route_best best = {0, UINT32_MAX};
#pragma unroll
    for (uint32_t j = 0; j < ROUTE_EACH; j++) {
        const struct route_best own = {values[j], left >> j & 1 ? lane + 32 * j : UINT32_MAX};
        if (route_is_better(own, best))
            best = own;
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
        struct route_best other;
        other.logit = __shfl_xor_sync(ROUTE_ALL, best.logit, mask);
        other.expert = __shfl_xor_sync(ROUTE_ALL, best.expert, mask);
        if (route_is_better(other, best))
            best = other;
    }
    return best.expert;
}

/* Σ e^(logit − max) over all experts: by lanes, then over the lanes in one fixed tree. */
static __device__ float route_sum(const float *logits, uint32_t experts, uint32_t lane, float max)
{
    float sum = 0;
    for (uint32_t e = lane; e < experts; e += 32)
        sum += expf(logits[e] - max);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(ROUTE_ALL, sum, mask);
    return sum;
}

__global__ void k_route_cuda(struct route_call call)
{
    cuda_machine_begin();
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t row = blockIdx.x * ROUTE_WARPS + threadIdx.x / 32;
    const uint32_t experts = call.routes.experts;
    const uint32_t used = call.routes.used;
    const float *logits = call.logits + (size_t)row * experts;
    float values[ROUTE_EACH];
    uint32_t left = 0;
    float max = 0;
    float sum = 0;
    float own = 0; /* of slot `lane` */
    if (row >= call.rows)
        return;
#pragma unroll
    for (uint32_t j = 0; j < ROUTE_EACH; j++) {
        const uint32_t e = lane + 32 * j;
        values[j] = e < experts ? logits[e] : 0;
        values[j] = values[j] == values[j] ? values[j] : -INFINITY;
        left |= e < experts ? 1u << j : 0;
    }
    for (uint32_t slot = 0; slot < used; slot++) {
        const uint32_t expert = route_choose(values, left, lane);
        const float logit = logits[expert];
        max = slot == 0 ? logit : max;
        const float share = expf(logit - max);
        sum += share;
        own = lane == slot ? share : own;
        left &= expert % 32 == lane ? ~(1u << expert / 32) : ROUTE_ALL;
        if (lane == 0)
            call.routes.expert[(size_t)row * used + slot] = expert;
    }
    if (!call.is_normalised)
        sum = route_sum(logits, experts, lane, max);
    if (lane < used)
        call.routes.weight[(size_t)row * used + lane] = own / sum;
}

/* Writes the pieces of an expert with pairs [begin, end) to places that no other expert has. With
 * few pairs, piece i of an expert is at its pair i. With many, at ⌊begin ÷ 16⌋ + expert + i, which
 * leaves at most one empty place behind each expert. */
static __device__ void route_pieces(const struct route_call *call, uint32_t expert, uint32_t begin,
                                    uint32_t end, uint32_t lane)
{
    const uint32_t pairs = call->rows * call->routes.used;
    const uint32_t most = KERNELS_EXPERTS_PIECE;
    const bool is_few = pairs < pairs / most + call->routes.experts;
    const uint32_t from = is_few ? begin : begin / most + expert;
    const uint32_t to = is_few ? end : end / most + expert + 1;
    for (uint32_t at = from + lane; at < to; at += 32) {
        const uint32_t first = begin + (at - from) * most;
        const uint32_t left = first < end ? end - first : 0;
        struct kernels_experts_piece piece;
        piece.expert = expert;
        piece.first = first;
        piece.pairs = left < most ? left : most;
        call->routes.pieces[at] = piece;
    }
}

__global__ void k_route_order_cuda(struct route_call call)
{
    cuda_machine_begin();
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t expert = blockIdx.x * ROUTE_WARPS + threadIdx.x / 32;
    const uint32_t used = call.routes.used;
    const uint32_t pairs = call.rows * used;
    uint32_t begin = 0;
    uint32_t place;
    if (expert >= call.routes.experts)
        return;
    for (uint32_t first = 0; first < pairs; first += 32) {
        const uint32_t pair = first + lane;
        const bool is_lower = pair < pairs && call.routes.expert[pair] < expert;
        begin += (uint32_t)__popc(__ballot_sync(ROUTE_ALL, is_lower));
    }
    place = begin;
    for (uint32_t first = 0; first < pairs; first += 32) {
        const uint32_t pair = first + lane;
        const bool is_own = pair < pairs && call.routes.expert[pair] == expert;
        const uint32_t all = __ballot_sync(ROUTE_ALL, is_own);
        const uint32_t at = place + (uint32_t)__popc(all & ((1u << lane) - 1));
        if (is_own) {
            call.routes.row[at] = pair / used;
            call.routes.place[pair] = at;
        }
        place += (uint32_t)__popc(all);
    }
    route_pieces(&call, expert, begin, place, lane);
    if (lane == 0)
        call.routes.begin[expert] = begin;
    if (lane == 0 && expert + 1 == call.routes.experts)
        call.routes.begin[expert + 1] = place;
}

extern "C" void cuda_route(struct cuda_backend *backend, const struct route_args *args)
{
    struct route_call call;
    call.logits = args->logits;
    call.routes = *args->routes;
    call.rows = args->rows;
    call.is_normalised = args->is_normalised;
    if (args->rows == 0)
        return;
    cuda_backend_launch_early(backend, "route", dim3((args->rows + ROUTE_WARPS - 1) / ROUTE_WARPS),
                              CUDA_MACHINE_BLOCK, k_route_cuda, call);
    cuda_backend_launch_early(backend, "route",
                              dim3((call.routes.experts + ROUTE_WARPS - 1) / ROUTE_WARPS),
                              CUDA_MACHINE_BLOCK, k_route_order_cuda, call);
}
