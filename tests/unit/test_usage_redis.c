/* usage_redis against a real Redis: whatever happens to it, to the ledger and to the edge, the
 * hashes of tenants and days end equal to the ledger's roll-ups. Skipped where there is none. */
#include "auth/usage_redis.h"

#include "tests/unit/base_kit.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "auth/ledger.h"
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
    int more_days; /* rows are of so many days more than three */
    bool is_dear;
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* --- Redis --- */

static void server_start(struct fixture *fixture)
{
    pid_t parent = getpid();
    fixture->server = fork();
    if (fixture->server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        execl(server_path, "redis-server", "--port", "0", "--unixsocket", fixture->socket_path,
              "--save", "", "--appendonly", "no", "--dir", fixture->folder, "--logfile",
              "/dev/null", (char *)NULL);
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

static void server_kill(struct fixture *fixture)
{
    kill(fixture->server, SIGKILL);
    waitpid(fixture->server, NULL, 0);
    redisFree(fixture->connection);
}

/* A command whose answer is not an error; its number, or 0. */
static int64_t ask(struct fixture *fixture, const char *command)
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

static void rows_add(struct fixture *fixture, int count)
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
        snprintf(row.tenant_id, sizeof row.tenant_id, "tnt_%d", at % 3);
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

static void run_sql(struct fixture *fixture, const char *sql)
{
    sqlite3 *connection;
    assert_int_equal(sqlite3_open(fixture->ledger_path, &connection), SQLITE_OK);
    sqlite3_busy_timeout(connection, 10000);
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(connection);
}

static int64_t price(void *context, const struct ledger_row *row)
{
    struct fixture *fixture = context;
    return fixture->is_dear ? INT64_MAX - 5 : INT64_C(1000003) * row->prompt_tokens;
}

static void ledger_start(struct fixture *fixture)
{
    assert_int_equal(
        ledger_open(&fixture->ledger, &(struct ledger_options){.path = fixture->ledger_path,
                                                               .price = price,
                                                               .price_context = fixture}),
        STATUS_OK);
}

static void usage_start(struct fixture *fixture)
{
    assert_int_equal(usage_redis_open(&fixture->usage, &fixture->options), STATUS_OK);
}

static void usage_stop(struct fixture *fixture)
{
    usage_redis_close(fixture->usage);
    fixture->usage = NULL;
}

/* --- equality --- */

static int64_t hash_number(const redisReply *hash, const char *name, bool *is_there)
{
    for (size_t i = 0; i + 1 < hash->elements; i += 2) {
        if (strcmp(hash->element[i]->str, name) == 0) {
            *is_there = true;
            return strtoll(hash->element[i + 1]->str, NULL, 10);
        }
    }
    *is_there = false;
    return 0;
}

/* One hash against the roll-ups of its tenant and day, field by field, in both directions. */
static bool hash_is_equal(const redisReply *hash, sqlite3_stmt *sums, size_t marks)
{
    static const char *const names[] = {"requests", "input", "cached", "output", "cost_nano"};
    int64_t totals[5] = {0};
    size_t fields = 5 + marks;
    for (; sqlite3_step(sums) == SQLITE_ROW; fields += 5) {
        for (int i = 0; i < 5; i++) {
            char name[256];
            bool is_there = false;
            snprintf(name, sizeof name, "%s:%s:%s", names[i], sqlite3_column_text(sums, 0),
                     sqlite3_column_text(sums, 1));
            int64_t number = sqlite3_column_int64(sums, 2 + i);
            totals[i] += number;
            if (hash_number(hash, name, &is_there) != number || !is_there)
                return false;
        }
    }
    for (int i = 0; i < 5; i++) {
        bool is_there = false;
        if (hash_number(hash, names[i], &is_there) != totals[i] || !is_there)
            return false;
    }
    return hash->elements == 2 * fields;
}

/* `ledgers` is 1, or 2 where another edge has shipped the same as this one. */
static bool is_equal_to_rollups(struct fixture *fixture, int ledgers)
{
    sqlite3 *connection;
    sqlite3_stmt *days;
    sqlite3_stmt *sums;
    bool is_equal = true;
    size_t count = 0;
    char sql[512];
    snprintf(sql, sizeof sql,
             "select model, service_class, %d * sum(requests), %d * sum(prompt_tokens), %d * "
             "sum(cached_tokens), %d * sum(completion_tokens), %d * sum(cost_nano) from "
             "usage_minutes where tenant_id = "
             "?1 and minute / 1440 = ?2 group by model, service_class",
             ledgers, ledgers, ledgers, ledgers, ledgers);
    assert_int_equal(sqlite3_open(fixture->ledger_path, &connection), SQLITE_OK);
    sqlite3_busy_timeout(connection, 10000);
    assert_int_equal(sqlite3_prepare_v2(connection,
                                        "select distinct tenant_id, minute / 1440, strftime("
                                        "'%Y%m%d', minute * 60, 'unixepoch') from usage_minutes",
                                        -1, &days, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(connection, sql, -1, &sums, NULL), SQLITE_OK);
    for (; is_equal && sqlite3_step(days) == SQLITE_ROW; count++) {
        sqlite3_bind_text(sums, 1, (const char *)sqlite3_column_text(days, 0), -1, SQLITE_STATIC);
        sqlite3_bind_int64(sums, 2, sqlite3_column_int64(days, 1));
        redisReply *hash = redisCommand(fixture->connection, "HGETALL banyan:usage:{%s}:%s",
                                        sqlite3_column_text(days, 0), sqlite3_column_text(days, 2));
        is_equal = hash != NULL && hash->type == REDIS_REPLY_ARRAY &&
                   hash_is_equal(hash, sums, (size_t)ledgers);
        if (hash != NULL)
            freeReplyObject(hash);
        sqlite3_reset(sums);
    }
    redisReply *keys = redisCommand(fixture->connection, "KEYS banyan:usage:*");
    is_equal = is_equal && keys != NULL && keys->elements == count;
    if (keys != NULL)
        freeReplyObject(keys);
    sqlite3_finalize(days);
    sqlite3_finalize(sums);
    sqlite3_close(connection);
    return is_equal;
}

static void wait_equal_of(struct fixture *fixture, int ledgers)
{
    for (int i = 0; i < WAIT_MS / 10; i++) {
        if (is_equal_to_rollups(fixture, ledgers) &&
            (fixture->usage == NULL || usage_redis_lag(fixture->usage) == 0))
            return;
        for (int j = 0; j < 10; j++)
            nap();
    }
    fail_msg("the hashes do not become equal to the roll-ups");
}

static void wait_equal(struct fixture *fixture)
{
    wait_equal_of(fixture, 1);
}

static void wait_down(struct fixture *fixture, enum redis_reason reason)
{
    for (int i = 0; i < WAIT_MS; i++, nap()) {
        if (usage_redis_reason(fixture->usage) == reason &&
            strcmp(usage_redis_word(fixture->usage), "down") == 0)
            return;
    }
    fail_msg("down because of \"%s\", not of \"%s\"",
             redis_link_reason_word(usage_redis_reason(fixture->usage)),
             redis_link_reason_word(reason));
}

/* All rows up to that one are in Redis. */
static void wait_marked(struct fixture *fixture, int sequence)
{
    for (int i = 0; i < WAIT_MS; i++, nap()) {
        redisReply *reply = redisCommand(fixture->connection, "HVALS banyan:shipped");
        bool is_there =
            reply->elements == 1 && strtoll(reply->element[0]->str, NULL, 10) == sequence;
        freeReplyObject(reply);
        if (is_there)
            return;
    }
    fail_msg("the rows are not shipped");
}

/* --- set up --- */

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    *state = fixture;
    if (access(server_path, X_OK) != 0)
        return 0;
    kit_folder_make(fixture->folder);
    snprintf(fixture->ledger_path, sizeof fixture->ledger_path, "%s/ledger.db", fixture->folder);
    snprintf(fixture->socket_path, sizeof fixture->socket_path, "%s/redis.sock", fixture->folder);
    snprintf(fixture->url, sizeof fixture->url, "unix://%s", fixture->socket_path);
    fixture->options = (struct usage_redis_options){.url = fixture->url,
                                                    .password_file = "",
                                                    .ledger_path = fixture->ledger_path,
                                                    .stream_length = 1000000,
                                                    .turn_ms = 5,
                                                    .command_ms = WAIT_MS};
    ledger_start(fixture);
    server_start(fixture);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->ledger_path[0] != '\0') {
        ledger_close(fixture->ledger);
        usage_redis_close(fixture->usage);
        server_kill(fixture);
        kit_folder_remove(fixture->folder);
    }
    free(fixture);
    return 0;
}

static struct fixture *begin(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->ledger_path[0] == '\0')
        skip(); /* there is no redis-server; deploy/prepare test installs it (redis-tools) */
    return fixture;
}

