#include "engine/step/step_draft.h"

#include <math.h>

#include "config/base/mem.h"
#include "engine/draft/draft_read.h"
#include "engine/step/step_bans.h"
#include "engine/step/step_draft_mask.h"
#include "engine/step/step_load.h"

/* Assumed acceptance rate of a sequence of which nothing is known. */
static const double rate_first = 0.5;

/* How far a verified draft token moves the rate; and how far a draft that was not worth its rows
 * moves it back towards rate_first, so that a sequence of bad drafts tries again. */
static const double rate_learn = 1.0 / 8;
static const double rate_forget = 1.0 / 64;

/* While a draft model is left out for its time, the assumed time of a pass shrinks: one slow pass,
 * such as the first, must not end speculation. The next try is hundreds of steps away. */
static const double pass_forget = 1.0 / 1024;

enum status step_draft_init(struct step_draft *draft, uint32_t places, uint32_t vocab)
{
    const uint32_t words = (vocab + 31) / 32;
    *draft = (struct step_draft){
        .masks = mem_zalloc((size_t)STEP_DRAFT_ROWS_MAX * words, sizeof(*draft->masks)),
        .mask_words = words,
        .places = mem_zalloc(places, sizeof(*draft->places)),
        .entries = mem_zalloc((size_t)places * DRAFT_LOOKUP_NUMBERS, sizeof(*draft->entries)),
        .asks = mem_zalloc(STEP_DRAFT_ROWS_MAX, sizeof(*draft->asks)),
    };
    if (draft->places == NULL || draft->entries == NULL || draft->asks == NULL ||
        draft->masks == NULL) {
        step_draft_deinit(draft);
        FAIL(STATUS_NO_MEMORY, "no memory for the drafts of %u sequences", places);
    }
    for (uint32_t i = 0; i < places; i++)
        draft->places[i].lookup.entries = draft->entries + (size_t)i * DRAFT_LOOKUP_NUMBERS;
    return STATUS_OK;
}

enum status step_draft_init_exit(struct step *step, uint32_t layers)
{
    const struct draft_guess_options options = {
        .model = step->options.model,
        .layers = layers,
        .has_own_noise = step->options.acceptance == ENGINE_ACCEPTANCE_REJECTION,
        .rows_max = STEP_DRAFT_ROWS_MAX,
        .sequences_max = STEP_DRAFT_ROWS_MAX,
    };
    TRY(draft_guess_init(&step->draft.exit, &options));
    return batch_init_windows(&step->draft.exit.batch, step->options.layout, step->options.context);
}

void step_draft_deinit(struct step_draft *draft)
{
    draft_guess_deinit(&draft->exit);
    mem_free(draft->places);
    mem_free(draft->entries);
    mem_free(draft->asks);
    mem_free(draft->masks);
    *draft = (struct step_draft){0};
}

/* --- load of the step --- */

/* Adds `drafts` draft rows after `count` tokens, of which `right` are expected to be accepted. */
static struct step_load load_with(const struct step *step, const struct step_load *load,
                                  uint32_t count, uint32_t drafts, double right)
{
    return (struct step_load){.rows = load->rows + drafts,
                              .logit_rows = load->logit_rows + drafts,
                              .keys = load->keys + step_load_keys(step, count, drafts),
                              .tokens = load->tokens + right,
                              .passes = load->passes > drafts ? load->passes : drafts};
}

/* Whether drafts come from a model, in passes that take time. */
static bool has_passes(const struct step *step)
{
    return step->options.speculation != ENGINE_SPECULATION_LOOKUP;
}

/* Predicted time, with the passes of a draft model. */
static double load_us(const struct step *step, const struct scheduler_cost *cost,
                      const struct step_load *load)
{
    return step_cost_predict(cost, load->rows, load->keys) +
           (has_passes(step) ? load->passes * step->draft.guess_us : 0);
}

/* Whether `with` gives more tokens for its time than `without`. True while no cost is known. */
static bool load_pays(const struct step *step, const struct step_load *without,
                      const struct step_load *with, double limit_us)
{
    if (!step_cost_is_known(&step->cost))
        return true;
    const struct scheduler_cost *fit = &step->cost.fit;
    if (limit_us > 0 && load_us(step, &step->cost.bound, with) > limit_us)
        return false;
    return load_us(step, fit, with) * without->tokens <= load_us(step, fit, without) * with->tokens;
}

/* --- one sequence --- */

static uint32_t less(uint32_t most, uint64_t room)
{
    return room < most ? (uint32_t)room : most;
}

/* A sequence may have drafts when its one row is that of its last token, and when no client of its
 * class has a claim on what it is charged: limits between clients are planned without drafts. (In a
 * window or static batch no limit is planned, and no sequence has drafts.) */
