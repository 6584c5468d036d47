#include "engine/draft/draft_lookup.h"

#include <string.h>

#include "config/base/hash.h"
#include "config/base/status.h"

enum { LENGTHS = 2 };
static const uint32_t lengths[LENGTHS] = {DRAFT_LOOKUP_LONG, DRAFT_LOOKUP_SHORT};

_Static_assert((DRAFT_LOOKUP_ENTRIES & (DRAFT_LOOKUP_ENTRIES - 1)) == 0, "hashes are masked");

void draft_lookup_reset(struct draft_lookup *lookup)
{
    memset(lookup->entries, 0, DRAFT_LOOKUP_NUMBERS * sizeof(lookup->entries[0]));
    lookup->indexed = 0;
}

/* The entry of the run of lengths[which] tokens that ends just before `end`. */
static uint32_t *entry_of(const struct draft_lookup *lookup, const uint32_t *tokens, uint32_t end,
                          uint32_t which)
{
    uint64_t hash = 0;
    for (uint32_t i = end - lengths[which]; i < end; i++)
        hash = hash_mix64(hash + tokens[i] + 1);
    return &lookup->entries[which * DRAFT_LOOKUP_ENTRIES + (hash & (DRAFT_LOOKUP_ENTRIES - 1))];
}

/* Adds the runs that have a token after them; the run at the end of the tokens has none yet. */
static void index_until(struct draft_lookup *lookup, const uint32_t *tokens, uint32_t count)
{
    for (; lookup->indexed < count; lookup->indexed++)
        for (uint32_t which = 0; which < LENGTHS; which++)
            if (lookup->indexed >= lengths[which])
                *entry_of(lookup, tokens, lookup->indexed, which) = lookup->indexed;
}

/* Position after an earlier run that equals the last one; 0 = none. Equal hashes may be chance. */
static uint32_t find(const struct draft_lookup *lookup, const uint32_t *tokens, uint32_t count)
{
    for (uint32_t which = 0; which < LENGTHS; which++) {
        uint32_t length = lengths[which];
        if (count <= length)
            continue;
        uint32_t behind = *entry_of(lookup, tokens, count, which);
        if (behind > 0 && memcmp(tokens + behind - length, tokens + count - length,
                                 length * sizeof(tokens[0])) == 0)
            return behind;
    }
    return 0;
}

uint32_t draft_lookup_guess(struct draft_lookup *lookup, uint32_t *tokens, uint32_t count,
                            uint32_t most)
{
    ASSERT(most <= DRAFT_LOOKUP_MOST);
    ASSERT(lookup->indexed <= count);
    index_until(lookup, tokens, count);
    uint32_t behind = find(lookup, tokens, count);
    if (behind == 0)
        return 0;
    /* The source may run into the drafts: after "a a a" they repeat more of the same. */
    for (uint32_t i = 0; i < most; i++)
        tokens[count + i] = tokens[behind + i];
    return most;
}
