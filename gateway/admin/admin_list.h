/* admin_list: the one shape of every list, and its paging from either end.
 *
 * Owns:     the page it collects.
 * Thread:   the worker's: order=desc may walk all rows.
 * Cost:     order=asc reads one page; order=desc walks from the start, keeping one page.
 * Not here: the rows (auth/tenants/tenant).
 *
 *   {"object":"list","data":[…],"first_id":…,"last_id":…,"has_more":…}
 */
#pragma once

#include "gateway/admin/admin_query.h"

/* Rows of one kind, oldest first. */
struct admin_list_source {
    size_t row_bytes;
    /* Up to `capacity` rows after the id `after` ("" = from the start). */
    enum status (*page)(void *context, const char *after, void *rows, size_t capacity,
                        size_t *count, bool *has_more);
    void (*id)(const void *row, char out[LIMIT_ID_BYTES]); /* NULL: a row begins with its id */
    void (*render)(void *context, const void *row, struct buffer *out);
    void *context;
};
enum status admin_list_render(const struct admin_list_source *source,
                              const struct admin_query *query, struct buffer *out);
/* The page that `query`, the text, asks for. */
enum status admin_list_answer(struct slice query, const struct admin_list_source *source,
                              struct buffer *out);