static bool part_may_draft(const struct step *step, const struct step_part *part)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    const struct scheduler_client *client = &step->fair.clients[sequence->client];
    return part->rows == 1 && sequence->computed + 1 == sequence->token_count &&
           step_draft_mask_may(step, sequence) && sequence_generated(sequence) > 0 &&
           !client->is_over && isinf(client->limit);
}

/* Draft tokens that there is room for in rows, logits, pages, the request's length
 * and its events. */
static uint32_t part_most(const struct step *step, const struct step_part *part,
                          const struct step_load *load)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    const struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    uint32_t rows_max = less(STEP_DRAFT_ROWS_MAX, step->options.rows_max);
    uint64_t pages =
        (uint64_t)sequence->page_count + step->pool.free_count / kv_pool_page_units(&step->pool);
    uint32_t most = DRAFT_LOOKUP_MOST;
    if (load->rows >= rows_max || load->logit_rows >= step->options.logit_rows_max)
        return 0;
    most = less(most, rows_max - load->rows);
    most = less(most, step->options.logit_rows_max - load->logit_rows);
    most = less(most, pages * step->pool.layout.page_tokens - sequence->token_count);
    /* The step generates one token whether or not drafts are accepted. */
    most = less(most, ticket->tokens_max - sequence_generated(sequence) - 1);
    return less(most, LIMIT_UNDELIVERED_TOKENS - sequence->undelivered - 1);
}

/* Expected number of accepted tokens among `drafts`, each accepted with chance `rate`. */
static double part_right(double rate, uint32_t drafts)
{
    double right = 0;
    double chance = 1;
    for (uint32_t i = 0; i < drafts; i++) {
        chance *= rate;
        right += chance;
    }
    return right;
}

/* What is kept of the sequence, begun anew when the slot has another sequence. */
static struct step_draft_place *part_place(struct step *step, const struct step_part *part)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    struct step_draft_place *place = &step->draft.places[part->sequence];
    if (place->serial == sequence->serial)
        return place;
    draft_lookup_reset(&place->lookup);
    place->serial = sequence->serial;
    place->rate = rate_first;
    place->told = 0;
    return place;
}

static void part_plan(struct step *step, struct step_part *part, struct step_load *load,
                      double limit_us)
{
    struct sequence *sequence = &step->sequences.slots[part->sequence];
    uint32_t count = sequence->token_count;
    uint32_t most = part_most(step, part, load);
    if (most == 0)
        return;
    struct step_draft_place *place = part_place(step, part);
    uint32_t drafts = most;
    if (!has_passes(step))
        drafts = draft_lookup_guess(&place->lookup, sequence->tokens, count, most);
    for (; drafts > 0; drafts--) {
        struct step_load with =
            load_with(step, load, count, drafts, part_right(place->rate, drafts));
        if (!load_pays(step, load, &with, limit_us))
            continue;
        part->drafts = drafts;
        if (!has_passes(step))
            step_draft_mask_make(step, part);
        sequence_grow(sequence, &step->pool, count + part->drafts);
        *load = load_with(step, load, count, part->drafts, part_right(place->rate, part->drafts));
        return;
    }
    place->rate += (rate_first - place->rate) * rate_forget;
    load->is_declined = true;
}

/* Tokens of a new text that a draft model may read in this step. The whole step waits for it and
 * nobody is charged: the most only when one client is alone and delays no more urgent work. */
static uint32_t ask_read_most(const struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    uint32_t client = table->slots[table->order[0]].client;
    bool may_hold_up = step->fair.clients[client].service_class > SERVICE_CLASS_REALTIME &&
                       step->now_us < step->urgent_until_us;
    bool is_alone = step->queue.all.count == 0;
    for (uint32_t i = 1; i < table->order_count; i++)
        is_alone = is_alone && table->slots[table->order[i]].client == client;
    return is_alone && !may_hold_up ? DRAFT_MODEL_ROWS : STEP_DRAFT_ROWS_MAX;
}

static void ask_all(struct step *step, uint32_t count)
{
    struct step_draft *draft = &step->draft;
    struct drawer *drawer = &step->drawer;
    if (step->options.draft_model != NULL)
        draft_read_guess(step->options.draft_model, drawer, draft->asks, count,
                         ask_read_most(step));
    else
        draft_guess_exit(&draft->exit, &step->pool, &step->open, drawer, draft->asks, count);
}

