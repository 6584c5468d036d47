#include "engine/draft/draft_guess.h"

#include "config/base/hash.h"
#include "config/base/mem.h"

enum status draft_guess_init(struct draft_guess *guess, const struct draft_guess_options *options)
{
    *guess = (struct draft_guess){
        .model = options->model,
        .layers = options->layers,
        .has_own_noise = options->has_own_noise,
        .asked = mem_zalloc(options->sequences_max, sizeof(*guess->asked)),
    };
    if (options->has_own_noise)
        guess->samplings = mem_zalloc(options->sequences_max, sizeof(*guess->samplings));
    if (guess->asked == NULL || (options->has_own_noise && guess->samplings == NULL))
        FAIL(STATUS_NO_MEMORY, "no memory for the drafts of %u sequences", options->sequences_max);
    return batch_init(&guess->batch, options->rows_max, options->sequences_max,
                      options->sequences_max);
}

void draft_guess_deinit(struct draft_guess *guess)
{
    batch_deinit(&guess->batch);
    mem_free(guess->samplings);
    mem_free(guess->asked);
    *guess = (struct draft_guess){0};
}

/* --- one pass --- */

void draft_guess_add(struct draft_guess *guess, const struct kv_pool *pool,
                     const struct batch_part *rows, const struct sequence *sequence, uint32_t which,
                     bool is_whole)
{
    struct batch_part part = *rows;
    part.tokens = sequence->tokens;
    part.logits_from = is_whole ? part.first + part.rows - 1 : UINT32_MAX;
    part.visible = sequence->visible;
    part.visible_count = sequence->visible_count;
    uint32_t logits_row = batch_add(&guess->batch, pool, &part);
    if (is_whole)
        guess->asked[logits_row] = which;
}

/* The sampling of the draft token that comes from a row. */
static const struct engine_sampling *
pass_sampling(struct draft_guess *guess, const struct engine_sampling *asked, uint32_t row)
{
    if (!guess->has_own_noise)
        return asked;
    guess->samplings[row] = *asked;
    guess->samplings[row].seed = hash_mix64(asked->seed + 1);
    return &guess->samplings[row];
}

void draft_guess_run(struct draft_guess *guess, struct drawer *drawer, struct draft_guess_ask *asks,
                     uint32_t index)
{
    uint32_t logit_rows = guess->batch.model.logit_rows;
    ASSERT(model_config(guess->model)->vocab == drawer->vocab);
    batch_group(&guess->batch);
    guess->batch.model.layers = guess->layers;
    drawer_begin(drawer);
    for (uint32_t row = 0; row < logit_rows; row++) {
        const struct draft_guess_ask *ask = &asks[guess->asked[row]];
        const struct sequence *sequence = ask->sequence;
        const uint32_t position = sequence->token_count + index;
        drawer_ask(drawer, &(struct drawer_ask){
                               .args = {.sampling = pass_sampling(guess, ask->sampling, row),
                                        .choice = sequence->choice,
                                        .position = position,
                                        .prompt = sequence->tokens,
                                        .prompt_count = sequence->prompt_count,
                                        .generated = sequence->tokens + sequence->prompt_count,
                                        .generated_count = position - sequence->prompt_count,
                                        .bans = ask->bans,
                                        .ban_count = ask->ban_count,
                                        .is_banned =
                                            position - sequence->prompt_count < ask->banned_before},
                               .text = ask->place,
                               .serial = sequence->serial,
                               .sure = sequence_generated(sequence),
                               .row = row,
                               .kind = DRAW_CHOOSE});
    }
    const float *logits = model_forward(guess->model, &guess->batch.model);
    const bool is_failed = drawer_read(drawer, logits, logit_rows) != STATUS_OK;
    if (!is_failed)
        drawer_run(drawer);
    for (uint32_t row = 0; row < logit_rows; row++) {
        struct draft_guess_ask *ask = &asks[guess->asked[row]];
        if (is_failed)
            ask->guesses = index; /* the step's own pass reports the failure */
        else
            ask->sequence->tokens[ask->sequence->token_count + index] = drawer->tokens[row];
    }
}

/* --- the model's first layers --- */

void draft_guess_exit(struct draft_guess *guess, const struct kv_pool *pool, struct kv_open *open,
                      struct drawer *drawer, struct draft_guess_ask *asks, uint32_t count)
{
    for (uint32_t index = 0; index < DRAFT_GUESS_MOST; index++) {
        batch_begin(&guess->batch, pool, open);
        for (uint32_t i = 0; i < count; i++) {
            const struct sequence *sequence = asks[i].sequence;
            const struct batch_part part = {.place = asks[i].place,
                                            .serial = sequence->serial,
                                            .first = sequence->computed + index,
                                            .rows = 1,
                                            .pages = sequence->pages,
                                            .page_count = sequence->page_count};
            ASSERT(sequence->computed + 1 == sequence->token_count);
            if (asks[i].guesses > index)
                draft_guess_add(guess, pool, &part, sequence, i, true);
        }
        if (guess->batch.model.rows == 0)
            return;
        draft_guess_run(guess, drawer, asks, index);
    }
}
