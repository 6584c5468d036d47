#include "gateway/cli/cli_usage.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/base/clock.h"
#include "gateway/cli/cli_print.h"
#include "gateway/cli/cli_tenant.h"
#include "gateway/cli/cli_value.h"

enum { REQUESTS_USUAL = 100, REQUESTS_MOST = 1000000, DAYS_USUAL = 7, GROUPS = 4 };

static const struct cli_print_column group_columns[GROUPS] = {
    {"TENANT", "tenant_id", CLI_PRINT_TEXT, true},
    {"KEY", "key_id", CLI_PRINT_TEXT, true},
    {"MODEL", "model", CLI_PRINT_TEXT, false},
    {"CLASS", "class", CLI_PRINT_TEXT, true},
};
static const char *const group_words[GROUPS] = {"tenant", "key", "model", "class"};
static const struct cli_print_column sum_columns[] = {
    {"REQUESTS", "num_model_requests", CLI_PRINT_NUMBER, true},
    {"INPUT", "input_tokens", CLI_PRINT_NUMBER, true},
    {"CACHED", "input_cached_tokens", CLI_PRINT_NUMBER, true},
    {"OUTPUT", "output_tokens", CLI_PRINT_NUMBER, true},
    {"COST", "cost", CLI_PRINT_NUMBER, true},
};
static const struct cli_print_column request_columns[] = {
    {"ENDED", "ended", CLI_PRINT_TIME, true},
    {"REQUEST", "request_id", CLI_PRINT_TEXT, true},
    {"TENANT", "tenant_id", CLI_PRINT_TEXT, true},
    {"MODEL", "model", CLI_PRINT_TEXT, false},
    {"CLASS", "class", CLI_PRINT_TEXT, true},
    {"FINISH", "finish", CLI_PRINT_TEXT, true},
    {"CODE", "http_code", CLI_PRINT_NUMBER, true},
    {"INPUT", "input_tokens", CLI_PRINT_NUMBER, true},
    {"CACHED", "input_cached_tokens", CLI_PRINT_NUMBER, true},
    {"OUTPUT", "output_tokens", CLI_PRINT_NUMBER, true},
    {"COST", "cost", CLI_PRINT_NUMBER, true},
};
enum {
    SUM_COLUMNS = sizeof sum_columns / sizeof sum_columns[0],
    REQUEST_COLUMNS = sizeof request_columns / sizeof request_columns[0],
};

/* --- query --- */

/* Appends "&name=a,b" with the words of a flag; tenants' names become ids. */
static enum status query_words(struct cli_call *call, enum cli_flag flag, const char *name,
                               struct buffer *query)
{
    static const char *const spoken[CLI_FLAG_COUNT] = {[CLI_FLAG_TENANTS] = "--tenants",
                                                       [CLI_FLAG_KEYS] = "--keys",
                                                       [CLI_FLAG_MODEL] = "--model",
                                                       [CLI_FLAG_CLASS] = "--class"};
    json_t *words = NULL;
    enum status status = STATUS_OK;
    if (call->values[flag] == NULL)
        return STATUS_OK;
    TRY(cli_value_words(spoken[flag], call->values[flag], &words));
    for (size_t i = 0; i < json_array_size(words) && status == STATUS_OK; i++) {
        const char *word = json_string_value(json_array_get(words, i));
        struct buffer path;
        buffer_init(&path, LIMIT_PATH_BYTES);
        if (flag == CLI_FLAG_TENANTS)
            status = cli_tenant_append_path(call, word, &path);
        else
            cli_api_append_segment(&path, slice_of(word));
        const char *last = path.bytes != NULL ? strrchr(path.bytes, '/') : NULL;
        if (i == 0)
            buffer_printf(query, "&%s=", name);
        else
            buffer_append_char(query, ',');
        buffer_append_text(query, last != NULL ? last + 1 : path.bytes != NULL ? path.bytes : "");
        buffer_deinit(&path);
    }
    json_decref(words);
    return status;
}

static enum status query_filters(struct cli_call *call, struct buffer *query)
{
    TRY(query_words(call, CLI_FLAG_TENANTS, "tenant_id", query));
    TRY(query_words(call, CLI_FLAG_KEYS, "key_id", query));
    TRY(query_words(call, CLI_FLAG_MODEL, "model", query));
    TRY(query_words(call, CLI_FLAG_CLASS, "class", query));
    if (call->values[CLI_FLAG_CSV] != NULL)
        buffer_append_text(query, "&format=csv");
    return query->status;
}

/* Appends "start_time=…&end_time=…" from --from and --to; the start is `usual_s` without --from. */
static enum status query_times(const struct cli_call *call, int64_t now_s, int64_t usual_s,
                               struct buffer *query)
{
    int64_t from_s = usual_s;
    int64_t to_s = 0;
    if (call->values[CLI_FLAG_FROM] != NULL)
        TRY(cli_value_past("--from", call->values[CLI_FLAG_FROM], now_s, &from_s));
    buffer_printf(query, "start_time=%lld", (long long)from_s);
    if (call->values[CLI_FLAG_TO] == NULL)
        return query->status;
    TRY(cli_value_past("--to", call->values[CLI_FLAG_TO], now_s, &to_s));
    if (to_s <= from_s)
        FAIL(STATUS_INVALID, "--to must be after --from");
    buffer_printf(query, "&end_time=%lld", (long long)to_s);
    return query->status;
}

