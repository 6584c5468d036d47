#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/sampling/sampler.h"
#include "tests/unit/kernels_kit.h"

/* Of every table in turn for what is compared with the stupid one, else of the best. */
static struct kernels *kernels;

static struct logits_stats stats_of(const float *logits, uint32_t vocab)
{
    struct logits_stats stats = {.max = logits[0]};
    double sum = 0;
    for (uint32_t i = 1; i < vocab; i++) {
        if (logits[i] > stats.max) {
            stats.max = logits[i];
            stats.argmax = i;
        }
    }
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - (double)stats.max);
    stats.log_sum_exp = (float)(log(sum) + (double)stats.max);
    return stats;
}

/* --- the stupid one: sorts everything, prunes nothing --- */

static const float *naive_values;

static int naive_compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    if (naive_values[a] != naive_values[b])
        return naive_values[a] > naive_values[b] ? -1 : 1;
    return a < b ? -1 : 1;
}

static bool naive_has(const uint32_t *tokens, uint32_t count, uint32_t token)
{
    uint32_t i = 0;
    while (i < count && tokens[i] != token)
        i++;
    return i < count;
}

static void naive_adjust(const struct sampler_args *args, uint32_t vocab, float *values)
{
    const struct engine_sampling *sampling = args->sampling;
    memcpy(values, args->logits, vocab * sizeof(float));
    for (uint32_t token = 0; token < vocab && sampling->repetition_penalty > 0; token++)
        if (naive_has(args->prompt, args->prompt_count, token) ||
            naive_has(args->generated, args->generated_count, token))
            values[token] = values[token] > 0 ? values[token] / sampling->repetition_penalty
                                              : values[token] * sampling->repetition_penalty;
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        values[sampling->bias[i].token] += sampling->bias[i].bias;
    for (uint32_t token = 0; token < vocab; token++) {
        uint32_t times = 0;
        for (uint32_t i = 0; i < args->generated_count; i++)
            times += args->generated[i] == token;
        if (times > 0)
            values[token] -=
                sampling->presence_penalty + sampling->frequency_penalty * (float)times;
        if (args->mask != NULL && (args->mask[token / 32] >> token % 32 & 1) == 0)
            values[token] = -INFINITY;
        if (args->is_banned && naive_has(args->bans, args->ban_count, token))
            values[token] = -INFINITY;
    }
}

static uint32_t naive_keep(const struct engine_sampling *sampling, const float *values,
                           uint32_t vocab, uint32_t *order)
{
    for (uint32_t i = 0; i < vocab; i++)
        order[i] = i;
    naive_values = values;
    qsort(order, vocab, sizeof(*order), naive_compare);
    double temperature = (double)sampling->temperature;
    double top = (double)values[order[0]] / temperature;
    uint32_t count = vocab;
    if (sampling->top_k > 0 && sampling->top_k < vocab)
        count = sampling->top_k;
    double total = 0;
    if (count < vocab) {
        for (uint32_t i = 0; i < count; i++)
            total += (double)expf((float)((double)values[order[i]] / temperature - top));
    } else {
        for (uint32_t i = 0; i < count; i++)
            total += (double)expf((float)((double)values[i] / temperature - top));
    }
    double reached = 0;
    for (uint32_t i = 0; i < count && sampling->top_p < 1; i++) {
        reached += (double)expf((float)((double)values[order[i]] / temperature - top));
        if (reached >= (double)sampling->top_p * total)
            count = i + 1;
    }
    uint32_t kept = 0;
    while (kept < count &&
           expf((float)((double)values[order[kept]] / temperature - top)) >= sampling->min_p)
        kept++;
    return kept;
}

