/* edge_ack: which final records of the engine are in the ledger: the gapless prefix of them.
 *
 *   prefix                                                    prefix + LIMIT_FINAL_RECORDS
 *     │ 1 1 0 1 0 0 1 …                                            │
 *     └─ everything up to here is counted: this is what the engine may forget
 *
 * Owns:     one bit a record, 16 KiB: as many as an engine keeps.
 * Thread:   the loop's thread.
 * Cost:     O(1) a mark, amortised; no allocation.
 * Not here: telling the engine, reading records again (edge_replay).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"

struct edge_ack {
    uint64_t prefix; /* all records up to it are counted */
    uint64_t last;   /* the highest one marked; at least prefix */
    uint64_t bits[LIMIT_FINAL_RECORDS / 64];
};

/* Forgets all marks: the engine says that everything up to `prefix` is acknowledged. */
void edge_ack_reset(struct edge_ack *ack, uint64_t prefix);
/* A record is counted. Nothing happens for one that was marked before, nor for one too far ahead to
 * be kept: it is read again from the engine when its turn comes. */
void edge_ack_mark(struct edge_ack *ack, uint64_t record_seq);
/* Records from `first` to `last` do not exist any more: as good as counted. */
void edge_ack_skip(struct edge_ack *ack, uint64_t first, uint64_t last);
bool edge_ack_is_marked(const struct edge_ack *ack, uint64_t record_seq);
/* The last one of those behind `record_seq` that are marked without a gap; itself: none is. O(n) of
 * them. */
uint64_t edge_ack_run_end(const struct edge_ack *ack, uint64_t record_seq);
/* Records are marked behind one that is not: somebody else's, or one that never reached us. */
bool edge_ack_has_gap(const struct edge_ack *ack);
