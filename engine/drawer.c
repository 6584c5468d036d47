#include "engine/drawer.h"

#include "config/base/mem.h"
#include "config/base/rng.h"

/* Adjusts of one kernels_draw; those of a draw are no more than the vocabulary. */
enum { DRAWER_ADJUSTS = 1 << 18 };

static enum status init_device(struct drawer *drawer)
{
    const uint32_t vocab = drawer->vocab;
    drawer->adjusts_max = vocab > DRAWER_ADJUSTS ? vocab : DRAWER_ADJUSTS;
    drawer->draws = mem_zalloc(drawer->rows_max, sizeof *drawer->draws);
    drawer->results = mem_zalloc(drawer->rows_max, sizeof *drawer->results);
    drawer->adjusts = mem_zalloc(drawer->adjusts_max, sizeof *drawer->adjusts);
    drawer->places = mem_zalloc(vocab, sizeof *drawer->places);
    if (drawer->draws == NULL || drawer->results == NULL || drawer->adjusts == NULL ||
        drawer->places == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the draws of %u rows", drawer->rows_max);
    return STATUS_OK;
}

enum status drawer_init(struct drawer *drawer, struct kernels *kernels, uint32_t vocab,
                        uint32_t rows_max)
{
    const uint32_t threads = kernels_threads(kernels);
    *drawer = (struct drawer){.kernels = kernels, .vocab = vocab, .rows_max = rows_max};
    TRY(kernels_drawer_create(kernels, &drawer->device, vocab));
    drawer->asks = mem_zalloc(rows_max, sizeof *drawer->asks);
    drawer->tokens = mem_zalloc(rows_max, sizeof *drawer->tokens);
    drawer->stats = mem_zalloc(rows_max, sizeof *drawer->stats);
    if (drawer->asks == NULL || drawer->tokens == NULL || drawer->stats == NULL)
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
    mem_free(drawer->adjusts);
    mem_free(drawer->places);
    *drawer = (struct drawer){0};
}

void drawer_begin(struct drawer *drawer)
{
    drawer->ask_count = 0;
}

void drawer_ask(struct drawer *drawer, const struct drawer_ask *ask)
{
    ASSERT(drawer->ask_count < drawer->rows_max);
    ASSERT(ask->row < drawer->rows_max);
    drawer->asks[drawer->ask_count++] = *ask;
}

/* --- a device --- */

/* A token's bias, and how often it was generated as its penalty for now. */
static struct draw_adjust *adjust_of(struct drawer *drawer, struct draw *draw, uint32_t token)
{
    uint32_t *place = &drawer->places[token];
    if (*place == 0) {
        *place = ++draw->adjust_count;
        drawer->adjusts[draw->adjust_first + *place - 1] = (struct draw_adjust){.token = token};
    }
    return &drawer->adjusts[draw->adjust_first + *place - 1];
}

static void adjust_all(struct drawer *drawer, struct draw *draw, const struct sampler_args *args)
{
    const struct engine_sampling *sampling = args->sampling;
    const bool is_penalised = sampling->presence_penalty != 0 || sampling->frequency_penalty != 0;
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        adjust_of(drawer, draw, sampling->bias[i].token)->bias = sampling->bias[i].bias;
    for (uint32_t i = 0; is_penalised && i < args->generated_count; i++)
        adjust_of(drawer, draw, args->generated[i])->penalty += 1;
    for (uint32_t i = 0; i < draw->adjust_count; i++) {
        struct draw_adjust *adjust = &drawer->adjusts[draw->adjust_first + i];
        drawer->places[adjust->token] = 0;
        if (adjust->penalty > 0)
            adjust->penalty =
                sampling->presence_penalty + sampling->frequency_penalty * adjust->penalty;
    }
}

/* No draw has more. */
static uint32_t adjusts_most(const struct drawer *drawer, const struct drawer_ask *ask)
{
    if (ask->kind == DRAW_TELL)
        return 0;
    const uint32_t most = ask->args.sampling->bias_count + ask->args.generated_count;
    return most < drawer->vocab ? most : drawer->vocab;
}

static void draw_one(struct drawer *drawer, struct draw *draw, const struct drawer_ask *ask,
                     uint32_t adjust_first)
{
    const struct sampler_args *args = &ask->args;
    const struct engine_sampling *sampling = args->sampling;
    *draw = (struct draw){.row = ask->row,
                          .kind = ask->kind,
                          .token = ask->token,
                          .top_count = ask->top_count,
                          .adjust_first = adjust_first};
    if (ask->kind == DRAW_TELL)
        return;
    draw->temperature = sampling->temperature;
    draw->top_p = sampling->top_p;
    draw->min_p = sampling->min_p;
    draw->top_k = sampling->top_k;
    draw->stream = sampler_stream(args);
    adjust_all(drawer, draw, args);
}

/* As many at once as there is room for adjusts. */
static enum status read_device(struct drawer *drawer, const float *logits)
{
    uint32_t next = 0;
    do {
        struct draw_args args = {.logits = logits,
                                 .draws = drawer->draws,
                                 .adjusts = drawer->adjusts,
                                 .out = drawer->results};
        uint32_t used = 0;
        for (; next < drawer->ask_count; next++) {
            if (adjusts_most(drawer, &drawer->asks[next]) > drawer->adjusts_max - used)
                break;
            draw_one(drawer, &drawer->draws[args.count], &drawer->asks[next], used);
            used += drawer->draws[args.count++].adjust_count;
        }
        TRY(kernels_draw(drawer->kernels, drawer->device, &args));
    } while (next < drawer->ask_count);
    for (uint32_t i = 0; i < drawer->ask_count; i++) {
        const uint32_t row = drawer->asks[i].row;
        drawer->tokens[row] = drawer->results[row].token;
    }
    return STATUS_OK;
}

/* --- either --- */

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

static void run_one(void *context, uint32_t index, uint32_t thread)
{
    struct drawer *drawer = context;
    const struct drawer_ask *ask = &drawer->asks[index];
    struct sampler *sampler = &drawer->samplers[thread];
    struct sampler_args args = ask->args;
    if (ask->kind == DRAW_TELL)
        return;
    args.logits = drawer->logits + (size_t)ask->row * drawer->vocab;
    args.stats = &drawer->stats[ask->row];
    drawer->tokens[ask->row] = ask->kind == DRAW_JUDGE ? sampler_judge(sampler, &args, ask->token)
                                                       : sampler_choose(sampler, &args);
}

void drawer_run(struct drawer *drawer)
{
    if (drawer->device == NULL)
        kernels_each(drawer->kernels, drawer->sampler_count, drawer->ask_count, run_one, drawer);
}

uint32_t drawer_told(struct drawer *drawer, uint32_t row, uint32_t token, uint32_t top_count,
                     float *logprob, struct engine_logprob *top)
{
    if (drawer->device == NULL) {
        const float *logits = drawer->logits + (size_t)row * drawer->vocab;
        const struct logits_stats *stats = &drawer->stats[row];
        *logprob = sampler_logprob(logits, stats, token);
        return sampler_top(&drawer->samplers[0], logits, stats, top_count, top);
    }
    const struct draw_result *result = &drawer->results[row];
    ASSERT(result->token == token);
    *logprob = result->logprob;
    uint32_t count = result->top_count < top_count ? result->top_count : top_count;
    for (uint32_t i = 0; i < count; i++)
        top[i] = (struct engine_logprob){result->top[i].token, result->top[i].logprob};
    return count;
}
