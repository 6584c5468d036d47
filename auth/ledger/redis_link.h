/* redis_link: the one thread that talks to Redis, and connects again after each failure.
 *
 * Owns:     the connection, its thread, the pauses between attempts, the log lines about failures.
 * Thread:   its own thread runs the callbacks; open, close and the functions that only read a state
 *           may be called from any. The process must ignore SIGPIPE, because hiredis does not.
 * Cost:     only its own thread waits for Redis, for at most LIMIT_REDIS_COMMAND_MS a command.
 * Not here: what is sent (usage_redis), the form of the option (redis_url).
 *
 *   pause ─► connect, AUTH, SELECT, PING, INFO ─► connected() ─► turn() … turn()
 *     ▲                                                             │
 *     └───────── any failure: the connection is closed ◄────────────┘
 *
 * The link is also the circuit breaker: after a failure nothing but the greeting is sent until a
 * PING was answered. The pause between two attempts is 0.1 s, doubled each time up to 5 s, and
 * shortened at random by up to a half. A connection alone proves nothing, because the kernel
 * accepts connections for a process that is stopped.
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
    /* Called after each successful greeting. A failure of this or of `turn` closes the connection.
     * */
    enum status (*connected)(void *context, struct redis_link *link);
    /* Called every turn_ms, and at once while it sets `has_more`. */
    enum status (*turn)(void *context, struct redis_link *link, bool *has_more);
    void (*down)(void *context); /* called instead while there is no connection; may be NULL */
    /* Called before the connection is closed for good; may be NULL. */
    void (*closing)(void *context, struct redis_link *link);
};

/* Starts the thread, whether Redis is up or not. NO_MEMORY. */
enum status redis_link_open(struct redis_link **out, const struct redis_link_options *options);
/* Ends the thread. While connected, turns first go on while there is more to do, for at most
 * LIMIT_REDIS_CLOSE_MS. NULL is allowed. */
void redis_link_close(struct redis_link *link);

/* The gauge banyan_redis_up, which exists (as 0) also without a link. */
struct metric *redis_link_metric_up(struct metrics *registry);

/* True while the connection is good. */
bool redis_link_is_up(const struct redis_link *link);
/* Why the connection failed last; NONE while it is up, and before the first attempt. */
enum redis_reason redis_link_reason(const struct redis_link *link);
const char *redis_link_reason_word(enum redis_reason reason);
/* Attempts to connect so far. */
uint64_t redis_link_attempts(const struct redis_link *link);

/* --- for the callbacks, on the link's thread --- */

/* What INFO said of the server that is connected. */
struct redis_link_server {
    char run_id[48]; /* names the process of Redis; a new one may have lost data */
    char policy[32]; /* maxmemory_policy */
    int32_t major;
    bool has_maxmemory;
};
const struct redis_link_server *redis_link_server(const struct redis_link *link);

/* Queues a command; `arguments` are copied. Commands are sent at the next take. Call one take for
 * each command, in order. */
enum status redis_link_queue(struct redis_link *link, const struct slice *arguments, size_t count);

/* Takes the next reply, a number from `least` to `most`. UNAVAILABLE, with a reason, when it is an
 * error, of another type or out of range; the callback must then return that failure, which closes
 * the connection. */
enum status redis_link_take_number(struct redis_link *link, int64_t least, int64_t most,
                                   int64_t *out);
/* The same for a command whose failure concerns its own keys only. An error of such a kind (wrong
 * type, no rights, an unknown error) gives OK with its reason, and the connection goes on. */
enum status redis_link_take_outcome(struct redis_link *link, int64_t least, int64_t most,
                                    int64_t *out, enum redis_reason *reason);
/* Takes a text shorter than `capacity`. `*is_nil`: there is no value, and `out` is "". */
enum status redis_link_take_text(struct redis_link *link, char *out, size_t capacity, bool *is_nil);
/* Takes a status, which must be `wanted`, such as "OK". */
enum status redis_link_take_status(struct redis_link *link, const char *wanted);

/* Loads a script (SCRIPT LOAD). `sha` is its name for EVALSHA on this connection. */
enum { REDIS_LINK_SHA_BYTES = 41 };
enum status redis_link_load(struct redis_link *link, const char *script,
                            char sha[REDIS_LINK_SHA_BYTES]);

/* The failure for a reply that the caller has found wrong. Always UNAVAILABLE. */
enum status redis_link_refuse(struct redis_link *link, enum redis_reason reason);
