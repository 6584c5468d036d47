/* gpu_parity_draw: sampling on the device against the sampler on the same logits: equal tokens for
 * all settings, with and without masks, alone and beside others; log-probabilities within a bound.
 */
#include "engine/sampling/sampler.h"
#include "kernels/cuda/cuda_draw.h"
#include "tests/gpu/gpu_parity.h"

enum {
    ROWS = 24,
    GENERATED = 24,
    BIASES = 5,
    PROMPT = 30,
    BANS = 3,
    ADJUSTS = GENERATED + BIASES + PROMPT + BANS,
    PLACES = ROWS * ADJUSTS + 7
};

/* The rows of one call, and the sampler's arguments for each. */
struct bed {
    uint32_t vocab;
    float *logits; /* [ROWS][vocab] */
    float *device;
    struct logits_stats stats[ROWS];
    struct sampler sampler;
    struct cuda_draw *draw;
    struct engine_sampling sampling[ROWS];
    uint32_t generated[ROWS][GENERATED];
    uint32_t prompt[ROWS][PROMPT];
    uint32_t bans[ROWS][BANS];
    struct sampler_args args[ROWS];
    uint32_t *masks; /* [ROWS][mask_words] */
    uint32_t mask_words;
    struct draw_change changes[ROWS * ADJUSTS];
    uint32_t change_count;
    struct draw draws[ROWS];
};

static float normal(void)
{
    const double radius = sqrt(-2 * log(rng_unit(rng_next(&parity.rng))));
    return (float)(radius * cos(6.283185307179586 * rng_unit(rng_next(&parity.rng))));
}

static uint32_t below(uint32_t bound)
{
    return (uint32_t)rng_below(&parity.rng, bound);
}

/* Fills a row: spread like a model's, many equal, all equal, most impossible, or as large as floats
 * can be. */
static void fill_row(float *row, uint32_t vocab)
{
    const uint32_t kind = below(8);
    const float spread = (float)(1 + below(6));
    for (uint32_t i = 0; i < vocab; i++)
        switch (kind) {
        case 0:
            row[i] = (float)below(4);
            break;
        case 1:
            row[i] = 3;
            break;
        case 2:
            row[i] = below(4) == 0 ? spread * normal() : -INFINITY;
            break;
        case 3:
            row[i] = 1e38f * fminf(fmaxf(normal(), -3), 3);
            break;
        case 4:
            row[i] = below(2) == 0 ? -1e30f : (float)below(3) - 1;
            break;
        default:
            row[i] = spread * normal() - 4;
        }
    if (below(40) == 0)
        row[below(vocab)] = INFINITY;
    if (below(40) == 0)
        for (uint32_t i = 0; i < vocab; i++)
            row[i] = -INFINITY;
}

static void random_sampling(struct engine_sampling *sampling, uint32_t vocab)
{
    static const float temperatures[] = {0, 1e-45f, 1e-38f, 1e-6f, 0.01f, 0.3f, 0.7f, 1, 1.3f, 2};
    static const float top_ps[] = {1, 1, 0.999f, 0.9f, 0.5f, 0.01f, 1e-38f};
    static const float min_ps[] = {0, 0, 0.001f, 0.05f, 0.5f, 1};
    static const uint32_t top_ks[] = {0, 0, 1, 2, 40, 1000, 100000};
    *sampling = (struct engine_sampling){
        .temperature = temperatures[below(10)],
        .top_p = top_ps[below(7)],
        .min_p = min_ps[below(6)],
        .top_k = below(8) == 0 ? vocab - 1 : top_ks[below(7)],
        .seed = rng_next(&parity.rng),
    };
    if (below(3) == 0) {
        sampling->presence_penalty = (float)below(5) - 2;
        sampling->frequency_penalty = (float)below(5) - 2;
    }
    if (below(3) == 0)
        sampling->repetition_penalty = (float[]){0.5F, 1.1F, 1.3F, 2}[below(4)];
    for (uint32_t i = 0; i < BIASES && i < vocab && below(2) == 0; i++)
        sampling->bias[sampling->bias_count++] = (struct engine_bias){
            (below(vocab / BIASES + 1) * BIASES + i) % vocab, (float)below(201) - 100};
    for (uint32_t i = 0; i < sampling->bias_count; i++) /* at most one bias for each token */
        for (uint32_t j = 0; j < i; j++)
            if (sampling->bias[i].token == sampling->bias[j].token)
                sampling->bias_count = i;
}

