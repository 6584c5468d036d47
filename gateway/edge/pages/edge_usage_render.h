/* edge_usage_render: renders usage as JSON, in Banyan's form and in OpenAI's, and as CSV.
 *
 *   {"object":"page","data":[{"object":"bucket","start_time","end_time","results":[{…}]}],
 *    "has_more","next_page"}
 *
 * Owns:     nothing.
 * Thread:   any; in a server the reader's.
 * Cost:     O(buckets + results).
 * Not here: the query (edge_usage_form), the sums (auth/ledger/ledger_usage).
 *
 * CSV follows RFC 4180: the first line has the names, and lines end with CR LF. A text that a
 * spreadsheet would take for a formula gets an apostrophe in front.
 */
#pragma once

#include "auth/ledger/ledger_requests.h"
#include "gateway/edge/pages/edge_usage_form.h"

/* Enough for LIMIT_USAGE_ROWS results of 350 bytes with LIMIT_USAGE_BUCKETS buckets of 90 bytes,
 * and for LIMIT_USAGE_REQUESTS rows of 900 bytes. */
enum { EDGE_USAGE_RENDER_BYTES = 2 * 1024 * 1024 };

enum { EDGE_USAGE_PAGE_BYTES = 32 };
/* The name of the next page, for example "page_1700000000"; "" when this page is the last one. */
void edge_usage_render_next(const struct edge_usage_form *form,
                            const struct ledger_usage_page *page, char out[EDGE_USAGE_PAGE_BYTES]);

/* Appends the answer in the form of the route that was asked. `currency` is "" while no prices are
 * set. */
void edge_usage_render(const struct edge_usage_form *form, const struct ledger_usage_page *page,
                       const char *currency, struct buffer *out);

/* Appends rows of single requests, as a list or as CSV. */
void edge_usage_render_requests(const struct edge_usage_form *form,
                                const struct ledger_requests *requests, const char *currency,
                                struct buffer *out);
