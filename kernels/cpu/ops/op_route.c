#include <math.h>

#include "config/base/limits.h"
#include "kernels/cpu/ops/ops.h"

/* Every table computes e^x with the same bits (row_exp), so every table routes alike. */

enum { ROUTE_PADDING = 16 }; /* leaves may read up to 64 bytes beyond an array */

struct route_job {
    struct kernels *kernels;
    const struct route_args *args;
};

/* Writes the `used` greatest logits to `chosen` and their experts to `expert`, by falling logit.
 * Experts come in rising order, and one moves before another only if its logit is greater. */
static void route_choose(const float *logits, uint32_t experts, uint32_t used, uint32_t *expert,
                         float *chosen)
{
    float values[LIMIT_EXPERTS_USED];
    uint32_t count = 0;
    for (uint32_t e = 0; e < experts; e++) {
        const float value = logits[e] == logits[e] ? logits[e] : -INFINITY;
        if (count == used && !(value > values[count - 1]))
            continue;
        uint32_t at = count < used ? count++ : used - 1;
        for (; at > 0 && value > values[at - 1]; at--) {
            values[at] = values[at - 1];
            expert[at] = expert[at - 1];
        }
        values[at] = value;
        expert[at] = e;
    }
    for (uint32_t i = 0; i < used; i++)
        chosen[i] = logits[expert[i]];
}

/* weight = e^(logit − greatest) ÷ the sum of these, over the chosen or over all experts. */
static void route_row(const struct route_job *job, uint32_t r)
{
    const struct kernel_table *table = job->kernels->table;
    const struct kernels_routes *routes = job->args->routes;
    const uint32_t experts = routes->experts;
    const uint32_t used = routes->used;
    const float *logits = job->args->logits + (size_t)r * experts;
    float *weight = routes->weight + (size_t)r * used;
    float chosen[LIMIT_EXPERTS_USED + ROUTE_PADDING] = {0};
    float shares[LIMIT_EXPERTS_USED + ROUTE_PADDING];
    float all[LIMIT_EXPERTS + ROUTE_PADDING];
    route_choose(logits, experts, used, routes->expert + (size_t)r * used, chosen);
    float sum = table->row_exp(chosen, used, chosen[0], 1, shares);
    if (!job->args->is_normalised)
        sum = table->row_exp(logits, experts, chosen[0], 1, all);
    for (uint32_t i = 0; i < used; i++)
        weight[i] = shares[i] / sum;
}

/* Sorts the pairs by counting: those of one expert keep the order of rows and slots. */
static void route_sort(const struct route_args *args)
{
    const struct kernels_routes *routes = args->routes;
    const uint32_t pairs = args->rows * routes->used;
    uint32_t next[LIMIT_EXPERTS] = {0};
    for (uint32_t p = 0; p < pairs; p++)
        next[routes->expert[p]]++;
    uint32_t begin = 0;
    for (uint32_t e = 0; e < routes->experts; e++) {
        const uint32_t count = next[e];
        routes->begin[e] = next[e] = begin;
        begin += count;
    }
    routes->begin[routes->experts] = begin;
    for (uint32_t p = 0; p < pairs; p++) {
        const uint32_t place = next[routes->expert[p]]++;
        routes->row[place] = p / routes->used;
        routes->place[p] = place;
    }
}

static void op_route_job(void *context, uint32_t thread, uint32_t count)
{
    const struct route_job *job = context;
    uint32_t begin;
    uint32_t end;
    threads_share(job->args->rows, thread, count, &begin, &end);
    for (uint32_t r = begin; r < end; r++)
        route_row(job, r);
    if (count > 1)
        threads_barrier(job->kernels->threads);
    if (thread == 0)
        route_sort(job->args);
}

void op_route(struct kernels *kernels, const struct route_args *args)
{
    enum { COST = 16 }; /* of a logit, in elements: an exponential and a comparison */
    struct route_job job = {kernels, args};
    ASSERT(args->rows <= kernels->rows_max);
    ops_run(kernels, &(struct ops_work){.op = KERNELS_OP_route},
            args->rows <= 1 ? 0 : (size_t)args->rows * args->routes->experts * COST, op_route_job,
            &job);
}
