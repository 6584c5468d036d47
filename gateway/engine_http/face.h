/* face: the state that all handlers of the engine process share: engines, workers for text, final
 * records, running jobs.
 *
 * Owns:     all of these, while engine_http_run runs.
 * Thread:   the loop's, except face_wake.
 * Cost:     –
 * Not here: the life of one request (face_job), start and end of the process (engine_http).
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
#include "gateway/source/source.h"

enum {
    /* More ids than requests can be in the engines. The final ring knows the ids of requests that
     * have begun. */
    FACE_RECENT_IDS = 2 * LIMIT_REQUESTS_IN_ENGINE * LIMIT_ENGINES,
    /* Events taken before the loop looks at sockets and timers again; they take about 1 ms. */
    FACE_PUMP_EVENTS = 512,
    FACE_INSTANCE_BYTES = 17,
};

/* A request id that was seen, in the list of its hash bucket. */
struct face_recent {
    uint64_t hash; /* 0 = empty */
    uint32_t next; /* index + 1 of the next entry; 0 = none */
};

struct face_job;
struct face_prompt_job;

/* The receiver of an engine request's events; the engine request's context points to it. */
struct face_sink {
    void (*take)(struct face_sink *sink, const struct source_event *event);
};

/* A published prompt. */
struct face_prompt_row {
    struct engine_domain domain;
    uint32_t tokens;
    uint32_t pages;
};

struct face {
    struct loop *loop;
    struct source *source; /* of answers */
    struct fleet *fleet;   /* for text services and published prompts; NULL: there are none */
    struct engine_info info;
    struct metrics *metrics;
    struct {
        struct metric *finals_waiting;
        struct metric *finals_lost;
        struct metric *jobs;
    } gauges;
    /* Threads that parse and tokenise, in turns by tenant: 4 MiB of JSON take 60 ms to parse, 4 MiB
     * of spaces take 2 s to tokenise. */
    struct loop_turns *turns;
    struct byte_shares *bodies; /* bodies that are not parsed yet, by tenant */
    uint32_t body_count;        /* requests that are not released yet, even if their client left */
    struct final_ring *finals;
    struct face_job *jobs; /* list, newest first */
    uint32_t job_count;
    struct face_prompt_job *prompt_jobs;
    struct face_prompt_row prompts[LIMIT_PROMPTS];
    uint32_t prompt_count;
    bool is_draining;
    /* Called, possibly more than once, when the device or a rank of an engine has failed. */
    void (*failed)(void *context);
    void *failed_context;
    char instance[FACE_INSTANCE_BYTES]; /* random at each start: shows the edge a restart */
    _Atomic bool is_pump_posted;
    /* The last request ids. A request whose id was seen is refused: when the edge sends a request
     * again because its connection died, it must not run twice. */
    struct face_recent recent[FACE_RECENT_IDS];
    uint32_t recent_lists[FACE_RECENT_IDS]; /* [bucket]: index + 1 of the first entry; 0 = none */
    uint32_t recent_next;
};

/* Makes the face's metrics and `instance`. Call it after metrics and the final ring are open. */
void face_init(struct face *face);
/* Remembers an id; false when it is among the last FACE_RECENT_IDS already. */
bool face_remember_id(struct face *face, struct slice request_id);
/* Forgets an id: a request that was refused before it began may come again. */
void face_forget_id(struct face *face, struct slice request_id);
/* Called on engines' threads when events wait. `context` is the face. */
void face_wake(void *context);
/* Sets the gauges that show figures of the ring and of jobs. Call it before metrics are
 * rendered. */
void face_metrics_set(const struct face *face);
/* NO_MEMORY. */
enum status face_bodies_create(struct face *face);
void face_bodies_destroy(struct face *face);
/* Counts a request and the bytes of its body, until face_release_body(). ENGINE_SHARE when the
 * tenant uses its share of LIMIT_REQUEST_BYTES_IN_ENGINE (config/base/byte_shares), BUSY when all
 * of it is used, NO_MEMORY. */
enum status face_reserve_body(struct face *face, const uint8_t tenant[16], size_t bytes,
                              struct byte_shares_hold *hold);
/* Gives back the bytes of a body that is parsed and freed; the request still counts. */
void face_give_back_body(struct face *face, struct byte_shares_hold *hold);
/* The request has ended: gives back its bytes, if it still has them, and its count. */
void face_release_body(struct face *face, struct byte_shares_hold *hold);
/* Whether new requests are accepted; while draining it answers 503 and returns false. */
bool face_accepts(struct face *face, struct http_request *request);
