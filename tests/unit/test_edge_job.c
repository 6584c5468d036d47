/* edge_job: what a client sees and what is counted, however the engine ends.
 */
#include "tests/unit/edge_kit.h"

#define CHAT "/v1/chat/completions"

static char row[64];

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

#define STREAM ",\"stream\":true"

/* Asks, and checks that exactly one row was added, whose values are returned as a text. */
static const char *ask_counted(const char *model, const char *more, int code)
{
    int before = edge_kit_rows();
    assert_int_equal(ask(model, more), code);
    assert_int_equal(edge_kit_rows(), before + 1); /* committed before the end was seen */
    edge_kit_last_row(row, sizeof row);
    return row;
}

static void test_stream(void **state)
{
    (void)state;
    assert_string_equal(ask_counted("ok", STREAM, 200), "3 stop 0 200");
    edge_text_has(answer, "content-type: text/event-stream; charset=utf-8");
    edge_text_has(answer, "cache-control: no-cache");
    edge_text_has(answer, "x-accel-buffering: no");
    edge_text_has(answer, "x-request-id: req_");
    edge_text_has(answer, "openai-processing-ms: ");
    edge_text_has(answer, "openai-version: 2020-10-01");
    edge_text_has(answer, "data: {\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\","
                          "\"created\":7,\"model\":\"fake\",\"choices\":[{\"index\":0,\"delta\":{"
                          "\"content\":\"tok \"},\"finish_reason\":null}]}\n\n");
    edge_text_has(answer, "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    assert_null(strstr(answer, "banyan.final"));
    assert_null(strstr(answer, "\"n\":"));
    assert_null(strstr(answer, "usage"));
}

static void test_stream_with_usage(void **state)
{
    (void)state;
    ask_counted("ok", STREAM ",\"stream_options\":{\"include_usage\":true}", 200);
    edge_text_has(answer, "\"finish_reason\":null}],\"usage\":null}\n\n");
    edge_text_has(answer,
                  "data: {\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\",\"created\":7,"
                  "\"model\":\"fake\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
                  "\"completion_tokens\":3,\"total_tokens\":8,\"prompt_tokens_details\":{"
                  "\"cached_tokens\":2},\"completion_tokens_details\":{\"reasoning_tokens\":0}}}"
                  "\n\ndata: [DONE]\n\n");
}

static void test_whole_answer(void **state)
{
    (void)state;
    assert_string_equal(ask_counted("ok", "", 200), "3 stop 0 200");
    edge_text_has(answer, "content-type: application/json");
    edge_text_has(answer, "openai-processing-ms: ");
    edge_text_has(answer, "\"object\":\"chat.completion\"");
    edge_text_has(answer, "\"content\":\"tok tok tok \"");
    edge_text_has(answer, "\"finish_reason\":\"stop\"");
    edge_text_has(answer, "\"total_tokens\":8");
    edge_text_has(answer, "\"service_tier\":\"default\"");
}

/* Asks; the one row of it comes behind the answer, when the engine's record has been read. */
static const char *ask_counted_later(const char *model, const char *more, int code)
{
    int before = edge_kit_rows();
    assert_int_equal(ask(model, more), code);
    edge_kit_wait_rows(before + 1);
    edge_kit_last_row(row, sizeof row);
    return row;
}

/* A killed engine is never a normal end. What it had counted of a stream is what is charged; one
 * without any record is charged as it was seen, and says so. Who has not asked for a stream was
 * answered nothing, and is charged nothing, whether a record comes later or not. */
static void test_cut_streams(void **state)
{
    (void)state;
    const struct {
        const char *model;
        const char *row;
    } rows[] = {{"cut", "3 error 0 200"}, {"half", "2 error 1 200"}};
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(ask_counted_later(rows[i].model, STREAM, 200), rows[i].row);
        assert_null(strstr(answer, "[DONE]"));
        edge_text_has(answer, "tok ");
        edge_text_has(answer, "data: {\"error\":{\"message\":\"The engine ended in the middle");
        assert_string_equal(ask_counted(rows[i].model, "", 503), "0 error 0 503");
        edge_text_has(answer, "\"type\":\"server_error\"");
        edge_text_has(answer, "retry-after: ");
        assert_null(strstr(answer, "chat.completion"));
    }
}

