#include "auth/ledger/ledger.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "auth/ledger/ledger_recent.h"
#include "auth/ledger/ledger_retention.h"
#include "auth/ledger/ledger_rows.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/metrics.h"
#include "config/base/ring.h"

enum {
    RETRY_MS = 100,                     /* between two attempts to commit */
    PATIENCE_MS = 1000,                 /* then the end of an answer no longer waits for its row */
    ITEMS_MAX = 2 * LIMIT_LEDGER_QUEUE, /* the ring and `pending`, both full */
    EXPIRE_MS = 60000,                  /* between two searches for old rows */
    /* between two deletions, so that the writer gets its turn */
    EXPIRE_PAUSE_MS = 20,
    CLOSE_ATTEMPTS = 10,  /* at the close, then rows that cannot be written are lost */
    HERE_US = 1000,       /* a longer commit on a caller's thread counts as slow */
    HERE_REST_S = 1,      /* after a slow one there is none for so long, doubled each time */
    HERE_REST_MAX_S = 64, /* up to this */
    HERE_FAST = 64,       /* so many fast ones in a row set the pause back to HERE_REST_S */
};

/* Seconds: from a commit in memory (10 µs) to one that waits for a slow disk. */
static const double commit_buckets[] = {0.00005, 0.0001, 0.0005, 0.001, 0.005,
                                        0.02,    0.1,    0.25,   1,     5};
static const double batch_buckets[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, LIMIT_LEDGER_BATCH};

struct item {
    struct ledger_row row;
    ledger_committed committed; /* NULL: it has run, or there is none */
    void *context;
    int64_t queued_at_us;
    bool is_duplicate; /* its request id was counted before */
};

struct ledger_metrics {
    struct metric *commit_seconds; /* all NULL without a registry */
    struct metric *batch_rows;
    struct metric *rows;
    struct metric *duplicates;
};

/* append (any thread) ─► ring ─► pending ─► commit ─► committed() … batch_told()  writer thread
 *   ▲                               └── stays there while commits fail, up to its capacity; then
 *   │                                   the ring fills, then appends are BUSY
 *   └─ free ◄── items, allocated when first needed and never given back
 * wal pages ≥ LEDGER_ROWS_WAL_PAGES ─► passive checkpoint              checkpoint thread */
struct ledger {
    struct ring ring; /* of struct item * */
    struct ring free; /* of struct item *; holds all there are */
    struct item *
        *pending; /* [LIMIT_LEDGER_QUEUE], oldest at pending_first, going round; writer's */
    size_t pending_first;
    size_t pending_count;
    struct ledger_recent recent; /* writer's */
    struct ledger_rows *rows;
    /* Held during a commit; guards what is marked as the writer's above and the three below. */
    pthread_mutex_t committing;
    int64_t here_after_us; /* before this time, callers' threads do not commit */
    int64_t here_rest_us;
    uint32_t here_fast;
    bool is_full;
    void (*batch_told)(void *context);
    void *batch_context;
    int64_t (*price)(void *context, const struct ledger_row *row);
    void *price_context;
    struct ledger_metrics metrics;
    struct ledger_retention retention; /* this and the next are used by the second thread alone */
    struct ledger_expiry expiry;
    uint32_t keep_days;
    uint32_t expire_ms;
    char path[LIMIT_OPTION_BYTES + 64];

    pthread_mutex_t lock; /* the flags below; held for no longer than setting them */
    pthread_cond_t wake_writer;
    pthread_cond_t wake_checkpoint;
    atomic_bool has_rows; /* set by appends without the lock: only the first one wakes */
    bool must_checkpoint;
    bool must_stop;
    bool must_stop_checkpoint;
    pthread_t writer;
    pthread_t checkpointer;

    atomic_bool is_failing;
    _Atomic int64_t oldest_us; /* when the oldest row of `pending` was queued; 0: none */
    _Atomic uint32_t item_count;
    _Atomic uint64_t queued;
    _Atomic uint64_t rows_written;
    _Atomic uint64_t prompt_tokens;
    _Atomic uint64_t completion_tokens;
    _Atomic uint64_t deleted;
    _Atomic int64_t kept_since_us;
};

/* --- writer --- */

static struct item *pending_at(const struct ledger *ledger, size_t index)
{
    return ledger->pending[(ledger->pending_first + index) & (LIMIT_LEDGER_QUEUE - 1)];
}

