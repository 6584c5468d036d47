/* arena: memory given out by moving a pointer, all given back at once.
 *
 * Owns:     one block, taken at arena_init; a process arena or a step's scratch.
 * Thread:   one at a time.
 * Cost:     O(1), no allocation after arena_init.
 * Not here: growth: an arena that is full is a sum that was wrong.
 */
#pragma once

#include <stddef.h>

#include "config/base/status.h"

struct arena {
    char *base;
    size_t capacity_bytes;
    size_t used_bytes;
    size_t peak_bytes;
};

enum status arena_init(struct arena *arena, size_t capacity_bytes);
void arena_deinit(struct arena *arena);
/* `alignment` a power of two ≤ 64. NULL when the arena is full. */
void *arena_take(struct arena *arena, size_t bytes, size_t alignment);
void arena_reset(struct arena *arena);
