#include "engine/step_choose.h"

#include "config/base/mem.h"
#include "engine/step.h"

enum status step_choose_init(struct step_choose *choose, const struct kernels *kernels,
                             uint32_t vocab, uint32_t logit_rows_max)
{
    uint32_t threads = kernels_threads(kernels);
    *choose = (struct step_choose){0};
    while (choose->sampler_count < threads && choose->sampler_count < STEP_CHOOSE_THREADS)
        TRY(sampler_init(&choose->samplers[choose->sampler_count++], kernels, vocab));
    choose->draws = mem_zalloc(logit_rows_max, sizeof(*choose->draws));
    choose->tokens = mem_zalloc(logit_rows_max, sizeof(*choose->tokens));
    if (choose->draws == NULL || choose->tokens == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokens of %u rows", logit_rows_max);
    return STATUS_OK;
}

void step_choose_deinit(struct step_choose *choose)
{
    for (uint32_t i = 0; i < choose->sampler_count; i++)
        sampler_deinit(&choose->samplers[i]);
    mem_free(choose->draws);
    mem_free(choose->tokens);
    *choose = (struct step_choose){0};
}

struct choose_job {
    struct step *step;
    const float *logits;
};

static void choose_one(void *context, uint32_t index, uint32_t thread)
{
    const struct choose_job *job = context;
    struct step_choose *choose = &job->step->choose;
    const struct step_draw *draw = &choose->draws[index];
    const struct sequence *sequence = &job->step->sequences.slots[draw->sequence];
    const struct sampler_args args = {
        .logits = job->logits + (size_t)draw->row * job->step->vocab_count,
        .stats = &job->step->stats[draw->row],
        .sampling = &job->step->options.tickets->slots[sequence->slot].asked.sampling,
        .choice = sequence->choice,
        .position = sequence->token_count + draw->ahead,
        .generated = sequence->tokens + sequence->prompt_count,
        .generated_count = sequence_generated(sequence) + draw->ahead,
    };
    struct sampler *sampler = &choose->samplers[thread];
    choose->tokens[draw->row] = draw->is_judged ? sampler_judge(sampler, &args, draw->guess)
                                                : sampler_choose(sampler, &args);
}

/* The last row of a sequence draws, if it was planned, and those of guesses behind it. */
static void choose_add(struct step *step, const struct step_part *part)
{
    struct step_choose *choose = &step->choose;
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    uint32_t from = sequence_logits_from(sequence);
    uint32_t first = sequence->computed > from ? sequence->computed : from;
    uint32_t last = sequence->token_count - 1;
    if (sequence->computed + part->rows <= last ||
        step->options.tickets->slots[sequence->slot].asked.is_published)
        return;
    for (uint32_t ahead = 0; ahead <= part->drafts; ahead++) {
        const struct batch *batch = &step->batch;
        struct step_draw *draw = &choose->draws[choose->draw_count++];
        *draw = (struct step_draw){.sequence = part->sequence,
                                   .row = part->logits_first + last - first + ahead,
                                   .ahead = ahead};
        if (ahead == part->drafts || step->options.acceptance == ENGINE_ACCEPTANCE_NOISE)
            continue;
        draw->guess = batch->tokens[batch->logit_row[draw->row + 1]];
        draw->is_judged = true;
    }
}

void step_choose_all(struct step *step, uint32_t parts, const float *logits)
{
    struct choose_job job = {step, logits};
    step->choose.draw_count = 0;
    for (uint32_t i = 0; i < parts; i++)
        choose_add(step, &step->parts[i]);
    kernels_each(step->options.kernels, step->choose.sampler_count, step->choose.draw_count,
                 choose_one, &job);
}