static uint32_t naive_choose(const struct sampler_args *args, uint32_t vocab)
{
    float *values = mem_zalloc(vocab, sizeof(float));
    uint32_t *order = mem_zalloc(vocab, sizeof(uint32_t));
    naive_adjust(args, vocab, values);
    uint32_t best = 0;
    if (args->sampling->temperature == 0) {
        for (uint32_t i = 1; i < vocab; i++)
            if (values[i] > values[best])
                best = i;
    } else {
        uint32_t count = naive_keep(args->sampling, values, vocab, order);
        double best_score = -INFINITY;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t bits = rng_at(args->sampling->seed,
                                   (uint64_t)args->position << 8 | args->choice, order[i]);
            double score = (double)values[order[i]] / (double)args->sampling->temperature -
                           log(-log(rng_unit(bits)));
            if (score > best_score || (score == best_score && order[i] < best)) {
                best_score = score;
                best = order[i];
            }
        }
    }
    mem_free(values);
    mem_free(order);
    return best;
}

/* --- tests --- */

static float normal(struct rng *rng)
{
    double radius = sqrt(-2 * log(rng_unit(rng_next(rng))));
    return (float)(radius * cos(6.283185307179586 * rng_unit(rng_next(rng))));
}

static void random_sampling(struct rng *rng, struct engine_sampling *sampling, uint32_t vocab)
{
    static const float temperatures[] = {0, 0.01f, 0.3f, 0.7f, 1, 1.3f, 2};
    static const float top_ps[] = {1, 1, 0.999999f, 0.999f, 0.9f, 0.3f, 1e-6f, 0};
    static const float min_ps[] = {0, 0, 1e-39f, 1e-6f, 0.001f, 0.05f, 0.5f, 1};
    static const uint32_t top_ks[] = {0, 0, 1, 2, 40, 128, 129, 1000, 100000};
    *sampling = (struct engine_sampling){
        .temperature = temperatures[rng_below(rng, 7)],
        .top_p = top_ps[rng_below(rng, 8)],
        .min_p = min_ps[rng_below(rng, 8)],
        .top_k = rng_below(rng, 6) == 0 ? vocab - 1 : top_ks[rng_below(rng, 9)],
        .seed = rng_next(rng),
    };
    if (rng_below(rng, 2) == 0) {
        sampling->presence_penalty = (float)rng_below(rng, 5) - 2;
        sampling->frequency_penalty = (float)rng_below(rng, 5) - 2;
    }
    if (rng_below(rng, 2) == 0)
        sampling->repetition_penalty = (float[]){0, 1, 0.5F, 1.1F, 1.3F, 2}[rng_below(rng, 6)];
    if (rng_below(rng, 3) == 0) {
        sampling->bias_count = 1 + (uint32_t)rng_below(rng, 5);
        for (uint32_t i = 0; i < sampling->bias_count; i++)
            sampling->bias[i] = (struct engine_bias){(uint32_t)rng_below(rng, vocab),
                                                     (float)rng_below(rng, 201) - 100};
    }
}

/* A mask of few tokens, of most or of about half, in which at least one is allowed; or none. */
static const uint32_t *random_mask(struct rng *rng, uint32_t *mask, uint32_t vocab)
{
    const uint64_t kind = rng_below(rng, 6);
    const uint32_t only = (uint32_t)rng_below(rng, vocab);
    for (uint32_t i = 0; i < (vocab + 31) / 32; i++) {
        const uint32_t a = (uint32_t)rng_next(rng);
        const uint32_t b = (uint32_t)rng_next(rng) & (uint32_t)rng_next(rng);
        mask[i] = kind == 0 ? 0 : kind == 1 ? a & b : kind == 2 ? a | b : kind == 3 ? ~(a & b) : a;
    }
    mask[only / 32] |= 1U << only % 32;
    return kind == 5 ? NULL : mask;
}

