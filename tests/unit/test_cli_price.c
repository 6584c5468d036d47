/* cli_price: what each verb asks of the server. */
#include "gateway/cli/cli_price.h"

#include "tests/unit/cli_kit.h"

#define PRICE                                                                                      \
    "{\"id\":\"prc_1\",\"object\":\"price\",\"plan\":null,\"model\":\"m\",\"class\":null,"         \
    "\"currency\":\"usd\",\"input_nano\":150,\"cached_input_nano\":15,\"output_nano\":600,"        \
    "\"effective_at\":1790000000,\"created_at\":1790000000}"
#define LIST                                                                                       \
    "{\"object\":\"list\",\"data\":[" PRICE                                                        \
    "],\"first_id\":\"prc_1\",\"last_id\":\"prc_1\",\"has_more\":false}"
#define PLANS                                                                                      \
    "{\"object\":\"list\",\"data\":[{\"id\":\"pln_1\",\"name\":\"gold\"}],"                        \
    "\"first_id\":\"pln_1\",\"last_id\":\"pln_1\",\"has_more\":false}"

static void test_verbs(void **state)
{
    (void)state;
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("price", "list"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/prices?limit=100&order=asc HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "prc_1  2026-09-21 14:13:20Z  -     m      -");
    cli_kit_answer(200, PRICE);
    assert_int_equal(CLI_KIT_RUN("price", "show", "prc_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/prices/prc_1 HTTP/1.1\r\n");
    cli_kit_answer(201, PRICE);
    assert_int_equal(
        CLI_KIT_RUN("price", "create", "--currency", "usd", "--input", "150", "--output", "600"),
        CLI_DONE);
    cli_kit_has(cli_kit.seen,
                "\r\n\r\n{\"currency\":\"usd\",\"input_nano\":150,\"output_nano\":600}");
    cli_kit_answer(200, PLANS);
    cli_kit_answer(201, PRICE);
    assert_int_equal(CLI_KIT_RUN("price", "create", "--currency", "usd", "--input", "150",
                                 "--cached-input", "0", "--output", "600", "--plan", "gold",
                                 "--model", "m", "--class", "batch", "--from", "2026-12-01"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"currency\":\"usd\",\"model\":\"m\",\"class\":\"batch\","
                              "\"input_nano\":150,\"cached_input_nano\":0,\"output_nano\":600,"
                              "\"effective_at\":1796083200,\"plan\":\"pln_1\"}");
    cli_kit_answer(200, PRICE);
    assert_int_equal(CLI_KIT_RUN("price", "delete", "prc_1", "--dry-run"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "DELETE /admin/v1/prices/prc_1?dry_run=true HTTP/1.1\r\n");
}

static void test_wrong_words(void **state)
{
    (void)state;
    assert_int_equal(CLI_KIT_RUN("price", "create"), CLI_USAGE);
    assert_int_equal(
        CLI_KIT_RUN("price", "create", "--currency", "usd", "--input", "0.15", "--output", "1"),
        CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("price", "create", "--currency", "usd", "--input", "1000000001",
                                 "--output", "1"),
                     CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("price", "create", "--currency", "usd", "--input", "1", "--output",
                                 "1", "--from", "2026-02-30"),
                     CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("price", "list", "--csv"), CLI_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_verbs, cli_kit_clear),
        cmocka_unit_test_setup(test_wrong_words, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
