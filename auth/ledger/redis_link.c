#include "auth/ledger/redis_link.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <resolv.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/metrics.h"
#include "config/base/random_bytes.h"
#include "config/base/rng.h"

enum {
    TURN_MS = 200,
    PAUSE_FIRST_MS = 100,
    PAUSE_MOST_MS = 5000,
    PAUSE_DOUBLINGS = 6,
    VERSION_LEAST = 6,
    CODE_BYTES = 24,
};

static const char *const words[REDIS_REASON_COUNT] = {
#define REDIS_REASON(name, word, mend) word,
#include "auth/ledger/redis_reasons.def"
#undef REDIS_REASON
};
static const char *const mends[REDIS_REASON_COUNT] = {
#define REDIS_REASON(name, word, mend) mend,
#include "auth/ledger/redis_reasons.def"
#undef REDIS_REASON
};

struct redis_link {
    struct redis_link_options options;
    char password_file[LIMIT_OPTION_BYTES];
    redisContext *connection;            /* NULL: none */
    redisReplyObjectFunctions functions; /* hiredis's functions, without arrays */
    struct redis_link_server server;
    size_t queued;            /* commands whose reply has not been taken */
    enum redis_reason failed; /* the reason why this attempt failed */
    enum redis_reason told;   /* this and the next two were logged last */
    char told_code[CODE_BYTES];
    char told_mend[STATUS_MESSAGE_BYTES];
    char code[CODE_BYTES]; /* the first word of Redis's error reply; "": there was none */
    uint32_t failures;     /* failed attempts in a row */
    struct rng rng;
    struct metric *up; /* this and the next two are NULL without a registry */
    struct metric *connects;
    struct metric *errors[REDIS_REASON_COUNT];

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool must_stop; /* guarded by `lock` */
    atomic_bool is_up;
    atomic_int reason;
    _Atomic uint64_t attempts;
};

/* --- failures --- */

/* Every failure ends here. The message has none of Redis's own words, because an error may repeat
 * its command, and that may be AUTH with the password. */
enum status redis_link_refuse(struct redis_link *link, enum redis_reason reason)
{
    link->failed = reason;
    FAIL(STATUS_UNAVAILABLE, "Redis: %s", mends[reason]);
}

static enum redis_reason reason_of_errno(int error)
{
    if (error == EAGAIN || error == ETIMEDOUT || error == EINPROGRESS)
        return REDIS_REASON_TIMEOUT;
    if (error == ECONNRESET || error == EPIPE)
        return REDIS_REASON_CLOSED;
    return REDIS_REASON_REFUSED;
}

static enum status fail_connection(struct redis_link *link)
{
    int error = errno;
    switch (link->connection->err) {
    case REDIS_ERR_IO:
        return redis_link_refuse(link, reason_of_errno(error));
    case REDIS_ERR_EOF:
        return redis_link_refuse(link, REDIS_REASON_CLOSED);
    default:
        return redis_link_refuse(link, REDIS_REASON_REPLY);
    }
}

struct known_error {
    const char *begins;
    enum redis_reason reason;
};
static const struct known_error known_errors[] = {
    {"NOAUTH ", REDIS_REASON_PASSWORD},
    {"WRONGPASS ", REDIS_REASON_PASSWORD},
    {"ERR invalid password", REDIS_REASON_PASSWORD},
    {"ERR AUTH ", REDIS_REASON_PASSWORD}, /* a password was sent, and Redis has none */
    {"NOPERM ", REDIS_REASON_RIGHTS},
    {"ERR DB index", REDIS_REASON_DATABASE},
    {"ERR max number of clients", REDIS_REASON_CLIENTS},
    {"READONLY ", REDIS_REASON_READ_ONLY},
    {"OOM ", REDIS_REASON_MEMORY},
    {"MISCONF ", REDIS_REASON_DISK},
    {"LOADING ", REDIS_REASON_LOADING},
    {"MASTERDOWN ", REDIS_REASON_LOADING},
    {"BUSY ", REDIS_REASON_BUSY},
    {"NOSCRIPT ", REDIS_REASON_SCRIPT},
    {"WRONGTYPE ", REDIS_REASON_TYPE},
    {"ERR hash value is not an integer", REDIS_REASON_TYPE},
    {"CLUSTERDOWN ", REDIS_REASON_CLUSTER},
    {"CROSSSLOT ", REDIS_REASON_CLUSTER},
    {"MOVED ", REDIS_REASON_CLUSTER},
    {"ASK ", REDIS_REASON_CLUSTER},
    {"TRYAGAIN ", REDIS_REASON_CLUSTER},
};