static void check_equals_naive(void)
{
    static const uint32_t vocabs[] = {1, 2, 3, 16, 17, 200, 1000, 5003};
    struct rng rng = {.seed = 5};
    for (uint32_t v = 0; v < 8; v++) {
        uint32_t vocab = vocabs[v];
        struct sampler sampler;
        assert_int_equal(sampler_init(&sampler, kernels, vocab), STATUS_OK);
        float *logits = mem_zalloc(vocab, sizeof(float));
        for (int round = 0; round < (vocab > 100 ? 150 : 1500); round++) {
            float spread = (float)(1 + rng_below(&rng, 6));
            bool is_coarse = rng_below(&rng, 3) == 0; /* many equal logits */
            for (uint32_t i = 0; i < vocab; i++)
                logits[i] = is_coarse ? (float)rng_below(&rng, 4) : spread * normal(&rng);
            const struct logits_stats stats = stats_of(logits, vocab);
            struct engine_sampling sampling;
            random_sampling(&rng, &sampling, vocab);
            uint32_t generated[24];
            uint32_t prompt[40];
            uint32_t bans[3] = {stats.argmax};
            uint32_t mask[5003 / 32 + 1];
            for (uint32_t i = 0; i < 24; i++)
                generated[i] = (uint32_t)rng_below(&rng, vocab);
            for (uint32_t i = 0; i < 40; i++)
                prompt[i] = (uint32_t)rng_below(&rng, vocab);
            for (uint32_t i = 1; i < 3; i++)
                bans[i] = (uint32_t)rng_below(&rng, vocab);
            /* Where something is left: else no token is right. */
            const bool is_banned = vocab > 100 && rng_below(&rng, 3) == 0;
            const struct sampler_args args = {
                .logits = logits,
                .stats = &stats,
                .sampling = &sampling,
                .choice = (uint32_t)rng_below(&rng, LIMIT_CHOICES),
                .position = (uint32_t)rng_below(&rng, 8192),
                .generated = generated,
                .generated_count = (uint32_t)rng_below(&rng, 25),
                .prompt = prompt,
                .prompt_count = (uint32_t)rng_below(&rng, 41),
                .bans = bans,
                .ban_count = 3,
                .is_banned = is_banned,
                .mask = is_banned ? NULL : random_mask(&rng, mask, vocab),
            };
            uint32_t chosen = sampler_choose(&sampler, &args);
            assert_true(args.mask == NULL || (mask[chosen / 32] >> chosen % 32 & 1) != 0);
            assert_int_equal(chosen, naive_choose(&args, vocab));
            assert_int_equal(chosen, sampler_choose(&sampler, &args));
        }
        mem_free(logits);
        sampler_deinit(&sampler);
    }
}

/* Every table makes the same choices. */
static void test_equals_naive(void **state)
{
    (void)state;
    struct kernels *best = kernels;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        kernels = kit_kernels(*isa, 1, 1, 32);
        check_equals_naive();
        kernels_destroy(kernels);
    }
    kernels = best;
}

/* Nothing is ruled out that reaches the score, and of much that cannot nearly all is. */
static void test_noise_rules_out(void **state)
{
    (void)state;
    enum { VOCAB = 4096 };
    static float logits[VOCAB];
    static uint32_t ids[VOCAB + ROW_IDS_MORE];
    static const float temperatures[] = {1e-6f, 0.3f, 1, 2};
    struct rng rng = {.seed = 9};
    uint32_t kept = 0;
    for (int round = 0; round < 200; round++) {
        const double temperature = (double)temperatures[round % 4];
        const double score = (4.0 + round % 7) / temperature;
        for (uint32_t i = 0; i < VOCAB; i++)
            logits[i] = 2 * normal(&rng);
        struct row_noise_args noise = {.x = logits, .end = VOCAB, .stream = rng_next(&rng)};
        kernels_row_noise_set(&noise, temperature, score);
        uint32_t count = kernels_row_noise(kernels, &noise, ids);
        kept += count;
        for (uint32_t i = 0, next = 0; i < VOCAB; i++) {
            if (next < count && ids[next] == i)
                next++;
            else
                assert_true((double)logits[i] / temperature -
                                log(-log(rng_unit(rng_of(noise.stream, i)))) <
                            score);
        }
    }
    assert_true(kept < 200 * VOCAB / 4);
}

/* Pearson's χ² of `draws` draws against softmax over the kept tokens. */
enum { NO_GUESS = UINT32_MAX };

