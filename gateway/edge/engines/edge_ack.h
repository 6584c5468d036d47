/* edge_ack: marks which final records of the engine are in the ledger, and up to which number all
 * of them are.
 *
 *   prefix                                                    prefix + LIMIT_FINAL_RECORDS
 *     │ 0 1 1 0 1 0 0 …                                            │
 *     └─ all records up to here are counted, so the engine may forget them
 *
 * Owns:     one bit for each record that an engine keeps (LIMIT_FINAL_RECORDS), 16 KiB.
 * Thread:   the loop's thread.
 * Cost:     O(1) a mark, amortised; no allocation.
 * Not here: telling the engine, reading records again (edge_replay).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"

struct edge_ack {
    uint64_t prefix; /* all records up to this number are counted */
    uint64_t last;   /* the highest number that is marked; at least prefix */
    uint64_t bits[LIMIT_FINAL_RECORDS / 64];
};

/* Forgets all marks; the engine says that all records up to `prefix` are acknowledged. */
void edge_ack_reset(struct edge_ack *ack, uint64_t prefix);
/* Marks a record as counted. A record that lies too far ahead is not marked; it is read again from
 * the engine later. */
void edge_ack_mark(struct edge_ack *ack, uint64_t record_seq);
/* Marks the records from `first` to `last`, which no longer exist, as counted. */
void edge_ack_skip(struct edge_ack *ack, uint64_t first, uint64_t last);
bool edge_ack_is_marked(const struct edge_ack *ack, uint64_t record_seq);
/* The last record of the unbroken run of marked records that follows `record_seq`; `record_seq`
 * itself when the next one is not marked. O(length of the run). */
uint64_t edge_ack_run_end(const struct edge_ack *ack, uint64_t record_seq);
/* Whether a record is marked while an earlier one is not: the earlier one belongs to a request that
 * still runs, or its stream did not reach this edge. */
bool edge_ack_has_gap(const struct edge_ack *ack);
