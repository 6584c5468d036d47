/* cli_tenant: what each verb asks of the server, names turned into ids, what is refused before. */
#include "gateway/cli/cli_tenant.h"

#include "tests/unit/cli_kit.h"

#define TENANT                                                                                     \
    "{\"id\":\"tnt_1\",\"object\":\"tenant\",\"name\":\"acme\",\"state\":\"active\","              \
    "\"weight\":100,\"group\":\"east\",\"share\":\"group\",\"cache_share\":100,"                   \
    "\"default_class\":\"standard\",\"best_class\":\"realtime\","                                  \
    "\"metadata\":{},\"created_at\":0,\"revision\":3}"
#define LIST                                                                                       \
    "{\"object\":\"list\",\"data\":[{\"id\":\"tnt_0\",\"name\":\"acme\",\"state\":\"archived\"}"   \
    "," TENANT "],\"first_id\":\"tnt_0\",\"last_id\":\"tnt_1\",\"has_more\":false}"

static void test_list_and_show(void **state)
{
    (void)state;
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("tenant", "list", "--limit", "7"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/tenants?limit=7&order=asc HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen, "authorization: Bearer " CLI_KIT_KEY "\r\n");
    cli_kit_has(cli_kit.out,
                "ID     NAME  STATE     WEIGHT  CLASS     BEST      GROUP  SHARE  CREATED");
    cli_kit_has(cli_kit.out,
                "tnt_1  acme  active       100  standard  realtime  east   group  1970-01-01");
    cli_kit_answer(200, TENANT);
    assert_int_equal(CLI_KIT_RUN("tenant", "show", "tnt_1", "--json"), CLI_DONE);
    assert_string_equal(cli_kit.out, TENANT "\n");
    cli_kit_has(cli_kit.seen, "GET /admin/v1/tenants/tnt_1 HTTP/1.1\r\n");
    cli_kit_answer(200, TENANT);
    assert_int_equal(CLI_KIT_RUN("tenant", "show", "tnt_../x"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/tenants/tnt_%2E%2E%2Fx HTTP/1.1\r\n");
}

static void test_create(void **state)
{
    (void)state;
    cli_kit_answer(201, TENANT);
    assert_int_equal(CLI_KIT_RUN("tenant", "create",
                                 "gl\xc3\xb6"
                                 "bex",
                                 "--weight=7", "--meta", "a=1", "--meta", "b=2"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "POST /admin/v1/tenants HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"name\":\"gl\xc3\xb6"
                              "bex\",\"weight\":7,"
                              "\"metadata\":{\"a\":\"1\",\"b\":\"2\"}}");
    cli_kit_has(cli_kit.out, "ID           tnt_1\n");
    cli_kit_answer(200, TENANT);
    assert_int_equal(CLI_KIT_RUN("--dry-run", "tenant", "create", "x"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "POST /admin/v1/tenants?dry_run=true HTTP/1.1\r\n");
    assert_string_equal(cli_kit.err, "dry run: nothing was changed\n");
    int asked = cli_kit.steps_done;
    assert_int_equal(CLI_KIT_RUN("tenant", "create", "x", "--weight", "0"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("tenant", "create", "x", "--weight", "much"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("tenant", "create", "x", "--cache-share", "0"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("tenant", "create", "x", "--models", "a,,b"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("tenant", "create", "x", "--group", "\xff"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("tenant", "create", "x", "--meta", "nothing"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("tenant", "create", "\xff"), CLI_USAGE);
    assert_int_equal(cli_kit.steps_done, asked); /* nothing was sent */
}

static void test_changes(void **state)
{
    static const struct {
        const char *words[8];
        const char *request;
        const char *body;
    } rows[] = {
        {{"tenant", "change", "tnt_1", "--name", "b"}, "PATCH", "\r\n\r\n{\"name\":\"b\"}"},
        {{"tenant", "change", "tnt_1", "--group=", "--share", "private", "--cache-share=9"},
         "PATCH",
         "\r\n\r\n{\"group\":\"\",\"share\":\"private\",\"cache_share\":9}"},
        {{"tenant", "change", "tnt_1", "--default-class", "batch", "--best-class=standard"},
         "PATCH",
         "\r\n\r\n{\"default_class\":\"batch\",\"best_class\":\"standard\"}"},
        {{"tenant", "change", "tnt_1", "--models", "a,b"},
         "PATCH",
         "\r\n\r\n{\"models\":[\"a\",\"b\"]}"},
        {{"tenant", "change", "tnt_1", "--models="}, "PATCH", "\r\n\r\n{\"models\":[]}"},
        {{"tenant", "suspend", "tnt_1"}, "PATCH", "\r\n\r\n{\"state\":\"suspended\"}"},
        {{"tenant", "resume", "tnt_1"}, "PATCH", "\r\n\r\n{\"state\":\"active\"}"},
        {{"tenant", "archive", "tnt_1"}, "DELETE", "content-length: 0\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char head[128];
        cli_kit_clear(state);
        cli_kit_answer(200, TENANT);
        assert_int_equal(cli_kit_run(0, rows[i].words), CLI_DONE);
        snprintf(head, sizeof head, "%s /admin/v1/tenants/tnt_1 HTTP/1.1\r\n", rows[i].request);
        cli_kit_has(cli_kit.seen, head);
        cli_kit_has(cli_kit.seen, rows[i].body);
        cli_kit_lacks(cli_kit.seen, "if-match");
        cli_kit_lacks(cli_kit.seen, "idempotency-key");
    }
    cli_kit_answer(200, TENANT);
    assert_int_equal(
        CLI_KIT_RUN("tenant", "change", "tnt_1", "--weight", "5", "--if-revision", "3"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "if-match: \"3\"\r\n");
    assert_int_equal(CLI_KIT_RUN("tenant", "change", "tnt_1"), CLI_USAGE);
    cli_kit_has(cli_kit.err, "nothing to change");
}

/* An archived tenant's name may be somebody else's by now. */
static void test_names(void **state)
{
    (void)state;
    cli_kit_answer(200, LIST);
    cli_kit_answer(200, TENANT);
    assert_int_equal(CLI_KIT_RUN("tenant", "show", "acme"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/tenants/tnt_1 HTTP/1.1\r\n");
    assert_int_equal(cli_kit.connections, 1);
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("tenant", "archive", "globex"), CLI_REFUSED);
    cli_kit_has(cli_kit.err, "there is no tenant named 'globex'");
    cli_kit_lacks(cli_kit.seen, "DELETE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_list_and_show, cli_kit_clear),
        cmocka_unit_test_setup(test_create, cli_kit_clear),
        cmocka_unit_test_setup(test_changes, cli_kit_clear),
        cmocka_unit_test_setup(test_names, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