/* Of tokens that are drawn, or judged where `guess` was guessed. */
static double chi_square(const struct engine_sampling *sampling, const float *logits,
                         uint32_t vocab, uint32_t draws, uint32_t guess, uint32_t *freedom)
{
    struct sampler sampler;
    assert_int_equal(sampler_init(&sampler, kernels, vocab), STATUS_OK);
    const struct logits_stats stats = stats_of(logits, vocab);
    uint32_t counts[32] = {0};
    for (uint32_t position = 0; position < draws; position++) {
        const struct sampler_args args = {
            .logits = logits, .stats = &stats, .sampling = sampling, .position = position};
        counts[guess == NO_GUESS ? sampler_choose(&sampler, &args)
                                 : sampler_judge(&sampler, &args, guess)]++;
    }
    uint32_t order[32];
    uint32_t kept = naive_keep(sampling, logits, vocab, order);
    double total = 0;
    for (uint32_t i = 0; i < kept; i++)
        total += exp((double)logits[order[i]] / (double)sampling->temperature);
    double sum = 0;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < kept; i++) {
        double expected =
            draws * exp((double)logits[order[i]] / (double)sampling->temperature) / total;
        assert_true(expected > 5);
        sum += (counts[order[i]] - expected) * (counts[order[i]] - expected) / expected;
        seen += counts[order[i]];
    }
    assert_int_equal(seen, draws); /* nothing outside the filters */
    *freedom = kept - 1;
    sampler_deinit(&sampler);
    return sum;
}

static void test_distribution(void **state)
{
    (void)state;
    const float logits[16] = {2,    1.5f, 1,     0.5f, 0,    -0.25f, -0.5f, -1,
                              2.5f, 0.1f, -1.5f, 0.7f, 1.2f, -0.8f,  0.3f,  -2};
    const struct engine_sampling cases[] = {
        {.temperature = 1, .top_p = 1, .seed = 1},
        {.temperature = 0.7f, .top_p = 1, .seed = 2},
        {.temperature = 2, .top_p = 1, .top_k = 5, .seed = 3},
        {.temperature = 1, .top_p = 0.8f, .seed = 4},
        {.temperature = 1.5f, .top_p = 1, .min_p = 0.2f, .seed = 5},
    };
    /* Drawn, and judged: guesses that are likely, unlikely, filtered away by most. */
    static const uint32_t guesses[] = {NO_GUESS, 8, 0, 4, 15};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t g = 0; g < sizeof(guesses) / sizeof(guesses[0]); g++) {
            uint32_t freedom = 0;
            double sum = chi_square(&cases[i], logits, 16, 100000, guesses[g], &freedom);
            assert_true(freedom >= 4);
            /* Mean f, variance 2f; five standard deviations. Seeds are fixed: no chance. */
            assert_true(sum < freedom + 5 * sqrt(2.0 * freedom));
        }
    }
}

static void test_judge(void **state)
{
    (void)state;
    struct sampler sampler;
    assert_int_equal(sampler_init(&sampler, kernels, 4), STATUS_OK);
    const float logits[4] = {1, 3, 2, -2000};
    const struct logits_stats stats = stats_of(logits, 4);
    struct engine_sampling sampling = {.top_p = 1, .seed = 9};
    const struct sampler_args args = {.logits = logits, .stats = &stats, .sampling = &sampling};
    for (uint32_t guess = 0; guess < 4; guess++) /* greedy: no guess changes it */
        assert_int_equal(sampler_judge(&sampler, &args, guess), 1);
    sampling.temperature = 1;
    sampling.top_k = 1;
    for (uint32_t guess = 0; guess < 4; guess++) /* nothing else is left */
        assert_int_equal(sampler_judge(&sampler, &args, guess), 1);
    sampling.top_k = 0;
    for (struct sampler_args at = args; at.position < 1000; at.position++)
        assert_int_not_equal(sampler_judge(&sampler, &at, 3), 3); /* its chance is 0 */
    const float nothing[4] = {NAN, NAN, NAN, NAN};
    struct sampler_args broken = args;
    broken.logits = nothing;
    assert_true(sampler_judge(&sampler, &broken, 2) < 4);
    sampler_deinit(&sampler);
}

