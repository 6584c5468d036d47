/* usage_scripts against a real Redis whose keys another program writes to: nobody else's rows wait,
 * the stream has each row once, and what was written over is made again from the ledger. Skipped
 * where there is no Redis. */
#include "auth/ledger/usage_scripts.h"

#include "config/base/clock.h"

#include "tests/unit/usage_redis_kit.h"

/* EXACT_MS: what the product promises for a hash from the commit of its rows on. The product itself
 * needs one pause between two turns (200 ms) and some milliseconds of work. The rest is for a
 * machine that does other things, too. */
enum { TENANTS = 8, EXACT_MS = 2000 };

#define DAY_0 "20241004"

/* Ways to write over a key: a command and what stands behind the key. The last ones are for a hash
 * that is there. */
struct poison {
    const char *command;
    const char *values;
};
static const struct poison poisons[] = {
    {"SET", "theirs"}, {"RPUSH", "a b"}, {"SADD", "a b"},   {"ZADD", "1 a"},
    {"XADD", "* a b"}, {"HSET", "a b"},  {"SETBIT", "7 1"}, {"PFADD", "a"},
};
static const struct poison hash_poisons[] = {
    {"HSET", "requests abc"},
    {"HSET", "input 1.5"},
    {"HSET", "output:small:v1:batch 99999999999999999999"},
    {"HSET", "requests 9223372036854775807"},
    {"HSET", "cost_nano 9223372036854775807"},
};
enum {
    POISONS = sizeof poisons / sizeof poisons[0],
    HASH_POISONS = sizeof hash_poisons / sizeof hash_poisons[0]
};

/* Deletes the key first, unless the poison is of a hash that is there. */
static void poison(struct fixture *fixture, const struct poison *poison, const char *key,
                   bool is_kept)
{
    char command[256];
    if (!is_kept) {
        snprintf(command, sizeof command, "DEL %s", key);
        ask(fixture, command);
    }
    snprintf(command, sizeof command, "%s %s %s", poison->command, key, poison->values);
    ask(fixture, command);
}

static void day_key(char out[64], int tenant, int day)
{
    snprintf(out, 64, "banyan:usage:{tnt_%d}:%d", tenant, 20241004 + day);
}

static double aside_total(struct fixture *fixture)
{
    return metric_value(metrics_get(fixture->metrics, METRIC_COUNTER,
                                    "banyan_redis_keys_aside_total", "", "", NULL, 0));
}

static double waiting(struct fixture *fixture)
{
    return metric_value(
        metrics_get(fixture->metrics, METRIC_GAUGE, "banyan_redis_keys_waiting", "", "", NULL, 0));
}

static struct fixture *begin_many(void **state)
{
    struct fixture *fixture = begin(state);
    fixture->tenants = TENANTS;
    assert_int_equal(metrics_create(&fixture->metrics), STATUS_OK);
    fixture->options.metrics = fixture->metrics;
    return fixture;
}

/* The same with 120 rows that Redis has. */
static struct fixture *begin_shipped(void **state)
{
    struct fixture *fixture = begin_many(state);
    usage_start(fixture);
    rows_add(fixture, 120);
    wait_equal(fixture);
    return fixture;
}

static void end_many(struct fixture *fixture)
{
    usage_stop(fixture);
    metrics_destroy(fixture->metrics);
}

/* Every row once, in whatever order its batch had. */
static void check_stream(struct fixture *fixture)
{
    for (int i = 0; i < WAIT_MS && ask(fixture, "XLEN banyan:usage") < fixture->rows; i++)
        nap();
    assert_int_equal(ask(fixture, "XLEN banyan:usage"), fixture->rows);
}

/* The number behind the edge's name in an entry's id. */
static long entry_row(const redisReply *entry)
{
    const redisReply *fields = entry->element[1];
    const char *dash = strrchr(fields->element[1]->str, '-');
    assert_string_equal(fields->element[0]->str, "id");
    assert_non_null(dash);
    return strtol(dash + 1, NULL, 10);
}

