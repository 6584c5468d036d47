#include "gateway/edge/engines/edge_replay.h"

#include <jansson.h>
#include <stdio.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "gateway/edge/engines/edge_ack.h"
#include "gateway/edge/engines/edge_settle.h"
#include "gateway/edge/engines/edge_wait.h"

enum {
    PAGE_RECORDS = 128,
    PAGE_BYTES_MAX = 1024 * 1024, /* a record is about 400 bytes */
    TICK_MS = 250,                /* acknowledgements, gaps, rows that have waited too long */
    GAP_TICKS = 2,                /* a gap that lasts so long is read from the engine */
    ACK_RECORDS = 64,             /* so many are acknowledged without waiting for the tick */
    ANSWER_MS = 5000,             /* most time for a page, and for an acknowledgement */
    AGAIN_MS = 100,               /* between two readings while a row waits; doubled each time */
    AGAIN_MS_MAX = 2000,
};

/* The row of a cut stream that waits for its record. */
struct awaited {
    struct awaited *previous, *next;
    struct ledger_row row;
    int64_t until_us;
};

/* The row of a cut stream that is being committed without its record. */
struct late_row {
    struct late_row *previous, *next;
    struct edge_replay *replay;
    struct edge_settle settle;
};

/* The row of a record that was read again. */
struct page_row {
    struct edge_replay *replay;
    uint64_t record_seq;
    struct edge_settle settle;
};

struct edge_replay {
    struct edge *edge;
    const struct edge_replay_jobs *jobs;
    struct http1_exchange *exchange; /* that reads a page */
    struct http1_exchange *ack_exchange;
    struct loop_timer *tick;
    struct loop_timer *again; /* a page's deadline; between readings, the next reading */
    struct buffer incoming;
    struct buffer ack_answer;
    int code;
    int ack_code;
    char instance[EDGE_PROBE_INSTANCE_BYTES]; /* the engine that the marks are about; "": none */
    uint64_t page_after;                      /* the next page begins after this record */
    uint64_t acknowledged;                    /* up to this record the engine was told */
    uint64_t ack_sent;
    uint32_t again_ms;
    uint32_t ack_ticks;  /* since the acknowledgement under way was sent */
    uint32_t page_count; /* rows of the page */
    uint32_t page_open;  /* of these, rows that are not committed yet */
    uint64_t gap_prefix; /* ack.prefix at the last tick */
    uint32_t gap_ticks;  /* ticks for which there has been a gap after it */
    bool page_has_more;
    bool is_running;
    bool is_due;   /* records must be read once the engine is up */
    bool is_fresh; /* the next page is the first one of a new engine */
    bool is_ticking;
    bool is_closed;
    uint32_t waiting;
    struct awaited *awaited; /* newest first */
    struct late_row *late;
    struct page_row page[PAGE_RECORDS];
    struct edge_ack ack;
};

static void page_ask(struct edge_replay *replay);
static void tick_arm(struct edge_replay *replay);

/* --- rows that wait --- */

static struct awaited *awaited_find(const struct edge_replay *replay, const char *request_id)
{
    for (struct awaited *row = replay->awaited; row != NULL; row = row->next) {
        if (strcmp(row->row.request_id, request_id) == 0)
            return row;
    }
    return NULL;
}

static void awaited_drop(struct edge_replay *replay, struct awaited *row)
{
    if (row->previous != NULL)
        row->previous->next = row->next;
    else
        replay->awaited = row->next;
    if (row->next != NULL)
        row->next->previous = row->previous;
    replay->waiting--;
    metric_set(replay->edge->metrics.rows_awaited, replay->waiting);
    mem_free(row);
}

static void late_drop(struct late_row *late)
{
    if (late->previous != NULL)
        late->previous->next = late->next;
    else
        late->replay->late = late->next;
    if (late->next != NULL)
        late->next->previous = late->previous;
    edge_settle_deinit(&late->settle);
    mem_free(late);
}

