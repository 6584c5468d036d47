#include "engine/draft/draft_guess.h"

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "engine/draft/draft_model.h"

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
        FAIL(STATUS_NO_MEMORY, "no memory for the guesses of %u sequences", options->sequences_max);
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

/* The rows of tokens [first, end) of a sequence; the last gives its guess, if `is_whole`. */
static void pass_add(struct draft_guess *guess, const struct kv_pool *pool,
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

/* The sampling of the guess that comes from a row. */
static const struct engine_sampling *
pass_sampling(struct draft_guess *guess, const struct engine_sampling *asked, uint32_t row)
{
    if (!guess->has_own_noise)
        return asked;
    guess->samplings[row] = *asked;
    guess->samplings[row].seed = hash_mix64(asked->seed + 1);
    return &guess->samplings[row];
}

static void pass_run(struct draft_guess *guess, struct drawer *drawer, struct draft_guess_ask *asks,
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
                                        .generated = sequence->tokens + sequence->prompt_count,
                                        .generated_count = position - sequence->prompt_count},
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
            ask->guesses = index; /* the step will tell */
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
                pass_add(guess, pool, &part, sequence, i, true);
        }
        if (guess->batch.model.rows == 0)
            return;
        pass_run(guess, drawer, asks, index);
    }
}

/* --- pages of a draft model --- */

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

/* --- a draft model --- */

/* New tokens of a text that it has followed: its last guess, if it was right, and the next. */
enum { ROWS_FOLLOWED = 2 };

static void model_begin(struct draft_model *draft, const struct draft_guess_ask *ask)
{
    struct draft_model_place *place = &draft->places[ask->place];
    if (place->serial != ask->sequence->serial)
        place_drop(draft, place);
    place->serial = ask->sequence->serial;
    place->used = draft->turn;
}

/* Rows of one sequence in a pass that is to give its guess `index`; no guess when it has not seen
 * enough of the text, or there is no room. */
static void model_add(struct draft_model *draft, struct draft_guess_ask *ask, uint32_t which,
                      uint32_t index)
{
    const struct sequence *sequence = ask->sequence;
    const struct batch *batch = &draft->guess.batch;
    struct draft_model_place *place = &draft->places[ask->place];
    uint32_t rows = sequence->token_count + index - place->computed;
    uint32_t left = batch->rows_max - batch->model.rows;
    bool is_followed = rows <= ROWS_FOLLOWED;
    if (!is_followed && draft->read_left < left)
        left = draft->read_left;
    bool is_whole = rows <= left;
    rows = is_whole ? rows : left;
    if (rows == 0 || !place_grow(draft, place, place->computed + rows, &sequence->domain)) {
        ask->guesses = index;
        return;
    }
    const struct batch_part part = {.first = place->computed,
                                    .rows = rows,
                                    .pages = place->pages,
                                    .page_count = place->page_count};
    pass_add(&draft->guess, &draft->pool, &part, sequence, which, is_whole);
    place->computed += rows;
    draft->read_left -= is_followed ? 0 : rows;
    if (!is_whole)
        ask->guesses = index;
}

void draft_guess_model(struct draft_model *draft, struct drawer *drawer,
                       struct draft_guess_ask *asks, uint32_t count, uint32_t read_most)
{
    draft->turn++;
    draft->read_left = read_most;
    for (uint32_t i = 0; i < count; i++)
        model_begin(draft, &asks[i]);
    for (uint32_t index = 0; index < DRAFT_GUESS_MOST; index++) {
        batch_begin(&draft->guess.batch, &draft->pool, NULL);
        for (uint32_t i = 0; i < count; i++)
            if (asks[i].guesses > index)
                model_add(draft, &asks[i], i, index);
        if (draft->guess.batch.model.rows == 0)
            return;
        pass_run(&draft->guess, drawer, asks, index);
    }
}

void draft_guess_judged(struct draft_model *draft, uint32_t place, uint32_t true_count)
{
    if (draft->places[place].computed > true_count)
        draft->places[place].computed = true_count;
}
