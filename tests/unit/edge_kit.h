/* edge_kit: a real edge on a thread of its own, an engine that fails as it is told, a TLS client.
 *
 * Owns:     a data directory under /tmp, the edge's thread, the scripted engine's threads.
 * Thread:   the test's thread is the client.
 * Cost:     –
 * Not here: the real engine (tests/e2e); the script is for failures that it cannot be made to have.
 *
 * The engine does what the request's "model" says:
 *   ok            role frame, three tokens, final record          json200   200 that is no stream
 *   cut           two tokens, then the connection closes          garbage   a frame without a count
 *   half          two tokens, then a clean end without a record   slow      no head until half-closed
 *   endless       tokens until half-closed, then the record       busy      503
 *   deaf          two tokens, then nothing, whatever happens      refused   400
 *   error         an error frame, then the record                 flood     64 MiB as fast as it goes
 *   brief         two tokens, and after 0.4 s the record
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/config.h"
#include "gateway/edge/edge.h"
#include "gateway/http/listener.h"
#include "tests/unit/edge_text_kit.h"

/* libh2o keeps a few freed chunks a thread for reuse and has no call to let go of them. */
const char *__lsan_default_suppressions(void);
__attribute__((used)) const char *__lsan_default_suppressions(void)
{
    return "leak:h2o_mem_alloc_recycle\n";
}

enum { EDGE_KIT_ANSWER_BYTES = 1 << 20, EDGE_KIT_FLOOD_BYTES = 64 << 20 };

struct edge_kit {
    char dir[64];
    const struct config *config;
    int port;
    int admin_port;
    pthread_t thread;
    enum status result;
    int log;             /* read end of the log's pipe is a file: D.log */
    int engine_listener; /* -1: no engine */
    pthread_t engine;
    char admin_key[128];
    char tenant_id[64];
    char key_id[64];
    char key[128];
    SSL_CTX *tls;
};

static struct edge_kit kit;
static char answer[EDGE_KIT_ANSWER_BYTES];

/* --- the scripted engine --- */

static char engine_head[8192]; /* of the last generation request */
static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int engine_requests;
static _Atomic int engine_half_closed; /* half-closes that the engine has seen */
static _Atomic long engine_flooded;    /* bytes of the flood that were taken */
static _Atomic bool engine_is_gone;    /* kept connections die at their next request */
static _Atomic bool engine_is_sick;    /* /health answers 500 */

