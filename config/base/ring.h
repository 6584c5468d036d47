/* ring: a bounded queue of fixed-size items between threads; full is an answer, never a wait.
 *
 * Owns:     its slots. Any number of producers, any number of consumers.
 * Thread:   any; lock-free (Vyukov's bounded MPMC queue: each slot carries the turn it is for).
 * Cost:     one compare-and-swap a push or pop; no allocation after ring_init.
 * Not here: waking the other side (an eventfd or a loop message, by the owner).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/base/status.h"

struct ring {
    char *slots; /* [capacity] of {_Atomic size_t turn; item bytes} */
    size_t item_bytes;
    size_t slot_bytes;
    size_t mask;
    _Alignas(64) _Atomic size_t head; /* next to push */
    _Alignas(64) _Atomic size_t tail; /* next to pop */
};

/* `capacity` a power of two. */
enum status ring_init(struct ring *ring, size_t capacity, size_t item_bytes);
void ring_deinit(struct ring *ring);
/* False when full; the item is copied. */
bool ring_push(struct ring *ring, const void *item);
/* False when empty. */
bool ring_pop(struct ring *ring, void *item);
/* A look that may be stale at once: for metrics. */
size_t ring_count(struct ring *ring);