/* The same, told by the entries' ids. */
static void check_stream_ids(struct fixture *fixture)
{
    check_stream(fixture);
    redisReply *entries = redisCommand(fixture->connection, "XRANGE banyan:usage - +");
    bool *is_seen = calloc((size_t)fixture->rows + 1, sizeof *is_seen);
    assert_int_equal(entries->elements, fixture->rows);
    for (size_t i = 0; i < entries->elements; i++) {
        long row = entry_row(entries->element[i]);
        assert_in_range(row, 1, fixture->rows);
        assert_false(is_seen[row]);
        is_seen[row] = true;
    }
    free(is_seen);
    freeReplyObject(entries);
}

/* All rows that are committed are in their hashes EXACT_MS behind `from_us`; how long it took. */
static int64_t wait_exact(struct fixture *fixture, int64_t from_us)
{
    wait_equal(fixture);
    int64_t took_ms = (clock_mono_us(clock_system()) - from_us) / 1000;
    assert_in_range(took_ms, 0, EXACT_MS);
    return took_ms;
}

/* One poisoned key of each type, of three tenants, while 300 rows of all flow. Turns are as far
 * apart as they are in a server. */
static void test_a_day_that_is_something_else(void **state)
{
    struct fixture *fixture = begin_many(state);
    int64_t longest_ms = 0;
    fixture->options.turn_ms = 0;
    usage_start(fixture);
    rows_add(fixture, 120); /* every tenant has three days */
    wait_equal(fixture);
    char key[64];
    for (int kind = 0; kind < POISONS; kind++) {
        double before = aside_total(fixture);
        for (int tenant = 0; tenant < 3; tenant++) {
            day_key(key, tenant, 0);
            poison(fixture, &poisons[kind], key, false);
        }
        int64_t from_us = clock_mono_us(clock_system());
        rows_add(fixture, 300);
        int64_t took_ms = wait_exact(fixture, from_us);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        check_stream_ids(fixture);
        assert_true(aside_total(fixture) == before + 3);
        assert_int_equal(ask(fixture, "EXISTS banyan:aside:usage:{tnt_0}:" DAY_0), 1);
        assert_true(ask(fixture, "TTL banyan:aside:usage:{tnt_2}:" DAY_0) > 604000);
        assert_true(waiting(fixture) == 0);
        assert_string_equal(usage_redis_word(fixture->usage), "up");
    }
    print_message("poisoned days: all rows in Redis within %d ms\n", (int)longest_ms);
    end_many(fixture);
}

/* A field that is no number, or at the end of 64 bits: nothing is added before that is known. */
static void test_a_day_with_a_broken_field(void **state)
{
    struct fixture *fixture = begin_shipped(state);
    char key[64];
    for (int kind = 0; kind < HASH_POISONS; kind++) {
        for (int tenant = 0; tenant < 2; tenant++) { /* they use that model and class */
            day_key(key, tenant, kind % 3);
            poison(fixture, &hash_poisons[kind], key, true);
        }
        rows_add(fixture, 300);
        wait_equal(fixture);
        check_stream(fixture);
    }
    end_many(fixture);
}

static void test_a_day_with_a_broken_mark(void **state)
{
    static const char *const marks[] = {"abc", "nan", "1e3", "-5", "99999999999999999999", ""};
    struct fixture *fixture = begin_shipped(state);
    redisReply *names = redisCommand(fixture->connection, "HKEYS banyan:shipped");
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        redisReply *reply =
            redisCommand(fixture->connection, "HSET banyan:usage:{tnt_1}:" DAY_0 " hwm:%s %s",
                         names->element[0]->str, marks[i]);
        freeReplyObject(reply);
        rows_add(fixture, 120);
        wait_equal(fixture);
        check_stream(fixture);
    }
    freeReplyObject(names);
    end_many(fixture);
}

/* Deleted once it is whole again, it comes back without another row. */
static void test_a_mended_day_is_looked_after(void **state)
{
    struct fixture *fixture = begin_shipped(state);
    poison(fixture, &poisons[0], "banyan:usage:{tnt_1}:" DAY_0, false);
    rows_add(fixture, 120);
    wait_equal(fixture);
    ask(fixture, "DEL banyan:usage:{tnt_1}:" DAY_0);
    wait_equal(fixture);
    end_many(fixture);
}

