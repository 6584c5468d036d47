/* final_ring: the final records of requests, in a file until the edge has acknowledged them.
 *
 * Owns:     finals.ring, memory-mapped: a header, slots for running requests and a ring of records;
 *           an index of the request ids in it.
 * Thread:   the loop's.
 * Cost:     an append or a progress is a copy into the page cache; nothing waits for the disk.
 * Not here: counting the records (the edge's ledger, which drops request ids that it has already).
 *
 *   [header: magic, version, sizes, next, acked, lost]
 *   [live: one slot for each running request that was answered with 200, with its counts so far]…
 *   [record: slot next % capacity]…
 *   [era: the model of the records from a sequence on]…
 *   [name: a model of records that have its number]…
 *
 * Sequences only rise. When the ring is full, the oldest record is overwritten; an overwritten
 * record that was not acknowledged is counted (final_ring_figures) and logged.
 *
 * The file survives the death of the process at any instant, kill -9 included, but not the death of
 * the machine. Requests that ran then become records with finish "error" and the counts so far when
 * the ring is opened again. Stores are ordered so that no request is counted twice or dropped:
 *
 *   begin     slot filled ─► is_used = 1
 *   progress  counts, stored before the edge can see the tokens
 *   end       slot.sequence = next ─► record filled ─► next + 1 ─► is_used = 0
 *   open      is_used and 0 < sequence < next: it is recorded; is_used and else: not recorded yet
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"
#include "engine/engine.h"

struct final_ring;

enum {
    FINAL_RING_CLASS_BYTES = 16,
    FINAL_RING_NONE = -1,
    FINAL_RING_MODELS = 8,
    FINAL_RING_NAMES = 64, /* of models that are served beside the first */
};

/* These numbers are stored in the file: a number never gets another meaning. */
enum final_route {
    FINAL_ROUTE_CHAT = 1,
    FINAL_ROUTE_COMPLETIONS = 2,
    FINAL_ROUTE_GENERATE = 3,
    FINAL_ROUTE_EMBEDDINGS = 4
};

/* The part of an engine_report that is stored. It is the file's format, so it does not change when
 * the engine's report does. */
struct final_counts {
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t completion_tokens;
    uint32_t reasoning_tokens; /* nothing in files of engines that did not count it */
    int64_t queue_us;
    int64_t prefill_us;
    int64_t decode_us;
    uint32_t preemptions;
    uint32_t swapped_pages;
    int64_t swap_us;
    enum engine_finish finish;
    uint32_t is_estimated; /* 1: a foreign server did not tell all counts; nothing in older files */
};
struct final_counts final_ring_counts(const struct engine_report *report);

struct final_record {
    uint64_t sequence; /* set by the ring; the first is 1 */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    uint8_t tenant[16]; /* a hash that the edge made; all zero = none was given */
    uint8_t key[16];    /* the same */
    char service_class[FINAL_RING_CLASS_BYTES];
    uint16_t route; /* enum final_route */
    uint16_t model; /* final_ring_number(); 0, also in older files: the model of its era */
    int64_t at_us;  /* wall clock, at the end or at the last progress */
    struct final_counts report;
};

/* Opens or makes the file `name` in a directory (or AT_FDCWD), allocates all its blocks, and
 * records the requests that an earlier process left running. `capacity` is the number of records,
 * `live_capacity` the number of requests that may run at a time.
 *   - A file of an older version is renamed to NAME.v1, and a new file is begun.
 *   - A file with room for fewer running requests is replaced by a longer one with the same
 *     records; a file with room for more is used as it is.
 * IO, STORAGE_FULL, NO_MEMORY; EXISTS when another process uses the file; CORRUPT when the file is
 * no ring of this server, which leaves it unchanged. */
enum status final_ring_open(struct final_ring **out, int directory, const char *name,
                            uint32_t capacity, uint32_t live_capacity);
void final_ring_close(struct final_ring *ring);

/* Sets the model of all later records. Called once at a start, before final_ring_begin(). */
void final_ring_name_model(struct final_ring *ring, const char *name);
/* The number of a model for final_record.model; the first time, its name is stored. When all places
 * are taken, it takes the place of a name that no unacknowledged record has and that was not asked
 * for since the ring was opened. UNAVAILABLE when there is none. */
enum status final_ring_number(struct final_ring *ring, const char *name, uint16_t *out);
/* The model of a record whose number is 0, valid as long as the ring. It is "" when the ring does
 * not know it: an engine of an earlier version wrote the record, or FINAL_RING_MODELS other models
 * were served since. */
const char *final_ring_model(const struct final_ring *ring, uint64_t sequence);

/* Begins a request and returns its slot ("place"): from now on it is recorded even if this process
 * is killed. At most `live_capacity` requests may run at a time. */
int final_ring_begin(struct final_ring *ring, const struct final_record *record);
/* Stores the counts so far. Called before the tokens are sent. */
void final_ring_progress(struct final_ring *ring, int place, const struct final_counts *so_far,
                         int64_t at_us);
/* Appends the final record, sets record->sequence and frees the slot. `place` is FINAL_RING_NONE
 * for a request that was never begun. */
void final_ring_end(struct final_ring *ring, int place, struct final_record *record);

/* Acknowledges all records up to `sequence`. OUT_OF_RANGE when there was no such record. */
enum status final_ring_acknowledge(struct final_ring *ring, uint64_t sequence);
/* Gets the first unacknowledged record after `sequence`; false when there is none. */
bool final_ring_next(const struct final_ring *ring, uint64_t sequence, struct final_record *out);
/* Whether this is the id of a running request, or of a record in the file, acknowledged or not. */
bool final_ring_knows(const struct final_ring *ring, struct slice request_id);

struct final_ring_figures {
    uint64_t last;         /* sequence of the newest record; 0 = none */
    uint64_t acknowledged; /* sequence of the newest acknowledged record */
    uint64_t lost;         /* records overwritten before they were acknowledged */
    uint32_t live;         /* running requests */
    uint32_t recovered;    /* records that final_ring_open() made */
};
struct final_ring_figures final_ring_figures(const struct final_ring *ring);

/* Appends {"protocol":1,"request_id":…,"record_seq":…,…}: the data of a stream's final frame.
 * `whole` adds figures that the file does not keep (owners of cached tokens, preemption,
 * speculation); it is NULL for a record that was read from the file. */
void final_ring_render(const struct final_ring *ring, const struct final_record *record,
                       const struct engine_report *whole, struct buffer *out);
