/* admin_requests: what is under way, with names and the engine's words; and the end of one. */
#include "gateway/admin/admin_requests.h"

#include "tests/unit/edge_kit.h"

#define REQUESTS "/admin/v1/requests"
#define ENDLESS  "{\"model\":\"endless\",\"stream\":true}"

static void told(const char *rows)
{
    pthread_mutex_lock(&engine_lock);
    snprintf(engine_listed, sizeof engine_listed, "%s", rows);
    pthread_mutex_unlock(&engine_lock);
}

/* A stream that goes on until it is ended; its id. */
static struct edge_kit_connection begin(const char *body, const char *until, char id[64])
{
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    edge_kit_write(&connection, "POST", "/v1/chat/completions", edge_kit_bearer(kit.key), body);
    if (until != NULL)
        edge_kit_read(&connection, until);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(edge_kit_admin("GET", REQUESTS "?order=desc&limit=1", ""), 200);
        if (strstr(answer, "\"id\":\"req_") != NULL)
            break;
        usleep(10000);
    }
    edge_kit_member("first_id", id, 64);
    return connection;
}

/* Until the list is empty again. */
static void ended(void)
{
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(edge_kit_admin("GET", REQUESTS, ""), 200);
        if (strstr(answer, "\"data\":[],\"first_id\":null") != NULL)
            return;
        usleep(10000);
    }
    fail_msg("%s", answer);
}

static void test_nothing_is_under_way(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_admin("GET", REQUESTS, ""), 200);
    edge_text_has(answer, "{\"object\":\"list\",\"data\":[],\"first_id\":null,\"last_id\":null,"
                          "\"has_more\":false}");
    assert_int_equal(edge_kit_admin("GET", REQUESTS "?limit=0", ""), 400);
    assert_int_equal(edge_kit_admin("GET", REQUESTS "?after=req_nothere", ""), 400);
    assert_int_equal(edge_kit_admin("DELETE", REQUESTS "/req_nothere", ""), 404);
    assert_int_equal(edge_kit_ask(kit.admin_port, "GET", REQUESTS, "", ""), 401);
    assert_int_equal(edge_kit_public("GET", REQUESTS, ""), 404);
}

static void test_what_edge_and_engine_know(void **state)
{
    (void)state;
    char id[64], rows[512], path[128];
    told("");
    struct edge_kit_connection client = begin(ENDLESS, "tok ", id);
    edge_text_has(answer, "\"object\":\"request\",\"tenant_id\":\"tnt_");
    edge_text_has(answer, "\"tenant_name\":\"acme\",\"key_id\":\"key_");
    edge_text_has(answer, "\"route\":\"/v1/chat/completions\",\"class\":\"standard\","
                          "\"state\":\"streaming\",\"stream\":true,\"prompt_tokens\":0,");
    snprintf(rows, sizeof rows,
             "{\"request_id\":\"req_other\",\"state\":\"prefill\"},{\"request_id\":\"%s\","
             "\"state\":\"decode\",\"prompt_tokens\":100,\"computed_tokens\":104,"
             "\"cached_tokens\":96,\"tokens\":100000000,\"explain\":{\"position\":4}}",
             id);
    told(rows);
    assert_int_equal(edge_kit_admin("GET", REQUESTS, ""), 200);
    edge_text_has(answer, "\"state\":\"decode\",\"stream\":true,\"prompt_tokens\":100,"
                          "\"computed_tokens\":104,\"cached_tokens\":96,"
                          "\"completion_tokens\":100000000,\"age_ms\":");
    edge_text_has(answer, ",\"explain\":{\"position\":4}");
    assert_null(strstr(answer, "req_other"));
    snprintf(path, sizeof path, REQUESTS "?after=%s", id);
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, "\"data\":[]");
    told("no JSON");
    assert_int_equal(edge_kit_admin("GET", REQUESTS, ""), 200);
    edge_text_has(answer, "\"state\":\"streaming\"");
    edge_text_has(answer, ",\"explain\":null");
    edge_kit_close(&client);
    told("");
    ended();
}

static void test_an_admin_ends_one(void **state)
{
    (void)state;
    char id[64], path[128], row[128];
    told("");
    int before = edge_kit_rows();
    struct edge_kit_connection client = begin(ENDLESS, "tok ", id);
    snprintf(path, sizeof path, REQUESTS "/%s?dry_run=true", id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    edge_text_has(answer, "\"dry_run\":true}");
    snprintf(path, sizeof path, REQUESTS "/%s", id);
    assert_int_equal(edge_kit_admin("DELETE", path, "{\"a\":1}"), 400);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    assert_null(strstr(answer, "request.cancelled"));
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    edge_text_has(answer, "\"tenant_name\":\"acme\"");
    edge_kit_read(&client, NULL);
    edge_text_has(answer, "data: {\"error\":{\"message\":\"The request was cancelled by an "
                          "administrator.\"");
    assert_null(strstr(answer, "[DONE]"));
    edge_kit_close(&client);
    edge_kit_wait_rows(before + 1);
    edge_kit_last_row(row, sizeof row);
    edge_text_has(row, " cancelled 0 200");
    ended();
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 404);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "\"type\":\"request.cancelled\"");
    edge_text_has(answer, id);
    edge_text_has(answer, kit.tenant_id);
    assert_int_equal(edge_kit_admin("GET", "/metrics", ""), 200);
    edge_text_has(answer, "banyan_requests_cancelled_total{reason=\"admin\"} 1\n");
}

/* One that waits at the edge, for an answer in one piece: a refusal that says not to come again. */
static void test_the_end_of_one_that_is_held(void **state)
{
    (void)state;
    char id[64], path[128];
    struct edge_kit_connection client = begin("{\"model\":\"busy\"}", NULL, id);
    snprintf(path, sizeof path, REQUESTS "/%s", id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    edge_kit_read(&client, NULL);
    edge_text_has(answer, "HTTP/1.1 409 ");
    edge_text_has(answer, "x-should-retry: false");
    edge_kit_close(&client);
    ended();
}

static void test_scopes(void **state)
{
    (void)state;
    char id[64], path[128], key[128];
    assert_int_equal(
        edge_kit_admin("POST", "/admin/v1/admin-keys", "{\"scopes\":[\"admin:read\"]}"), 201);
    edge_kit_member("key", key, sizeof key);
    struct edge_kit_connection client = begin(ENDLESS, "tok ", id);
    snprintf(path, sizeof path, REQUESTS "/%s", id);
    assert_int_equal(edge_kit_ask(kit.admin_port, "DELETE", path, edge_kit_bearer(key), ""), 403);
    assert_int_equal(edge_kit_ask(kit.admin_port, "GET", REQUESTS, edge_kit_bearer(key), ""), 200);
    edge_text_has(answer, id);
    edge_kit_close(&client);
    ended();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_under_way),
        cmocka_unit_test(test_what_edge_and_engine_know),
        cmocka_unit_test(test_an_admin_ends_one),
        cmocka_unit_test(test_the_end_of_one_that_is_held),
        cmocka_unit_test(test_scopes),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