static void test_error_frame(void **state)
{
    (void)state;
    assert_string_equal(ask_counted("error", STREAM, 200), "2 error 0 200");
    edge_text_has(answer, "data: {\"error\":{\"message\":\"it broke\",\"type\":\"server_error\","
                          "\"param\":null,\"code\":null}}\n\n");
    assert_null(strstr(answer, "[DONE]"));
    assert_string_equal(ask_counted("error", "", 500), "0 error 0 500");
    edge_text_has(answer, "{\"error\":{\"message\":\"it broke\"");
}

static void test_garbage_is_cancelled(void **state)
{
    (void)state;
    assert_string_equal(ask_counted("garbage", STREAM, 200), "2 cancelled 0 200");
    edge_text_has(answer, "\"code\":\"upstream_error\"");
    assert_null(strstr(answer, "[DONE]"));
}

static void test_refusals_are_relayed_and_not_counted(void **state)
{
    (void)state;
    int before = edge_kit_rows();
    assert_int_equal(ask("refused", STREAM), 400);
    edge_text_has(answer, "\"param\":\"max_tokens\"");
    edge_text_has(answer, "content-type: application/json");
    assert_int_equal(ask("json200", ""), 502);
    assert_int_equal(edge_kit_rows(), before);
}

/* The class that the body asks for reaches the engine, the answer and the row. */
static void test_classes(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *head, *tier;
    } rows[] = {
        {",\"service_tier\":\"flex\"", "x-banyan-class: batch\r\n", "\"service_tier\":\"flex\""},
        {",\"service_tier\":\"priority\"", "x-banyan-class: realtime\r\n",
         "\"service_tier\":\"priority\""},
        {",\"service_tier\":null", "x-banyan-class: standard\r\n", "\"service_tier\":\"default\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(edge_kit_public("POST", CHAT, body_of("ok", rows[i].fields)), 200);
        edge_text_has(answer, rows[i].tier);
        pthread_mutex_lock(&engine_lock);
        edge_text_has(engine_head, rows[i].head);
        pthread_mutex_unlock(&engine_lock);
    }
    assert_int_equal(edge_kit_public("POST", CHAT, body_of("ok", ",\"priority\":1")), 400);
    edge_text_has(answer, "\"param\":\"priority\"");
}

/* The engine says that the deadline would pass: the client hears it, once, with the time to try
 * again; nothing is sent twice, and the row says what became of it. */
static void test_who_would_be_late_is_told_at_once(void **state)
{
    (void)state;
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        int before = edge_kit_rows();
        int asked = atomic_load(&engine_requests);
        assert_int_equal(
            edge_kit_public("POST", CHAT, body_of("late", is_stream ? ",\"stream\":true" : "")),
            503);
        edge_text_has(answer, "\"code\":\"queue_timeout\"");
        edge_text_has(answer, "about 3 s");
        edge_text_has(answer, "retry-after-ms: 2500\r\n");
        edge_text_has(answer, "retry-after: 3\r\n");
        assert_int_equal(atomic_load(&engine_requests), asked + 1);
        edge_kit_wait_rows(before + 1);
        edge_kit_last_row(row, sizeof row);
        assert_string_equal(row, "0 deadline 0 503");
    }
}

static void test_trusted_headers(void **state)
{
    (void)state;
    char headers[512];
    snprintf(headers, sizeof headers,
             "x-api-key: %s\r\nx-banyan-protocol: 7\r\nx-banyan-domain: evil\r\n"
             "x-banyan-visible: p:evil\r\nx-banyan-cache-share: 1000\r\nx-banyan-evil: 1\r\n"
             "x-banyan-class: realtime\r\nx-request-timeout-ms: 5000\r\n",
             kit.key);
    assert_int_equal(edge_kit_ask(kit.port, "POST", CHAT, headers, body_of("ok", "")), 200);
    const char *lines[] = {"POST /v1/chat/completions HTTP/1.1\r\n",
                           "x-banyan-protocol: 1\r\n",
                           "x-banyan-request-id: req_",
                           "x-banyan-class: standard\r\n",
                           "x-banyan-weight: 100\r\n",
                           "x-banyan-cache-share: 100\r\n",
                           "x-banyan-deadline-ms: 5000\r\n"};
    pthread_mutex_lock(&engine_lock);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        edge_text_has(engine_head, lines[i]);
    assert_null(strstr(engine_head, "evil"));
    assert_null(strstr(engine_head, kit.key));
    const char *domain = strstr(engine_head, "x-banyan-domain: ");
    const char *visible = strstr(engine_head, "x-banyan-visible: ");
    bool is_own = strncmp(visible + 18, "o:", 2) == 0 && memcmp(domain + 17, visible + 20, 34) == 0;
    pthread_mutex_unlock(&engine_lock);
    assert_true(is_own);
}