/* --- pages --- */

/* The pages read so far: as JSON, or with --csv as CSV. */
struct pages {
    struct cli_call *call;
    json_t *rows;      /* of all pages */
    struct buffer csv; /* rows of all pages after one line of names */
    size_t count;      /* rows */
    json_t *page;      /* the last page */
};

static enum status pages_csv(struct pages *pages, const struct buffer *body)
{
    struct slice rows = buffer_slice(body);
    const char *end = rows.length > 0 ? memchr(rows.bytes, '\n', rows.length) : NULL;
    if (end == NULL)
        FAIL(STATUS_PROTOCOL, "the answer is no CSV; does --url name a config API?");
    size_t names = (size_t)(end - rows.bytes) + 1;
    for (size_t i = names; i < rows.length; i++)
        pages->count += rows.bytes[i] == '\n';
    if (pages->csv.length > 0)
        rows = (struct slice){rows.bytes + names, rows.length - names};
    buffer_append_slice(&pages->csv, rows);
    return pages->csv.status;
}

static enum status pages_json(struct pages *pages, const struct buffer *body)
{
    json_decref(pages->page);
    pages->page = json_loadb(body->bytes != NULL ? body->bytes : "", body->length,
                             JSON_REJECT_DUPLICATES, NULL);
    json_t *data = json_object_get(pages->page, "data");
    if (!json_is_array(data))
        FAIL(STATUS_PROTOCOL, "the answer is no list; does --url name a config API?");
    if (json_array_extend(pages->rows, data) != 0)
        FAIL(STATUS_NO_MEMORY, "no memory for a list");
    pages->count = json_array_size(pages->rows);
    return STATUS_OK;
}

/* Reads pages until there are no more, or `most` rows or more have come. */
static enum status pages_read(struct pages *pages, const char *query, const char *parameter,
                              size_t most)
{
    enum status status = STATUS_OK;
    char next[sizeof((struct https_client_answer){0}).next_page] = "";
    bool is_csv = pages->call->values[CLI_FLAG_CSV] != NULL;
    do {
        struct buffer path;
        struct https_client_answer answer;
        buffer_init(&path, LIMIT_PATH_BYTES);
        https_client_answer_init(&answer);
        buffer_append_text(&path, query);
        if (next[0] != '\0')
            buffer_printf(&path, "&%s=%s", parameter, next);
        status = path.status;
        if (status == STATUS_OK)
            status = cli_api_ask(pages->call->api,
                                 &(struct cli_api_request){.method = "GET", .path = path.bytes},
                                 &answer);
        if (status == STATUS_OK)
            status = is_csv ? pages_csv(pages, &answer.body) : pages_json(pages, &answer.body);
        if (status == STATUS_OK && next[0] != '\0' && strcmp(next, answer.next_page) == 0)
            status = status_fail(STATUS_PROTOCOL, __FILE__, __LINE__, NULL,
                                 "the server's pages do not end");
        snprintf(next, sizeof next, "%s", answer.next_page);
        https_client_answer_deinit(&answer);
        buffer_deinit(&path);
    } while (status == STATUS_OK && next[0] != '\0' && pages->count < most);
    return status;
}

/* --- output --- */

static void cost_set(json_t *row)
{
    char text[48];
    json_int_t nano = json_integer_value(json_object_get(row, "cost_nano"));
    const char *currency = json_string_value(json_object_get(row, "currency"));
    if (currency == NULL)
        return;
    snprintf(text, sizeof text, "%lld.%09lld %.8s", (long long)(nano / 1000000000),
             (long long)(nano % 1000000000), currency);
    json_object_set_new(row, "cost", json_string(text));
}

/* A list with the results of all buckets, each with the start of its bucket. */
static json_t *show_rows(const json_t *buckets)
{
    json_t *list = json_pack("{s:[]}", "data");
    for (size_t i = 0; i < json_array_size(buckets); i++) {
        json_t *bucket = json_array_get(buckets, i);
        json_t *results = json_object_get(bucket, "results");
        for (size_t j = 0; j < json_array_size(results); j++) {
            json_t *row = json_array_get(results, j);
            json_object_set(row, "start_time", json_object_get(bucket, "start_time"));
            cost_set(row);
            json_array_append(json_object_get(list, "data"), row);
        }
    }
    return list;
}