/* --- tests --- */

static void test_rows_are_shipped_once(void **state)
{
    struct fixture *fixture = begin(state);
    rows_add(fixture, 100);
    usage_start(fixture);
    wait_equal(fixture);
    for (int i = 0; i < 20; i++) {
        rows_add(fixture, i * 7 % 30 + 1);
        if (i % 4 == 0)
            wait_equal(fixture);
    }
    rows_add(fixture, 3 * LIMIT_REDIS_BATCH);
    wait_equal(fixture);
    assert_string_equal(usage_redis_word(fixture->usage), "up");
    assert_int_equal(ask(fixture, "ZCARD banyan:edges"), 1);
    usage_stop(fixture);
    wait_equal(fixture);
    assert_int_equal(ask(fixture, "ZCARD banyan:edges"), 0);
    assert_int_equal(ask(fixture, "HLEN banyan:shipped"), 1);
    assert_int_equal(ask(fixture, "XLEN banyan:usage"), fixture->rows);
    assert_int_equal(ask(fixture, "DBSIZE"), 9 + 3); /* hashes, stream, both marks */
}

/* Each entry names its row; none is missing, in order. */
static void test_the_stream_names_rows(void **state)
{
    struct fixture *fixture = begin(state);
    rows_add(fixture, 300);
    usage_start(fixture);
    wait_equal(fixture);
    usage_stop(fixture);
    redisReply *entries = redisCommand(fixture->connection, "XRANGE banyan:usage - +");
    assert_int_equal(entries->elements, 300);
    for (size_t i = 0; i < 300; i++) {
        const redisReply *fields = entries->element[i]->element[1];
        assert_string_equal(fields->element[0]->str, "id");
        const char *dash = strchr(fields->element[1]->str, '-');
        assert_non_null(dash);
        assert_int_equal(strtol(dash + 1, NULL, 10), i + 1);
    }
    freeReplyObject(entries);
}