/* The client leaves in each phase: the engine hears of it, the row is exact, and says so. */
static void test_client_leaves_while_streaming(void **state)
{
    (void)state;
    int before = edge_kit_rows();
    int heard = atomic_load(&engine_half_closed);
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    edge_kit_write(&connection, "POST", CHAT, edge_kit_bearer(kit.key), body_of("endless", STREAM));
    edge_kit_read(&connection, "tok ");
    edge_kit_close(&connection);
    edge_kit_wait(&engine_half_closed, heard + 1);
    edge_kit_wait_rows(before + 1);
    edge_kit_last_row(row, sizeof row);
    edge_text_has(row, " cancelled 0 499");
    assert_true(strtol(row, NULL, 10) >= 2);
}

static void test_client_leaves_before_the_head(void **state)
{
    (void)state;
    int before = edge_kit_rows();
    int heard = atomic_load(&engine_half_closed);
    int asked = atomic_load(&engine_requests);
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    edge_kit_write(&connection, "POST", CHAT, edge_kit_bearer(kit.key), body_of("slow", STREAM));
    edge_kit_wait(&engine_requests, asked + 1);
    edge_kit_close(&connection);
    edge_kit_wait(&engine_half_closed, heard + 1);
    edge_kit_wait_rows(before + 1);
    edge_kit_last_row(row, sizeof row);
    assert_string_equal(row, "0 cancelled 0 499");
}

static void test_client_leaves_a_deaf_engine(void **state)
{
    (void)state;
    int before = edge_kit_rows();
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    edge_kit_write(&connection, "POST", CHAT, edge_kit_bearer(kit.key), body_of("deaf", STREAM));
    edge_kit_read(&connection, "tok ");
    edge_kit_close(&connection);
    edge_kit_wait_rows(before + 1);
    edge_kit_last_row(row, sizeof row);
    assert_string_equal(row, "2 cancelled 1 499");
}

static void test_deadline(void **state)
{
    (void)state;
    char headers[256];
    snprintf(headers, sizeof headers, "x-api-key: %s\r\nx-request-timeout-ms: 100\r\n", kit.key);
    assert_int_equal(edge_kit_ask(kit.port, "POST", CHAT, headers, body_of("endless", STREAM)),
                     200);
    edge_text_has(answer, "data: {\"error\":{\"message\":\"The request reached its deadline.\"");
    assert_null(strstr(answer, "[DONE]"));
    edge_kit_last_row(row, sizeof row);
    edge_text_has(row, " cancelled 0 200");
    assert_int_equal(edge_kit_ask(kit.port, "POST", CHAT, headers, body_of("slow", "")), 503);
    edge_text_has(answer, "queue_timeout");
}

/* The engine is held back by a client that does not read, and nothing is lost when it does. */
static void test_slow_reader_holds_the_engine_back(void **state)
{
    (void)state;
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    edge_kit_write(&connection, "POST", CHAT, edge_kit_bearer(kit.key), body_of("flood", STREAM));
    edge_kit_read(&connection, "tok ");
    long held = -1;
    for (int i = 0; i < 600 && (held <= 0 || held != atomic_load(&engine_flooded)); i++) {
        held = atomic_load(&engine_flooded);
        usleep(200000);
    }
    assert_in_range(held, 1, EDGE_KIT_FLOOD_BYTES / 2);
    /* Now read it all, keeping only the last bytes. */
    static char piece[65536];
    char tail[64] = "";
    long total = 0;
    int got;
    while ((got = SSL_read(connection.tls, piece, sizeof piece)) > 0) {
        total += got;
        size_t keep = got < 32 ? (size_t)got : 32;
        memmove(tail, tail + keep, 32 - keep);
        memcpy(tail + 32 - keep, piece + got - keep, keep);
    }
    edge_kit_close(&connection);
    assert_true(total > EDGE_KIT_FLOOD_BYTES - (1 << 20));
    edge_text_has(tail, "data: [DONE]");
    edge_kit_last_row(row, sizeof row);
    assert_string_equal(row, "2 length 0 200");
}