static enum status show_print(struct cli_call *call, const struct pages *pages)
{
    struct cli_print_column columns[1 + GROUPS + SUM_COLUMNS] = {
        {"FROM", "start_time", CLI_PRINT_TIME, true}};
    size_t count = 1;
    const char *by = call->values[CLI_FLAG_BY] != NULL ? call->values[CLI_FLAG_BY] : "";
    if (call->values[CLI_FLAG_CSV] != NULL)
        return cli_print_raw(call, buffer_slice(&pages->csv));
    if (cli_print_is_json(call)) {
        json_object_set(pages->page, "data", pages->rows);
        return cli_print_list(call, pages->page, columns, count);
    }
    for (int i = 0; i < GROUPS; i++) {
        if (strstr(by, group_words[i]) != NULL)
            columns[count++] = group_columns[i];
    }
    memcpy(&columns[count], sum_columns, sizeof sum_columns);
    json_t *list = show_rows(pages->rows);
    enum status status = cli_print_list(call, list, columns, count + SUM_COLUMNS);
    json_decref(list);
    return status;
}

static void pages_begin(struct pages *pages, struct cli_call *call)
{
    *pages = (struct pages){.call = call, .rows = json_array()};
    buffer_init(&pages->csv, SIZE_MAX);
}

static void pages_end(struct pages *pages)
{
    json_decref(pages->rows);
    json_decref(pages->page);
    buffer_deinit(&pages->csv);
}

static enum status show_query(struct cli_call *call, struct buffer *query)
{
    int64_t now_s = clock_wall_us(clock_system()) / 1000000;
    const char *width = call->values[CLI_FLAG_WIDTH] != NULL ? call->values[CLI_FLAG_WIDTH] : "1d";
    int64_t unit = strcmp(width, "1m") == 0 ? 60 : strcmp(width, "1h") == 0 ? 3600 : 86400;
    int64_t usual = unit == 86400 ? DAYS_USUAL : unit == 3600 ? 24 : 60;
    buffer_append_text(query, "/admin/v1/usage?");
    TRY(query_times(call, now_s, now_s - (usual - 1) * unit, query));
    buffer_append_text(query, "&bucket_width=");
    cli_api_append_segment(query, slice_of(width));
    buffer_printf(query, "&limit=%d", unit == 60 ? 1440 : unit == 3600 ? 168 : 31);
    if (call->values[CLI_FLAG_BY] != NULL) {
        buffer_append_text(query, "&group_by=");
        cli_api_append_segment(query, slice_of(call->values[CLI_FLAG_BY]));
    }
    return query_filters(call, query);
}

enum status cli_usage_show(struct cli_call *call)
{
    struct pages pages;
    struct buffer query;
    pages_begin(&pages, call);
    buffer_init(&query, LIMIT_PATH_BYTES);
    enum status status = show_query(call, &query);
    if (status == STATUS_OK)
        status = pages_read(&pages, query.bytes, "page", SIZE_MAX);
    if (status == STATUS_OK)
        status = show_print(call, &pages);
    buffer_deinit(&query);
    pages_end(&pages);
    return status;
}

/* --- single requests --- */

static enum status requests_print(struct cli_call *call, const struct pages *pages, size_t most)
{
    if (call->values[CLI_FLAG_CSV] != NULL)
        return cli_print_raw(call, buffer_slice(&pages->csv));
    while (json_array_size(pages->rows) > most)
        json_array_remove(pages->rows, json_array_size(pages->rows) - 1);
    json_object_set(pages->page, "data", pages->rows);
    for (size_t i = 0; i < json_array_size(pages->rows) && !cli_print_is_json(call); i++) {
        json_t *row = json_array_get(pages->rows, i);
        double time = json_number_value(json_object_get(row, "time"));
        json_object_set_new(row, "ended", json_integer((json_int_t)time));
        cost_set(row);
    }
    return cli_print_list(call, pages->page, request_columns, REQUEST_COLUMNS);
}

/* Newest first; with --csv and without --limit all rows. */
enum status cli_usage_requests(struct cli_call *call)
{
    struct pages pages;
    struct buffer query;
    int64_t now_s = clock_wall_us(clock_system()) / 1000000;
    int64_t most = call->values[CLI_FLAG_CSV] != NULL ? INT64_MAX : REQUESTS_USUAL;
    if (call->values[CLI_FLAG_LIMIT] != NULL)
        TRY(cli_value_number("--limit", call->values[CLI_FLAG_LIMIT], 1, REQUESTS_MOST, &most));
    pages_begin(&pages, call);
    buffer_init(&query, LIMIT_PATH_BYTES);
    buffer_append_text(&query, "/admin/v1/usage/requests?");
    enum status status = query_times(call, now_s, 0, &query);
    buffer_printf(&query, "&order=desc&limit=%d",
                  (int)(most < LIMIT_USAGE_REQUESTS ? most : LIMIT_USAGE_REQUESTS));
    if (status == STATUS_OK)
        status = query_filters(call, &query);
    if (status == STATUS_OK)
        status = pages_read(&pages, query.bytes, "after", (size_t)most);
    if (status == STATUS_OK)
        status = requests_print(call, &pages, (size_t)most);
    buffer_deinit(&query);
    pages_end(&pages);
    return status;
}
