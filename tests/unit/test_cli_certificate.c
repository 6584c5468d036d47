/* cli_certificate: what each verb asks of the server; a client certificate instead of a key. */
#include "gateway/cli/cli_certificate.h"

#include "tests/unit/cli_kit.h"

#define ROW                                                                                        \
    "{\"id\":\"crt_1\",\"object\":\"certificate\",\"tenant_id\":\"tnt_1\",\"label\":\"laptop\","   \
    "\"fingerprint\":null,\"uri\":\"urn:a\",\"dns\":null,\"scopes\":[\"inference\"],"              \
    "\"created_at\":0,\"expires_at\":null,\"revoked_at\":null,\"revision\":3}"
#define LIST                                                                                       \
    "{\"object\":\"list\",\"data\":[" ROW                                                          \
    "],\"first_id\":\"crt_1\",\"last_id\":\"crt_1\",\"has_more\":false}"

static void test_verbs(void **state)
{
    (void)state;
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("certificate", "list", "--tenant", "tnt_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen,
                "GET /admin/v1/tenants/tnt_1/certificates?limit=100&order=asc HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "crt_1  laptop  active  urn:a");
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("certificate", "list"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/certificates?limit=100&order=asc HTTP/1.1\r\n");
    cli_kit_answer(200, ROW);
    assert_int_equal(CLI_KIT_RUN("certificate", "show", "crt_1", "--tenant", "tnt_1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/tenants/tnt_1/certificates/crt_1 HTTP/1.1\r\n");
    cli_kit_answer(201, ROW);
    assert_int_equal(CLI_KIT_RUN("certificate", "create", "--tenant", "tnt_1", "--uri", "urn:a",
                                 "--label", "laptop", "--scopes", "inference"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "POST /admin/v1/tenants/tnt_1/certificates HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen,
                "\r\n\r\n{\"label\":\"laptop\",\"uri\":\"urn:a\",\"scopes\":[\"inference\"]}");
    cli_kit_answer(200, ROW);
    assert_int_equal(
        CLI_KIT_RUN("certificate", "change", "crt_1", "--expires", "never", "--if-revision", "3"),
        CLI_DONE);
    cli_kit_has(cli_kit.seen, "PATCH /admin/v1/certificates/crt_1 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"expires_at\":null}");
    cli_kit_answer(200, ROW);
    assert_int_equal(CLI_KIT_RUN("certificate", "revoke", "crt_1", "--json"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "DELETE /admin/v1/certificates/crt_1 HTTP/1.1\r\n");
    assert_string_equal(cli_kit.out, ROW "\n");
    assert_int_equal(CLI_KIT_RUN("certificate", "change", "crt_1"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("certificate", "change", "crt_1", "--uri", "urn:b"), CLI_USAGE);
}

static void test_own_certificate(void **state)
{
    (void)state;
    char cert[128], key[128];
    cli_kit_path(cert, "tls/server.crt");
    cli_kit_path(key, "tls/server.key");
    cli_kit_answer(200, LIST);
    assert_int_equal(CLI_KIT_RUN("certificate", "list", "--cert", cert, "--cert-key", key),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/certificates");
    assert_int_equal(CLI_KIT_RUN("certificate", "list", "--cert", cert, "--cert-key", cert),
                     CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("certificate", "list", "--cert", "/nowhere"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("certificate", "list", "--cert-key", key), CLI_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_verbs, cli_kit_clear),
        cmocka_unit_test_setup(test_own_certificate, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