static void test_the_stream_is_trimmed_or_none(void **state)
{
    struct fixture *fixture = begin(state);
    fixture->options.stream_length = 100;
    rows_add(fixture, 2000);
    usage_start(fixture);
    wait_equal(fixture);
    usage_stop(fixture);
    assert_true(ask(fixture, "XLEN banyan:usage") <= 300); /* by whole blocks of 100 */
    ask(fixture, "FLUSHALL");
    fixture->options.stream_length = 0;
    usage_start(fixture);
    rows_add(fixture, 10);
    wait_equal(fixture);
    usage_stop(fixture);
    assert_int_equal(ask(fixture, "EXISTS banyan:usage"), 0);
}

/* Killed with rows on their way; what comes back is empty. */
static void test_redis_restarts_empty(void **state)
{
    struct fixture *fixture = begin(state);
    usage_start(fixture);
    for (int i = 0; i < 4; i++) {
        rows_add(fixture, 300);
        server_kill(fixture);
        rows_add(fixture, 50);
        server_start(fixture);
        wait_equal(fixture);
        /* From the first on; the hashes, made anew from sums, may be equal before. */
        for (int j = 0; j < WAIT_MS && ask(fixture, "XLEN banyan:usage") < fixture->rows; j++)
            nap();
        assert_true(ask(fixture, "XLEN banyan:usage") >= fixture->rows);
    }
}

