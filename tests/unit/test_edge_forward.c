/* edge_forward: routes, refusals before the engine is asked, readiness. */
#include "tests/unit/edge_kit.h"

static void test_routes(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_public("POST", "/v1/tokenize", "{\"prompt\":\"x\"}"), 200);
    edge_text_has(engine_head, "POST /v1/tokenize HTTP/1.1");
    assert_int_equal(edge_kit_public("POST", "/v1/detokenize", "{\"tokens\":[]}"), 200);
    assert_int_equal(edge_kit_public("POST", "/v1/completions", "{\"model\":\"ok\"}"), 200);
    edge_text_has(answer, "\"object\":\"text_completion\"");
    assert_int_equal(edge_kit_public("GET", "/v1/nothing", ""), 404);
    edge_text_has(answer, "\"type\":\"invalid_request_error\"");
    edge_text_has(answer, "x-request-id: req_");
    assert_int_equal(edge_kit_public("GET", "/v1/chat/completions", ""), 405);
    edge_text_has(answer, "allow: POST");
    assert_int_equal(edge_kit_public("GET", "/admin/v1/tenants", ""), 404);
    assert_int_equal(edge_kit_public("GET", "/metrics", ""), 404);
}

static void refused(const char *body, const char *part)
{
    int asked = atomic_load(&engine_requests);
    if (edge_kit_public("POST", "/v1/chat/completions", body) != 400)
        fail_msg("accepted: %s", body);
    edge_text_has(answer, "\"type\":\"invalid_request_error\"");
    edge_text_has(answer, part);
    assert_int_equal(atomic_load(&engine_requests), asked);
}

static void test_bad_bodies_never_reach_the_engine(void **state)
{
    (void)state;
    refused("", "empty");
    refused("{", "not valid JSON");
    refused("[]", "must be a JSON object");
    refused("{\"model\":\"a\",\"model\":\"b\"}", "twice");
    refused("{\"stream\":\"yes\"}", "\"param\":\"stream\"");
    refused("{\"model\":1e999}", "too large");
}

enum { LARGE_BYTES = 128 * 1024 };

/* {"model":"ok","pad":"xxx…"} and whatever stands behind it. */
static char *large_body(const char *tail)
{
    static char body[LARGE_BYTES + 64];
    int length = snprintf(body, sizeof body, "{\"model\":\"ok\",\"pad\":\"");
    memset(body + length, 'x', LARGE_BYTES);
    snprintf(body + length + LARGE_BYTES, sizeof body - LARGE_BYTES - (size_t)length, "\"%s", tail);
    return body;
}

/* Checked on the scanner's thread. */
static void test_large_bodies(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_public("POST", "/v1/completions", large_body("}")), 200);
    edge_text_has(answer, "\"object\":\"text_completion\"");
    assert_int_equal(edge_kit_public("POST", "/v1/tokenize", large_body("}")), 200);
    refused(large_body(""), "not valid JSON");
    refused(large_body(",\"pad\":1}"), "twice");
    refused(large_body(",\"stream\":1}"), "\"param\":\"stream\"");
    refused(large_body(",\"priority\":1}"), "\"param\":\"priority\"");
}

/* Its copy is freed when the check is over, whenever that is. */
static void test_who_leaves_while_a_large_body_is_checked(void **state)
{
    (void)state;
    int rows = edge_kit_rows();
    for (int i = 0; i < 20; i++) {
        struct edge_kit_connection connection = edge_kit_connect(kit.port);
        edge_kit_write(&connection, "POST", "/v1/completions", edge_kit_bearer(kit.key),
                       large_body(i % 2 == 0 ? "}" : ""));
        edge_kit_close(&connection);
    }
    assert_int_equal(edge_kit_public("POST", "/v1/completions", large_body("}")), 200);
    assert_true(edge_kit_rows() > rows);
}

