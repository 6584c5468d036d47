/* step_cost: what a step will take, learnt from the steps before it.
 *
 * Owns:     a window of measured steps and the line that is fitted through them.
 * Thread:   engine thread only.
 * Cost:     a few microseconds each STEP_COST_EVERY steps, else a store.
 * Not here: what to do with the prediction (scheduler).
 *
 * A step takes fixed + rows × row + keys × key microseconds: weights are read once, each row is
 * multiplied with them, each row reads its keys. Least squares of relative errors over the window,
 * no factor below 0, drawn a little towards the last fit, so that steps which are all alike teach
 * what they can and make nobody forget the rest. All three are then scaled so that nine of ten
 * steps of the window take no longer than predicted: on a busy machine steps take 1.4 times.
 *
 * Choosing tokens comes on top, in the same time for as much work: what it takes is averaged apart,
 * rising fast and falling slowly, since a prompt's rows have nothing to choose.
 *
 * The line is for steps like those in the window. Drawn out to a whole prompt it tells nothing: of
 * decodes on a machine that gets busy it learns that a key costs a millisecond, and a prompt has
 * millions. For that there is the step of the least time a row.
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
    uint64_t count; /* ever added */
    struct {
        double rows; /* 0: no step yet */
        double us;   /* falls at once, rises slowly with steps of about as many rows */
    } best;
    struct scheduler_cost fit;   /* of the mean */
    struct scheduler_cost bound; /* of nine in ten; all 0 until there is a fit */
};

/* `keys` is what all rows of the step read together. A step that took no time is passed over. */
void step_cost_add(struct step_cost *cost, uint32_t rows, uint64_t keys, int64_t us);

/* Whether there is a fit: before it nothing is known, and 0 is no prediction. */
static inline bool step_cost_is_known(const struct step_cost *cost)
{
    return cost->count >= STEP_COST_EVERY;
}

/* Choosing tokens of so much work (sampler_work) took so long, behind the pass of that step. */
void step_cost_draw(struct step_cost *cost, double work, double us);

double step_cost_predict(const struct scheduler_cost *cost, double rows, double keys);

/* What `rows` rows take at the least, in microseconds, in steps of `rows_max` rows at most: by the
 * step of the least time a row. 0 when nothing is known. */
double step_cost_least(const struct step_cost *cost, double rows, double rows_max);

/* Somebody was turned away because of step_cost_least, who might have shown that it is less by now:
 * the next guess is bolder. */
void step_cost_doubt(struct step_cost *cost);