/* Adds the row's adjustments at random places. */
static void add_adjusts(struct bed *bed, struct draw *draw, const struct sampler_args *args)
{
    const struct engine_sampling *sampling = args->sampling;
    const bool is_repeating = sampler_is_repeating(sampling);
    const bool is_penalised =
        is_repeating || sampling->presence_penalty != 0 || sampling->frequency_penalty != 0;
    struct draw_adjust list[ADJUSTS];
    uint32_t count = 0;
    draw->presence_penalty = sampling->presence_penalty;
    draw->frequency_penalty = sampling->frequency_penalty;
    draw->repetition_penalty = is_repeating ? sampling->repetition_penalty : 1;
    draw->adjust_first = PLACES - ADJUSTS * (draw->row + 1);
    draw->ban_count = args->is_banned ? args->ban_count : 0;
    draw->bias_count = sampling->bias_count;
    draw->prompt_count = is_repeating ? args->prompt_count : 0;
    draw->generated_count = is_penalised ? args->generated_count : 0;
    for (uint32_t i = 0; i < draw->ban_count; i++)
        list[count++] = (struct draw_adjust){args->bans[i], 0};
    for (uint32_t i = 0; i < draw->bias_count; i++)
        list[count++] = (struct draw_adjust){sampling->bias[i].token, sampling->bias[i].bias};
    for (uint32_t i = 0; i < draw->prompt_count; i++)
        list[count++] = (struct draw_adjust){args->prompt[i], 0};
    for (uint32_t i = 0; i < draw->generated_count; i++)
        list[count++] = (struct draw_adjust){args->generated[i], 0};
    for (uint32_t i = 0; i < count; i++)
        bed->changes[bed->change_count++] = (struct draw_change){draw->adjust_first + i, list[i]};
}

/* Returns a mask that allows one token at least: few, half of them, nearly all, or one stretch. */
static const uint32_t *random_mask(struct bed *bed, uint32_t row)
{
    uint32_t *mask = bed->masks + (size_t)row * bed->mask_words;
    const uint32_t kind = below(4);
    const uint32_t begin = below(bed->vocab);
    const uint32_t end = begin + below(bed->vocab - begin) + 1;
    memset(mask, 0, bed->mask_words * sizeof *mask);
    for (uint32_t i = 0; i < bed->vocab; i++) {
        const bool is_allowed = kind == 0   ? below(bed->vocab) < 3
                                : kind == 1 ? below(2) == 0
                                : kind == 2 ? below(50) > 0
                                            : i >= begin && i < end;
        mask[i / 32] |= (uint32_t)is_allowed << i % 32;
    }
    mask[begin / 32] |= 1U << begin % 32;
    if (below(2) == 0) /* bits after the last token mean nothing */
        mask[bed->mask_words - 1] |= (uint32_t)((uint64_t)UINT32_MAX << (bed->vocab - 1) % 32 << 1);
    return mask;
}

static bool is_in(const uint32_t *tokens, uint32_t count, uint32_t token)
{
    uint32_t i = 0;
    while (i < count && tokens[i] != token)
        i++;
    return i < count;
}

/* Returns the greatest logit that mask and bans allow. */
static float allowed_max(const struct bed *bed, const struct sampler_args *args)
{
    float max = -INFINITY;
    for (uint32_t i = 0; i < bed->vocab; i++)
        if ((args->mask == NULL || (args->mask[i / 32] >> i % 32 & 1) != 0) &&
            !(args->is_banned && is_in(args->bans, args->ban_count, i)))
            max = fmaxf(max, args->logits[i]);
    return max;
}

