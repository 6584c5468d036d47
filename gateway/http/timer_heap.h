/* timer_heap: a binary heap of deadlines; equal deadlines come out in the order of insertion.
 *
 * Owns:     the array of pointers; entries belong to the caller.
 * Thread:   one.
 * Cost:     O(log n) for an insertion or removal; only timer_heap_reserve allocates.
 * Not here: clocks, what to do at the deadline (loop).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

struct timer_heap_entry {
    int64_t at_us;
    uint64_t order;
    size_t slot; /* 1 + index in the heap; 0 = not in the heap */
};

struct timer_heap {
    struct timer_heap_entry **entries;
    size_t count;
    size_t capacity;
    uint64_t order_next;
};

void timer_heap_init(struct timer_heap *heap);
void timer_heap_deinit(struct timer_heap *heap);
/* Makes room for `count` entries in all; NO_MEMORY. */
enum status timer_heap_reserve(struct timer_heap *heap, size_t count);
/* `entry` must not be in the heap; there must be room. */
void timer_heap_insert(struct timer_heap *heap, struct timer_heap_entry *entry, int64_t at_us);
/* Does nothing when the entry is not in the heap. */
void timer_heap_remove(struct timer_heap *heap, struct timer_heap_entry *entry);
/* The entry with the earliest deadline, or NULL. */
struct timer_heap_entry *timer_heap_first(const struct timer_heap *heap);
/* Asserts the heap's order and its slots; O(n). For tests. */
void timer_heap_check(const struct timer_heap *heap);
