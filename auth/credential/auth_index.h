/* auth_index: a table from ids (any bytes) to records; ids are never taken out.
 *
 * Owns:     its slots; records and the ids inside them belong to the caller.
 * Thread:   one writer or many readers at a time (the caller's lock).
 * Cost:     O(1); at most half of the slots are in use, linear probing.
 * Not here: order of the records (tenant keeps them in lists).
 */
#pragma once

#include "config/base/slice.h"

struct auth_index_slot;

struct auth_index {
    struct auth_index_slot *slots;
    size_t capacity; /* 0 or a power of two */
    size_t count;
};

void auth_index_deinit(struct auth_index *index);
/* Room for `count` records in all, so that as many auth_index_put cannot fail. NO_MEMORY. */
enum status auth_index_reserve(struct auth_index *index, size_t count);
/* The same in two steps, so that readers need not wait while a large table is filled again: a copy
 * with room for `count`, made while others read `index` (capacity 0 when `index` has the room
 * already), then the exchange, under the caller's lock and O(1). `larger` holds what is left over
 * then: auth_index_deinit it. */
enum status auth_index_copy_larger(const struct auth_index *index, size_t count,
                                   struct auth_index *larger);
void auth_index_exchange(struct auth_index *index, struct auth_index *larger);
/* `id` lives as long as the record and is not in the table yet. */
void auth_index_put(struct auth_index *index, struct slice id, void *record);
/* NULL when there is none. */
void *auth_index_get(const struct auth_index *index, struct slice id);
