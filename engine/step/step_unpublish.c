#include "engine/step/step_unpublish.h"

#include <string.h>

#include "engine/step/step_end.h"
#include "engine/step/step_prefix.h"

static bool domain_same(const struct engine_domain *a, const struct engine_domain *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* Ends one request of the domain: if it went on, it would put pages into the domain again. */
static bool domain_end_one(struct step *step, const struct engine_domain *domain)
{
    for (uint32_t i = 0; i < step->sequences.order_count; i++) {
        const struct sequence *sequence = &step->sequences.slots[step->sequences.order[i]];
        if (!domain_same(&sequence->domain, domain))
            continue;
        step_end_request(step, sequence->slot, ENGINE_FINISH_CANCELLED);
        return true;
    }
    const struct ticket *tickets = step->options.tickets->slots;
    for (uint32_t slot = step->queue.all.first; slot != TICKET_NONE;
         slot = tickets[slot].in_all.after) {
        if (!domain_same(&tickets[slot].asked.domain, domain))
            continue;
        step_end_request(step, slot, ENGINE_FINISH_CANCELLED);
        return true;
    }
    return false;
}

void step_unpublish(struct step *step)
{
    struct engine_domain domain;
    while (ring_pop(&step->unpublished, &domain)) {
        while (domain_end_one(step, &domain)) {
        }
        if (step_prefix_has_cache(step, &domain))
            prefix_cache_drop_domain(&step->cache, &domain);
    }
}
