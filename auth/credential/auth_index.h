/* auth_index: a hash table from ids (any bytes) to records. Ids are never removed.
 *
 * Owns:     its slots. The caller owns the records and the ids inside them.
 * Thread:   one writer or many readers at a time, under the caller's lock.
 * Cost:     O(1) expected; linear probing with at most half of the slots in use.
 * Not here: the order of the records (tenant keeps them in lists).
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
/* Makes room for `count` records in total, so that auth_index_put cannot fail. NO_MEMORY. */
enum status auth_index_reserve(struct auth_index *index, size_t count);
/* The same in two steps, so that readers need not wait while a large table is copied.
 * auth_index_copy_larger makes a copy with room for `count` while others read `index`; when `index`
 * has the room already, the copy has capacity 0. auth_index_exchange swaps the two in O(1), under
 * the caller's lock, and does nothing when the capacity is 0. The caller then frees `larger` with
 * auth_index_deinit. NO_MEMORY. */
enum status auth_index_copy_larger(const struct auth_index *index, size_t count,
                                   struct auth_index *larger);
void auth_index_exchange(struct auth_index *index, struct auth_index *larger);
/* Adds a record. There must be room, `id` must live as long as the record, and it must not be in
 * the table yet. */
void auth_index_put(struct auth_index *index, struct slice id, void *record);
/* The record of an id; NULL when there is none. */
void *auth_index_get(const struct auth_index *index, struct slice id);
