/* cli_look: audit rows newest first, metrics without control characters. */
#include "gateway/cli/cli_look.h"

#include "tests/unit/cli_kit.h"

static void test_audit(void **state)
{
    (void)state;
    cli_kit_answer(200, "{\"object\":\"list\",\"data\":[{\"id\":\"9\",\"type\":\"tenant.created\","
                        "\"effective_at\":0,\"actor\":{\"type\":\"api_key\",\"id\":\"key_1\","
                        "\"peer\":\"127.0.0.1:5\"},\"request_id\":\"req_1\",\"subject\":\"tnt_1\","
                        "\"detail\":{\"name\":\"x\\u001b[2J\"}}],\"first_id\":\"9\","
                        "\"last_id\":\"9\",\"has_more\":false}");
    assert_int_equal(CLI_KIT_RUN("audit", "list"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/audit?limit=50&order=desc HTTP");
    cli_kit_has(cli_kit.out,
                "1970-01-01 00:00:00Z  tenant.created  tnt_1    key_1  -       127.0.0.1:5  "
                "{\"name\":\"x\\u001B[2J\"}\n");
    assert_int_equal(CLI_KIT_RUN("audit", "list", "--limit", "0"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("audit", "list", "--from", "soon"), CLI_USAGE);
    cli_kit_answer(200, "{\"object\":\"list\",\"data\":[],\"first_id\":null,\"last_id\":null,"
                        "\"has_more\":false}");
    assert_int_equal(CLI_KIT_RUN("audit", "list", "--actor", "key_1", "--subject", "tnt_1",
                                 "--type", "tenant", "--from", "1790000005", "--to", "1790000009"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen,
                "GET /admin/v1/audit?actor=key_1&subject=tnt_1&type=tenant&since=1790000005"
                "&until=1790000009&limit=50&order=desc HTTP");
}

static void test_metrics(void **state)
{
    (void)state;
    cli_kit_answer(200, "# HELP a\na 1\x1b[2J\nb 2");
    assert_int_equal(CLI_KIT_RUN("metrics", "show"), CLI_DONE);
    assert_string_equal(cli_kit.out, "# HELP a\na 1\xef\xbf\xbd[2J\nb 2\n");
    cli_kit_answer(403, "{}");
    assert_int_equal(CLI_KIT_RUN("metrics", "show"), CLI_REFUSED);
    cli_kit_has(cli_kit.err, "use a key that has the scope");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_audit, cli_kit_clear),
        cmocka_unit_test_setup(test_metrics, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
