/* step_queue: requests that wait to become sequences, in order of arrival and by client.
 *
 * Owns:     heads of lists whose links are in the tickets; the number of requests by class.
 * Thread:   engine thread only.
 * Cost:     enter and leave are O(1); no allocation after step_queue_init.
 * Not here: which request goes first (scheduler), what a client has received (scheduler_fair).
 *
 *     all       a1 ─ b1 ─ a2 ─ a3 ─ c1      first come, first served
 *     client a  a1 ─ a2 ─ a3                a step looks at the first ones
 *
 * A client is a tenant in a class; its index is that of its account in scheduler_fair.
 */
#pragma once

#include "engine/request/ticket.h"

struct step_queue_list {
    uint32_t first; /* TICKET_NONE = empty */
    uint32_t last;
    uint32_t count;
};

struct step_queue {
    struct ticket_table *tickets;
    struct step_queue_list all;
    uint64_t arrivals;                     /* since the start */
    struct step_queue_list *clients;       /* [tickets->count] */
    uint32_t *active[SERVICE_CLASS_COUNT]; /* [active_count] clients with requests in the queue */
    uint32_t active_count[SERVICE_CLASS_COUNT];
    uint32_t *place; /* [tickets->count] index of a client in `active` */
    uint32_t by_class[SERVICE_CLASS_COUNT];
    int64_t deadline_us; /* no deadline in the queue is earlier; INT64_MAX = none */
};

/* NO_MEMORY. */
enum status step_queue_init(struct step_queue *queue, struct ticket_table *tickets);
void step_queue_deinit(struct step_queue *queue);

/* Appends a request whose client is set. */
void step_queue_enter(struct step_queue *queue, uint32_t slot);
/* Does nothing when the request is not in the queue. */
void step_queue_leave(struct step_queue *queue, uint32_t slot);

/* Computes deadline_us again after deadlines have passed. O(all). */
void step_queue_find_deadline(struct step_queue *queue);

/* Compares all lists with each other; for tests and slow checks. O(all). */
bool step_queue_check(const struct step_queue *queue);
