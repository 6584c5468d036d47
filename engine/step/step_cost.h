/* step_cost: predicts what a step takes, learnt from the steps before it.
 *
 * Owns:     a window of measured steps and the line that is fitted through them.
 * Thread:   engine thread only.
 * Cost:     a few microseconds every STEP_COST_EVERY steps, else a store.
 * Not here: what to do with the prediction (scheduler).
 *
 * A step takes fixed + rows × row + keys × key microseconds: the weights are read once, each row is
 * multiplied with them, and each row reads its keys. The fit minimises the squared relative errors
 * over the window with no factor below 0. It is pulled a little towards the last fit, so that a
 * window of equal steps does not destroy what other steps have taught. `bound` is the fit scaled so
 * that nine of ten steps of the window take no longer than predicted; on a busy machine the scale
 * is about 1.4.
 *
 * Sampling comes on top, as microseconds for each unit of work (sampler_work). It is averaged
 * apart, rising fast and falling slowly; prompt rows without sampling do not count.
 *
 * The line holds for steps like those in the window. It must not be extrapolated to a whole prompt:
 * from decodes on a machine that gets busy it may learn that a key costs a millisecond, and a
 * prompt has millions of keys. step_cost_least therefore uses the step with the least time for each
 * row.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/scheduler/scheduler.h"

enum { STEP_COST_WINDOW = 64, STEP_COST_EVERY = 8 };

struct step_cost {
    struct step_cost_sample {
        double rows;
        double keys;
        double us;
    } samples[STEP_COST_WINDOW];
    uint32_t next;
    uint64_t count; /* steps since the start */
    struct {
        double rows; /* 0 = no step yet */
        double us;   /* falls at once, rises slowly with steps of at least half as many rows */
    } best;
    struct scheduler_cost fit;   /* of the mean */
    struct scheduler_cost bound; /* of nine steps in ten; all 0 until there is a fit */
};

/* Makes keys count by kind where layers have two (scheduler_cost_keys). Called at the start. */
void step_cost_kinds(struct step_cost *cost, uint32_t window, double window_share);

/* Adds a step. `keys` is the sum of keys that its rows read (scheduler_cost_keys). A step with us
 * <= 0 is ignored. */
void step_cost_add(struct step_cost *cost, uint32_t rows, double keys, int64_t us);

/* Whether there is a fit. Before it, predictions of 0 mean nothing. */
static inline bool step_cost_is_known(const struct step_cost *cost)
{
    return cost->count >= STEP_COST_EVERY;
}

/* Sampling `work` (sampler_work) took `us` microseconds after the forward pass of a step. */
void step_cost_draw(struct step_cost *cost, double work, double us);

/* Microseconds, without sampling, that `cost` predicts. */
double step_cost_predict(const struct scheduler_cost *cost, double rows, double keys);

/* The least microseconds that `rows` rows take in steps of at most `rows_max` rows, by the step
 * with the least time for each row. 0 when no step was seen. */
double step_cost_least(const struct step_cost *cost, double rows, double rows_max);

/* A request was refused because of step_cost_least, so it could not show that the machine is faster
 * by now: lowers the next predictions a little. */
void step_cost_doubt(struct step_cost *cost);
