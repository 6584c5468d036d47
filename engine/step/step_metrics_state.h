/* step_metrics_state: the metric series of a step, and what their counters have been given so far.
 *
 * Owns:     pointers into a registry; all NULL when no metrics are kept.
 * Thread:   engine thread only.
 * Cost:     –
 * Not here: what is written into them, and when (step_metrics).
 */
#pragma once

#include "config/base/metrics.h"
#include "config/base/service_class.h"
#include "engine/kv/prefix_cache.h"

/* Parts of the time of a step with rows. Forward is all that kernels compute, without sampling
 * (choose) and the passes of a draft model (guess). */
#define STEP_TIMES(X)                                                                              \
    X(PLAN, "plan")                                                                                \
    X(GUESS, "guess") X(FORWARD, "forward") X(CHOOSE, "choose") X(DELIVER, "deliver")
enum step_time {
#define STEP_TIME(id, name) STEP_TIME_##id,
    STEP_TIMES(STEP_TIME)
#undef STEP_TIME
        STEP_TIME_COUNT
};

struct step_metrics {
    struct metric *seconds[STEP_TIME_COUNT];
    struct metric *tokens_prompt;
    struct metric *tokens_generated;
    struct metric *tokens_overhead;
    struct metric *embeddings;
    struct metric *batch_rows;
    struct metric *batch_utilization;
    struct metric *pages_free;
    struct metric *pages_held;
    struct metric *pages_cached;
    struct metric *pages_pinned;
    struct metric *pages_host;
    struct metric *pages_host_total;
    struct metric *token_bytes;
    struct metric *cache_queries;
    struct metric *cache_hits;
    struct metric *window_lost;
    struct metric *windows_dropped;
    struct metric *window_units;
    struct metric *evicted_host;
    struct metric *evicted_dropped;
    struct metric *preemptions_swap;
    struct metric *preemptions_recompute;
    struct metric *swap_out;
    struct metric *swap_in;
    struct metric *swap_seconds;
    struct metric *masks_ready;
    struct metric *masks_late;
    struct metric *tokens_forced;
    struct metric *reasoning_closed;
    struct metric *drafts_accepted;
    struct metric *drafts_rejected;
    struct metric *draft_length;
    struct metric *draft_spent;
    struct metric *draft_saved;
    struct metric *floor;
    struct metric *fair_pauses;
    struct step_class_metrics {
        struct metric *rows;
        struct metric *computing;
        struct metric *throttled;
        struct metric *paused;
        struct metric *waiting;
        struct metric *following;
        struct metric *queue_seconds;
        struct metric *first_token_seconds;
        struct metric *inter_token_seconds;
        struct metric *fair_spread;
        struct metric *fair_bound;
        struct metric *fair_forgotten;
    } classes[SERVICE_CLASS_COUNT];
    /* What the counters have been given so far. */
    struct prefix_figures cache_told;
    uint64_t overhead_told;
    uint64_t pauses_told;
    uint64_t forgotten_told[SERVICE_CLASS_COUNT];
    int64_t spread_part; /* scheduler_fair's now_part when the spread was computed last */
};
