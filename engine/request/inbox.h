/* inbox: the one way into the engine thread: a bounded ring of request slots, and the bell.
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

/* `capacity`, rounded up to a power of two, is the number of request slots there are, so that a
 * push always finds room. */
enum status inbox_init(struct inbox *inbox, uint32_t capacity);
void inbox_deinit(struct inbox *inbox);

void inbox_push(struct inbox *inbox, uint32_t slot);
bool inbox_pop(struct inbox *inbox, uint32_t *slot);

/* Makes the present or the next inbox_wait return. */
void inbox_ring(struct inbox *inbox);
/* Sleeps until rung, or until `timeout_us` is over (negative: no limit). Rings since the last wait
 * count, so none is lost. */
void inbox_wait(struct inbox *inbox, int64_t timeout_us);
