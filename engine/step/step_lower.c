#include "engine/step/step_lower.h"

#include "engine/step/step_charge.h"

static const enum service_class lowest = (enum service_class)SERVICE_CLASS_LOWEST;

static void lower_set(struct ticket *ticket)
{
    ticket->asked.service_class = lowest;
    ticket->report.service_class = lowest;
    atomic_store_explicit(&ticket->shown_class, (uint32_t)lowest, memory_order_relaxed);
}

void step_lower_arrived(struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    if (ticket_is_lowered(ticket))
        lower_set(ticket);
}

/* Between step_charge_leave and step_charge_enter the old account may be freed; there is always
 * room for one account for each request. */
static void lower_request(struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    if (!ticket_is_lowered(ticket) || ticket->asked.service_class == lowest)
        return;
    bool is_waiting = ticket->is_waiting;
    step_queue_leave(&step->queue, slot);
    step_charge_leave(step, slot);
    lower_set(ticket);
    step_charge_enter(step, slot);
    if (is_waiting)
        step_queue_enter(&step->queue, slot);
    for (uint32_t i = 0; i < step->sequences.order_count; i++) {
        uint32_t index = step->sequences.order[i];
        struct sequence *sequence = &step->sequences.slots[index];
        if (sequence->slot != slot)
            continue;
        sequence->client = ticket->client;
        kv_swap_lower(&step->swap, index, lowest);
    }
}

void step_lower_all(struct step *step)
{
    uint32_t lowers = atomic_load(&step->options.tickets->lowers);
    if (lowers == step->lowers_seen)
        return;
    step->lowers_seen = lowers;
    for (uint32_t slot = step->queue.all.first; slot != TICKET_NONE;) {
        uint32_t after = step->options.tickets->slots[slot].in_all.after;
        lower_request(step, slot);
        slot = after;
    }
    for (uint32_t i = 0; i < step->sequences.order_count; i++)
        lower_request(step, step->sequences.slots[step->sequences.order[i]].slot);
}
