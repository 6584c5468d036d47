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

/* Writes the tokens that are forced where the guard's run stands, behind `ahead` tokens that stand
 * behind those of the sequence. */
static size_t find_tokens(const struct step *step, const struct sequence *sequence,
                          const struct guard *guard, uint32_t ahead, uint32_t *out, uint32_t thread)
{
    const struct step_options *options = &step->options;
    const uint32_t generated = sequence_generated(sequence) + ahead;
    const uint32_t left = force_ticket(step, sequence)->tokens_max - generated;
    const uint32_t count = sequence->token_count + ahead;
    const uint32_t before = least(GRAMMAR_FORCE_BEFORE, count);
    if (options->encode == NULL)
        return 0;
    return grammar_force_tokens(guard->run, sequence->tokens + count - before, before,
                                options->encode, options->encode_contexts[thread], out,
                                least(LIMIT_GRAMMAR_FORCED_TOKENS, left));
}

void step_force_find(const struct step *step, struct sequence *sequence, struct guard *guard,
                     uint32_t thread)
{
    uint32_t *tokens = sequence->tokens + sequence->token_count;
    ASSERT(sequence->forced == 0);
    guard->is_force_asked = true;
    const size_t count = find_tokens(step, sequence, guard, 0, tokens, thread);
    while (sequence->forced < count && guard_take_forced(guard, tokens[sequence->forced]))
        sequence->forced++;
    guard->is_over = count > 0 && !guard->is_broken && guard_is_over(guard);
}

bool step_force_is_next(const struct step *step, const struct sequence *sequence,
                        const struct guard *guard, uint32_t ahead)
{
    uint32_t tokens[LIMIT_GRAMMAR_FORCED_TOKENS];
    return find_tokens(step, sequence, guard, ahead, tokens, 0) > 0;
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

/* What a token of the sequence costs its client, in the unit of its account. */
static double rows_price(const struct step *step, const struct sequence *sequence)
{
    const double work = step_charge_work(step, sequence->slot, sequence_generated(sequence));
    return scheduler_fair_token(work) * 100 / step->fair.clients[sequence->client].weight;
}

/* Charges that the sequence's client may still have in this step, in tokens of this sequence. */
static uint32_t rows_affordable(const struct step *step, const struct sequence *sequence)
{
    const struct scheduler_client *client = &step->fair.clients[sequence->client];
    const double price = rows_price(step, sequence);
    const double left = client->limit - client->served - client->planned;
    if (client->is_over || left < price)
        return 0;
    return left > LIMIT_UNDELIVERED_TOKENS * price ? LIMIT_UNDELIVERED_TOKENS
                                                   : (uint32_t)(left / price);
}

/* Rows that the sequence can use, that its reader takes, and that its client may have. */
static uint32_t rows_wanted(const struct step *step, const struct sequence *sequence)
{
    const uint32_t most = sequence->forced - !rows_has_last(step, sequence);
    return least(least(most, LIMIT_UNDELIVERED_TOKENS - sequence->undelivered - 1),
                 rows_affordable(step, sequence));
}

/* Rows that the step has room for, of which `sharers` sequences have equal parts. */
static uint32_t rows_shared(const struct step *step, const struct sequence *sequence,
                            const struct step_load *load, uint32_t sharers)
{
    const uint64_t free_pages = step->pool.free_count / kv_pool_page_units(&step->pool);
    const uint64_t pages = (uint64_t)sequence->page_count + free_pages / sharers;
    uint32_t room = (step->options.rows_max - load->rows + sharers - 1) / sharers;
    if (force_ticket(step, sequence)->asked.want_logprobs)
        room = least(room, (step->options.logit_rows_max - load->logit_rows) / sharers);
    return least(room, pages * step->pool.layout.page_tokens - sequence->token_count);
}

/* Whether the step stays within its time if each of `sharers` sequences has `rows` more rows; they
 * are taken to begin at position `first`. */
static bool rows_fit(const struct step *step, const struct step_load *load, uint32_t first,
                     uint32_t rows, uint32_t sharers, double limit_us)
{
    if (limit_us <= 0 || !step_cost_is_known(&step->cost))
        return true;
    return step_cost_predict(&step->cost.bound, load->rows + sharers * rows,
                             load->keys + sharers * step_load_keys(step, first, rows)) <= limit_us;
}

/* Whether the part's planned rows reach its last token, behind which text is forced. */
static bool part_has_forced(const struct step *step, const struct step_part *part)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    return sequence->forced > 0 && sequence->computed + part->rows >= sequence->token_count;
}

/* Gives the part its rows, at most an equal share of the room among `sharers`. */
static void part_plan(struct step *step, struct step_part *part, struct step_load *load,
                      uint32_t sharers, double limit_us)
{
    struct sequence *sequence = &step->sequences.slots[part->sequence];
    const uint32_t count = sequence->token_count;
    const uint32_t room = rows_shared(step, sequence, load, sharers);
    uint32_t rows = least(rows_wanted(step, sequence), room);
    while (rows > 0 && !rows_fit(step, load, count, rows, sharers, limit_us))
        rows--;
    sequence_grow(sequence, &step->pool, count + rows);
    part->forced = rows;
    /* The next choice of the same client finds what this one has taken. */
    step->fair.clients[sequence->client].planned += rows * rows_price(step, sequence);
    load->rows += rows;
    load->logit_rows += force_ticket(step, sequence)->asked.want_logprobs ? rows : 0;
    load->keys += step_load_keys(step, count, rows);
}

void step_force_plan(struct step *step, uint32_t parts, double limit_us)
{
    uint32_t sharers = 0;
    for (uint32_t i = 0; i < parts; i++)
        sharers += part_has_forced(step, &step->parts[i]);
    if (sharers == 0)
        return;
    struct step_load load = step_load_planned(step, parts);
    for (uint32_t i = 0; i < parts; i++)
        if (part_has_forced(step, &step->parts[i]))
            part_plan(step, &step->parts[i], &load, sharers--, limit_us);
}

uint32_t step_force_logits_from(const struct step *step, const struct sequence *sequence)
{
    if (sequence->forced == 0 || force_ticket(step, sequence)->asked.want_logprobs)
        return sequence_logits_from(sequence);
    return sequence->token_count - 1 + sequence->forced;
}
