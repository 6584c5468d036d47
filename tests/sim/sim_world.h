/* sim_world: the real step under a virtual clock, its clients, and what must hold at each step.
 *
 * Owns:     one run: kernels, fake model, tickets, step, requests with what each may receive.
 * Thread:   one, which is engine thread, submitter and consumer in turn.
 * Cost:     a few milliseconds a run; between ticks only tickets allocate.
 * Not here: what is asked (sim_load), the arithmetic (sim_model).
 *
 *     tick:  submit ─► cancel, resume, grant ─► step_once ─► take events ─► check
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/sim_load.h"
#include "tests/sim/sim_trace.h"

struct sim_result {
    uint64_t digest; /* of every event, its step and its time; equal for equal seeds */
    uint64_t steps;
    uint64_t rows;
    uint64_t tokens_prompt;
    uint64_t tokens_cached;
    uint64_t tokens_generated;
    uint64_t preemptions;
    uint64_t pauses;   /* pauses that streams were told of */
    uint64_t overhead; /* rows computed again */
    uint64_t guesses_right;
    uint64_t guesses_wrong;
    double wait_served; /* of a rush: the largest share of the bound that a light client waited */
    uint32_t wait_steps;
    double spread;            /* the largest share of the bound that two clients reached */
    uint64_t pairs_wanted;    /* steps in which two clients of a class both wanted more */
    uint64_t pairs_judged;    /* those of them in which the bound was checked */
    uint64_t evicted_to_host; /* pages */
    uint64_t evicted_dropped;
    uint64_t returned;
    uint64_t windows_dropped;
    uint64_t window_lost;
    uint64_t copies; /* batches, where copies are late */
    uint64_t copies_waited;
    uint32_t requests;
    uint32_t cancelled;
};

/* Runs a seed to its end. A property that does not hold ends the process (abort) with a message on
 * standard error. `trace` gives the arrivals (NULL: drawn); `is_traced` prints the run. */
void sim_world_run(struct sim_result *out, uint64_t seed, uint32_t kind,
                   const struct sim_machine *machine, const struct sim_trace *trace,
                   bool is_traced);
