/* edge_kit: a real edge on a thread of its own, over real TLS, auth and ledger.
 *
 * Owns:     a data directory under /tmp, the edge's thread, the scripted engine.
 * Thread:   the test's thread is the client.
 * Cost:     –
 * Not here: asking it (edge_kit_client), what the engine does (edge_kit_engine).
 */
#pragma once

#include <ftw.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "config/base/log.h"
#include "gateway/edge/edge.h"
#include "gateway/http/listener.h"
#include "tests/unit/edge_kit_client.h"
#include "tests/unit/edge_kit_engine.h"

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
    /* All clients of a test come from one address. */
    const char *argv[32] = {
        "--data-dir",     dir, "--connections-per-address", "0", "--connects-per-address-s", "0",
        "--handshakes-s", "0"};
    enum { OWN = 8 };
    assert_true(OWN + count <= 32);
    for (int i = 0; i < count; i++)
        argv[OWN + i] = more[i];
    const char *environment[] = {NULL};
    const struct config *config = NULL;
    if (config_load(&config, CONFIG_EDGE, OWN + count, argv, environment) != STATUS_OK)
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
    snprintf(path, sizeof path, "%s/engine", kit.dir);
    mkdir(path, 0700); /* there already when an engine comes back */
    snprintf(path, sizeof path, "%s/engine/engine.sock", kit.dir);
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
    edge_kit_options = (struct edge_options){.config = kit.config, .engine_user = geteuid()};
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
    for (int i = 0; i < 12000 && edge_kit_rows() < rows; i++)
        usleep(10000);
    assert_int_equal(edge_kit_rows(), rows);
}

static __attribute__((unused)) void edge_kit_wait(_Atomic int *counter, int at_least)
{
    for (int i = 0; i < 120000 && atomic_load(counter) < at_least; i++)
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

static __attribute__((unused)) void edge_kit_setup_with(const char *const *options, int count)
{
    edge_kit_begin(options, count);
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
}

static __attribute__((unused)) int edge_kit_setup(void **state)
{
    (void)state;
    const char *options[] = {"--drain-timeout-s", "2", "--replay-wait-s", "1"};
    edge_kit_setup_with(options, 4);
    return 0;
}

/* What a test that fails has to say goes where libraries' words go while the edge runs: into the
 * log, hence from there to standard output. */
static void edge_kit_print_words(void)
{
    char path[128];
    char *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "%s.log", kit.dir);
    FILE *log = fopen(path, "r");
    while (log != NULL && getline(&line, &capacity, log) > 0)
        if (strstr(line, "library_said") != NULL && strstr(line, "tests/unit") != NULL)
            printf("%s", line);
    free(line);
    if (log != NULL)
        fclose(log);
}

static __attribute__((unused)) int edge_kit_teardown(void **state)
{
    (void)state;
    edge_kit_end();
    edge_kit_print_words();
    if (kit.engine_listener >= 0)
        edge_kit_stop_engine();
    SSL_CTX_free(kit.tls);
    config_release(kit.config);
    close(kit.log);
    edge_kit_remove(kit.dir);
    return 0;
}
