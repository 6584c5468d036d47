/* ledger_recent: remembers the last n request ids, to tell whether a row was written before.
 *
 *   order: [■ ■ ■ ■ ■ ■ ■ ■]  prints in the order in which they came; `next` overwrites the oldest
 *   slots: [· ■ · ■ ■ · · …]  twice as many, open addressing: print → place in `order`
 *
 * Owns:     128-bit keyed hashes ("prints") of the ids. The chance that any two of 2^17 ids have
 *           the same print is 2^-94.
 * Thread:   one at a time (the ledger's writer).
 * Cost:     O(1) expected; no allocation after ledger_recent_init; 24 bytes an id.
 * Not here: older ids; an engine replays no more records than n.
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

/* `capacity` is n, a power of two. NO_MEMORY. */
enum status ledger_recent_init(struct ledger_recent *recent, uint32_t capacity);
void ledger_recent_deinit(struct ledger_recent *recent);
/* Adds an id. False when it is there already; true when it was added, perhaps in place of the
 * oldest one. */
bool ledger_recent_add(struct ledger_recent *recent, struct slice id);