static void item_price(const struct ledger *ledger, struct item *item)
{
    item->row.cost_nano =
        ledger->price != NULL ? ledger->price(ledger->price_context, &item->row) : 0;
}

static bool tell(struct item *item, enum status status)
{
    if (item->committed == NULL)
        return false;
    item->committed(item->context, status, item->row.cost_nano);
    item->committed = NULL;
    return true;
}

static void tell_batch(struct ledger *ledger)
{
    if (ledger->batch_told != NULL)
        ledger->batch_told(ledger->batch_context);
}

static void writer_note_oldest(struct ledger *ledger)
{
    atomic_store(&ledger->oldest_us,
                 ledger->pending_count > 0 ? pending_at(ledger, 0)->queued_at_us : 0);
}

/* Moves queued rows into `pending`, as far as it has room. This and the following functions are
 * called with `committing` held, up to writer_drain. */
static void writer_gather(struct ledger *ledger)
{
    struct item *item = NULL;
    while (ledger->pending_count < LIMIT_LEDGER_QUEUE && ring_pop(&ledger->ring, &item)) {
        item->is_duplicate = !ledger_recent_add(&ledger->recent, slice_of(item->row.request_id));
        size_t at = ledger->pending_first + ledger->pending_count++;
        ledger->pending[at & (LIMIT_LEDGER_QUEUE - 1)] = item;
    }
    writer_note_oldest(ledger);
}

static enum status writer_commit(struct ledger *ledger, size_t count)
{
    enum status status = ledger_rows_begin(ledger->rows);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        struct item *item = pending_at(ledger, i);
        if (item->is_duplicate)
            continue;
        item_price(ledger, item);
        status = ledger_rows_add(ledger->rows, &item->row);
    }
    enum status ended = ledger_rows_end(ledger->rows, status == STATUS_OK);
    return status != STATUS_OK ? status : ended;
}

static void writer_count(struct ledger *ledger, size_t count)
{
    struct ledger_totals sums = {0};
    for (size_t i = 0; i < count; i++) {
        const struct item *item = pending_at(ledger, i);
        if (item->is_duplicate)
            continue;
        sums.rows++;
        sums.prompt_tokens += item->row.prompt_tokens;
        sums.completion_tokens += item->row.completion_tokens;
    }
    atomic_fetch_add(&ledger->rows_written, sums.rows);
    atomic_fetch_add(&ledger->prompt_tokens, sums.prompt_tokens);
    atomic_fetch_add(&ledger->completion_tokens, sums.completion_tokens);
    if (ledger->metrics.rows == NULL)
        return;
    metric_add(ledger->metrics.rows, (int64_t)sums.rows);
    metric_add(ledger->metrics.duplicates, (int64_t)(count - sums.rows));
    metric_observe(ledger->metrics.batch_rows, (double)count);
}

static void free_item(struct ledger *ledger, struct item *item)
{
    bool is_kept = ring_push(&ledger->free, &item);
    ASSERT(is_kept); /* the ring has room for ITEMS_MAX items */
}

/* The first `count` rows are in the file. The totals are updated first, so that a caller that is
 * told of its row finds it in them. */
static void writer_committed(struct ledger *ledger, size_t count)
{
    if (atomic_exchange(&ledger->is_failing, false))
        LOG(LOG_INFO, "ledger_recovered", LOG_NUMBER("rows", count));
    writer_count(ledger, count);
    atomic_fetch_sub(&ledger->queued, count);
    for (size_t i = 0; i < count; i++) {
        struct item *item = pending_at(ledger, i);
        tell(item, item->is_duplicate ? STATUS_EXISTS : STATUS_OK);
        free_item(ledger, item);
    }
    ledger->pending_first += count;
    ledger->pending_count -= count;
    writer_note_oldest(ledger);
}

/* A commit failed. The rows stay for the next attempt; rows that have waited for PATIENCE_MS are
 * told of the failure, so that no client waits for ever. */
static void writer_failed(struct ledger *ledger, enum status status)
{
    if (!atomic_exchange(&ledger->is_failing, true))
        log_failure(LOG_ERROR, "ledger_failed");
    int64_t now_us = clock_mono_us(clock_system());
    bool was_told = false;
    for (size_t i = 0; i < ledger->pending_count; i++) {
        struct item *item = pending_at(ledger, i);
        if (now_us - item->queued_at_us < PATIENCE_MS * INT64_C(1000))
            continue;
        item_price(ledger, item); /* the failed commit may have ended before this row */
        was_told = tell(item, status) || was_told;
    }
    if (was_told)
        tell_batch(ledger);
}

