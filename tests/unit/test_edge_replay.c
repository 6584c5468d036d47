/* edge_replay: records read again and acknowledged, over restarts of either side; what waits for an
 * engine that is not there. A real edge, against an engine whose ring outlives it. */
#include "tests/unit/edge_kit.h"

#include "config/base/clock.h"
#include "config/base/limits.h"

#define CHAT "/v1/chat/completions"

static const char *body_of(const char *model, const char *more)
{
    static char body[512];
    snprintf(body, sizeof body, "{\"model\":\"%s\",\"messages\":[]%s}", model, more);
    return body;
}

static int ask(const char *model, const char *more)
{
    return edge_kit_public("POST", CHAT, body_of(model, more));
}

static char row[64];

#define STREAM ",\"stream\":true"

static int set_up(void **state)
{
    (void)state;
    const char *options[] = {"--drain-timeout-s",       "2",  "--replay-wait-s",         "2",
                             "--queue-requests",        "12", "--queue-tenant-requests", "8",
                             "--queue-tenant-bytes",    "1M", "--queue-commit-after-s",  "1",
                             "--slow-reader-timeout-s", "3",  "--engine-idle-timeout-s", "1"};
    edge_kit_setup_with(options, 16);
    return 0;
}

static uint64_t engine_last(void)
{
    pthread_mutex_lock(&engine_lock);
    uint64_t last =
        engine_record_count > 0 ? engine_records[engine_record_count - 1].record_seq : 0;
    pthread_mutex_unlock(&engine_lock);
    return last;
}

/* All that the ring holds is acknowledged, within a tick. */
static void wait_acked(void)
{
    uint64_t acked = 0;
    for (int i = 0; i < 12000; i++) {
        pthread_mutex_lock(&engine_lock);
        acked = engine_acked;
        pthread_mutex_unlock(&engine_lock);
        if (acked == engine_last())
            return;
        usleep(10000);
    }
    fail_msg("acknowledged %llu of %llu", (unsigned long long)acked,
             (unsigned long long)engine_last());
}