static bool engine_send(int fd, const char *text)
{
    size_t length = strlen(text);
    return send(fd, text, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* One chunk of a chunked body. */
static bool engine_chunk(int fd, const char *text)
{
    char head[32];
    snprintf(head, sizeof head, "%zx\r\n", strlen(text));
    return engine_send(fd, head) && engine_send(fd, text) && engine_send(fd, "\r\n");
}

static bool engine_token(int fd, int n)
{
    char frame[512];
    snprintf(frame, sizeof frame,
             "data: {\"n\":%d,\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\","
             "\"created\":7,\"model\":\"fake\",\"choices\":[{\"index\":0,\"delta\":{%s\"content\":"
             "\"%s\"},\"finish_reason\":null}]}\n\n",
             n, n == 0 ? "\"role\":\"assistant\"," : "", n == 0 ? "" : "tok ");
    return engine_chunk(fd, frame);
}

static void engine_final(int fd, int tokens, const char *finish)
{
    char frame[512];
    snprintf(
        frame, sizeof frame,
        "data: {\"n\":%d,\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\",\"created\":"
        "7,\"model\":\"fake\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"%s\"}]}"
        "\n\nevent: banyan.final\ndata: {\"protocol\":1,\"request_id\":\"x\",\"record_seq\":%d,"
        "\"prompt_tokens\":5,\"cached_tokens\":2,\"completion_tokens\":%d,\"finish_reason\":"
        "\"%s\",\"estimated\":false,\"queue_us\":1,\"prefill_us\":2,\"decode_us\":3,"
        "\"preemptions\":0,\"swapped_pages\":0,\"swap_us\":0}\n\n",
        tokens, finish, atomic_load(&engine_requests), tokens, finish);
    engine_chunk(fd, frame);
    engine_send(fd, "0\r\n\r\n");
}

/* True once the edge has shut its side down; waits at most `ms`. */
static bool engine_is_half_closed(int fd, int ms)
{
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char byte;
    ssize_t got = recv(fd, &byte, 1, 0);
    if (got == 0)
        atomic_fetch_add(&engine_half_closed, 1);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void engine_json(int fd, const char *status, const char *body)
{
    char text[1024];
    snprintf(text, sizeof text,
             "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
             status, strlen(body), body);
    engine_send(fd, text);
}

static void engine_flood(int fd)
{
    static char frame[65536];
    int length = snprintf(frame, 256,
                          "data: {\"n\":2,\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{"
                          "\"content\":\"");
    memset(frame + length, 'x', sizeof frame - 1 - (size_t)length);
    memcpy(frame + sizeof frame - 1 - 7, "\"}}]}\n\n", 7);
    for (long sent = 0; sent < EDGE_KIT_FLOOD_BYTES; sent += (long)sizeof frame) {
        if (!engine_chunk(fd, frame))
            return;
        atomic_store(&engine_flooded, sent);
    }
    engine_final(fd, 2, "length");
}

static bool engine_is(const char *body, const char *model)
{
    char text[64];
    snprintf(text, sizeof text, "\"model\":\"%s\"", model);
    return strstr(body, text) != NULL;
}

/* What happens behind the head of a stream. */
static void engine_stream(int fd, const char *body)
{
    engine_send(fd, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    "transfer-encoding: chunked\r\n\r\n");
    engine_token(fd, 0);
    engine_token(fd, 1);
    engine_token(fd, 2);
    if (engine_is(body, "cut"))
        return;
    if (engine_is(body, "half")) {
        engine_send(fd, "0\r\n\r\n");
    } else if (engine_is(body, "garbage")) {
        engine_chunk(fd, "data: {\"id\":\"no count\"}\n\n");
        engine_is_half_closed(fd, 5000);
        engine_final(fd, 2, "cancelled");
    } else if (engine_is(body, "deaf")) {
        while (!engine_is_half_closed(fd, 5000))
            ;
        sleep(3);
    } else if (engine_is(body, "error")) {
        engine_chunk(fd, "data: {\"n\":2,\"error\":{\"message\":\"it broke\",\"type\":"
                         "\"server_error\",\"param\":null,\"code\":null}}\n\n");
        engine_final(fd, 2, "error");
    } else if (engine_is(body, "flood")) {
        engine_flood(fd);
    } else if (engine_is(body, "brief")) {
        engine_is_half_closed(fd, 400);
        engine_final(fd, 2, "length");
    } else if (engine_is(body, "endless")) {
        int n = 3;
        while (!engine_is_half_closed(fd, 10) && engine_token(fd, n))
            n++;
        engine_final(fd, n - 1, "cancelled");
    } else {
        engine_token(fd, 3);
        engine_final(fd, 3, "stop");
    }
}

/* True when the connection may serve another request. */
static bool engine_answer(int fd, const char *head, const char *body)
{
    if (strncmp(head, "GET /health ", 12) == 0) {
        engine_json(fd, atomic_load(&engine_is_sick) ? "500 Sick" : "200 OK", "{}");
        return true;
    }
    atomic_fetch_add(&engine_requests, 1);
    pthread_mutex_lock(&engine_lock);
    size_t length = strnlen(head, sizeof engine_head - 1);
    memcpy(engine_head, head, length);
    engine_head[length] = '\0';
    pthread_mutex_unlock(&engine_lock);
    if (strncmp(head, "GET ", 4) == 0 || strstr(head, "tokenize") != NULL) {
        engine_json(fd, "200 OK", "{\"object\":\"list\",\"data\":[]}");
        return true;
    }
    if (engine_is(body, "busy")) {
        engine_json(fd, "503 Busy",
                    "{\"error\":{\"message\":\"full\",\"type\":\"server_error\","
                    "\"param\":null,\"code\":\"engine_overloaded\"}}");
        return true;
    }
    if (engine_is(body, "refused")) {
        engine_json(fd, "400 Bad Request",
                    "{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\","
                    "\"param\":\"max_tokens\",\"code\":null}}");
        return true;
    }
    if (engine_is(body, "json200")) {
        engine_json(fd, "200 OK", "{}");
        return true;
    }
    if (engine_is(body, "slow")) {
        while (!engine_is_half_closed(fd, 1000))
            ;
        engine_send(fd, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                        "transfer-encoding: chunked\r\n\r\n");
        engine_final(fd, 0, "cancelled");
        return false;
    }
    engine_stream(fd, body);
    return engine_is(body, "ok");
}

static void *engine_connection(void *context)
{
    int fd = (int)(intptr_t)context;
    static _Thread_local char text[65536];
    bool is_open = true;
    while (is_open) {
        size_t length = 0;
        char *end = NULL;
        size_t total = SIZE_MAX;
        struct timeval limit = {.tv_sec = 60};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        while (length < total) {
            ssize_t got = recv(fd, text + length, sizeof text - 1 - length, 0);
            if (got <= 0)
                goto out;
            length += (size_t)got;
            text[length] = '\0';
            end = strstr(text, "\r\n\r\n");
            const char *field = strstr(text, "content-length: ");
            if (end != NULL && field != NULL)
                total = (size_t)(end + 4 - text) + strtoul(field + 16, NULL, 10);
        }
        if (atomic_load(&engine_is_gone))
            break;
        end[2] = '\0';
        is_open = engine_answer(fd, text, end + 4);
    }
out:
    close(fd);
    return NULL;
}

static void *engine_accept(void *context)
{
    int listener = (int)(intptr_t)context;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        pthread_t thread;
        if (pthread_create(&thread, NULL, engine_connection, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
        else
            close(fd);
    }
}

/* --- the edge --- */

static int edge_kit_ready[2];

static void *edge_kit_thread(void *context)
{
    const struct edge_options *options = context;
    kit.result = edge_run(options);
    return NULL;
}

static const struct config *edge_kit_config(const char *dir, const char *const *more, int count)
{
    const char *argv[32] = {"--data-dir", dir};
    for (int i = 0; i < count; i++)
        argv[2 + i] = more[i];
    const char *environment[] = {NULL};
    const struct config *config = NULL;
    if (config_load(&config, CONFIG_EDGE, 2 + count, argv, environment) != STATUS_OK)
        fail_msg("%s", status_note()->message);
    return config;
}

static void edge_kit_dir(char out[64])
{
    snprintf(out, 64, "/tmp/edge_kit.XXXXXX");
    assert_non_null(mkdtemp(out));
}

static int edge_kit_remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

static void edge_kit_remove(const char *dir)
{
    char path[128];
    assert_int_equal(strncmp(dir, "/tmp/edge_kit.", 14), 0);
    assert_int_equal(nftw(dir, edge_kit_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    snprintf(path, sizeof path, "%s.log", dir);
    unlink(path);
}

static void edge_kit_start_engine(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/engine.sock", kit.dir);
    assert_int_equal(listener_bind_unix(&kit.engine_listener, path), STATUS_OK);
    fcntl(kit.engine_listener, F_SETFL, 0);
    atomic_store(&engine_is_gone, false);
    assert_int_equal(
        pthread_create(&kit.engine, NULL, engine_accept, (void *)(intptr_t)kit.engine_listener), 0);
}

static void edge_kit_stop_engine(void)
{
    atomic_store(&engine_is_gone, true);
    shutdown(kit.engine_listener, SHUT_RDWR);
    pthread_join(kit.engine, NULL);
    close(kit.engine_listener);
    kit.engine_listener = -1;
}

static struct edge_options edge_kit_options;

static void edge_kit_run(void)
{
    char bound[64];
    edge_kit_options = (struct edge_options){.config = kit.config};
    assert_int_equal(
        listener_bind_tcp(&edge_kit_options.public_descriptor, "127.0.0.1:0", bound, sizeof bound),
        STATUS_OK);
    kit.port = (int)strtol(strrchr(bound, ':') + 1, NULL, 10);
    assert_int_equal(
        listener_bind_tcp(&edge_kit_options.admin_descriptor, "127.0.0.1:0", bound, sizeof bound),
        STATUS_OK);
    kit.admin_port = (int)strtol(strrchr(bound, ':') + 1, NULL, 10);
    assert_int_equal(pipe2(edge_kit_ready, O_CLOEXEC), 0);
    edge_kit_options.ready_descriptor = edge_kit_ready[1];
    assert_int_equal(pthread_create(&kit.thread, NULL, edge_kit_thread, &edge_kit_options), 0);
    char byte;
    assert_int_equal(read(edge_kit_ready[0], &byte, 1), 1);
    close(edge_kit_ready[0]);
}

/* Sends SIGTERM as an operator does, and waits for edge_run to return. */
static void edge_kit_end(void)
{
    kill(getpid(), SIGTERM);
    pthread_join(kit.thread, NULL);
    assert_int_equal(kit.result, STATUS_OK);
}

/* --- the client --- */

struct edge_kit_connection {
    int fd;
    SSL *tls;
};

static struct edge_kit_connection edge_kit_connect(int port)
{
    struct edge_kit_connection out;
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    out.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(out.fd, (struct sockaddr *)&name, sizeof name), 0);
    struct timeval limit = {.tv_sec = 20};
    setsockopt(out.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    out.tls = SSL_new(kit.tls);
    SSL_set_fd(out.tls, out.fd);
    SSL_set1_host(out.tls, "localhost");
    assert_int_equal(SSL_connect(out.tls), 1);
    return out;
}

static void edge_kit_close(struct edge_kit_connection *connection)
{
    SSL_free(connection->tls);
    close(connection->fd);
}

static void edge_kit_write(struct edge_kit_connection *connection, const char *method,
                           const char *path, const char *headers, const char *body)
{
    static char text[65536];
    int length = snprintf(text, sizeof text,
                          "%s %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n%s"
                          "content-length: %zu\r\n\r\n%s",
                          method, path, headers, strlen(body), body);
    assert_in_range(length, 1, (int)sizeof text - 1);
    assert_int_equal(SSL_write(connection->tls, text, length), length);
}

/* Reads into `answer` until `until` has come, or to the end when NULL. */
static void edge_kit_read(struct edge_kit_connection *connection, const char *until)
{
    size_t length = 0;
    answer[0] = '\0';
    for (;;) {
        if (until != NULL && strstr(answer, until) != NULL)
            return;
        assert_in_range(length, 0, sizeof answer - 2);
        int got = SSL_read(connection->tls, answer + length, (int)(sizeof answer - 1 - length));
        if (got <= 0 && until != NULL)
            fail_msg("'%s' did not come: %s", until, answer);
        if (got <= 0)
            return;
        length += (size_t)got;
        answer[length] = '\0';
    }
}

/* Takes the chunks' framing out of `answer`. */
static void edge_kit_dechunk(void)
{
    char *body = strstr(answer, "\r\n\r\n");
    if (body == NULL || strstr(answer, "transfer-encoding: chunked") == NULL)
        return;
    char *to = body + 4;
    const char *from = to;
    for (;;) {
        char *end;
        size_t length = strtoul(from, &end, 16);
        if (end == from || length == 0 || strlen(end) < length + 2)
            break;
        memmove(to, end + 2, length);
        to += length;
        from = end + 2 + length + 2;
    }
    *to = '\0';
}

/* One request, its answer in `answer`; returns the code. */
static int edge_kit_ask(int port, const char *method, const char *path, const char *headers,
                        const char *body)
{
    struct edge_kit_connection connection = edge_kit_connect(port);
    edge_kit_write(&connection, method, path, headers, body);
    edge_kit_read(&connection, NULL);
    edge_kit_close(&connection);
    if (strncmp(answer, "HTTP/1.1 ", 9) != 0)
        fail_msg("no answer: '%s'", answer);
    edge_kit_dechunk();
    return (int)strtol(answer + 9, NULL, 10);
}

static const char *edge_kit_bearer(const char *key)
{
    static char header[256];
    snprintf(header, sizeof header, "authorization: Bearer %s\r\n", key);
    return header;
}

/* The tenant asks on the public port, the first admin key on the admin port. */
static __attribute__((unused)) int edge_kit_public(const char *method, const char *path,
                                                   const char *body)
{
    return edge_kit_ask(kit.port, method, path, edge_kit_bearer(kit.key), body);
}

static int edge_kit_admin(const char *method, const char *path, const char *body)
{
    return edge_kit_ask(kit.admin_port, method, path, edge_kit_bearer(kit.admin_key), body);
}

/* A string member of the last answer's body. */
static void edge_kit_member(const char *name, char *out, size_t capacity)
{
    const char *body = strstr(answer, "\r\n\r\n");
    assert_non_null(body);
    json_t *root = json_loads(body + 4, 0, NULL);
    if (!json_is_object(root))
        fail_msg("no JSON object: %s", answer);
    const char *value = json_string_value(json_object_get(root, name));
    if (value == NULL)
        fail_msg("no %s: %s", name, answer);
    snprintf(out, capacity, "%s", value != NULL ? value : "");
    json_decref(root);
}

static void edge_kit_file(const char *name, char *out, size_t capacity)
{
    char path[160];
    snprintf(path, sizeof path, "%s%s", kit.dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    size_t length = 0;
    ssize_t got = 1;
    while (got > 0 && length + 1 < capacity) {
        got = read(fd, out + length, capacity - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    out[length] = '\0';
    close(fd);
}

/* --- the ledger, as another process sees it --- */

static __attribute__((unused)) int edge_kit_rows(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/ledger.db", kit.dir);
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "select count(*) from requests", -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int rows = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return rows;
}

/* "completion_tokens finish is_estimated http_code" of the newest row. */
static __attribute__((unused)) void edge_kit_last_row(char *out, size_t capacity)
{
    char path[128];
    snprintf(path, sizeof path, "%s/ledger.db", kit.dir);
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "select completion_tokens, finish, is_estimated, http_code"
                                        " from requests order by rowid desc limit 1",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const char *finish = (const char *)sqlite3_column_text(statement, 1);
    snprintf(out, capacity, "%d %s %d %d", sqlite3_column_int(statement, 0),
             finish != NULL ? finish : "", sqlite3_column_int(statement, 2),
             sqlite3_column_int(statement, 3));
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static __attribute__((unused)) void edge_kit_wait_rows(int rows)
{
    for (int i = 0; i < 1000 && edge_kit_rows() < rows; i++)
        usleep(10000);
    assert_int_equal(edge_kit_rows(), rows);
}

static __attribute__((unused)) void edge_kit_wait(_Atomic int *counter, int at_least)
{
    for (int i = 0; i < 10000 && atomic_load(counter) < at_least; i++)
        usleep(1000);
    if (atomic_load(counter) < at_least)
        fail_msg("the counter stayed at %d, wanted %d", atomic_load(counter), at_least);
}

/* --- group set-up --- */

/* Blocks what the edge waits for, in this and all later threads; logs to D.log. */
static void edge_kit_begin(const char *const *options, int count)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    edge_kit_dir(kit.dir);
    char path[128];
    snprintf(path, sizeof path, "%s.log", kit.dir);
    kit.log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    log_open(kit.log, LOG_DEBUG, "edge");
    kit.config = edge_kit_config(kit.dir, options, count);
    kit.engine_listener = -1;
}

static __attribute__((unused)) int edge_kit_setup(void **state)
{
    (void)state;
    const char *options[] = {"--drain-timeout-s", "1"};
    edge_kit_begin(options, 2);
    edge_kit_start_engine();
    edge_kit_run();
    char path[128];
    snprintf(path, sizeof path, "%s/tls/ca.crt", kit.dir);
    kit.tls = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_load_verify_locations(kit.tls, path, NULL), 1);
    SSL_CTX_set_verify(kit.tls, SSL_VERIFY_PEER, NULL);
    edge_kit_file("/admin.key", kit.admin_key, sizeof kit.admin_key);
    kit.admin_key[strcspn(kit.admin_key, "\n")] = '\0';
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/tenants", "{\"name\":\"acme\"}"), 201);
    edge_kit_member("id", kit.tenant_id, sizeof kit.tenant_id);
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    assert_int_equal(edge_kit_admin("POST", path, "{\"name\":\"test\"}"), 201);
    edge_kit_member("id", kit.key_id, sizeof kit.key_id);
    edge_kit_member("key", kit.key, sizeof kit.key);
    return 0;
}

static __attribute__((unused)) int edge_kit_teardown(void **state)
{
    (void)state;
    edge_kit_end();
    if (kit.engine_listener >= 0)
        edge_kit_stop_engine();
    SSL_CTX_free(kit.tls);
    config_release(kit.config);
    close(kit.log);
    edge_kit_remove(kit.dir);
    return 0;
}
