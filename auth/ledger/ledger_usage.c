#include "auth/ledger/ledger_usage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "auth/ledger/ledger_requests.h"
#include "config/base/mem.h"
#include "config/base/slice.h"
#include "config/store.h"

enum {
    PROGRESS_STEPS = 10000, /* of SQLite's machine between two calls of read_progress: 0.1 ms */
    SQL_BYTES = 2048,
    LISTS = 4,           /* of a filter */
    LIST_PARAMETERS = 9, /* the number of the first list's first parameter */
    ROWS_FIRST = 64,
};

struct ledger_usage {
    sqlite3 *connection; /* the thread's */
    uint64_t steps;      /* of the question that is read */
    pthread_t thread;
    pthread_mutex_t lock; /* the queue */
    pthread_cond_t wake;
    struct ledger_usage_task *first;
    struct ledger_usage_task *last;
    uint32_t count;
    atomic_bool must_stop;
};

/* --- one question --- */

static bool query_is_whole(const struct ledger_usage_query *query)
{
    return query->width_s >= 60 && query->width_s % 60 == 0 && query->start_s >= 0 &&
           query->start_s % query->width_s == 0 && query->buckets >= 1 &&
           query->buckets <= LIMIT_USAGE_BUCKETS && query->width_s <= 31 * 86400 &&
           query->start_s <= INT64_C(253402300800);
}

/* The lists of a filter in the order of their columns. */
static const struct ledger_usage_words *query_list(const struct ledger_usage_query *query, int list)
{
    static const struct ledger_usage_filter nothing;
    const struct ledger_usage_filter *filter = query->filter != NULL ? query->filter : &nothing;
    const struct ledger_usage_words *const lists[LISTS] = {&filter->tenants, &filter->keys,
                                                           &filter->models, &filter->classes};
    return lists[list];
}

/* " and tenant_id in (?9,?10)" for each list that has words. */
static void query_lists(const struct ledger_usage_query *query, struct buffer *out)
{
    static const char *const columns[LISTS] = {"tenant_id", "key_id", "model", "service_class"};
    for (int list = 0; list < LISTS; list++) {
        uint32_t count = query_list(query, list)->count;
        for (uint32_t i = 0; i < count; i++) {
            if (i == 0)
                buffer_printf(out, " and %s in (", columns[list]);
            buffer_printf(out, "?%d%s", LIST_PARAMETERS + list * LIMIT_USAGE_WORDS + (int)i,
                          i + 1 < count ? "," : ")");
        }
    }
}

/* Builds the SQL from constant texts alone; values are bound. A column that is not grouped by is
 * ''. */
static void query_sql(const struct ledger_usage_query *query, struct buffer *out)
{
    uint32_t group = query->group_by;
    bool has_tenant = query->tenant_id[0] != '\0';
    bool is_by_tenant = has_tenant || query_list(query, 0)->count > 0;
    buffer_printf(
        out,
        "select minute / ?1 as bucket, %s as t, %s as k, %s as m, %s as c, sum(requests), "
        "sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(cost_nano) "
        "from usage_minutes %s "
        "where minute >= ?2 and minute < ?3%s%s%s%s",
        (group & LEDGER_USAGE_TENANT) != 0 ? "tenant_id" : "''",
        (group & LEDGER_USAGE_KEY) != 0 ? "key_id" : "''",
        (group & LEDGER_USAGE_MODEL) != 0 ? "model" : "''",
        (group & LEDGER_USAGE_CLASS) != 0 ? "service_class" : "''",
        is_by_tenant ? "indexed by usage_minutes_tenant" : "",
        has_tenant ? " and tenant_id = ?4" : "", query->key_id[0] != '\0' ? " and key_id = ?5" : "",
        query->model[0] != '\0' ? " and model = ?6" : "",
        query->service_class[0] != '\0' ? " and service_class = ?7" : "");
    query_lists(query, out);
    buffer_append_text(out, " group by bucket, t, k, m, c order by bucket, t, k, m, c limit ?8");
}

