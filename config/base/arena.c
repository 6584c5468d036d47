#include "config/base/arena.h"

#include "config/base/mem.h"

enum status arena_init(struct arena *arena, size_t capacity_bytes)
{
    *arena = (struct arena){.base = mem_alloc_aligned(64, capacity_bytes)};
    if (arena->base == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an arena of %zu bytes", capacity_bytes);
    arena->capacity_bytes = capacity_bytes;
    return STATUS_OK;
}

void arena_deinit(struct arena *arena)
{
    mem_free(arena->base);
    *arena = (struct arena){0};
}

void *arena_take(struct arena *arena, size_t bytes, size_t alignment)
{
    ASSERT(alignment >= 1);
    ASSERT(alignment <= 64);
    ASSERT((alignment & (alignment - 1)) == 0);
    size_t start = (arena->used_bytes + alignment - 1) & ~(alignment - 1);
    if (start > arena->capacity_bytes || bytes > arena->capacity_bytes - start)
        return NULL;
    arena->used_bytes = start + bytes;
    if (arena->used_bytes > arena->peak_bytes)
        arena->peak_bytes = arena->used_bytes;
    return arena->base + start;
}

void arena_reset(struct arena *arena)
{
    arena->used_bytes = 0;
}
