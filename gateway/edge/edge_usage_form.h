/* edge_usage_form: what GET /v1/usage is asked, and how it answers.
 *
 *   ?start_time=1700000000&end_time=…&bucket_width=1d&group_by=key,model&limit=7&page=…
 *   {"object":"page","data":[{"object":"bucket","start_time","end_time","results":[{…}]}],
 *    "has_more","next_page"}
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     reading is O(query); rendering O(buckets + results), on the reader's thread.
 * Not here: the sums (auth/ledger_usage), whose usage it is (edge_usage).
 *
 * The shape is that of OpenAI's organization usage. Buckets are whole and start at multiples of
 * their width, UTC: the first one is the one that start_time is in, the last one the one that the
 * second before end_time is in.
 */
#pragma once

#include "auth/ledger_usage.h"
#include "config/base/slice.h"

struct edge_usage_form {
    int64_t start_s; /* of the first bucket of this page */
    int64_t end_s;   /* of the last bucket that was asked for */
    int64_t width_s;
    uint32_t buckets; /* of this page at most */
    uint32_t group_by;
};

/* Fills the form from a query string; `now_s` stands for an end_time that is not given. INVALID,
 * OUT_OF_RANGE or UNSUPPORTED with the parameter's name. */
enum status edge_usage_form_read(struct slice query, int64_t now_s, struct edge_usage_form *out);
/* start, width, buckets and groups as the reader wants them; the filters are the caller's. */
void edge_usage_form_fill(const struct edge_usage_form *form, struct ledger_usage_query *out);
/* The answer. */
void edge_usage_form_render(const struct edge_usage_form *form,
                            const struct ledger_usage_page *page, struct buffer *out);