/* Finds the error of a command in a script. Redis 6 wraps it: "ERR Error running script (…): …:
 * -OOM …". */
static const char *fail_unwrap(const char *text)
{
    static const char wrapper[] = "ERR Error running script";
    if (strncmp(text, wrapper, sizeof wrapper - 1) != 0)
        return text;
    const char *inner = strstr(text, ": -");
    return inner != NULL ? inner + 3 : text;
}

static enum status fail_error(struct redis_link *link, const redisReply *reply)
{
    const char *text = fail_unwrap(reply->str);
    size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    snprintf(link->code, sizeof link->code, "%.*s", (int)(length < CODE_BYTES ? length : 0), text);
    for (size_t i = 0; i < sizeof known_errors / sizeof known_errors[0]; i++) {
        const struct known_error *known = &known_errors[i];
        if (strncmp(text, known->begins, strlen(known->begins)) == 0)
            return redis_link_refuse(link, known->reason);
    }
    return redis_link_refuse(link, REDIS_REASON_OTHER);
}

/* Whether a failure may concern only the keys of its command. Only Redis's replies have these
 * reasons, so the connection is good. */
static bool fail_is_of_keys(enum redis_reason reason)
{
    return reason == REDIS_REASON_TYPE || reason == REDIS_REASON_RIGHTS ||
           reason == REDIS_REASON_OTHER;
}

/* --- commands --- */

enum status redis_link_queue(struct redis_link *link, const struct slice *arguments, size_t count)
{
    const char *texts[LIMIT_REDIS_ARGUMENTS];
    size_t lengths[LIMIT_REDIS_ARGUMENTS];
    ASSERT(count <= LIMIT_REDIS_ARGUMENTS);
    for (size_t i = 0; i < count; i++) {
        texts[i] = arguments[i].bytes;
        lengths[i] = arguments[i].length;
    }
    if (redisAppendCommandArgv(link->connection, (int)count, texts, lengths) != REDIS_OK)
        return fail_connection(link);
    link->queued++;
    return STATUS_OK;
}

/* Refuses arrays. No command that is sent is answered with one, and the other side would choose its
 * size. */
static void *take_no_array(const redisReadTask *task, int elements)
{
    (void)task;
    (void)elements;
    return NULL;
}

/* Sends the queued commands and reads until there is a reply. The caller frees it with
 * freeReplyObject. */
static enum status take_reply(struct redis_link *link, redisReply **out)
{
    redisContext *connection = link->connection;
    void *reply = NULL;
    int is_sent = 0;
    ASSERT(link->queued > 0);
    *out = NULL;
    while (is_sent == 0) {
        if (redisBufferWrite(connection, &is_sent) != REDIS_OK)
            return fail_connection(link);
    }
    for (;;) {
        if (redisGetReplyFromReader(connection, &reply) != REDIS_OK)
            return fail_connection(link);
        if (reply != NULL)
            break;
        if (connection->reader->len > LIMIT_REDIS_REPLY_BYTES)
            return redis_link_refuse(link, REDIS_REASON_REPLY);
        if (redisBufferRead(connection) != REDIS_OK)
            return fail_connection(link);
    }
    link->queued--;
    *out = reply;
    if ((*out)->type != REDIS_REPLY_ERROR)
        return STATUS_OK;
    enum status status = fail_error(link, *out);
    freeReplyObject(*out);
    return status;
}