/* An answer in one piece has a limit; the engine is told to stop. */
static void test_whole_answer_over_the_limit(void **state)
{
    (void)state;
    assert_int_equal(ask("flood", ""), 400);
    edge_text_has(answer, "stream");
}

static void *ask_many(void *context)
{
    long failures = 0;
    for (int i = 0; i < 25; i++) {
        struct edge_kit_connection connection = edge_kit_connect(kit.port);
        char text[512];
        static const char body[] = "{\"model\":\"ok\",\"messages\":[],\"stream\":true}";
        int length = snprintf(text, sizeof text,
                              "POST " CHAT " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                              "x-api-key: %s\r\ncontent-length: %zu\r\n\r\n%s",
                              kit.key, sizeof body - 1, body);
        SSL_write(connection.tls, text, length);
        char got[8192];
        size_t at = 0;
        int n;
        while ((n = SSL_read(connection.tls, got + at, (int)(sizeof got - 1 - at))) > 0)
            at += (size_t)n;
        got[at] = '\0';
        failures += strstr(got, "data: [DONE]") == NULL;
        edge_kit_close(&connection);
    }
    *(long *)context = failures;
    return NULL;
}

static void test_many_at_once(void **state)
{
    (void)state;
    enum { CLIENTS = 8 };
    pthread_t threads[CLIENTS];
    long failures[CLIENTS];
    int before = edge_kit_rows();
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, &failures[i]), 0);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(failures[i], 0);
    }
    assert_int_equal(edge_kit_rows(), before + 25 * CLIENTS);
}

static size_t access_lines(const char *log)
{
    size_t lines = 0;
    for (const char *at = strstr(log, "\"event\":\"request\""); at != NULL;
         at = strstr(at + 1, "\"event\":\"request\""))
        lines++;
    return lines;
}

static void test_logs_hold_no_secret(void **state)
{
    (void)state;
    static char log[1 << 20];
    edge_kit_file(".log", log, sizeof log);
    size_t before = access_lines(log);
    ask("ok", ",\"user\":\"canary-4711\"");
    edge_kit_public("POST", CHAT "?canary-4711", "canary-4711");
    for (int i = 0; i < 12000 && access_lines(log) < before + 2; i++) {
        usleep(10000); /* a thread writes them */
        edge_kit_file(".log", log, sizeof log);
    }
    assert_true(access_lines(log) >= before + 2);
    edge_text_has(log, "\"event\":\"request\"");
    edge_text_has(log, kit.tenant_id);
    edge_text_has(log, kit.key_id);
    edge_text_has(log, "\"route\":\"/v1/chat/completions\"");
    assert_null(strstr(log, "canary-4711"));
    assert_null(strstr(log, kit.key));
    assert_null(strstr(log, kit.admin_key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_stream_with_usage),
        cmocka_unit_test(test_whole_answer),
        cmocka_unit_test(test_cut_streams),
        cmocka_unit_test(test_error_frame),
        cmocka_unit_test(test_garbage_is_cancelled),
        cmocka_unit_test(test_refusals_are_relayed_and_not_counted),
        cmocka_unit_test(test_trusted_headers),
        cmocka_unit_test(test_who_would_be_late_is_told_at_once),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_client_leaves_while_streaming),
        cmocka_unit_test(test_client_leaves_before_the_head),
        cmocka_unit_test(test_client_leaves_a_deaf_engine),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_slow_reader_holds_the_engine_back),
        cmocka_unit_test(test_whole_answer_over_the_limit),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_logs_hold_no_secret),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
