/* admin_tenants: create, get and list over the config API. */
#include "gateway/admin/admin_tenants.h"

#include "tests/unit/edge_kit.h"

#define TENANTS "/admin/v1/tenants"

static void test_create_and_get(void **state)
{
    (void)state;
    char id[64], same[64], path[160];
    assert_int_equal(edge_kit_admin("POST", TENANTS, "{\"name\":\"globex\",\"weight\":7}"), 201);
    edge_kit_member("id", id, sizeof id);
    edge_text_has(answer,
                  "\"object\":\"tenant\",\"name\":\"globex\",\"state\":\"active\","
                  "\"weight\":7,\"group\":\"\",\"share\":\"private\","
                  "\"cache_share\":100,\"default_class\":\"standard\",\"best_class\":\"realtime\","
                  "\"models\":[],\"metadata\":{},\"created_at\":");
    assert_int_equal(strncmp(id, "tnt_", 4), 0);
    snprintf(path, sizeof path, TENANTS "/%s", id);
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_kit_member("id", same, sizeof same);
    assert_string_equal(id, same);
    assert_int_equal(edge_kit_admin("POST", TENANTS, "{\"name\":\"plain\"}"), 201);
    edge_text_has(answer, "\"weight\":100");
    assert_int_equal(edge_kit_admin("GET", TENANTS "/tnt_nothere", ""), 404);
}

static void test_group_and_shares(void **state)
{
    (void)state;
    char id[64], path[160];
    assert_int_equal(edge_kit_admin("POST", TENANTS,
                                    "{\"name\":\"east-1\",\"group\":\"east\",\"share\":"
                                    "\"group\",\"cache_share\":1000}"),
                     201);
    edge_kit_member("id", id, sizeof id);
    snprintf(path, sizeof path, TENANTS "/%s", id);
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, "\"group\":\"east\",\"share\":\"group\",\"cache_share\":1000,");
    assert_int_equal(edge_kit_admin("PATCH", path, "{\"group\":\"\",\"share\":\"private\"}"), 200);
    edge_text_has(answer, "\"group\":\"\",\"share\":\"private\",\"cache_share\":1000,");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "\"detail\":{\"revision\":2,\"group\":\"\",\"share\":\"private\"}");
}

static void test_classes(void **state)
{
    (void)state;
    char id[64], path[160];
    assert_int_equal(edge_kit_admin("POST", TENANTS,
                                    "{\"name\":\"slow\",\"default_class\":\"batch\","
                                    "\"best_class\":\"standard\"}"),
                     201);
    edge_text_has(answer, "\"default_class\":\"batch\",\"best_class\":\"standard\"");
    edge_kit_member("id", id, sizeof id);
    snprintf(path, sizeof path, TENANTS "/%s", id);
    assert_int_equal(edge_kit_admin("PATCH", path, "{\"default_class\":\"realtime\"}"), 400);
    edge_text_has(answer, "\"param\":\"default_class\"");
    assert_int_equal(edge_kit_admin("PATCH", path, "{\"default_class\":\"standard\"}"), 200);
    edge_text_has(answer, "\"default_class\":\"standard\",\"best_class\":\"standard\"");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "\"detail\":{\"revision\":2,\"default_class\":\"standard\"}");
}

/* The kit's engine serves "fake". */
static void test_models(void **state)
{
    (void)state;
    char id[64], path[160], body[512];
    assert_int_equal(edge_kit_public("GET", "/ready", ""), 200); /* it has told so */
    assert_int_equal(edge_kit_admin("POST", TENANTS, "{\"name\":\"some\",\"models\":[\"fake\"]}"),
                     201);
    edge_text_has(answer, "\"models\":[\"fake\"],\"metadata\":{}");
    edge_kit_member("id", id, sizeof id);
    snprintf(path, sizeof path, TENANTS "/%s", id);
    assert_int_equal(edge_kit_admin("PATCH", path, "{\"models\":[\"fake\"]}"), 200);
    edge_text_has(answer, "\"revision\":1");
    assert_int_equal(edge_kit_admin("PATCH", path, "{\"models\":[]}"), 200);
    edge_text_has(answer, "\"models\":[],");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "\"detail\":{\"revision\":2,\"models\":0}");
    static const struct {
        const char *list;
        int code;
        const char *param;
    } wrong[] = {
        {"\"fake\"", 400, "models"},
        {"null", 400, "models"},
        {"[7]", 400, "models[0]"},
        {"[\"fake\",\"\"]", 400, "models[1]"},
        {"[\"fake\",\"fake\"]", 400, "models[1]"},
        {"[\"fa\\nke\"]", 400, "models[0]"},
        {"[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", 400, "models"},
        {"[\"fake\",\"fak\"]", 404, "models[1]"}, /* no engine serves it */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char param[64];
        snprintf(body, sizeof body, "{\"models\":%s}", wrong[i].list);
        snprintf(param, sizeof param, "\"param\":\"%s\"", wrong[i].param);
        if (edge_kit_admin("PATCH", path, body) != wrong[i].code)
            fail_msg("%s: %s", body, answer);
        edge_text_has(answer, param);
    }
}

