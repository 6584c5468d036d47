#include "engine/step/step_mask.h"

#include "engine/grammar/grammar_mask.h"
#include "engine/step/step_force.h"
#include "engine/step/step_metrics.h"

/* Threads that make masks at once: as many as sample. */
enum { MASK_THREADS = DRAWER_THREADS };

static void mask_one(void *context, uint32_t index, uint32_t thread)
{
    struct step *step = context;
    struct sequence *sequence = &step->sequences.slots[step->masked[index]];
    struct guard *guard = step_guard(step, sequence);
    if (!guard->is_force_asked)
        step_force_find(step, sequence, guard, thread);
    if (guard->is_broken || guard->is_over)
        return;
    const enum grammar_mask_result result =
        grammar_mask_make(guard->run, step->mask_fuel, guard->mask);
    guard->waits += result == GRAMMAR_MASK_SUSPENDED;
    /* Not the steps that it waits: company would decide how many these are. */
    guard->is_broken = result == GRAMMAR_MASK_TOO_COMPLEX ||
                       grammar_mask_steps(guard->run) > LIMIT_GRAMMAR_MASK_ROW_STEPS;
    guard->is_ready = result == GRAMMAR_MASK_DONE && !guard->is_broken;
}

static bool mask_is_empty(const struct step *step, const uint32_t *mask)
{
    const uint32_t words = (step->vocab_count + 31) / 32;
    uint32_t i = 0;
    while (i < words && mask[i] == 0)
        i++;
    return i == words;
}

/* Forbids the tokens that would end the answer, unless the grammar allows nothing else. The place
 * of the sequence's bans is free: a guard needs none. */
static void mask_go_on(const struct step *step, const struct sequence *sequence, uint32_t *mask)
{
    const struct engine_request *asked = &step->options.tickets->slots[sequence->slot].asked;
    const size_t slot = (size_t)(sequence - step->sequences.slots);
    uint32_t *taken = step->bans + slot * (step->end_count + LIMIT_STOP_TOKENS);
    uint32_t count = 0;
    for (uint32_t i = 0; i < step->end_count + asked->stop_token_count; i++) {
        const uint32_t token =
            i < step->end_count ? step->ends[i] : asked->stop_tokens[i - step->end_count];
        if ((mask[token / 32] >> token % 32 & 1) == 0)
            continue;
        mask[token / 32] &= ~(1U << token % 32);
        taken[count++] = token;
    }
    if (!mask_is_empty(step, mask))
        return;
    for (uint32_t i = 0; i < count; i++)
        mask[taken[i] / 32] |= 1U << taken[i] % 32;
}

bool step_mask_allow_ends(const struct step *step, const struct sequence *sequence, uint32_t ahead,
                          struct grammar_run *run, uint32_t *mask)
{
    const uint32_t least = step->options.tickets->slots[sequence->slot].asked.tokens_min;
    const bool is_early = sequence_generated(sequence) + ahead < least;
    if (is_early)
        mask_go_on(step, sequence, mask);
    if (grammar_run_accepts(run) && (!is_early || mask_is_empty(step, mask)))
        for (uint32_t i = 0; i < step->end_count; i++)
            mask[step->ends[i] / 32] |= 1U << step->ends[i] % 32;
    return !mask_is_empty(step, mask);
}

/* A mask that allows nothing ends the choice; the vocabularies that people use have a token for
 * each byte, so none is empty. */
static void mask_end(const struct step *step, const struct sequence *sequence, struct guard *guard)
{
    guard->is_broken |=
        !step_mask_allow_ends(step, sequence, sequence->forced, guard->run, guard->mask);
    guard->is_ready = !guard->is_broken;
}

/* The guard of a part whose last row will be sampled from. */
static struct guard *mask_wanted(const struct step *step, const struct step_part *part)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    if (sequence->computed + part->rows < sequence->token_count)
        return NULL;
    return step_guard(step, sequence);
}

uint32_t step_mask_make(struct step *step, uint32_t parts)
{
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < parts; i++) {
        struct guard *guard = mask_wanted(step, &step->parts[i]);
        if (guard != NULL && !guard->is_ready && !guard->is_broken && !guard->is_over)
            step->masked[wanted++] = step->parts[i].sequence;
    }
    if (wanted == 1)
        mask_one(step, 0, 0);
    else if (wanted > 1)
        kernels_each(step->options.kernels, MASK_THREADS, wanted, mask_one, step);
    uint32_t ready = 0;
    uint32_t late = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        const struct sequence *sequence = &step->sequences.slots[step->masked[i]];
        struct guard *guard = step_guard(step, sequence);
        if (guard->is_ready)
            mask_end(step, sequence, guard);
        ready += guard->is_ready;
        late += !guard->is_ready && !guard->is_over;
    }
    step_metrics_masks(step, ready, late);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < parts; i++) {
        struct step_part part = step->parts[i];
        const struct guard *guard = mask_wanted(step, &part);
        const bool is_known = step->sequences.slots[part.sequence].forced > 0;
        part.rows -= guard != NULL && !guard->is_ready && !is_known;
        if (part.rows > 0)
            step->parts[kept++] = part;
    }
    return kept;
}