static void late_done(void *context, bool is_recorded)
{
    (void)is_recorded; /* if not, the log has its counts */
    late_drop(context);
}

/* Commits a row with the tokens that the edge has seen, marked estimated. */
static void late_commit(struct edge_replay *replay, const struct ledger_row *row)
{
    struct late_row *late = mem_zalloc(1, sizeof *late);
    ASSERT(late != NULL); /* rather than lose a row, restart and read its record again */
    late->replay = replay;
    late->settle.row = *row;
    late->settle.row.is_estimated = true;
    late->settle.done = late_done;
    late->settle.context = late;
    late->next = replay->late;
    if (late->next != NULL)
        late->next->previous = late;
    replay->late = late;
    edge_settle_begin(&late->settle, replay->edge);
}

static void awaited_expire(struct edge_replay *replay, int64_t now_us)
{
    struct awaited *next = NULL;
    for (struct awaited *row = replay->awaited; row != NULL; row = next) {
        next = row->next;
        if (row->until_us > now_us)
            continue;
        late_commit(replay, &row->row);
        awaited_drop(replay, row);
    }
}

/* --- acknowledging --- */

static void ack_head(void *context, const struct http1_head *head)
{
    struct edge_replay *replay = context;
    replay->ack_code = head->code;
}

static void ack_body(void *context, struct slice bytes)
{
    struct edge_replay *replay = context;
    buffer_append_slice(&replay->ack_answer, bytes);
}

static void ack_ended(void *context, enum status status)
{
    struct edge_replay *replay = context;
    replay->ack_exchange = NULL;
    if (status == STATUS_OK && replay->ack_code == 200) {
        replay->acknowledged = replay->ack_sent;
    } else if (status == STATUS_OK && replay->ack_code >= 400 && replay->ack_code < 500) {
        LOG(LOG_WARN, "ack_refused", LOG_NUMBER("record_seq", replay->ack_sent),
            LOG_NUMBER("code", replay->ack_code));
        replay->is_fresh = true; /* the engine has other records than the marks say: start anew */
        replay->is_due = true;
    }
    if (!replay->is_closed)
        tick_arm(replay);
}

static void ack_send(struct edge_replay *replay)
{
    static const struct http1_callbacks callbacks = {ack_head, ack_body, ack_ended};
    static const char head[] =
        "POST /internal/v1/ack HTTP/1.1\r\nhost: engine\r\ncontent-type: application/json";
    if (replay->ack_exchange != NULL || replay->ack.prefix <= replay->acknowledged ||
        replay->is_fresh || edge_probe_engine(replay->edge->probe)->state == EDGE_PROBE_DOWN)
        return;
    char body[64];
    int length = snprintf(body, sizeof body, "{\"record_seq\":%llu}",
                          (unsigned long long)replay->ack.prefix);
    replay->ack_code = 0;
    replay->ack_ticks = 0;
    replay->ack_sent = replay->ack.prefix;
    buffer_clear(&replay->ack_answer);
    struct http1_exchange *exchange = NULL;
    if (http1_exchange_start(replay->edge->client, slice_of(head),
                             (struct slice){body, (size_t)length}, &callbacks, replay,
                             &exchange) == STATUS_OK)
        replay->ack_exchange = exchange;
}

static void ack_moved(struct edge_replay *replay)
{
    if (replay->is_closed)
        return;
    if (replay->ack.prefix - replay->acknowledged >= ACK_RECORDS)
        ack_send(replay);
    tick_arm(replay);
}

/* --- a page of records --- */

static bool record_number(const json_t *record, const char *name, int64_t most, int64_t *out)
{
    const json_t *value = json_object_get(record, name);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > most)
        return false;
    *out = json_integer_value(value);
    return true;
}

