#include "engine/step/step_force.h"

#include "engine/grammar/grammar_force.h"
#include "engine/grammar/grammar_run.h"
#include "engine/step/step_charge.h"
#include "engine/step/step_load.h"

static uint32_t least(uint32_t most, uint64_t room)
{
    return room < most ? (uint32_t)room : most;
}

static const struct ticket *force_ticket(const struct step *step, const struct sequence *sequence)
{
    return &step->options.tickets->slots[sequence->slot];
}

/* --- tokens --- */

void step_force_find(const struct step *step, struct sequence *sequence, struct guard *guard)
{
    const struct step_options *options = &step->options;
    const uint32_t left = force_ticket(step, sequence)->tokens_max - sequence_generated(sequence);
    const uint32_t before = least(GRAMMAR_FORCE_BEFORE, sequence->token_count);
    uint32_t *tokens = sequence->tokens + sequence->token_count;
    ASSERT(sequence->forced == 0);
    guard->is_force_asked = true;
    if (options->encode == NULL)
        return;
    const size_t count = grammar_force_tokens(guard->run, tokens - before, before, options->encode,
                                              options->encode_context, tokens,
                                              least(LIMIT_GRAMMAR_FORCED_TOKENS, left));
    while (sequence->forced < count && guard_take_forced(guard, tokens[sequence->forced]))
        sequence->forced++;
    guard->is_over = count > 0 && !guard->is_broken && guard_is_over(guard);
}

/* --- rows --- */

/* Whether the row of the last forced token is of use: something is sampled from it. */
static bool rows_has_last(const struct step *step, const struct sequence *sequence)
{
    const struct guard *guard = step_guard(step, sequence);
    return guard->is_ready && !guard->is_broken && !guard->is_over &&
           sequence_generated(sequence) + sequence->forced <
               force_ticket(step, sequence)->tokens_max;
}

/* Charges that the sequence's client may still have in this step, in tokens of this sequence. */
static uint32_t rows_affordable(const struct step *step, const struct sequence *sequence)
{
    const struct scheduler_client *client = &step->fair.clients[sequence->client];
    const double price =
        scheduler_fair_token(step_charge_work(step, sequence->slot, sequence_generated(sequence)));
    const double left = client->limit - client->served - client->planned;
    if (client->is_over || left < price)
        return 0;
    return left > LIMIT_UNDELIVERED_TOKENS * price ? LIMIT_UNDELIVERED_TOKENS
                                                   : (uint32_t)(left / price);
}

/* Rows that there is room for in rows, logits, pages, events and the client's account. */
static uint32_t rows_most(const struct step *step, const struct sequence *sequence,
                          const struct step_load *load)
{
    const uint64_t pages =
        (uint64_t)sequence->page_count + step->pool.free_count / kv_pool_page_units(&step->pool);
    uint32_t most = sequence->forced - !rows_has_last(step, sequence);
    most = least(most, step->options.rows_max - load->rows);
    if (force_ticket(step, sequence)->asked.want_logprobs)
        most = least(most, step->options.logit_rows_max - load->logit_rows);
    most = least(most, pages * step->pool.layout.page_tokens - sequence->token_count);
    most = least(most, LIMIT_UNDELIVERED_TOKENS - sequence->undelivered - 1);
    return least(most, rows_affordable(step, sequence));
}

/* Whether the step, with `rows` more rows from position `first` on, stays within its time. */
static bool rows_fit(const struct step *step, const struct step_load *load, uint32_t first,
                     uint32_t rows, double limit_us)
{
    if (limit_us <= 0 || !step_cost_is_known(&step->cost))
        return true;
    return step_cost_predict(&step->cost.bound, load->rows + rows,
                             load->keys + step_load_keys(step, first, rows)) <= limit_us;
}

void step_force_plan(struct step *step, uint32_t parts, double limit_us)
{
    struct step_load load = {0};
    for (uint32_t i = 0; i < parts; i++) {
        struct step_part *part = &step->parts[i];
        struct sequence *sequence = &step->sequences.slots[part->sequence];
        const uint32_t count = sequence->token_count;
        if (sequence->forced == 0 || sequence->computed + part->rows < count)
            continue;
        if (load.rows == 0) {
            load = step_load_planned(step, parts);
            limit_us = step_load_limit_us(step, &load, limit_us);
        }
        uint32_t rows = rows_most(step, sequence, &load);
        while (rows > 0 && !rows_fit(step, &load, count, rows, limit_us))
            rows--;
        sequence_grow(sequence, &step->pool, count + rows);
        part->forced = rows;
        load.rows += rows;
        load.logit_rows += force_ticket(step, sequence)->asked.want_logprobs ? rows : 0;
        load.keys += step_load_keys(step, count, rows);
    }
}

uint32_t step_force_logits_from(const struct step *step, const struct sequence *sequence)
{
    if (sequence->forced == 0 || force_ticket(step, sequence)->asked.want_logprobs)
        return sequence_logits_from(sequence);
    return sequence->token_count - 1 + sequence->forced;
}
