#include "config/base/byte_shares.h"

#include <string.h>

#include "config/base/hash.h"
#include "config/base/mem.h"

enum { BUCKETS = 1024 };

struct byte_shares_owner {
    struct byte_shares_owner *chain;
    uint8_t name[BYTE_SHARES_OWNER_BYTES];
    size_t bytes;
    uint32_t holds;
};

struct byte_shares {
    struct byte_shares_rule rule;
    size_t total;
    uint32_t owners;
    struct byte_shares_owner *buckets[BUCKETS];
};

bool byte_shares_allow(const struct byte_shares_rule *rule, size_t total, size_t own, size_t more)
{
    size_t left = rule->limit_bytes > total ? rule->limit_bytes - total : 0;
    if (more <= left && own <= (left - more) / BYTE_SHARES_PARTS)
        return true;
    size_t most = rule->limit_bytes + rule->reserve_bytes;
    return more <= rule->floor_bytes && own <= rule->floor_bytes - more && more <= most &&
           total <= most - more;
}

enum status byte_shares_create(struct byte_shares **out, const struct byte_shares_rule *rule)
{
    *out = mem_zalloc(1, sizeof **out);
    if (*out == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the table of memory shares");
    (*out)->rule = *rule;
    return STATUS_OK;
}

void byte_shares_destroy(struct byte_shares *shares)
{
    if (shares == NULL)
        return;
    ASSERT(shares->owners == 0);
    mem_free(shares);
}

static struct byte_shares_owner **owner_slot(struct byte_shares *shares, const uint8_t *name)
{
    uint64_t hash = hash_bytes(hash_process_key(), name, BYTE_SHARES_OWNER_BYTES);
    struct byte_shares_owner **slot = &shares->buckets[hash % BUCKETS];
    while (*slot != NULL && memcmp((*slot)->name, name, BYTE_SHARES_OWNER_BYTES) != 0)
        slot = &(*slot)->chain;
    return slot;
}

static enum byte_shares_verdict judge(const struct byte_shares *shares, size_t own, size_t more)
{
    if (byte_shares_allow(&shares->rule, shares->total, own, more))
        return BYTE_SHARES_OK;
    return own == 0 || own + more <= shares->rule.floor_bytes ? BYTE_SHARES_ALL : BYTE_SHARES_OWN;
}

enum byte_shares_verdict byte_shares_take(struct byte_shares *shares, struct byte_shares_hold *hold,
                                          const uint8_t owner[BYTE_SHARES_OWNER_BYTES],
                                          size_t bytes)
{
    ASSERT(hold->owner == NULL);
    struct byte_shares_owner **slot = owner_slot(shares, owner);
    enum byte_shares_verdict verdict = judge(shares, *slot != NULL ? (*slot)->bytes : 0, bytes);
    if (verdict != BYTE_SHARES_OK)
        return verdict;
    if (*slot == NULL) {
        *slot = mem_zalloc(1, sizeof **slot);
        if (*slot == NULL)
            return BYTE_SHARES_NO_MEMORY;
        memcpy((*slot)->name, owner, BYTE_SHARES_OWNER_BYTES);
        shares->owners++;
    }
    (*slot)->holds++;
    (*slot)->bytes += bytes;
    shares->total += bytes;
    *hold = (struct byte_shares_hold){.owner = *slot, .bytes = bytes};
    return BYTE_SHARES_OK;
}

enum byte_shares_verdict byte_shares_set(struct byte_shares *shares, struct byte_shares_hold *hold,
                                         size_t bytes)
{
    struct byte_shares_owner *owner = hold->owner;
    ASSERT(owner != NULL);
    ASSERT(owner->bytes >= hold->bytes && shares->total >= hold->bytes);
    enum byte_shares_verdict verdict =
        bytes > hold->bytes ? judge(shares, owner->bytes, bytes - hold->bytes) : BYTE_SHARES_OK;
    owner->bytes = owner->bytes - hold->bytes + bytes;
    shares->total = shares->total - hold->bytes + bytes;
    hold->bytes = bytes;
    return verdict;
}

void byte_shares_leave(struct byte_shares *shares, struct byte_shares_hold *hold)
{
    struct byte_shares_owner *owner = hold->owner;
    if (owner == NULL)
        return;
    (void)byte_shares_set(shares, hold, 0);
    hold->owner = NULL;
    if (--owner->holds != 0)
        return;
    ASSERT(owner->bytes == 0);
    *owner_slot(shares, owner->name) = owner->chain;
    shares->owners--;
    mem_free(owner);
}

size_t byte_shares_total(const struct byte_shares *shares)
{
    return shares->total;
}

size_t byte_shares_own(const struct byte_shares_hold *hold)
{
    return hold->owner != NULL ? hold->owner->bytes : 0;
}

uint32_t byte_shares_owners(const struct byte_shares *shares)
{
    return shares->owners;
}
