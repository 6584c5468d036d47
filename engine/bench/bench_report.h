/* bench_report: what `banyan bench` was asked for and has measured, as a table or a JSON object.
 *
 * Owns:     nothing.
 * Thread:   one caller.
 * Cost:     a buffer of some KiB.
 * Not here: measuring, parsing of options (bench).
 */
#pragma once

#include <stdio.h>

#include "engine/bench/bench_machine.h"
#include "engine/engine.h"
#include "engine/models/model.h"
#include "kernels/kernels_measure.h"

/* How streams hold what they have in common. */
enum bench_way { BENCH_PRIVATE, BENCH_PLAIN, BENCH_GROUPED, BENCH_WAYS };

enum { BENCH_REPEAT_MAX = 100 };
enum { BENCH_BATCHES_MAX = 8, BENCH_PASSES_MAX = 1 + (1 + BENCH_WAYS) * BENCH_BATCHES_MAX };

struct bench_options {
    const char *model; /* path */
    const char *isa;
    enum kv_type kv_type;
    enum model_weights weights;
    uint32_t prompt;
    uint32_t chunk;      /* tokens of a step of it */
    uint32_t prefill_at; /* its first token's position */
    uint32_t gen;
    uint32_t context;
    uint32_t shared; /* 0 = not asked for */
    uint32_t repeat;
    uint32_t threads;
    uint32_t device;
    uint32_t batches[BENCH_BATCHES_MAX];
    uint32_t batch_count;
    enum engine_speculation speculation; /* OFF: kernels and model are measured, else the engine */
    const char *draft_model;             /* path, for ENGINE_SPECULATION_MODEL */
    uint32_t draft_layers;               /* for ENGINE_SPECULATION_EXIT */
    bool wants_ops;
    bool is_free; /* kernels_options.is_free */
    struct kernels_trial trial;
    bool is_json;
    bool is_help;
};

/* Tokens a second, of `repeat` runs. */
struct bench_rate {
    double median;
    double best;
};

/* A measurement with its operations timed: the fastest of `repeat` runs. */
struct bench_pass {
    uint32_t streams;   /* 0 = the prefill */
    enum bench_way way; /* BENCH_WAYS = not one of those with --shared */
    uint64_t tokens;
    double us; /* all of it, with what lies between operations */
    uint32_t count;
    struct kernels_time times[KERNELS_TIMES_MAX];
};

struct bench_result {
    struct bench_options options;
    const struct model_config *model;
    const char *isa; /* the one that ran */
    bool is_device;
    uint32_t threads;
    uint32_t processors;  /* that the process may use */
    double others;        /* processors that they used meanwhile; -1 = the system does not tell */
    double ready_seconds; /* from the file's name to packed weights */
    double load;          /* average of the minute before; -1 where the system does not tell */
    uint32_t mean_context;
    uint64_t step_bytes; /* weights read by a decode step */
    struct model_int4_sums int4;
    size_t token_bytes; /* of KV pages, for each token */
    bool is_int8;       /* most products of weights: then the ceiling of integers counts */
    uint32_t moments;   /* in which the ceilings were measured: the highest count */
    struct kernels_ceilings ceilings;
    struct kernels_captures captures; /* of a device, in all */
    uint64_t captures_measured;       /* of these inside runs that count: it should be 0 */
    struct bench_rate prefill;
    struct bench_rate decode[BENCH_BATCHES_MAX];
    struct bench_rate shared[BENCH_WAYS][BENCH_BATCHES_MAX];
    uint32_t pass_count; /* 0 = operations were not asked for */
    struct bench_pass passes[BENCH_PASSES_MAX];
};

/* As options.is_json says. NO_MEMORY, or IO when `out` takes less. */
enum status bench_report_print(const struct bench_result *result, FILE *out);
