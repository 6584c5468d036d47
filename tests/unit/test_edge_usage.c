/* edge_usage: a tenant's own usage over the real edge: sums, pages, scopes, strangers. */
#include "tests/unit/edge_kit.h"

#include <time.h>

static char line[512];

static json_t *body_of_answer(void)
{
    const char *body = strstr(answer, "\r\n\r\n");
    assert_non_null(body);
    json_t *root = json_loads(body + 4, JSON_REJECT_DUPLICATES, NULL);
    if (root == NULL)
        fail_msg("no JSON: %s", answer);
    return root;
}

static json_t *usage_of(const char *key, const char *query)
{
    snprintf(line, sizeof line, "/v1/usage?%s", query);
    int code = edge_kit_ask(kit.port, "GET", line, edge_kit_bearer(key), "");
    if (code != 200)
        fail_msg("%s: %d %s", query, code, answer);
    edge_text_has(answer, "cache-control: no-store\r\n");
    return body_of_answer();
}

/* Sum of a member over all results of all buckets. */
static int64_t sum_of(json_t *page, const char *name)
{
    int64_t sum = 0;
    size_t i;
    size_t j;
    json_t *bucket;
    json_t *result;
    json_array_foreach(json_object_get(page, "data"), i, bucket)
    {
        json_array_foreach(json_object_get(bucket, "results"), j, result) sum +=
            json_integer_value(json_object_get(result, name));
    }
    return sum;
}

static const char *today(const char *more)
{
    static char query[256];
    long long now = (long long)time(NULL);
    snprintf(query, sizeof query, "start_time=%lld%s", now - now % 86400, more);
    return query;
}

/* A key of the kit's tenant or another one; scopes as JSON, or NULL for all. */
static void make_key(const char *tenant_id, const char *scopes, char *key, char *key_id)
{
    char path[128];
    char body[128];
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", tenant_id);
    if (scopes != NULL)
        snprintf(body, sizeof body, "{\"name\":\"more\",\"scopes\":%s}", scopes);
    else
        snprintf(body, sizeof body, "{\"name\":\"more\"}");
    assert_int_equal(edge_kit_admin("POST", path, body), 201);
    edge_kit_member("key", key, 128);
    edge_kit_member("id", key_id, 64);
}

static int generate(const char *key)
{
    return edge_kit_ask(kit.port, "POST", "/v1/chat/completions", edge_kit_bearer(key),
                        "{\"model\":\"ok\",\"messages\":[]}");
}

/* What clients saw (5 + 2 cached + 3 tokens an answer) is what usage says, at once. */
static void test_usage_is_what_was_seen(void **state)
{
    (void)state;
    char key[128];
    char key_id[64];
    make_key(kit.tenant_id, NULL, key, key_id);
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(generate(i == 3 ? key : kit.key), 200);
        json_t *page = usage_of(kit.key, today(""));
        assert_string_equal(json_string_value(json_object_get(page, "object")), "page");
        assert_int_equal(sum_of(page, "num_model_requests"), i);
        assert_int_equal(sum_of(page, "input_tokens"), 5 * i);
        assert_int_equal(sum_of(page, "input_cached_tokens"), 2 * i);
        assert_int_equal(sum_of(page, "output_tokens"), 3 * i);
        json_decref(page);
    }
    json_t *page = usage_of(kit.key, today("&group_by=key,class&bucket_width=1m&limit=1440"));
    assert_int_equal(sum_of(page, "num_model_requests"), 5);
    json_decref(page);
    page = usage_of(kit.key, today("&group_by=key"));
    json_t *results = json_object_get(json_array_get(json_object_get(page, "data"), 0), "results");
    assert_int_equal(json_array_size(results), 2);
    for (size_t i = 0; i < 2; i++) {
        json_t *result = json_array_get(results, i);
        const char *id = json_string_value(json_object_get(result, "key_id"));
        bool is_other = strcmp(id, key_id) == 0;
        assert_true(is_other || strcmp(id, kit.key_id) == 0);
        assert_int_equal(json_integer_value(json_object_get(result, "num_model_requests")),
                         is_other ? 1 : 4);
        assert_true(json_is_null(json_object_get(result, "model")));
    }
    json_decref(page);
}

