#include "engine/sampling/drawer.h"

#include <string.h>

#include "config/base/mem.h"
#include "config/base/rng.h"

/* Adjusts that the device has room for: 64 sequences of 2,000 tokens, twice that for the growth of
 * each list, and twice again for the lists that were outgrown. */
enum { DRAWER_ADJUSTS = 1 << 19 };

static enum status init_device(struct drawer *drawer)
{
    drawer->draws = mem_zalloc(drawer->rows_max, sizeof *drawer->draws);
    drawer->changes = mem_zalloc(drawer->adjusts_max, sizeof *drawer->changes);
    drawer->lists = mem_zalloc(drawer->texts_max, sizeof *drawer->lists);
    if (drawer->draws == NULL || drawer->changes == NULL || drawer->lists == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for sampling %u rows on the device", drawer->rows_max);
    return STATUS_OK;
}

enum status drawer_init(struct drawer *drawer, struct kernels *kernels, uint32_t vocab,
                        uint32_t rows_max, uint32_t texts_max, uint32_t context)
{
    const uint32_t threads = kernels_threads(kernels);
    /* Adjusts of one sequence: a token of the vocabulary can be banned, too. */
    const uint32_t most = context + LIMIT_LOGIT_BIAS + LIMIT_STOP_TOKENS + vocab;
    *drawer = (struct drawer){.kernels = kernels,
                              .vocab = vocab,
                              .rows_max = rows_max,
                              .texts_max = texts_max,
                              .adjusts_max = most > DRAWER_ADJUSTS ? most : DRAWER_ADJUSTS};
    TRY(kernels_drawer_create(kernels, &drawer->device, vocab, drawer->adjusts_max));
    drawer->asks = mem_zalloc(rows_max, sizeof *drawer->asks);
    drawer->tokens = mem_zalloc(rows_max, sizeof *drawer->tokens);
    drawer->stats = mem_zalloc(rows_max, sizeof *drawer->stats);
    drawer->results = mem_zalloc(rows_max, sizeof *drawer->results);
    if (drawer->asks == NULL || drawer->tokens == NULL || drawer->stats == NULL ||
        drawer->results == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokens of %u rows", rows_max);
    if (drawer->device != NULL)
        return init_device(drawer);
    while (drawer->sampler_count < threads && drawer->sampler_count < DRAWER_THREADS)
        TRY(sampler_init(&drawer->samplers[drawer->sampler_count++], kernels, vocab));
    return STATUS_OK;
}

void drawer_deinit(struct drawer *drawer)
{
    if (drawer->device != NULL)
        kernels_drawer_destroy(drawer->kernels, drawer->device);
    for (uint32_t i = 0; i < drawer->sampler_count; i++)
        sampler_deinit(&drawer->samplers[i]);
    mem_free(drawer->asks);
    mem_free(drawer->tokens);
    mem_free(drawer->stats);
    mem_free(drawer->draws);
    mem_free(drawer->results);
    mem_free(drawer->changes);
    mem_free(drawer->lists);
    *drawer = (struct drawer){0};
}

void drawer_begin(struct drawer *drawer)
{
    drawer->ask_count = 0;
    drawer->work = 0;
}

void drawer_ask(struct drawer *drawer, const struct drawer_ask *ask)
{
    ASSERT(drawer->ask_count < drawer->rows_max);
    ASSERT(ask->row < drawer->rows_max);
    ASSERT(ask->text < drawer->texts_max);
    drawer->asks[drawer->ask_count++] = *ask;
    drawer->work += ask->kind == DRAW_TELL
                        ? ask->top_count > 0
                        : sampler_work(ask->args.sampling, ask->args.prompt_count,
                                       ask->args.generated_count, ask->top_count);
    if (ask->kind != DRAW_TELL && ask->args.mask != NULL)
        drawer->work += SAMPLER_WORK_MASK;
}

/* --- a device --- */

/* Makes room for `wanted` adjusts of a sequence, if need be elsewhere; false when none is left. */
static bool list_grow(struct drawer *drawer, struct drawer_list *list, uint32_t wanted)
{
    const uint32_t left = drawer->adjusts_max - drawer->adjusts_used;
    if (wanted <= list->room)
        return true;
    if (wanted > left)
        return false;
    list->first = drawer->adjusts_used;
    list->room = wanted <= left / 2 ? 2 * wanted : wanted;
    list->count = 0;
    drawer->adjusts_used += list->room;
    return true;
}

/* The adjusts of a sequence in the order of its list, which only grows: banned tokens, biases,
 * tokens of the prompt, generated tokens. */
struct adjust_counts {
    uint32_t bans;
    uint32_t biases;
    uint32_t prompt;
    uint32_t generated;
    uint32_t all;
    uint32_t stay; /* of all: those that are final */
};

static struct adjust_counts adjust_count(const struct drawer_ask *ask)
{
    const struct engine_sampling *sampling = ask->args.sampling;
    const bool is_repeating = sampler_is_repeating(sampling);
    const bool is_penalised =
        is_repeating || sampling->presence_penalty != 0 || sampling->frequency_penalty != 0;
    struct adjust_counts counts = {.bans = ask->args.ban_count,
                                   .biases = sampling->bias_count,
                                   .prompt = is_repeating ? ask->args.prompt_count : 0,
                                   .generated = is_penalised ? ask->args.generated_count : 0};
    counts.all = counts.bans + counts.biases + counts.prompt + counts.generated;
    counts.stay = counts.all - counts.generated + (is_penalised ? ask->sure : 0);
    return counts;
}

/* Entry `index` of the list. */
static struct draw_adjust adjust_at(const struct drawer_ask *ask,
                                    const struct adjust_counts *counts, uint32_t index)
{
    const struct engine_sampling *sampling = ask->args.sampling;
    if (index < counts->bans)
        return (struct draw_adjust){.token = ask->args.bans[index]};
    index -= counts->bans;
    if (index < counts->biases)
        return (struct draw_adjust){sampling->bias[index].token, sampling->bias[index].bias};
    index -= counts->biases;
    if (index < counts->prompt)
        return (struct draw_adjust){.token = ask->args.prompt[index]};
    return (struct draw_adjust){.token = ask->args.generated[index - counts->prompt]};
}

/* Adds the changes that one draw needs; false when no room for adjusts or changes is left. */
static bool adjust_all(struct drawer *drawer, struct draw *draw, const struct drawer_ask *ask)
{
    const struct engine_sampling *sampling = ask->args.sampling;
    const struct adjust_counts counts = adjust_count(ask);
    struct drawer_list *list = &drawer->lists[ask->text];
    if (list->serial != ask->serial)
        *list = (struct drawer_list){.serial = ask->serial};
    if (!list_grow(drawer, list, counts.all) ||
        counts.all > list->count + drawer->adjusts_max - drawer->change_count)
        return false;
    for (uint32_t i = list->count; i < counts.all; i++)
        drawer->changes[drawer->change_count++] =
            (struct draw_change){list->first + i, adjust_at(ask, &counts, i)};
    if (counts.stay > list->count)
        list->count = counts.stay < counts.all ? counts.stay : counts.all;
    draw->presence_penalty = sampling->presence_penalty;
    draw->frequency_penalty = sampling->frequency_penalty;
    draw->repetition_penalty = sampler_is_repeating(sampling) ? sampling->repetition_penalty : 1;
    draw->ban_count = ask->args.is_banned ? counts.bans : 0;
    draw->adjust_first = list->first + counts.bans - draw->ban_count;
    draw->bias_count = counts.biases;
    draw->prompt_count = counts.prompt;
    draw->generated_count = counts.generated;
    return true;
}

static bool draw_one(struct drawer *drawer, struct draw *draw, const struct drawer_ask *ask)
{
    const struct sampler_args *args = &ask->args;
    const struct engine_sampling *sampling = args->sampling;
    *draw = (struct draw){
        .row = ask->row, .kind = ask->kind, .token = ask->token, .top_count = ask->top_count};
    if (ask->kind == DRAW_TELL)
        return true;
    draw->temperature = sampling->temperature;
    draw->top_p = sampling->top_p;
    draw->min_p = sampling->min_p;
    draw->top_k = sampling->top_k;
    draw->stream = sampler_stream(args);
    draw->mask = args->mask;
    return adjust_all(drawer, draw, ask);
}

/* Samples all rows at once. If the room for adjusts is used up, it samples those that fit and
 * begins all lists anew for the others. */
static enum status read_device(struct drawer *drawer, const float *logits)
{
    uint32_t next = 0;
    do {
        struct draw_args args = {.logits = logits,
                                 .draws = drawer->draws,
                                 .changes = drawer->changes,
                                 .out = drawer->results};
        drawer->change_count = 0;
        while (next < drawer->ask_count &&
               draw_one(drawer, &drawer->draws[args.count], &drawer->asks[next])) {
            args.count++;
            next++;
        }
        if (next < drawer->ask_count) {
            memset(drawer->lists, 0, drawer->texts_max * sizeof *drawer->lists);
            drawer->adjusts_used = 0;
        }
        args.change_count = drawer->change_count;
        TRY(kernels_draw(drawer->kernels, drawer->device, &args));
    } while (next < drawer->ask_count);
    for (uint32_t i = 0; i < drawer->ask_count; i++) {
        const uint32_t row = drawer->asks[i].row;
        drawer->tokens[row] = drawer->results[row].token;
    }
    return STATUS_OK;
}

/* --- both --- */

enum status drawer_read(struct drawer *drawer, const float *logits, uint32_t rows)
{
    ASSERT(rows <= drawer->rows_max);
    if (logits == NULL)
        return STATUS_UNAVAILABLE;
    if (drawer->device != NULL)
        return read_device(drawer, logits);
    drawer->logits = logits;
    kernels_logits_stats(drawer->kernels, logits, rows, drawer->vocab, drawer->stats);
    return STATUS_OK;
}

/* Prepares what drawer_told returns. */
static void run_tell(struct drawer *drawer, const struct drawer_ask *ask, struct sampler *sampler)
{
    struct draw_result *result = &drawer->results[ask->row];
    struct engine_logprob top[LIMIT_LOGPROBS];
    const float *logits = drawer->logits + (size_t)ask->row * drawer->vocab;
    const struct logits_stats *stats = &drawer->stats[ask->row];
    result->token = ask->kind == DRAW_TELL ? ask->token : drawer->tokens[ask->row];
    result->logprob = sampler_logprob(logits, stats, result->token);
    result->top_count = sampler_top(sampler, logits, stats, ask->top_count, top);
    for (uint32_t i = 0; i < result->top_count; i++)
        result->top[i] = (struct draw_logprob){top[i].token, top[i].logprob};
}

static void run_one(void *context, uint32_t index, uint32_t thread)
{
    struct drawer *drawer = context;
    const struct drawer_ask *ask = &drawer->asks[index];
    struct sampler *sampler = &drawer->samplers[thread];
    struct sampler_args args = ask->args;
    args.logits = drawer->logits + (size_t)ask->row * drawer->vocab;
    args.stats = &drawer->stats[ask->row];
    if (ask->kind == DRAW_TELL)
        drawer->tokens[ask->row] = ask->token;
    else
        drawer->tokens[ask->row] = ask->kind == DRAW_JUDGE
                                       ? sampler_judge(sampler, &args, ask->token)
                                       : sampler_choose(sampler, &args);
    run_tell(drawer, ask, sampler);
}

void drawer_run(struct drawer *drawer)
{
    if (drawer->device == NULL)
        kernels_each(drawer->kernels, drawer->sampler_count, drawer->ask_count, run_one, drawer);
}

uint32_t drawer_told(struct drawer *drawer, uint32_t row, uint32_t token, uint32_t top_count,
                     float *logprob, struct engine_logprob *top)
{
    const struct draw_result *result = &drawer->results[row];
    ASSERT(result->token == token);
    *logprob = result->logprob;
    uint32_t count = result->top_count < top_count ? result->top_count : top_count;
    for (uint32_t i = 0; i < count; i++)
        top[i] = (struct engine_logprob){result->top[i].token, result->top[i].logprob};
    return count;
}