/* One value of a SELECT, as a text. */
static const char *value_of(const char *sql)
{
    static char value[256];
    char path[128];
    snprintf(path, sizeof path, "%s/ledger.db", kit.dir);
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    value[0] = '\0';
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != NULL)
        snprintf(value, sizeof value, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

static void test_what_is_counted_is_acknowledged(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(ask("ok", i % 2 == 0 ? STREAM : ""), 200);
    wait_acked();
    assert_int_equal(engine_last(), edge_kit_rows());
    int acks = atomic_load(&engine_acks);
    int64_t begun_us = clock_mono_us(clock_system());
    for (int i = 0; i < 70; i++)
        assert_int_equal(ask("ok", ""), 200);
    wait_acked();
    /* in batches: of 64, or of a tick (250 ms) */
    int64_t ticks = (clock_mono_us(clock_system()) - begun_us) / 250000;
    assert_in_range(atomic_load(&engine_acks) - acks, 1, ticks + 70 / 64 + 2);
}

/* Adds records as an engine does while no edge is there. */
static void records_add(int count, const char *prefix, const char *tenant)
{
    pthread_mutex_lock(&engine_lock);
    struct engine_record known = engine_records[engine_record_count - 1];
    for (int i = 0; i < count; i++) {
        struct engine_record *record = &engine_records[engine_record_count];
        *record = known;
        record->record_seq = engine_records[engine_record_count - 1].record_seq + 1;
        snprintf(record->request_id, sizeof record->request_id, "req_%s%d", prefix, i);
        if (tenant != NULL)
            snprintf(record->tenant, sizeof record->tenant, "%s", tenant);
        record->tokens = 7;
        engine_record_count++;
    }
    pthread_mutex_unlock(&engine_lock);
}

/* An edge that starts finds what its predecessor has not counted: each once, under its tenant; what
 * nobody knows is kept as well; what was counted and not acknowledged is not counted again. */
static void test_edge_restart(void **state)
{
    (void)state;
    enum { NEW = 300 }; /* three pages */
    assert_int_equal(ask("ok", ""), 200);
    int before = edge_kit_rows();
    edge_kit_end();
    records_add(NEW, "new", NULL);
    records_add(2, "strange", "00000000000000000000000000000000");
    pthread_mutex_lock(&engine_lock);
    engine_acked -= engine_acked > 3 ? 3 : 0; /* as if the last word had been lost */
    pthread_mutex_unlock(&engine_lock);
    edge_kit_run();
    edge_kit_wait_rows(before + NEW + 2);
    wait_acked();
    char sql[512];
    snprintf(sql, sizeof sql,
             "select count(*) from requests where request_id like 'req_new%%' and tenant_id='%s' "
             "and key_id='%s' and completion_tokens=7 and is_estimated=0 and model='fake' "
             "and route='/v1/chat/completions'",
             kit.tenant_id, kit.key_id);
    assert_string_equal(value_of(sql), "300");
    assert_string_equal(value_of("select count(*) from requests where request_id like "
                                 "'req_strange%' and tenant_id='unknown' and completion_tokens=7"),
                        "2");
    assert_string_equal(
        value_of("select count(*) from (select request_id from requests group by request_id "
                 "having count(*) > 1)"),
        "0");
    assert_int_equal(ask("ok", ""), 200);
}

/* Records that went while nobody looked are known to be lost, and do not stand in the way. */
static void test_a_gap_is_passed(void **state)
{
    (void)state;
    assert_int_equal(ask("ok", ""), 200);
    wait_acked();
    int before = edge_kit_rows();
    pthread_mutex_lock(&engine_lock);
    engine_records[engine_record_count] = engine_records[engine_record_count - 1];
    engine_records[engine_record_count].record_seq += 10;
    snprintf(engine_records[engine_record_count].request_id, 64, "req_behind");
    engine_record_count++;
    pthread_mutex_unlock(&engine_lock);
    assert_int_equal(ask("ok", ""), 200); /* its mark stands behind the gap */
    edge_kit_wait_rows(before + 2);
    wait_acked();
    static char log[1 << 20];
    edge_kit_file(".log", log, sizeof log);
    edge_text_has(log, "\"event\":\"records_lost\",\"records\":9");
}

/* --- waiting for the engine --- */

struct asker {
    pthread_t thread;
    const char *model;
    const char *more;
    int code;
    char text[8192];
};

static void *asker_main(void *context)
{
    struct asker *asker = context;
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    char text[1024];
    char body[512];
    snprintf(body, sizeof body, "{\"model\":\"%s\",\"messages\":[]%s}", asker->model, asker->more);
    int length = snprintf(text, sizeof text,
                          "POST " CHAT " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                          "x-api-key: %s\r\ncontent-length: %zu\r\n\r\n%s",
                          kit.key, strlen(body), body);
    SSL_write(connection.tls, text, length);
    size_t at = 0;
    int got;
    while ((got = SSL_read(connection.tls, asker->text + at, (int)(sizeof asker->text - 1 - at))) >
           0)
        at += (size_t)got;
    asker->text[at] = '\0';
    asker->code = at > 12 ? (int)strtol(asker->text + 9, NULL, 10) : 0;
    edge_kit_close(&connection);
    return NULL;
}

static void asker_begin(struct asker *asker, const char *model, const char *more)
{
    asker->model = model;
    asker->more = more;
    assert_int_equal(pthread_create(&asker->thread, NULL, asker_main, asker), 0);
}

static void wait_metric(const char *line)
{
    for (int i = 0; i < 12000; i++) {
        assert_int_equal(edge_kit_admin("GET", "/metrics", ""), 200);
        if (strstr(answer, line) != NULL)
            return;
        usleep(10000);
    }
    fail_msg("the metrics never said '%s'", line);
}

/* The engine goes away before it answers: the request is sent to the next one, but a request with
 * which engines go away is told so, and not sent to a third. */
static void test_cut_before_the_head(void **state)
{
    (void)state;
    int before = edge_kit_rows();
    int asked = atomic_load(&engine_requests);
    atomic_store(&engine_dies_left, 1);
    assert_int_equal(ask("ok", STREAM), 200);
    edge_text_has(answer, "data: [DONE]");
    assert_int_equal(atomic_load(&engine_requests), asked + 2);
    atomic_store(&engine_dies_left, 8);
    assert_int_equal(ask("ok", STREAM), 503);
    edge_text_has(answer, "service_unavailable");
    /* twice, each time once more when the connection was a kept one */
    assert_in_range(atomic_load(&engine_dies_left), 4, 6);
    atomic_store(&engine_dies_left, 0);
    edge_kit_wait_rows(before + 2);
    edge_kit_last_row(row, sizeof row);
    assert_string_equal(row,
                        "0 error 0 503"); /* one of them may have begun it: nothing is charged */
    assert_int_equal(ask("ok", ""), 200);
    /* It had begun the request, and died before the head came: told so, and counted once; what it
     * had computed was answered to nobody and is charged to nobody. */
    atomic_store(&engine_begins_left, 2); /* a kept connection is replaced once */
    assert_int_equal(ask("ok", ""), 503);
    atomic_store(&engine_begins_left, 0);
    edge_text_has(answer, "The engine went away while it worked");
    edge_kit_wait_rows(before + 4);
    edge_kit_last_row(row, sizeof row);
    assert_string_equal(row, "0 error 0 503");
    wait_acked(); /* the engine's record among them */
    assert_int_equal(edge_kit_rows(), before + 4);
}

/* The ways of leaving while the request waits; none of them is sent later. */
static void test_leaving_while_waiting(void **state)
{
    (void)state;
    edge_kit_stop_engine();
    int asked = atomic_load(&engine_requests);
    for (int i = 0; i < 3; i++) {
        struct edge_kit_connection leaver = edge_kit_connect(kit.port);
        edge_kit_write(&leaver, "POST", CHAT, edge_kit_bearer(kit.key), body_of("ok", STREAM));
        wait_metric("banyan_requests_waiting{class=\"standard\"} 1\n");
        struct linger at_once = {.l_onoff = 1};
        if (i == 1)
            setsockopt(leaver.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        if (i == 2)
            shutdown(leaver.fd, SHUT_WR);
        if (i != 2)
            edge_kit_close(&leaver);
        wait_metric("banyan_requests_waiting{class=\"standard\"} 0\n");
        if (i == 2)
            edge_kit_close(&leaver);
    }
    edge_kit_start_engine();
    assert_int_equal(ask("ok", ""), 200);
    assert_int_equal(atomic_load(&engine_requests), asked + 1);
}

/* The engine is down: eight of one tenant wait, one more is told so at once, one that leaves makes
 * room; a stream that has waited a second is told that it waits; then all are answered. */
static void test_engine_restart(void **state)
{
    (void)state;
    enum { ASKERS = 8 };
    static struct asker askers[ASKERS];
    edge_kit_stop_engine();
    int before = edge_kit_rows();
    for (int i = 0; i < ASKERS - 1; i++)
        asker_begin(&askers[i], "ok", i % 2 == 0 ? STREAM : "");
    wait_metric("banyan_requests_waiting{class=\"standard\"} 7\n");
    struct edge_kit_connection leaver = edge_kit_connect(kit.port);
    edge_kit_write(&leaver, "POST", CHAT, edge_kit_bearer(kit.key), body_of("ok", STREAM));
    wait_metric("banyan_requests_waiting{class=\"standard\"} 8\n");
    assert_int_equal(ask("ok", ""), 429);
    edge_text_has(answer, "\"code\":\"queue_full\"");
    edge_text_has(answer, "class standard");
    edge_text_has(answer, "retry-after-ms: ");
    edge_text_has(answer, "retry-after: ");
    edge_text_has(answer, "x-request-id: req_");
    edge_kit_close(&leaver);
    wait_metric("banyan_requests_waiting{class=\"standard\"} 7\n");
    asker_begin(&askers[ASKERS - 1], "refused", STREAM);
    wait_metric("banyan_requests_waiting{class=\"standard\"} 8\n");
    assert_int_equal(edge_kit_public("GET", "/ready", ""), 503);
    edge_text_has(answer, "\"engine\":\"down\"");
    usleep(3000000); /* streams are told that they wait */
    atomic_fetch_add(&engine_instance, 1);
    edge_kit_start_engine();
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(askers[i].thread, NULL);
        assert_int_equal(askers[i].code, 200);
        assert_true((strstr(askers[i].text, ": queued\n\n") != NULL) ==
                    (askers[i].more[0] != '\0'));
    }
    for (int i = 0; i < ASKERS - 1; i++)
        assert_true((strstr(askers[i].text, "data: [DONE]") != NULL) == (i % 2 == 0));
    const char *refusal = askers[ASKERS - 1].text;
    edge_text_has(refusal, "data: {\"error\":{\"message\":\"no\"");
    assert_null(strstr(refusal, "[DONE]"));
    edge_kit_wait_rows(before + ASKERS); /* the one who left among them */
    wait_metric("banyan_requests_waiting{class=\"standard\"} 0\n");
    wait_acked();
}

/* A deadline that comes while a request waits. */
static void test_deadline_while_waiting(void **state)
{
    (void)state;
    char headers[256];
    snprintf(headers, sizeof headers, "x-api-key: %s\r\nx-request-timeout-ms: 100\r\n", kit.key);
    edge_kit_stop_engine();
    assert_int_equal(edge_kit_ask(kit.port, "POST", CHAT, headers, body_of("ok", STREAM)), 503);
    edge_text_has(answer, "\"code\":\"queue_timeout\"");
    wait_metric("banyan_requests_cancelled_total{reason=\"deadline\"} 1\n");
    edge_kit_start_engine();
    wait_metric("banyan_requests_waiting{class=\"standard\"} 0\n");
    assert_int_equal(ask("ok", ""), 200);
}

/* A full engine is asked again, and a request for which it never has room stops nobody else. */
static void test_busy_engine(void **state)
{
    (void)state;
    int before = edge_kit_rows();
    atomic_store(&engine_busy_left, 3);
    assert_int_equal(ask("ok", ""), 200);
    assert_int_equal(atomic_load(&engine_busy_left), 0);
    static struct asker asker;
    asker_begin(&asker, "busy", ",\"never\":true");
    wait_metric("banyan_requests_waiting{class=\"standard\"} 1\n");
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask("ok", ""), 200);
    assert_int_equal(edge_kit_rows(), before + 4);
    atomic_store(&engine_is_roomy, true);
    pthread_join(asker.thread, NULL);
    atomic_store(&engine_is_roomy, false);
    assert_int_equal(asker.code, 200);
}

