/* ledger_usage: reads what was used from the ledger's sums by minute: sums by time bucket and
 * group.
 *
 *   ask ─► queue (LIMIT_USAGE_TASKS, a few of one asker) ─► reader's thread ─► done
 *
 * Owns:     a connection of its own and the thread that reads on it ("the reader"), so that neither
 *           the ledger's writer nor an event loop waits for a long range.
 * Thread:   any may ask; `done` runs on the reader's thread.
 * Cost:     reading one sum of a minute takes about 0.5 µs. A query that needs more than
 *           LIMIT_USAGE_STEPS steps of SQLite is refused. One with more than LIMIT_USAGE_ROWS
 *           results gets the buckets that fit.
 * Not here: who may ask (edge_usage, admin), rendering (edge_usage_render), single rows
 *           (ledger_requests).
 *
 * Sums by minute are written in the transaction of their rows, so the answer is exact up to the
 * last commit. The minute is that of the request's end, in UTC.
 */
#pragma once

#include "auth/ledger/ledger_usage_types.h"

struct ledger_requests;
struct ledger_usage;

enum ledger_usage_group {
    LEDGER_USAGE_TENANT = 1u << 0,
    LEDGER_USAGE_KEY = 1u << 1,
    LEDGER_USAGE_MODEL = 1u << 2,
    LEDGER_USAGE_CLASS = 1u << 3,
};

struct ledger_usage_query {
    int64_t start_s;                /* Unix time, a multiple of width_s */
    int64_t width_s;                /* the length of a bucket, a multiple of 60 */
    uint32_t buckets;               /* how many, 1 to LIMIT_USAGE_BUCKETS */
    uint32_t group_by;              /* bits of enum ledger_usage_group */
    char tenant_id[LIMIT_ID_BYTES]; /* "": of all tenants; likewise the next three */
    char key_id[LIMIT_ID_BYTES];
    char model[LEDGER_MODEL_BYTES];
    char service_class[LEDGER_WORD_BYTES];
    const struct ledger_usage_filter *filter; /* in addition to these four; NULL: none */
};

/* The sums of one bucket and group. A text that is not grouped by is "". */
struct ledger_usage_row {
    int64_t start_s;
    char tenant_id[LIMIT_ID_BYTES];
    char key_id[LIMIT_ID_BYTES];
    char model[LEDGER_MODEL_BYTES];
    char service_class[LEDGER_WORD_BYTES];
    int64_t requests;
    int64_t prompt_tokens; /* cached ones included */
    int64_t cached_tokens;
    int64_t completion_tokens;
    int64_t cost_nano;
};

/* The answer. Rows are ordered by bucket, then tenant, key, model, class; a bucket without use has
 * no row. */
struct ledger_usage_page {
    struct ledger_usage_row *rows;
    size_t count;
    /* The end of the last complete bucket; earlier than the end of the query when the page is full.
     * */
    int64_t end_s;
};

/* A query under way. The asker owns it, with all that it points to, and keeps it until `done`. */
struct ledger_usage_task {
    struct ledger_usage_task *next;
    struct ledger_usage_query query;
    struct ledger_requests *requests; /* not NULL: asks for single rows instead of sums */
    char asker[LIMIT_ID_BYTES];       /* whose queries are counted: a tenant's id, or "" */
    bool is_first; /* a request waits for it: it goes before the others, and is never refused */
    void (*done)(struct ledger_usage_task *task); /* from here on the asker owns the page */
    struct ledger_usage_page page;
    struct error_note note; /* status OK, or the failure: INVALID, OUT_OF_RANGE (too much) … */
};

/* ledger_open must have made or migrated the file. NO_MEMORY; otherwise fails as the store does. */
enum status ledger_usage_open(struct ledger_usage **out, const char *path);
/* Breaks off the running query and answers waiting ones with CANCELLED. NULL is allowed. */
void ledger_usage_close(struct ledger_usage *usage);
/* Queues a query. UNAVAILABLE when the queue is full or the asker has too many queries in it; then
 * `done` never runs. */
enum status ledger_usage_ask(struct ledger_usage *usage, struct ledger_usage_task *task);
void ledger_usage_page_deinit(struct ledger_usage_page *page);
