/* bench_engine: ratios of the engine to itself, without a server around it.
 *
 * usage: bench_engine batching  MODEL.gguf [REQUESTS [SCALE]]
 *        bench_engine unrelated MODEL.gguf [REQUESTS [ROUNDS]]
 *        bench_engine sampling  MODEL.gguf [ROUNDS]
 *
 * batching: continuous ÷ static batching with 16 sequences, prompts of 16 tokens and output lengths
 * of the Azure trace (2023, conversation) divided by SCALE. Continuous batching is measured while
 * requests are queued, so that all 16 sequences are busy; static batching over all of its batches.
 * The bound is the mean of the longest output of each batch ÷ the mean output. The ratio of steps
 * shows the planner alone; the ratio of times also depends on the machine, for which a step of few
 * rows is cheaper than one of 16.
 *
 * unrelated: throughput of prompts that share nothing, prefix cache on ÷ off, in alternate rounds.
 * The pool is small, so that the cache evicts all the time.
 *
 * sampling: 16 sequences and 1, at a mean context of 128, by how their tokens are sampled, in
 * alternate rounds. The difference between greedy here and `banyan bench` is the step around the
 * forward pass, between greedy and the others the sampler. Each rate comes with the parts of
 * banyan_step_seconds, in %, that are not kernels: sampling, and the rest (plan and delivery).
 *
 * Prints one JSON line for each figure. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/metrics.h"
#include "config/base/rng.h"
#include "engine/engine.h"
#include "engine/engine_show.h"
#include "engine/step/step_metrics.h"

enum { REQUESTS_MAX = 1024, ROUNDS_MAX = 64, TOGETHER = 16, PROMPT_MAX = 512, NAP_US = 200 };

/* Numbers of generated tokens at 0, 5, … 100 % of azure_2023_conv. */
static const uint32_t azure_quantiles[] = {10,  40,  55,  69,  82,  91,  99,  118, 142, 178, 217,
                                           300, 390, 395, 398, 405, 413, 421, 431, 488, 1000};

static const struct engine_sampling greedy = {.top_p = 1};

struct outcome {
    double tokens_per_second;
    double tokens_per_step;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_engine: %s: %s\n", what, status_note()->message);
    exit(1);
}

static uint32_t azure_length(uint64_t seed, uint32_t index, uint32_t scale)
{
    enum { PARTS = sizeof(azure_quantiles) / sizeof(azure_quantiles[0]) - 1, FINE = 1000 };
    struct rng rng = {.seed = seed + index};
    uint32_t part = (uint32_t)rng_below(&rng, PARTS);
    uint32_t within = (uint32_t)rng_below(&rng, FINE);
    uint32_t low = azure_quantiles[part];
    uint32_t length = low + (azure_quantiles[part + 1] - low) * within / FINE;
    return length / scale > 0 ? length / scale : 1;
}

static void submit(struct engine *engine, uint64_t seed, uint32_t prompt_count, uint32_t tokens_max,
                   struct engine_sampling sampling)
{
    uint32_t tokens[PROMPT_MAX];
    struct rng rng = {.seed = seed};
    struct engine_info info;
    engine_request_id id;
    engine_info(engine, &info);
    for (uint32_t i = 0; i < prompt_count; i++)
        tokens[i] = (uint32_t)rng_below(&rng, info.vocab);
    struct engine_request request = {.prompt_kind = ENGINE_PROMPT_TOKENS,
                                     .tokens = tokens,
                                     .token_count = prompt_count,
                                     .choices = 1,
                                     .tokens_max = tokens_max,
                                     .sampling = sampling,
                                     .ignore_end = true};
    /* of 256 tenants, since each may queue only so many requests */
    for (uint32_t i = 0; i < 4; i++)
        request.domain.bytes[i] = (uint8_t)(seed >> (2 * i) | 1);
    if (engine_submit(engine, &request, &id) != STATUS_OK)
        die("engine_submit");
}