static void refused(const char *body, int code, const char *param)
{
    char text[64];
    snprintf(text, sizeof text, "\"param\":\"%s\"", param);
    if (edge_kit_admin("POST", TENANTS, body) != code)
        fail_msg("%s: %s", body, answer);
    edge_text_has(answer, text);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("{}", 400, "name");
    refused("{\"name\":\"\"}", 400, "name");
    refused("{\"name\":7}", 400, "name");
    refused("{\"name\":\"x\",\"weight\":0}", 400, "weight");
    refused("{\"name\":\"x\",\"weight\":1001}", 400, "weight");
    refused("{\"name\":\"x\",\"group\":7}", 400, "group");
    refused("{\"name\":\"x\",\"group\":\"a\\nb\"}", 400, "group");
    refused("{\"name\":\"x\",\"share\":\"all\"}", 400, "share");
    refused("{\"name\":\"x\",\"cache_share\":0}", 400, "cache_share");
    refused("{\"name\":\"x\",\"cache_share\":1001}", 400, "cache_share");
    refused("{\"name\":\"x\",\"default_class\":\"priority\"}", 400, "default_class");
    refused("{\"name\":\"x\",\"best_class\":0}", 400, "best_class");
    refused("{\"name\":\"x\",\"best_class\":\"batch\"}", 400, "best_class");
    refused("{\"name\":\"x\",\"colour\":\"red\"}", 400, "colour");
    refused("{\"name\":\"acme\"}", 409, "name");
    char body[LIMIT_NAME_BYTES + 32];
    for (size_t extra = 0; extra < 2; extra++) {
        int length = snprintf(body, sizeof body, "{\"name\":\"");
        memset(body + length, 'n', LIMIT_NAME_BYTES - 1 + extra);
        snprintf(body + length + LIMIT_NAME_BYTES - 1 + extra, 3, "\"}");
        assert_int_equal(edge_kit_admin("POST", TENANTS, body), extra == 0 ? 201 : 400);
    }
    assert_int_equal(edge_kit_admin("GET", TENANTS "?dry_run=true", ""), 400);
}

/* The ids of a list, walked page by page, joined by spaces. */
static void walk(const char *order, char *out, size_t capacity)
{
    char after[64] = "";
    size_t length = 0;
    bool has_more = true;
    while (has_more) {
        char path[160];
        snprintf(path, sizeof path, TENANTS "?limit=2&order=%s&after=%s", order, after);
        assert_int_equal(edge_kit_admin("GET", path, ""), 200);
        json_t *root = json_loads(strstr(answer, "\r\n\r\n") + 4, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(root, "object")), "list");
        json_t *data = json_object_get(root, "data");
        assert_in_range(json_array_size(data), 1, 2);
        for (size_t i = 0; i < json_array_size(data); i++) {
            const char *id = json_string_value(json_object_get(json_array_get(data, i), "id"));
            length += (size_t)snprintf(out + length, capacity - length, "%s ", id);
        }
        snprintf(after, sizeof after, "%s", json_string_value(json_object_get(root, "last_id")));
        has_more = json_is_true(json_object_get(root, "has_more"));
        json_decref(root);
    }
}

static void test_lists_from_both_ends(void **state)
{
    (void)state;
    static char up[8192], down[8192], reversed[8192];
    for (int i = 0; i < 5; i++) {
        char body[64];
        snprintf(body, sizeof body, "{\"name\":\"page-%d\"}", i);
        assert_int_equal(edge_kit_admin("POST", TENANTS, body), 201);
    }
    walk("asc", up, sizeof up);
    walk("desc", down, sizeof down);
    size_t at = strlen(down);
    size_t length = 0;
    while (at > 0) {
        size_t end = at;
        for (at--; at > 0 && down[at - 1] != ' '; at--)
            ;
        memcpy(reversed + length, down + at, end - at);
        length += end - at;
    }
    assert_string_equal(up, reversed);
    edge_text_has(up, kit.tenant_id);
    assert_int_equal(edge_kit_admin("GET", TENANTS "?after=tnt_nothere", ""), 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_and_get), cmocka_unit_test(test_group_and_shares),
        cmocka_unit_test(test_classes),        cmocka_unit_test(test_models),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_lists_from_both_ends),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
