/* step_schedule: the promise of engine.md part 2: in whatever company, however disturbed, a request
 * tells the same bits as alone. Random schedules of the real step over requests of the test.
 *
 * Owns:     what each request tells alone, the random numbers, counts of what was done.
 * Thread:   one.
 * Cost:     that of its steps; all invariants are checked at each.
 * Not here: what is asked, the worlds (the tests). What is told otherwise ends the test.
 */
#pragma once

#include "config/base/rng.h"
#include "tests/kit/step_world.h"

enum { STEP_SCHEDULE_REQUESTS = 64, STEP_SCHEDULE_AT_ONCE = 8 };

/* One schedule: request which[i] is told in world->told[i]. */
struct step_schedule {
    struct step_world *world;
    uint32_t which[STEP_SCHEDULE_AT_ONCE];
    bool is_cancelled[STEP_SCHEDULE_AT_ONCE];
    uint32_t count;
};

/* Set by the test up to `rng`. */
struct step_schedules {
    struct engine_request asked[STEP_SCHEDULE_REQUESTS];
    uint32_t requests;
    uint32_t at_once;
    uint32_t steps_a_pause; /* in the mean */
    /* Besides pauses and cancels, before each step; NULL = nothing. */
    void (*disturb)(struct step_schedules *schedules, const struct step_schedule *schedule);
    void (*check)(const struct step *step); /* after each step; NULL = nothing */
    struct rng rng;
    struct step_world_told expected[STEP_SCHEDULE_REQUESTS];
    uint64_t pauses, in_prompt, cancels;
};

/* Evenly from [0, count). */
uint32_t step_schedule_below(struct step_schedules *schedules, uint32_t count);

/* Each request alone, undisturbed, with room: what it has to tell. */
void step_schedule_expect(struct step_schedules *schedules);

/* One schedule, over when all that was asked is. */
void step_schedule_run(struct step_schedules *schedules, struct step_world *world);
