/* step_state: the state that all files of the step share.
 *
 * Owns:     nothing by itself: step.c makes and frees every member.
 * Thread:   engine thread only, except inbox, unpublished, outbox, the flags, the figures and what
 *           published_lock guards.
 * Cost:     –
 * Not here: any behaviour (step, step_*).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/pulse.h"
#include "engine/grammar/grammar_force.h"
#include "engine/kv/kv_swap.h"
#include "engine/kv/prefix_cache.h"
#include "engine/models/vocab.h"
#include "engine/request/engine_mode.h"
#include "engine/request/inbox.h"
#include "engine/request/outbox.h"
#include "engine/request/ticket.h"
#include "engine/sampling/drawer.h"
#include "engine/scheduler/scheduler.h"
#include "engine/sequence/batch.h"
#include "engine/sequence/sequence.h"
#include "engine/step/step_cost.h"
#include "engine/step/step_draft_state.h"
#include "engine/step/step_metrics_state.h"
#include "engine/step/step_queue.h"

/* Figures for engine_stats, written by the engine thread. */
struct step_figures {
    _Atomic uint32_t running;
    _Atomic uint32_t waiting;
    _Atomic uint32_t throttled; /* of those running */
    _Atomic uint32_t followers;
    _Atomic uint32_t pages_free;
    _Atomic uint32_t pages_idle;
    _Atomic uint32_t pages_pinned;
    _Atomic uint32_t pages_host;
    _Atomic uint64_t cache_query_tokens;
    _Atomic uint64_t cache_hit_tokens;
    _Atomic uint64_t steps;
    _Atomic uint64_t rows;
    _Atomic uint64_t tokens_prompt;
    _Atomic uint64_t tokens_generated;
    _Atomic uint64_t tokens_overhead;
    _Atomic uint64_t gap_us[SERVICE_CLASS_COUNT]; /* as step_gap.us; 0 = not known yet */
    _Atomic uint64_t row_ns; /* predicted time of a prompt row; 0 = not known yet */
    _Atomic uint64_t preemptions_swap;
    _Atomic uint64_t preemptions_recompute;
    _Atomic uint64_t swap_bytes_out;
    _Atomic uint64_t swap_bytes_in;
    _Atomic uint64_t swap_us;
    struct step_figures_class {
        _Atomic uint32_t waiting, running, paused, throttled;
    } by_class[SERVICE_CLASS_COUNT];
};

/* A client has a request that waits, in this step, for the prompt that a sequence computes. */
struct step_follow {
    uint32_t leader; /* slot of the sequence */
    uint32_t client;
};

/* Time between two admissions of a class while more of its requests wait. */
struct step_gap {
    double us; /* moving average */
    uint32_t count;
    int64_t last_us;
    bool was_waited_for;
};

/* One sequence in the batch, and where its logits are. */
struct step_part {
    uint32_t sequence;    /* its slot */
    uint32_t rows;        /* as planned */
    uint32_t forced;      /* rows of forced tokens after the planned ones */
    uint32_t drafts;      /* rows of draft tokens after the planned ones; then none is forced */
    uint32_t masks_first; /* of its draft rows, if the answer is constrained (step_draft_mask) */
    uint32_t logits_first;
};

struct step_options {
    struct kernels *kernels;
    struct model *model;
    const struct vocab *vocab;
    grammar_force_encode encode;           /* tokenises forced text; NULL: no token is forced */
    void *encode_contexts[DRAWER_THREADS]; /* one for each thread that makes masks */
    const uint32_t *marks; /* [mark_count] control tokens that requests may want to be told of */
    uint32_t mark_count;
    const struct reasoning_marks *reasoning; /* NULL: no reasoning can be limited */
    const struct kv_layout *layout;
    struct ticket_table *tickets;
    const struct clock *clock;
    struct metrics *metrics; /* may be NULL */
    const char *metrics_label;
    uint32_t index;
    struct pulse *pulse;
    void (*wake)(void *context);
    void *wake_context;
    uint32_t ranks; /* tensor parallel ranks, each with a pool of this size; 0 and 1 = one */
    uint64_t kv_bytes;
    uint32_t context;
    uint32_t rows_max;
    uint32_t logit_rows_max;
    uint32_t sequences_max; /* that compute at once, without throttled ones */
    enum scheduler_mode mode;
    uint32_t step_ms; /* predicted milliseconds a step may take; 0 = no limit */
    uint32_t urgent_step_ms;
    uint32_t shared_us; /* for decodes when several clients compute; 0 = no limit */
    uint32_t class_floor_percent;
    uint32_t fair_quantum; /* 0 = 1024 */
    enum engine_preemption preemption;
    enum engine_speculation speculation;
    enum engine_acceptance acceptance;
    struct draft_model *draft_model; /* ENGINE_SPECULATION_MODEL; owned by the caller */
    uint32_t draft_layers;           /* ENGINE_SPECULATION_EXIT */
    bool no_prefix_cache;
    uint64_t kv_host_bytes;
    uint32_t exchange_pages; /* units kept free at most, so that copies overlap with computing */
    uint32_t pin_percent;
    uint64_t cache_seed;         /* secret */
    enum engine_pooling pooling; /* of embeddings; NONE: there are none */
    bool is_encoder;             /* texts are computed whole (step_whole); there are no logits */
    bool has_unit_vectors;       /* embeddings have the length 1 */
};

