#include "gateway/cli/cli_request.h"

#include "tests/unit/cli_kit.h"

#define ROW                                                                                        \
    "{\"id\":\"req_1\",\"object\":\"request\",\"tenant_id\":\"tnt_1\",\"tenant_name\":\"acme\","   \
    "\"key_id\":\"key_1\",\"route\":\"/v1/completions\",\"class\":\"standard\",\"state\":"         \
    "\"decode\",\"stream\":true,\"prompt_tokens\":100,\"computed_tokens\":103,"                    \
    "\"cached_tokens\":96,\"completion_tokens\":3,\"age_ms\":7,"                                   \
    "\"explain\":{\"position\":4,\"estimate_ms\":256}}"
#define LIST(more)                                                                                 \
    "{\"object\":\"list\",\"data\":[" ROW "],\"first_id\":\"req_1\",\"last_id\":\"req_1\","        \
    "\"has_more\":" more "}"

static void test_list(void **state)
{
    (void)state;
    cli_kit_answer(200, LIST("false"));
    assert_int_equal(CLI_KIT_RUN("request", "list"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/requests?limit=100&order=asc HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out,
                "ID     TENANT  CLASS     STATE   PLACE  EST MS  PROMPT  CACHED  TOKENS  AGE MS\n");
    cli_kit_has(cli_kit.out,
                "req_1  acme    standard  decode      4     256     100      96       3       7\n");
    cli_kit_answer(200, LIST("true"));
    assert_int_equal(CLI_KIT_RUN("request", "list", "--limit", "1", "--json"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/requests?limit=1&order=asc HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "\"computed_tokens\":103");
    assert_int_equal(CLI_KIT_RUN("request", "list", "--limit", "0"), CLI_USAGE);
}

static void test_cancel(void **state)
{
    (void)state;
    cli_kit_answer(200, ROW);
    assert_int_equal(CLI_KIT_RUN("request", "cancel", "req_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "DELETE /admin/v1/requests/req_1 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "STATE        decode\n");
    cli_kit_answer(200, ROW);
    assert_int_equal(CLI_KIT_RUN("request", "cancel", "req_../x", "--dry-run"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "DELETE /admin/v1/requests/req_%2E%2E%2Fx?dry_run=true HTTP");
    cli_kit_answer(404, "{\"error\":{\"message\":\"No such request is under way.\",\"type\":\"x\","
                        "\"param\":null,\"code\":\"not_found\"}}");
    assert_int_equal(CLI_KIT_RUN("request", "cancel", "req_2"), CLI_REFUSED);
    cli_kit_has(cli_kit.err, "No such request is under way.");
    assert_int_equal(CLI_KIT_RUN("request", "cancel"), CLI_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_list, cli_kit_clear),
        cmocka_unit_test_setup(test_cancel, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
