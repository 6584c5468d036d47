/* admin_usage: what tenants saw is what admins see, by every group and in every shape; pages, CSV,
 * single requests, refusals, admins who leave. */
#include "gateway/admin/admin_usage.h"

#include "tests/unit/edge_kit.h"

#include <time.h>

static char path[512];

static json_t *ask_json(const char *query)
{
    assert_int_equal(edge_kit_admin("GET", query, ""), 200);
    const char *body = strstr(answer, "\r\n\r\n");
    assert_non_null(body);
    json_t *root = json_loads(body + 4, JSON_REJECT_DUPLICATES, NULL);
    if (root == NULL)
        fail_msg("no JSON: %s", answer);
    return root;
}

static const char *since(const char *route, long long ago, const char *more)
{
    snprintf(path, sizeof path, "%s?start_time=%lld%s", route, (long long)time(NULL) - ago, more);
    return path;
}

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

static int64_t total(const char *query, const char *name)
{
    json_t *page = ask_json(query);
    int64_t sum = sum_of(page, name);
    json_decref(page);
    return sum;
}

static void generate(int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(edge_kit_ask(kit.port, "POST", "/v1/chat/completions",
                                      edge_kit_bearer(kit.key),
                                      "{\"model\":\"ok\",\"messages\":[]}"),
                         200);
}

/* An answer of the kit's engine is 5 tokens in, 2 of them cached, and 3 out. */
static void test_sums_and_costs(void **state)
{
    (void)state;
    char filter[128];
    char price[128];
    generate(2);
    int64_t before = total(since("/admin/v1/usage", 3600, ""), "num_model_requests");
    assert_true(before >= 2);
    assert_int_equal(total(path, "cost_nano"), 0);
    assert_int_equal(
        edge_kit_admin("POST", "/admin/v1/prices",
                       "{\"currency\":\"usd\",\"input_nano\":100,\"cached_input_nano\":10,"
                       "\"output_nano\":1000}"),
        201);
    edge_kit_member("id", price, sizeof price);
    generate(3);
    snprintf(filter, sizeof filter, "&tenant_id=%s&group_by=tenant,key,model,class", kit.tenant_id);
    json_t *page = ask_json(since("/admin/v1/usage", 3600, filter));
    assert_int_equal(sum_of(page, "num_model_requests"), before + 3);
    int64_t cost = 3 * (3 * 100 + 2 * 10 + 3 * 1000);
    assert_int_equal(sum_of(page, "cost_nano"), cost); /* what was before has cost nothing */
    edge_text_has(answer, "\"currency\":\"usd\"");
    edge_text_has(answer, kit.tenant_id);
    json_decref(page);
    assert_int_equal(
        total(since("/admin/v1/usage", 3600, "&tenant_id=tnt_nobody"), "num_model_requests"), 0);
    assert_int_equal(total(since("/admin/v1/usage", 3600, "&class=batch"), "num_model_requests"),
                     0);
    assert_int_equal(total(since("/v1/organization/usage/completions", 3600,
                                 "&group_by[]=project_id&group_by[]=service_tier"),
                           "input_tokens"),
                     (before + 3) * 5);
    edge_text_has(answer, "\"service_tier\":\"default\"");
    json_decref(ask_json(since("/v1/organization/costs", 86400, "&group_by=project_id")));
    char amount[64];
    snprintf(amount, sizeof amount, "\"amount\":{\"value\":0.%09lld,\"currency\":\"usd\"}",
             (long long)cost);
    edge_text_has(answer, amount);
    /* A price that comes later does not change what was. */
    snprintf(path, sizeof path,
             "{\"currency\":\"usd\",\"input_nano\":7,\"output_nano\":7,\"effective_at\":%lld}",
             (long long)time(NULL) - 100);
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/prices", path), 201);
    assert_int_equal(total(since("/admin/v1/usage", 3600, ""), "cost_nano"), cost);
    snprintf(path, sizeof path, "/admin/v1/prices/%s", price);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 409);
}

