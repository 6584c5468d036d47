/* usage_redis_kit: usage_redis between a real Redis and a ledger; whether Redis's hashes equal the
 * ledger's roll-ups. Skipped where there is no Redis.
 *
 * Owns:     a fixture.
 * Thread:   the test's.
 * Cost:     -
 * Not here: the server and the rows (usage_redis_kit_server), what happens to them
 *           (test_usage_redis, test_usage_scripts).
 */
#pragma once

#include "tests/unit/usage_redis_kit_server.h"

/* --- equality --- */

static __attribute__((unused)) int64_t hash_number(const redisReply *hash, const char *name,
                                                   bool *is_there)
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
static __attribute__((unused)) bool hash_is_equal(const redisReply *hash, sqlite3_stmt *sums,
                                                  size_t marks)
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
static __attribute__((unused)) bool is_equal_to_rollups(struct fixture *fixture, int ledgers)
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
        const char *tenant = (const char *)sqlite3_column_text(days, 0);
        if (fixture->left_out != NULL && strcmp(tenant, fixture->left_out) == 0)
            continue;
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
    is_equal = is_equal && keys != NULL && (keys->elements == count || fixture->left_out != NULL);
    if (keys != NULL)
        freeReplyObject(keys);
    sqlite3_finalize(days);
    sqlite3_finalize(sums);
    sqlite3_close(connection);
    return is_equal;
}

static __attribute__((unused)) void wait_equal_of(struct fixture *fixture, int ledgers)
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

static __attribute__((unused)) void wait_equal(struct fixture *fixture)
{
    wait_equal_of(fixture, 1);
}

static __attribute__((unused)) void wait_down(struct fixture *fixture, enum redis_reason reason)
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
static __attribute__((unused)) void wait_marked(struct fixture *fixture, int sequence)
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

static __attribute__((unused)) int setup(void **state)
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

static __attribute__((unused)) int teardown(void **state)
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

static __attribute__((unused)) struct fixture *begin(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->ledger_path[0] == '\0')
        skip(); /* there is no redis-server; deploy/prepare test installs it (redis-tools) */
    return fixture;
}

/* A second edge with a ledger of its own, at the Redis of the first one; both ship from here on.
 * `second` is for teardown. */
static __attribute__((unused)) struct fixture *begin_second(struct fixture *first, void **second)
{
    setup(second);
    struct fixture *other = *second;
    other->options.url = first->url;
    usage_start(first);
    usage_start(other);
    return other;
}
