#include "kernels/kernels_experts.h"

#include <math.h>

#include "config/base/limits.h"
#include "kernels/cpu/ops/ops.h"

/* The arrays of the routes one behind the other, each on a cache line of its own. */
static void *routes_take(char *buffer, size_t *used, size_t bytes)
{
    enum { LINE = 64 };
    char *out = buffer == NULL ? NULL : buffer + *used;
    *used += (bytes + LINE - 1) / LINE * LINE;
    return out;
}

/* Returns the bytes used. */
static size_t routes_lay(struct kernels_routes *out, char *buffer, uint32_t rows_max,
                         uint32_t experts, uint32_t used)
{
    const size_t pairs = (size_t)rows_max * used;
    const size_t pieces = kernels_routes_pieces(rows_max, experts, used);
    size_t at = 0;
    ASSERT(experts >= 1);
    ASSERT(experts <= LIMIT_EXPERTS);
    ASSERT(used >= 1);
    ASSERT(used <= experts);
    ASSERT(used <= LIMIT_EXPERTS_USED);
    *out = (struct kernels_routes){.experts = experts, .used = used};
    out->expert = routes_take(buffer, &at, pairs * sizeof *out->expert);
    out->weight = routes_take(buffer, &at, pairs * sizeof *out->weight);
    out->begin = routes_take(buffer, &at, (experts + 1) * sizeof *out->begin);
    out->row = routes_take(buffer, &at, pairs * sizeof *out->row);
    out->place = routes_take(buffer, &at, pairs * sizeof *out->place);
    out->pieces = routes_take(buffer, &at, pieces * sizeof *out->pieces);
    return at;
}

size_t kernels_routes_bytes(uint32_t rows_max, uint32_t experts, uint32_t used)
{
    struct kernels_routes routes;
    return routes_lay(&routes, NULL, rows_max, experts, used);
}

void kernels_routes_init(struct kernels_routes *out, void *buffer, uint32_t rows_max,
                         uint32_t experts, uint32_t used)
{
    ASSERT(buffer != NULL);
    (void)routes_lay(out, buffer, rows_max, experts, used);
}

void kernels_route(struct kernels *kernels, const struct route_args *args)
{
    kernels->ops->route(kernels, args);
}

enum status kernels_experts_weight(struct kernels *kernels, struct weight *out,
                                   const struct tensor *tensor)
{
    struct tensor flat = *tensor;
    *out = (struct weight){0};
    if (tensor->dims[3] > 1)
        FAIL(STATUS_UNSUPPORTED, "a tensor of %u dimensions is no list of matrices",
             tensor->dim_count);
    if (tensor->dims[2] < 1 || tensor->dims[2] > LIMIT_EXPERTS)
        FAIL(STATUS_UNSUPPORTED, "a layer of %llu experts; from 1 to %d are supported",
             (unsigned long long)tensor->dims[2], LIMIT_EXPERTS);
    if (tensor->dims[1] > LIMIT_WEIGHT_ROWS || tensor->dims[1] % KERNELS_EXPERTS_OUTPUTS != 0)
        FAIL(STATUS_UNSUPPORTED,
             "experts of %llu outputs each; multiples of %d up to %d are supported",
             (unsigned long long)tensor->dims[1], KERNELS_EXPERTS_OUTPUTS, LIMIT_WEIGHT_ROWS);
    flat.dim_count = 2;
    flat.dims[1] *= tensor->dims[2];
    flat.dims[2] = 1;
    return kernels_weight_create(kernels, out, &flat);
}

size_t kernels_experts_bytes(const struct kernels *kernels, uint32_t rows_max, uint32_t used,
                             uint32_t width, uint32_t hidden)
{
    return kernels->ops->experts_bytes(kernels, rows_max, used, width, hidden);
}

void kernels_experts(struct kernels *kernels, const struct experts_args *args)
{
    ASSERT(kernels_act_takes_two(args->act));
    kernels->ops->experts(kernels, args);
}

double kernels_experts_read(uint32_t experts, uint32_t used, uint32_t rows)
{
    const double kept = 1.0 - (double)used / experts; /* share that one row leaves out */
    return experts * (1.0 - pow(kept, rows));
}
