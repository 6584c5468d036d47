/* cli_limits: what each verb asks of the server, what people may write for limits. */
#include "gateway/cli/cli_limits.h"

#include "tests/unit/cli_kit.h"

#define PLAN                                                                                       \
    "{\"id\":\"pln_1\",\"object\":\"plan\",\"name\":\"small\",\"requests_per_minute\":60,"         \
    "\"tokens_per_day\":{\"limit\":5,\"mode\":\"shadow\"},\"cached_input_percent\":null,"          \
    "\"tenants\":2,\"created_at\":0,\"revision\":3}"
#define LIST                                                                                       \
    "{\"object\":\"list\",\"data\":[" PLAN                                                         \
    "],\"first_id\":\"pln_1\",\"last_id\":\"pln_1\",\"has_more\":false}"
#define LIMITS                                                                                     \
    "{\"object\":\"limits\",\"tenant_id\":\"tnt_1\",\"plan\":null,\"kv_tokens\":7,"                \
    "\"tokens_per_day\":{\"limit\":5,\"mode\":\"shadow\"},\"revision\":4,\"effective\":{}}"
#define KEY_LIMITS                                                                                 \
    "{\"object\":\"key.limits\",\"tenant_id\":\"tnt_1\",\"key_id\":\"key_1\",\"kv_tokens\":7,"     \
    "\"revision\":4}"

static void test_plans(void **state)
{
    (void)state;
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("plan", "list"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/plans?limit=100&order=asc HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "ID     NAME   TENANTS  CREATED");
    cli_kit_answer(200, LIST);
    cli_kit_answer(200, PLAN);
    assert_int_equal(CLI_KIT_RUN("plan", "show", "small"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/plans/pln_1 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "requests_per_minute");
    cli_kit_has(cli_kit.out, "shadow");
    cli_kit_answer(201, PLAN);
    assert_int_equal(CLI_KIT_RUN("plan", "create", "small", "--limits",
                                 "requests_per_minute=60,tokens_per_day=5:shadow"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"name\":\"small\",\"requests_per_minute\":60,"
                              "\"tokens_per_day\":{\"limit\":5,\"mode\":\"shadow\"}}");
    cli_kit_answer(200, PLAN);
    assert_int_equal(
        CLI_KIT_RUN("plan", "change", "pln_1", "--limits", "kv_tokens=none", "--if-revision", "3"),
        CLI_DONE);
    cli_kit_has(cli_kit.seen, "if-match: \"3\"");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"kv_tokens\":null}");
    cli_kit_answer(200, PLAN);
    assert_int_equal(CLI_KIT_RUN("plan", "delete", "pln_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "DELETE /admin/v1/plans/pln_1 HTTP/1.1\r\n");
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("plan", "show", "nothere"), CLI_REFUSED);
}

/* What is not named stays, and nobody's change between is undone. */
static void test_limits(void **state)
{
    (void)state;
    cli_kit_answer(200, LIMITS);
    assert_int_equal(CLI_KIT_RUN("limits", "show", "tnt_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/tenants/tnt_1/limits HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "kv_tokens");
    cli_kit_answer(200, LIMITS);
    cli_kit_answer(200, LIST);
    cli_kit_answer(200, LIMITS);
    assert_int_equal(
        CLI_KIT_RUN("limits", "set", "tnt_1", "--limits", "kv_tokens=9", "--plan", "small"),
        CLI_DONE);
    cli_kit_has(cli_kit.seen, "PUT /admin/v1/tenants/tnt_1/limits HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen, "if-match: \"4\"");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"plan\":\"pln_1\",\"kv_tokens\":9,\"tokens_per_day\":"
                              "{\"limit\":5,\"mode\":\"shadow\"}}");
    cli_kit_answer(200, LIMITS);
    cli_kit_answer(200, LIMITS);
    assert_int_equal(CLI_KIT_RUN("limits", "set", "tnt_1", "--plan", ""), CLI_DONE);
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"plan\":null,");
}

static void test_class_of_a_plan(void **state)
{
    (void)state;
    cli_kit_answer(200, PLAN);
    assert_int_equal(CLI_KIT_RUN("plan", "change", "pln_1", "--weight", "7", "--default-class",
                                 "batch", "--best-class", "none", "--limits",
                                 "on_limit=lower_class"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"weight\":7,\"default_class\":\"batch\",\"best_class\":"
                              "null,\"on_limit\":\"lower_class\"}");
    assert_int_equal(CLI_KIT_RUN("plan", "change", "pln_1", "--weight", "many"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("limits", "set", "tnt_1", "--key", "key_1", "--weight", "7"),
                     CLI_USAGE);
}

static void test_limits_of_a_key(void **state)
{
    (void)state;
    cli_kit_answer(200, KEY_LIMITS);
    assert_int_equal(CLI_KIT_RUN("limits", "show", "tnt_1", "--key", "key_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/tenants/tnt_1/keys/key_1/limits HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "key_1");
    cli_kit_answer(200, KEY_LIMITS);
    cli_kit_answer(200, KEY_LIMITS);
    assert_int_equal(
        CLI_KIT_RUN("limits", "set", "tnt_1", "--key", "key_1", "--limits", "kv_tokens=9"),
        CLI_DONE);
    cli_kit_has(cli_kit.seen, "PUT /admin/v1/tenants/tnt_1/keys/key_1/limits HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen, "if-match: \"4\"");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"kv_tokens\":9}");
    cli_kit_answer(200, KEY_LIMITS);
    cli_kit_answer(200, KEY_LIMITS);
    assert_int_equal(
        CLI_KIT_RUN("limits", "set", "tnt_1", "--key", "key_1", "--best-class", "standard"),
        CLI_DONE);
    cli_kit_has(cli_kit.seen, "\"best_class\":\"standard\"");
    assert_int_equal(CLI_KIT_RUN("limits", "set", "tnt_1", "--key", "key_1", "--plan", "small"),
                     CLI_USAGE);
}

static void test_wrong_words(void **state)
{
    (void)state;
    static const char *const words[] = {"kv_tokens", "kv_tokens=many", "kv_tokens=-1",
                                        "kv_tokens=1,", "kv_tokens=:shadow"};
    assert_int_equal(CLI_KIT_RUN("plan", "change", "pln_1"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("limits", "set", "tnt_1"), CLI_USAGE);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_int_equal(CLI_KIT_RUN("plan", "create", "x", "--limits", words[i]), CLI_USAGE);
    assert_int_equal(cli_kit.steps_done, 0); /* nothing was sent */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_plans, cli_kit_clear),
        cmocka_unit_test_setup(test_limits, cli_kit_clear),
        cmocka_unit_test_setup(test_class_of_a_plan, cli_kit_clear),
        cmocka_unit_test_setup(test_limits_of_a_key, cli_kit_clear),
        cmocka_unit_test_setup(test_wrong_words, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
