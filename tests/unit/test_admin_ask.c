/* admin_ask: an engine that does not answer holds no admin up, nor does one who leaves. */
#include "gateway/admin/admin_ask.h"

#include "tests/unit/edge_kit.h"

#define REQUESTS "/admin/v1/requests"

static void told(const char *rows)
{
    pthread_mutex_lock(&engine_lock);
    snprintf(engine_listed, sizeof engine_listed, "%s", rows);
    pthread_mutex_unlock(&engine_lock);
}

static void test_an_engine_that_hangs(void **state)
{
    (void)state;
    told("hang");
    struct edge_kit_connection client = edge_kit_connect(kit.port);
    edge_kit_write(&client, "POST", "/v1/completions", edge_kit_bearer(kit.key),
                   "{\"model\":\"endless\",\"stream\":true}");
    edge_kit_read(&client, "tok ");
    assert_int_equal(edge_kit_admin("GET", REQUESTS, ""), 200);
    edge_text_has(answer, "\"state\":\"streaming\"");
    /* Admins who leave while it hangs: their questions end, nobody else's. */
    for (int i = 0; i < 8; i++) {
        struct edge_kit_connection admin = edge_kit_connect(kit.admin_port);
        edge_kit_write(&admin, "GET", REQUESTS, edge_kit_bearer(kit.admin_key), "");
        edge_kit_close(&admin);
    }
    assert_int_equal(edge_kit_admin("GET", REQUESTS, ""), 200);
    edge_text_has(answer, "\"state\":\"streaming\"");
    told("");
    assert_int_equal(edge_kit_admin("GET", REQUESTS, ""), 200);
    edge_kit_close(&client);
    /* The kit's end closes the server with whatever is left of them. */
    told("hang");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_an_engine_that_hangs)};
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