/* What becomes of the states of rows whose text is embedded (step_embed). */
struct step_embed {
    uint32_t width;
    const float *states; /* [logit_rows][width] of the step's batch, in host memory */
    float *copy;         /* [logit_rows_max][width] of a device's states; NULL on processors */
    float *sums;         /* [places][width] over the rows so far; NULL unless the mean is wanted */
    float *vector;       /* [width] */
};

struct step {
    struct step_options options;
    uint32_t vocab_count;
    struct inbox inbox;      /* other threads push */
    struct ring unpublished; /* domains; other threads push */
    struct outbox outbox;    /* the consumer takes */
    _Atomic bool is_closing;
    _Atomic bool is_failed; /* the device has failed: every request ends, nothing is computed */

    struct kv_pool pool;
    struct prefix_cache cache;
    struct kv_swap swap; /* a list for each slot of `sequences` */
    struct sequence_table sequences;
    struct kv_open open; /* open groups of each slot of `sequences` */
    struct batch batch;
    struct drawer drawer;
    struct step_cost cost;
    struct step_draft draft;
    struct step_embed embed;
    struct step_queue queue; /* requests of which not all choices are running */
    struct scheduler_fair fair;
    struct step_gap gaps[SERVICE_CLASS_COUNT];
    uint32_t cancels_seen; /* tickets->cancels before the last sweep */
    uint32_t lowers_seen;  /* tickets->lowers, likewise */
    /* Slots of sequences, more than may compute at once: throttled and preempted sequences keep
     * theirs, and a few clients that read too slowly must not keep others from being admitted. */
    uint32_t places;
    uint32_t candidates_max;
    int64_t urgent_until_us;                 /* realtime requests are expected until then */
    struct scheduler_sequence *view_running; /* [places] */
    struct scheduler_sequence *view_waiting; /* [candidates_max] candidates of this step */
    uint32_t *heads;                         /* [head_count] slots of their requests, once each */
    uint32_t head_count;
    uint32_t *fills; /* [fill_count] slots of sequences in prefill; room for all */
    uint32_t fill_count;
    struct step_follow *follows; /* [follow_count] room for one for each ticket */
    uint32_t follow_count;
    uint64_t arrivals;    /* how often a sequence was put off because its pages were being copied */
    uint32_t *pages_gone; /* [units] scratch of step_view, all 0 in between: references given up */
    uint32_t *needs_gone; /* [units] likewise: windows that are needed no more */
    uint32_t *candidates; /* [candidate_count] tickets of view_waiting, one for each choice */
    uint32_t candidate_count;
    uint32_t followers; /* requests that wait for another's prompt */
    uint32_t followers_by_class[SERVICE_CLASS_COUNT];
    uint32_t find_tokens_most;      /* tokens that a step may look up in the cache */
    uint32_t find_tokens_left;      /* … of which this step has left */
    bool is_find_first;             /* the next lookup is the first of its class: always allowed */
    uint64_t turn;                  /* number of the step; steps without rows count too */
    struct scheduler_grant *grants; /* [places + candidates_max] */
    struct step_part *parts;        /* [places] the batch, one part for each sequence */
    uint32_t *masked;               /* [places] sequences whose masks are made now */
    uint32_t *ends;                 /* [end_count] end tokens of the model */
    uint32_t end_count;
    uint32_t *bans; /* [places][end_count + LIMIT_STOP_TOKENS] what may not end an answer early */
    uint32_t mask_fuel; /* of a mask in one step; tests give less than the limit */
    bool has_emitted;
    int64_t now_us;

    struct step_figures figures;
    struct step_metrics metrics;
    /* What engine_published shows. The engine thread only tries the lock and never waits for it. */
    pthread_mutex_t published_lock;
    struct prefix_published *published; /* [published_count], room for LIMIT_PROMPTS */
    uint32_t published_count;
};

/* Bytes of a unit over all ranks, each of which has a share of the KV heads. */
static inline uint64_t step_unit_bytes(const struct step *step)
{
    uint32_t ranks = step->options.ranks > 0 ? step->options.ranks : 1;
    return (uint64_t)step->pool.layout.page_bytes * ranks;
}

/* The guard of a sequence; NULL when its request has no constraint, or it does not hold yet. */
static inline struct guard *step_guard(const struct step *step, const struct sequence *sequence)
{
    struct guard *guards = step->options.tickets->slots[sequence->slot].guards;
    return guards != NULL && !sequence->is_reasoning ? &guards[sequence->choice] : NULL;
}
