#include "engine/step_pause.h"

#include "engine/step_prefix.h"
#include "engine/step_tell.h"

/* A stream that is only put off for so long is told that it is paused. */
static const int64_t held_told_us = 1000000;

static void pause_tell(struct step *step, uint32_t index)
{
    struct sequence *sequence = &step->sequences.slots[index];
    if (sequence->is_pause_told || sequence->is_throttled || sequence_generated(sequence) == 0)
        return;
    const struct outbox_record record = step_tell_record(step, ENGINE_EVENT_PAUSED, index);
    step_tell(step, &record, NULL, (struct slice){0});
    sequence->is_pause_told = true;
}

void step_pause(struct step *step, uint32_t index, const struct scheduler_grant *grant)
{
    struct sequence *sequence = &step->sequences.slots[index];
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    sequence_drop_pages(sequence, &step->pool);
    sequence->is_paused = true;
    sequence->paused_since_us = step->now_us;
    sequence->found.is_known = false;
    ticket->report.preemptions++;
    atomic_store_explicit(&ticket->shown_preempted_by, 1 + (uint32_t)grant->for_class,
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&step->figures.preemptions_recompute, 1, memory_order_relaxed);
    if (step->metrics.preemptions_recompute != NULL)
        metric_add(step->metrics.preemptions_recompute, 1);
    pause_tell(step, index);
}

void step_pause_view(struct step *step, uint32_t index, struct scheduler_sequence *view)
{
    struct sequence *sequence = &step->sequences.slots[index];
    step_prefix_look_again(step, sequence);
    view->computed = sequence->found.tokens;
    view->found_pages = sequence->found.pages;
    view->found_cost = sequence->found.cost;
}

static void pause_count(struct step *step, struct sequence *sequence)
{
    if (!sequence->is_paused)
        return;
    sequence->is_paused = false;
    step->options.tickets->slots[sequence->slot].report.paused_us +=
        step->now_us - sequence->paused_since_us;
}

void step_pause_resume(struct step *step, uint32_t index)
{
    struct sequence *sequence = &step->sequences.slots[index];
    ASSERT(sequence->page_count == 0);
    step_prefix_take(step, sequence);
    pause_count(step, sequence);
    sequence->quantum_left = SCHEDULER_QUANTUM_STEPS;
    sequence->idle_since_us = 0;
}

void step_pause_tell(struct step *step, uint32_t place)
{
    uint32_t index = step->sequences.order[place];
    struct sequence *sequence = &step->sequences.slots[index];
    if (step->grants[place].rows > 0) {
        sequence->idle_since_us = 0;
        if (sequence->quantum_left > 0)
            sequence->quantum_left--;
    } else if (sequence->idle_since_us == 0) {
        sequence->idle_since_us = step->now_us;
    } else if (step->now_us - sequence->idle_since_us >= held_told_us) {
        pause_tell(step, index);
    }
}

void step_pause_end(struct step *step, uint32_t index)
{
    pause_count(step, &step->sequences.slots[index]);
}
