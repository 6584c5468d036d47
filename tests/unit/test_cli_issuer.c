/* cli_issuer: what each verb asks of the server, files, names turned into ids. */
#include "gateway/cli/cli_issuer.h"

#include "tests/unit/cli_kit.h"

#define ISSUER                                                                                     \
    "{\"id\":\"iss_1\",\"object\":\"issuer\",\"name\":\"idp\",\"issuer\":\"https://i\","           \
    "\"audiences\":[\"banyan\"],\"algorithms\":[\"ES256\",\"EdDSA\"],\"tenant_claim\":\"org\","    \
    "\"tenants\":{},\"scope_claim\":null,\"scopes\":[\"inference\"],\"max_lifetime_s\":3600,"      \
    "\"jwks_file\":null,\"jwks_error\":null,\"keys\":[],\"created_at\":0,\"revision\":3}"
#define LIST                                                                                       \
    "{\"object\":\"list\",\"data\":[" ISSUER                                                       \
    "],\"first_id\":\"iss_1\",\"last_id\":\"iss_1\",\"has_more\":false}"

static void test_list_and_show(void **state)
{
    (void)state;
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("issuer", "list"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/issuers?limit=64&order=asc HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "iss_1  idp   https://i  ES256,EdDSA         3\n");
    cli_kit_answer(200, LIST);
    cli_kit_answer(200, ISSUER);
    assert_int_equal(CLI_KIT_RUN("issuer", "show", "idp"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/issuers/iss_1 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "TENANT CLAIM org\n");
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("issuer", "show", "nothere"), CLI_REFUSED);
    cli_kit_has(cli_kit.err, "no issuer named 'nothere'");
    cli_kit_answer(200, ISSUER);
    assert_int_equal(CLI_KIT_RUN("issuer", "delete", "iss_1", "--if-revision", "3", "--json"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "DELETE /admin/v1/issuers/iss_1 HTTP/1.1\r\n");
    assert_string_equal(cli_kit.out, ISSUER "\n");
}

static void test_create_and_change(void **state)
{
    (void)state;
    char fields[128];
    char keys[128];
    cli_kit_path(fields, "issuer.json");
    cli_kit_path(keys, "jwks.json");
    cli_kit_write("issuer.json", "{\"issuer\":\"https://i\",\"algorithms\":[\"ES256\"]}\n", 0600);
    cli_kit_write("jwks.json", "{\"keys\":[]}", 0600);
    cli_kit_answer(201, ISSUER);
    assert_int_equal(CLI_KIT_RUN("issuer", "create", "idp", "--file", fields, "--jwks", keys),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "POST /admin/v1/issuers HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"issuer\":\"https://i\",\"algorithms\":[\"ES256\"],"
                              "\"jwks\":{\"keys\":[]},\"name\":\"idp\"}");
    cli_kit_answer(200, ISSUER);
    assert_int_equal(CLI_KIT_RUN("issuer", "change", "iss_1", "--jwks", keys), CLI_DONE);
    cli_kit_has(cli_kit.seen, "PATCH /admin/v1/issuers/iss_1 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"jwks\":{\"keys\":[]}}");
    int asked = cli_kit.steps_done;
    assert_int_equal(CLI_KIT_RUN("issuer", "create", "x"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("issuer", "create", "x", "--file", "/nothere"), CLI_USAGE);
    cli_kit_write("jwks.json", "[]", 0600);
    assert_int_equal(CLI_KIT_RUN("issuer", "change", "iss_1", "--jwks", keys), CLI_USAGE);
    assert_int_equal(cli_kit.steps_done, asked); /* nothing was sent */
    unlink(fields);
    unlink(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_list_and_show, cli_kit_clear),
        cmocka_unit_test_setup(test_create_and_change, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
