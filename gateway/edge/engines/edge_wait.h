/* edge_wait: requests that wait while the engine is down or full, fair between tenants of a class.
 *
 *   realtime │ tenant a ■ ■ ■ ■ ■       an urgent class before the others, but one turn in
 *            │ tenant b ■               EDGE_WAIT_FLOOR + 1 for each of them that has somebody;
 *   standard │ tenant a ■ ■        ─►   in a class one of each tenant in turn, in a tenant in
 *   batch    │ tenant c ■ ■ ■           order; at most `window` every EDGE_WAIT_TURN_MS
 *
 * Owns:     the queues; an entry lives in who waits. At most so many entries and bytes, of one
 *           tenant in a class and in all: one more is refused at once. An eighth of all is kept for
 *           what is more urgent than standard, another for what is more urgent than batch.
 * Thread:   the loop's thread.
 * Cost:     O(1) an operation; one allocation for each tenant and class that waits.
 * Not here: sending, deadlines, whether the engine is up (edge_job, edge_probe).
 *
 * The gate is shut at the start and while the engine is down; one class's is shut for as long as an
 * engine that is full for it asks. When it opens the window is small and doubles with each turn, so
 * that an engine which has just started, or was full, is not flooded: its own answer is what stops
 * the growth.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/metrics.h"
#include "config/base/service_class.h"
#include "gateway/http/loop.h"

enum {
    EDGE_WAIT_TURN_MS = 10,
    EDGE_WAIT_WINDOW_LEAST = 4, /* behind an opening: 1,000 are gone within 90 ms */
    EDGE_WAIT_WINDOW_MOST = 256,
    EDGE_WAIT_BUSY_ROW = 4, /* refusals in a row that mean a full engine, not one large request */
    EDGE_WAIT_FLOOR = 19,   /* turns of others, then a class has its own: 5 %, as in the engine */
};

struct edge_wait;
struct edge_wait_client;

/* Whose request it is, for the order. */
struct edge_wait_who {
    const uint8_t *tenant_hash; /* 16 bytes */
    enum service_class service_class;
};

struct edge_wait_entry {
    struct edge_wait_entry *previous, *next;
    struct edge_wait_client *client; /* NULL while it does not wait */
    size_t bytes;
    uint64_t order; /* of its first waiting; 0: none yet */
    /* Its turn has come, from the loop, never inside a call of this file; it waits no longer. */
    void (*go)(void *context);
    /* The engine will not take it: it waits no longer. */
    void (*refused)(void *context);
    void *context;
};

struct edge_wait_options {
    struct loop *loop;
    uint32_t requests_max;
    uint64_t bytes_max;
    uint32_t tenant_requests_max; /* of one class */
    uint64_t tenant_bytes_max;
    struct metric *gauges[SERVICE_CLASS_COUNT]; /* entries that wait; may be NULL */
};

enum status edge_wait_create(struct edge_wait **out, const struct edge_wait_options *options);
/* Nobody is told any more; entries must not be used afterwards. */
void edge_wait_destroy(struct edge_wait *wait);

/* True when a new request must wait: the gate is shut, or others wait before it. Who has nobody
 * waiting may ask a full engine: it may be full for others alone. */
bool edge_wait_is_needed(const struct edge_wait *wait, const struct edge_wait_who *who);
/* Waits behind what its tenant has waiting in the class; one that waits again (`order` kept) in its
 * old place. QUEUE_FULL over the tenant's bound and BUSY over all's, both with a time to try again
 * in the note; UNAVAILABLE where nobody may wait and the gate is shut; NO_MEMORY; then it does
 * not wait. */
enum status edge_wait_enter(struct edge_wait *wait, struct edge_wait_entry *entry,
                            const struct edge_wait_who *who, size_t bytes);
/* The client has left, or the deadline has come. No effect on one that does not wait. */
void edge_wait_leave(struct edge_wait *wait, struct edge_wait_entry *entry);
/* The engine took a request of that class, whoever sent it: it is not full for it. */
void edge_wait_taken(struct edge_wait *wait, enum service_class service_class);
/* Until one that enters now would have its turn, at the rate at which the engine took requests
 * lately; 0 when that is not known. */
uint32_t edge_wait_estimate_ms(const struct edge_wait *wait, const struct edge_wait_who *who);

/* Opens the gate; a pause for a busy engine goes on. */
void edge_wait_open(struct edge_wait *wait);
/* Shuts it until edge_wait_open. */
void edge_wait_shut(struct edge_wait *wait);
/* The engine was busy for a request of that class. When that happens to some in a row, the class's
 * gate is shut for `ms` (0: the engine did not say): one request for which there is no room must
 * not stop those of others. */
void edge_wait_busy(struct edge_wait *wait, enum service_class service_class, uint32_t ms);
/* The engine has no room for more of one tenant in its class alone: what the tenant of this entry
 * has waiting, and what it adds, has no turn for `ms`. No effect on an entry that does not wait. */
void edge_wait_hold(struct edge_wait *wait, const struct edge_wait_entry *entry, uint32_t ms);
/* Takes out everybody who waits; each is told `refused`. */
void edge_wait_refuse_all(struct edge_wait *wait);
uint32_t edge_wait_count(const struct edge_wait *wait);
