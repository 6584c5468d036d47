/* ledger_ship: reads the ledger for copying it elsewhere: rows by sequence number, sums by day.
 *
 * Owns:     a connection that only reads.
 * Thread:   one at a time, which must not be a thread of the ledger.
 * Cost:     about 3 µs a row; the sums of a day read its sums by minute.
 * Not here: the copies (usage_redis), writing (ledger_rows).
 *
 * An edge is a gateway process; each edge has a ledger of its own. The ledger's file holds the
 * edge's name, which is random and never changes. The edge's name and a row's sequence number
 * together identify the row among the rows of all edges.
 */
#pragma once

#include "auth/ledger/ledger.h"

struct ledger_ship;

enum { LEDGER_SHIP_EDGE_BYTES = 24 };
#define LEDGER_SHIP_SEQUENCE_MAX ((INT64_C(1) << 48) - 1)

/* The file must exist with its schema, so open the ledger first. CORRUPT when the file has no name
 * of its edge; NO_MEMORY; otherwise fails as the store does, like the other functions here. */
enum status ledger_ship_open(struct ledger_ship **out, const char *path);
void ledger_ship_close(struct ledger_ship *ship);

/* The edge's name, 16 hex digits. Valid as long as `ship`. */
const char *ledger_ship_edge(const struct ledger_ship *ship);

/* The sequence numbers of the first and the last row of the file; 0 when the file has no row. */
enum status ledger_ship_span(struct ledger_ship *ship, int64_t *first, int64_t *last);

/* A hash of the request id of the row with that sequence number; 0: there is no such row. The hash
 * shows whether two copies of a file have different rows under one sequence number. */
enum status ledger_ship_print(struct ledger_ship *ship, int64_t sequence, uint64_t *print);

/* Reads up to `capacity` rows after the sequence `after`, in order and without a gap; it stops
 * before a sequence that is missing (retention has deleted its row). `*is_gapped`: rows are missing
 * between `after` and the first one. Each row has what a bill needs, without request id, route and
 * durations. */
enum status ledger_ship_rows(struct ledger_ship *ship, int64_t after, struct ledger_row *rows,
                             size_t capacity, size_t *count, bool *is_gapped);

/* What a tenant used on one UTC day, by model and class. */
struct ledger_ship_sum {
    char tenant_id[LIMIT_ID_BYTES];
    char model[LEDGER_MODEL_BYTES];
    char service_class[LEDGER_WORD_BYTES];
    int64_t requests;
    int64_t prompt_tokens;
    int64_t cached_tokens;
    int64_t completion_tokens;
    int64_t cost_nano; /* INT64_MAX: that much or more */
};

/* Between begin and end everything is read as of one commit. `*sequence` is its last row (0: none),
 * and sums contain exactly the rows up to it. Keep the time short, because the write-ahead log
 * grows meanwhile. After a failed begin, do not call end. */
enum status ledger_ship_begin(struct ledger_ship *ship, int64_t *sequence);
void ledger_ship_end(struct ledger_ship *ship);

/* The first day from `day` on that has usage, in days since 1970; INT64_MAX: there is none. */
enum status ledger_ship_day(struct ledger_ship *ship, int64_t day, int64_t *found);

/* Calls `take` with the sums of a day, of one tenant or (`tenant_id` "") of all, one tenant after
 * the other. A failure of `take` ends the reading and is returned. */
enum status ledger_ship_sums(struct ledger_ship *ship, int64_t day, const char *tenant_id,
                             void *context,
                             enum status (*take)(void *context, const struct ledger_ship_sum *sum));
