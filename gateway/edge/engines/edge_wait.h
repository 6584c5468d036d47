/* edge_wait: queues requests while the engine is down or full, fair between the tenants of a class.
 *
 *   realtime │ tenant a ■ ■ ■ ■ ■       The most urgent class goes first, but every class in
 *            │ tenant b ■               which a request waits gets one turn in
 *   standard │ tenant a ■ ■        ─►   EDGE_WAIT_FLOOR + 1. In a class the tenants take turns.
 *   batch    │ tenant c ■ ■ ■           A tenant's requests go in order.
 *
 * At most `window` requests go every EDGE_WAIT_TURN_MS.
 *
 * Owns:     the queues. The caller owns the entries. The number of entries and their bytes are
 *           bounded, for each tenant in a class and in total; one more is refused at once. An
 *           eighth of the total is kept for realtime alone, and another eighth for realtime and
 *           standard.
 * Thread:   the loop's thread.
 * Cost:     O(1) an operation; one allocation for each tenant and class that waits.
 * Not here: sending, deadlines, whether the engine is up (edge_job, edge_probe).
 *
 * The gate is shut at the start and while the engine is down. A class has a gate of its own, which
 * is shut for as long as an engine that is full for the class asks. When a gate opens, the window
 * is small, and it doubles with each turn. So an engine that has just started, or was full, is not
 * flooded; its own refusal stops the growth.
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
    EDGE_WAIT_WINDOW_LEAST = 4, /* after an opening; 1,000 requests are sent within 90 ms */
    EDGE_WAIT_WINDOW_MOST = 256,
    /* so many refusals in a row mean a full engine, fewer a large request */
    EDGE_WAIT_BUSY_ROW = 4,
    /* after so many turns of others a class has one: 5 %, as in the engine */
    EDGE_WAIT_FLOOR = 19,
};

struct edge_wait;
struct edge_wait_client;

/* The tenant and class of a request, which decide its turn. */
struct edge_wait_who {
    const uint8_t *tenant_hash; /* 16 bytes */
    enum service_class service_class;
};

struct edge_wait_entry {
    struct edge_wait_entry *previous, *next;
    struct edge_wait_client *client; /* NULL while it does not wait */
    size_t bytes;
    uint64_t order; /* its place, from the first time that it waited; 0: it has not waited yet */
    /* Its turn has come, and it waits no longer. Called from the loop, never inside a function of
     * this file. */
    void (*go)(void *context);
    /* The engine speaks another protocol and will not take it; it waits no longer. Called inside
     * edge_wait_refuse_all. */
    void (*refused)(void *context);
    void *context;
};

struct edge_wait_options {
    struct loop *loop;
    uint32_t requests_max;
    uint64_t bytes_max;
    uint32_t tenant_requests_max; /* for a tenant in one class, as the next one */
    uint64_t tenant_bytes_max;
    struct metric *gauges[SERVICE_CLASS_COUNT]; /* entries that wait; may be NULL */
};

/* NO_MEMORY. */
enum status edge_wait_create(struct edge_wait **out, const struct edge_wait_options *options);
/* Takes all entries out without calling them. */
void edge_wait_destroy(struct edge_wait *wait);

/* Whether a new request must wait: the gate is shut, or others wait before it. A tenant without a
 * waiting request may ask a full engine, which may be full for other tenants only. */
bool edge_wait_is_needed(const struct edge_wait *wait, const struct edge_wait_who *who);
/* Queues an entry behind those of its tenant in the class; an entry that waits again (`order` is
 * kept) gets its old place. On a failure it does not wait: QUEUE_FULL when the tenant's bound is
 * met and BUSY when the total is, both with a time to try again in the error note; UNAVAILABLE when
 * the gate is shut and the queue is off (requests_max 0); NO_MEMORY. */
enum status edge_wait_enter(struct edge_wait *wait, struct edge_wait_entry *entry,
                            const struct edge_wait_who *who, size_t bytes);
/* Takes an entry out. No effect on one that does not wait. */
void edge_wait_leave(struct edge_wait *wait, struct edge_wait_entry *entry);
/* The engine took a request of that class, so it is not full for the class. */
void edge_wait_taken(struct edge_wait *wait, enum service_class service_class);
/* The time until a request that enters now would have its turn, from the rate at which the engine
 * took requests lately; 0 when the rate is not known. */
uint32_t edge_wait_estimate_ms(const struct edge_wait *wait, const struct edge_wait_who *who);

/* Opens the gate. The gate of a class that is shut for a busy engine stays shut. */
void edge_wait_open(struct edge_wait *wait);
/* Shuts it until edge_wait_open. */
void edge_wait_shut(struct edge_wait *wait);
/* The engine was busy for a request of that class. After EDGE_WAIT_BUSY_ROW such answers in a row,
 * the gate of the class is shut for `ms` (0: the engine did not say how long). One refusal is not
 * enough, because a single large request must not stop the others. */
void edge_wait_busy(struct edge_wait *wait, enum service_class service_class, uint32_t ms);
/* The tenant of this entry has used up its share of the engine in the entry's class: its waiting
 * requests of the class, and new ones, have no turn for `ms`. No effect on an entry that does not
 * wait. */
void edge_wait_hold(struct edge_wait *wait, const struct edge_wait_entry *entry, uint32_t ms);
/* Takes every entry out and calls its `refused`. */
void edge_wait_refuse_all(struct edge_wait *wait);
uint32_t edge_wait_count(const struct edge_wait *wait);