/* The model drafts for all sequences at once. */
static void ask_model(struct step *step, uint32_t parts)
{
    struct step_draft *draft = &step->draft;
    uint32_t count = 0;
    uint32_t passes = 0;
    draft->model_us = 0;
    for (uint32_t i = 0; i < parts; i++) {
        const struct step_part *part = &step->parts[i];
        struct sequence *sequence = &step->sequences.slots[part->sequence];
        if (part->drafts == 0)
            continue;
        passes = part->drafts > passes ? part->drafts : passes;
        draft->places[part->sequence].told = sequence->token_count;
        const struct step_bans bans = step_bans_of(step, part->sequence);
        draft->asks[count++] = (struct draft_guess_ask){
            .sequence = sequence,
            .place = part->sequence,
            .bans = bans.tokens,
            .ban_count = bans.count,
            .banned_before = bans.before,
            .sampling = &step->options.tickets->slots[sequence->slot].asked.sampling,
            .guesses = part->drafts};
    }
    if (count == 0)
        return;
    int64_t began_us = clock_mono_us(step->options.clock);
    ask_all(step, count);
    draft->model_us = clock_mono_us(step->options.clock) - began_us;
    bool is_whole = true;
    for (uint32_t i = 0, next = 0; i < parts; i++) {
        struct step_part *part = &step->parts[i];
        if (part->drafts == 0)
            continue;
        is_whole = is_whole && draft->asks[next].guesses == part->drafts;
        part->drafts = draft->asks[next++].guesses;
        step_draft_mask_make(step, part);
    }
    double guess_us = (double)draft->model_us / passes;
    if (is_whole) /* else it spent time on reading texts that were new to it */
        draft->guess_us += (guess_us - draft->guess_us) * (draft->guess_us > 0 ? rate_learn : 1);
}

/* Observes what drafts cost this step, and notes what an accepted token saves: the time in which
 * the step gives one token without drafts. */
static void tell_cost(struct step *step, uint32_t parts, const struct step_load *without)
{
    struct step_load with = *without;
    step->draft.token_us = 0;
    for (uint32_t i = 0; i < parts; i++) {
        const struct step_part *part = &step->parts[i];
        const struct sequence *sequence = &step->sequences.slots[part->sequence];
        with = load_with(step, &with, sequence->token_count, part->drafts, 0);
    }
    if (step->metrics.draft_spent == NULL || !step_cost_is_known(&step->cost) ||
        (with.rows == without->rows && step->draft.model_us == 0))
        return;
    const struct scheduler_cost *fit = &step->cost.fit;
    double without_us = step_cost_predict(fit, without->rows, without->keys);
    double with_us = step_cost_predict(fit, with.rows, with.keys) + (double)step->draft.model_us;
    step->draft.token_us = without_us / without->tokens; /* a step with drafts generates tokens */
    metric_observe(step->metrics.draft_spent, fmax(with_us - without_us, 0) * 1e-6);
}

void step_draft_plan(struct step *step, uint32_t parts, double limit_us)
{
    if (step->draft.places == NULL)
        return;
    const struct step_load without = step_load_planned(step, parts);
    struct step_load load = without;
    step->draft.mask_count = 0;
    for (uint32_t i = 0; i < parts && load.rows < STEP_DRAFT_ROWS_MAX; i++)
        if (part_may_draft(step, &step->parts[i]))
            part_plan(step, &step->parts[i], &load, limit_us);
    if (has_passes(step) && load.passes == 0 && load.is_declined)
        step->draft.guess_us -= step->draft.guess_us * pass_forget;
    if (has_passes(step))
        ask_model(step, parts);
    tell_cost(step, parts, &without);
}

void step_draft_judged(struct step *step, uint32_t index, uint32_t drafted, uint32_t accepted)
{
    double *rate = &step->draft.places[index].rate;
    for (uint32_t i = 0; i < accepted; i++)
        *rate += (1 - *rate) * rate_learn;
    if (accepted < drafted) /* those after the first wrong one were not verified */
        *rate -= *rate * rate_learn;
    if (step->options.draft_model != NULL)
        draft_read_judged(step->options.draft_model, index,
                          step->draft.places[index].told + accepted);
    step->draft.accepted += accepted;
    step->draft.rejected += drafted - accepted;
    if (step->metrics.drafts_accepted == NULL)
        return;
    const struct sequence *sequence = &step->sequences.slots[index];
    enum service_class class = step->fair.clients[sequence->client].service_class;
    metric_add(step->metrics.classes[class].rows, accepted);
    metric_add(step->metrics.drafts_accepted, accepted);
    metric_add(step->metrics.drafts_rejected, drafted - accepted);
    metric_observe(step->metrics.draft_length, accepted);
    if (step->draft.token_us > 0)
        metric_observe(step->metrics.draft_saved, accepted * step->draft.token_us * 1e-6);
}
