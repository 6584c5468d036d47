#include "engine/draft_guess.h"

#include "config/base/hash.h"

/* --- pages --- */

static void place_drop(struct draft_model *draft, struct draft_model_place *place)
{
    while (place->page_count > 0)
        kv_pool_release(&draft->pool, place->pages[--place->page_count]);
    place->computed = 0;
}

/* Room for `tokens` tokens, if need be that of texts not asked for in this turn: oldest first. */
static bool place_grow(struct draft_model *draft, struct draft_model_place *place, uint32_t tokens,
                       const struct engine_domain *domain)
{
    uint32_t wanted = kv_pool_pages_for(&draft->pool, tokens);
    while (place->page_count < wanted) {
        if (draft->pool.free_count > 0) {
            place->pages[place->page_count++] = kv_pool_acquire(&draft->pool, domain);
            continue;
        }
        struct draft_model_place *oldest = NULL;
        for (uint32_t i = 0; i < draft->place_count; i++) {
            struct draft_model_place *other = &draft->places[i];
            if (other->page_count > 0 && other->used < draft->turn &&
                (oldest == NULL || other->used < oldest->used))
                oldest = other;
        }
        if (oldest == NULL)
            return false;
        place_drop(draft, oldest);
    }
    return true;
}

/* --- guesses --- */

static struct draft_model_place *guess_place(struct draft_model *draft,
                                             const struct draft_guess_ask *ask)
{
    struct draft_model_place *place = &draft->places[ask->place];
    if (place->serial != ask->sequence->serial)
        place_drop(draft, place);
    place->serial = ask->sequence->serial;
    place->used = draft->turn;
    return place;
}

/* Rows of one sequence in a pass that is to give its guess `index`; no guess when it has not seen
 * enough of the text, or there is no room. */
static void guess_add(struct draft_model *draft, struct draft_guess_ask *ask, uint32_t which,
                      uint32_t index)
{
    const struct sequence *sequence = ask->sequence;
    struct draft_model_place *place = &draft->places[ask->place];
    uint32_t end = sequence->token_count + index;
    uint32_t rows = end - place->computed;
    uint32_t left = draft->rows_max - draft->batch.model.rows;
    bool is_whole = rows <= left && draft->batch.model.logit_rows < draft->batch.logit_rows_max;
    rows = rows < left ? rows : left;
    if (rows == 0 || !place_grow(draft, place, place->computed + rows, &sequence->domain)) {
        ask->guesses = index;
        return;
    }
    const struct batch_part part = {
        .tokens = sequence->tokens,
        .first = place->computed,
        .rows = rows,
        .logits_from = is_whole ? end - 1 : UINT32_MAX,
        .pages = place->pages,
        .page_count = place->page_count,
        .visible = sequence->visible,
        .visible_count = sequence->visible_count,
    };
    uint32_t logits_row = batch_add(&draft->batch, &draft->pool, &part);
    place->computed += rows;
    if (is_whole)
        draft->asked[logits_row] = which;
    else
        ask->guesses = index;
}

static void guess_pass(struct draft_model *draft, struct sampler *sampler,
                       struct draft_guess_ask *asks, uint32_t index)
{
    uint32_t vocab = model_config(draft->model)->vocab;
    uint32_t logit_rows = draft->batch.model.logit_rows;
    const float *logits = model_forward(draft->model, &draft->batch.model);
    kernels_logits_stats(draft->kernels, logits, logit_rows, vocab, draft->stats);
    for (uint32_t row = 0; row < logit_rows; row++) {
        const struct draft_guess_ask *ask = &asks[draft->asked[row]];
        struct sequence *sequence = ask->sequence;
        uint32_t position = sequence->token_count + index;
        draft->sampling = *ask->sampling;
        if (draft->has_own_noise)
            draft->sampling.seed = hash_mix64(draft->sampling.seed + 1);
        const struct sampler_args args = {
            .logits = logits + (size_t)row * vocab,
            .stats = &draft->stats[row],
            .sampling = &draft->sampling,
            .choice = sequence->choice,
            .position = position,
            .generated = sequence->tokens + sequence->prompt_count,
            .generated_count = position - sequence->prompt_count,
        };
        sequence->tokens[position] = sampler_choose(sampler, &args);
    }
}

void draft_guess_model(struct draft_model *draft, struct sampler *sampler,
                       struct draft_guess_ask *asks, uint32_t count)
{
    draft->turn++;
    for (uint32_t i = 0; i < count; i++)
        guess_place(draft, &asks[i]);
    for (uint32_t index = 0; index < DRAFT_GUESS_MOST; index++) {
        batch_begin(&draft->batch, &draft->pool);
        for (uint32_t i = 0; i < count; i++)
            if (asks[i].guesses > index)
                guess_add(draft, &asks[i], i, index);
        if (draft->batch.model.rows == 0)
            return;
        guess_pass(draft, sampler, asks, index);
    }
}

void draft_guess_judged(struct draft_model *draft, uint32_t place, uint32_t true_count)
{
    if (draft->places[place].computed > true_count)
        draft->places[place].computed = true_count;
}