static void test_redis_comes_back_older(void **state)
{
    struct fixture *fixture = begin(state);
    usage_start(fixture);
    rows_add(fixture, 200);
    wait_equal(fixture);
    ask(fixture, "SAVE");
    rows_add(fixture, 200);
    wait_equal(fixture);
    server_kill(fixture);
    rows_add(fixture, 10);
    server_start(fixture);
    wait_equal(fixture);
    /* And so much older that the rows since are gone. */
    server_kill(fixture);
    rows_add(fixture, 10);
    run_sql(fixture, "delete from requests where id < (select max(id) from requests) - 3");
    server_start(fixture);
    wait_equal(fixture);
    rows_add(fixture, 10);
    wait_equal(fixture);
}

static void test_redis_is_flushed(void **state)
{
    struct fixture *fixture = begin(state);
    usage_start(fixture);
    rows_add(fixture, 200);
    wait_equal(fixture);
    ask(fixture, "FLUSHALL");
    wait_equal(fixture); /* without another row */
    ask(fixture, "FLUSHALL");
    rows_add(fixture, 1);
    wait_equal(fixture);
}

/* As eviction does it. */
static void test_single_keys_go(void **state)
{
    struct fixture *fixture = begin(state);
    usage_start(fixture);
    rows_add(fixture, 120);
    wait_equal(fixture);
    ask(fixture, "DEL banyan:usage:{tnt_0}:20241004");
    rows_add(fixture, 120); /* of every day and tenant */
    wait_equal(fixture);
    ask(fixture, "DEL banyan:shipped");
    wait_equal(fixture);
    ask(fixture, "DEL banyan:usage:{tnt_1}:20241005 banyan:usage banyan:edges");
    usage_stop(fixture);
    usage_start(fixture); /* a new process compares at first */
    wait_equal(fixture);
}

static void test_rows_are_sent_again_for_nothing(void **state)
{
    struct fixture *fixture = begin(state);
    rows_add(fixture, 500);
    usage_start(fixture);
    wait_equal(fixture);
    usage_stop(fixture);
    redisReply *names = redisCommand(fixture->connection, "HKEYS banyan:shipped");
    char edge[32];
    snprintf(edge, sizeof edge, "%s", names->element[0]->str);
    freeReplyObject(names);
    for (int mark = 0; mark < 500; mark += 123) {
        char command[96];
        snprintf(command, sizeof command, "HSET banyan:shipped %s %d", edge, mark);
        int64_t before = ask(fixture, "XLEN banyan:usage");
        ask(fixture, command);
        usage_start(fixture);
        while (ask(fixture, "XLEN banyan:usage") < before + 500 - mark)
            nap();
        wait_equal(fixture);
        usage_stop(fixture);
        wait_equal(fixture);
        assert_int_equal(ask(fixture, "XLEN banyan:usage"), before + 500 - mark);
    }
    /* Without the mark the hashes are made anew, whatever theirs say. */
    ask(fixture, "DEL banyan:shipped");
    usage_start(fixture);
    wait_equal(fixture);
}

static void test_old_rows_are_gone(void **state)
{
    struct fixture *fixture = begin(state);
    rows_add(fixture, 400);
    run_sql(fixture, "delete from requests where id & 0xffffff <= 390");
    usage_start(fixture);
    wait_equal(fixture);
    usage_stop(fixture);
    assert_int_equal(ask(fixture, "XLEN banyan:usage"), 10);
    rows_add(fixture, 50);
    run_sql(fixture, "delete from requests where id & 0xffffff between 405 and 440");
    usage_start(fixture);
    wait_equal(fixture);
}

