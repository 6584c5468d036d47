/* key_fetch: which URLs and addresses are asked at all, what is taken as an answer, that a fetch
 * ends. */
#include "gateway/upstream/key_fetch.h"

#include <resolv.h>

#include "config/base/clock.h"
#include "config/base/limits.h"

#include "tests/unit/cli_kit.h"

static struct buffer body;
static char hosts[256];
static char url[128];
static char ca[128];

static int setup(void **state)
{
    cli_kit_clear(state);
    buffer_init(&body, LIMIT_JWKS_BYTES);
    snprintf(hosts, sizeof hosts, "localhost:%d, 127.0.0.2:%d, nowhere.invalid:%d, 0.0.0.0:%d",
             cli_kit.port, cli_kit.port, cli_kit.port, cli_kit.port);
    snprintf(url, sizeof url, "https://localhost:%d/keys?x=1", cli_kit.port);
    cli_kit_path(ca, "tls/ca.crt");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buffer_deinit(&body);
    return 0;
}

static enum status fetch(const char *from)
{
    buffer_clear(&body);
    return key_fetch(&(struct key_fetch_options){.url = from, .hosts = hosts, .ca_file = ca},
                     &body);
}

static void test_urls(void **state)
{
    (void)state;
    const char *named = "a.example, B.example:8443,[::1]:1,127.0.0.1:80";
    static const char *const right[] = {"https://a.example/keys", "https://A.EXAMPLE:443/",
                                        "https://b.example:8443", "http://127.0.0.1/keys?a=b",
                                        "http://[::1]:1/k"};
    static const char *const forbidden[] = {
        "https://a.example:444/",  "https://b.example/",    "https://xa.example/",
        "https://a.example.evil/", "http://a.example:443/", "https://127.0.0.1/",
        "http://127.0.0.2/",       "http://localhost:80/",  "http://127.0.0.1.evil:80/"};
    static const char *const wrong[] = {"",
                                        "a.example",
                                        "ftp://a.example/",
                                        "https://",
                                        "https:///keys",
                                        "https://u@a.example/",
                                        "https://u:1@a.example/",
                                        "https://a.example\\@evil/",
                                        "https://a.example/#f",
                                        "https://a.example/a b",
                                        "https://a.example/\r\nhost: evil",
                                        "https://a.example:0/",
                                        "https://a.example:65536/",
                                        "https://a.example:/",
                                        "https://[::1/"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        assert_int_equal(key_fetch_check(right[i], named), STATUS_OK);
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
        assert_int_equal(key_fetch_check(forbidden[i], named), STATUS_FORBIDDEN);
        assert_string_equal(status_note()->param, "jwks_url");
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(key_fetch_check(wrong[i], named), STATUS_INVALID);
    assert_int_equal(key_fetch_check(right[0], ""), STATUS_FORBIDDEN);
}

static void test_ports(void **state)
{
    (void)state;
    uint16_t ports[3];
    size_t count = 9;
    assert_int_equal(key_fetch_ports("", ports, 3, &count), STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(key_fetch_ports("a, b:8443,c:443", ports, 3, &count), STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(ports[0], 443);
    assert_int_equal(ports[1], 8443);
    assert_int_equal(key_fetch_ports("a:1,a:2,a:3,a:4", ports, 3, &count), STATUS_LIMIT);
    static const char *const wrong[] = {"https://a", "a:0", "a:x", "a/b", "a:99999", ":1", "u@a"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(key_fetch_ports(wrong[i], ports, 3, &count), STATUS_INVALID);
        assert_string_equal(status_note()->param, "jwks_hosts");
    }
}

static bool accepts(const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return key_fetch_accepts((const struct sockaddr *)&four);
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return key_fetch_accepts((const struct sockaddr *)&six);
}

static void test_addresses(void **state)
{
    (void)state;
    static const char *const right[] = {
        "127.0.0.1",   "10.0.0.1", "192.168.1.1",     "8.8.8.8",     "::1",
        "2001:db8::1", "fd00::1",  "::ffff:10.0.0.1", "169.253.0.1", "223.255.255.255"};
    static const char *const wrong[] = {"0.0.0.0",
                                        "0.1.2.3",
                                        "169.254.169.254",
                                        "224.0.0.1",
                                        "255.255.255.255",
                                        "240.0.0.1",
                                        "::",
                                        "fe80::1",
                                        "ff02::1",
                                        "::ffff:169.254.169.254",
                                        "::ffff:0.0.0.0",
                                        "::169.254.169.254",
                                        "fd00:ec2::254"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        if (!accepts(right[i]))
            fail_msg("%s", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (accepts(wrong[i]))
            fail_msg("%s", wrong[i]);
    const struct sockaddr other = {.sa_family = AF_UNIX};
    assert_false(key_fetch_accepts(&other));
}

static void test_answers(void **state)
{
    (void)state;
    cli_kit_answer(200, "{\"keys\":[]}");
    assert_int_equal(fetch(url), STATUS_OK);
    assert_true(slice_is(buffer_slice(&body), "{\"keys\":[]}"));
    cli_kit_has(cli_kit.seen, "GET /keys?x=1 HTTP/1.1\r\n");
    cli_kit_lacks(cli_kit.seen, "authorization");
    static const int codes[] = {204, 301, 302, 307, 400, 401, 404, 500, 503};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        char said[256];
        snprintf(said, sizeof said,
                 "HTTP/1.1 %d No\r\nlocation: %s\r\ncontent-length: 6\r\n\r\nsecret", codes[i],
                 url);
        cli_kit_say(CLI_KIT_SHUT, said);
        int before = cli_kit.connections;
        assert_int_equal(fetch(url), STATUS_UNAVAILABLE);
        assert_int_equal(cli_kit.connections, before + 1); /* no redirect is followed */
        cli_kit_lacks(status_note()->message, "secret");
        assert_int_equal(body.length, 0);
    }
    cli_kit_say(CLI_KIT_DROP, "HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\n{\"keys\"");
    assert_int_equal(fetch(url), STATUS_IO);
    cli_kit_say(CLI_KIT_SHUT, "hello\r\n\r\n");
    assert_int_equal(fetch(url), STATUS_PROTOCOL);
    /* Too long, told before or not. */
    cli_kit_say(CLI_KIT_SHUT, "HTTP/1.1 200 OK\r\ncontent-length: 65537\r\n\r\n");
    assert_int_equal(fetch(url), STATUS_PROTOCOL);
    char *large = calloc(1, 3 * LIMIT_JWKS_BYTES);
    assert_non_null(large);
    int head = snprintf(large, LIMIT_JWKS_BYTES, "HTTP/1.1 200 OK\r\n\r\n");
    memset(large + head, 'x', 2 * LIMIT_JWKS_BYTES);
    cli_kit_say(CLI_KIT_SHUT, large);
    free(large);
    assert_int_not_equal(fetch(url), STATUS_OK);
}

static void test_whom(void **state)
{
    (void)state;
    char other[160];
    snprintf(other, sizeof other, "https://127.0.0.2:%d/", cli_kit.port);
    assert_int_equal(fetch(other), STATUS_FORBIDDEN); /* not in the certificate */
    snprintf(other, sizeof other, "https://0.0.0.0:%d/", cli_kit.port);
    int before = cli_kit.connections;
    assert_int_equal(fetch(other), STATUS_UNAVAILABLE); /* an address that none may have */
    assert_int_equal(cli_kit.connections, before);
    snprintf(other, sizeof other, "https://localhost:%d/", cli_kit.port + 1);
    assert_int_equal(fetch(other), STATUS_FORBIDDEN); /* not named */
    cli_kit_path(ca, "tls/nothere.crt");
    assert_int_equal(fetch(url), STATUS_IO);
    cli_kit_path(ca, "tls/server.key"); /* holds no certificate */
    assert_int_equal(fetch(url), STATUS_IO);
}

/* Each fetch reads the resolver's settings anew: what is not in the file is gone behind it. */
static void test_resolver(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        _res.ndots = 9;
        cli_kit_answer(200, "{}");
        assert_int_equal(fetch(url), STATUS_OK);
        assert_int_not_equal(_res.ndots, 9);
        assert_int_equal(_res.retrans, 2);
        assert_int_equal(_res.retry, 2);
    }
}

static void *give_up(void *context)
{
    usleep(100000);
    atomic_store((atomic_bool *)context, true);
    return NULL;
}

static void test_given_up(void **state)
{
    (void)state;
    atomic_bool is_over = false;
    pthread_t thread;
    cli_kit_say(CLI_KIT_HANG, "HTTP/1.1 200 OK\r\n");
    assert_int_equal(pthread_create(&thread, NULL, give_up, &is_over), 0);
    const struct key_fetch_options options = {
        .url = url, .hosts = hosts, .ca_file = ca, .is_over = &is_over};
    assert_int_equal(key_fetch(&options, &body), STATUS_CANCELLED);
    pthread_join(thread, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(test_urls),    TEST(test_ports), TEST(test_addresses),
                                       TEST(test_answers), TEST(test_whom),  TEST(test_resolver),
                                       TEST(test_given_up)};
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
