#include "auth/ledger/ledger_requests.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "config/base/mem.h"
#include "config/store.h"

/* Columns of the statement; texts first, in the order of row_texts. */
enum { COLUMN_ID, COLUMN_AT, COLUMN_TEXTS, TEXTS = 7, COLUMN_NUMBERS = COLUMN_TEXTS + TEXTS };

static const char *const forward_sql =
    "select id, at_us, request_id, tenant_id, key_id, model, route, service_class, finish, "
    "http_code, prompt_tokens, cached_tokens, completion_tokens, cost_nano, is_estimated, "
    "queue_us, prefill_us, decode_us, total_us, reasoning_tokens from requests where id > ?1 "
    "order by id";
static const char *const backward_sql =
    "select id, at_us, request_id, tenant_id, key_id, model, route, service_class, finish, "
    "http_code, prompt_tokens, cached_tokens, completion_tokens, cost_nano, is_estimated, "
    "queue_us, prefill_us, decode_us, total_us, reasoning_tokens from requests where id < ?1 "
    "order by id desc";

static bool words_have(const struct ledger_usage_words *words, sqlite3_stmt *statement, int column)
{
    const char *text = words->count > 0 ? (const char *)sqlite3_column_text(statement, column) : "";
    bool has = words->count == 0;
    for (uint32_t i = 0; text != NULL && !has && i < words->count; i++)
        has = strcmp(words->words[i], text) == 0;
    return has;
}

static bool row_is_wanted(const struct ledger_requests *requests, sqlite3_stmt *statement)
{
    int64_t at_us = sqlite3_column_int64(statement, COLUMN_AT);
    const struct ledger_usage_filter *filter = requests->filter;
    if (at_us < requests->start_us || at_us >= requests->end_us)
        return false;
    return filter == NULL || (words_have(&filter->tenants, statement, COLUMN_TEXTS + 1) &&
                              words_have(&filter->keys, statement, COLUMN_TEXTS + 2) &&
                              words_have(&filter->models, statement, COLUMN_TEXTS + 3) &&
                              words_have(&filter->classes, statement, COLUMN_TEXTS + 5));
}

static void row_texts(sqlite3_stmt *statement, struct ledger_row *row)
{
    const struct {
        char *out;
        size_t capacity;
    } texts[TEXTS] = {
        {row->request_id, sizeof row->request_id}, {row->tenant_id, sizeof row->tenant_id},
        {row->key_id, sizeof row->key_id},         {row->model, sizeof row->model},
        {row->route, sizeof row->route},           {row->service_class, sizeof row->service_class},
        {row->finish, sizeof row->finish}};
    for (int i = 0; i < TEXTS; i++) {
        const unsigned char *text = sqlite3_column_text(statement, COLUMN_TEXTS + i);
        snprintf(texts[i].out, texts[i].capacity, "%s", text != NULL ? (const char *)text : "");
    }
}

static void row_read(sqlite3_stmt *statement, struct ledger_row *row)
{
    int64_t numbers[11];
    for (int i = 0; i < 11; i++)
        numbers[i] = sqlite3_column_int64(statement, COLUMN_NUMBERS + i);
    *row = (struct ledger_row){.sequence = sqlite3_column_int64(statement, COLUMN_ID),
                               .at_us = sqlite3_column_int64(statement, COLUMN_AT),
                               .http_code = (int32_t)numbers[0],
                               .prompt_tokens = (uint32_t)numbers[1],
                               .cached_tokens = (uint32_t)numbers[2],
                               .completion_tokens = (uint32_t)numbers[3],
                               .cost_nano = numbers[4],
                               .is_estimated = numbers[5] != 0,
                               .queue_us = numbers[6],
                               .prefill_us = numbers[7],
                               .decode_us = numbers[8],
                               .total_us = numbers[9],
                               .reasoning_tokens = (uint32_t)numbers[10]};
    row_texts(statement, row);
}

/* Reads until the page is full and one more row is found, or until LIMIT_USAGE_SCAN rows were
 * looked at. */
static enum status read_rows(sqlite3_stmt *statement, struct ledger_requests *requests)
{
    uint32_t seen = 0;
    int code = sqlite3_step(statement);
    for (; code == SQLITE_ROW; code = sqlite3_step(statement)) {
        bool is_wanted = row_is_wanted(requests, statement);
        requests->has_more =
            seen == LIMIT_USAGE_SCAN || (is_wanted && requests->count == requests->limit);
        if (requests->has_more)
            return STATUS_OK;
        if (is_wanted)
            row_read(statement, &requests->rows[requests->count++]);
        requests->last = sqlite3_column_int64(statement, COLUMN_ID);
        seen++;
    }
    if (code == SQLITE_INTERRUPT)
        FAIL(STATUS_CANCELLED, "the server stops");
    return store_status(code, "ledger");
}

enum status ledger_requests_read(sqlite3 *connection, struct ledger_requests *requests)
{
    requests->count = 0;
    requests->last = requests->after;
    requests->has_more = false;
    if (requests->limit < 1 || requests->limit > LIMIT_USAGE_REQUESTS)
        FAIL(STATUS_INVALID, "a page of requests has 1 to %d", LIMIT_USAGE_REQUESTS);
    requests->rows = mem_zalloc(requests->limit, sizeof *requests->rows);
    if (requests->rows == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an answer about usage");
    bool is_from_end = requests->is_descending && requests->after == 0;
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(connection, requests->is_descending ? backward_sql : forward_sql,
                                  -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 1, is_from_end ? INT64_MAX : requests->after);
    enum status status = store_status(code, "ledger");
    if (status == STATUS_OK)
        status = read_rows(statement, requests);
    sqlite3_finalize(statement);
    if (status != STATUS_OK)
        ledger_requests_deinit(requests);
    return status;
}

void ledger_requests_deinit(struct ledger_requests *requests)
{
    mem_free(requests->rows);
    requests->rows = NULL;
    requests->count = 0;
}