/* Asks the second thread for a checkpoint when the write-ahead log has grown. */
static void writer_ask_checkpoint(struct ledger *ledger)
{
    if (ledger_rows_wal_pages(ledger->rows) < LEDGER_ROWS_WAL_PAGES)
        return;
    pthread_mutex_lock(&ledger->lock);
    ledger->must_checkpoint = true;
    pthread_cond_signal(&ledger->wake_checkpoint);
    pthread_mutex_unlock(&ledger->lock);
}

static struct timespec deadline_after_ms(int64_t ms)
{
    int64_t at_us = clock_mono_us(clock_system()) + ms * 1000;
    return (struct timespec){.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000};
}

/* Sleeps until rows come, or for RETRY_MS while commits fail. Returns whether to stop. */
static bool writer_wait(struct ledger *ledger, bool is_retry)
{
    struct timespec deadline = deadline_after_ms(RETRY_MS);
    int timed_out = 0;
    pthread_mutex_lock(&ledger->lock);
    while (timed_out == 0 && !ledger->must_stop && (is_retry || !atomic_load(&ledger->has_rows))) {
        if (is_retry)
            timed_out = pthread_cond_timedwait(&ledger->wake_writer, &ledger->lock, &deadline);
        else
            pthread_cond_wait(&ledger->wake_writer, &ledger->lock);
    }
    /* before the ring is read, so that no wake-up is lost */
    atomic_store(&ledger->has_rows, false);
    bool must_stop = ledger->must_stop;
    pthread_mutex_unlock(&ledger->lock);
    return must_stop;
}

/* Commits the oldest rows, at most LIMIT_LEDGER_BATCH. */
static enum status writer_batch(struct ledger *ledger)
{
    size_t count =
        ledger->pending_count < LIMIT_LEDGER_BATCH ? ledger->pending_count : LIMIT_LEDGER_BATCH;
    int64_t begun_us = clock_mono_us(clock_system());
    enum status status = writer_commit(ledger, count);
    if (ledger->metrics.commit_seconds != NULL)
        metric_observe(ledger->metrics.commit_seconds,
                       (double)(clock_mono_us(clock_system()) - begun_us) / 1e6);
    if (status == STATUS_OK)
        writer_committed(ledger, count);
    return status;
}

/* Commits until nothing is queued. False when a commit failed. */
static bool writer_drain(struct ledger *ledger)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&ledger->committing);
    for (writer_gather(ledger); ledger->pending_count > 0; writer_gather(ledger)) {
        status = writer_batch(ledger);
        if (status != STATUS_OK) {
            writer_failed(ledger, status);
            break;
        }
        tell_batch(ledger);
        if (ledger_rows_wal_pages(ledger->rows) >= LEDGER_ROWS_WAL_PAGES_MAX &&
            ledger_rows_checkpoint(ledger->rows, true) != STATUS_OK)
            log_failure(LOG_WARN, "ledger_checkpoint_failed");
        writer_ask_checkpoint(ledger);
    }
    pthread_mutex_unlock(&ledger->committing);
    return status == STATUS_OK;
}

