/* ledger_requests: reads single rows of the ledger, filtered by time and words, page after page.
 *
 * Owns:     nothing.
 * Thread:   the reader's thread of ledger_usage.
 * Cost:     0.5 µs for each row that is looked at, at most LIMIT_USAGE_SCAN of them for a page.
 * Not here: sums (ledger_usage), rendering rows (edge_usage_render, admin_usage).
 *
 * Rows lie in the order of their commits, and there is no index on time. Times may go back and
 * forth, because the clock may have been set. So that no row is missed, a page looks at all rows
 * after the place where the page before it ended. A page may therefore be short, or empty, without
 * being the last one.
 */
#pragma once

#include "auth/ledger/ledger_usage_types.h"

struct ledger_requests {
    /* The query. */
    int64_t start_us; /* rows whose at_us is at least this … */
    int64_t end_us;   /* … and below this */
    int64_t after;    /* begins after this row id, in the order asked for; 0: at the beginning */
    bool is_descending;
    uint32_t limit;                           /* 1 … LIMIT_USAGE_REQUESTS */
    const struct ledger_usage_filter *filter; /* NULL: none */
    /* The answer. ledger_requests_deinit frees `rows`. The `sequence` of each is its row id. */
    struct ledger_row *rows;
    size_t count;
    int64_t last; /* the last row that was looked at: the `after` of the next page */
    bool has_more;
};

struct sqlite3;
/* Reads one page. INVALID when `limit` is out of its range; NO_MEMORY; CANCELLED when the server
 * stops; otherwise fails as the store does. A failure leaves nothing to free. */
enum status ledger_requests_read(struct sqlite3 *connection, struct ledger_requests *requests);
void ledger_requests_deinit(struct ledger_requests *requests);
