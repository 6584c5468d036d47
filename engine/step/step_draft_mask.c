#include "engine/step/step_draft_mask.h"

#include "engine/grammar/grammar_mask.h"
#include "engine/grammar/grammar_run.h"
#include "engine/step/step_force.h"
#include "engine/step/step_mask.h"

static uint32_t *mask_at(const struct step *step, uint32_t index)
{
    return step->draft.masks + (size_t)index * step->draft.mask_words;
}

const uint32_t *step_draft_mask_of(const struct step *step, const struct step_part *part,
                                   uint32_t ahead)
{
    ASSERT(ahead > 0 && ahead <= part->drafts);
    return mask_at(step, part->masks_first + ahead - 1);
}

bool step_draft_mask_may(const struct step *step, const struct sequence *sequence)
{
    const struct guard *guard = step_guard(step, sequence);
    return guard == NULL || (guard->is_ready && sequence->forced == 0 &&
                             grammar_mask_steps(guard->run) <= LIMIT_GRAMMAR_DRAFT_FUEL);
}

/* Whether a token would be sampled behind the draft token number `index`, to which the run has
 * gone; then its mask is made. */
static bool make_one(const struct step *step, const struct sequence *sequence,
                     const struct guard *guard, uint32_t index, uint32_t *mask)
{
    return !grammar_run_is_over(guard->run) &&
           !step_force_is_next(step, sequence, guard, index + 1) &&
           grammar_mask_make(guard->run, LIMIT_GRAMMAR_DRAFT_FUEL, mask) == GRAMMAR_MASK_DONE &&
           step_mask_allow_ends(step, sequence, index + 1, guard->run, mask);
}

void step_draft_mask_make(struct step *step, struct step_part *part)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    const struct guard *guard = step_guard(step, sequence);
    const uint32_t *drafts = sequence->tokens + sequence->token_count;
    uint32_t taken = 0;
    uint32_t kept = 0;
    if (guard == NULL || part->drafts == 0)
        return;
    part->masks_first = step->draft.mask_count;
    ASSERT(part->masks_first + part->drafts <= STEP_DRAFT_ROWS_MAX);
    while (kept < part->drafts && grammar_run_commit(guard->run, drafts[kept])) {
        taken++;
        if (!make_one(step, sequence, guard, kept, mask_at(step, part->masks_first + kept)))
            break;
        kept++;
    }
    grammar_run_give_up(guard->run, taken);
    part->drafts = kept;
    step->draft.mask_count += kept;
}
