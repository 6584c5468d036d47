#include "engine/step/step_explain.h"

#include "engine/step/step_prefix.h"

/* Weight of the newest gap in the moving average. */
static const double gap_weight = 1.0 / 16;

uint32_t step_explain_coarse(uint64_t number)
{
    if (number == 0)
        return 0;
    uint32_t part = 1;
    while (part <= number / 2 && part < UINT32_C(1) << 31)
        part *= 2;
    return part;
}

void step_explain_admitted(struct step *step, const struct ticket *ticket)
{
    enum service_class class = ticket->asked.service_class;
    struct step_gap *gap = &step->gaps[class];
    if (gap->was_waited_for) {
        double us = (double)(step->now_us - gap->last_us);
        gap->us += gap->count == 0 ? us : (us - gap->us) * gap_weight;
        gap->count++;
        if (gap->count >= STEP_EXPLAIN_REQUESTS)
            atomic_store_explicit(&step->figures.gap_us[class], (uint64_t)gap->us,
                                  memory_order_relaxed);
    }
    gap->last_us = step->now_us;
    gap->was_waited_for = step->queue.by_class[class] > 1; /* the queue still has this request */
    if (step_cost_is_known(&step->cost))
        atomic_store_explicit(&step->figures.row_ns, (uint64_t)(step->cost.fit.row_us * 1000),
                              memory_order_relaxed);
}

/* At least this many requests of the class are admitted before it, since clients take turns. */
static uint64_t in_time_ahead(const struct step *step, const struct ticket *ticket)
{
    const struct step_queue *queue = &step->queue;
    enum service_class class = ticket->asked.service_class;
    uint64_t in_class = queue->by_class[class] - 1;
    uint64_t in_turns =
        (uint64_t)(queue->clients[ticket->client].count - 1) * queue->active_count[class];
    return in_class < in_turns ? in_class : in_turns;
}

/* The least time of the rest of the prompt: a request that may be in time must not be refused. */
static double in_time_prefill_us(struct step *step, struct ticket *ticket)
{
    if (!step_prefix_find(step, ticket))
        return 0;
    double rows = ticket->prompt_count - ticket->found.tokens;
    return step_cost_least(&step->cost, rows, step->options.rows_max);
}

bool step_explain_in_time(struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    int64_t left_us = ticket->asked.deadline_us - step->now_us;
    if (ticket->asked.deadline_us == 0 || left_us <= 0 || step->cost.count < STEP_EXPLAIN_STEPS)
        return true;
    const struct step_gap *gap = &step->gaps[ticket->asked.service_class];
    double us = in_time_prefill_us(step, ticket);
    if (gap->count >= STEP_EXPLAIN_REQUESTS)
        us += gap->us * (double)in_time_ahead(step, ticket);
    if (us <= (double)left_us)
        return true;
    step_cost_doubt(&step->cost);
    status_fail(STATUS_DEADLINE, __FILE__, __LINE__, NULL,
                "the deadline would pass before the request starts: its first token can be "
                "expected in about %u ms",
                step_explain_coarse((uint64_t)(us / 1000)));
    return false;
}
