/* redis_link: the one thread that speaks to Redis, and keeps on trying.
 *
 * Owns:     the connection, its thread, the pauses between attempts, what is told of failures.
 * Thread:   its own, which alone runs the callbacks; open, close and the looks below from any.
 *           The process ignores SIGPIPE: hiredis does not.
 * Cost:     nobody but its thread ever waits for Redis: a command at most LIMIT_REDIS_COMMAND_MS.
 * Not here: what is sent (usage_redis), the form of the option (redis_url).
 *
 *   pause ─► connect, AUTH, SELECT, PING, INFO ─► connected() ─► turn() … turn()
 *     ▲                                                             │
 *     └───────── any failure: the connection is closed ◄────────────┘
 *
 * This is the circuit breaker as well: behind a failure nothing is sent until a PING was answered,
 * and between two attempts pass 0.1 s, doubled up to 5 s, less up to a half by chance. "Connected"
 * alone proves nothing: the kernel takes connections for a process that is stopped.
 */
#pragma once

#include "auth/ledger/redis_url.h"
#include "config/base/limits.h"

struct redis_link;
struct metric;
struct metrics;

enum redis_reason {
#define REDIS_REASON(name, word, mend) REDIS_REASON_##name,
#include "auth/ledger/redis_reasons.def"
#undef REDIS_REASON
    REDIS_REASON_COUNT
};

struct redis_link_options {
    struct redis_url url;
    const char *password_file; /* one line, read before each attempt; "" = no password */
    struct metrics *metrics;   /* may be NULL */
    uint32_t turn_ms;          /* between two turns that found nothing to do; 0: 200 */
    uint32_t command_ms;       /* 0: LIMIT_REDIS_COMMAND_MS */
    void *context;
    /* Behind each successful PING. A failure of this and of `turn` is one of the connection. */
    enum status (*connected)(void *context, struct redis_link *link);
    /* Again and again; at once when there is more to do. */
    enum status (*turn)(void *context, struct redis_link *link, bool *has_more);
    void (*down)(void *context); /* in place of a turn while there is no connection; may be NULL */
    /* Before the connection is closed for good; may be NULL. */
    void (*closing)(void *context, struct redis_link *link);
};

/* Starts the thread; whether Redis is there does not matter. */
enum status redis_link_open(struct redis_link **out, const struct redis_link_options *options);
/* Connected, turns go on while there is more to do (at most LIMIT_REDIS_CLOSE_MS). */
void redis_link_close(struct redis_link *link);

/* The gauge banyan_redis_up, which is told (0) where there is no link, too. */
struct metric *redis_link_metric_up(struct metrics *registry);

/* True while the connection is good. */
bool redis_link_is_up(const struct redis_link *link);
/* Why the last attempt failed; NONE while it is up and before the first one. */
enum redis_reason redis_link_reason(const struct redis_link *link);
const char *redis_link_reason_word(enum redis_reason reason);
/* Attempts to connect so far. */
uint64_t redis_link_attempts(const struct redis_link *link);

/* --- for the callbacks, on the link's thread --- */

/* What INFO said of the server that is connected. */
struct redis_link_server {
    char run_id[48]; /* another one: another process, which may know less */
    char policy[32]; /* maxmemory_policy */
    int32_t major;
    bool has_maxmemory;
};
const struct redis_link_server *redis_link_server(const struct redis_link *link);

/* Puts a command behind those that wait; nothing is sent before the first take. `arguments` are
 * copied. One take for each, in order. */
enum status redis_link_queue(struct redis_link *link, const struct slice *arguments, size_t count);

/* The next reply, checked: UNAVAILABLE, with a reason, when it is an error or of another type, or
 * outside of least … most; then the connection is over, and this is the callback's own failure. */
enum status redis_link_take_number(struct redis_link *link, int64_t least, int64_t most,
                                   int64_t *out);
/* The same for a command that is about keys of its own: an error that is told of them alone
 * (another type, no right to them, one that is not known here) is OK with its reason, and the
 * connection goes on. */
enum status redis_link_take_outcome(struct redis_link *link, int64_t least, int64_t most,
                                    int64_t *out, enum redis_reason *reason);
/* A text shorter than `capacity`; `*is_nil` when there is none (then ""). */
enum status redis_link_take_text(struct redis_link *link, char *out, size_t capacity, bool *is_nil);
/* A status such as OK. */
enum status redis_link_take_status(struct redis_link *link, const char *wanted);

/* SCRIPT LOAD; `sha` is for EVALSHA, on this connection. */
enum { REDIS_LINK_SHA_BYTES = 41 };
enum status redis_link_load(struct redis_link *link, const char *script,
                            char sha[REDIS_LINK_SHA_BYTES]);

/* A reply that only the caller can judge was wrong. */
enum status redis_link_refuse(struct redis_link *link, enum redis_reason reason);
