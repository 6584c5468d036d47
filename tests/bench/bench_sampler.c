/* bench_sampler: what sampling a token costs, by what a request asks for.
 *
 * usage: bench_sampler [ISA]      prints one JSON line for each vocabulary and request
 *
 * One thread. Logits are distributed like a model's: a few likely tokens and a long tail. Each
 * request samples at 32 positions of 8 rows, in three rounds. A line has the mean, the median and
 * the slowest row's nanoseconds, and the mean ÷ that of a request with only a temperature. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/sampling/sampler.h"

enum { ROWS = 8, POSITIONS = 32, ROUNDS = 3, GENERATED = 8192, CHOICES = ROWS * POSITIONS };

struct request {
    const char *what;
    struct engine_sampling sampling;
    uint32_t generated;
    uint32_t top_count;
};

struct bench {
    uint32_t vocab;
    float *logits; /* [ROWS][vocab] */
    struct logits_stats stats[ROWS];
    struct sampler sampler;
    uint32_t generated[GENERATED];
    double ns[CHOICES]; /* the least of the rounds */
    uint64_t sum;       /* of the tokens, so that the compiler removes nothing */
};

static struct kernels *kernels;
static struct bench bench;
static double ordinary_ns;

/* The first one is the ordinary request that others are compared with. */
static const struct request requests[] = {
    {"temperature", {.temperature = 1, .top_p = 1}, 0, 0},
    {"greedy", {.temperature = 0, .top_p = 1}, 0, 0},
    {"top_k 50", {.temperature = 1, .top_p = 1, .top_k = 50}, 0, 0},
    {"top_k 1000", {.temperature = 1, .top_p = 1, .top_k = 1000}, 0, 0},
    {"top_k 49000", {.temperature = 1, .top_p = 1, .top_k = 49000}, 0, 0},
    {"top_p 0.9", {.temperature = 1, .top_p = 0.9f}, 0, 0},
    {"top_p 0.9 hot", {.temperature = 2, .top_p = 0.9f}, 0, 0},
    {"top_p 0.999999", {.temperature = 1, .top_p = 0.999999f}, 0, 0},
    {"top_p 0.999999 hot", {.temperature = 2, .top_p = 0.999999f}, 0, 0},
    {"top_k 49000 top_p 0.999999", {.temperature = 1, .top_p = 0.999999f, .top_k = 49000}, 0, 0},
    {"top_k 49000 top_p 0.5 hot", {.temperature = 2, .top_p = 0.5f, .top_k = 49000}, 0, 0},
    {"top_k 10000 top_p 0.3 hot", {.temperature = 2, .top_p = 0.3f, .top_k = 10000}, 0, 0},
    {"top_k 1000 top_p 0.9", {.temperature = 1, .top_p = 0.9f, .top_k = 1000}, 0, 0},
    {"top_k 100 top_p 0.9 hot", {.temperature = 2, .top_p = 0.9f, .top_k = 100}, 0, 0},
    {"top_k 20000 min_p 1e-6",
     {.temperature = 2, .top_p = 1, .top_k = 20000, .min_p = 1e-6f},
     0,
     0},
    {"min_p 0.05", {.temperature = 1, .top_p = 1, .min_p = 0.05f}, 0, 0},
    {"min_p 1e-6 hot", {.temperature = 2, .top_p = 1, .min_p = 1e-6f}, 0, 0},
    {"penalties, 8192 generated",
     {.temperature = 1, .top_p = 1, .presence_penalty = 0.5f, .frequency_penalty = 0.1f},
     GENERATED,
     0},
    {"greedy, 300 biases", {.temperature = 0, .top_p = 1, .bias_count = LIMIT_LOGIT_BIAS}, 0, 0},
    {"logprobs 20", {.temperature = 1, .top_p = 1}, 0, LIMIT_LOGPROBS},
    {"all at once",
     {.temperature = 2,
      .top_p = 0.5f,
      .min_p = 1e-6f,
      .top_k = 49000,
      .presence_penalty = 0.5f,
      .frequency_penalty = 0.1f,
      .bias_count = LIMIT_LOGIT_BIAS},
     GENERATED,
     LIMIT_LOGPROBS},
};

