#include "gateway/http/timer_heap.h"

#include <stdbool.h>

#include "config/base/mem.h"

void timer_heap_init(struct timer_heap *heap)
{
    *heap = (struct timer_heap){0};
}

void timer_heap_deinit(struct timer_heap *heap)
{
    mem_free(heap->entries);
    *heap = (struct timer_heap){0};
}

enum status timer_heap_reserve(struct timer_heap *heap, size_t count)
{
    if (count <= heap->capacity)
        return STATUS_OK;
    size_t capacity = heap->capacity < 16 ? 16 : heap->capacity * 2;
    if (capacity < count)
        capacity = count;
    void *entries = mem_realloc(heap->entries, capacity * sizeof(heap->entries[0]));
    if (entries == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu timers", count);
    heap->entries = entries;
    heap->capacity = capacity;
    return STATUS_OK;
}

static bool is_before(const struct timer_heap_entry *a, const struct timer_heap_entry *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void place(struct timer_heap *heap, size_t index, struct timer_heap_entry *entry)
{
    heap->entries[index] = entry;
    entry->slot = index + 1;
}

static void move_up(struct timer_heap *heap, size_t index, struct timer_heap_entry *entry)
{
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (!is_before(entry, heap->entries[parent]))
            break;
        place(heap, index, heap->entries[parent]);
        index = parent;
    }
    place(heap, index, entry);
}

static void move_down(struct timer_heap *heap, size_t index, struct timer_heap_entry *entry)
{
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && is_before(heap->entries[child + 1], heap->entries[child]))
            child++;
        if (!is_before(heap->entries[child], entry))
            break;
        place(heap, index, heap->entries[child]);
        index = child;
    }
    place(heap, index, entry);
}

void timer_heap_insert(struct timer_heap *heap, struct timer_heap_entry *entry, int64_t at_us)
{
    ASSERT(entry->slot == 0);
    ASSERT(heap->count < heap->capacity);
    entry->at_us = at_us;
    entry->order = heap->order_next++;
    move_up(heap, heap->count++, entry);
}

void timer_heap_remove(struct timer_heap *heap, struct timer_heap_entry *entry)
{
    if (entry->slot == 0)
        return;
    size_t index = entry->slot - 1;
    ASSERT(index < heap->count);
    ASSERT(heap->entries[index] == entry);
    entry->slot = 0;
    struct timer_heap_entry *last = heap->entries[--heap->count];
    if (last == entry)
        return;
    if (index > 0 && is_before(last, heap->entries[(index - 1) / 2]))
        move_up(heap, index, last);
    else
        move_down(heap, index, last);
}

struct timer_heap_entry *timer_heap_first(const struct timer_heap *heap)
{
    return heap->count > 0 ? heap->entries[0] : NULL;
}

void timer_heap_check(const struct timer_heap *heap)
{
    ASSERT(heap->count <= heap->capacity);
    for (size_t i = 0; i < heap->count; i++) {
        ASSERT(heap->entries[i]->slot == i + 1);
        if (i > 0)
            ASSERT(!is_before(heap->entries[i], heap->entries[(i - 1) / 2]));
    }
}
