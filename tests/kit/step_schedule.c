#include "tests/kit/step_schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/step/step_pause.h"

enum { STEPS_MAX = 20000 };

static void must(bool condition, uint32_t request, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "step_schedule: request %u: %s\n", request, what);
    abort();
}

uint32_t step_schedule_below(struct step_schedules *schedules, uint32_t count)
{
    return (uint32_t)rng_below(&schedules->rng, count);
}

static void forget_told(struct step_world *world)
{
    world->told_count = 0;
    memset(world->told, 0, sizeof world->told);
}

void step_schedule_expect(struct step_schedules *schedules)
{
    const struct step_world_options ample = {.rows_max = 64,
                                             .sequences_max = 16,
                                             .pages = 512,
                                             .is_whole = true,
                                             .no_prefix_cache = true};
    struct step_world *world = step_world_open(&ample);
    for (uint32_t i = 0; i < schedules->requests; i++) {
        forget_told(world);
        step_world_submit(world, &schedules->asked[i]);
        step_world_run(world);
        must(world->told[0].is_over, i, "did not end");
        must(world->told[0].refusal.status == STATUS_OK, i, "was refused");
        schedules->expected[i] = world->told[0];
    }
    step_world_close(world);
}

/* Preempts one sequence that has pages, by swap or by recompute. */
static void pause_somebody(struct step_schedules *schedules, struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    const struct scheduler_grant grant = {.act = SCHEDULER_PAUSE};
    if (table->order_count == 0)
        return;
    uint32_t index = table->order[step_schedule_below(schedules, table->order_count)];
    const struct sequence *sequence = &table->slots[index];
    if (sequence->page_count == 0)
        return;
    enum engine_preemption own = step->options.preemption;
    step->options.preemption = step_schedule_below(schedules, 3) > 0 ? ENGINE_PREEMPTION_SWAP
                                                                     : ENGINE_PREEMPTION_RECOMPUTE;
    schedules->pauses++;
    schedules->in_prompt += sequence->computed < sequence->prompt_count;
    step_pause(step, index, &grant);
    step->options.preemption = own;
}

static void cancel_somebody(struct step_schedules *schedules, struct step_schedule *schedule)
{
    struct step_world *world = schedule->world;
    uint32_t who = step_schedule_below(schedules, world->told_count);
    if (world->told[who].is_over)
        return;
    step_world_cancel(world, who);
    schedule->is_cancelled[who] = true;
    schedules->cancels++;
}

static bool is_over(const struct step_schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->count; i++)
        if (i >= schedule->world->told_count || !schedule->world->told[i].is_over)
            return false;
    return true;
}

static void schedule_step(struct step_schedules *schedules, struct step_schedule *schedule)
{
    struct step_world *world = schedule->world;
    if (world->told_count < schedule->count && step_schedule_below(schedules, 3) == 0)
        step_world_submit(world, &schedules->asked[schedule->which[world->told_count]]);
    if (step_schedule_below(schedules, schedules->steps_a_pause) == 0)
        pause_somebody(schedules, &world->step);
    if (schedules->disturb != NULL)
        schedules->disturb(schedules, schedule);
    if (world->told_count > 0 && step_schedule_below(schedules, 128) == 0)
        cancel_somebody(schedules, schedule);
    step_world_step(world);
    if (schedules->check != NULL)
        schedules->check(&world->step);
    clock_manual_advance(&world->clock, 1000);
}

/* A cancelled request has produced a prefix of its answer. */
static bool is_part(const struct step_world_told *told, const struct step_world_told *whole)
{
    for (uint32_t i = 0; i < LIMIT_CHOICES; i++) {
        const struct step_world_answer *a = &told->answers[i];
        const struct step_world_answer *b = &whole->answers[i];
        if (a->count > b->count ||
            memcmp(a->tokens, b->tokens, a->count * sizeof a->tokens[0]) != 0 ||
            memcmp(a->logprobs, b->logprobs, a->count * sizeof a->logprobs[0]) != 0)
            return false;
    }
    return true;
}

void step_schedule_run(struct step_schedules *schedules, struct step_world *world)
{
    struct step_schedule schedule = {
        .world = world, .count = 1 + step_schedule_below(schedules, schedules->at_once)};
    forget_told(world);
    for (uint32_t i = 0; i < schedule.count; i++)
        schedule.which[i] = step_schedule_below(schedules, schedules->requests);
    for (uint32_t steps = 0; !is_over(&schedule); steps++) {
        must(steps < STEPS_MAX, schedule.which[0], "and the others of its schedule did not end");
        schedule_step(schedules, &schedule);
    }
    for (uint32_t i = 0; i < schedule.count; i++) {
        const struct step_world_told *whole = &schedules->expected[schedule.which[i]];
        const struct step_world_told *told = &world->told[i];
        if (schedule.is_cancelled[i])
            must(is_part(told, whole), schedule.which[i],
                 "produced something that is no prefix of its answer alone");
        else
            must(told->refusal.status == STATUS_OK && step_world_same(told, whole),
                 schedule.which[i], "produced a different answer than alone");
    }
}