/* The engine serves another model, and the edge has heard of it by its next look at the engine. */
static void engine_serves(const char *model, const char *headers, bool is_listed)
{
    atomic_store(&engine_model, model);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", headers, ""), 200);
        if ((strstr(answer, "\"data\":[]") == NULL) == is_listed)
            return;
        usleep(10000);
    }
    fail_msg("the edge has not heard of %s", model);
}

/* Another model is served now: a tenant that may not use it does not hear of it. */
static void other_model_is_not_named(const char *headers)
{
    engine_serves("secret-model", headers, false);
    int asked = atomic_load(&engine_requests);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", headers, ""), 200);
    edge_text_has(answer, "{\"object\":\"list\",\"data\":[]}");
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models/secret-model", headers, ""), 404);
    edge_text_has(answer, "\"param\":\"model\",\"code\":\"model_not_found\"");
    assert_int_equal(edge_kit_ask(kit.port, "POST", "/v1/generate", headers, "{\"prompt\":\"a\"}"),
                     403);
    assert_int_equal(atomic_load(&engine_requests), asked);
    engine_serves("fake", headers, true);
}

/* A tenant that may ask some models alone, on each way to the engine, which hears of no other. The
 * kit's engine serves "fake": that is what a body means that names none. */
static void test_models_that_are_not_allowed(void **state)
{
    (void)state;
    static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/v1/tokenize"};
    char id[64], path[160], key[LIMIT_KEY_BYTES];
    assert_int_equal(edge_kit_public("GET", "/ready", ""), 200); /* it has told so */
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/tenants",
                                    "{\"name\":\"few-models\",\"models\":[\"fake\"]}"),
                     201);
    edge_kit_member("id", id, sizeof id);
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", id);
    assert_int_equal(edge_kit_admin("POST", path, "{}"), 201);
    edge_kit_member("key", key, sizeof key);
    const char *headers = edge_kit_bearer(key);
    int asked = atomic_load(&engine_requests);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(edge_kit_ask(kit.port, "POST", paths[i], headers, "{\"model\":\"ok\"}"),
                         403);
        edge_text_has(answer, "\"type\":\"permission_error\",\"param\":\"model\","
                              "\"code\":\"model_not_allowed\"");
        edge_text_has(answer, "x-should-retry: false");
    }
    char *large = large_body("}"); /* judged behind the scanner's thread */
    assert_int_equal(edge_kit_ask(kit.port, "POST", "/v1/completions", headers, large), 403);
    assert_int_equal(atomic_load(&engine_requests), asked);
    assert_int_equal(edge_kit_ask(kit.port, "POST", paths[0], headers, "{\"model\":\"fake\"}"),
                     200);
    assert_int_equal(edge_kit_ask(kit.port, "POST", "/v1/generate", headers, "{\"prompt\":\"a\"}"),
                     200);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", headers, ""), 200);
    edge_text_has(answer, "{\"object\":\"list\",\"data\":[{\"id\":\"fake\",");
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/me", headers, ""), 200);
    edge_text_has(answer, "\"models\":[\"fake\"]");
    other_model_is_not_named(headers);
    snprintf(path, sizeof path, "/admin/v1/tenants/%s", id);
    assert_int_equal(edge_kit_admin("PATCH", path, "{\"models\":[]}"), 200);
    assert_int_equal(
        edge_kit_ask(kit.port, "POST", paths[2], edge_kit_bearer(key), "{\"model\":\"ok\"}"), 200);
}

static void put_limits(const char *body)
{
    char path[160];
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/limits", kit.tenant_id);
    assert_int_equal(edge_kit_admin("PUT", path, body), 200);
}

static int tokenize(const char *body)
{
    return edge_kit_public("POST", "/v1/tokenize", body);
}

