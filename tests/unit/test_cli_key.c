/* cli_key: both collections, what each verb asks, and that a value is shown on one stream alone. */
#include "gateway/cli/cli_key.h"

#include "tests/unit/cli_kit.h"

#define MEMBERS                                                                                    \
    "\"id\":\"key_1\",\"object\":\"key\",\"tenant_id\":\"tnt_1\",\"name\":\"prod\","               \
    "\"redacted\":\"sk-by-A\",\"scopes\":[\"inference\",\"usage:read\"],\"created_at\":0,"         \
    "\"expires_at\":null,\"revoked_at\":null,\"last_used_at\":null,\"rotated_to\":null,"           \
    "\"revision\":1"
#define KEY     "{" MEMBERS "}"
#define NEW_KEY "{" MEMBERS ",\"key\":\"sk-by-secret\"}"

static void test_both_collections(void **state)
{
    static const struct {
        const char *words[12];
        const char *head;
        const char *body;
        const char *answer;
    } rows[] = {
        {{"key", "show", "key_1", "--tenant", "tnt_1"},
         "GET /admin/v1/tenants/tnt_1/keys/key_1 HTTP",
         "",
         KEY},
        {{"key", "create", "--tenant", "tnt_1", "--name", "prod", "--scopes", "inference"},
         "POST /admin/v1/tenants/tnt_1/keys HTTP",
         "\r\n\r\n{\"name\":\"prod\",\"scopes\":[\"inference\"]}",
         NEW_KEY},
        {{"key", "change", "key_1", "--tenant", "tnt_1", "--expires", "never"},
         "PATCH /admin/v1/tenants/tnt_1/keys/key_1 HTTP",
         "\r\n\r\n{\"expires_at\":null}",
         KEY},
        {{"key", "rotate", "key_1", "--tenant", "tnt_1", "--overlap", "30m"},
         "POST /admin/v1/tenants/tnt_1/keys/key_1/rotate HTTP",
         "\r\n\r\n{\"overlap_s\":1800}",
         NEW_KEY},
        {{"key", "revoke", "key_1", "--tenant", "tnt_1"},
         "DELETE /admin/v1/tenants/tnt_1/keys/key_1 HTTP",
         "",
         KEY},
        {{"admin-key", "show", "key_1"}, "GET /admin/v1/admin-keys/key_1 HTTP", "", KEY},
        {{"admin-key", "create", "--scopes", "admin:read,metrics:read"},
         "POST /admin/v1/admin-keys HTTP",
         "\r\n\r\n{\"scopes\":[\"admin:read\",\"metrics:read\"]}",
         NEW_KEY},
        {{"admin-key", "change", "key_1", "--name", "b"},
         "PATCH /admin/v1/admin-keys/key_1 HTTP",
         "\r\n\r\n{\"name\":\"b\"}",
         KEY},
        {{"admin-key", "rotate", "key_1"},
         "POST /admin/v1/admin-keys/key_1/rotate HTTP",
         "\r\n\r\n{}",
         NEW_KEY},
        {{"admin-key", "revoke", "key_1"}, "DELETE /admin/v1/admin-keys/key_1 HTTP", "", KEY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cli_kit_clear(state);
        cli_kit_answer(200, rows[i].answer);
        if (cli_kit_run(0, rows[i].words) != CLI_DONE)
            fail_msg("%s", cli_kit.err);
        cli_kit_has(cli_kit.seen, rows[i].head);
        cli_kit_has(cli_kit.seen, rows[i].body);
    }
}

/* The value is the whole of standard output; nothing of it stands on standard error. */
static void test_a_value_is_shown_once(void **state)
{
    (void)state;
    cli_kit_answer(201, NEW_KEY);
    assert_int_equal(CLI_KIT_RUN("key", "create", "--tenant", "tnt_1"), CLI_DONE);
    assert_string_equal(cli_kit.out, "sk-by-secret\n");
    cli_kit_has(cli_kit.err, "key_1: its value is shown only this once");
    cli_kit_lacks(cli_kit.err, "secret");
    cli_kit_answer(201, NEW_KEY);
    assert_int_equal(CLI_KIT_RUN("key", "rotate", "key_1", "--tenant", "tnt_1", "--json"),
                     CLI_DONE);
    assert_string_equal(cli_kit.out, NEW_KEY "\n");
    cli_kit_has(cli_kit.err, "shown only this once");
    cli_kit_lacks(cli_kit.err, "secret");
    /* A dry run makes none. */
    cli_kit_answer(200, KEY);
    assert_int_equal(CLI_KIT_RUN("key", "create", "--tenant", "tnt_1", "--dry-run"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "?dry_run=true");
    cli_kit_has(cli_kit.out, "STATE        active\nSCOPES       inference,usage:read\n");
}

static void test_list(void **state)
{
    (void)state;
    cli_kit_answer(200, "{\"object\":\"list\",\"data\":[" KEY "],\"first_id\":\"key_1\","
                        "\"last_id\":\"key_1\",\"has_more\":false}");
    assert_int_equal(CLI_KIT_RUN("admin-key", "list"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/admin-keys?limit=100&order=asc HTTP");
    cli_kit_has(cli_kit.out, "key_1  prod  active  inference,usage:read  1970-01-01 00:00:00Z  "
                             "never    never             1\n");
}

static void test_usage(void **state)
{
    (void)state;
    assert_int_equal(CLI_KIT_RUN("key", "list"), CLI_USAGE);
    cli_kit_has(cli_kit.err, "--tenant");
    assert_int_equal(CLI_KIT_RUN("key", "change", "key_1", "--tenant", "tnt_1"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("key", "create", "--tenant", "tnt_1", "--expires", "soon"),
                     CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("key", "create", "--tenant", "tnt_1", "--scopes", "a,,b"),
                     CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("key", "rotate", "key_1", "--tenant", "tnt_1", "--overlap", "1"),
                     CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("admin-key", "list", "--tenant", "tnt_1"), CLI_USAGE);
    assert_int_equal(cli_kit.connections, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_both_collections, cli_kit_clear),
        cmocka_unit_test_setup(test_a_value_is_shown_once, cli_kit_clear),
        cmocka_unit_test_setup(test_list, cli_kit_clear),
        cmocka_unit_test_setup(test_usage, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
