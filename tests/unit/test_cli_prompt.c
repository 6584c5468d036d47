/* cli_prompt: what each verb asks of the server, files, names turned into ids, grants edited. */
#include "gateway/cli/cli_prompt.h"

#include "tests/unit/cli_kit.h"

#define PROMPT                                                                                     \
    "{\"id\":\"spr_1\",\"object\":\"shared_prompt\",\"name\":\"brief\",\"state\":\"published\","   \
    "\"error\":null,\"tokens\":1000,\"pages\":63,\"hits\":5,\"hit_tokens\":4990,"                  \
    "\"tenants\":[\"tnt_1\"],\"groups\":[\"labs\"],\"pin_until\":null,\"version\":1,"              \
    "\"created_at\":0,\"revision\":3}"
#define LIST                                                                                       \
    "{\"object\":\"list\",\"data\":[" PROMPT                                                       \
    "],\"first_id\":\"spr_1\",\"last_id\":\"spr_1\",\"has_more\":false}"
#define TENANTS                                                                                    \
    "{\"object\":\"list\",\"data\":[{\"id\":\"tnt_7\",\"name\":\"globex\",\"state\":\"active\"}]," \
    "\"first_id\":\"tnt_7\",\"last_id\":\"tnt_7\",\"has_more\":false}"

static void test_list_and_show(void **state)
{
    (void)state;
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("prompt", "list"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/shared-prompts?limit=100&order=asc HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "ID     NAME   STATE      TOKENS  PAGES  HITS  EXPIRES  REVISION\n"
                             "spr_1  brief  published    1000     63     5  never           3\n");
    cli_kit_answer(200, PROMPT);
    assert_int_equal(CLI_KIT_RUN("prompt", "show", "spr_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/shared-prompts/spr_1 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "TENANTS      tnt_1\nGROUPS       labs\nERROR        -\n");
    cli_kit_answer(200, LIST);
    cli_kit_answer(200, PROMPT);
    assert_int_equal(CLI_KIT_RUN("prompt", "show", "brief", "--json"), CLI_DONE);
    assert_string_equal(cli_kit.out, PROMPT "\n");
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("prompt", "show", "nothere"), CLI_REFUSED);
    cli_kit_has(cli_kit.err, "no prompt named 'nothere'");
}

static void test_create(void **state)
{
    (void)state;
    char messages[128];
    char text[128];
    cli_kit_path(messages, "m.json");
    cli_kit_path(text, "t.txt");
    cli_kit_write("m.json", "[{\"role\":\"system\",\"content\":\"Be brief\"}]\n", 0600);
    cli_kit_write("t.txt", "Once upon\na time", 0600);
    cli_kit_answer(200, TENANTS);
    cli_kit_answer(201, PROMPT);
    assert_int_equal(CLI_KIT_RUN("prompt", "create", "brief", "--messages", messages, "--tenants",
                                 "tnt_1,globex", "--groups", "labs", "--until", "never"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "POST /admin/v1/shared-prompts HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen,
                "\r\n\r\n{\"name\":\"brief\",\"messages\":[{\"role\":\"system\",\"content\":"
                "\"Be brief\"}],\"pin_until\":null,\"tenants\":[\"tnt_1\",\"tnt_7\"],"
                "\"groups\":[\"labs\"]}");
    cli_kit_answer(201, PROMPT);
    assert_int_equal(CLI_KIT_RUN("prompt", "create", "story", "--text", text), CLI_DONE);
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"name\":\"story\",\"text\":\"Once upon\\na time\"}");
    int asked = cli_kit.steps_done;
    assert_int_equal(CLI_KIT_RUN("prompt", "create", "x"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("prompt", "create", "x", "--text", text, "--messages", messages),
                     CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("prompt", "create", "x", "--text", "/nothere"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("prompt", "create", "x", "--messages", text), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("prompt", "create", "x", "--text", text, "--until", "soon"),
                     CLI_USAGE);
    assert_int_equal(cli_kit.steps_done, asked); /* nothing was sent */
    unlink(messages);
    unlink(text);
}

/* What is there is read first, and goes back with its revision. */
static void test_grants(void **state)
{
    (void)state;
    cli_kit_answer(200, PROMPT);
    cli_kit_answer(200, PROMPT);
    assert_int_equal(CLI_KIT_RUN("prompt", "grant", "spr_1", "--tenants", "tnt_2,tnt_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "PATCH /admin/v1/shared-prompts/spr_1 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen, "if-match: \"3\"\r\n");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"tenants\":[\"tnt_2\",\"tnt_1\"]}");
    cli_kit_answer(200, PROMPT);
    cli_kit_answer(200, PROMPT);
    assert_int_equal(CLI_KIT_RUN("prompt", "revoke", "spr_1", "--groups", "labs,none",
                                 "--tenants=tnt_1", "--if-revision", "2"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "if-match: \"2\"\r\n");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"tenants\":[],\"groups\":[]}");
    int asked = cli_kit.steps_done;
    assert_int_equal(CLI_KIT_RUN("prompt", "grant", "spr_1"), CLI_USAGE);
    assert_int_equal(cli_kit.steps_done, asked);
}

static void test_change_and_delete(void **state)
{
    (void)state;
    cli_kit_answer(200, PROMPT);
    assert_int_equal(
        CLI_KIT_RUN("prompt", "change", "spr_1", "--name", "short", "--until", "4000000000"),
        CLI_DONE);
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"name\":\"short\",\"pin_until\":4000000000}");
    assert_int_equal(CLI_KIT_RUN("prompt", "change", "spr_1"), CLI_USAGE);
    cli_kit_answer(200, PROMPT);
    assert_int_equal(CLI_KIT_RUN("prompt", "delete", "spr_1", "--dry-run"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "DELETE /admin/v1/shared-prompts/spr_1?dry_run=true HTTP/1.1\r\n");
    assert_string_equal(cli_kit.err, "dry run: nothing was changed\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_list_and_show, cli_kit_clear),
        cmocka_unit_test_setup(test_create, cli_kit_clear),
        cmocka_unit_test_setup(test_grants, cli_kit_clear),
        cmocka_unit_test_setup(test_change_and_delete, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
