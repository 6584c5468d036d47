/* ledger_recent: the last n request ids, to tell whether a row was written before.
 *
 *   order: [■ ■ ■ ■ ■ ■ ■ ■]  prints in the order in which they came; next overwrites the oldest
 *   slots: [· ■ · ■ ■ · · …]  twice as many, open addressing: print → place in `order`
 *
 * Owns:     128-bit keyed prints of the ids, so two ids are taken for one with 2^-94 at n = 2^17.
 * Thread:   one (the ledger's writer).
 * Cost:     O(1), no allocation after ledger_recent_init; 24 bytes an id.
 * Not here: ids older than n: an engine replays no more records than that.
 */
#pragma once

#include <stdint.h>

#include "config/base/hash.h"
#include "config/base/slice.h"

struct ledger_recent {
    struct hash_key keys[2];
    uint64_t (*order)[2]; /* [capacity] */
    uint32_t *slots;      /* [2 × capacity]: place in order plus 1; 0: free */
    uint32_t capacity;
    uint32_t count;
    uint32_t next; /* place in order that is written next */
};

/* `capacity` a power of two. */
enum status ledger_recent_init(struct ledger_recent *recent, uint32_t capacity);
void ledger_recent_deinit(struct ledger_recent *recent);
/* True when the id was not there; the oldest one then makes room for it. */
bool ledger_recent_add(struct ledger_recent *recent, struct slice id);
