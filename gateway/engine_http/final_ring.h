/* final_ring: the last records of requests, kept in a file until the edge has counted them.
 *
 * Owns:     D/finals.ring: a header, a table of requests under way and LIMIT_FINAL_RECORDS slots,
 *           memory-mapped; an index of the request ids in it.
 * Thread:   the loop's.
 * Cost:     an append or a progress is a copy into the page cache; nothing waits for the disk.
 * Not here: what is done with them (the edge's ledger drops request ids that it has).
 *
 *   [header: magic, version, sizes, next, acked, lost]
 *   [live: one place a request that was answered 200, its counts so far]…
 *   [record next % capacity]…
 *   [models: from which record on an engine served the model of that name]…
 *
 * Sequences rise for ever. A record that nobody acknowledged is overwritten when the ring has gone
 * round; final_ring_lost counts those, and the log says so.
 *
 * The file survives the death of the process at any instant, kill -9 included (not that of the
 * machine). Whatever was under way then becomes a record with finish "error" when the ring is
 * opened again, with the counts that had been handed out. Stores are ordered so that a request is
 * never counted twice and never dropped:
 *
 *   begin     place filled ─► is_used = 1
 *   progress  counts, before the peer can see them
 *   end       place.sequence = next ─► record filled ─► next + 1 ─► is_used = 0
 *   open      used, sequence 0 or ≥ next: not recorded yet; used, 0 < sequence < next: recorded
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"
#include "engine/engine.h"

struct final_ring;

enum { FINAL_RING_CLASS_BYTES = 16, FINAL_RING_NONE = -1, FINAL_RING_MODELS = 8 };

/* As stored: "route" is a word of the file's format, so numbers are never given a new meaning. */
enum final_route { FINAL_ROUTE_CHAT = 1, FINAL_ROUTE_COMPLETIONS = 2, FINAL_ROUTE_GENERATE = 3 };

/* What is stored of an engine_report: a file's format, which does not change with the engine. */
struct final_counts {
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t completion_tokens;
    int64_t queue_us;
    int64_t prefill_us;
    int64_t decode_us;
    uint32_t preemptions;
    uint32_t swapped_pages;
    int64_t swap_us;
    enum engine_finish finish;
};
struct final_counts final_ring_counts(const struct engine_report *report);

struct final_record {
    uint64_t sequence; /* given by the ring, from 1 */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    uint8_t tenant[16]; /* hashes made by the edge; all zero = none was given */
    uint8_t key[16];
    char service_class[FINAL_RING_CLASS_BYTES];
    uint32_t route; /* enum final_route */
    int64_t at_us;  /* wall clock: the end, or the last token handed out */
    struct final_counts report;
};

/* Opens or makes `name` in a directory (AT_FDCWD: from here), takes all blocks of the file, and
 * turns what an earlier process left under way into records. A ring of an older version is renamed
 * (to NAME.v1) and a new one begun; one with room for fewer requests under way is replaced by a
 * longer one with the same records, one with room for more stays as it is. IO, STORAGE_FULL; EXISTS
 * when another process has it open; CORRUPT when the file is no ring of this server (it is left as
 * it is). */
enum status final_ring_open(struct final_ring **out, int directory, const char *name,
                            uint32_t capacity, uint32_t live_capacity);
void final_ring_close(struct final_ring *ring);

/* Records from the next one on are of this model. Once at a start, before final_ring_begin. */
void final_ring_name_model(struct final_ring *ring, const char *name);
/* The model of a record, "" when the ring does not know it: an engine of an earlier version wrote
 * it, or FINAL_RING_MODELS others have been served since. As long as the ring. */
const char *final_ring_model(const struct final_ring *ring, uint64_t sequence);

/* From here on the request counts, whatever becomes of this process. Returns its place. At most
 * the live_capacity that was asked for at a time. */
int final_ring_begin(struct final_ring *ring, const struct final_record *record);
/* What is being handed out of it: called before the bytes are. */
void final_ring_progress(struct final_ring *ring, int place, const struct final_counts *so_far,
                         int64_t at_us);
/* The last word on it: becomes a record, the place is free. Fills record->sequence. With
 * FINAL_RING_NONE: of a request that had no place. */
void final_ring_end(struct final_ring *ring, int place, struct final_record *record);

/* All up to `sequence` are counted. OUT_OF_RANGE for one that was never given. */
enum status final_ring_acknowledge(struct final_ring *ring, uint64_t sequence);
/* The first record after `sequence` that is kept and not acknowledged; false when none is. */
bool final_ring_next(const struct final_ring *ring, uint64_t sequence, struct final_record *out);
/* True for the id of a request under way or of a record still in the file, acknowledged or not. */
bool final_ring_knows(const struct final_ring *ring, struct slice request_id);

struct final_ring_figures {
    uint64_t last; /* sequence of the newest record, 0 = none */
    uint64_t acknowledged;
    uint64_t lost;
    uint32_t live;
    uint32_t recovered; /* records made by final_ring_open */
};
struct final_ring_figures final_ring_figures(const struct final_ring *ring);

/* {"protocol":1,"request_id":…,"record_seq":…,…}: the data of the last frame of a stream. `whole`
 * adds what no file keeps: whose the cached tokens were and where, and what pauses did; NULL for a
 * record that is read again. */
void final_ring_render(const struct final_ring *ring, const struct final_record *record,
                       const struct engine_report *whole, struct buffer *out);
