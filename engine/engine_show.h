/* engine_show: figures about what is under way in the engine; never any text of a request.
 *
 * Owns:     nothing; it reads what the last step published.
 * Thread:   any, except engine_requests: the consumer's.
 * Cost:     reads of atomics; engine_published takes a lock that the engine thread only tries.
 * Not here: metrics (step_metrics), what a request is told when it ends (engine_report).
 */
#pragma once

#include <stddef.h>

#include "engine/request/engine_request.h"

struct engine;

/* For tests and /internal/v1/stats: pages, sequences and requests now, and totals
 * since the start. */
struct engine_stats {
    struct engine_class_stats {
        uint32_t waiting;   /* requests, without those that wait for another's prompt */
        uint32_t running;   /* sequences that hold pages and are not throttled */
        uint32_t paused;    /* preempted sequences: they hold no pages */
        uint32_t throttled; /* sequences whose client reads too slowly, preempted or not */
    } by_class[SERVICE_CLASS_COUNT];
    uint64_t preemptions_swap;
    uint64_t preemptions_recompute;
    uint64_t swap_bytes_out;
    uint64_t swap_bytes_in;
    uint64_t swap_us;
    uint64_t tokens_overhead; /* computed again after a preemption */
    uint32_t requests;
    uint32_t sequences_running;
    uint32_t sequences_waiting;
    uint32_t sequences_throttled; /* of those running: their client reads too slowly */
    /* Pages, or units where the model's layers have two kinds. */
    uint32_t pages_free;   /* hold nothing; cached pages can be taken too */
    uint32_t pages_cached; /* held by the cache alone, or needed by nobody; without the pinned */
    uint32_t pages_pinned;
    uint32_t pages_host;
    uint32_t pages_total;
    uint32_t prefix_followers;   /* wait for a running request to compute their prefix */
    uint64_t cache_query_tokens; /* tokens of all prompts admitted */
    uint64_t cache_hit_tokens;   /* of those, found in the cache */
    uint64_t steps;
    uint64_t rows;
    uint64_t tokens_prompt;
    uint64_t tokens_generated;
};
void engine_stats(struct engine *engine, struct engine_stats *out);

/* A domain with pinned pages: a published prompt. */
struct engine_published {
    struct engine_domain domain;
    uint32_t pages;
    uint64_t hits; /* requests that found at least one token there */
    uint64_t hit_tokens;
};

/* Fills `out` with at most `count` domains, as the last step left them; returns how many. */
size_t engine_published(struct engine *engine, struct engine_published *out, size_t count);

const char *engine_request_state_name(enum engine_request_state state); /* "waiting", … */

struct engine_request_info {
    engine_request_id id;
    char request_id[LIMIT_REQUEST_ID_BYTES + 1];
    struct engine_domain domain;
    enum engine_request_state state;
    uint32_t choices;
    uint32_t prompt_tokens; /* 0 while preparing */
    uint32_t computed;      /* tokens of its choices whose keys and values stand in pages */
    uint32_t cached;
    uint32_t completion_tokens;
    int64_t age_us;
    /* Why it waits. Figures about other requests are rounded to 0, 1, 2, 4, 8, … */
    enum service_class service_class;
    uint32_t position;    /* requests of its class that have waited longer */
    uint32_t estimate_ms; /* until its first token; 0 when it is not known */
    int32_t deficit_sign; /* of its tenant: 1 = has had less than its share, -1 = more */
    uint32_t pages_needed;
    uint32_t pages_free;
    bool is_preempted;
    enum service_class preempted_by; /* the last class that took its pages */
};

/* Fills `out` with at most `count` requests, as the last step left them; returns how many. Only on
 * the thread of engine_next_event, because that thread releases requests. */
size_t engine_requests(struct engine *engine, struct engine_request_info *out, size_t count);
