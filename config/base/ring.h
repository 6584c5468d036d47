/* ring: a bounded queue of fixed-size items between threads; a full ring refuses and never waits.
 *
 * Owns:     its slots. Any number of producers, any number of consumers.
 * Thread:   any; lock-free (Vyukov's bounded MPMC queue: a slot's turn says which push or pop it
 *           waits for).
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
    _Alignas(64) _Atomic size_t head; /* position of the next push */
    _Alignas(64) _Atomic size_t tail; /* position of the next pop */
};

/* `capacity` must be a power of two, at least 2. NO_MEMORY. */
enum status ring_init(struct ring *ring, size_t capacity, size_t item_bytes);
void ring_deinit(struct ring *ring);
/* Copies the item in. False when the ring is full. */
bool ring_push(struct ring *ring, const void *item);
/* Copies the oldest item out. False when the ring is empty. */
bool ring_pop(struct ring *ring, void *item);
/* Returns a count that may be stale at once; for metrics. */
size_t ring_count(struct ring *ring);
