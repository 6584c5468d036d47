/* admin_list: the form of every list, and its paging in both orders.
 *
 * Owns:     the page that it collects.
 * Thread:   any; order=desc may walk all rows, so long lists belong to the worker.
 * Cost:     order=asc reads one page; order=desc walks all rows from the start and keeps one page.
 * Not here: the rows (auth).
 *
 *   {"object":"list","data":[…],"first_id":…,"last_id":…,"has_more":…}
 */
#pragma once

#include "gateway/admin/admin_query.h"

/* A list of rows of one kind, oldest first. */
struct admin_list_source {
    size_t row_bytes;
    /* Gets up to `capacity` rows after the id `after` ("" = from the start). */
    enum status (*page)(void *context, const char *after, void *rows, size_t capacity,
                        size_t *count, bool *has_more);
    void (*id)(const void *row, char out[LIMIT_ID_BYTES]); /* NULL = a row begins with its id */
    void (*render)(void *context, const void *row, struct buffer *out);
    void *context;
};
enum status admin_list_render(const struct admin_list_source *source,
                              const struct admin_query *query, struct buffer *out);
/* Parses the query and renders the page that it asks for. */
enum status admin_list_answer(struct slice query, const struct admin_list_source *source,
                              struct buffer *out);
