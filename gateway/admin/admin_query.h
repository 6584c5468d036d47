/* admin_query: reads the query of a call: known names, each with one value.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass, no allocation.
 * Not here: pages (admin_list), dry runs (admin_change).
 */
#pragma once

#include "config/base/limits.h"
#include "config/base/slice.h"

enum { ADMIN_QUERY_LIMIT_DEFAULT = 20, ADMIN_QUERY_LIMIT_MAX = 100 };

enum { ADMIN_QUERY_LIST = 1u << 0, ADMIN_QUERY_CHANGE = 1u << 1, ADMIN_QUERY_AUDIT = 1u << 2 };

struct admin_query {
    size_t limit;               /* lists: ?limit=20 */
    char after[LIMIT_ID_BYTES]; /* ?after=ID, "" = from the start */
    bool is_descending;         /* ?order=desc */
    bool is_dry_run;            /* changes: ?dry_run=true */
    char actor[LIMIT_ID_BYTES]; /* audit: ?actor=ID&subject=ID&type=tenant.created, "" = any */
    char subject[LIMIT_ID_BYTES];
    char type[LIMIT_ID_BYTES];
    int64_t since_s; /* audit: ?since=SECONDS&until=SECONDS (Unix), 0 = no bound */
    int64_t until_s;
};

/* Reads a query; `kinds` are the kinds whose names are accepted. INVALID or OUT_OF_RANGE for a
 * wrong value, UNSUPPORTED for a name that is unknown or given twice; each with the name as
 * param. */
enum status admin_query_read(struct slice query, unsigned kinds, struct admin_query *out);
