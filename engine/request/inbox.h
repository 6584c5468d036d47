/* inbox: the way into the engine thread: a bounded ring of ticket slots, and a bell to wake it.
 *
 * Owns:     the ring, the bell's mutex and condition.
 * Thread:   push and ring: any; pop and wait: the engine thread.
 * Cost:     a push is one compare-and-swap, and a signal only while the engine thread sleeps.
 * Not here: cancels and acknowledgements (atomics of the ticket), the tickets themselves.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "config/base/ring.h"

struct inbox {
    struct ring slots;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    _Atomic bool is_rung;
    _Atomic bool is_asleep;
};

/* `capacity`, rounded up to a power of two, is the number of tickets, so that a push always
 * finds room. NO_MEMORY. */
enum status inbox_init(struct inbox *inbox, uint32_t capacity);
void inbox_deinit(struct inbox *inbox);

/* Hands ticket `slot` to the engine thread and rings. */
void inbox_push(struct inbox *inbox, uint32_t slot);
/* False when the ring is empty. */
bool inbox_pop(struct inbox *inbox, uint32_t *slot);

/* Makes the current or the next inbox_wait return. */
void inbox_ring(struct inbox *inbox);
/* Sleeps until rung, or until `timeout_us` is over (negative = no limit). A ring since the last
 * wait counts, so none is lost. */
void inbox_wait(struct inbox *inbox, int64_t timeout_us);
