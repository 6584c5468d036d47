#include "gateway/edge/edge_usage_form.h"

#include <string.h>

enum { PARAMETERS = 6, GROUP_BYTES = 64 };

/* The last second of year 9999: what follows is no time. */
static const int64_t TIME_MAX_S = INT64_C(253402300799);

static const struct width {
    const char *name;
    int64_t seconds;
    uint32_t usual;
    uint32_t most;
} widths[] = {{"1m", 60, 60, LIMIT_USAGE_BUCKETS}, {"1h", 3600, 24, 168}, {"1d", 86400, 7, 31}};

/* A query string in pieces; those that are not given have no bytes. */
struct pieces {
    struct slice start_time;
    struct slice end_time;
    struct slice bucket_width;
    struct slice group_by;
    struct slice limit;
    struct slice page;
};

static enum status piece_of(struct pieces *pieces, struct slice name, struct slice **out)
{
    const struct {
        const char *name;
        struct slice *piece;
    } known[PARAMETERS] = {{"start_time", &pieces->start_time},
                           {"end_time", &pieces->end_time},
                           {"bucket_width", &pieces->bucket_width},
                           {"group_by", &pieces->group_by},
                           {"limit", &pieces->limit},
                           {"page", &pieces->page}};
    for (size_t i = 0; i < PARAMETERS; i++) {
        if (!slice_is(name, known[i].name))
            continue;
        if (known[i].piece->bytes != NULL)
            FAIL_PARAM(STATUS_INVALID, known[i].name, "%s is given twice.", known[i].name);
        *out = known[i].piece;
        return STATUS_OK;
    }
    FAIL_PARAM(STATUS_UNSUPPORTED, "query",
               "Usage is asked with start_time, end_time, bucket_width, group_by, limit and page.");
}

static enum status split(struct slice query, struct pieces *pieces)
{
    size_t at = 0;
    while (at < query.length) {
        const char *end = memchr(query.bytes + at, '&', query.length - at);
        size_t length = end != NULL ? (size_t)(end - query.bytes) - at : query.length - at;
        const char *equals = memchr(query.bytes + at, '=', length);
        struct slice name = {query.bytes + at,
                             equals != NULL ? (size_t)(equals - query.bytes) - at : length};
        struct slice *piece = NULL;
        if (length != 0)
            TRY(piece_of(pieces, name, &piece));
        if (piece != NULL && equals != NULL)
            *piece = (struct slice){equals + 1, length - name.length - 1};
        else if (piece != NULL)
            *piece = (struct slice){name.bytes, 0};
        at += length + 1;
    }
    return STATUS_OK;
}

static enum status read_number(const char *name, struct slice text, int64_t most, int64_t *out)
{
    int64_t number = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            FAIL_PARAM(STATUS_INVALID, name, "%s must be a whole number.", name);
        if (number <= most) /* no digit behind it makes it right again */
            number = number * 10 + (text.bytes[i] - '0');
    }
    if (text.length == 0)
        FAIL_PARAM(STATUS_INVALID, name, "%s must be a whole number.", name);
    if (number > most)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, name, "%s must be at most %lld.", name, (long long)most);
    *out = number;
    return STATUS_OK;
}

static enum status read_width(struct slice text, const struct width **out)
{
    *out = &widths[2];
    if (text.bytes == NULL)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        *out = &widths[i];
        if (slice_is(text, widths[i].name))
            return STATUS_OK;
    }
    FAIL_PARAM(STATUS_INVALID, "bucket_width", "bucket_width must be 1m, 1h or 1d.");
}

static enum status read_group(struct slice word, uint32_t *groups)
{
    uint32_t group = slice_is(word, "key")     ? LEDGER_USAGE_KEY
                     : slice_is(word, "model") ? LEDGER_USAGE_MODEL
                     : slice_is(word, "class") ? LEDGER_USAGE_CLASS
                                               : 0;
    if (group == 0 || (*groups & group) != 0)
        FAIL_PARAM(STATUS_INVALID, "group_by",
                   "group_by must be a list of key, model and class, each at most once.");
    *groups |= group;
    return STATUS_OK;
}

/* Words between commas, a comma being "," or "%2C". */
static enum status read_groups(struct slice text, uint32_t *out)
{
    *out = 0;
    if (text.bytes == NULL)
        return STATUS_OK;
    size_t start = 0;
    for (size_t i = 0; i <= text.length; i++) {
        bool is_coded = i + 3 <= text.length && (memcmp(text.bytes + i, "%2C", 3) == 0 ||
                                                 memcmp(text.bytes + i, "%2c", 3) == 0);
        if (i < text.length && text.bytes[i] != ',' && !is_coded)
            continue;
        TRY(read_group((struct slice){text.bytes + start, i - start}, out));
        i += is_coded ? 2 : 0;
        start = i + 1;
    }
    return STATUS_OK;
}