/* Class, route, tokens and code of the newest row. */
static void last_row_is(const char *wanted)
{
    char path[128], row[256];
    snprintf(path, sizeof path, "%s/ledger.db", kit.dir);
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db,
                           "select service_class || ' ' || route || ' ' || model || ' ' "
                           "|| finish || ' ' || http_code || ' ' || prompt_tokens || "
                           "' ' || completion_tokens || ' ' || is_estimated || ' ' || "
                           "cost_nano from requests order by rowid desc limit 1",
                           -1, &statement, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    snprintf(row, sizeof row, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    assert_string_equal(row, wanted);
}

/* Each has a row without tokens, of the class "text", before its answer. */
static void test_work_on_text_is_counted(void **state)
{
    (void)state;
    int rows = edge_kit_rows();
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/prices",
                                    "{\"currency\":\"usd\",\"input_nano\":1000,"
                                    "\"cached_input_nano\":1000,\"output_nano\":1000}"),
                     201);
    assert_int_equal(tokenize("{\"prompt\":\"x\"}"), 200);
    edge_text_has(answer, "{\"tokens\":[7],\"count\":1}");
    assert_int_equal(edge_kit_rows(), rows + 1);
    last_row_is("text /v1/tokenize fake stop 200 0 0 0 0");
    assert_int_equal(edge_kit_public("POST", "/v1/detokenize", "{\"tokens\":[]}"), 200);
    last_row_is("text /v1/detokenize fake stop 200 0 0 0 0");
    assert_int_equal(tokenize(large_body("}")), 200);
    assert_int_equal(edge_kit_rows(), rows + 3);
    assert_int_equal(tokenize("{\"model\":\"refused\"}"),
                     400); /* as a refused generation: no row */
    assert_int_equal(edge_kit_rows(), rows + 3);
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    int asked = atomic_load(&engine_requests);
    edge_kit_write(&connection, "POST", "/v1/tokenize", edge_kit_bearer(kit.key),
                   "{\"model\":\"slow\"}");
    edge_kit_wait(&engine_requests, asked + 1);
    edge_kit_close(&connection);
    edge_kit_wait_rows(rows + 4);
    last_row_is("text /v1/tokenize fake cancelled 499 0 0 0 0");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/usage/requests?start_time=1&class=text", ""),
                     200);
    edge_text_has(answer, "\"class\":\"text\"");
}

/* Requests and bytes of text are charged, tokens are not; what the engine took does not come back.
 */
static void test_work_on_text_is_limited(void **state)
{
    (void)state;
    put_limits("{\"requests_per_minute\":2,\"tokens_per_minute\":1}");
    assert_int_equal(tokenize("{\"prompt\":\"0123456789\"}"), 200);
    edge_text_has(answer, "x-ratelimit-remaining-requests: 1\r\n");
    assert_int_equal(tokenize("{\"model\":\"refused\"}"), 400);
    int asked = atomic_load(&engine_requests);
    assert_int_equal(tokenize("{\"prompt\":\"x\"}"), 429);
    edge_text_has(answer, "\"param\":\"requests_per_minute\"");
    edge_text_has(answer, "retry-after: ");
    assert_int_equal(edge_kit_public("POST", "/v1/detokenize", "{\"tokens\":[]}"), 429);
    put_limits("{\"text_bytes_per_minute\":40}");
    assert_int_equal(tokenize("{\"prompt\":\"a text of more than forty bytes\"}"), 429);
    edge_text_has(answer, "\"param\":\"text_bytes_per_minute\"");
    edge_text_has(answer, "too large");
    assert_int_equal(atomic_load(&engine_requests), asked);
    assert_int_equal(tokenize("{\"prompt\":\"twenty five bytes\"}"), 200);
    assert_int_equal(tokenize("{\"prompt\":\"twenty five bytes\"}"), 429);
    assert_int_equal(
        edge_kit_public("POST", "/v1/completions", "{\"model\":\"ok\",\"user\":\"a\"}"),
        429); /* its text counts as well */
    put_limits("{\"concurrent_requests\":1,\"requests_per_minute\":100}");
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    asked = atomic_load(&engine_requests);
    edge_kit_write(&connection, "POST", "/v1/tokenize", edge_kit_bearer(kit.key),
                   "{\"model\":\"slow\"}");
    edge_kit_wait(&engine_requests, asked + 1);
    assert_int_equal(tokenize("{\"prompt\":\"x\"}"), 429);
    edge_text_has(answer, "\"param\":\"concurrent_requests\"");
    int rows = edge_kit_rows();
    edge_kit_close(&connection);
    edge_kit_wait_rows(rows + 1);
    assert_int_equal(tokenize("{\"prompt\":\"x\"}"), 200);
    edge_text_has(answer, "x-ratelimit-remaining-requests: 98\r\n"); /* who left paid */
    put_limits("{}");
}

