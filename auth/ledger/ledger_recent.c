#include "auth/ledger/ledger_recent.h"

#include "config/base/mem.h"
#include "config/base/random_bytes.h"

enum status ledger_recent_init(struct ledger_recent *recent, uint32_t capacity)
{
    ASSERT(capacity >= 2);
    ASSERT((capacity & (capacity - 1)) == 0);
    *recent = (struct ledger_recent){.capacity = capacity};
    recent->order = mem_zalloc(capacity, sizeof *recent->order);
    recent->slots = mem_zalloc((size_t)capacity * 2, sizeof *recent->slots);
    if (recent->order == NULL || recent->slots == NULL) {
        ledger_recent_deinit(recent);
        FAIL(STATUS_NO_MEMORY, "no memory for the ids of %u requests", capacity);
    }
    random_bytes(recent->keys, sizeof recent->keys);
    return STATUS_OK;
}

void ledger_recent_deinit(struct ledger_recent *recent)
{
    mem_free(recent->order);
    mem_free(recent->slots);
    *recent = (struct ledger_recent){0};
}

static uint32_t slot_next(const struct ledger_recent *recent, uint32_t slot)
{
    return (slot + 1) & (2 * recent->capacity - 1);
}

static uint32_t slot_home(const struct ledger_recent *recent, const uint64_t print[2])
{
    return (uint32_t)print[0] & (2 * recent->capacity - 1);
}

/* The slot of a print, or the free one where it belongs. */
static uint32_t slot_find(const struct ledger_recent *recent, const uint64_t print[2])
{
    uint32_t slot = slot_home(recent, print);
    while (recent->slots[slot] != 0) {
        const uint64_t *other = recent->order[recent->slots[slot] - 1];
        if (other[0] == print[0] && other[1] == print[1])
            break;
        slot = slot_next(recent, slot);
    }
    return slot;
}

/* Frees a slot, and moves later entries of its chain into the gap that could otherwise not be
 * found. */
static void slot_free(struct ledger_recent *recent, uint32_t slot)
{
    uint32_t mask = 2 * recent->capacity - 1;
    uint32_t gap = slot;
    for (uint32_t at = slot_next(recent, gap); recent->slots[at] != 0; at = slot_next(recent, at)) {
        uint32_t home = slot_home(recent, recent->order[recent->slots[at] - 1]);
        if (((at - home) & mask) < ((at - gap) & mask)) /* its home lies after the gap */
            continue;
        recent->slots[gap] = recent->slots[at];
        gap = at;
    }
    recent->slots[gap] = 0;
}

bool ledger_recent_add(struct ledger_recent *recent, struct slice id)
{
    uint64_t print[2] = {hash_bytes(&recent->keys[0], id.bytes, id.length),
                         hash_bytes(&recent->keys[1], id.bytes, id.length)};
    if (recent->slots[slot_find(recent, print)] != 0)
        return false;
    uint64_t *place = recent->order[recent->next];
    if (recent->count == recent->capacity)
        slot_free(recent, slot_find(recent, place));
    else
        recent->count++;
    place[0] = print[0];
    place[1] = print[1];
    recent->slots[slot_find(recent, print)] = recent->next + 1;
    recent->next = (recent->next + 1) & (recent->capacity - 1);
    return true;
}
