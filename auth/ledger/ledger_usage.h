/* ledger_usage: what was used, from the ledger's roll-ups: sums by time bucket and group.
 *
 *   ask ─► queue (LIMIT_USAGE_TASKS, a few of one asker) ─► reader's thread ─► done
 *
 * Owns:     a connection of its own and the thread that reads on it, so that neither the ledger's
 *           writer nor a loop waits for a long range.
 * Thread:   ask from any; `done` runs on the reader's thread.
 * Cost:     reading a roll-up is about 0.5 µs; a question that needs more than
 *           LIMIT_USAGE_STEPS steps of SQLite or LIMIT_USAGE_ROWS results is refused.
 * Not here: who may ask (edge_usage, admin), how it looks, single rows (ledger_requests).
 *
 * Roll-ups are written in the transaction of their rows, so what is read is exact to the last
 * commit. They are kept by the minute of the request's end, UTC.
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
    int64_t start_s;  /* since 1970; a multiple of width_s */
    int64_t width_s;  /* of a bucket: a multiple of 60 */
    uint32_t buckets; /* whole ones, one after another */
    uint32_t group_by;
    char tenant_id[LIMIT_ID_BYTES]; /* "": of all; and so for the others */
    char key_id[LIMIT_ID_BYTES];
    char model[LEDGER_MODEL_BYTES];
    char service_class[LEDGER_WORD_BYTES];
    const struct ledger_usage_filter *filter; /* beside these four; NULL: none */
};

/* Sums of one bucket and group; texts that are not grouped by are "". */
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

/* Rows by bucket, then tenant, key, model, class; buckets without use have none. */
struct ledger_usage_page {
    struct ledger_usage_row *rows;
    size_t count;
    int64_t
        end_s; /* buckets before it are whole; below the end of the query when the page is full */
};

/* A question on its way: the asker's memory, with all that it points to, until `done`. */
struct ledger_usage_task {
    struct ledger_usage_task *next;
    struct ledger_usage_query query;
    struct ledger_requests *requests; /* not NULL: single rows are asked for, into there, no sums */
    char asker[LIMIT_ID_BYTES];       /* whose turn it takes: a tenant's id, or "" */
    bool is_first; /* a request waits for it: before the others, and never one too many */
    void (*done)(struct ledger_usage_task *task); /* the page is the asker's from here */
    struct ledger_usage_page page;
    struct error_note note; /* status OK, or why not: INVALID, OUT_OF_RANGE (too much of it) … */
};

/* The file is one that ledger_open has made or migrated. */
enum status ledger_usage_open(struct ledger_usage **out, const char *path);
/* Answers what waits with CANCELLED, breaks off what runs. */
void ledger_usage_close(struct ledger_usage *usage);
/* UNAVAILABLE when the queue is full, or the asker has too many in it (`done` then never runs). */
enum status ledger_usage_ask(struct ledger_usage *usage, struct ledger_usage_task *task);
void ledger_usage_page_deinit(struct ledger_usage_page *page);
