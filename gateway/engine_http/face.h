/* face: what the engine process's handlers share: engine, worker, final records, jobs under way.
 *
 * Owns:     all of these, for the life of engine_http_run.
 * Thread:   the loop's, but for face_wake.
 * Cost:     –
 * Not here: the life of one request (face_job), starting and ending (engine_http).
 */
#pragma once

#include <stdatomic.h>

#include "config/base/byte_shares.h"
#include "config/config.h"
#include "engine/fleet.h"
#include "gateway/engine_http/face_trusted.h"
#include "gateway/engine_http/final_ring.h"
#include "gateway/http/loop_turns.h"
#include "gateway/http/request.h"

enum {
    /* More than can be on their way: those that have begun are known to the final ring as well. */
    FACE_RECENT_IDS = 2 * LIMIT_REQUESTS_IN_ENGINE * LIMIT_ENGINES,
    /* In a row, before the loop looks at sockets and timers again: about a millisecond. */
    FACE_PUMP_EVENTS = 512,
    FACE_INSTANCE_BYTES = 17,
};

/* A request id that was seen, in a list of those whose hashes fall together. */
struct face_recent {
    uint64_t hash; /* 0: forgotten */
    uint32_t next; /* place + 1; 0 = the last */
};

struct face_job;
struct face_prompt_job;

/* Who hears of an engine request's events: its context. */
struct face_sink {
    void (*take)(struct face_sink *sink, const struct engine_event *event);
};

/* A prompt that is published here. */
struct face_prompt_row {
    struct engine_domain domain;
    uint32_t tokens;
    uint32_t pages;
};

struct face {
    struct loop *loop;
    struct fleet *fleet;
    struct engine_info info;
    struct metrics *metrics;
    struct {
        struct metric *finals_waiting;
        struct metric *finals_lost;
        struct metric *jobs;
    } gauges;
    struct loop_turns *turns; /* parsing and tokenising: 4 MiB of JSON take 60 ms, of spaces 2 s */
    struct byte_shares *bodies; /* of all requests that are not parsed yet, by tenant */
    uint32_t body_count;        /* requests that hold one, with or without their client */
    struct final_ring *finals;
    struct face_job *jobs; /* list, newest first */
    uint32_t job_count;
    struct face_prompt_job *prompt_jobs;
    struct face_prompt_row prompts[LIMIT_PROMPTS];
    uint32_t prompt_count;
    bool is_draining;
    void (*failed)(void *context); /* after each event of an engine that has failed */
    void *failed_context;
    char instance[FACE_INSTANCE_BYTES]; /* new at each start: tells an edge of a restart */
    _Atomic bool is_pump_posted;
    /* The last request ids: an id that was seen is dropped (a retry of the edge after a connection
     * died must not run twice). */
    struct face_recent recent[FACE_RECENT_IDS];
    uint32_t recent_lists[FACE_RECENT_IDS]; /* by hash: place + 1; 0 = empty */
    uint32_t recent_next;
};

/* Makes the face's own metrics and the name of this start; after metrics and ring are open. */
void face_init(struct face *face);
/* True the first time for an id, as far back as FACE_RECENT_IDS. */
bool face_remember_id(struct face *face, struct slice request_id);
/* A request that was refused before it began may come again under its id. */
void face_forget_id(struct face *face, struct slice request_id);
/* Engine threads: events wait. `context` is the face. */
void face_wake(void *context);
/* Brings the gauges up to date that are figures of something else; before they are read. */
void face_metrics_set(const struct face *face);
enum status face_bodies_create(struct face *face);
void face_bodies_destroy(struct face *face);
/* Takes a request's body into account, until face_release_body. BUSY beyond the tenant's share of
 * LIMIT_REQUEST_BYTES_IN_ENGINE (config/base/byte_shares). */
enum status face_reserve_body(struct face *face, const uint8_t tenant[16], size_t bytes,
                              struct byte_shares_hold *hold);
/* The body is parsed and its memory given back; its request goes on. */
void face_give_back_body(struct face *face, struct byte_shares_hold *hold);
void face_release_body(struct face *face, struct byte_shares_hold *hold);
/* A handler's start: 503 (answered, false) while draining. */
bool face_accepts(struct face *face, struct http_request *request);