/* The keys of all edges: the stream, the marks, the signs of life, the count of what went aside. */
static void test_keys_of_all_edges(void **state)
{
    static const char *const keys[] = {"banyan:shipped", "banyan:sent", "banyan:streamed",
                                       "banyan:edges", "banyan:asides"};
    struct fixture *fixture = begin_shipped(state);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        for (int kind = 0; kind < POISONS; kind++) {
            poison(fixture, &poisons[kind], keys[i], false);
            rows_add(fixture, 40);
            if (kind == 2) { /* and found so by a new process */
                usage_stop(fixture);
                rows_add(fixture, 10);
                usage_start(fixture);
            }
            wait_equal(fixture);
            check_stream(fixture);
        }
    }
    assert_int_equal(ask(fixture, "HLEN banyan:shipped"), 1);
    end_many(fixture);
}

static void test_marks_that_cannot_be_read(void **state)
{
    static const char *const keys[] = {"banyan:shipped", "banyan:sent", "banyan:streamed"};
    struct fixture *fixture = begin_many(state);
    rows_add(fixture, 120);
    usage_start(fixture);
    wait_equal(fixture);
    redisReply *names = redisCommand(fixture->connection, "HKEYS banyan:shipped");
    char *large = malloc(LIMIT_REDIS_REPLY_BYTES + 100);
    memset(large, 'x', LIMIT_REDIS_REPLY_BYTES + 100);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        for (int form = 0; form < 3; form++) {
            usage_stop(fixture);
            redisReply *reply = redisCommand(fixture->connection, "HSET %s %s %b", keys[i],
                                             names->element[0]->str, large,
                                             (size_t)(form == 0   ? 3
                                                      : form == 1 ? 60
                                                                  : LIMIT_REDIS_REPLY_BYTES + 100));
            freeReplyObject(reply);
            rows_add(fixture, 20);
            usage_start(fixture);
            wait_equal(fixture);
            check_stream(fixture);
        }
    }
    free(large);
    freeReplyObject(names);
    end_many(fixture);
}

/* Entries that were in a stream which another program wrote over are gone with it; no row is in the
 * new one twice, and none since is missing. */
static void test_the_stream_is_something_else(void **state)
{
    struct fixture *fixture = begin_shipped(state);
    for (int kind = 0; kind < POISONS; kind++) {
        if (strcmp(poisons[kind].command, "XADD") == 0)
            continue; /* that is a stream */
        poison(fixture, &poisons[kind], "banyan:usage", false);
        rows_add(fixture, 300);
        wait_equal(fixture);
        for (int i = 0; i < WAIT_MS && ask(fixture, "EXISTS banyan:aside:usage") == 0; i++)
            nap();
        for (int i = 0; i < WAIT_MS && ask(fixture, "XLEN banyan:usage") < 300; i++)
            nap();
        assert_int_equal(ask(fixture, "XLEN banyan:usage"), 300);
        ask(fixture, "DEL banyan:aside:usage");
    }
    end_many(fixture);
}

/* The script that enters one row, the second of two that belong together, as EVAL. */
static int64_t enter_second(struct fixture *fixture, const char *row)
{
    enum { NAMES = 4, NUMBERS = 5, WORDS = 3 + NAMES + NUMBERS + 1 };
    static const char *const names[NAMES] = {"banyan:usage", "banyan:streamed",
                                             "banyan:aside:usage", "banyan:aside:streamed"};
    static const char *const numbers[NUMBERS] = {"edge_x", "100", "228", "356", "1000000"};
    const char *words[WORDS + USAGE_SCRIPTS_ENTRY_VALUES] = {
        "EVAL", usage_scripts_text(USAGE_SCRIPT_ENTER), "4"};
    memcpy(words + 3, names, sizeof names);
    memcpy(words + 3 + NAMES, numbers, sizeof numbers);
    words[WORDS - 1] = row;
    for (int i = 0; i < USAGE_SCRIPTS_ENTRY_VALUES; i++)
        words[WORDS + i] = "x";
    redisReply *reply =
        redisCommandArgv(fixture->connection, WORDS + USAGE_SCRIPTS_ENTRY_VALUES, words, NULL);
    if (reply->type != REDIS_REPLY_INTEGER)
        fail_msg("%s", reply->str);
    int64_t answer = reply->integer;
    freeReplyObject(reply);
    return answer;
}

