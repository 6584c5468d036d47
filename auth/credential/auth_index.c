#include "auth/credential/auth_index.h"

#include "config/base/hash.h"
#include "config/base/mem.h"

struct auth_index_slot {
    struct slice id; /* bytes NULL: free */
    void *record;
};

void auth_index_deinit(struct auth_index *index)
{
    mem_free(index->slots);
    *index = (struct auth_index){0};
}

/* The slot that holds the id, or the free one where it belongs. The hash is keyed, because
 * strangers choose ids. */
static struct auth_index_slot *index_slot(const struct auth_index *index, struct slice id)
{
    size_t at = hash_bytes(hash_process_key(), id.bytes, id.length) & (index->capacity - 1);
    while (index->slots[at].id.bytes != NULL && !slice_equals(id, index->slots[at].id))
        at = (at + 1) & (index->capacity - 1);
    return &index->slots[at];
}

enum status auth_index_copy_larger(const struct auth_index *index, size_t count,
                                   struct auth_index *larger)
{
    *larger = (struct auth_index){0};
    size_t capacity = index->capacity > 0 ? index->capacity : 16;
    while (capacity < 2 * count)
        capacity *= 2;
    if (capacity == index->capacity)
        return STATUS_OK;
    struct auth_index_slot *slots = mem_zalloc(capacity, sizeof *slots);
    if (slots == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a table of %zu slots", capacity);
    *larger = (struct auth_index){.slots = slots, .capacity = capacity, .count = index->count};
    for (size_t i = 0; i < index->capacity; i++) {
        if (index->slots[i].id.bytes != NULL)
            *index_slot(larger, index->slots[i].id) = index->slots[i];
    }
    return STATUS_OK;
}

void auth_index_exchange(struct auth_index *index, struct auth_index *larger)
{
    if (larger->capacity == 0)
        return;
    struct auth_index old = *index;
    *index = *larger;
    *larger = old;
}

enum status auth_index_reserve(struct auth_index *index, size_t count)
{
    struct auth_index larger;
    TRY(auth_index_copy_larger(index, count, &larger));
    auth_index_exchange(index, &larger);
    auth_index_deinit(&larger);
    return STATUS_OK;
}

void auth_index_put(struct auth_index *index, struct slice id, void *record)
{
    ASSERT(2 * (index->count + 1) <= index->capacity);
    struct auth_index_slot *slot = index_slot(index, id);
    ASSERT(slot->id.bytes == NULL);
    *slot = (struct auth_index_slot){id, record};
    index->count++;
}

void *auth_index_get(const struct auth_index *index, struct slice id)
{
    return index->capacity == 0 ? NULL : index_slot(index, id)->record;
}
