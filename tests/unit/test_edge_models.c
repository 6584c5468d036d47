/* edge_models: what the edge says by itself of the engine's model, with and without an engine. */
#include "gateway/edge/pages/edge_models.h"

#include "tests/unit/edge_kit.h"

static void test_the_list_and_the_one(void **state)
{
    (void)state;
    static const char one[] = "{\"id\":\"fake\",\"object\":\"model\",\"created\":7,"
                              "\"owned_by\":\"banyan\",\"max_model_len\":512}";
    char list[512];
    snprintf(list, sizeof list, "\r\n\r\n{\"object\":\"list\",\"data\":[%s]}", one);
    int asked = atomic_load(&engine_requests);
    assert_int_equal(edge_kit_public("GET", "/v1/models", ""), 200);
    edge_text_has(answer, list);
    edge_text_has(answer, "content-type: application/json");
    assert_int_equal(edge_kit_public("GET", "/v1/models/fake?x=1", ""), 200);
    edge_text_has(answer, one);
    assert_int_equal(edge_kit_public("GET", "/v1/models/some-model", ""), 404);
    edge_text_has(answer, "\"param\":\"model\",\"code\":\"model_not_found\"");
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", "", ""), 401);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models/fake", "", ""), 401);
    assert_int_equal(atomic_load(&engine_requests), asked); /* it costs the engine nothing */
}

/* A model that was served is named while its engine is away. */
static void test_without_the_engine(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_public("GET", "/v1/models", ""), 200);
    edge_kit_stop_engine();
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/ready", "", ""), 503);
    assert_int_equal(edge_kit_public("GET", "/v1/models/fake", ""), 200);
    edge_kit_start_engine();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_and_the_one),
        cmocka_unit_test(test_without_the_engine),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