static int query_bind(sqlite3_stmt *statement, const struct ledger_usage_query *query)
{
    int64_t width = query->width_s / 60;
    int64_t start = query->start_s / 60;
    int failed = sqlite3_bind_int64(statement, 1, width);
    failed |= sqlite3_bind_int64(statement, 2, start);
    failed |= sqlite3_bind_int64(statement, 3, start + width * query->buckets);
    const char *const texts[] = {query->tenant_id, query->key_id, query->model,
                                 query->service_class};
    for (int i = 0; i < 4; i++) { /* the SQL has a parameter only for texts that are given */
        if (texts[i][0] != '\0')
            failed |= sqlite3_bind_text(statement, 4 + i, texts[i], -1, SQLITE_STATIC);
    }
    failed |= sqlite3_bind_int64(statement, 8, LIMIT_USAGE_ROWS + 1);
    for (int list = 0; list < LISTS; list++) {
        const struct ledger_usage_words *words = query_list(query, list);
        int first = LIST_PARAMETERS + list * LIMIT_USAGE_WORDS;
        for (uint32_t i = 0; i < words->count; i++)
            failed |=
                sqlite3_bind_text(statement, first + (int)i, words->words[i], -1, SQLITE_STATIC);
    }
    return failed;
}

static enum status page_grow(struct ledger_usage_page *page, size_t *capacity)
{
    if (page->count < *capacity)
        return STATUS_OK;
    size_t wanted = *capacity == 0 ? ROWS_FIRST : 2 * *capacity;
    struct ledger_usage_row *rows = mem_realloc(page->rows, wanted * sizeof *rows);
    if (rows == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an answer about usage");
    page->rows = rows;
    *capacity = wanted;
    return STATUS_OK;
}

static void page_text(sqlite3_stmt *statement, int column, char *out, size_t capacity)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    snprintf(out, capacity, "%s", text != NULL ? (const char *)text : "");
}

static void page_row(sqlite3_stmt *statement, int64_t width_s, struct ledger_usage_row *row)
{
    row->start_s = sqlite3_column_int64(statement, 0) * width_s;
    page_text(statement, 1, row->tenant_id, sizeof row->tenant_id);
    page_text(statement, 2, row->key_id, sizeof row->key_id);
    page_text(statement, 3, row->model, sizeof row->model);
    page_text(statement, 4, row->service_class, sizeof row->service_class);
    row->requests = sqlite3_column_int64(statement, 5);
    row->prompt_tokens = sqlite3_column_int64(statement, 6);
    row->cached_tokens = sqlite3_column_int64(statement, 7);
    row->completion_tokens = sqlite3_column_int64(statement, 8);
    row->cost_nano = sqlite3_column_int64(statement, 9);
}

/* More rows came than fit: the last bucket may be incomplete and is left to the next page. */
static enum status page_cut(struct ledger_usage_page *page)
{
    page->end_s = page->rows[page->count - 1].start_s;
    while (page->count > 0 && page->rows[page->count - 1].start_s == page->end_s)
        page->count--;
    if (page->count == 0)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "group_by",
                   "One bucket has more than %d groups; ask for fewer groups or smaller buckets.",
                   LIMIT_USAGE_ROWS);
    return STATUS_OK;
}

static enum status page_read(sqlite3_stmt *statement, int64_t width_s,
                             struct ledger_usage_page *page)
{
    size_t capacity = 0;
    int code = sqlite3_step(statement);
    while (code == SQLITE_ROW) {
        TRY(page_grow(page, &capacity));
        page_row(statement, width_s, &page->rows[page->count++]);
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_INTERRUPT)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "start_time",
                   "The range holds too much for one question; ask for a shorter one.");
    if (code == SQLITE_ERROR) /* only the sum of the costs can overflow */
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "start_time",
                   "The costs of this range are beyond 64 bits; ask for a shorter one.");
    TRY(store_status(code, "ledger"));
    return page->count > LIMIT_USAGE_ROWS ? page_cut(page) : STATUS_OK;
}

static int read_progress(void *context)
{
    struct ledger_usage *usage = context;
    usage->steps += PROGRESS_STEPS;
    return usage->steps > LIMIT_USAGE_STEPS || atomic_load(&usage->must_stop);
}

static enum status read_query(struct ledger_usage *usage, const struct ledger_usage_query *query,
                              struct ledger_usage_page *page)
{
    *page = (struct ledger_usage_page){0};
    if (!query_is_whole(query))
        FAIL(STATUS_INVALID, "a question about usage is of whole buckets");
    struct buffer sql;
    buffer_init(&sql, SQL_BYTES);
    query_sql(query, &sql);
    page->end_s = query->start_s + query->width_s * query->buckets;
    sqlite3_stmt *statement = NULL;
    int code = sql.status != STATUS_OK
                   ? SQLITE_NOMEM /* the longest that there is fits */
                   : sqlite3_prepare_v2(usage->connection, sql.bytes, -1, &statement, NULL);
    buffer_deinit(&sql);
    enum status status = store_status(code, "ledger");
    if (status == STATUS_OK && query_bind(statement, query) != 0)
        status = status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL, "no memory");
    if (status == STATUS_OK)
        status = page_read(statement, query->width_s, page);
    sqlite3_finalize(statement);
    if (status != STATUS_OK)
        ledger_usage_page_deinit(page);
    return status;
}