/* A temperature whose inverse is no float is as greedy, whatever is filtered or guessed. */
static void test_smallest_temperature(void **state)
{
    (void)state;
    static const float top_ps[] = {1, 0.9f};
    struct sampler sampler;
    assert_int_equal(sampler_init(&sampler, kernels, 4), STATUS_OK);
    const float logits[4] = {1, 3, 2, -2000};
    const struct logits_stats stats = stats_of(logits, 4);
    struct engine_sampling sampling = {.temperature = 1e-42f, .seed = 9};
    const struct sampler_args args = {.logits = logits, .stats = &stats, .sampling = &sampling};
    for (int i = 0; i < 2; i++) {
        sampling.top_p = top_ps[i];
        assert_int_equal(sampler_choose(&sampler, &args), 1);
        for (uint32_t guess = 0; guess < 4; guess++)
            assert_int_equal(sampler_judge(&sampler, &args, guess), 1);
    }
    sampler_deinit(&sampler);
}

static void test_penalties_and_bias(void **state)
{
    (void)state;
    struct sampler sampler;
    assert_int_equal(sampler_init(&sampler, kernels, 4), STATUS_OK);
    const float logits[4] = {3, 2.5f, 2, 0};
    const struct logits_stats stats = stats_of(logits, 4);
    const uint32_t generated[3] = {0, 0, 1};
    struct engine_sampling sampling = {.top_p = 1};
    struct sampler_args args = {.logits = logits, .stats = &stats, .sampling = &sampling};
    assert_int_equal(sampler_choose(&sampler, &args), 0);
    args.generated = generated;
    args.generated_count = 3;
    sampling.frequency_penalty = 0.4f; /* 2.2, 2.1, 2, 0 */
    assert_int_equal(sampler_choose(&sampler, &args), 0);
    sampling.presence_penalty = 0.3f; /* 1.9, 1.8, 2, 0 */
    assert_int_equal(sampler_choose(&sampler, &args), 2);
    sampling.bias_count = 1;
    sampling.bias[0] = (struct engine_bias){3, 100};
    assert_int_equal(sampler_choose(&sampler, &args), 3);
    sampling.bias[0] = (struct engine_bias){2, -100};
    assert_int_equal(sampler_choose(&sampler, &args), 0);
    sampler_deinit(&sampler);
}

static void test_greedy_ties_and_streams(void **state)
{
    (void)state;
    enum { VOCAB = 64 };
    struct sampler sampler;
    assert_int_equal(sampler_init(&sampler, kernels, VOCAB), STATUS_OK);
    float logits[VOCAB] = {0};
    logits[9] = logits[40] = 1;
    const struct logits_stats stats = stats_of(logits, VOCAB);
    struct engine_sampling sampling = {.top_p = 1, .bias_count = 1, .bias = {{5, -1}}};
    struct sampler_args args = {.logits = logits, .stats = &stats, .sampling = &sampling};
    assert_int_equal(sampler_choose(&sampler, &args), 9);

    /* Another seed, choice or position gives other noise. */
    sampling = (struct engine_sampling){.temperature = 2, .top_p = 1, .seed = 7};
    uint32_t same_seed = 0;
    uint32_t same_choice = 0;
    uint32_t same_position = 0;
    for (uint32_t position = 0; position < 200; position++) {
        args.position = position;
        args.choice = 0;
        sampling.seed = 7;
        uint32_t base = sampler_choose(&sampler, &args);
        sampling.seed = 8;
        same_seed += sampler_choose(&sampler, &args) == base;
        sampling.seed = 7;
        args.choice = 1;
        same_choice += sampler_choose(&sampler, &args) == base;
        args.choice = 0;
        args.position = position + 1000;
        same_position += sampler_choose(&sampler, &args) == base;
    }
    assert_true(same_seed < 20 && same_choice < 20 && same_position < 20);
    sampler_deinit(&sampler);
}

