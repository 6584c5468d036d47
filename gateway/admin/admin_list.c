#include "gateway/admin/admin_list.h"

#include <stdint.h>

#include "config/base/mem.h"

/* --- the query --- */

static enum status query_limit(struct slice value, struct admin_list_query *out)
{
    size_t limit = 0;
    for (size_t i = 0; i < value.length && limit <= ADMIN_LIST_MAX; i++) {
        if (value.bytes[i] < '0' || value.bytes[i] > '9')
            FAIL_PARAM(STATUS_INVALID, "limit", "limit must be a whole number.");
        limit = limit * 10 + (size_t)(value.bytes[i] - '0');
    }
    if (limit < 1 || limit > ADMIN_LIST_MAX)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "limit", "limit must be from 1 to %d.", ADMIN_LIST_MAX);
    out->limit = limit;
    return STATUS_OK;
}

/* Ids have letters, digits and underscores, so nothing needs decoding. */
static enum status query_after(struct slice value, struct admin_list_query *out)
{
    bool is_id = value.length < LIMIT_ID_BYTES;
    for (size_t i = 0; i < value.length && is_id; i++) {
        char c = value.bytes[i];
        is_id =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    }
    if (!is_id)
        FAIL_PARAM(STATUS_INVALID, "after", "after must be an id from a list.");
    if (value.length != 0)
        memcpy(out->after, value.bytes, value.length);
    out->after[value.length] = '\0';
    return STATUS_OK;
}

static enum status query_pair(struct slice name, struct slice value, struct admin_list_query *out)
{
    if (slice_is(name, "limit"))
        return query_limit(value, out);
    if (slice_is(name, "after"))
        return query_after(value, out);
    if (!slice_is(name, "order"))
        FAIL_PARAM(STATUS_UNSUPPORTED, "query",
                   "Only limit, after and order may be asked of a list.");
    out->is_descending = slice_is(value, "desc");
    if (!out->is_descending && !slice_is(value, "asc"))
        FAIL_PARAM(STATUS_INVALID, "order", "order must be asc or desc.");
    return STATUS_OK;
}

enum status admin_list_query_read(struct slice query, struct admin_list_query *out)
{
    *out = (struct admin_list_query){.limit = ADMIN_LIST_DEFAULT};
    size_t at = 0;
    while (at < query.length) {
        size_t end = at;
        while (end < query.length && query.bytes[end] != '&')
            end++;
        size_t equals = at;
        while (equals < end && query.bytes[equals] != '=')
            equals++;
        struct slice name = {query.bytes + at, equals - at};
        struct slice value = {NULL, 0};
        if (equals < end)
            value = (struct slice){query.bytes + equals + 1, end - equals - 1};
        if (end > at)
            TRY(query_pair(name, value, out));
        at = end + 1;
    }
    return STATUS_OK;
}

/* --- pages --- */

/* The rows before `after` (or the last ones) that order=desc wants, newest last. `rows` is a ring
 * of limit + 1: one more tells whether there are more. */
struct window {
    char *rows;
    size_t capacity;
    size_t start;
    size_t count;
};

static void *window_row(const struct window *window, size_t row_bytes, size_t index)
{
    return window->rows + (window->start + index) % window->capacity * row_bytes;
}

static void window_add(struct window *window, size_t row_bytes, const void *row)
{
    if (window->count == window->capacity) {
        window->start = (window->start + 1) % window->capacity;
        window->count--;
    }
    memcpy(window_row(window, row_bytes, window->count), row, row_bytes);
    window->count++;
}

static enum status window_fill(const struct admin_list_source *source, const char *until,
                               struct window *window, char *page)
{
    char after[LIMIT_ID_BYTES] = "";
    bool has_more = true;
    while (has_more) {
        size_t count = 0;
        TRY(source->page(source->context, after, page, ADMIN_LIST_MAX, &count, &has_more));
        for (size_t i = 0; i < count; i++) {
            const char *row = page + i * source->row_bytes;
            source->id(row, after);
            if (strcmp(after, until) == 0)
                return STATUS_OK;
            window_add(window, source->row_bytes, row);
        }
        has_more = has_more && count != 0;
    }
    if (until[0] != '\0')
        FAIL_PARAM(STATUS_NOT_FOUND, "after", "There is no row with the id %s.", until);
    return STATUS_OK;
}

static enum status render_rows(const struct admin_list_source *source,
                               const struct admin_list_query *query, struct window *window,
                               bool has_more, struct buffer *out)
{
    char first[LIMIT_ID_BYTES] = "";
    char last[LIMIT_ID_BYTES] = "";
    size_t shown = window->count < query->limit ? window->count : query->limit;
    buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < shown; i++) {
        size_t index = query->is_descending ? window->count - 1 - i : i;
        const void *row = window_row(window, source->row_bytes, index);
        source->id(row, i == 0 ? first : last);
        if (i == 0)
            memcpy(last, first, sizeof last);
        else
            buffer_append_char(out, ',');
        source->render(row, out);
    }
    buffer_append_text(out, "],\"first_id\":");
    if (shown == 0) {
        buffer_append_text(out, "null,\"last_id\":null");
    } else {
        buffer_append_json_string(out, slice_of(first));
        buffer_append_text(out, ",\"last_id\":");
        buffer_append_json_string(out, slice_of(last));
    }
    buffer_printf(out, ",\"has_more\":%s}", has_more ? "true" : "false");
    return out->status;
}

enum status admin_list_render(const struct admin_list_source *source,
                              const struct admin_list_query *query, struct buffer *out)
{
    struct window window = {.capacity = query->limit + 1};
    window.rows = mem_zalloc(window.capacity + ADMIN_LIST_MAX, source->row_bytes);
    if (window.rows == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a list");
    char *page = window.rows + window.capacity * source->row_bytes;
    enum status status = STATUS_OK;
    bool has_more = false;
    if (query->is_descending) {
        TRY_OUT(window_fill(source, query->after, &window, page));
        has_more = window.count > query->limit;
    } else {
        TRY_OUT(source->page(source->context, query->after, window.rows, query->limit,
                             &window.count, &has_more));
    }
    status = render_rows(source, query, &window, has_more, out);
out:
    mem_free(window.rows);
    return status;
}
