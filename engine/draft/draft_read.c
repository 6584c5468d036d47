#include "engine/draft/draft_read.h"

/* --- pages of a draft model --- */

static void place_drop(struct draft_model *draft, struct draft_model_place *place)
{
    while (place->page_count > 0)
        kv_pool_release(&draft->pool, place->pages[--place->page_count]);
    place->computed = 0;
}

/* Acquires pages for `tokens` tokens, if need be from sequences not asked for in this turn, those
 * asked for longest ago first. False when there are not enough. */
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

/* New tokens of a sequence that it has followed: an accepted last draft, and the next token. */
enum { ROWS_FOLLOWED = 2 };

static void model_begin(struct draft_model *draft, const struct draft_guess_ask *ask)
{
    struct draft_model_place *place = &draft->places[ask->place];
    if (place->serial != ask->sequence->serial)
        place_drop(draft, place);
    place->serial = ask->sequence->serial;
    place->used = draft->turn;
}

/* Adds the rows of one sequence to a pass that is to give draft token `index`. No more drafts when
 * it has not read enough of the sequence, or when there is no room. */
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
    draft_guess_add(&draft->guess, &draft->pool, &part, sequence, which, is_whole);
    place->computed += rows;
    draft->read_left -= is_followed ? 0 : rows;
    if (!is_whole)
        ask->guesses = index;
}

void draft_read_guess(struct draft_model *draft, struct drawer *drawer,
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
        draft_guess_run(&draft->guess, drawer, asks, index);
    }
}

void draft_read_judged(struct draft_model *draft, uint32_t place, uint32_t true_count)
{
    if (draft->places[place].computed > true_count)
        draft->places[place].computed = true_count;
}