/* Takes all events that wait. Returns how many requests have ended. */
static uint32_t take(struct engine *engine)
{
    static struct engine_event event;
    uint32_t ended = 0;
    while (engine_next_event(engine, &event)) {
        if (event.kind == ENGINE_EVENT_ERROR)
            die(event.note.message);
        if (event.kind == ENGINE_EVENT_TOKEN)
            engine_acknowledge(engine, event.id, event.choice, 1);
        ended += event.kind == ENGINE_EVENT_END;
    }
    return ended;
}

/* Runs until all requests have ended. Measures until then, or only while requests are queued. */
static struct outcome run(struct engine *engine, uint32_t requests, bool while_waiting)
{
    struct engine_stats first;
    struct engine_stats last;
    bool is_measured = false;
    engine_stats(engine, &first);
    int64_t began_us = clock_mono_us(clock_system());
    int64_t ended_us = began_us;
    for (uint32_t ended = 0; ended < requests;) {
        ended += take(engine);
        if (!is_measured) {
            engine_stats(engine, &last);
            ended_us = clock_mono_us(clock_system());
            is_measured =
                while_waiting && last.steps > first.steps + TOGETHER && last.sequences_waiting == 0;
        }
        usleep(NAP_US);
    }
    if (!is_measured)
        engine_stats(engine, &last);
    double tokens = (double)(last.tokens_generated - first.tokens_generated);
    return (struct outcome){
        .tokens_per_second = tokens / ((double)(ended_us - began_us) * 1e-6),
        .tokens_per_step = tokens / (double)(last.steps - first.steps),
    };
}

static struct engine *open_engine(const char *model, enum engine_batching batching, bool no_cache,
                                  uint64_t kv_bytes, struct metrics *metrics)
{
    struct engine *engine = NULL;
    const struct engine_options options = {.model_path = model,
                                           .model_descriptor = -1,
                                           .isa = "auto",
                                           .kv_type = "f16",
                                           .context = 2048,
                                           .kv_bytes = kv_bytes,
                                           .rows_max = 512,
                                           .sequences_max = TOGETHER,
                                           .batching = batching,
                                           .no_prefix_cache = no_cache,
                                           .metrics = metrics,
                                           .clock = clock_system()};
    if (engine_open(&engine, &options) != STATUS_OK)
        die("engine_open");
    return engine;
}

static struct outcome batching_run(const char *model, enum engine_batching batching,
                                   uint32_t requests, uint32_t scale)
{
    struct engine *engine = open_engine(model, batching, true, (uint64_t)1 << 30, NULL);
    for (uint32_t i = 0; i < requests; i++)
        submit(engine, i, 16, azure_length(1, i, scale), greedy);
    struct outcome out = run(engine, requests, batching == ENGINE_BATCHING_CONTINUOUS);
    engine_close(engine);
    return out;
}