void ledger_usage_page_deinit(struct ledger_usage_page *page)
{
    mem_free(page->rows);
    *page = (struct ledger_usage_page){0};
}

/* --- the thread --- */

/* Waits for the next task. NULL when it is time to stop and no task is left. */
static struct ledger_usage_task *thread_take(struct ledger_usage *usage)
{
    pthread_mutex_lock(&usage->lock);
    while (usage->first == NULL && !atomic_load(&usage->must_stop))
        pthread_cond_wait(&usage->wake, &usage->lock);
    struct ledger_usage_task *task = usage->first;
    if (task != NULL) {
        usage->first = task->next;
        usage->last = usage->first == NULL ? NULL : usage->last;
        usage->count--;
    }
    pthread_mutex_unlock(&usage->lock);
    return task;
}

static void *thread_main(void *context)
{
    struct ledger_usage *usage = context;
    for (struct ledger_usage_task *task = thread_take(usage); task != NULL;
         task = thread_take(usage)) {
        enum status status = STATUS_OK;
        usage->steps = 0;
        if (atomic_load(&usage->must_stop))
            status = status_fail(STATUS_CANCELLED, __FILE__, __LINE__, NULL, "the server stops");
        else if (task->requests != NULL)
            status = ledger_requests_read(usage->connection, task->requests);
        else
            status = read_query(usage, &task->query, &task->page);
        task->note = (struct error_note){0};
        if (status != STATUS_OK)
            task->note = *status_note();
        task->done(task);
    }
    return NULL;
}

/* --- callers --- */

enum status ledger_usage_open(struct ledger_usage **out, const char *path)
{
    *out = NULL;
    struct ledger_usage *usage = mem_zalloc(1, sizeof *usage);
    if (usage == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for questions about usage");
    enum status status = store_connect(&usage->connection, path, false);
    if (status == STATUS_OK)
        status = store_execute(usage->connection, "pragma query_only = on");
    if (status != STATUS_OK) {
        sqlite3_close(usage->connection);
        mem_free(usage);
        return status;
    }
    sqlite3_progress_handler(usage->connection, PROGRESS_STEPS, read_progress, usage);
    pthread_mutex_init(&usage->lock, NULL);
    pthread_cond_init(&usage->wake, NULL);
    if (pthread_create(&usage->thread, NULL, thread_main, usage) != 0) {
        sqlite3_close(usage->connection);
        mem_free(usage);
        FAIL(STATUS_NO_MEMORY, "no thread for questions about usage");
    }
    *out = usage;
    return STATUS_OK;
}

void ledger_usage_close(struct ledger_usage *usage)
{
    if (usage == NULL)
        return;
    pthread_mutex_lock(&usage->lock);
    atomic_store(&usage->must_stop, true);
    pthread_cond_signal(&usage->wake);
    pthread_mutex_unlock(&usage->lock);
    pthread_join(usage->thread, NULL);
    pthread_cond_destroy(&usage->wake);
    pthread_mutex_destroy(&usage->lock);
    sqlite3_close(usage->connection);
    mem_free(usage);
}

static bool ask_has_room(const struct ledger_usage *usage, const char *asker)
{
    uint32_t own = 0;
    for (const struct ledger_usage_task *at = usage->first; at != NULL; at = at->next)
        own += !at->is_first && strcmp(at->asker, asker) == 0;
    return usage->count < LIMIT_USAGE_TASKS && own < LIMIT_USAGE_TASKS_TENANT;
}

enum status ledger_usage_ask(struct ledger_usage *usage, struct ledger_usage_task *task)
{
    pthread_mutex_lock(&usage->lock);
    bool has_room = task->is_first || ask_has_room(usage, task->asker);
    if (has_room && task->is_first) {
        task->next = usage->first;
        usage->first = task;
        usage->last = usage->last == NULL ? task : usage->last;
    } else if (has_room) {
        task->next = NULL;
        if (usage->last != NULL)
            usage->last->next = task;
        else
            usage->first = task;
        usage->last = task;
    }
    if (has_room) {
        usage->count++;
        pthread_cond_signal(&usage->wake);
    }
    pthread_mutex_unlock(&usage->lock);
    if (!has_room)
        FAIL(STATUS_UNAVAILABLE, "Too many questions about usage wait already; try again shortly.");
    return STATUS_OK;
}
