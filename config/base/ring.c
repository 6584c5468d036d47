#include "config/base/ring.h"

#include <stdint.h>
#include <string.h>

#include "config/base/mem.h"

enum { TURN_BYTES = 16 }; /* the slot's turn, padded so that the item is aligned to 16 */

static _Atomic size_t *slot_turn(struct ring *ring, size_t position)
{
    return (void *)(ring->slots + (position & ring->mask) * ring->slot_bytes);
}

static char *slot_item(struct ring *ring, size_t position)
{
    return ring->slots + (position & ring->mask) * ring->slot_bytes + TURN_BYTES;
}

enum status ring_init(struct ring *ring, size_t capacity, size_t item_bytes)
{
    ASSERT(capacity >= 2);
    ASSERT((capacity & (capacity - 1)) == 0);
    ring->item_bytes = item_bytes;
    ring->slot_bytes = TURN_BYTES + ((item_bytes + 15) & ~(size_t)15);
    ring->mask = capacity - 1;
    ring->slots = mem_zalloc(capacity, ring->slot_bytes);
    if (ring->slots == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a ring of %zu slots", capacity);
    for (size_t i = 0; i < capacity; i++)
        atomic_init(slot_turn(ring, i), i);
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    return STATUS_OK;
}

void ring_deinit(struct ring *ring)
{
    mem_free(ring->slots);
    ring->slots = NULL;
}

bool ring_push(struct ring *ring, const void *item)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    for (;;) {
        size_t turn = atomic_load_explicit(slot_turn(ring, head), memory_order_acquire);
        intptr_t ahead = (intptr_t)(turn - head);
        if (ahead < 0)
            return false;
        if (ahead == 0 && atomic_compare_exchange_weak(&ring->head, &head, head + 1))
            break;
        if (ahead > 0)
            head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    }
    memcpy(slot_item(ring, head), item, ring->item_bytes);
    atomic_store_explicit(slot_turn(ring, head), head + 1, memory_order_release);
    return true;
}

bool ring_pop(struct ring *ring, void *item)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    for (;;) {
        size_t turn = atomic_load_explicit(slot_turn(ring, tail), memory_order_acquire);
        intptr_t ahead = (intptr_t)(turn - (tail + 1));
        if (ahead < 0)
            return false;
        if (ahead == 0 && atomic_compare_exchange_weak(&ring->tail, &tail, tail + 1))
            break;
        if (ahead > 0)
            tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    }
    memcpy(item, slot_item(ring, tail), ring->item_bytes);
    atomic_store_explicit(slot_turn(ring, tail), tail + ring->mask + 1, memory_order_release);
    return true;
}

size_t ring_count(struct ring *ring)
{
    size_t tail = atomic_load(&ring->tail);
    size_t head = atomic_load(&ring->head);
    return head > tail ? head - tail : 0;
}