static void test_a_stranger_sees_nothing(void **state)
{
    (void)state;
    char tenant_id[64];
    char key[128];
    char key_id[64];
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/tenants", "{\"name\":\"globex\"}"), 201);
    edge_kit_member("id", tenant_id, sizeof tenant_id);
    make_key(tenant_id, NULL, key, key_id);
    assert_int_equal(generate(kit.key), 200);
    json_t *page = usage_of(key, today("&group_by=key,model,class"));
    assert_int_equal(sum_of(page, "num_model_requests"), 0);
    json_decref(page);
    assert_int_equal(generate(key), 200);
    page = usage_of(key, today(""));
    assert_int_equal(sum_of(page, "num_model_requests"), 1);
    json_decref(page);
}

static void test_scope(void **state)
{
    (void)state;
    char key[128];
    char key_id[64];
    make_key(kit.tenant_id, "[\"inference\"]", key, key_id);
    snprintf(line, sizeof line, "/v1/usage?%s", today(""));
    assert_int_equal(edge_kit_ask(kit.port, "GET", line, edge_kit_bearer(key), ""), 403);
    edge_text_has(answer, "usage:read");
    make_key(kit.tenant_id, "[\"usage:read\"]", key, key_id);
    json_decref(usage_of(key, today("")));
    snprintf(line, sizeof line, "/v1/usage?%s", today(""));
    assert_int_equal(edge_kit_ask(kit.port, "GET", line, "", ""), 401);
    assert_int_equal(edge_kit_ask(kit.port, "GET", line, edge_kit_bearer(kit.admin_key), ""), 401);
    assert_int_equal(edge_kit_ask(kit.port, "POST", line, edge_kit_bearer(key), ""), 405);
}

static void test_pages_follow_each_other(void **state)
{
    (void)state;
    char query[256];
    long long start = (long long)time(NULL) - 3 * 86400;
    start -= start % 86400;
    char next[64] = "";
    int pages = 0;
    int64_t last_end = start;
    int64_t requests = 0;
    do {
        snprintf(query, sizeof query, "start_time=%lld&limit=1%s%s", start,
                 next[0] != '\0' ? "&page=" : "", next);
        json_t *page = usage_of(kit.key, query);
        json_t *data = json_object_get(page, "data");
        assert_int_equal(json_array_size(data), 1);
        json_t *bucket = json_array_get(data, 0);
        assert_int_equal(json_integer_value(json_object_get(bucket, "start_time")), last_end);
        last_end = json_integer_value(json_object_get(bucket, "end_time"));
        requests += sum_of(page, "num_model_requests");
        const char *name = json_string_value(json_object_get(page, "next_page"));
        assert_int_equal(name != NULL, json_is_true(json_object_get(page, "has_more")));
        snprintf(next, sizeof next, "%s", name != NULL ? name : "");
        json_decref(page);
        assert_true(++pages <= 5);
    } while (next[0] != '\0');
    assert_int_equal(pages, 4);
    json_t *page = usage_of(kit.key, today(""));
    assert_int_equal(requests, sum_of(page, "num_model_requests"));
    json_decref(page);
}

static void test_wrong_queries(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_public("GET", "/v1/usage", ""), 400);
    edge_text_has(answer, "\"param\":\"start_time\"");
    assert_int_equal(edge_kit_public("GET", "/v1/usage?start_time=1&key=key_1", ""), 400);
    edge_text_has(answer, "\"param\":\"query\"");
}

/* Clients that leave before they are answered: each is over, counted, and the edge goes on. */
static void test_clients_that_leave(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        struct edge_kit_connection connection = edge_kit_connect(kit.port);
        snprintf(line, sizeof line, "/v1/usage?%s", today("&bucket_width=1m&limit=1440"));
        edge_kit_write(&connection, "GET", line, edge_kit_bearer(kit.key), "");
        shutdown(connection.fd, SHUT_RDWR);
        edge_kit_close(&connection);
    }
    /* Until enough of them are over: a tenant has a bound on answers that nobody reads. */
    snprintf(line, sizeof line, "/v1/usage?%s", today(""));
    int code = 503;
    for (int i = 0; i < 12000 && code == 503; i++) {
        code = edge_kit_public("GET", line, "");
        usleep(10000);
    }
    assert_int_equal(code, 200);
    assert_int_equal(edge_kit_admin("GET", "/metrics", ""), 200);
    edge_text_has(answer, "banyan_http_requests_total{route=\"/v1/usage\",code=\"200\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage_is_what_was_seen),
        cmocka_unit_test(test_a_stranger_sees_nothing),
        cmocka_unit_test(test_scope),
        cmocka_unit_test(test_pages_follow_each_other),
        cmocka_unit_test(test_wrong_queries),
        cmocka_unit_test(test_clients_that_leave),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