static void *writer_main(void *context)
{
    struct ledger *ledger = context;
    bool is_retry = false;
    while (!writer_wait(ledger, is_retry))
        is_retry = !writer_drain(ledger);
    for (int attempt = 1; !writer_drain(ledger); attempt++) {
        if (attempt == CLOSE_ATTEMPTS) {
            LOG(LOG_ERROR, "ledger_rows_lost", LOG_NUMBER("rows", ledger->pending_count));
            for (size_t i = 0; i < ledger->pending_count; i++)
                tell(pending_at(ledger, i), STATUS_IO);
            tell_batch(ledger);
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
    }
    return NULL;
}

/* --- the second thread --- */

/* Waits for a wake-up, at most until `deadline`, with the lock held. True when the deadline has
 * come: then it is time to search for old rows. */
static bool second_wait(struct ledger *ledger, const struct timespec *deadline)
{
    int timed_out = 0;
    while (timed_out == 0 && !ledger->must_checkpoint && !ledger->must_stop_checkpoint)
        timed_out = pthread_cond_timedwait(&ledger->wake_checkpoint, &ledger->lock, deadline);
    return timed_out != 0;
}

static void second_checkpoint(struct ledger *ledger)
{
    if (ledger_rows_checkpoint(ledger->rows, false) != STATUS_OK)
        log_failure(LOG_WARN, "ledger_checkpoint_failed"); /* the log grows; rows are safe */
}

/* One small deletion. False when nothing is left to do until the next search. */
static bool second_expire(struct ledger *ledger)
{
    struct ledger_expiry *expiry = &ledger->expiry;
    enum status status = ledger_rows_expire(ledger->rows, expiry);
    atomic_store(&ledger->deleted, expiry->deleted);
    if (status != STATUS_OK)
        log_failure(LOG_WARN, "ledger_expire_failed"); /* tried again at the next look */
    return status == STATUS_OK && !expiry->is_done;
}

/* Decides which rows are too old now, by a clock that may be wrong. */
static void second_look(struct ledger *ledger)
{
    struct ledger_expiry *expiry = &ledger->expiry;
    bool has_stepped = false;
    expiry->now_us = clock_wall_us(clock_system());
    if (!ledger->retention.is_begun) { /* finds the oldest row and deletes none */
        expiry->cutoff_us = INT64_MIN;
        while (second_expire(ledger))
            ;
    }
    expiry->cutoff_us =
        ledger_retention_step(&ledger->retention, expiry->now_us, clock_mono_us(clock_system()),
                              expiry->front_us, &has_stepped);
    if (has_stepped)
        LOG(LOG_WARN, "ledger_clock_stepped", LOG_NUMBER("wall_us", expiry->now_us));
    atomic_store(&ledger->kept_since_us, expiry->cutoff_us);
}

static void *second_main(void *context)
{
    struct ledger *ledger = context;
    bool is_expiring = false;
    struct timespec deadline = deadline_after_ms(ledger->expire_ms);
    pthread_mutex_lock(&ledger->lock);
    while (!ledger->must_stop_checkpoint) {
        bool is_due = second_wait(ledger, &deadline);
        bool must_checkpoint = ledger->must_checkpoint;
        ledger->must_checkpoint = false;
        pthread_mutex_unlock(&ledger->lock);
        if (must_checkpoint)
            second_checkpoint(ledger);
        if (is_due && ledger->keep_days != 0) {
            if (!is_expiring)
                second_look(ledger);
            is_expiring = second_expire(ledger);
        }
        if (is_due)
            deadline = deadline_after_ms(is_expiring ? EXPIRE_PAUSE_MS : ledger->expire_ms);
        pthread_mutex_lock(&ledger->lock);
    }
    pthread_mutex_unlock(&ledger->lock);
    return NULL;
}

/* --- open and close --- */

static void open_take_recent(void *context, struct slice request_id)
{
    ledger_recent_add(context, request_id);
}

static void open_metrics(struct ledger_metrics *out, struct metrics *registry)
{
    if (registry == NULL)
        return;
    out->commit_seconds =
        metrics_get(registry, METRIC_HISTOGRAM, "banyan_ledger_commit_seconds",
                    "One transaction of the ledger, failed ones too.", "", commit_buckets,
                    sizeof commit_buckets / sizeof commit_buckets[0]);
    out->batch_rows = metrics_get(registry, METRIC_HISTOGRAM, "banyan_ledger_batch_rows",
                                  "Rows that one transaction committed.", "", batch_buckets,
                                  sizeof batch_buckets / sizeof batch_buckets[0]);
    out->rows = metrics_get(registry, METRIC_COUNTER, "banyan_ledger_rows_total", "Rows committed.",
                            "", NULL, 0);
    out->duplicates = metrics_get(registry, METRIC_COUNTER, "banyan_ledger_duplicates_total",
                                  "Rows of requests that had one already.", "", NULL, 0);
}

static enum status open_parts(struct ledger *ledger, const struct ledger_options *options)
{
    open_metrics(&ledger->metrics, options->metrics);
    ledger->batch_told = options->batch_told;
    ledger->batch_context = options->batch_context;
    ledger->price = options->price;
    ledger->price_context = options->price_context;
    ledger->keep_days = options->keep_days;
    ledger->expire_ms = options->expire_ms != 0 ? options->expire_ms : EXPIRE_MS;
    if (options->keep_days != 0)
        ledger_retention_init(&ledger->retention, options->keep_days);
    int length = snprintf(ledger->path, sizeof ledger->path, "%s", options->path);
    if (length < 0 || (size_t)length >= sizeof ledger->path)
        FAIL(STATUS_LIMIT, "the ledger's path is too long");
    TRY(ring_init(&ledger->ring, LIMIT_LEDGER_QUEUE, sizeof(struct item *)));
    TRY(ring_init(&ledger->free, ITEMS_MAX, sizeof(struct item *)));
    TRY(ledger_recent_init(&ledger->recent, LIMIT_LEDGER_RECENT));
    ledger->pending = mem_zalloc(LIMIT_LEDGER_QUEUE, sizeof *ledger->pending);
    if (ledger->pending == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the ledger's queue");
    ledger->is_full = options->is_full;
    ledger->here_rest_us = HERE_REST_S * INT64_C(1000000);
    TRY(ledger_rows_open(&ledger->rows, options->path, options->is_full));
    return ledger_rows_recent(ledger->rows, LIMIT_LEDGER_RECENT, &ledger->recent, open_take_recent);
}

static void close_ring(struct ring *ring)
{
    struct item *item = NULL;
    while (ring->slots != NULL && ring_pop(ring, &item))
        mem_free(item);
    ring_deinit(ring);
}

static void close_parts(struct ledger *ledger)
{
    ledger_rows_close(ledger->rows);
    ledger_recent_deinit(&ledger->recent);
    for (size_t i = 0; i < ledger->pending_count; i++)
        mem_free(pending_at(ledger, i));
    close_ring(&ledger->ring);
    close_ring(&ledger->free);
    mem_free(ledger->pending);
    pthread_cond_destroy(&ledger->wake_writer);
    pthread_cond_destroy(&ledger->wake_checkpoint);
    pthread_mutex_destroy(&ledger->committing);
    pthread_mutex_destroy(&ledger->lock);
    mem_free(ledger);
}

static void close_thread(struct ledger *ledger, pthread_t thread, bool *must_stop)
{
    pthread_mutex_lock(&ledger->lock);
    *must_stop = true;
    pthread_cond_signal(&ledger->wake_writer);
    pthread_cond_signal(&ledger->wake_checkpoint);
    pthread_mutex_unlock(&ledger->lock);
    pthread_join(thread, NULL);
}

static enum status open_threads(struct ledger *ledger)
{
    if (pthread_create(&ledger->writer, NULL, writer_main, ledger) != 0)
        FAIL(STATUS_NO_MEMORY, "no thread for the ledger");
    if (pthread_create(&ledger->checkpointer, NULL, second_main, ledger) != 0) {
        close_thread(ledger, ledger->writer, &ledger->must_stop);
        FAIL(STATUS_NO_MEMORY, "no thread for the ledger");
    }
    return STATUS_OK;
}

enum status ledger_open(struct ledger **out, const struct ledger_options *options)
{
    *out = NULL;
    struct ledger *ledger = mem_alloc_aligned(64, sizeof *ledger);
    if (ledger == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the ledger");
    memset(ledger, 0, sizeof *ledger);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&ledger->wake_writer, &monotonic);
    pthread_cond_init(&ledger->wake_checkpoint, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&ledger->lock, NULL);
    pthread_mutex_init(&ledger->committing, NULL);
    enum status status = open_parts(ledger, options);
    if (status == STATUS_OK)
        status = open_threads(ledger);
    if (status != STATUS_OK) {
        close_parts(ledger);
        return status;
    }
    *out = ledger;
    return STATUS_OK;
}

void ledger_close(struct ledger *ledger)
{
    if (ledger == NULL)
        return;
    close_thread(ledger, ledger->writer, &ledger->must_stop);
    close_thread(ledger, ledger->checkpointer, &ledger->must_stop_checkpoint);
    close_parts(ledger);
}

/* --- callers --- */

bool ledger_is_writable(struct ledger *ledger)
{
    int64_t oldest_us = atomic_load(&ledger->oldest_us);
    if (atomic_load(&ledger->is_failing))
        return false;
    return oldest_us == 0 ||
           clock_mono_us(clock_system()) - oldest_us <= LIMIT_LEDGER_BEHIND_MS * INT64_C(1000);
}

/* A free item, or a new one while there are fewer than ITEMS_MAX. */
static struct item *append_item(struct ledger *ledger)
{
    struct item *item = NULL;
    if (ring_pop(&ledger->free, &item))
        return item;
    if (atomic_fetch_add(&ledger->item_count, 1) < ITEMS_MAX)
        item = mem_alloc(sizeof *item);
    if (item == NULL)
        atomic_fetch_sub(&ledger->item_count, 1);
    return item;
}

enum status ledger_queue(struct ledger *ledger, const struct ledger_row *row,
                         ledger_committed committed, void *context)
{
    ASSERT(row->request_id[0] != '\0');
    struct item *item = append_item(ledger);
    if (item == NULL)
        FAIL(STATUS_BUSY, "the ledger has no room for another row");
    item->row = *row;
    item->committed = committed;
    item->context = context;
    item->queued_at_us = clock_mono_us(clock_system());
    atomic_fetch_add(&ledger->queued, 1); /* first: the writer may be done before this returns */
    if (!ring_push(&ledger->ring, &item)) {
        atomic_fetch_sub(&ledger->queued, 1);
        free_item(ledger, item);
        FAIL(STATUS_BUSY, "the ledger's queue of %d rows is full", LIMIT_LEDGER_QUEUE);
    }
    return STATUS_OK;
}

void ledger_wake(struct ledger *ledger)
{
    if (atomic_exchange(&ledger->has_rows, true))
        return; /* the writer was woken already and has not looked yet */
    /* Taking the lock makes sure that a writer that is about to wait does wait. The signal comes
     * after the unlock, so that the woken writer does not block on the lock at once, which would be
     * two more changes of threads for each row. */
    pthread_mutex_lock(&ledger->lock);
    pthread_mutex_unlock(&ledger->lock);
    pthread_cond_signal(&ledger->wake_writer);
}

/* After a commit on a caller's thread: if it was slow, leaves commits to the writer's thread for a
 * time. */
static void here_look(struct ledger *ledger, int64_t begun_us)
{
    int64_t now_us = clock_mono_us(clock_system());
    if (now_us - begun_us <= HERE_US) {
        if (++ledger->here_fast == HERE_FAST)
            ledger->here_rest_us = HERE_REST_S * INT64_C(1000000);
        return;
    }
    ledger->here_fast = 0;
    ledger->here_after_us = now_us + ledger->here_rest_us;
    if (ledger->here_rest_us < HERE_REST_MAX_S * INT64_C(1000000))
        ledger->here_rest_us *= 2;
}

bool ledger_commit_here(struct ledger *ledger)
{
    if (ledger->is_full || atomic_load(&ledger->is_failing) ||
        pthread_mutex_trylock(&ledger->committing) != 0)
        return false;
    int64_t begun_us = clock_mono_us(clock_system());
    bool is_done = false;
    if (begun_us >= ledger->here_after_us &&
        ledger_rows_wal_pages(ledger->rows) < LEDGER_ROWS_WAL_PAGES_MAX) {
        writer_gather(ledger);
        ledger_rows_set_patience(ledger->rows, false);
        is_done = ledger->pending_count == 0 || writer_batch(ledger) == STATUS_OK;
        ledger_rows_set_patience(ledger->rows, true);
        is_done = is_done && ledger->pending_count == 0;
        here_look(ledger, begun_us);
        writer_ask_checkpoint(ledger);
    }
    pthread_mutex_unlock(&ledger->committing);
    return is_done;
}

enum status ledger_append(struct ledger *ledger, const struct ledger_row *row,
                          ledger_committed committed, void *context)
{
    enum status status = ledger_queue(ledger, row, committed, context);
    if (status == STATUS_OK)
        ledger_wake(ledger);
    return status;
}

static int64_t totals_bytes(const struct ledger *ledger, const char *ending)
{
    char path[sizeof ledger->path + 8];
    struct stat about;
    snprintf(path, sizeof path, "%s%s", ledger->path, ending);
    return stat(path, &about) == 0 ? about.st_size : 0;
}

void ledger_totals(struct ledger *ledger, struct ledger_totals *out)
{
    out->rows = atomic_load(&ledger->rows_written);
    out->prompt_tokens = atomic_load(&ledger->prompt_tokens);
    out->completion_tokens = atomic_load(&ledger->completion_tokens);
    out->queued = atomic_load(&ledger->queued);
    out->deleted = atomic_load(&ledger->deleted);
    out->kept_since_us = atomic_load(&ledger->kept_since_us);
    out->file_bytes = totals_bytes(ledger, "") + totals_bytes(ledger, "-wal");
}
