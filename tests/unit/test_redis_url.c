/* redis_url: what is understood, and what each mistake is told. */
#include "auth/ledger/redis_url.h"

#include "tests/unit/base_kit.h"

#include "config/base/limits.h"

static void check_host(const char *text, const char *host, int port, int database, const char *user)
{
    struct redis_url url;
    assert_int_equal(redis_url_parse(&url, text), STATUS_OK);
    assert_false(url.is_unix);
    assert_string_equal(url.host, host);
    assert_int_equal(url.port, port);
    assert_int_equal(url.database, database);
    assert_string_equal(url.user, user);
}

static void test_hosts(void **state)
{
    (void)state;
    check_host("redis://127.0.0.1", "127.0.0.1", 6379, 0, "");
    check_host("redis://127.0.0.1/", "127.0.0.1", 6379, 0, "");
    check_host("redis://127.0.0.1:1/15", "127.0.0.1", 1, 15, "");
    check_host("redis://redis.example-2.com:65535", "redis.example-2.com", 65535, 0, "");
    check_host("redis://[::1]:7000/2", "::1", 7000, 2, "");
    check_host("redis://[fe80::1%eth0]", "fe80::1%eth0", 6379, 0, "");
    check_host("redis://banyan@localhost/1", "localhost", 6379, 1, "banyan");
}

static void test_sockets(void **state)
{
    (void)state;
    struct redis_url url;
    assert_int_equal(redis_url_parse(&url, "unix:///run/redis/redis.sock"), STATUS_OK);
    assert_true(url.is_unix);
    assert_string_equal(url.host, "/run/redis/redis.sock");
    assert_int_equal(url.database, 0);
    assert_int_equal(redis_url_parse(&url, "unix:///r.sock?db=3"), STATUS_OK);
    assert_string_equal(url.host, "/r.sock");
    assert_int_equal(url.database, 3);
}

static void check_refused(const char *text, const char *says)
{
    struct redis_url url;
    assert_int_equal(redis_url_parse(&url, text), STATUS_INVALID);
    assert_string_equal(status_note()->param, "redis");
    if (strstr(status_note()->message, says) == NULL)
        fail_msg("%s: %s", text, status_note()->message);
    assert_null(strstr(status_note()->message, "hunter2"));
}

static void test_mistakes_are_told(void **state)
{
    (void)state;
    check_refused("", "redis://HOST:PORT");
    check_refused("127.0.0.1:6379", "redis://HOST:PORT");
    check_refused("http://127.0.0.1", "redis://HOST:PORT");
    check_refused("REDIS://127.0.0.1", "redis://HOST:PORT");
    check_refused("rediss://127.0.0.1", "TLS");
    check_refused("redis://", "no host");
    check_refused("redis:///1", "no host");
    check_refused("redis://:6379", "no host");
    check_refused("redis://a b", "no host");
    check_refused("redis://a,b:1", "no host");
    check_refused("redis://[::1", "no host");
    check_refused("redis://[]:1", "no host");
    check_refused("redis://::1", "no host");
    check_refused("redis://host:", "port");
    check_refused("redis://host:0", "port");
    check_refused("redis://host:65536", "port");
    check_refused("redis://host:99999999999999999999", "port");
    check_refused("redis://host:+1", "port");
    check_refused("redis://[::1]x", "port");
    check_refused("redis://host/x", "database");
    check_refused("redis://host/16384", "database");
    check_refused("redis://host/1/", "database");
    check_refused("redis://host/1?db=2", "database");
    check_refused("redis://:hunter2@host:1/0", "--redis-password-file");
    check_refused("redis://user:hunter2@host", "--redis-password-file");
    check_refused("redis://@host", "user");
    check_refused("redis://hunter2 x@host", "user");
    check_refused("unix://", "unix:///PATH");
    check_refused("unix:///", "unix:///PATH");
    check_refused("unix://relative", "unix:///PATH");
    check_refused("unix:///a?database=1", "?db=");
    check_refused("unix:///a?db=", "database");
    check_refused("unix:///a?db=-1", "database");
}

static void test_long_texts_are_refused(void **state)
{
    (void)state;
    char text[LIMIT_OPTION_BYTES];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    memcpy(text, "redis://", 8);
    check_refused(text, "no host");
    text[400] = '@';
    check_refused(text, "user");
    memcpy(text, "unix:///", 8);
    check_refused(text, "at most 107 bytes");
    text[7 + 107] = '\0';
    struct redis_url url;
    assert_int_equal(redis_url_parse(&url, text), STATUS_OK);
    assert_int_equal(strlen(url.host), 107);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_mistakes_are_told),
        cmocka_unit_test(test_long_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