static void random_draw(struct bed *bed, uint32_t row)
{
    struct sampler_args *args = &bed->args[row];
    struct draw *draw = &bed->draws[row];
    struct engine_sampling *sampling = &bed->sampling[row];
    random_sampling(sampling, bed->vocab);
    for (uint32_t i = 0; i < GENERATED; i++)
        bed->generated[row][i] = below(bed->vocab);
    for (uint32_t i = 0; i < PROMPT; i++)
        bed->prompt[row][i] = below(bed->vocab);
    for (uint32_t i = 0; i < BANS; i++)
        bed->bans[row][i] = below(3) == 0 ? bed->stats[row].argmax : below(bed->vocab);
    *args = (struct sampler_args){.logits = bed->logits + (size_t)row * bed->vocab,
                                  .stats = &bed->stats[row],
                                  .sampling = sampling,
                                  .choice = below(LIMIT_CHOICES),
                                  .position = below(8192),
                                  .generated = bed->generated[row],
                                  .generated_count = below(GENERATED + 1),
                                  .prompt = bed->prompt[row],
                                  .prompt_count = below(PROMPT + 1),
                                  .bans = bed->bans[row],
                                  .ban_count = BANS,
                                  .is_banned = bed->vocab > 100 && below(3) == 0,
                                  .mask = below(2) == 0 ? random_mask(bed, row) : NULL};
    if (args->is_banned) /* else a mask and bans together could allow nothing */
        args->mask = NULL;
    *draw = (struct draw){
        .row = row,
        .kind = below(4) == 0   ? DRAW_JUDGE
                : below(8) == 0 ? DRAW_TELL
                                : DRAW_CHOOSE,
        .token = below(bed->vocab),
        .temperature = sampling->temperature,
        .top_p = sampling->top_p,
        .min_p = sampling->min_p,
        .top_k = sampling->top_k,
        .top_count = below(4) == 0 ? below(LIMIT_LOGPROBS + 1) : 0,
        .stream = rng_stream(sampling->seed, (uint64_t)args->position << 8 | args->choice),
        .mask = args->mask};
    if (draw->kind == DRAW_JUDGE && !isfinite(allowed_max(bed, args)))
        draw->kind = DRAW_CHOOSE;                  /* no token has a chance to be verified */
    if (draw->kind == DRAW_JUDGE && below(2) == 0) /* a draft that is often right */
        draw->token = bed->stats[row].argmax;
    if (draw->kind != DRAW_TELL)
        add_adjusts(bed, draw, args);
}

static uint32_t wanted_token(struct bed *bed, uint32_t row)
{
    const struct draw *draw = &bed->draws[row];
    if (draw->kind == DRAW_TELL)
        return draw->token;
    return draw->kind == DRAW_JUDGE ? sampler_judge(&bed->sampler, &bed->args[row], draw->token)
                                    : sampler_choose(&bed->sampler, &bed->args[row]);
}

/* Sums round differently, by some ulp of a value up to 50; a NaN or an infinity must be one here
 * too. */
static double logprob_error(float got, float want)
{
    if (isnan(want) || isinf(want))
        return isnan(got) || isinf(got) ? 0 : INFINITY;
    const double error = fabs((double)got - (double)want) / (8e-6 + 2.4e-7 * fabs((double)want));
    return error >= 0 ? error : INFINITY;
}

static double compare(struct bed *bed, uint32_t row, const struct draw_result *got)
{
    const float *logits = bed->args[row].logits;
    const struct logits_stats *stats = &bed->stats[row];
    struct engine_logprob top[LIMIT_LOGPROBS];
    const uint32_t top_count =
        sampler_top(&bed->sampler, logits, stats, bed->draws[row].top_count, top);
    const uint32_t token = wanted_token(bed, row);
    if (got->token != token || got->top_count != top_count)
        return INFINITY;
    double worst = logprob_error(got->logprob, sampler_logprob(logits, stats, token));
    for (uint32_t i = 0; i < top_count; i++) {
        worst = fmax(worst, logprob_error(got->top[i].logprob, top[i].logprob));
        if (got->top[i].token != top[i].token)
            return INFINITY;
    }
    return worst;
}

static void bed_init(struct bed *bed, uint32_t vocab, uint32_t places)
{
    *bed = (struct bed){.vocab = vocab, .mask_words = (vocab + 31) / 32};
    bed->masks = parity_host((size_t)ROWS * bed->mask_words * sizeof *bed->masks);
    bed->logits = parity_host((size_t)ROWS * vocab * sizeof *bed->logits);
    parity_must(sampler_init(&bed->sampler, parity.ref, vocab), "sampler");
    parity_must(cuda_draw_open(parity.device, &bed->draw, vocab, places), "draw");
    bed->device = parity_poison((size_t)ROWS * vocab * sizeof *bed->device);
}

static void bed_deinit(struct bed *bed)
{
    parity_drop(bed->device);
    cuda_draw_close(bed->draw);
    sampler_deinit(&bed->sampler);
    free(bed->masks);
    free(bed->logits);
}

/* Runs `count` draws from the first on; the logits must be unchanged. Changes are sent once. */
static double run(struct bed *bed, uint32_t first, uint32_t count, struct draw_result *out)
{
    const size_t bytes = (size_t)ROWS * bed->vocab * sizeof *bed->logits;
    float *left = parity_host(bytes);
    parity_must(cuda_draw_run(bed->draw, &(struct draw_args){.logits = bed->device,
                                                             .draws = bed->draws + first,
                                                             .count = count,
                                                             .changes = bed->changes,
                                                             .change_count = bed->change_count,
                                                             .out = out}),
                "draw");
    parity_down(left, bed->device, bytes);
    bed->change_count = 0;
    const double same = parity_same(left, bed->logits, bytes);
    free(left);
    return same;
}

