/* cli_look: audit rows newest first, options as a table, metrics without control characters. */
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
    cli_kit_has(cli_kit.out, "1970-01-01 00:00:00Z  tenant.created  tnt_1    key_1  127.0.0.1:5  "
                             "{\"name\":\"x\\u001B[2J\"}\n");
    assert_int_equal(CLI_KIT_RUN("audit", "list", "--limit", "0"), CLI_USAGE);
}

static void test_config(void **state)
{
    (void)state;
    const char *text = "{\"object\":\"config\",\"revision\":1,\"options\":{\"model\":\"m.gguf\","
                       "\"threads\":2,\"listen\":\"\"}}";
    cli_kit_answer(200, text);
    assert_int_equal(CLI_KIT_RUN("config", "show"), CLI_DONE);
    assert_string_equal(cli_kit.out, "OPTION   VALUE\nmodel    m.gguf\nthreads  2\nlisten   \n");
    cli_kit_answer(200, text);
    assert_int_equal(CLI_KIT_RUN("config", "show", "--json"), CLI_DONE);
    assert_int_equal(strncmp(cli_kit.out, text, strlen(text)), 0);
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
        cmocka_unit_test_setup(test_config, cli_kit_clear),
        cmocka_unit_test_setup(test_metrics, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
