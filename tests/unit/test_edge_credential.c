/* edge_credential: the key in its headers, over a real edge. */
#include "gateway/edge/request/edge_credential.h"

#include "tests/unit/edge_kit.h"

static void test_bearer(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        enum status status;
        const char *key;
    } rows[] = {
        {"Bearer abc", STATUS_OK, "abc"},
        {"bearer abc", STATUS_OK, "abc"},
        {"BEARER   abc  ", STATUS_OK, "abc"},
        {"Bearer", STATUS_OK, ""},
        {"Bearer ", STATUS_OK, ""},
        {"Bearer a b", STATUS_KEY_INVALID, ""},
        {"Bearerabc", STATUS_KEY_INVALID, ""},
        {"Basic eDp5", STATUS_KEY_INVALID, ""},
        {"Bear", STATUS_KEY_INVALID, ""},
        {"", STATUS_KEY_INVALID, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct slice key;
        if (edge_credential_bearer(slice_of(rows[i].header), &key) != rows[i].status)
            fail_msg("'%s'", rows[i].header);
        if (rows[i].status == STATUS_OK)
            edge_text_same(key, rows[i].key);
    }
}

static int ask(const char *headers)
{
    return edge_kit_ask(kit.port, "GET", "/v1/models", headers, "");
}

static void refused(const char *headers)
{
    if (ask(headers) != 401)
        fail_msg("'%s' was let in", headers);
    edge_text_has(answer, "\"code\":\"invalid_api_key\"");
    edge_text_has(answer, "www-authenticate: Bearer");
    edge_text_has(answer, "x-should-retry: false");
    edge_text_has(answer, "x-request-id: req_");
    assert_null(strstr(answer, kit.key));
}

static void test_headers(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(ask(edge_kit_bearer(kit.key)), 200);
    snprintf(text, sizeof text, "X-API-Key: %s\r\n", kit.key);
    assert_int_equal(ask(text), 200);
    refused("");
    refused("authorization: Bearer \r\n");
    refused("authorization: Basic eDp5\r\n");
    refused("x-api-key: sk-by-x\r\n");
    refused(edge_kit_bearer(kit.admin_key));
    snprintf(text, sizeof text, "x-api-key: %s\r\nx-api-key: %s\r\n", kit.key, kit.key);
    refused(text);
    snprintf(text, sizeof text, "authorization: Bearer %s\r\nauthorization: Bearer %s\r\n", kit.key,
             kit.key);
    refused(text);
    /* The check digits tell a typo without a look-up. */
    char mistyped[128];
    snprintf(mistyped, sizeof mistyped, "%s", kit.key);
    char *last = mistyped + strlen(mistyped) - 1;
    *last = *last == 'A' ? 'B' : 'A';
    refused(edge_kit_bearer(mistyped));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bearer),
        cmocka_unit_test(test_headers),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