/* A page is named by the start of its first bucket. */
static enum status read_page(struct slice text, struct edge_usage_form *out)
{
    if (text.bytes == NULL)
        return STATUS_OK;
    int64_t start_s = 0;
    bool has_mark = slice_starts_with(text, SLICE("page_"));
    struct slice digits = {text.bytes + 5, has_mark ? text.length - 5 : 0};
    if (!has_mark || read_number("page", digits, TIME_MAX_S, &start_s) != STATUS_OK ||
        start_s % out->width_s != 0 || start_s < out->start_s || start_s >= out->end_s)
        FAIL_PARAM(STATUS_INVALID, "page",
                   "page must be the next_page of an answer to the same question.");
    out->start_s = start_s;
    return STATUS_OK;
}

static enum status read_times(const struct pieces *pieces, int64_t now_s,
                              struct edge_usage_form *out)
{
    int64_t start_s = 0;
    int64_t end_s = now_s + 1;
    if (pieces->start_time.bytes == NULL)
        FAIL_PARAM(STATUS_INVALID, "start_time", "start_time is missing.");
    TRY(read_number("start_time", pieces->start_time, TIME_MAX_S, &start_s));
    if (pieces->end_time.bytes != NULL)
        TRY(read_number("end_time", pieces->end_time, TIME_MAX_S, &end_s));
    if (end_s <= start_s)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, pieces->end_time.bytes != NULL ? "end_time" : "start_time",
                   "end_time must be after start_time.");
    out->start_s = start_s - start_s % out->width_s;
    out->end_s = (end_s - 1) - (end_s - 1) % out->width_s + out->width_s;
    return STATUS_OK;
}

enum status edge_usage_form_read(struct slice query, int64_t now_s, struct edge_usage_form *out)
{
    *out = (struct edge_usage_form){0};
    struct pieces pieces = {0};
    const struct width *width = NULL;
    int64_t limit = 0;
    TRY(split(query, &pieces));
    TRY(read_width(pieces.bucket_width, &width));
    out->width_s = width->seconds;
    TRY(read_times(&pieces, now_s, out));
    TRY(read_groups(pieces.group_by, &out->group_by));
    TRY(read_page(pieces.page, out));
    limit = width->usual;
    if (pieces.limit.bytes != NULL)
        TRY(read_number("limit", pieces.limit, width->most, &limit));
    if (limit < 1)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "limit", "limit must be at least 1.");
    int64_t left = (out->end_s - out->start_s) / out->width_s;
    out->buckets = (uint32_t)(left < limit ? left : limit);
    return STATUS_OK;
}

void edge_usage_form_fill(const struct edge_usage_form *form, struct ledger_usage_query *out)
{
    out->start_s = form->start_s;
    out->width_s = form->width_s;
    out->buckets = form->buckets;
    out->group_by = form->group_by;
}

static void render_group(const char *name, bool is_grouped, const char *value, struct buffer *out)
{
    buffer_printf(out, ",\"%s\":", name);
    if (is_grouped)
        buffer_append_json_string(out, slice_of(value));
    else
        buffer_append_text(out, "null");
}

static void render_result(uint32_t group_by, const struct ledger_usage_row *row, struct buffer *out)
{
    buffer_printf(out,
                  "{\"object\":\"usage.result\",\"num_model_requests\":%lld,\"input_tokens\":%lld,"
                  "\"input_cached_tokens\":%lld,\"output_tokens\":%lld",
                  (long long)row->requests, (long long)row->prompt_tokens,
                  (long long)row->cached_tokens, (long long)row->completion_tokens);
    render_group("key_id", (group_by & LEDGER_USAGE_KEY) != 0, row->key_id, out);
    render_group("model", (group_by & LEDGER_USAGE_MODEL) != 0, row->model, out);
    render_group("class", (group_by & LEDGER_USAGE_CLASS) != 0, row->service_class, out);
    buffer_append_char(out, '}');
}

void edge_usage_form_render(const struct edge_usage_form *form,
                            const struct ledger_usage_page *page, struct buffer *out)
{
    size_t at = 0;
    buffer_append_text(out, "{\"object\":\"page\",\"data\":[");
    for (int64_t start = form->start_s; start < page->end_s; start += form->width_s) {
        buffer_printf(out,
                      "%s{\"object\":\"bucket\",\"start_time\":%lld,\"end_time\":%lld,"
                      "\"results\":[",
                      start != form->start_s ? "," : "", (long long)start,
                      (long long)(start + form->width_s));
        for (size_t first = at; at < page->count && page->rows[at].start_s == start; at++) {
            if (at != first)
                buffer_append_char(out, ',');
            render_result(form->group_by, &page->rows[at], out);
        }
        buffer_append_text(out, "]}");
    }
    bool has_more = page->end_s < form->end_s;
    buffer_printf(out, "],\"has_more\":%s,\"next_page\":", has_more ? "true" : "false");
    if (has_more)
        buffer_printf(out, "\"page_%lld\"}", (long long)page->end_s);
    else
        buffer_append_text(out, "null}");
}
