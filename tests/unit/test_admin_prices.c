/* admin_prices: shapes, refusals, dry runs and kept answers of prices. */
#include "gateway/admin/admin_prices.h"

#include "tests/unit/edge_kit.h"

#define PRICES "/admin/v1/prices"

static void test_life_of_a_price(void **state)
{
    (void)state;
    char id[64], same[64], path[160], headers[512];
    assert_int_equal(edge_kit_admin("GET", PRICES, ""), 200);
    edge_text_has(answer, "{\"object\":\"list\",\"data\":[],\"first_id\":null,");
    assert_int_equal(edge_kit_admin("POST", PRICES "?dry_run=true",
                                    "{\"currency\":\"usd\",\"input_nano\":5,\"output_nano\":6}"),
                     200);
    edge_text_has(answer, "\"dry_run\":true}");
    snprintf(headers, sizeof headers, "authorization: Bearer %s\r\nidempotency-key: price-1\r\n",
             kit.admin_key);
    const char *body = "{\"plan\":null,\"model\":\"m\",\"class\":\"batch\",\"currency\":\"eur\","
                       "\"input_nano\":5,\"output_nano\":1000000000,\"effective_at\":4000000000}";
    assert_int_equal(edge_kit_ask(kit.admin_port, "POST", PRICES, headers, body), 201);
    edge_text_has(answer, "etag: \"1\"");
    edge_text_has(answer, "\"object\":\"price\",\"plan\":null,\"model\":\"m\",\"class\":\"batch\","
                          "\"currency\":\"eur\",\"input_nano\":5,\"cached_input_nano\":5,"
                          "\"output_nano\":1000000000,\"effective_at\":4000000000,");
    edge_kit_member("id", id, sizeof id);
    assert_int_equal(edge_kit_ask(kit.admin_port, "POST", PRICES, headers, body), 201);
    edge_text_has(answer, "idempotent-replayed: true");
    edge_kit_member("id", same, sizeof same);
    assert_string_equal(id, same);
    assert_int_equal(edge_kit_admin("POST", PRICES, body), 409);
    edge_text_has(answer, "\"param\":\"effective_at\"");
    assert_int_equal(edge_kit_admin("GET", PRICES "?limit=1", ""), 200);
    edge_text_has(answer, "\"has_more\":false}");
    snprintf(path, sizeof path, PRICES "/%s", id);
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, id);
    assert_int_equal(edge_kit_admin("DELETE", path, "{\"x\":1}"), 400);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    edge_text_has(answer, id);
    assert_int_equal(edge_kit_admin("GET", path, ""), 404);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 404);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "\"type\":\"price.deleted\"");
}

static void test_fields(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int code;
        const char *param;
    } wrong[] = {
        {"{}", 400, "currency"},
        {"{\"currency\":\"usd\",\"output_nano\":1}", 400, "input_nano"},
        {"{\"currency\":\"usd\",\"input_nano\":1}", 400, "output_nano"},
        {"{\"currency\":\"USD\",\"input_nano\":1,\"output_nano\":1}", 400, "currency"},
        {"{\"currency\":\"\",\"input_nano\":1,\"output_nano\":1}", 400, "currency"},
        {"{\"currency\":\"dollar\",\"input_nano\":1,\"output_nano\":1}", 400, "currency"},
        {"{\"currency\":null,\"input_nano\":1,\"output_nano\":1}", 400, "currency"},
        {"{\"currency\":\"usd\",\"input_nano\":-1,\"output_nano\":1}", 400, "input_nano"},
        {"{\"currency\":\"usd\",\"input_nano\":1.5,\"output_nano\":1}", 400, "input_nano"},
        {"{\"currency\":\"usd\",\"input_nano\":1,\"output_nano\":1000000001}", 400, "output_nano"},
        {"{\"currency\":\"usd\",\"input_nano\":1,\"output_nano\":1,\"class\":\"fast\"}", 400,
         "class"},
        {"{\"currency\":\"usd\",\"input_nano\":1,\"output_nano\":1,\"class\":\"\"}", 400, "class"},
        {"{\"currency\":\"usd\",\"input_nano\":1,\"output_nano\":1,\"model\":\"\"}", 400, "model"},
        {"{\"currency\":\"usd\",\"input_nano\":1,\"output_nano\":1,\"plan\":\"pln_x\"}", 404,
         "plan"},
        {"{\"currency\":\"usd\",\"input_nano\":1,\"output_nano\":1,\"effective_at\":-1}", 400,
         "effective_at"},
        {"{\"currency\":\"usd\",\"input_nano\":1,\"output_nano\":1,\"tax\":1}", 400, "tax"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char param[64];
        snprintf(param, sizeof param, "\"param\":\"%s\"", wrong[i].param);
        int code = edge_kit_admin("POST", PRICES, wrong[i].body);
        if (code != wrong[i].code || strstr(answer, param) == NULL)
            fail_msg("%s: %d %s", wrong[i].body, code, answer);
    }
    assert_int_equal(edge_kit_admin("GET", PRICES, ""), 200);
    edge_text_has(answer, "\"data\":[]");
    assert_int_equal(edge_kit_admin("PATCH", PRICES "/prc_1", "{}"), 405);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life_of_a_price),
        cmocka_unit_test(test_fields),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