/* Rows 101 to 356 go in two scripts. When only the second is taken, the first one's rows are asked
 * for again, where Redis has a mark of this edge and where it has none. */
static void test_rows_of_a_script_that_was_not_taken(void **state)
{
    struct fixture *fixture = begin(state);
    assert_int_equal(enter_second(fixture, "229"), -1 - 100);
    ask(fixture, "HSET banyan:streamed edge_x 99");
    assert_int_equal(enter_second(fixture, "229"), -1 - 99);
    ask(fixture, "HSET banyan:streamed edge_x 400"); /* of rows that the ledger has lost */
    assert_int_equal(enter_second(fixture, "229"), -1 - 100);
    assert_int_equal(ask(fixture, "EXISTS banyan:usage"), 0);
    ask(fixture, "HSET banyan:streamed edge_x 228");
    assert_int_equal(enter_second(fixture, "229"), 1);
    assert_int_equal(enter_second(fixture, "229"), 0);
    assert_int_equal(ask(fixture, "XLEN banyan:usage"), 1);
}

/* One that takes no entry more: the highest id there is. */
static void test_the_stream_is_exhausted(void **state)
{
    struct fixture *fixture = begin_many(state);
    usage_start(fixture);
    rows_add(fixture, 50);
    wait_equal(fixture);
    check_stream(fixture);
    redisReply *reply = redisCommand(fixture->connection,
                                     "XADD banyan:usage 18446744073709551615-18446744073709551615 "
                                     "a b");
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    freeReplyObject(reply);
    rows_add(fixture, 300);
    wait_equal(fixture);
    for (int i = 0; i < WAIT_MS && ask(fixture, "XLEN banyan:usage") != 300; i++)
        nap();
    assert_int_equal(ask(fixture, "XLEN banyan:usage"), 300);
    assert_int_equal(ask(fixture, "XLEN banyan:aside:usage"), 51);
    end_many(fixture);
}

/* No right to one tenant's keys: that tenant waits, alone, over a restart too, and has all when the
 * right comes. */
static void test_no_right_to_one_tenant(void **state)
{
    struct fixture *fixture = begin_shipped(state);
    ask(fixture, "ACL SETUSER tester on nopass ~* +@all");
    ask(fixture, "AUTH tester x");
    ask(fixture, "ACL SETUSER default resetkeys ~banyan:[^u]* ~banyan:usage "
                 "~banyan:usage:{tnt_[^3]}*");
    fixture->left_out = "tnt_3";
    int64_t from_us = clock_mono_us(clock_system());
    rows_add(fixture, 300);
    wait_exact(fixture, from_us); /* the others, while one cannot be mended */
    check_stream_ids(fixture);
    assert_true(waiting(fixture) >= 1);
    assert_string_equal(usage_redis_word(fixture->usage), "up");
    usage_stop(fixture);
    rows_add(fixture, 50);
    usage_start(fixture);
    wait_equal(fixture);
    check_stream(fixture);
    usage_stop(fixture);
    ask(fixture, "ACL SETUSER default allkeys");
    fixture->left_out = NULL;
    usage_start(fixture); /* its rows since are behind the mark that was told */
    wait_equal(fixture);
    check_stream(fixture);
    ask(fixture, "ACL SETUSER default resetkeys ~banyan:[^u]* ~banyan:usage "
                 "~banyan:usage:{tnt_[^3]}*");
    fixture->left_out = "tnt_3";
    rows_add(fixture, 100);
    wait_equal(fixture);
    ask(fixture, "ACL SETUSER default allkeys");
    fixture->left_out = NULL;
    wait_equal(fixture); /* without another row */
    for (int i = 0; i < WAIT_MS && waiting(fixture) != 0; i++)
        nap();
    assert_true(waiting(fixture) == 0);
    check_stream(fixture);
    end_many(fixture);
}

static void test_no_right_to_the_stream(void **state)
{
    struct fixture *fixture = begin_shipped(state);
    ask(fixture, "ACL SETUSER tester on nopass ~* +@all");
    ask(fixture, "AUTH tester x");
    ask(fixture, "ACL SETUSER default resetkeys ~banyan:[^u]* ~banyan:usage:*");
    int64_t from_us = clock_mono_us(clock_system());
    rows_add(fixture, 300);
    wait_exact(fixture, from_us);
    assert_int_equal(ask(fixture, "XLEN banyan:usage"), 120);
    assert_true(waiting(fixture) == 1);
    ask(fixture, "ACL SETUSER default allkeys");
    check_stream(fixture);
    rows_add(fixture, 300);
    wait_equal(fixture);
    check_stream(fixture);
    assert_true(waiting(fixture) == 0);
    end_many(fixture);
}