/* An engine that has no room for more of one tenant is asked again, and counts for nobody else as
 * full: many such answers shut no class. */
static void test_engine_full_for_one_tenant(void **state)
{
    (void)state;
    enum { ASKERS = 6 }; /* more than the answers in a row that mean a full engine */
    static struct asker askers[ASKERS];
    int asked = atomic_load(&engine_requests);
    for (int i = 0; i < ASKERS; i++)
        asker_begin(&askers[i], "greedy", "");
    for (int i = 0; i < 12000 && atomic_load(&engine_requests) < asked + 3 * ASKERS; i++)
        usleep(10000);
    assert_true(atomic_load(&engine_requests) >= asked + 3 * ASKERS);
    atomic_store(&engine_is_roomy, true);
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(askers[i].thread, NULL);
        assert_int_equal(askers[i].code, 200);
    }
    atomic_store(&engine_is_roomy, false);
}

/* It drains: nothing is sent to it, and nothing is lost. Another protocol: told so at once. */
static void test_draining_and_foreign_engines(void **state)
{
    (void)state;
    atomic_store(&engine_is_draining, true);
    assert_int_equal(edge_kit_public("GET", "/ready", ""), 503);
    edge_text_has(answer, "\"engine\":\"draining\"");
    static struct asker asker;
    int asked = atomic_load(&engine_requests);
    asker_begin(&asker, "ok", "");
    wait_metric("banyan_requests_waiting{class=\"standard\"} 1\n");
    assert_int_equal(atomic_load(&engine_requests), asked);
    atomic_store(&engine_is_draining, false);
    pthread_join(asker.thread, NULL);
    assert_int_equal(asker.code, 200);

    assert_int_equal(ask("ok", ""), 200); /* the gate is open, the last check is new */
    atomic_store(&engine_protocol, 2);
    assert_int_equal(ask("ok", ""), 503); /* it says so itself before the next check */
    edge_text_has(answer, "another version");
    assert_int_equal(edge_kit_public("GET", "/ready", ""), 503);
    edge_text_has(answer, "\"engine\":\"other protocol\"");
    asked = atomic_load(&engine_requests);
    assert_int_equal(ask("ok", ""), 503);
    edge_text_has(answer, "another version");
    assert_int_equal(atomic_load(&engine_requests), asked);
    wait_metric("banyan_upstream_foreign 1\n");
    static char log[1 << 20];
    edge_kit_file(".log", log, sizeof log);
    edge_text_has(log, "\"event\":\"engine_protocol\",\"engine\":2,\"edge\":1");
    atomic_store(&engine_protocol, 1);
    wait_metric("banyan_upstream_foreign 0\n");
    assert_int_equal(ask("ok", ""), 200);
}

