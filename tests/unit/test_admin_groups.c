/* admin_groups: the life of a group over HTTP, refusals with their fields. */
#include "gateway/admin/admin_groups.h"

#include "tests/unit/edge_kit.h"

static void test_the_life_of_a_group(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/groups",
                                    "{\"name\":\"labs\",\"metadata\":{\"floor\":\"3\"}}"),
                     201);
    edge_text_has(answer, "\"object\":\"group\",\"name\":\"labs\",\"tenants\":0,"
                          "\"shared_prompts\":0,\"metadata\":{\"floor\":\"3\"},\"created_at\":");
    edge_text_has(answer, "etag: \"1\"");
    assert_int_equal(
        edge_kit_admin("POST", "/admin/v1/tenants", "{\"name\":\"lab\",\"group\":\"labs\"}"), 201);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/groups/labs", ""), 200);
    edge_text_has(answer, "\"tenants\":1,");
    edge_text_has(answer, "\"members\":[\"tnt_");
    assert_int_equal(edge_kit_admin("PATCH", "/admin/v1/groups/labs", "{\"metadata\":{}}"), 200);
    edge_text_has(answer, "\"metadata\":{},");
    edge_text_has(answer, "etag: \"2\"");
    assert_int_equal(edge_kit_admin("DELETE", "/admin/v1/groups/labs", ""), 409);
    edge_text_has(answer, "The group has 1 tenants and 0 published prompts.");
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/groups", "{\"name\":\"empty\"}"), 201);
    assert_int_equal(edge_kit_admin("DELETE", "/admin/v1/groups/empty?dry_run=true", ""), 200);
    edge_text_has(answer, "\"dry_run\":true}");
    assert_int_equal(edge_kit_admin("DELETE", "/admin/v1/groups/empty", ""), 200);
    assert_int_equal(edge_kit_admin("DELETE", "/admin/v1/groups/empty", ""), 404);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/groups?limit=1", ""), 200);
    edge_text_has(answer, "\"object\":\"list\"");
}

static void refused(const char *method, const char *path, const char *body, int code,
                    const char *param)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"param\":\"%s\"", param);
    assert_int_equal(edge_kit_admin(method, path, body), code);
    edge_text_has(answer, wanted);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("POST", "/admin/v1/groups", "{}", 400, "name");
    refused("POST", "/admin/v1/groups", "{\"name\":7}", 400, "name");
    refused("POST", "/admin/v1/groups", "{\"name\":\"\"}", 400, "name");
    refused("POST", "/admin/v1/groups", "{\"name\":\"labs\"}", 409, "name");
    refused("POST", "/admin/v1/groups", "{\"name\":\"a\",\"metadata\":[]}", 400, "metadata");
    refused("POST", "/admin/v1/groups", "{\"name\":\"a\",\"colour\":\"x\"}", 400, "colour");
    refused("PATCH", "/admin/v1/groups/labs", "{\"name\":\"other\"}", 400, "name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_life_of_a_group),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