/* A backup of the ledger that is older than what Redis has seen, of rows and of days; `grown` rows
 * come before it sees Redis again. What others have in Redis is left alone. */
static void check_restored(struct fixture *fixture, int grown)
{
    usage_start(fixture);
    rows_add(fixture, 100);
    wait_equal(fixture);
    run_sql(fixture, "create table kept_rows as select * from requests;"
                     "create table kept_sums as select * from usage_minutes");
    fixture->more_days = 4;
    rows_add(fixture, 200);
    wait_equal(fixture);
    usage_stop(fixture);
    ledger_close(fixture->ledger);
    run_sql(fixture, "delete from requests; insert into requests select * from kept_rows;"
                     "delete from usage_minutes;"
                     "insert into usage_minutes select * from kept_sums");
    ledger_start(fixture);
    fixture->more_days = 0;
    rows_add(fixture, grown);
    ask(fixture, "HSET banyan:usage:{tnt_x}:20241004 requests 1 hwm:0123456789abcdef 1");
    ask(fixture, "SET banyan:usage:{tnt_y}:20241004 theirs");
    usage_start(fixture);
    wait_marked(fixture, 100 + grown);
    assert_int_equal(ask(fixture, "DEL banyan:usage:{tnt_x}:20241004"), 1);
    assert_int_equal(ask(fixture, "DEL banyan:usage:{tnt_y}:20241004"), 1);
    wait_equal(fixture);
    rows_add(fixture, 300);
    wait_equal(fixture);
}

static void test_the_ledger_comes_back_older(void **state)
{
    check_restored(begin(state), 20);
}

/* The number of its last row tells nothing then. */
static void test_the_ledger_comes_back_older_and_grows(void **state)
{
    check_restored(begin(state), 700);
}

/* Rows that are in Redis without a mark behind them are lost with the power, and others have their
 * numbers when Redis is seen again. */
static void test_the_last_commits_are_lost(void **state)
{
    struct fixture *fixture = begin(state);
    char edge[32], mark[64], command[160];
    usage_start(fixture);
    rows_add(fixture, 100);
    wait_marked(fixture, 100);
    redisReply *marks = redisCommand(fixture->connection, "HGETALL banyan:shipped");
    snprintf(edge, sizeof edge, "%s", marks->element[0]->str);
    snprintf(mark, sizeof mark, "%s", marks->element[1]->str);
    freeReplyObject(marks);
    run_sql(fixture, "create table kept_rows as select * from requests;"
                     "create table kept_sums as select * from usage_minutes");
    rows_add(fixture, 50);
    wait_equal(fixture);
    usage_stop(fixture);
    ledger_close(fixture->ledger);
    run_sql(fixture, "delete from requests; insert into requests select * from kept_rows;"
                     "delete from usage_minutes;"
                     "insert into usage_minutes select * from kept_sums");
    ledger_start(fixture);
    rows_add(fixture, 200);
    snprintf(command, sizeof command, "HSET banyan:shipped %s %s", edge, mark);
    ask(fixture, command); /* as it was */
    usage_start(fixture);
    wait_marked(fixture, 300);
    wait_equal(fixture);
}

static void test_memory_is_short(void **state)
{
    struct fixture *fixture = begin(state);
    usage_start(fixture);
    rows_add(fixture, 50);
    wait_equal(fixture);
    ask(fixture, "CONFIG SET maxmemory 1");
    rows_add(fixture, 50);
    wait_down(fixture, REDIS_REASON_MEMORY);
    rows_add(fixture, 50);
    /* Its thread counts what waits when it looks again. */
    for (int i = 0; i < WAIT_MS && usage_redis_lag(fixture->usage) < 50; i++)
        nap();
    assert_true(usage_redis_lag(fixture->usage) >= 50);
    ask(fixture, "CONFIG SET maxmemory 0");
    wait_equal(fixture);
}