/* A stream whose pages others have is told so at once and again, is silent for longer than an
 * engine may be, and goes on to its end; an answer in one piece hears nothing of it. */
static void test_streams_that_the_engine_pauses(void **state)
{
    (void)state;
    atomic_store(&engine_stands, true);
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    edge_kit_write(&connection, "POST", CHAT, edge_kit_bearer(kit.key),
                   body_of("standing", STREAM));
    edge_kit_read(&connection, ": paused\n\n");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/requests", ""), 200);
    edge_text_has(answer, "\"state\":\"paused\"");
    edge_kit_read(&connection, ": paused\n\n");
    atomic_store(&engine_stands, false);
    edge_kit_read(&connection, NULL);
    edge_kit_close(&connection);
    edge_text_has(answer, "tok ");
    edge_text_has(answer, "data: [DONE]");
    assert_null(strstr(answer, "paused"));
    assert_null(strstr(answer, "banyan"));

    atomic_store(&engine_stands, true);
    static struct asker asker;
    asker_begin(&asker, "standing", "");
    usleep(3000000); /* three times what an engine may be silent */
    atomic_store(&engine_stands, false);
    pthread_join(asker.thread, NULL);
    assert_int_equal(asker.code, 200);
    assert_null(strstr(asker.text, "paused"));
    edge_text_has(asker.text, "\"completion_tokens\":3");
}

