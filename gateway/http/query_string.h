/* query_string: the "name=value" pairs of a URL's query, one after the other.
 *
 * Owns:     nothing; the pairs point into the query.
 * Thread:   any.
 * Cost:     one pass over the query, no allocation.
 * Not here: which names a route knows and what their values mean (admin_query, edge_usage_form,
 *           face_routes). Names and values are not percent-decoded.
 */
#pragma once

#include <stdbool.h>

#include "config/base/slice.h"

struct query_string_pair {
    struct slice name;
    struct slice value; /* empty without "=", but its bytes are never NULL */
    bool has_equals;
};

/* Takes the next pair off the front of `*rest`; returns false when nothing is left. What stands
 * between two neighbouring "&" is a pair too: an empty one. */
bool query_string_next(struct slice *rest, struct query_string_pair *out);

/* Whether the pair is empty. The public routes ignore such pairs. */
static inline bool query_string_is_empty(const struct query_string_pair *pair)
{
    return pair->name.length == 0 && !pair->has_equals;
}
