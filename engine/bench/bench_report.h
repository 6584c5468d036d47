/* bench_report: prints what `banyan bench` has measured, as a table or a JSON object.
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

/* How streams hold their common prefix. */
enum bench_way { BENCH_PRIVATE, BENCH_PLAIN, BENCH_GROUPED, BENCH_WAYS };

enum { BENCH_REPEAT_MAX = 100 };
enum { BENCH_BATCHES_MAX = 8, BENCH_PASSES_MAX = 1 + (1 + BENCH_WAYS) * BENCH_BATCHES_MAX };

struct bench_options {
    const char *model; /* path */
    const char *isa;
    enum kv_type kv_type;
    enum model_weights weights;
    uint32_t prompt;
    uint32_t chunk;      /* tokens of one prefill step */
    uint32_t prefill_at; /* position of the prefill's first token */
    uint32_t gen;
    uint32_t context;
    uint32_t shared; /* 0 = no such measurement */
    uint32_t repeat;
    uint32_t threads;
    uint32_t device;
    uint32_t batches[BENCH_BATCHES_MAX];
    uint32_t batch_count;
    enum engine_speculation speculation; /* OFF measures kernels and model, else the engine */
    const char *draft_model;             /* path, for ENGINE_SPECULATION_MODEL */
    uint32_t draft_layers;               /* for ENGINE_SPECULATION_EXIT */
    bool wants_ops;
    bool is_free; /* as kernels_options.is_free */
    struct kernels_trial trial;
    bool is_json;
    bool is_help;
};

/* Tokens a second over `repeat` runs. */
struct bench_rate {
    double median;
    double best;
};

/* A measurement with its operations timed: the fastest of `repeat` runs. */
struct bench_pass {
    uint32_t streams;   /* 0 = the prefill */
    enum bench_way way; /* BENCH_WAYS = without --shared */
    uint64_t tokens;
    double us; /* of the run, including the time between operations */
    uint32_t count;
    struct kernels_time times[KERNELS_TIMES_MAX];
};

struct bench_result {
    struct bench_options options;
    const struct model_config *model;
    const char *isa; /* the kernels that ran */
    bool is_device;
    uint32_t threads;
    uint32_t processors;  /* that the process may use */
    double others;        /* processors that other processes used; -1 if the system does not say */
    double ready_seconds; /* from the file's name to packed weights */
    double load;          /* average of the minute before; -1 if the system does not say */
    uint32_t mean_context;
    uint64_t step_bytes;    /* weights read by a decode step of one row */
    uint64_t experts_bytes; /* weights of all experts of all layers; 0 without experts */
    struct model_codes_sums codes;
    size_t token_bytes; /* of KV pages, for each token */
    bool is_int8;       /* of most products of weights: the ceiling of integers counts */
    uint32_t moments;   /* at which the ceilings were measured; the highest count */
    struct kernels_ceilings ceilings;
    struct kernels_captures captures; /* of a device, in total */
    uint64_t captures_measured;       /* of these, in runs that count; should be 0 */
    struct bench_rate prefill;
    struct bench_rate decode[BENCH_BATCHES_MAX];
    struct bench_rate shared[BENCH_WAYS][BENCH_BATCHES_MAX];
    uint32_t pass_count; /* 0 = without --ops */
    struct bench_pass passes[BENCH_PASSES_MAX];
};

/* Prints as options.is_json says. NO_MEMORY; IO when `out` cannot be written. */
enum status bench_report_print(const struct bench_result *result, FILE *out);