enum status redis_link_take_number(struct redis_link *link, int64_t least, int64_t most,
                                   int64_t *out)
{
    redisReply *reply = NULL;
    TRY(take_reply(link, &reply));
    bool is_good =
        reply->type == REDIS_REPLY_INTEGER && reply->integer >= least && reply->integer <= most;
    *out = is_good ? reply->integer : 0;
    freeReplyObject(reply);
    return is_good ? STATUS_OK : redis_link_refuse(link, REDIS_REASON_REPLY);
}

enum status redis_link_take_outcome(struct redis_link *link, int64_t least, int64_t most,
                                    int64_t *out, enum redis_reason *reason)
{
    *out = 0;
    *reason = REDIS_REASON_NONE;
    enum status status = redis_link_take_number(link, least, most, out);
    if (status == STATUS_OK || !fail_is_of_keys(link->failed))
        return status;
    *reason = link->failed;
    link->failed = REDIS_REASON_NONE;
    link->code[0] = '\0';
    return STATUS_OK;
}

enum status redis_link_take_text(struct redis_link *link, char *out, size_t capacity, bool *is_nil)
{
    redisReply *reply = NULL;
    out[0] = '\0';
    TRY(take_reply(link, &reply));
    *is_nil = reply->type == REDIS_REPLY_NIL;
    bool is_good = *is_nil;
    if (reply->type == REDIS_REPLY_STRING && reply->len < capacity &&
        memchr(reply->str, '\0', reply->len) == NULL) {
        memcpy(out, reply->str, reply->len + 1);
        is_good = true;
    }
    freeReplyObject(reply);
    return is_good ? STATUS_OK : redis_link_refuse(link, REDIS_REASON_REPLY);
}

enum status redis_link_take_status(struct redis_link *link, const char *wanted)
{
    redisReply *reply = NULL;
    TRY(take_reply(link, &reply));
    bool is_good = reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, wanted) == 0;
    freeReplyObject(reply);
    return is_good ? STATUS_OK : redis_link_refuse(link, REDIS_REASON_REPLY);
}

enum status redis_link_load(struct redis_link *link, const char *script,
                            char sha[REDIS_LINK_SHA_BYTES])
{
    const struct slice load[] = {SLICE("SCRIPT"), SLICE("LOAD"), slice_of(script)};
    bool is_nil = false;
    TRY(redis_link_queue(link, load, 3));
    TRY(redis_link_take_text(link, sha, REDIS_LINK_SHA_BYTES, &is_nil));
    if (strspn(sha, "0123456789abcdef") != REDIS_LINK_SHA_BYTES - 1)
        return redis_link_refuse(link, REDIS_REASON_REPLY);
    return STATUS_OK;
}

const struct redis_link_server *redis_link_server(const struct redis_link *link)
{
    return &link->server;
}

/* --- connecting --- */

/* Reads the file's one line. A line end after it is not part of the password. */
static enum status password_read(struct redis_link *link, char out[LIMIT_REDIS_PASSWORD_BYTES])
{
    ssize_t length = -1;
    int descriptor = open(link->password_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) {
        length = read(descriptor, out, LIMIT_REDIS_PASSWORD_BYTES);
        close(descriptor);
    }
    size_t line = length > 0 ? (size_t)length : 0;
    while (line > 0 && (out[line - 1] == '\n' || out[line - 1] == '\r'))
        line--;
    if (line == 0 || line >= LIMIT_REDIS_PASSWORD_BYTES || memchr(out, '\n', line) != NULL ||
        memchr(out, '\0', line) != NULL)
        return redis_link_refuse(link, REDIS_REASON_PASSWORD_FILE);
    out[line] = '\0';
    return STATUS_OK;
}

static enum status greet_password(struct redis_link *link)
{
    char password[LIMIT_REDIS_PASSWORD_BYTES];
    const char *user = link->options.url.user;
    if (link->password_file[0] == '\0')
        return STATUS_OK;
    enum status status = password_read(link, password);
    if (status == STATUS_OK) {
        const struct slice plain[] = {SLICE("AUTH"), slice_of(password)};
        const struct slice named[] = {SLICE("AUTH"), slice_of(user), slice_of(password)};
        status = redis_link_queue(link, user[0] == '\0' ? plain : named, user[0] == '\0' ? 2 : 3);
    }
    explicit_bzero(password, sizeof password);
    TRY(status);
    return redis_link_take_status(link, "OK");
}

