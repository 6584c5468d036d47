#include "engine/step/step_charge.h"

void step_charge_enter(struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    const struct engine_request *asked = &ticket->asked;
    ticket->client =
        scheduler_fair_enter(&step->fair, &asked->tenant, asked->service_class, asked->weight);
}

void step_charge_leave(struct step *step, uint32_t slot)
{
    scheduler_fair_leave(&step->fair, step->options.tickets->slots[slot].client);
}

/* Whether it is a published prompt: the operator's, charged to no account. */
static bool charge_is_operators(const struct step *step, const struct sequence *sequence)
{
    return step->options.tickets->slots[sequence->slot].asked.is_published;
}

static void charge(struct step *step, const struct sequence *sequence, double tokens)
{
    if (!charge_is_operators(step, sequence))
        scheduler_fair_charge(&step->fair, sequence->client, tokens);
}

void step_charge_found(struct step *step, struct sequence *sequence)
{
    if (sequence->is_found_charged)
        return;
    sequence->is_found_charged = sequence->computed > 0; /* else step_charge_rows sets it */
    sequence->reached = sequence->computed;
    charge(step, sequence, sequence->computed * SCHEDULER_PRICE_CACHED);
}

static void charge_prompt(struct step *step, const struct sequence *sequence, uint32_t rows)
{
    uint32_t index = (uint32_t)(sequence - step->sequences.slots);
    uint32_t payers = 1;
    for (uint32_t i = 0; i < step->follow_count; i++)
        payers += step->follows[i].leader == index;
    double each = rows * SCHEDULER_PRICE_PROMPT / payers;
    charge(step, sequence, each);
    for (uint32_t i = 0; i < step->follow_count; i++)
        if (step->follows[i].leader == index)
            scheduler_fair_charge(&step->fair, step->follows[i].client, each);
}

void step_charge_rows(struct step *step, struct sequence *sequence, uint32_t from, uint32_t end)
{
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    sequence->is_found_charged = true;
    uint32_t again = sequence->reached < end ? sequence->reached : end;
    if (again > from) {
        step->fair.overhead += again - from;
        ticket->report.recomputed_tokens += again - from;
        atomic_fetch_add_explicit(&step->figures.tokens_overhead, again - from,
                                  memory_order_relaxed);
    }
    uint32_t first = from > sequence->reached ? from : sequence->reached;
    uint32_t last = end < sequence->prompt_count ? end : sequence->prompt_count;
    if (last > first)
        charge_prompt(step, sequence, last - first);
    if (end > sequence->reached)
        sequence->reached = end;
}

double step_charge_work(const struct step *step, uint32_t slot, uint32_t generated)
{
    const struct ticket *ticket = &step->options.tickets->slots[slot];
    const struct engine_request *asked = &ticket->asked;
    if (asked->pooling != ENGINE_POOLING_NONE)
        return 0; /* nothing is sampled */
    return sampler_work(&asked->sampling, ticket->prompt_count, generated,
                        asked->want_logprobs ? asked->top_logprobs : 0);
}

void step_charge_token(struct step *step, const struct sequence *sequence)
{
    charge(
        step, sequence,
        scheduler_fair_token(step_charge_work(step, sequence->slot, sequence_generated(sequence))));
}

void step_charge_drafts(struct step *step, const struct sequence *sequence, int32_t drafts)
{
    charge(step, sequence, drafts * SCHEDULER_PRICE_DRAFT);
}

void step_charge_pages(struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        if (sequence->page_count > 0 && !charge_is_operators(step, sequence))
            scheduler_fair_charge_pages(&step->fair, sequence->client,
                                        (double)sequence_units(sequence, &step->pool) *
                                            step->pool.layout.page_tokens /
                                            kv_pool_page_units(&step->pool));
    }
}

void step_charge_follow(struct step *step, uint32_t leader, uint32_t client)
{
    if (step->sequences.slots[leader].client == client)
        return;
    for (uint32_t i = 0; i < step->follow_count; i++)
        if (step->follows[i].leader == leader && step->follows[i].client == client)
            return;
    if (step->follow_count < step->options.tickets->count)
        step->follows[step->follow_count++] = (struct step_follow){leader, client};
}