/* Runs all rows in one call, then some alone. */
static double check_round(struct bed *bed)
{
    static struct draw_result got[ROWS];
    static struct draw_result again[ROWS];
    double worst;
    bed->change_count = 0;
    for (uint32_t r = 0; r < ROWS; r++)
        fill_row(bed->logits + (size_t)r * bed->vocab, bed->vocab);
    cuda_backend_upload(parity.device, bed->device, bed->logits,
                        (size_t)ROWS * bed->vocab * sizeof *bed->logits);
    kernels_logits_stats(parity.ref, bed->logits, ROWS, bed->vocab, bed->stats);
    for (uint32_t r = 0; r < ROWS; r++)
        random_draw(bed, r);
    worst = run(bed, 0, ROWS, got);
    for (uint32_t r = 0; r < ROWS; r++)
        worst = fmax(worst, compare(bed, r, &got[r]));
    const uint32_t r = below(ROWS);
    worst = fmax(worst, run(bed, r, 1, again));
    const struct draw_result *alone = &again[r];
    if (alone->token != got[r].token || alone->top_count != got[r].top_count ||
        memcmp(&alone->logprob, &got[r].logprob, sizeof alone->logprob) != 0 ||
        memcmp(alone->top, got[r].top, alone->top_count * sizeof *alone->top) != 0)
        worst = INFINITY;
    return worst;
}

static void check_vocab(uint32_t vocab, uint32_t rounds)
{
    static struct bed bed;
    double worst = 0;
    bed_init(&bed, vocab, PLACES);
    for (uint32_t i = 0; i < rounds; i++)
        worst = fmax(worst, check_round(&bed));
    parity_tell(worst, "draw %u × %d of %u tokens", rounds, ROWS, vocab);
    bed_deinit(&bed);
}

/* More draws than one launch takes, and more adjustments than it has room for: each list lifts one
 * token far above all others, and four draws share a list. */
static void check_many(void)
{
    enum { VOCAB = 1200, DRAWS = CUDA_DRAW_AT_ONCE + 44, LISTS = DRAWS / 4 };
    static struct bed bed;
    bed_init(&bed, VOCAB, LISTS * VOCAB);
    parity_drop(bed.device);
    float *logits = parity_randoms((size_t)DRAWS * VOCAB, 3);
    bed.device = parity_up(logits, (size_t)DRAWS * VOCAB * sizeof *logits);
    struct draw_change *changes = parity_host((size_t)LISTS * VOCAB * sizeof *changes);
    struct draw *draws = parity_host(DRAWS * sizeof *draws);
    struct draw_result *out = parity_host(DRAWS * sizeof *out);
    double worst = 0;
    for (uint32_t p = 0; p < LISTS * VOCAB; p++)
        changes[p] =
            (struct draw_change){p, {p % VOCAB, p % VOCAB == p / VOCAB * 7 % VOCAB ? 50 : -50}};
    for (uint32_t d = 0; d < DRAWS; d++)
        draws[d] = (struct draw){.row = d, .adjust_first = d / 4 * VOCAB, .bias_count = VOCAB};
    parity_must(cuda_draw_run(bed.draw, &(struct draw_args){.logits = bed.device,
                                                            .draws = draws,
                                                            .count = DRAWS,
                                                            .changes = changes,
                                                            .change_count = LISTS * VOCAB,
                                                            .out = out}),
                "draw");
    for (uint32_t d = 0; d < DRAWS; d++)
        worst = out[d].token == d / 4 * 7 % VOCAB ? worst : INFINITY;
    parity_tell(worst, "draw %d of %d tokens, all adjusted", DRAWS, VOCAB);
    free(logits), free(changes), free(draws), free(out);
    bed_deinit(&bed);
}

void gpu_parity_draw(void)
{
    static const uint32_t vocabs[] = {1, 2, 3, 17, 31, 100, 257, 1000};
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++)
        check_vocab(vocabs[i], parity.is_large ? 100 : 20);
    check_vocab(4097, parity.is_large ? 20 : 4); /* two segments */
    check_vocab(12001, parity.is_large ? 20 : 2);
    check_vocab(128256, parity.is_large ? 20 : 1); /* the size of Llama 3 */
    check_many();
}