static enum status greet_database(struct redis_link *link)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)link->options.url.database);
    const struct slice select[] = {SLICE("SELECT"), slice_of(number)};
    if (link->options.url.database == 0)
        return STATUS_OK;
    TRY(redis_link_queue(link, select, 2));
    return redis_link_take_status(link, "OK");
}

/* Finds the value of a line "name:value\r\n" of INFO; "" when there is no such line. */
static void info_value(const char *info, const char *name, char *out, size_t capacity)
{
    size_t length = strlen(name);
    out[0] = '\0';
    for (const char *line = info; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || line[length] != ':')
            continue;
        const char *value = line + length + 1;
        size_t bytes = strcspn(value, "\r\n");
        snprintf(out, capacity, "%.*s", (int)(bytes < capacity ? bytes : capacity - 1), value);
        return;
    }
}

static enum status greet_info(struct redis_link *link)
{
    static const struct slice info[] = {{"INFO", 4}};
    struct redis_link_server *server = &link->server;
    char text[16];
    bool is_nil = false;
    char *all = mem_alloc(LIMIT_REDIS_REPLY_BYTES);
    if (all == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an answer of Redis");
    enum status status = redis_link_queue(link, info, 1);
    if (status == STATUS_OK)
        status = redis_link_take_text(link, all, LIMIT_REDIS_REPLY_BYTES, &is_nil);
    info_value(all, "redis_version", text, sizeof text);
    server->major = 0;
    for (const char *digit = text; *digit >= '0' && *digit <= '9' && server->major < 1000; digit++)
        server->major = server->major * 10 + (*digit - '0');
    info_value(all, "run_id", server->run_id, sizeof server->run_id);
    info_value(all, "maxmemory_policy", server->policy, sizeof server->policy);
    info_value(all, "maxmemory", text, sizeof text);
    server->has_maxmemory = text[0] != '\0' && strcmp(text, "0") != 0;
    info_value(all, "redis_mode", text, sizeof text);
    bool is_cluster = strcmp(text, "cluster") == 0;
    info_value(all, "role", text, sizeof text);
    mem_free(all);
    TRY(status);
    if (is_cluster)
        return redis_link_refuse(link, REDIS_REASON_CLUSTER);
    if (server->major < VERSION_LEAST)
        return redis_link_refuse(link, REDIS_REASON_VERSION);
    if (strcmp(text, "slave") == 0)
        return redis_link_refuse(link, REDIS_REASON_READ_ONLY);
    return STATUS_OK;
}

static struct timeval time_of_ms(uint32_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};
}