static void test_csv(void **state)
{
    (void)state;
    generate(1);
    assert_int_equal(edge_kit_admin("GET",
                                    since("/admin/v1/usage", 3600,
                                          "&format=csv&group_by=model&bucket_width=1m&limit=1440"),
                                    ""),
                     200);
    edge_text_has(answer, "content-type: text/csv; charset=utf-8; header=present\r\n");
    edge_text_has(answer, "\r\n\r\nstart_time,end_time,tenant_id,");
    edge_text_has(answer, "Z,,,ok,,");
    assert_null(strstr(answer, "x-next-page"));
    assert_int_equal(
        edge_kit_admin("GET", since("/admin/v1/usage", 7200, "&format=csv&bucket_width=1m&limit=1"),
                       ""),
        200);
    edge_text_has(answer, "\r\nx-next-page: page_");
}

static void test_single_requests(void **state)
{
    (void)state;
    char last[64];
    generate(3);
    assert_int_equal(
        edge_kit_admin("GET", since("/admin/v1/usage/requests", 3600, "&limit=2&order=desc"), ""),
        200);
    edge_text_has(answer, "\"object\":\"usage.request\"");
    edge_text_has(answer, "\"finish\":\"stop\",\"http_code\":200,\"input_tokens\":5,"
                          "\"input_cached_tokens\":2,\"output_tokens\":3,");
    edge_text_has(answer, "\"has_more\":true}");
    edge_kit_member("last_id", last, sizeof last);
    snprintf(path, sizeof path, "/admin/v1/usage/requests?order=desc&limit=1000&after=%s", last);
    json_t *list = ask_json(path);
    assert_true(json_array_size(json_object_get(list, "data")) >= 1);
    assert_true(json_is_false(json_object_get(list, "has_more")));
    json_decref(list);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/usage/requests?format=csv&limit=1", ""), 200);
    edge_text_has(answer, "\r\nx-next-page: row_");
    edge_text_has(answer, "\r\n\r\nid,time,request_id,");
    list = ask_json("/admin/v1/usage/requests?tenant_id=tnt_nobody");
    assert_int_equal(json_array_size(json_object_get(list, "data")), 0);
    json_decref(list);
}

static void test_refusals(void **state)
{
    (void)state;
    char key[128];
    static const struct {
        const char *path;
        const char *param;
    } wrong[] = {
        {"/admin/v1/usage", "start_time"},
        {"/admin/v1/usage?start_time=0&group_by=tenants", "group_by"},
        {"/admin/v1/usage?start_time=0&format=pdf", "format"},
        {"/admin/v1/usage?start_time=0&project_ids=a", "query"},
        {"/admin/v1/usage/requests?after=x", "after"},
        {"/v1/organization/usage/completions?start_time=0&bucket_width=1w", "bucket_width"},
        {"/v1/organization/costs?start_time=0&limit=181", "limit"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(path, sizeof path, "\"param\":\"%s\"", wrong[i].param);
        assert_int_equal(edge_kit_admin("GET", wrong[i].path, ""), 400);
        edge_text_has(answer, path);
    }
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/admin-keys",
                                    "{\"name\":\"few\",\"scopes\":[\"admin:read\"]}"),
                     201);
    edge_kit_member("key", key, sizeof key);
    static const char *const routes[] = {"/admin/v1/usage", "/admin/v1/usage/requests",
                                         "/v1/organization/usage/completions",
                                         "/v1/organization/costs"};
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        assert_int_equal(edge_kit_ask(kit.admin_port, "GET", routes[i], edge_kit_bearer(key), ""),
                         403);
        assert_int_equal(
            edge_kit_ask(kit.admin_port, "GET", routes[i], edge_kit_bearer(kit.key), ""), 401);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_and_costs),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_single_requests),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
