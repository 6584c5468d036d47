/* ledger_requests: single rows of the ledger, by time and words, page after page.
 *
 * Owns:     nothing.
 * Thread:   the reader's of ledger_usage.
 * Cost:     0.5 µs a row that is looked at, LIMIT_USAGE_SCAN of them a page at most.
 * Not here: sums (ledger_usage), how rows look (edge_usage_csv, admin_usage).
 *
 * Rows lie in the order of their commits, with no index on time, and a clock that was set back or
 * forth leaves its mark in them: so that none is missed, a page looks at all rows from its mark on
 * and may be short, or empty, and yet not be the last.
 */
#pragma once

#include "auth/ledger/ledger_usage_types.h"

struct ledger_requests {
    /* The question. */
    int64_t start_us; /* of at_us */
    int64_t end_us;   /* not in it any more */
    int64_t after;    /* row ids beyond this one, in the order; 0: from the first, or the last */
    bool is_descending;
    uint32_t limit;                           /* 1 … LIMIT_USAGE_REQUESTS */
    const struct ledger_usage_filter *filter; /* NULL: none */
    /* The answer; ledger_requests_deinit frees `rows`, whose `sequence` is the row's id. */
    struct ledger_row *rows;
    size_t count;
    int64_t last; /* the next page's `after`: the last row that was looked at */
    bool has_more;
};

struct sqlite3;
enum status ledger_requests_read(struct sqlite3 *connection, struct ledger_requests *requests);
void ledger_requests_deinit(struct ledger_requests *requests);
