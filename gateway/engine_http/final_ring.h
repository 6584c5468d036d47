/* final_ring: the last records of requests, kept in a file until the edge has counted them.
 *
 * Owns:     D/finals.ring: a header and LIMIT_FINAL_RECORDS slots, memory-mapped.
 * Thread:   the loop's.
 * Cost:     an append is a copy into the page cache; survives the death of the process.
 * Not here: what is done with them (the edge's ledger drops request ids that it has).
 *
 *   [header: magic, version, slot bytes, capacity, next, acked][slot next % capacity]…
 *
 * Sequences rise for ever. A record that nobody acknowledged is overwritten when the ring has gone
 * round; final_ring_lost counts those.
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"
#include "engine/engine.h"

struct final_ring;

struct final_record {
    uint64_t sequence; /* given by final_ring_append, from 1 */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    struct engine_report report;
};

/* Opens or makes `name` in a directory (AT_FDCWD: from here). Takes all blocks of the file. IO,
 * STORAGE_FULL, or CORRUPT when the file is not a ring of this version (it is left as it is). */
enum status final_ring_open(struct final_ring **out, int directory, const char *name,
                            uint32_t capacity);
void final_ring_close(struct final_ring *ring);

/* Fills record->sequence. */
void final_ring_append(struct final_ring *ring, struct final_record *record);
/* All up to `sequence` are counted. OUT_OF_RANGE for one that was never given. */
enum status final_ring_acknowledge(struct final_ring *ring, uint64_t sequence);
/* The first record after `sequence` that is kept and not acknowledged; false when none is. */
bool final_ring_next(const struct final_ring *ring, uint64_t sequence, struct final_record *out);
uint64_t final_ring_unacknowledged(const struct final_ring *ring);
uint64_t final_ring_lost(const struct final_ring *ring);

/* {"protocol":1,"request_id":…,"record_seq":…,…}: the data of the last frame of a stream. */
void final_ring_render(const struct final_record *record, struct buffer *out);
