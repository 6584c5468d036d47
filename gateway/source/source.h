/* source: where the answers of this process come from. The face (gateway/engine_http) turns HTTP
 * into requests to a source and the source's events into frames. It does not know what computes
 * them.
 *
 *   face_job ── submit, cancel ──► source_fleet     engines in this process (engine/fleet)
 *            ◄── events ─────────  adapter          a foreign server (gateway/adapter)
 *
 * Owns:     nothing; a source is owned by whoever opened it.
 * Thread:   the loop's.
 * Cost:     –
 * Not here: what a request and its report contain (engine_request).
 */
#pragma once

#include "engine/engine.h"
#include "engine/engine_show.h"

/* What a part of an answer is. */
enum source_channel {
    SOURCE_WHOLE, /* text as the model wrote it: the consumer splits it, if it wants parts */
    SOURCE_CONTENT,
    SOURCE_REASONING,
    SOURCE_CALL_NAME, /* a call of a tool begins: the whole name */
    SOURCE_CALL_ARGUMENTS,
};

/* What an ended request says of where it ran. */
enum source_fault {
    SOURCE_FINE,
    SOURCE_FULL,   /* it has no room now */
    SOURCE_GONE,   /* nobody listens there */
    SOURCE_BROKEN, /* it broke: a cut, a failure of its own, no answer of the right form */
};

/* A model that a source can answer for. */
struct source_model {
    char name[LIMIT_NAME_BYTES];
    uint32_t context;
    int64_t created_s;
};

/* An event of a request: what the engine says, and what only a source knows. */
struct source_event {
    struct engine_event engine;
    /* PROMPT and TOKEN events: whether the source knows the token's id, and its log-probability.
     * It says neither of a further part of the text of a token that has been told. */
    bool has_id;
    bool has_logprob;
    /* PROMPT and TOKEN events: the bytes of `engine.token` and of `engine.top`, as the model's
     * token list has them. */
    struct slice bytes;
    struct slice top_bytes[LIMIT_LOGPROBS];
    enum source_channel channel; /* of `engine.text`, in TOKEN events */
    uint32_t call;               /* number of the call, in the order of the answer */
    /* START, END: not all counts are the server's own, if it ends now, or as it has ended. */
    bool is_estimated;
    /* ERROR, END. `may_go_elsewhere`: nothing of an answer came, and what failed was not the
     * request. */
    enum source_fault fault;
    bool may_go_elsewhere;
};

struct source;

struct source_ops {
    /* Ends what runs without further events. */
    void (*close)(struct source *source);
    void (*info)(const struct source *source, struct engine_info *out);
    /* As engine_submit. The source may also refuse fields that it cannot honour: UNSUPPORTED with
     * the field as param. */
    enum status (*submit)(struct source *source, const struct engine_request *request,
                          engine_request_id *out);
    void (*cancel)(struct source *source, engine_request_id id);
    void (*lower)(struct source *source, engine_request_id id);
    void (*acknowledge)(struct source *source, engine_request_id id, uint32_t choice,
                        uint32_t tokens);
    /* The next event of any request; false when none waits. The slices of an event are valid until
     * the next call. */
    bool (*next)(struct source *source, struct source_event *out);
    bool (*has_failed)(const struct source *source);
    void (*stats)(const struct source *source, struct engine_stats *out);
    /* Running requests, at most `count`. */
    size_t (*requests)(const struct source *source, struct engine_request_info *out, size_t count);
    size_t (*requests_max)(const struct source *source);
    /* The models that can be asked for, at most `count`. NULL: the one of `info`. */
    size_t (*models)(const struct source *source, struct source_model *out, size_t count);
};

/* The first member of every source. */
struct source {
    const struct source_ops *ops;
    /* How the model writes reasoning and calls of tools, for sources whose events are WHOLE. NULL:
     * the source splits its answers. */
    const struct answer_model *answer;
};
