#include "engine/step/step_mask.h"

#include "engine/grammar/grammar_mask.h"
#include "engine/step/step_metrics.h"

/* Threads that make masks at once: as many as sample. */
enum { MASK_THREADS = DRAWER_THREADS };

static void mask_one(void *context, uint32_t index, uint32_t thread)
{
    struct step *step = context;
    struct guard *guard = step->guards[index];
    (void)thread;
    switch (grammar_mask_make(guard->run, step->mask_fuel, guard->mask)) {
    case GRAMMAR_MASK_DONE:
        guard->is_ready = true;
        break;
    case GRAMMAR_MASK_SUSPENDED:
        guard->is_broken = ++guard->waits >= LIMIT_GRAMMAR_MASK_STEPS;
        break;
    case GRAMMAR_MASK_TOO_COMPLEX:
        guard->is_broken = true;
        break;
    }
}

/* The model's end tokens are allowed where the text may end. A mask that allows nothing ends the
 * choice; the vocabularies that people use have a token for each byte, so none is empty. */
static void mask_end(const struct step *step, struct guard *guard)
{
    const uint32_t words = (step->vocab_count + 31) / 32;
    bool is_empty = true;
    if (grammar_run_accepts(guard->run))
        for (uint32_t i = 0; i < step->end_count; i++)
            guard->mask[step->ends[i] / 32] |= 1U << step->ends[i] % 32;
    for (uint32_t i = 0; i < words && is_empty; i++)
        is_empty = guard->mask[i] == 0;
    guard->is_broken = guard->is_broken || is_empty;
    guard->is_ready = !guard->is_broken;
}

/* The guard of a part whose last row will be sampled from. */
static struct guard *mask_wanted(const struct step *step, const struct step_part *part)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    if (sequence->computed + part->rows < sequence->token_count)
        return NULL;
    return step_mask_guard(step, sequence);
}

uint32_t step_mask_make(struct step *step, uint32_t parts)
{
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < parts; i++) {
        struct guard *guard = mask_wanted(step, &step->parts[i]);
        if (guard != NULL && !guard->is_ready && !guard->is_broken)
            step->guards[wanted++] = guard;
    }
    if (wanted == 1)
        mask_one(step, 0, 0);
    else if (wanted > 1)
        kernels_each(step->options.kernels, MASK_THREADS, wanted, mask_one, step);
    uint32_t ready = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        if (step->guards[i]->is_ready)
            mask_end(step, step->guards[i]);
        ready += step->guards[i]->is_ready;
    }
    step_metrics_masks(step, ready, wanted - ready);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < parts; i++) {
        struct step_part part = step->parts[i];
        const struct guard *guard = mask_wanted(step, &part);
        part.rows -= guard != NULL && !guard->is_ready;
        if (part.rows > 0)
            step->parts[kept++] = part;
    }
    return kept;
}
