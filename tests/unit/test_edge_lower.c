/* edge_lower: what the engine is told; the answer goes on whatever it says to that. */
#include "gateway/edge/request/edge_lower.h"

#include "tests/unit/edge_kit.h"

static void test_told_once_and_not_waited_for(void **state)
{
    char path[160];
    (void)state;
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/limits", kit.tenant_id);
    for (int says_no = 0; says_no < 2; says_no++) {
        atomic_store(&engine_lowered, 0);
        atomic_store(&engine_keeps_class, says_no != 0);
        assert_int_equal(edge_kit_admin("PUT", path,
                                        "{\"output_tokens_per_minute\":1,\"on_limit\":"
                                        "\"lower_class\"}"),
                         200);
        assert_int_equal(edge_kit_public("POST", "/v1/completions",
                                         "{\"model\":\"patient\",\"stream\":true,"
                                         "\"max_tokens\":500}"),
                         200);
        edge_text_has(answer, "data: [DONE]\n\n");
        assert_int_equal(atomic_load(&engine_lowered), 1);
        assert_int_equal(edge_kit_admin("PUT", path, "{}"), 200);
        assert_int_equal(edge_kit_public("POST", "/v1/completions", "{\"model\":\"ok\"}"), 200);
    }
    atomic_store(&engine_keeps_class, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_told_once_and_not_waited_for)};
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
