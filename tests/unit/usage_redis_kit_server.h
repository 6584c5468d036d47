/* usage_redis_kit_server: a real Redis and a ledger with rows of several tenants and days.
 *
 * Owns:     a server, a folder, a ledger for each fixture.
 * Thread:   the test's.
 * Cost:     -
 * Not here: whether they are equal (usage_redis_kit).
 */
#pragma once

#include "auth/ledger/usage_redis.h"

#include "tests/unit/base_kit.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "auth/ledger/ledger.h"
#include "config/base/metrics.h"

/* Debian's package redis-tools has the server under this name; it goes by how it is called. */
static const char server_path[] = "/usr/bin/redis-check-rdb";

enum { DAY_FIRST = 20000, WAIT_MS = 30000 };

struct fixture {
    char folder[64];
    char ledger_path[96];
    char socket_path[96];
    char url[128];
    pid_t server;
    redisContext *connection; /* the test's own */
    struct ledger *ledger;
    struct usage_redis *usage;
    struct usage_redis_options options;
    int rows;
    int more_days;            /* rows are of so many days more than three */
    int tenants;              /* rows are of so many; 0: 3 */
    const char *left_out;     /* a tenant that is not compared, or NULL */
    const char *arguments[2]; /* more of the server */
    struct metrics *metrics;
    bool is_dear;
};

static __attribute__((unused)) void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* --- Redis --- */

static __attribute__((unused)) void server_start(struct fixture *fixture)
{
    pid_t parent = getpid();
    fixture->server = fork();
    if (fixture->server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        execl(server_path, "redis-server", "--port", "0", "--unixsocket", fixture->socket_path,
              "--save", "", "--appendonly", "no", "--dir", fixture->folder, "--logfile",
              "/dev/null", fixture->arguments[0], fixture->arguments[1], (char *)NULL);
        _exit(1);
    }
    assert_true(fixture->server > 0);
    for (int i = 0; i < WAIT_MS; i++) {
        fixture->connection = redisConnectUnix(fixture->socket_path);
        redisReply *reply = redisCommand(fixture->connection, "PING");
        bool is_up = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        if (reply != NULL)
            freeReplyObject(reply);
        if (is_up)
            return;
        redisFree(fixture->connection);
        nap();
    }
    fail_msg("redis-server does not start");
}

static __attribute__((unused)) void server_kill(struct fixture *fixture)
{
    kill(fixture->server, SIGKILL);
    waitpid(fixture->server, NULL, 0);
    redisFree(fixture->connection);
}

/* A command whose answer is not an error; its number, or 0. */
static __attribute__((unused)) int64_t ask(struct fixture *fixture, const char *command)
{
    redisReply *reply = redisCommand(fixture->connection, command);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply->str);
    int64_t number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return number;
}

/* --- the ledger --- */

static __attribute__((unused)) void rows_add(struct fixture *fixture, int count)
{
    for (int i = 0; i < count; i++) {
        int at = fixture->rows++;
        struct ledger_row row = {
            .at_us =
                (INT64_C(86400) * (DAY_FIRST + at / 40 % (3 + fixture->more_days)) + at) * 1000000,
            .http_code = 200,
            .prompt_tokens = (uint32_t)at + 10,
            .cached_tokens = (uint32_t)at % 7,
            .completion_tokens = 1000000000u + (uint32_t)at};
        snprintf(row.request_id, sizeof row.request_id, "req_%d_%d", (int)getpid(), at);
        snprintf(row.tenant_id, sizeof row.tenant_id, "tnt_%d",
                 at % (fixture->tenants != 0 ? fixture->tenants : 3));
        snprintf(row.key_id, sizeof row.key_id, "key_%d", at % 4);
        snprintf(row.model, sizeof row.model, "%s", at % 4 < 2 ? "small:v1" : "");
        snprintf(row.service_class, sizeof row.service_class, at % 8 < 4 ? "batch" : "standard");
        snprintf(row.finish, sizeof row.finish, "stop");
        assert_int_equal(ledger_append(fixture->ledger, &row, NULL, NULL), STATUS_OK);
    }
    struct ledger_totals totals = {.queued = 1};
    for (int i = 0; i < WAIT_MS && totals.queued != 0; i++, nap())
        ledger_totals(fixture->ledger, &totals);
    assert_int_equal(totals.queued, 0);
}

static __attribute__((unused)) void run_sql(struct fixture *fixture, const char *sql)
{
    sqlite3 *connection;
    assert_int_equal(sqlite3_open(fixture->ledger_path, &connection), SQLITE_OK);
    sqlite3_busy_timeout(connection, 10000);
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(connection);
}

static __attribute__((unused)) int64_t price(void *context, const struct ledger_row *row)
{
    struct fixture *fixture = context;
    return fixture->is_dear ? INT64_MAX - 5 : INT64_C(1000003) * row->prompt_tokens;
}

static __attribute__((unused)) void ledger_start(struct fixture *fixture)
{
    assert_int_equal(
        ledger_open(&fixture->ledger, &(struct ledger_options){.path = fixture->ledger_path,
                                                               .price = price,
                                                               .price_context = fixture}),
        STATUS_OK);
}

static __attribute__((unused)) void usage_start(struct fixture *fixture)
{
    assert_int_equal(usage_redis_open(&fixture->usage, &fixture->options), STATUS_OK);
}

static __attribute__((unused)) void usage_stop(struct fixture *fixture)
{
    usage_redis_close(fixture->usage);
    fixture->usage = NULL;
}
