/* engine_show: what is under way in the engine, in figures: nothing of any text.
 *
 * Owns:     nothing; the last step has left what is read here.
 * Thread:   any, but engine_requests: the consumer's.
 * Cost:     atomics; engine_published takes a lock that the engine thread only tries.
 * Not here: metrics (step_tell), what a request is told when it ends (engine_report).
 */
#pragma once

#include <stddef.h>

#include "engine/request/engine_request.h"

struct engine;

/* For tests and /internal/v1/stats: pages, sequences and requests in use now. */
struct engine_stats {
    struct engine_class_stats {
        uint32_t waiting;   /* requests; they do not count those that follow another's prompt */
        uint32_t running;   /* sequences with pages that may compute */
        uint32_t paused;    /* sequences without */
        uint32_t throttled; /* sequences whose reader has stopped, paused or not */
    } by_class[SERVICE_CLASS_COUNT];
    uint64_t preemptions_swap;
    uint64_t preemptions_recompute;
    uint64_t swap_bytes_out;
    uint64_t swap_bytes_in;
    uint64_t swap_us;
    uint64_t tokens_overhead; /* recomputed because of others */
    uint32_t requests;
    uint32_t sequences_running;
    uint32_t sequences_waiting;
    uint32_t sequences_throttled; /* of those running: their reader has stopped */
    uint32_t pages_free;          /* hold nothing; those cached can be had too */
    uint32_t pages_cached;        /* held by the cache alone, pinned ones apart */
    uint32_t pages_pinned;
    uint32_t pages_host;
    uint32_t pages_total;
    uint32_t prefix_followers;   /* wait for a running request to compute their prefix */
    uint64_t cache_query_tokens; /* of prompts admitted */
    uint64_t cache_hit_tokens;   /* of them found */
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
    uint64_t hits; /* requests that found a token there */
    uint64_t hit_tokens;
};

/* Fills `out` with at most `count` of them, as the last step left them; returns how many. */
size_t engine_published(struct engine *engine, struct engine_published *out, size_t count);

const char *engine_request_state_name(enum engine_request_state state); /* "waiting", … */

struct engine_request_info {
    engine_request_id id;
    char request_id[LIMIT_REQUEST_ID_BYTES + 1];
    struct engine_domain domain;
    enum engine_request_state state;
    uint32_t choices;
    uint32_t prompt_tokens; /* 0 while preparing */
    uint32_t computed;      /* tokens of its choices that stand in pages */
    uint32_t cached;
    uint32_t completion_tokens;
    int64_t age_us;
    /* Why it waits. Figures about others are coarse: 0, 1, 2, 4, 8, … */
    enum service_class service_class;
    uint32_t position;    /* before it in its class */
    uint32_t estimate_ms; /* until its first token; 0 when it is not known */
    int32_t deficit_sign; /* of its tenant: 1 = the class owes it, -1 = it has had more */
    uint32_t pages_needed;
    uint32_t pages_free;
    bool is_preempted;
    enum service_class preempted_by; /* the last class that took its pages */
};

/* Fills `out` with at most `count` of them, as the last step left them; returns how many. On the
 * thread of engine_next_event only: it is the one that lets go of a request. */
size_t engine_requests(struct engine *engine, struct engine_request_info *out, size_t count);
