/* edge_usage_form: reads the query of a request for usage, in the forms of tenants, of admins and
 * of OpenAI's API.
 *
 *   /v1/usage?start_time=1700000000&end_time=…&bucket_width=1d&group_by=key,model&limit=7&page=…
 *   /admin/v1/usage?…&group_by=tenant&tenant_id=tnt_1,tnt_2&format=csv
 *   /v1/organization/usage/completions?…&project_ids[]=tnt_1&group_by[]=project_id
 *   /v1/organization/costs?…
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(length of the query).
 * Not here: the sums (auth/ledger/ledger_usage), which tenant may be asked about (edge_usage), the
 *           answer (edge_usage_render).
 *
 * Buckets start at multiples of their width in UTC and are never cut. The first bucket contains
 * start_time; the last one contains the second before end_time.
 */
#pragma once

#include "auth/ledger/ledger_usage.h"
#include "config/base/slice.h"

/* Which route is asked. The values are bits, so that a parameter can name all routes that take it.
 * */
enum edge_usage_kind {
    EDGE_USAGE_OWN = 1u << 0,          /* /v1/usage: a tenant asks about itself */
    EDGE_USAGE_ALL = 1u << 1,          /* /admin/v1/usage: an admin asks about any tenant */
    EDGE_USAGE_ORGANIZATION = 1u << 2, /* OpenAI's usage API, for admins: projects are tenants */
    EDGE_USAGE_COSTS = 1u << 3,        /* OpenAI's costs API, for admins */
    EDGE_USAGE_REQUESTS = 1u << 4,     /* an admin asks for rows of single requests */
};

struct edge_usage_form {
    enum edge_usage_kind kind;
    bool is_csv;
    int64_t start_s; /* start of the first bucket of this page, Unix time */
    int64_t end_s;   /* end of the last bucket that was asked for, Unix time */
    int64_t width_s;
    uint32_t buckets;  /* at most so many on this page; REQUESTS: rows */
    uint32_t group_by; /* LEDGER_USAGE_TENANT, _KEY, _MODEL, _CLASS */
    int64_t after;     /* REQUESTS: the row number that the page begins after; 0: none */
    bool is_descending;
};

/* Fills the form and the filter from a query string. `now_s` (Unix time) replaces an end_time that
 * is not given. `filter` is NULL for OWN, which has no filters. INVALID, OUT_OF_RANGE or
 * UNSUPPORTED, each with the parameter's name. */
enum status edge_usage_form_read(enum edge_usage_kind kind, struct slice query, int64_t now_s,
                                 struct edge_usage_form *out, struct ledger_usage_filter *filter);
/* Copies start, width, buckets and groups into a query of the reader. The caller sets the filters.
 * */
void edge_usage_form_fill(const struct edge_usage_form *form, struct ledger_usage_query *out);
