/* step_schedule: random schedules of the real step. They check that a request produces the same
 * bits among any other requests, however it is preempted or disturbed, as alone.
 *
 * Owns:     each request's answer alone, the random numbers, counts of what was done.
 * Thread:   one.
 * Cost:     that of its steps; all invariants are checked at each.
 * Not here: the requests and the worlds (the tests). A different answer ends the test.
 */
#pragma once

#include "config/base/rng.h"
#include "tests/kit/step_world.h"

enum { STEP_SCHEDULE_REQUESTS = 64, STEP_SCHEDULE_AT_ONCE = 8 };

/* One schedule: request which[i] reports to world->told[i]. */
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
    uint32_t steps_a_pause; /* mean number of steps between two preemptions */
    /* Called before each step, besides preemptions and cancels; NULL: nothing. */
    void (*disturb)(struct step_schedules *schedules, const struct step_schedule *schedule);
    void (*check)(const struct step *step); /* called after each step; NULL: nothing */
    struct rng rng;
    struct step_world_told expected[STEP_SCHEDULE_REQUESTS];
    uint64_t pauses, in_prompt, cancels;
};

/* Uniform in [0, count). */
uint32_t step_schedule_below(struct step_schedules *schedules, uint32_t count);

/* Runs each request alone, undisturbed, with room and pages of all layers, and keeps its answer. */
void step_schedule_expect(struct step_schedules *schedules);

/* Runs one schedule until all its requests have ended. */
void step_schedule_run(struct step_schedules *schedules, struct step_world *world);
