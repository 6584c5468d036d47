/* usage_redis against a real Redis: whatever happens to it, to the ledger and to the edge, the
 * hashes of tenants and days end equal to the ledger's roll-ups. Skipped where there is none. */
#include "tests/unit/usage_redis_kit.h"

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
    assert_int_equal(ask(fixture, "DBSIZE"), 9 + 4); /* hashes, stream, three marks */
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
        ask(fixture, command);
        usage_start(fixture);
        wait_marked(fixture, 500);
        wait_equal(fixture);
        usage_stop(fixture);
        wait_equal(fixture);
        assert_int_equal(ask(fixture, "XLEN banyan:usage"), 500); /* each row once */
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
    struct fixture *other = begin_second(fixture, &second);
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