static enum status connect_socket(struct redis_link *link)
{
    const struct redis_url *url = &link->options.url;
    const struct timeval patience = time_of_ms(LIMIT_REDIS_CONNECT_MS);
    link->queued = 0;
    if (url->is_unix) {
        link->connection = redisConnectUnixWithTimeout(url->host, patience);
    } else {
        /* Names are looked up on this thread. Short time-outs let it end soon. */
        if (res_init() == 0) {
            _res.retrans = 1;
            _res.retry = 1;
        }
        link->connection = redisConnectWithTimeout(url->host, url->port, patience);
    }
    if (link->connection == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a connection to Redis");
    if (link->connection->err == REDIS_ERR_OTHER)
        return redis_link_refuse(link, REDIS_REASON_NAME);
    if (link->connection->err != 0)
        return fail_connection(link);
    link->functions = *link->connection->reader->fn;
    link->functions.createArray = take_no_array;
    link->connection->reader->fn = &link->functions;
    return redisSetTimeout(link->connection, time_of_ms(link->options.command_ms)) == REDIS_OK
               ? STATUS_OK
               : fail_connection(link);
}

static enum status connect_all(struct redis_link *link)
{
    static const struct slice ping[] = {{"PING", 4}};
    atomic_fetch_add(&link->attempts, 1);
    TRY(connect_socket(link));
    TRY(greet_password(link));
    TRY(greet_database(link));
    TRY(redis_link_queue(link, ping, 1));
    TRY(redis_link_take_status(link, "PONG"));
    TRY(greet_info(link));
    return link->options.connected(link->options.context, link);
}

static void disconnect(struct redis_link *link)
{
    if (link->connection != NULL)
        redisFree(link->connection);
    link->connection = NULL;
}

/* --- the thread --- */

/* Waits for up to `ms`. True when the thread must stop. */
static bool thread_wait(struct redis_link *link, uint32_t ms)
{
    int64_t at_us = clock_mono_us(clock_system()) + ms * INT64_C(1000);
    struct timespec until = {.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000};
    int timed_out = 0;
    pthread_mutex_lock(&link->lock);
    while (!link->must_stop && timed_out == 0 && ms > 0)
        timed_out = pthread_cond_timedwait(&link->wake, &link->lock, &until);
    bool must_stop = link->must_stop;
    pthread_mutex_unlock(&link->lock);
    return must_stop;
}

static void thread_up(struct redis_link *link)
{
    link->told = REDIS_REASON_NONE;
    atomic_store(&link->reason, REDIS_REASON_NONE);
    atomic_store(&link->is_up, true);
    if (link->up != NULL) {
        metric_set(link->up, 1);
        metric_add(link->connects, 1);
    }
    LOG(LOG_INFO, "redis_up", LOG_NUMBER("version", link->server.major),
        LOG_NUMBER("attempts", link->failures + 1));
}

/* Logs one line for each new failure, not for each attempt. One reason can have several causes, so
 * a new first word of Redis's reply or a new message of the ledger also counts as a new failure. */
static void thread_failed(struct redis_link *link)
{
    enum redis_reason reason =
        link->failed != REDIS_REASON_NONE ? link->failed : REDIS_REASON_LEDGER;
    bool was_up = atomic_exchange(&link->is_up, false);
    atomic_store(&link->reason, reason);
    if (link->up != NULL) {
        metric_set(link->up, 0);
        metric_add(link->errors[reason], 1);
    }
    const char *mend = reason == REDIS_REASON_LEDGER ? status_note()->message : mends[reason];
    const char *code = link->code;
    if (was_up || reason != link->told || strcmp(code, link->told_code) != 0 ||
        strcmp(mend, link->told_mend) != 0)
        LOG(LOG_WARN, "redis_down", LOG_TEXT("reason", words[reason]), LOG_TEXT("mend", mend),
            LOG_TEXT("code", code));
    link->told = reason;
    snprintf(link->told_code, sizeof link->told_code, "%s", code);
    snprintf(link->told_mend, sizeof link->told_mend, "%s", mend);
}

/* Runs turns until one fails (false) or the thread must stop (true). */
static bool thread_turns(struct redis_link *link)
{
    const struct redis_link_options *options = &link->options;
    bool has_more = true;
    while (!thread_wait(link, has_more ? 0 : options->turn_ms)) {
        if (options->turn(options->context, link, &has_more) != STATUS_OK)
            return false;
        link->failures = 0;
    }
    return true;
}

/* Runs the last turns when the server ends, and calls `closing`. */
static void thread_last_turns(struct redis_link *link)
{
    const struct redis_link_options *options = &link->options;
    int64_t until_us = clock_mono_us(clock_system()) + LIMIT_REDIS_CLOSE_MS * INT64_C(1000);
    bool has_more = true;
    enum status status = STATUS_OK;
    while (has_more && status == STATUS_OK && clock_mono_us(clock_system()) < until_us)
        status = options->turn(options->context, link, &has_more);
    if (status == STATUS_OK && options->closing != NULL)
        options->closing(options->context, link);
}

static bool thread_pause(struct redis_link *link)
{
    uint32_t doublings = link->failures < PAUSE_DOUBLINGS ? link->failures : PAUSE_DOUBLINGS;
    uint32_t most = (uint32_t)PAUSE_FIRST_MS << doublings;
    most = most < PAUSE_MOST_MS ? most : PAUSE_MOST_MS;
    uint32_t left = most - (uint32_t)rng_below(&link->rng, most / 2);
    link->failures++;
    for (;;) { /* in slices, so that `down` updates the number of waiting rows */
        if (link->options.down != NULL)
            link->options.down(link->options.context);
        uint32_t slice = left < link->options.turn_ms ? left : link->options.turn_ms;
        if (thread_wait(link, slice))
            return true;
        left -= slice;
        if (left == 0)
            return false;
    }
}

static void *thread_main(void *context)
{
    struct redis_link *link = context;
    bool must_stop = false;
    while (!must_stop) {
        link->failed = REDIS_REASON_NONE;
        link->code[0] = '\0';
        bool is_good = connect_all(link) == STATUS_OK;
        if (is_good) {
            thread_up(link);
            is_good = thread_turns(link);
        }
        if (is_good) {
            thread_last_turns(link);
            must_stop = true;
        } else {
            thread_failed(link);
        }
        disconnect(link);
        must_stop = must_stop || thread_pause(link);
    }
    return NULL;
}

/* --- callers --- */

struct metric *redis_link_metric_up(struct metrics *registry)
{
    return metrics_get(registry, METRIC_GAUGE, "banyan_redis_up",
                       "1 while Redis answers and takes what it is sent.", "", NULL, 0);
}

static void open_metrics(struct redis_link *link, struct metrics *registry)
{
    if (registry == NULL)
        return;
    link->up = redis_link_metric_up(registry);
    link->connects = metrics_get(registry, METRIC_COUNTER, "banyan_redis_connects_total",
                                 "Connections to Redis that were found good.", "", NULL, 0);
    for (int i = 1; i < REDIS_REASON_COUNT; i++) {
        char labels[48];
        snprintf(labels, sizeof labels, "reason=\"%s\"", words[i]);
        link->errors[i] = metrics_get(registry, METRIC_COUNTER, "banyan_redis_errors_total",
                                      "Attempts and connections that failed.", labels, NULL, 0);
    }
}

static void close_parts(struct redis_link *link)
{
    pthread_cond_destroy(&link->wake);
    pthread_mutex_destroy(&link->lock);
    mem_free(link);
}

enum status redis_link_open(struct redis_link **out, const struct redis_link_options *options)
{
    *out = NULL;
    struct redis_link *link = mem_zalloc(1, sizeof *link);
    if (link == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the link to Redis");
    link->options = *options;
    link->options.turn_ms = options->turn_ms != 0 ? options->turn_ms : TURN_MS;
    link->options.command_ms =
        options->command_ms != 0 ? options->command_ms : LIMIT_REDIS_COMMAND_MS;
    snprintf(link->password_file, sizeof link->password_file, "%s", options->password_file);
    random_bytes(&link->rng.seed, sizeof link->rng.seed);
    open_metrics(link, options->metrics);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&link->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&link->lock, NULL);
    if (pthread_create(&link->thread, NULL, thread_main, link) != 0) {
        close_parts(link);
        FAIL(STATUS_NO_MEMORY, "no thread for Redis");
    }
    *out = link;
    return STATUS_OK;
}

void redis_link_close(struct redis_link *link)
{
    if (link == NULL)
        return;
    pthread_mutex_lock(&link->lock);
    link->must_stop = true;
    pthread_cond_signal(&link->wake);
    pthread_mutex_unlock(&link->lock);
    pthread_join(link->thread, NULL);
    close_parts(link);
}

bool redis_link_is_up(const struct redis_link *link)
{
    return atomic_load(&link->is_up);
}

enum redis_reason redis_link_reason(const struct redis_link *link)
{
    return (enum redis_reason)atomic_load(&link->reason);
}

const char *redis_link_reason_word(enum redis_reason reason)
{
    return words[reason];
}

uint64_t redis_link_attempts(const struct redis_link *link)
{
    return atomic_load(&link->attempts);
}
