/* ledger_ship: the ledger as whoever copies it elsewhere reads it: rows by sequence, sums by day.
 *
 * Owns:     a connection that only reads.
 * Thread:   one at a time, not the ledger's.
 * Cost:     about 3 µs a row; the sums of a day read its roll-ups.
 * Not here: where they go (usage_redis), writing (ledger_rows).
 *
 * The ledger's file names its edge once and for all: together with a row's sequence that is a name
 * for the row that no other edge gives, on no machine.
 */
#pragma once

#include "auth/ledger/ledger.h"

struct ledger_ship;

enum { LEDGER_SHIP_EDGE_BYTES = 24 };
#define LEDGER_SHIP_SEQUENCE_MAX ((INT64_C(1) << 48) - 1)

/* The file is there and has its schema: a ledger has opened it. */
enum status ledger_ship_open(struct ledger_ship **out, const char *path);
void ledger_ship_close(struct ledger_ship *ship);

/* The edge's name: 16 hex digits; as long as `ship`. */
const char *ledger_ship_edge(const struct ledger_ship *ship);

/* Sequences of the first and the last row of the file; 0: it has none. */
enum status ledger_ship_span(struct ledger_ship *ship, int64_t *first, int64_t *last);

/* A print of the row of that sequence, by its request's id; 0: there is no such row. Two files that
 * were copies of one tell by it whether they have gone different ways since. */
enum status ledger_ship_print(struct ledger_ship *ship, int64_t sequence, uint64_t *print);

/* Up to `capacity` rows behind sequence `after`, in order, without a gap between them: rows that
 * are gone (retention, a wrong clock) end what is given. `*is_gapped`: they stand before the first
 * one that is given. Of each row what a bill needs: not its request id, route and times. */
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
    int64_t cost_nano; /* INT64_MAX: that, or more */
};

/* From begin to end everything is read as of one commit, whose last row is `*sequence` (0: none):
 * sums hold the rows up to it and no other. Keep it short: the write-ahead log grows meanwhile.
 * After a failed begin there is nothing to end. */
enum status ledger_ship_begin(struct ledger_ship *ship, int64_t *sequence);
void ledger_ship_end(struct ledger_ship *ship);

/* The first day ≥ `day` with usage (days since 1970); INT64_MAX: there is none. */
enum status ledger_ship_day(struct ledger_ship *ship, int64_t day, int64_t *found);

/* Calls `take` with the sums of a day, of one tenant or ("") all, tenants one after the other;
 * what is not OK ends it and is returned. */
enum status ledger_ship_sums(struct ledger_ship *ship, int64_t day, const char *tenant_id,
                             void *context,
                             enum status (*take)(void *context, const struct ledger_ship_sum *sum));
