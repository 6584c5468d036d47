/* edge_usage_form: what is asked of usage, in the tenants' words, the admins' and OpenAI's.
 *
 *   /v1/usage?start_time=1700000000&end_time=…&bucket_width=1d&group_by=key,model&limit=7&page=…
 *   /admin/v1/usage?…&group_by=tenant&tenant_id=tnt_1,tnt_2&format=csv
 *   /v1/organization/usage/completions?…&project_ids[]=tnt_1&group_by[]=project_id
 *   /v1/organization/costs?…
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(query).
 * Not here: the sums (auth/ledger/ledger_usage), whose usage it is (edge_usage), the answer
 *           (edge_usage_render).
 *
 * Buckets are whole and start at multiples of their width, UTC: the first one is the one that
 * start_time is in, the last one the one that the second before end_time is in.
 */
#pragma once

#include "auth/ledger/ledger_usage.h"
#include "config/base/slice.h"

/* Who asks, in which words. Bits, so that a parameter can say whose it is. */
enum edge_usage_kind {
    EDGE_USAGE_OWN = 1u << 0,          /* a tenant, about itself */
    EDGE_USAGE_ALL = 1u << 1,          /* an admin */
    EDGE_USAGE_ORGANIZATION = 1u << 2, /* an admin, in OpenAI's words: projects are tenants */
    EDGE_USAGE_COSTS = 1u << 3,        /* … */
    EDGE_USAGE_REQUESTS = 1u << 4,     /* an admin, about single requests */
};

struct edge_usage_form {
    enum edge_usage_kind kind;
    bool is_csv;
    int64_t start_s; /* of the first bucket of this page */
    int64_t end_s;   /* of the last bucket that was asked for */
    int64_t width_s;
    uint32_t buckets; /* of this page at most; REQUESTS: rows */
    uint32_t group_by;
    int64_t after; /* REQUESTS: a row's number; 0: none */
    bool is_descending;
};

/* Fills the form from a query string; `now_s` stands for an end_time that is not given. `filter`:
 * what it is limited to; NULL for OWN, which has none. INVALID, OUT_OF_RANGE or UNSUPPORTED with
 * the parameter's name. */
enum status edge_usage_form_read(enum edge_usage_kind kind, struct slice query, int64_t now_s,
                                 struct edge_usage_form *out, struct ledger_usage_filter *filter);
/* start, width, buckets and groups as the reader wants them; the filters are the caller's. */
void edge_usage_form_fill(const struct edge_usage_form *form, struct ledger_usage_query *out);