/* A reader that stops for twice the time after which a silent engine has failed is paused, not cut,
 * and then has everything; one that stops for good is cut off and counted. */
static void test_stopped_readers(void **state)
{
    (void)state;
    wait_metric("banyan_ledger_rows_awaited 0\n"); /* of requests given up in tests before */
    int before = edge_kit_rows();
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    edge_kit_write(&connection, "POST", CHAT, edge_kit_bearer(kit.key), body_of("flood", STREAM));
    edge_kit_read(&connection, "tok ");
    wait_metric("banyan_readers_paused 1\n");
    long held = atomic_load(&engine_flooded);
    static char piece[65536];
    for (int i = 0; i < 2; i++) { /* a little is read in between: it is there */
        usleep(1100000);
        assert_true(SSL_read(connection.tls, piece, sizeof piece) > 0);
    }
    assert_in_range(atomic_load(&engine_flooded) - held, 0, 1 << 20);
    assert_int_equal(ask("ok", ""), 200); /* others are not held back */
    long total = 0;
    int got;
    char tail[64] = "";
    while ((got = SSL_read(connection.tls, piece, sizeof piece)) > 0) {
        total += got;
        size_t keep = got < 32 ? (size_t)got : 32;
        memmove(tail, tail + keep, 32 - keep);
        memcpy(tail + 32 - keep, piece + got - keep, keep);
    }
    edge_kit_close(&connection);
    assert_true(total > EDGE_KIT_FLOOD_BYTES - (4 << 20));
    edge_text_has(tail, "data: [DONE]");
    edge_kit_wait_rows(before + 2);
    wait_metric("banyan_readers_paused 0\n");

    connection = edge_kit_connect(kit.port);
    edge_kit_write(&connection, "POST", CHAT, edge_kit_bearer(kit.key), body_of("flood", STREAM));
    edge_kit_read(&connection, "tok ");
    wait_metric("banyan_requests_cancelled_total{reason=\"slow_reader\"} 1\n");
    edge_kit_close(&connection);
    wait_metric("banyan_readers_paused 0\n");
    edge_kit_wait_rows(before + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_counted_is_acknowledged),
        cmocka_unit_test(test_edge_restart),
        cmocka_unit_test(test_a_gap_is_passed),
        cmocka_unit_test(test_cut_before_the_head),
        cmocka_unit_test(test_engine_restart),
        cmocka_unit_test(test_leaving_while_waiting),
        cmocka_unit_test(test_deadline_while_waiting),
        cmocka_unit_test(test_busy_engine),
        cmocka_unit_test(test_engine_full_for_one_tenant),
        cmocka_unit_test(test_draining_and_foreign_engines),
        cmocka_unit_test(test_stopped_readers),
        cmocka_unit_test(test_streams_that_the_engine_pauses),
    };
    return cmocka_run_group_tests(tests, set_up, edge_kit_teardown);
}