/* Failures of the whole connection, again and again in the middle of batches: each row once. */
static void test_batches_that_are_cut_are_not_entered_again(void **state)
{
    struct fixture *fixture = begin_many(state);
    usage_start(fixture);
    for (int i = 0; i < 30; i++) {
        rows_add(fixture, 40);
        ask(fixture, i % 3 == 0   ? "CLIENT KILL TYPE normal SKIPME yes"
                     : i % 3 == 1 ? "CONFIG SET maxmemory 1"
                                  : "SCRIPT FLUSH");
        rows_add(fixture, 40);
        ask(fixture, "CONFIG SET maxmemory 0");
    }
    wait_equal(fixture);
    check_stream(fixture);
    end_many(fixture);
}

/* What one edge moved aside had the other one's part in it. */
static void test_two_edges_mend_their_parts(void **state)
{
    struct fixture *fixture = begin(state);
    void *second = NULL;
    struct fixture *other = begin_second(fixture, &second);
    rows_add(fixture, 120);
    rows_add(other, 120);
    wait_equal_of(fixture, 2);
    poison(fixture, &poisons[1], "banyan:usage:{tnt_0}:" DAY_0, false);
    rows_add(fixture, 120); /* the other one has none of that day */
    rows_add(other, 0);
    fixture->left_out = NULL;
    for (int i = 0; i < WAIT_MS && ask(fixture, "EXISTS banyan:aside:usage:{tnt_0}:" DAY_0) == 0;
         i++)
        nap();
    assert_int_equal(ask(fixture, "EXISTS banyan:aside:usage:{tnt_0}:" DAY_0), 1);
    for (int i = 0; i < WAIT_MS && ask(fixture, "HLEN banyan:usage:{tnt_0}:" DAY_0) == 0; i++)
        nap();
    /* Both marks are back, though the other edge had no row. */
    redisReply *marks = NULL;
    size_t count = 0;
    for (int i = 0; i < WAIT_MS && count != 2; i++, nap()) {
        count = 0;
        marks = redisCommand(fixture->connection, "HKEYS banyan:usage:{tnt_0}:" DAY_0);
        for (size_t j = 0; j < marks->elements; j++)
            count += strncmp(marks->element[j]->str, "hwm:", 4) == 0;
        freeReplyObject(marks);
    }
    assert_int_equal(count, 2);
    rows_add(other, 120);
    wait_equal_of(fixture, 2);
    teardown(&second);
}

/* A node of a cluster is refused by its name, at once. */
static void test_a_cluster_is_refused_by_name(void **state)
{
    struct fixture *fixture = begin(state);
    server_kill(fixture);
    fixture->arguments[0] = "--cluster-enabled";
    fixture->arguments[1] = "yes";
    server_start(fixture);
    rows_add(fixture, 10);
    usage_start(fixture);
    wait_down(fixture, REDIS_REASON_CLUSTER);
    assert_string_equal(redis_link_reason_word(usage_redis_reason(fixture->usage)), "cluster");
    assert_int_equal(ask(fixture, "DBSIZE"), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_day_that_is_something_else),
        TEST(test_a_day_with_a_broken_field),
        TEST(test_a_day_with_a_broken_mark),
        TEST(test_a_mended_day_is_looked_after),
        TEST(test_keys_of_all_edges),
        TEST(test_marks_that_cannot_be_read),
        TEST(test_the_stream_is_something_else),
        TEST(test_rows_of_a_script_that_was_not_taken),
        TEST(test_the_stream_is_exhausted),
        TEST(test_no_right_to_one_tenant),
        TEST(test_no_right_to_the_stream),
        TEST(test_batches_that_are_cut_are_not_entered_again),
        TEST(test_two_edges_mend_their_parts),
        TEST(test_a_cluster_is_refused_by_name),
    };
    signal(SIGPIPE, SIG_IGN); /* as the edge has it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
