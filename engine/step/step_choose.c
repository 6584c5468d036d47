#include "engine/step/step_choose.h"

#include "engine/step/step_bans.h"
#include "engine/step/step_draft_mask.h"
#include "engine/step/step_state.h"
#include "engine/step/step_token.h"

/* The token that a spent budget of reasoning forces at `ahead`; REASONING_NO_TOKEN: none. A grammar
 * goes before: the mark waits until `mask` (NULL: there is no grammar) allows it. */
static uint32_t ask_closes(const struct step *step, const struct sequence *sequence, uint32_t ahead,
                           const uint32_t *mask)
{
    struct reasoning_budget budget = sequence->budget;
    const uint32_t *tokens = sequence->tokens + sequence->token_count;
    for (uint32_t i = 0; i < ahead; i++)
        step_token_reason(step, tokens[(int32_t)i - 1], tokens[i], &budget);
    const uint32_t token = reasoning_budget_next(&budget);
    if (token == REASONING_NO_TOKEN || mask == NULL)
        return token;
    return (mask[token / 32] >> token % 32 & 1) != 0 ? token : REASONING_NO_TOKEN;
}

/* Asks for the token at position token_count + `ahead`, to be sampled from logit row `row`. */
static void ask_draw(struct step *step, const struct step_part *part, uint32_t row, uint32_t ahead)
{
    const struct batch *batch = &step->batch;
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    const struct engine_request *asked = &step->options.tickets->slots[sequence->slot].asked;
    const struct guard *guard = step_guard(step, sequence);
    struct drawer_ask ask = {
        .args = {.sampling = &asked->sampling,
                 .choice = sequence->choice,
                 .position = sequence->token_count + ahead,
                 .prompt = sequence->tokens,
                 .prompt_count = sequence->prompt_count,
                 .generated = sequence->tokens + sequence->prompt_count,
                 .generated_count = sequence_generated(sequence) + ahead},
        .text = part->sequence,
        .serial = sequence->serial,
        .sure = sequence_generated(sequence),
        .row = row,
        .kind = DRAW_CHOOSE,
        .top_count = asked->want_logprobs ? asked->top_logprobs : 0,
    };
    const struct step_bans bans = step_bans_of(step, part->sequence);
    ask.args.bans = bans.tokens;
    ask.args.ban_count = bans.count;
    ask.args.is_banned = ask.args.generated_count < bans.before;
    if (guard != NULL) {
        ASSERT(guard->is_ready && (part->drafts == 0 || sequence->forced == 0));
        ask.args.mask =
            ahead == sequence->forced ? guard->mask : step_draft_mask_of(step, part, ahead);
    }
    if (ahead < part->drafts && step->options.acceptance != ENGINE_ACCEPTANCE_NOISE) {
        ask.kind = DRAW_JUDGE;
        ask.token = batch->tokens[batch->logit_row[row + 1]];
    }
    const uint32_t closing = ask_closes(step, sequence, ahead, ask.args.mask);
    if (closing != REASONING_NO_TOKEN) {
        ask.kind = DRAW_TELL;
        ask.token = closing;
    }
    drawer_ask(&step->drawer, &ask);
}

/* Asks for the log-probability of the token at `position`, which is known. */
static void ask_told(struct step *step, const struct sequence *sequence, uint32_t row,
                     uint32_t position)
{
    const struct engine_request *asked = &step->options.tickets->slots[sequence->slot].asked;
    drawer_ask(&step->drawer, &(struct drawer_ask){.row = row,
                                                   .kind = DRAW_TELL,
                                                   .token = sequence->tokens[position],
                                                   .top_count = asked->top_logprobs});
}

/* Asks for the scores of prompt rows, and for the token after the sequence's last row, if that row
 * is in the part, and those after the forced or draft rows behind it. */
static void ask_part(struct step *step, const struct step_part *part)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    const struct engine_request *asked = &step->options.tickets->slots[sequence->slot].asked;
    if (asked->pooling != ENGINE_POOLING_NONE)
        return;
    uint32_t from = sequence_logits_from(sequence);
    uint32_t first = sequence->computed > from ? sequence->computed : from;
    uint32_t last = sequence->token_count - 1;
    uint32_t end = sequence->computed + part->rows;
    for (uint32_t position = first; position < end && position < last; position++)
        ask_told(step, sequence, part->logits_first + position - first, position + 1);
    if (end <= last || asked->is_published || asked->is_scored)
        return;
    uint32_t row = part->logits_first + last - first;
    for (uint32_t ahead = 0; ahead <= part->forced + part->drafts; ahead++) {
        if (ahead >= sequence->forced)
            ask_draw(step, part, row++, ahead);
        else if (asked->want_logprobs)
            ask_told(step, sequence, row++, last + 1 + ahead);
    }
}

void step_choose_ask(struct step *step, uint32_t parts)
{
    drawer_begin(&step->drawer);
    for (uint32_t i = 0; i < parts; i++)
        ask_part(step, &step->parts[i]);
}