static void test_it_is_a_replica_meanwhile(void **state)
{
    struct fixture *fixture = begin(state);
    usage_start(fixture);
    rows_add(fixture, 50);
    wait_equal(fixture);
    ask(fixture, "REPLICAOF 127.0.0.1 1");
    rows_add(fixture, 50);
    wait_down(fixture, REDIS_REASON_READ_ONLY);
    ask(fixture, "REPLICAOF NO ONE");
    wait_equal(fixture);
}

static void test_scripts_and_connections_go(void **state)
{
    struct fixture *fixture = begin(state);
    usage_start(fixture);
    for (int i = 0; i < 3; i++) {
        rows_add(fixture, 100);
        ask(fixture, "SCRIPT FLUSH");
        rows_add(fixture, 10);
        ask(fixture, "CLIENT KILL TYPE normal SKIPME yes");
        wait_equal(fixture);
    }
}

static void test_another_kind_of_key_stops_it(void **state)
{
    struct fixture *fixture = begin(state);
    usage_start(fixture);
    ask(fixture, "SET banyan:usage:{tnt_1}:20241004 theirs");
    rows_add(fixture, 30);
    wait_down(fixture, REDIS_REASON_TYPE);
    ask(fixture, "DEL banyan:usage:{tnt_1}:20241004");
    wait_equal(fixture);
    ask(fixture, "DEL banyan:shipped");
    usage_stop(fixture);
    ask(fixture, "SET banyan:shipped theirs");
    usage_start(fixture);
    wait_down(fixture, REDIS_REASON_TYPE);
}

static void test_started_with_redis_away(void **state)
{
    struct fixture *fixture = begin(state);
    server_kill(fixture);
    usage_start(fixture);
    wait_down(fixture, REDIS_REASON_REFUSED);
    rows_add(fixture, 30);
    for (int i = 0; i < WAIT_MS && usage_redis_lag(fixture->usage) != 30; i++)
        nap();
    assert_int_equal(usage_redis_lag(fixture->usage), 30);
    server_start(fixture);
    wait_equal(fixture);
}

/* The last rows go as well, though they were committed a moment ago. */
static void test_the_end_ships_what_is_left(void **state)
{
    struct fixture *fixture = begin(state);
    for (int i = 0; i < 5; i++) {
        usage_start(fixture);
        for (int j = 0; j < WAIT_MS && strcmp(usage_redis_word(fixture->usage), "up") != 0; j++)
            nap();
        rows_add(fixture, 100);
        ledger_close(fixture->ledger);
        usage_stop(fixture);
        assert_true(is_equal_to_rollups(fixture, 1));
        ledger_start(fixture);
    }
}

static void test_two_edges_add_up(void **state)
{
    struct fixture *fixture = begin(state);
    void *second = NULL;
    setup(&second);
    struct fixture *other = second;
    other->options.url = fixture->url;
    usage_start(fixture);
    usage_start(other);
    rows_add(fixture, 300);
    rows_add(other, 300);
    wait_equal_of(fixture, 2);
    ask(fixture, "DEL banyan:usage:{tnt_0}:20241004");
    rows_add(fixture, 120);
    rows_add(other, 120);
    wait_equal_of(fixture, 2);
    assert_int_equal(ask(fixture, "ZCARD banyan:edges"), 2);
    ask(fixture, "FLUSHALL");
    wait_equal_of(fixture, 2);
    teardown(&second);
}

