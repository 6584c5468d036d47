/* edge_usage_render: what was used, as JSON in our shape and OpenAI's, and as CSV.
 *
 *   {"object":"page","data":[{"object":"bucket","start_time","end_time","results":[{…}]}],
 *    "has_more","next_page"}
 *
 * Owns:     nothing.
 * Thread:   any; the reader's.
 * Cost:     O(buckets + results).
 * Not here: what is asked (edge_usage_form), the sums (auth/ledger/ledger_usage).
 *
 * CSV is RFC 4180: a line of names, lines end with CR LF. A text that a spreadsheet would take for
 * a formula gets an apostrophe before it.
 */
#pragma once

#include "auth/ledger/ledger_requests.h"
#include "gateway/edge/pages/edge_usage_form.h"

/* 4,096 results of 350 bytes and 1,440 buckets of 90, or LIMIT_USAGE_REQUESTS rows of 900. */
enum { EDGE_USAGE_RENDER_BYTES = 2 * 1024 * 1024 };

/* Whether there is another page, and its name: "page_1700000000"; "" for the last one. */
enum { EDGE_USAGE_PAGE_BYTES = 32 };
void edge_usage_render_next(const struct edge_usage_form *form,
                            const struct ledger_usage_page *page, char out[EDGE_USAGE_PAGE_BYTES]);

/* The answer in the form's words. `currency`: "" while there are no prices. */
void edge_usage_render(const struct edge_usage_form *form, const struct ledger_usage_page *page,
                       const char *currency, struct buffer *out);

/* Single rows, as a list or as CSV. */
void edge_usage_render_requests(const struct edge_usage_form *form,
                                const struct ledger_requests *requests, const char *currency,
                                struct buffer *out);