static bool record_text(const json_t *record, const char *name, char *out, size_t capacity)
{
    const char *text = json_string_value(json_object_get(record, name));
    if (text == NULL || strlen(text) >= capacity)
        return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static bool record_hash(const json_t *record, const char *name, uint8_t out[16])
{
    const char *text = json_string_value(json_object_get(record, name));
    if (text == NULL || strlen(text) != 32)
        return false;
    for (size_t i = 0; i < 16; i++) {
        unsigned byte = 0;
        for (size_t half = 0; half < 2; half++) {
            char c = text[2 * i + half];
            if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
                return false;
            byte = byte * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        out[i] = (uint8_t)byte;
    }
    return true;
}

static enum status record_final(const json_t *record, struct edge_final *out, int64_t *at_us)
{
    int64_t number[4] = {0};
    *out = (struct edge_final){0};
    *at_us = 0;
    if (!record_number(record, "record_seq", INT64_MAX, &number[0]) || number[0] == 0 ||
        !record_number(record, "prompt_tokens", INT32_MAX, &number[1]) ||
        !record_number(record, "cached_tokens", number[1], &number[2]) ||
        !record_number(record, "completion_tokens", INT32_MAX, &number[3]) ||
        !record_number(record, "queue_us", INT64_MAX, &out->queue_us) ||
        !record_number(record, "prefill_us", INT64_MAX, &out->prefill_us) ||
        !record_number(record, "decode_us", INT64_MAX, &out->decode_us) ||
        !record_text(record, "finish_reason", out->finish, sizeof out->finish))
        FAIL(STATUS_PROTOCOL, "a kept record of the engine cannot be read");
    (void)record_number(record, "at_us", INT64_MAX, at_us); /* else the time of the reading */
    out->record_seq = (uint64_t)number[0];
    out->prompt_tokens = (uint32_t)number[1];
    out->cached_tokens = (uint32_t)number[2];
    out->completion_tokens = (uint32_t)number[3];
    if (record_number(record, "reasoning_tokens", number[3], &number[0])) /* else none is told */
        out->reasoning_tokens = (uint32_t)number[0];
    out->is_estimated = json_is_true(json_object_get(record, "estimated"));
    return STATUS_OK;
}

/* Finds the record's tenant and key. A record of an unknown tenant or key is counted under
 * "unknown". */
static void record_account(struct edge_replay *replay, const json_t *record, struct ledger_row *row)
{
    uint8_t tenant[16];
    uint8_t key[16];
    if (record_hash(record, "tenant", tenant) && record_hash(record, "key", key) &&
        auth_find_account(replay->edge->auth, tenant, key, row->tenant_id, row->key_id) ==
            STATUS_OK)
        return;
    snprintf(row->tenant_id, sizeof row->tenant_id, "unknown");
    row->key_id[0] = '\0';
    LOG(LOG_WARN, "record_of_unknown", LOG_TEXT("request_id", row->request_id),
        LOG_NUMBER("prompt_tokens", row->prompt_tokens),
        LOG_NUMBER("completion_tokens", row->completion_tokens));
}

/* The model that ran. A record without a model, from an older engine, leaves the row's; if that is
 * empty too, the row gets the model that is served now. */
static void record_model(const struct edge_replay *replay, const json_t *record,
                         struct ledger_row *row)
{
    char model[LEDGER_MODEL_BYTES];
    if (record_text(record, "model", model, sizeof model) && model[0] != '\0')
        memcpy(row->model, model, strlen(model) + 1);
    else if (row->model[0] == '\0')
        snprintf(row->model, sizeof row->model, "%s",
                 edge_probe_engine(replay->edge->probe)->model);
}

/* Fills a row from the record alone, because the request belongs to an edge that has ended. */
static void record_row(struct edge_replay *replay, const json_t *record,
                       const struct edge_final *final, int64_t at_us, struct ledger_row *row)
{
    row->at_us = at_us != 0 ? at_us : clock_wall_us(clock_system());
    edge_settle_fill(row, final);
    record_account(replay, record, row);
    record_model(replay, record, row);
    if (!record_text(record, "route", row->route, sizeof row->route))
        snprintf(row->route, sizeof row->route, "unknown");
    if (!record_text(record, "class", row->service_class, sizeof row->service_class))
        snprintf(row->service_class, sizeof row->service_class, "standard");
    row->http_code = strcmp(final->finish, "cancelled") == 0 ? 499 : 200;
    row->total_us = final->queue_us + final->prefill_us + final->decode_us;
}

static void page_over(struct edge_replay *replay);

static void page_row_done(void *context, bool is_recorded)
{
    struct page_row *row = context;
    struct edge_replay *replay = row->replay;
    if (is_recorded)
        edge_ack_mark(&replay->ack, row->record_seq); /* else it stays a gap and is read again */
    if (--replay->page_open == 0 && !replay->is_closed)
        page_over(replay);
}

/* Counts one record, or leaves it to the job whose stream brings it. */
static void page_record(struct edge_replay *replay, const json_t *record,
                        const struct edge_final *final, int64_t at_us)
{
    char request_id[LIMIT_REQUEST_ID_BYTES];
    if (!record_text(record, "request_id", request_id, sizeof request_id) || request_id[0] == '\0')
        snprintf(request_id, sizeof request_id, "record_%llu",
                 (unsigned long long) final->record_seq);
    if (edge_ack_is_marked(&replay->ack, final->record_seq) ||
        replay->jobs->expects(replay->edge, request_id))
        return;
    struct page_row *row = &replay->page[replay->page_count++];
    edge_settle_deinit(&row->settle);
    *row = (struct page_row){.replay = replay,
                             .record_seq = final->record_seq,
                             .settle = {.done = page_row_done, .context = row}};
    struct ledger_row *out = &row->settle.row;
    struct awaited *awaited = awaited_find(replay, request_id);
    if (awaited != NULL) {
        *out = awaited->row;
        edge_settle_fill(out, final);
        record_model(replay, record, out);
        awaited_drop(replay, awaited);
    } else {
        snprintf(out->request_id, sizeof out->request_id, "%s", request_id);
        record_row(replay, record, final, at_us, out);
        row->settle.is_replayed = true;
        replay->jobs->refuse(replay->edge, request_id);
    }
    metric_add(replay->edge->metrics.rows_replayed, 1);
}

/* Records are numbered when they are complete. So a number that the list leaves out is lost: the
 * engine's ring has overwritten it, or its file is damaged. Lost records are logged and skipped. */
static void page_gap(struct edge_replay *replay, uint64_t record_seq)
{
    uint64_t first = replay->page_after + 1;
    uint64_t lost = 0;
    for (uint64_t seq = first; seq < record_seq && seq - first < LIMIT_FINAL_RECORDS; seq++)
        lost += !edge_ack_is_marked(&replay->ack, seq);
    if (lost == 0)
        return;
    LOG(LOG_ERROR, "records_lost", LOG_NUMBER("records", lost));
    edge_ack_skip(&replay->ack, first, record_seq - 1);
}

static void page_read_one(struct edge_replay *replay, const json_t *record)
{
    struct edge_final final;
    int64_t at_us = 0;
    int64_t record_seq = 0;
    if (!record_number(record, "record_seq", INT64_MAX, &record_seq) ||
        (uint64_t)record_seq <= replay->page_after)
        return; /* out of order: a page of such records ends the reading */
    page_gap(replay, (uint64_t)record_seq);
    replay->page_after = (uint64_t)record_seq;
    if (record_final(record, &final, &at_us) == STATUS_OK) {
        page_record(replay, record, &final, at_us);
    } else {
        log_failure(LOG_ERROR, "record_broken"); /* skipped, or it would be a gap for ever */
        edge_ack_mark(&replay->ack, (uint64_t)record_seq);
    }
}

static enum status page_read(struct edge_replay *replay, const json_t *root)
{
    int64_t acked = 0;
    const json_t *data = json_object_get(root, "data");
    const char *instance = json_string_value(json_object_get(root, "instance"));
    if (!json_is_array(data) || json_array_size(data) > PAGE_RECORDS || instance == NULL ||
        !record_number(root, "acked", INT64_MAX, &acked))
        FAIL(STATUS_PROTOCOL, "the engine's list of records cannot be read");
    if (strcmp(instance, replay->instance) != 0)
        FAIL(STATUS_UNAVAILABLE, "the list of records is another engine's");
    if (replay->is_fresh) {
        edge_ack_reset(&replay->ack, (uint64_t)acked);
        replay->acknowledged = (uint64_t)acked;
        replay->page_after = (uint64_t)acked;
        replay->is_fresh = false;
    }
    uint64_t before = replay->page_after;
    replay->page_has_more = json_is_true(json_object_get(root, "has_more"));
    for (size_t i = 0; i < json_array_size(data); i++)
        page_read_one(replay, json_array_get(data, i));
    if (replay->page_after == before)
        replay->page_has_more = false;
    return STATUS_OK;
}

/* --- one reading of all pages --- */

static void reading_over(struct edge_replay *replay)
{
    struct edge *edge = replay->edge;
    replay->is_running = false;
    ack_moved(replay);
    if (replay->is_due || replay->waiting != 0) {
        loop_timer_arm(replay->again, replay->again_ms);
        replay->again_ms =
            replay->again_ms * 2 < AGAIN_MS_MAX ? replay->again_ms * 2 : AGAIN_MS_MAX;
    } else {
        replay->again_ms = AGAIN_MS;
    }
    if (edge_probe_engine(edge->probe)->state == EDGE_PROBE_UP)
        edge_wait_open(edge->wait);
}

/* A page is done. A gap may last for minutes, for example while a client does not read, with
 * thousands of counted records after it. Those are skipped, not read each time. */
static void page_over(struct edge_replay *replay)
{
    replay->page_after = edge_ack_run_end(&replay->ack, replay->page_after);
    if (replay->page_has_more)
        page_ask(replay);
    else
        reading_over(replay);
}

static void page_begin(struct edge_replay *replay)
{
    struct edge *edge = replay->edge;
    replay->page_open = replay->page_count;
    for (uint32_t i = 0; i < replay->page_count; i++)
        edge_settle_begin(&replay->page[i].settle, edge);
    if (replay->page_count == 0)
        page_over(replay);
}

static enum status page_parse(struct edge_replay *replay)
{
    TRY(replay->incoming.status);
    json_t *root =
        json_loadb(replay->incoming.bytes, replay->incoming.length, JSON_REJECT_DUPLICATES, NULL);
    enum status status = page_read(replay, root);
    json_decref(root);
    return status;
}

/* After a cut, or a page of another engine, the next health check decides. A page that cannot be
 * read is logged, and the engine is used anyway, so that requests do not wait for ever. */
static void page_ended(void *context, enum status status)
{
    struct edge_replay *replay = context;
    replay->exchange = NULL;
    loop_timer_disarm(replay->again);
    if (replay->is_closed)
        return;
    replay->page_count = 0;
    if (status == STATUS_OK && replay->code != 200)
        status = status_fail(STATUS_PROTOCOL, __FILE__, __LINE__, NULL,
                             "the engine answers %d when it is asked for records", replay->code);
    else if (status == STATUS_OK)
        status = page_parse(replay);
    else
        status = STATUS_UNAVAILABLE;
    if (status == STATUS_OK) {
        page_begin(replay);
        return;
    }
    replay->is_due = true;
    if (status == STATUS_UNAVAILABLE) {
        replay->is_running = false;
        edge_probe_suspect(replay->edge->probe);
    } else {
        log_failure(LOG_ERROR, "records_unreadable");
        reading_over(replay);
    }
}

static void page_head(void *context, const struct http1_head *head)
{
    struct edge_replay *replay = context;
    replay->code = head->code;
}

static void page_body(void *context, struct slice bytes)
{
    struct edge_replay *replay = context;
    buffer_append_slice(&replay->incoming, bytes);
}

static void page_ask(struct edge_replay *replay)
{
    static const struct http1_callbacks callbacks = {page_head, page_body, page_ended};
    char head[160];
    int length = snprintf(
        head, sizeof head, "GET /internal/v1/finals?after=%llu&limit=%d HTTP/1.1\r\nhost: engine",
        (unsigned long long)(replay->is_fresh ? 0 : replay->page_after), PAGE_RECORDS);
    replay->code = 0;
    buffer_clear(&replay->incoming);
    struct http1_exchange *exchange = NULL;
    if (http1_exchange_start(replay->edge->client, (struct slice){head, (size_t)length},
                             (struct slice){0}, &callbacks, replay, &exchange) == STATUS_OK) {
        replay->exchange = exchange;
        loop_timer_arm(replay->again, ANSWER_MS);
        return;
    }
    replay->is_running = false; /* no connection is free: tried again after the next check */
    replay->is_due = true;
}

static void reading_start(struct edge_replay *replay)
{
    if (replay->is_running || replay->is_closed)
        return;
    replay->is_running = true;
    replay->is_due = false;
    replay->page_after = replay->ack.prefix;
    page_ask(replay);
}

static void reading_again(void *context)
{
    struct edge_replay *replay = context;
    if (replay->exchange != NULL)
        http1_exchange_cancel(replay->exchange); /* the page has not come in time */
    else if (edge_probe_engine(replay->edge->probe)->state == EDGE_PROBE_UP)
        reading_start(replay);
}

/* --- the tick --- */

static void tick(void *context)
{
    struct edge_replay *replay = context;
    replay->is_ticking = false;
    awaited_expire(replay, loop_now_us(replay->edge->loop));
    if (replay->ack_exchange != NULL && ++replay->ack_ticks * TICK_MS >= ANSWER_MS)
        http1_exchange_cancel(replay->ack_exchange);
    ack_send(replay);
    bool is_same = edge_ack_has_gap(&replay->ack) && replay->gap_prefix == replay->ack.prefix;
    replay->gap_ticks = is_same ? replay->gap_ticks + 1 : 0;
    replay->gap_prefix = replay->ack.prefix;
    if (replay->gap_ticks >= GAP_TICKS) {
        replay->is_due = true;
        if (edge_probe_engine(replay->edge->probe)->state == EDGE_PROBE_UP)
            reading_start(replay);
    }
    tick_arm(replay);
}

static void tick_arm(struct edge_replay *replay)
{
    bool is_needed = replay->waiting != 0 || replay->ack.prefix > replay->acknowledged ||
                     edge_ack_has_gap(&replay->ack);
    if (replay->is_ticking || !is_needed)
        return;
    replay->is_ticking = true;
    loop_timer_arm(replay->tick, TICK_MS);
}

/* --- what callers see --- */

enum status edge_replay_create(struct edge_replay **out, struct edge *edge,
                               const struct edge_replay_jobs *jobs)
{
    struct edge_replay *replay = mem_zalloc(1, sizeof *replay);
    if (replay == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for records of the engine");
    replay->edge = edge;
    replay->jobs = jobs;
    replay->is_fresh = true;
    replay->again_ms = AGAIN_MS;
    buffer_init(&replay->incoming, PAGE_BYTES_MAX);
    buffer_init(&replay->ack_answer, LIMIT_HEAD_BYTES);
    replay->tick = loop_timer_create(edge->loop, tick, replay);
    replay->again = loop_timer_create(edge->loop, reading_again, replay);
    if (replay->tick == NULL || replay->again == NULL) {
        edge_replay_destroy(replay);
        FAIL(STATUS_NO_MEMORY, "no memory for records of the engine");
    }
    *out = replay;
    return STATUS_OK;
}

void edge_replay_close(struct edge_replay *replay)
{
    if (replay == NULL)
        return;
    replay->is_closed = true;
    if (replay->exchange != NULL)
        http1_exchange_cancel(replay->exchange);
    if (replay->ack_exchange != NULL)
        http1_exchange_cancel(replay->ack_exchange);
    loop_timer_disarm(replay->tick);
    loop_timer_disarm(replay->again);
    while (replay->awaited != NULL) {
        struct awaited *row = replay->awaited;
        row->row.is_estimated = true;
        if (ledger_append(replay->edge->ledger, &row->row, NULL, NULL) != STATUS_OK)
            LOG(LOG_ERROR, "ledger_row_lost", LOG_TEXT("request_id", row->row.request_id),
                LOG_NUMBER("completion_tokens", row->row.completion_tokens));
        awaited_drop(replay, row);
    }
}

void edge_replay_destroy(struct edge_replay *replay)
{
    if (replay == NULL)
        return;
    for (size_t i = 0; i < PAGE_RECORDS; i++)
        edge_settle_deinit(&replay->page[i].settle);
    while (replay->late != NULL)
        late_drop(replay->late);
    while (replay->awaited != NULL)
        awaited_drop(replay, replay->awaited);
    if (replay->tick != NULL)
        loop_timer_destroy(replay->tick);
    if (replay->again != NULL)
        loop_timer_destroy(replay->again);
    buffer_deinit(&replay->incoming);
    buffer_deinit(&replay->ack_answer);
    mem_free(replay);
}

void edge_replay_checked(void *context, const struct edge_probe_engine *engine)
{
    struct edge_replay *replay = context;
    struct edge_wait *wait = replay->edge->wait;
    if (engine->state != EDGE_PROBE_UP) {
        edge_wait_shut(wait);
        if (engine->state == EDGE_PROBE_FOREIGN)
            edge_wait_refuse_all(wait);
        return;
    }
    if (strcmp(engine->instance, replay->instance) != 0) {
        snprintf(replay->instance, sizeof replay->instance, "%s", engine->instance);
        replay->is_fresh = true;
        replay->is_due = true;
    }
    /* The engine keeps records although all that are counted here are acknowledged: another edge,
     * or none, has seen them. */
    if (engine->finals_waiting != 0 && replay->ack.prefix == replay->acknowledged)
        replay->is_due = true;
    if (replay->is_due || replay->is_fresh || replay->waiting != 0)
        reading_start(replay);
    else if (!replay->is_running)
        edge_wait_open(wait);
}

void edge_replay_await(struct edge_replay *replay, const struct ledger_row *row)
{
    int64_t wait_us = replay->edge->config->replay_wait_s * INT64_C(1000000);
    struct awaited *awaited = NULL;
    if (replay->waiting < LIMIT_ROWS_AWAITED && wait_us != 0 && !replay->is_closed)
        awaited = mem_zalloc(1, sizeof *awaited);
    if (awaited == NULL) {
        late_commit(replay, row);
        return;
    }
    awaited->row = *row;
    awaited->until_us = loop_now_us(replay->edge->loop) + wait_us;
    awaited->next = replay->awaited;
    if (awaited->next != NULL)
        awaited->next->previous = awaited;
    replay->awaited = awaited;
    replay->waiting++;
    metric_set(replay->edge->metrics.rows_awaited, replay->waiting);
    tick_arm(replay);
    edge_replay_suspect(replay);
}

void edge_replay_counted(struct edge_replay *replay, uint64_t record_seq)
{
    edge_ack_mark(&replay->ack, record_seq);
    ack_moved(replay);
}

void edge_replay_suspect(struct edge_replay *replay)
{
    if (replay->is_closed)
        return;
    replay->is_due = true;
    replay->again_ms = AGAIN_MS;
    edge_probe_suspect(replay->edge->probe);
}

uint32_t edge_replay_waiting(const struct edge_replay *replay)
{
    return replay != NULL ? replay->waiting : 0;
}
