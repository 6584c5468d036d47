#include "gateway/admin/admin_list.h"

#include <stdint.h>

#include "config/base/mem.h"

/* For order=desc: the last rows before `after`, newest last. `rows` is a ring of limit + 1 rows;
 * the additional row shows that there are more. */
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

static void row_id(const struct admin_list_source *source, const void *row,
                   char out[LIMIT_ID_BYTES])
{
    if (source->id != NULL)
        source->id(row, out);
    else
        memcpy(out, row, LIMIT_ID_BYTES);
}

static enum status window_fill(const struct admin_list_source *source, const char *until,
                               struct window *window, char *page)
{
    char after[LIMIT_ID_BYTES] = "";
    bool has_more = true;
    while (has_more) {
        size_t count = 0;
        TRY(source->page(source->context, after, page, ADMIN_QUERY_LIMIT_MAX, &count, &has_more));
        for (size_t i = 0; i < count; i++) {
            const char *row = page + i * source->row_bytes;
            row_id(source, row, after);
            if (strcmp(after, until) == 0)
                return STATUS_OK;
            window_add(window, source->row_bytes, row);
        }
        has_more = has_more && count != 0;
    }
    if (until[0] != '\0')
        FAIL_PARAM(STATUS_INVALID, "after", "There is no row with the id %s.", until);
    return STATUS_OK;
}

static enum status render_rows(const struct admin_list_source *source,
                               const struct admin_query *query, struct window *window,
                               bool has_more, struct buffer *out)
{
    char first[LIMIT_ID_BYTES] = "";
    char last[LIMIT_ID_BYTES] = "";
    size_t shown = window->count < query->limit ? window->count : query->limit;
    buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < shown; i++) {
        size_t index = query->is_descending ? window->count - 1 - i : i;
        const void *row = window_row(window, source->row_bytes, index);
        row_id(source, row, i == 0 ? first : last);
        if (i == 0)
            memcpy(last, first, sizeof last);
        else
            buffer_append_char(out, ',');
        source->render(source->context, row, out);
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
                              const struct admin_query *query, struct buffer *out)
{
    struct window window = {.capacity = query->limit + 1};
    window.rows = mem_zalloc(window.capacity + ADMIN_QUERY_LIMIT_MAX, source->row_bytes);
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

enum status admin_list_answer(struct slice query, const struct admin_list_source *source,
                              struct buffer *out)
{
    struct admin_query read;
    TRY(admin_query_read(query, ADMIN_QUERY_LIST, &read));
    return admin_list_render(source, &read, out);
}
