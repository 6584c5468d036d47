#include "engine/step/step_bans.h"

#include <string.h>

#include "engine/step/step_state.h"

struct step_bans step_bans_of(struct step *step, uint32_t index)
{
    const struct sequence *sequence = &step->sequences.slots[index];
    const struct engine_request *asked = &step->options.tickets->slots[sequence->slot].asked;
    uint32_t *bans = step->bans + index * (step->end_count + LIMIT_STOP_TOKENS);
    if (asked->tokens_min == 0 && !asked->constraint.is_set)
        return (struct step_bans){0};
    memcpy(bans, step->ends, step->end_count * sizeof *bans);
    memcpy(bans + step->end_count, asked->stop_tokens, asked->stop_token_count * sizeof *bans);
    return (struct step_bans){.tokens = bans,
                              .count = step->end_count + asked->stop_token_count,
                              .before = step_guard(step, sequence) != NULL ? 0
                                        : sequence->is_reasoning           ? UINT32_MAX
                                                                           : asked->tokens_min};
}
