#include "engine/step/step_choose.h"

#include "engine/step/step_mask.h"

/* Asks for the token at position token_count + `ahead`, to be sampled from logit row `row`. */
static void ask_draw(struct step *step, const struct step_part *part, uint32_t row, uint32_t ahead)
{
    const struct batch *batch = &step->batch;
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    const struct engine_request *asked = &step->options.tickets->slots[sequence->slot].asked;
    const struct guard *guard = step_mask_guard(step, sequence);
    struct drawer_ask ask = {
        .args = {.sampling = &asked->sampling,
                 .choice = sequence->choice,
                 .position = sequence->token_count + ahead,
                 .generated = sequence->tokens + sequence->prompt_count,
                 .generated_count = sequence_generated(sequence) + ahead},
        .text = part->sequence,
        .serial = sequence->serial,
        .sure = sequence_generated(sequence),
        .row = row,
        .kind = DRAW_CHOOSE,
        .top_count = asked->want_logprobs ? asked->top_logprobs : 0,
    };
    if (guard != NULL) {
        ASSERT(guard->is_ready && ahead == 0);
        ask.args.mask = guard->mask;
    }
    if (ahead < part->drafts && step->options.acceptance != ENGINE_ACCEPTANCE_NOISE) {
        ask.kind = DRAW_JUDGE;
        ask.token = batch->tokens[batch->logit_row[row + 1]];
    }
    drawer_ask(&step->drawer, &ask);
}

/* Asks for the scores of prompt rows, and for the token after the sequence's last row, if that row
 * is in the part, and those after the draft rows behind it. */
static void ask_part(struct step *step, const struct step_part *part)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    const struct engine_request *asked = &step->options.tickets->slots[sequence->slot].asked;
    uint32_t from = sequence_logits_from(sequence);
    uint32_t first = sequence->computed > from ? sequence->computed : from;
    uint32_t last = sequence->token_count - 1;
    uint32_t end = sequence->computed + part->rows;
    for (uint32_t position = first; position < end && position < last; position++)
        drawer_ask(&step->drawer, &(struct drawer_ask){.row = part->logits_first + position - first,
                                                       .kind = DRAW_TELL,
                                                       .token = sequence->tokens[position + 1],
                                                       .top_count = asked->top_logprobs});
    if (end <= last || asked->is_published || asked->is_scored)
        return;
    for (uint32_t ahead = 0; ahead <= part->drafts; ahead++)
        ask_draw(step, part, part->logits_first + last - first + ahead, ahead);
}

void step_choose_ask(struct step *step, uint32_t parts)
{
    drawer_begin(&step->drawer);
    for (uint32_t i = 0; i < parts; i++)
        ask_part(step, &step->parts[i]);
}