static double normal(struct rng *rng)
{
    double radius = sqrt(-2 * log(rng_unit(rng_next(rng))));
    return radius * cos(6.283185307179586 * rng_unit(rng_next(rng)));
}

/* Fills logits: a normal bulk with a deviation of 2.5, and some tokens far above it. */
static void fill(struct rng *rng)
{
    for (uint32_t row = 0; row < ROWS; row++) {
        float *logits = bench.logits + (size_t)row * bench.vocab;
        for (uint32_t i = 0; i < bench.vocab; i++)
            logits[i] = (float)(2.5 * normal(rng));
        for (uint32_t i = 0; i < 40; i++)
            logits[rng_below(rng, bench.vocab)] = (float)(10 + 2.5 * fabs(normal(rng)));
    }
    for (uint32_t i = 0; i < GENERATED; i++)
        bench.generated[i] = (uint32_t)rng_below(rng, bench.vocab);
}

static double choose_once(const struct request *request, uint32_t row, uint32_t position)
{
    struct engine_sampling sampling = request->sampling;
    struct engine_logprob top[LIMIT_LOGPROBS];
    for (uint32_t i = 0; i < sampling.bias_count; i++)
        sampling.bias[i] = (struct engine_bias){i * (bench.vocab / LIMIT_LOGIT_BIAS), -0.5f};
    const struct sampler_args args = {
        .logits = bench.logits + (size_t)row * bench.vocab,
        .stats = &bench.stats[row],
        .sampling = &sampling,
        .position = position,
        .generated = bench.generated,
        .generated_count = request->generated,
    };
    int64_t began_ns = clock_mono_ns(clock_system());
    bench.sum += sampler_choose(&bench.sampler, &args);
    if (request->top_count > 0)
        bench.sum += sampler_top(&bench.sampler, args.logits, args.stats, request->top_count, top);
    return (double)(clock_mono_ns(clock_system()) - began_ns);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static void measure(const struct request *request)
{
    for (uint32_t i = 0; i < CHOICES; i++)
        bench.ns[i] = INFINITY;
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < CHOICES; i++)
            bench.ns[i] = fmin(bench.ns[i], choose_once(request, i % ROWS, i / ROWS));
    double sum = 0;
    for (uint32_t i = 0; i < CHOICES; i++)
        sum += bench.ns[i];
    qsort(bench.ns, CHOICES, sizeof(bench.ns[0]), compare);
    double mean = sum / CHOICES;
    ordinary_ns = request == requests ? mean : ordinary_ns;
    printf("{\"what\": \"%s\", \"vocab\": %u, \"mean_ns\": %.0f, \"median_ns\": %.0f, "
           "\"slowest_ns\": %.0f, \"of_ordinary\": %.2f}\n",
           request->what, bench.vocab, mean, bench.ns[CHOICES / 2], bench.ns[CHOICES - 1],
           mean / ordinary_ns);
    fflush(stdout);
}

static void must(enum status status)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "bench_sampler: %s\n", status_note()->message);
    exit(1);
}

int main(int count, char **words)
{
    static const uint32_t vocabs[] = {49152, 262144};
    const struct kernels_options options = {
        .isa = count > 1 ? words[1] : "auto", .threads = 1, .rows_max = ROWS, .cols_max = 64};
    must(kernels_create(&kernels, &options));
    for (size_t v = 0; v < sizeof(vocabs) / sizeof(vocabs[0]); v++) {
        struct rng rng = {.seed = 11};
        bench.vocab = vocabs[v];
        bench.logits = mem_zalloc((size_t)ROWS * bench.vocab, sizeof(float));
        if (bench.logits == NULL)
            must(STATUS_NO_MEMORY);
        must(sampler_init(&bench.sampler, kernels, bench.vocab));
        fill(&rng);
        kernels_logits_stats(kernels, bench.logits, ROWS, bench.vocab, bench.stats);
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
            measure(&requests[i]);
        sampler_deinit(&bench.sampler);
        mem_free(bench.logits);
    }
    kernels_destroy(kernels);
    return bench.sum == 0;
}
