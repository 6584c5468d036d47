/* cli_group: groups by id and by name, metadata, refusals. */
#include "gateway/cli/cli_group.h"

#include "tests/unit/cli_kit.h"

#define GROUP                                                                                      \
    "{\"id\":\"grp_1\",\"object\":\"group\",\"name\":\"east\",\"tenants\":2,\"shared_prompts\":1," \
    "\"metadata\":{\"a\":\"b\"},\"created_at\":0,\"revision\":3"
#define LIST                                                                                       \
    "{\"object\":\"list\",\"data\":[" GROUP "}],\"first_id\":\"grp_1\",\"last_id\":\"grp_1\","     \
    "\"has_more\":false}"

static void test_looking(void **state)
{
    (void)state;
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("group", "list"), CLI_DONE);
    cli_kit_has(cli_kit.out, "grp_1  east        2        1  1970-01-01");
    cli_kit_answer(200, LIST);
    cli_kit_answer(200, GROUP ",\"members\":[\"tnt_1\",\"tnt_2\"]}");
    assert_int_equal(CLI_KIT_RUN("group", "show", "east"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/groups/grp_1 HTTP");
    cli_kit_has(cli_kit.out, "tnt_1");
    cli_kit_answer(200, LIST);
    assert_int_not_equal(CLI_KIT_RUN("group", "show", "west"), CLI_DONE);
    cli_kit_has(cli_kit.err, "there is no group named 'west'; see banyan admin group list");
}

static void test_changes(void **state)
{
    (void)state;
    cli_kit_answer(201, GROUP "}");
    assert_int_equal(CLI_KIT_RUN("group", "create", "east", "--meta", "a=b"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"name\":\"east\",\"metadata\":{\"a\":\"b\"}}");
    cli_kit_answer(200, GROUP "}");
    assert_int_equal(CLI_KIT_RUN("group", "change", "grp_1", "--meta", "a=c", "--if-revision", "3"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "PATCH /admin/v1/groups/grp_1 HTTP");
    cli_kit_has(cli_kit.seen, "if-match: \"3\"");
    assert_int_equal(CLI_KIT_RUN("group", "change", "grp_1"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("group", "create", "\xff"), CLI_USAGE);
    cli_kit_answer(200, GROUP "}");
    assert_int_equal(CLI_KIT_RUN("group", "delete", "grp_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "DELETE /admin/v1/groups/grp_1 HTTP");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_looking, cli_kit_clear),
        cmocka_unit_test_setup(test_changes, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
