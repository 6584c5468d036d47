#include "gateway/adapter/adapter_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/unit/http_kit.h"

static void test_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool may_be_plain;
        enum status status;
        int family;
        uint16_t port;
    } rows[] = {
        {"http://127.0.0.1:8000", false, STATUS_OK, AF_INET, 8000},
        {"http://127.0.0.1:8000/v1", false, STATUS_OK, AF_INET, 8000},
        {"http://[::1]:9", false, STATUS_OK, AF_INET6, 9},
        {"http://localhost:9", false, STATUS_OK, -1, 9},
        {"http://127.0.0.1:9/v1?key=1", false, STATUS_INVALID, 0, 0},
        {"http://192.0.2.7:80", false, STATUS_FORBIDDEN, 0, 0},
        {"http://192.0.2.7:80", true, STATUS_OK, AF_INET, 80},
        {"https://127.0.0.1:8000", false, STATUS_INVALID, 0, 0},
        {"127.0.0.1:8000", false, STATUS_INVALID, 0, 0},
        {"http://127.0.0.1:99999", false, STATUS_INVALID, 0, 0},
        {"http://no-such-host.invalid:1", false, STATUS_UNAVAILABLE, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct adapter_addresses found = {.count = 0};
        enum status status = adapter_address_find(rows[i].url, rows[i].may_be_plain, &found);
        assert_int_equal(status, rows[i].status);
        if (status != STATUS_OK)
            continue;
        assert_int_equal(found.port, rows[i].port);
        assert_true(found.count >= 1);
        if (rows[i].family >= 0)
            assert_int_equal(found.list[0].ss_family, rows[i].family);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