static void bench_batching(const char *model, uint32_t requests, uint32_t scale)
{
    double longest = 0;
    double sum = 0;
    requests = requests / TOGETHER * TOGETHER;
    for (uint32_t i = 0; i < requests; i += TOGETHER) {
        uint32_t most = 0;
        for (uint32_t j = i; j < i + TOGETHER; j++) {
            uint32_t length = azure_length(1, j, scale);
            most = length > most ? length : most;
            sum += length;
        }
        longest += most;
    }
    double bound = longest * TOGETHER / sum;
    struct outcome fixed = batching_run(model, ENGINE_BATCHING_STATIC, requests, scale);
    struct outcome continuous = batching_run(model, ENGINE_BATCHING_CONTINUOUS, requests, scale);
    double by_steps = continuous.tokens_per_step / fixed.tokens_per_step;
    double by_time = continuous.tokens_per_second / fixed.tokens_per_second;
    printf("{\"bench\":\"batching\",\"requests\":%u,\"static_tokens_s\":%.1f,"
           "\"continuous_tokens_s\":%.1f,\"bound\":%.3f,\"by_steps\":%.3f,\"by_time\":%.3f,"
           "\"by_steps_of_bound\":%.3f,\"by_time_of_bound\":%.3f}\n",
           requests, fixed.tokens_per_second, continuous.tokens_per_second, bound, by_steps,
           by_time, by_steps / bound, by_time / bound);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static void bench_unrelated(const char *model, uint32_t requests, uint32_t rounds)
{
    enum { PROMPT = 256, ANSWER = 16 };
    double ratios[ROUNDS_MAX];
    struct engine *with = open_engine(model, ENGINE_BATCHING_CONTINUOUS, false, 256 << 20, NULL);
    struct engine *without = open_engine(model, ENGINE_BATCHING_CONTINUOUS, true, 256 << 20, NULL);
    uint64_t seed = 1000;
    for (uint32_t round = 0; round < rounds; round++) {
        double rates[2];
        for (uint32_t turn = 0; turn < 2; turn++) {
            bool is_with = (round + turn) % 2 == 0;
            struct engine *engine = is_with ? with : without;
            for (uint32_t i = 0; i < requests; i++)
                submit(engine, seed++, PROMPT, ANSWER, greedy);
            rates[is_with] = run(engine, requests, false).tokens_per_second;
        }
        ratios[round] = rates[1] / rates[0];
    }
    struct engine_stats stats;
    engine_stats(with, &stats);
    qsort(ratios, rounds, sizeof(ratios[0]), compare);
    printf("{\"bench\":\"unrelated\",\"requests\":%u,\"rounds\":%u,\"on_by_off\":%.4f,"
           "\"least\":%.4f,\"most\":%.4f,\"hit_tokens\":%" PRIu64 ",\"pages_cached\":%u}\n",
           requests, rounds, ratios[rounds / 2], ratios[0], ratios[rounds - 1],
           stats.cache_hit_tokens, stats.pages_cached);
    engine_close(with);
    engine_close(without);
}

/* Returns the seconds that one part of the steps has taken so far. */
static double part_seconds(struct metrics *metrics, enum step_time part)
{
    static const char *const labels[] = {
#define STEP_TIME(id, name) "part=\"" name "\"",
        STEP_TIMES(STEP_TIME)
#undef STEP_TIME
    };
    return metric_value(metrics_get(metrics, METRIC_HISTOGRAM, "banyan_step_seconds", "",
                                    labels[part], METRIC_SECONDS_BUCKETS,
                                    METRIC_SECONDS_BUCKET_COUNT));
}

enum { SAMPLING_RATE, SAMPLING_CHOOSE, SAMPLING_REST, SAMPLING_FIGURES };

/* Measures tokens a second of `streams` sequences between the moments when they have generated a
 * ninth and eight ninths of their tokens, so that all run all the time; and where the time of steps
 * went meanwhile, in %. */
static void sampling_run(struct engine *engine, struct metrics *metrics, uint64_t seed,
                         uint32_t streams, struct engine_sampling sampling,
                         double out[SAMPLING_FIGURES])
{
    enum { PROMPT = 56, ANSWER = 144, FROM = 16, TO = 128 };
    struct engine_stats stats;
    double began[STEP_TIME_COUNT + 1] = {0};
    double ended[STEP_TIME_COUNT + 1] = {0};
    double all = 0;
    uint64_t made = 0;
    engine_stats(engine, &stats);
    const uint64_t before = stats.tokens_generated;
    sampling.seed = seed;
    for (uint32_t i = 0; i < streams; i++)
        submit(engine, seed + i, PROMPT, ANSWER, sampling);
    for (uint32_t done = 0; done < streams;) {
        usleep(NAP_US * (streams > 1 ? 10 : 20));
        done += take(engine);
        engine_stats(engine, &stats);
        uint64_t now = stats.tokens_generated - before;
        double *at = began[0] == 0 && now >= (uint64_t)FROM * streams ? began
                     : ended[0] == 0 && now >= (uint64_t)TO * streams ? ended
                                                                      : NULL;
        if (at == NULL)
            continue;
        at[0] = (double)clock_mono_us(clock_system()) * 1e-6;
        made = stats.tokens_generated - made;
        for (unsigned i = 0; i < STEP_TIME_COUNT; i++)
            at[1 + i] = part_seconds(metrics, (enum step_time)i);
    }
    for (unsigned i = 0; i < STEP_TIME_COUNT; i++) {
        ended[1 + i] -= began[1 + i];
        all += ended[1 + i];
    }
    out[SAMPLING_RATE] = (double)made / (ended[0] - began[0]);
    out[SAMPLING_CHOOSE] = 100 * ended[1 + STEP_TIME_CHOOSE] / all;
    out[SAMPLING_REST] = 100 * (ended[1 + STEP_TIME_PLAN] + ended[1 + STEP_TIME_DELIVER]) / all;
}

static void bench_sampling(const char *model, uint32_t rounds)
{
    const struct {
        const char *name;
        struct engine_sampling sampling;
    } kinds[] = {
        {"greedy", {.top_p = 1}},
        {"temperature_1", {.temperature = 1, .top_p = 1}},
        {"top_p_0.9", {.temperature = 1, .top_p = 0.9f}},
        {"top_k_40", {.temperature = 0.7f, .top_p = 1, .top_k = 40}},
        {"penalty", {.temperature = 1, .top_p = 1, .frequency_penalty = 0.5f}},
    };
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    static const char *const names[] = {"tokens_s", "choose_percent", "rest_percent"};
    static double figures[KINDS][SAMPLING_FIGURES][ROUNDS_MAX];
    struct metrics *metrics;
    if (metrics_create(&metrics) != STATUS_OK)
        die("metrics_create");
    struct engine *engine = open_engine(model, ENGINE_BATCHING_CONTINUOUS, true, 1 << 30, metrics);
    for (uint32_t streams = TOGETHER; streams > 0; streams /= TOGETHER) {
        for (uint32_t round = 0; round < rounds; round++)
            for (uint32_t kind = 0; kind < KINDS; kind++) {
                double out[SAMPLING_FIGURES];
                sampling_run(engine, metrics, 1000 + (uint64_t)round * KINDS + kind, streams,
                             kinds[kind].sampling, out);
                for (int i = 0; i < SAMPLING_FIGURES; i++)
                    figures[kind][i][round] = out[i];
            }
        printf("{\"bench\":\"sampling\",\"streams\":%u,\"rounds\":%u", streams, rounds);
        for (int i = 0; i < SAMPLING_FIGURES; i++) {
            printf(",\"%s\":{", names[i]);
            for (uint32_t kind = 0; kind < KINDS; kind++) {
                qsort(figures[kind][i], rounds, sizeof(double), compare);
                printf("%s\"%s\":%.2f", kind > 0 ? "," : "", kinds[kind].name,
                       figures[kind][i][rounds / 2]);
            }
            printf("}");
        }
        printf("}\n");
    }
    engine_close(engine);
    metrics_destroy(metrics);
}

static uint32_t number(int argc, char **argv, int at, uint32_t fallback, uint32_t most)
{
    long value = argc > at ? strtol(argv[at], NULL, 10) : (long)fallback;
    return value < 1 ? 1 : value > (long)most ? most : (uint32_t)value;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_engine batching|unrelated|sampling MODEL.gguf [N [N]]\n");
        return 2;
    }
    if (strcmp(argv[1], "batching") == 0)
        bench_batching(argv[2], number(argc, argv, 3, 160, REQUESTS_MAX),
                       number(argc, argv, 4, 8, 1000));
    else if (strcmp(argv[1], "sampling") == 0)
        bench_sampling(argv[2], number(argc, argv, 3, 5, ROUNDS_MAX));
    else
        bench_unrelated(argv[2], number(argc, argv, 3, 32, 256),
                        number(argc, argv, 4, 9, ROUNDS_MAX));
    return 0;
}