static void test_hashes_expire(void **state)
{
    struct fixture *fixture = begin(state);
    fixture->options.keep_days = 36500;
    rows_add(fixture, 10);
    usage_start(fixture);
    wait_equal(fixture);
    int64_t left_s = ask(fixture, "TTL banyan:usage:{tnt_0}:20241004");
    assert_true(left_s > INT64_C(36500) * 86400 - (time(NULL) - INT64_C(86400) * DAY_FIRST));
    assert_true(left_s < INT64_C(36501) * 86400);
    usage_stop(fixture);
    ask(fixture, "FLUSHALL");
    fixture->options.keep_days = 1; /* all of it is older */
    usage_start(fixture);
    for (int i = 0; i < WAIT_MS && ask(fixture, "XLEN banyan:usage") != 10; i++)
        nap();
    usage_stop(fixture);
    assert_int_equal(ask(fixture, "EXISTS banyan:usage:{tnt_0}:20241004"), 0);
}

static void check_cost(struct fixture *fixture, const char *wanted)
{
    static const char *const fields[] = {"cost_nano", "cost_nano:small:v1:batch"};
    for (int i = 0; i < 2; i++) {
        redisReply *reply =
            redisCommand(fixture->connection, "HGET banyan:usage:{tnt_0}:20241004 %s", fields[i]);
        assert_int_equal(reply->type, REDIS_REPLY_STRING);
        assert_string_equal(reply->str, wanted);
        freeReplyObject(reply);
    }
}

/* Nobody's shipping ends because of an absurd price. */
static void test_costs_end_with_64_bits(void **state)
{
    struct fixture *fixture = begin(state);
    fixture->is_dear = true;
    usage_start(fixture);
    rows_add(fixture, 1);
    wait_marked(fixture, fixture->rows);
    check_cost(fixture, "9223372036854775802");
    rows_add(fixture, 30);
    wait_marked(fixture, fixture->rows);
    check_cost(fixture, "9223372036854775807");
    usage_stop(fixture);
    ask(fixture, "FLUSHALL");
    usage_start(fixture);
    wait_marked(fixture, fixture->rows);
    check_cost(fixture, "9223372036854775807");
}

static void test_a_wrong_url_is_an_error(void **state)
{
    struct fixture *fixture = begin(state);
    struct usage_redis *usage;
    fixture->options.url = "localhost:6379";
    assert_int_equal(usage_redis_open(&usage, &fixture->options), STATUS_INVALID);
    assert_null(usage);
}

static void test_without_redis(void **state)
{
    (void)state;
    struct usage_redis *usage;
    struct metrics *metrics;
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    assert_int_equal(
        usage_redis_open(&usage, &(struct usage_redis_options){.url = "", .metrics = metrics}),
        STATUS_OK);
    assert_null(usage);
    assert_string_equal(usage_redis_word(usage), "off");
    assert_true(metric_value(redis_link_metric_up(metrics)) == 0);
    usage_redis_close(usage);
    metrics_destroy(metrics);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_rows_are_shipped_once),
        TEST(test_the_stream_names_rows),
        TEST(test_the_stream_is_trimmed_or_none),
        TEST(test_redis_restarts_empty),
        TEST(test_redis_comes_back_older),
        TEST(test_redis_is_flushed),
        TEST(test_single_keys_go),
        TEST(test_rows_are_sent_again_for_nothing),
        TEST(test_old_rows_are_gone),
        TEST(test_the_ledger_comes_back_older),
        TEST(test_the_ledger_comes_back_older_and_grows),
        TEST(test_the_last_commits_are_lost),
        TEST(test_memory_is_short),
        TEST(test_it_is_a_replica_meanwhile),
        TEST(test_scripts_and_connections_go),
        TEST(test_another_kind_of_key_stops_it),
        TEST(test_started_with_redis_away),
        TEST(test_the_end_ships_what_is_left),
        TEST(test_two_edges_add_up),
        TEST(test_hashes_expire),
        TEST(test_costs_end_with_64_bits),
        TEST(test_a_wrong_url_is_an_error),
        cmocka_unit_test(test_without_redis),
    };
    signal(SIGPIPE, SIG_IGN); /* as the edge has it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