static void test_a_key_without_inference(void **state)
{
    (void)state;
    char path[160], key[LIMIT_KEY_BYTES];
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    assert_int_equal(edge_kit_admin("POST", path, "{\"scopes\":[\"usage:read\"]}"), 201);
    edge_kit_member("key", key, sizeof key);
    const char *headers = edge_kit_bearer(key);
    int asked = atomic_load(&engine_requests);
    assert_int_equal(edge_kit_ask(kit.port, "POST", "/v1/tokenize", headers, "{\"prompt\":\"x\"}"),
                     403);
    edge_text_has(answer, "This key does not have the scope inference.");
    edge_text_has(answer, "\"code\":\"insufficient_scope\"");
    assert_int_equal(edge_kit_ask(kit.port, "POST", "/v1/detokenize", headers, "{\"tokens\":[]}"),
                     403);
    assert_int_equal(atomic_load(&engine_requests), asked);
}

static void test_bad_deadline(void **state)
{
    (void)state;
    char headers[256];
    snprintf(headers, sizeof headers, "x-api-key: %s\r\nx-request-timeout-ms: soon\r\n", kit.key);
    assert_int_equal(
        edge_kit_ask(kit.port, "POST", "/v1/completions", headers, "{\"model\":\"ok\"}"), 400);
    edge_text_has(answer, "\"param\":\"x-request-timeout-ms\"");
}

static void test_body_over_the_limit(void **state)
{
    (void)state;
    static char head[512];
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    int length =
        snprintf(head, sizeof head,
                 "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                 "x-api-key: %s\r\ncontent-length: %lld\r\n\r\n",
                 kit.key, (long long)kit.config->body_limit + 1);
    SSL_write(connection.tls, head, length);
    static char piece[65536];
    memset(piece, ' ', sizeof piece);
    int64_t left = kit.config->body_limit + 1;
    while (left > 0) {
        int part = left < (int64_t)sizeof piece ? (int)left : (int)sizeof piece;
        if (SSL_write(connection.tls, piece, part) <= 0)
            break; /* refused already */
        left -= part;
    }
    edge_kit_read(&connection, "request_too_large");
    edge_text_has(answer, "HTTP/1.1 413");
    edge_kit_close(&connection);
}

static void test_health_and_readiness(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/health", "", ""), 200);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/ready", "", ""), 200);
    edge_text_has(answer, "{\"status\":\"ready\",\"engine\":\"up\",\"ledger\":\"writable\","
                          "\"connections\":\"room\",\"prompts\":\"computed\",\"draining\":"
                          "false,\"sandbox\":\"off\",\"redis\":\"off\"}");
    atomic_store(&engine_is_sick, true);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/ready", "", ""), 503);
    edge_text_has(answer, "\"engine\":\"down\"");
    atomic_store(&engine_is_sick, false);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/ready", "", ""), 200);
    edge_kit_stop_engine();
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/ready", "", ""), 503);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/health", "", ""), 200);
    edge_kit_start_engine();
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/ready", "", ""), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_bad_bodies_never_reach_the_engine),
        cmocka_unit_test(test_large_bodies),
        cmocka_unit_test(test_who_leaves_while_a_large_body_is_checked),
        cmocka_unit_test(test_models_that_are_not_allowed),
        cmocka_unit_test(test_work_on_text_is_counted),
        cmocka_unit_test(test_work_on_text_is_limited),
        cmocka_unit_test(test_a_key_without_inference),
        cmocka_unit_test(test_bad_deadline),
        cmocka_unit_test(test_body_over_the_limit),
        cmocka_unit_test(test_health_and_readiness),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