static void test_top(void **state)
{
    (void)state;
    const float logits[6] = {1, 3, 3, -2, 0, 2};
    const struct logits_stats stats = stats_of(logits, 6);
    struct engine_logprob top[LIMIT_LOGPROBS];
    struct sampler sampler;
    assert_int_equal(sampler_init(&sampler, kernels, 6), STATUS_OK);
    assert_int_equal(sampler_top(&sampler, logits, &stats, 0, top), 0);
    assert_int_equal(sampler_top(&sampler, logits, &stats, 3, top), 3);
    assert_int_equal(top[0].token, 1);
    assert_int_equal(top[1].token, 2);
    assert_int_equal(top[2].token, 5);
    assert_true(top[2].logprob == sampler_logprob(logits, &stats, 5));
    assert_int_equal(sampler_top(&sampler, logits, &stats, LIMIT_LOGPROBS, top), 6);
    sampler_deinit(&sampler);
    double sum = 0;
    for (uint32_t i = 0; i < 6; i++)
        sum += exp((double)top[i].logprob);
    assert_float_equal(sum, 1, 1e-6);
    assert_int_equal(top[5].token, 3);
}

/* Of a vocabulary in which most are ruled out unseen: by value, then by id; NaN is none of them. */
static void test_top_of_many(void **state)
{
    (void)state;
    enum { VOCAB = 5003 };
    static float logits[VOCAB];
    struct engine_logprob top[LIMIT_LOGPROBS];
    struct rng rng = {.seed = 8};
    struct sampler sampler;
    assert_int_equal(sampler_init(&sampler, kernels, VOCAB), STATUS_OK);
    for (int round = 0; round < 50; round++) {
        uint32_t kinds = 2 + (uint32_t)rng_below(&rng, 3000); /* ties, then hardly any */
        for (uint32_t i = 0; i < VOCAB; i++)
            logits[i] = (float)rng_below(&rng, kinds);
        const struct logits_stats stats = stats_of(logits, VOCAB);
        logits[2000 + rng_below(&rng, 3000)] = NAN;
        uint32_t found = sampler_top(&sampler, logits, &stats, LIMIT_LOGPROBS, top);
        assert_int_equal(found, LIMIT_LOGPROBS);
        for (uint32_t i = 0; i < found; i++) { /* as many stand before it as its place says */
            uint32_t token = top[i].token;
            uint32_t before = 0;
            for (uint32_t other = 0; other < VOCAB; other++)
                before += logits[other] > logits[token] ||
                          (logits[other] == logits[token] && other < token);
            assert_int_equal(before, i);
        }
    }
    sampler_deinit(&sampler);
}

/* A broken row must not take the engine down: any token, but a token. */
static void test_not_a_number(void **state)
{
    (void)state;
    struct sampler sampler;
    assert_int_equal(sampler_init(&sampler, kernels, 8), STATUS_OK);
    float logits[8];
    for (int i = 0; i < 8; i++)
        logits[i] = NAN;
    const struct logits_stats stats = {.max = NAN, .log_sum_exp = NAN};
    struct rng rng = {.seed = 3};
    for (int round = 0; round < 200; round++) {
        struct engine_sampling sampling;
        random_sampling(&rng, &sampling, 8);
        const struct sampler_args args = {.logits = logits, .stats = &stats, .sampling = &sampling};
        assert_true(sampler_choose(&sampler, &args) < 8);
    }
    sampler_deinit(&sampler);
}

static int refuse_after(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- <= 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int allowed = 0; allowed < 5; allowed++) {
        struct sampler sampler;
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        assert_int_equal(sampler_init(&sampler, kernels, 8), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_naive),
        cmocka_unit_test(test_noise_rules_out),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_judge),
        cmocka_unit_test(test_smallest_temperature),
        cmocka_unit_test(test_penalties_and_bias),
        cmocka_unit_test(test_greedy_ties_and_streams),
        cmocka_unit_test(test_top),
        cmocka_unit_test(test_top_of_many),
        cmocka_unit_test(test_not_a_number),
        cmocka_unit_test(test_no_memory),
    };
    kernels = kit_kernels("auto", 1, 1, 32);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kernels_destroy(kernels);
    return failed;
}
