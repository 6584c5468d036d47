#include "gateway/upstream/upstream_url.h"

#include "tests/unit/http_kit.h"

static void test_urls(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_url, is_plain, is_loopback;
        const char *host, *path;
        uint16_t port;
    } rows[] = {
        {"http://127.0.0.1:8000", true, true, true, "127.0.0.1", "/", 8000},
        {"http://127.9.9.9/v1", true, true, true, "127.9.9.9", "/v1", 80},
        {"https://[::1]:8444/a/b?c", true, false, true, "[::1]", "/a/b?c", 8444},
        {"https://keys.example", true, false, false, "keys.example", "/", 443},
        {"http://localhost:1", true, true, false, "localhost", "/",
         1}, /* a name may lead anywhere */
        {"http://128.0.0.1:1", true, true, false, "128.0.0.1", "/", 1},
        {"ftp://x", false, false, false, "", "", 0},
        {"http://", false, false, false, "", "", 0},
        {"http://a:0", false, false, false, "", "", 0},
        {"http://a:65536", false, false, false, "", "", 0},
        {"http://a:99999999999999999999", false, false, false, "", "", 0},
        {"http://a b", false, false, false, "", "", 0},
        {"http://u@a", false, false, false, "", "", 0},
        {"http://a/x#y", false, false, false, "", "", 0},
        {"http://[::1", false, false, false, "", "", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct upstream_url url;
        assert_int_equal(upstream_url_read(rows[i].text, &url), rows[i].is_url);
        if (!rows[i].is_url)
            continue;
        assert_int_equal(url.is_plain, rows[i].is_plain);
        assert_true(slice_is(url.authority.host, rows[i].host));
        assert_int_equal(url.authority.port, rows[i].port);
        assert_string_equal(url.path, rows[i].path);
        assert_int_equal(upstream_url_is_loopback(url.authority.host), rows[i].is_loopback);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_urls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
