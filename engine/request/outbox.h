/* outbox: events from the engine thread to the one consumer: a ring of records of any length.
 *
 * Owns:     the bytes of events that were not taken yet.
 * Thread:   push: the engine thread; next: the consumer thread. Lock-free, for one of each.
 * Cost:     one copy in, none out; no allocation after outbox_init.
 * Not here: the meaning of events (engine), waking the consumer (engine_options.wake).
 *
 *     |record|top[]|text|pad| record|text|pad | … free … |skip to the start|
 *      ^ tail: the consumer still reads this one          ^ never splits a record
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/request/engine_request.h"

/* An engine_event without its long parts; `slot` is the ticket's, `sequence`
 * the sequence's slot. */
struct outbox_record {
    uint32_t bytes; /* of the whole record; set by push */
    enum engine_event_kind kind;
    uint32_t slot;
    uint32_t sequence; /* UINT32_MAX when none */
    uint32_t choice;
    uint32_t tokens_so_far;
    uint32_t token;
    float logprob;
    uint32_t top_count;
    uint32_t text_bytes;
    enum engine_finish finish;
    uint32_t text_offset; /* a context of tokens has fewer characters than 2^32 */
    bool is_mark;
};

struct outbox {
    char *bytes;
    size_t capacity;
    _Alignas(64) _Atomic size_t head; /* bytes written since the start, skips included */
    _Alignas(64) _Atomic size_t tail; /* bytes given back since the start */
    size_t held;                      /* the consumer's: bytes of the record it reads now */
};

/* Bytes that a record takes at most. */
size_t outbox_record_bytes(uint32_t top_count, size_t text_bytes);

/* Room for `capacity_bytes` of records, none longer than `record_bytes_max`. It adds room for the
 * bytes lost at the ring's end and for the record that the consumer reads. NO_MEMORY. */
enum status outbox_init(struct outbox *outbox, size_t capacity_bytes, size_t record_bytes_max);
void outbox_deinit(struct outbox *outbox);

/* False when full. */
bool outbox_push(struct outbox *outbox, const struct outbox_record *record,
                 const struct engine_logprob *top, struct slice text);
/* The oldest record, or NULL; valid until the next call, which gives its room back. */
const struct outbox_record *outbox_next(struct outbox *outbox, const struct engine_logprob **top,
                                        struct slice *text);
