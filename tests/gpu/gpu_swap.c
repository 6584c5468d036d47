/* gpu_swap: what a step requests of the runtime while a sequence's pages go to host memory and back
 * beside it (tests/kit/simt): its own work, one batch in each direction with three events, and no
 * wait, neither of the host nor of the step's stream. The tokens are those of the same text
 * undisturbed. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/step/step_pause.h"
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_pair.h"
#include "tests/kit/simt/simt.h"

enum { WARM = 4, EVENTS_A_BATCH = 3 };

/* Returns the calls of one step; graphs exist by then. */
static struct simt_counts calls_of(struct step_world *world)
{
    const struct simt_counts before = simt_counts;
    step_world_step(world);
    return (struct simt_counts){.launches = simt_counts.launches - before.launches,
                                .copies = simt_counts.copies - before.copies,
                                .waits = simt_counts.waits - before.waits,
                                .events = simt_counts.events - before.events,
                                .allocations = simt_counts.allocations - before.allocations,
                                .graphs = simt_counts.graphs - before.graphs};
}

/* Checks that the event counter notices a wait of the step's stream: a fourth event. */
static void check_control(struct step_world *world)
{
    const uint32_t page = world->step.pool.free_units[world->step.pool.free_count - 1];
    const struct kv_host *host = &world->step.cache.host;
    const uint32_t to = host->free_units[host->free_count - 1];
    const struct pages_copy_args args = {host->memory,    world->step.pool.memory, &to, &page, 1,
                                         host->page_bytes};
    const uint64_t before = simt_counts.events;
    kernels_pages_wait(world->kernels, kernels_pages_copy(world->kernels, &args));
    CHECK(simt_counts.events - before == EVENTS_A_BATCH + 1);
    CHECK(kernels_pages_end(world->kernels) == STATUS_OK);
}

static void check_calls(const struct simt_counts *swapped, const struct simt_counts *undisturbed,
                        const struct kv_swap_figures *figures)
{
    CHECK(figures->pages_out > 4 && figures->pages_in == figures->pages_out);
    CHECK(swapped->launches + swapped->graphs > 0);
    CHECK(swapped->allocations == undisturbed->allocations);
    CHECK(swapped->events == undisturbed->events + 2 * EVENTS_A_BATCH);
#ifndef BANYAN_SLOW_CHECKS /* slow checks overwrite free pages, with a wait each */
    const uint64_t copies = swapped->copies - undisturbed->copies;
    CHECK(copies >= 2 && copies <= figures->pages_out + figures->pages_in);
    CHECK(swapped->waits == undisturbed->waits);
    printf("beside a step: %llu pages out and in by %llu copies, 0 waits of the host, 0 of the "
           "step's stream\n",
           (unsigned long long)figures->pages_out, (unsigned long long)copies);
#endif
}

int main(void)
{
    const struct scheduler_grant grant = {.act = SCHEDULER_PAUSE};
    uint32_t victim;
    struct step_world *alone = gpu_pair_open(WARM, &victim);
    const struct simt_counts undisturbed = calls_of(alone);
    step_world_run(alone);

    struct step_world *world = gpu_pair_open(WARM, &victim);
    const struct simt_counts before = simt_counts;
    step_pause(&world->step, world->step.sequences.order[victim], &grant);
    const struct simt_counts paused = simt_counts;
    struct simt_counts swapped = calls_of(world); /* there is room, so it resumes at once */
    swapped.copies += paused.copies - before.copies;
    swapped.waits += paused.waits - before.waits;
    swapped.events += paused.events - before.events;
    check_calls(&swapped, &undisturbed, &world->step.swap.figures);
    check_control(world);
    step_world_run(world);
    CHECK(world->told[victim].report.preemptions == 1);
    CHECK(world->told[victim].report.swapped_pages == world->step.swap.figures.pages_out);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(step_world_same(&world->told[i], &alone->told[i]));
    step_world_close(world);
    step_world_close(alone);
    return 0;
}
