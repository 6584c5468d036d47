/* edge_keys: keys of a URL, fetched off the loop: a token that comes before its key waits for it,
 * one whose key is nowhere is refused without another fetch, and a source that is down changes
 * nothing. */
#include "config/base/clock.h"
#include "tests/unit/jwt_kit.h"

#include "tests/unit/edge_kit.h"

enum { KEYS = 2 };

static struct jwt_kit_key keys[KEYS];
static char issuer_path[128];

/* --- where keys are --- */

static struct {
    int listener;
    int port;
    pthread_t thread;
    pthread_mutex_t lock;
    struct buffer answer; /* a body; empty: 503 */
    _Atomic int asked;
} source = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *source_thread(void *context)
{
    char bytes[4096];
    (void)context;
    for (;;) {
        int descriptor = accept(source.listener, NULL, NULL);
        if (descriptor < 0)
            return NULL;
        ssize_t got = read(descriptor, bytes, sizeof bytes); /* its head is one segment */
        pthread_mutex_lock(&source.lock);
        dprintf(descriptor, "HTTP/1.1 %s\r\nconnection: close\r\ncontent-length: %zu\r\n\r\n%.*s",
                source.answer.length > 0 ? "200 OK" : "503 No", source.answer.length,
                (int)source.answer.length, source.answer.length > 0 ? source.answer.bytes : "");
        pthread_mutex_unlock(&source.lock);
        close(descriptor);
        if (got > 0)
            atomic_fetch_add(&source.asked, 1);
    }
}

/* `count` 0: it is down. */
static void source_set(size_t first, size_t count)
{
    struct buffer jwks = jwt_kit_jwks(&keys[first], count);
    pthread_mutex_lock(&source.lock);
    buffer_clear(&source.answer);
    if (count > 0)
        buffer_append_slice(&source.answer, buffer_slice(&jwks));
    pthread_mutex_unlock(&source.lock);
    buffer_deinit(&jwks);
}

static int setup(void **state)
{
    (void)state;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    char hosts[64];
    buffer_init(&source.answer, 1 << 20);
    source.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(source.listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(source.listener, 16), 0);
    assert_int_equal(getsockname(source.listener, (struct sockaddr *)&name, &length), 0);
    source.port = ntohs(name.sin_port);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", source.port);
    const char *options[] = {"--drain-timeout-s", "2", "--jwks-hosts", hosts};
    edge_kit_setup_with(options, 4);
    assert_int_equal(pthread_create(&source.thread, NULL, source_thread, NULL), 0);
    keys[0] = jwt_kit_make(AUTH_JWT_EDDSA, "first", 0);
    keys[1] = jwt_kit_make(AUTH_JWT_EDDSA, "second", 0);
    return 0;
}

static int teardown(void **state)
{
    shutdown(source.listener, SHUT_RDWR);
    pthread_join(source.thread, NULL);
    close(source.listener);
    buffer_deinit(&source.answer);
    jwt_kit_free(&keys[0]);
    jwt_kit_free(&keys[1]);
    return edge_kit_teardown(state);
}

/* The header of a token that no other call has made, signed by key `with`, named `kid`. */
static const char *bearer(int with, const char *kid)
{
    static char header[1024];
    static int number;
    char claims[512];
    struct buffer token;
    struct jwt_kit_key key = keys[with];
    long long now_s = (long long)(clock_wall_us(clock_system()) / 1000000);
    key.kid = kid;
    buffer_init(&token, sizeof header);
    snprintf(claims, sizeof claims,
             "{\"iss\":\"" JWT_KIT_ISS
             "\",\"aud\":\"banyan\",\"exp\":%lld,\"tenant\":\"%s\",\"groups\":\"ops\",\"n\":%d}",
             now_s + 3600, kit.tenant_id, number++);
    jwt_kit_token(&token, &key, claims);
    snprintf(header, sizeof header, "authorization: Bearer %s\r\n", token.bytes);
    buffer_deinit(&token);
    return header;
}

static int ask(int with, const char *kid)
{
    return edge_kit_ask(kit.port, "GET", "/v1/me", bearer(with, kid), "");
}

static void issuer_make(void)
{
    char body[512];
    char id[LIMIT_ID_BYTES];
    snprintf(
        body, sizeof body,
        "{\"name\":\"idp\",\"issuer\":\"" JWT_KIT_ISS "\",\"audiences\":[\"banyan\"],"
        "\"algorithms\":[\"EdDSA\"],\"jwks_url\":\"http://127.0.0.1:%d/keys\","
        "\"jwks_refresh_s\":86400,\"admin_claim\":\"groups\",\"admins\":{\"ops\":\"admin:read\"}}",
        source.port);
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/issuers", body), 201);
    edge_kit_member("id", id, sizeof id);
    snprintf(issuer_path, sizeof issuer_path, "/admin/v1/issuers/%s", id);
}

static void test_urls_are_named(void **state)
{
    (void)state;
    assert_int_equal(
        edge_kit_admin("POST", "/admin/v1/issuers",
                       "{\"name\":\"x\",\"issuer\":\"x\",\"audiences\":[\"banyan\"],"
                       "\"algorithms\":[\"EdDSA\"],\"jwks_url\":\"https://x.example/\"}"),
        403);
    edge_text_has(answer, "\"param\":\"jwks_url\"");
    edge_text_has(answer, "--jwks-hosts");
}

static void test_down_then_up(void **state)
{
    (void)state;
    source_set(0, 0);
    issuer_make();
    edge_kit_wait(&source.asked, 1);
    assert_int_equal(ask(0, "first"), 503); /* no fault of the token's */
    edge_text_has(answer, "could not be read yet");
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(edge_kit_admin("GET", issuer_path, ""), 200);
        if (strstr(answer, "\"jwks_error\":\"the key set's URL was answered with HTTP 503\"") !=
            NULL)
            break;
        usleep(10000);
    }
    edge_text_has(answer, "\"jwks_error\":\"the key set's URL was answered with HTTP 503\"");
    edge_text_has(answer, "\"jwks_fetched_at\":null");
    /* Another word of the admin's: it is asked at once. */
    source_set(0, 1);
    int before = atomic_load(&source.asked);
    assert_int_equal(edge_kit_admin("PATCH", issuer_path, "{\"max_lifetime_s\":86400}"), 200);
    edge_kit_wait(&source.asked, before + 1);
    for (int i = 0; i < 3000 && ask(0, "first") != 200; i++)
        usleep(10000);
    assert_int_equal(ask(0, "first"), 200);
    /* Its rule for admins; off the loop there too. */
    assert_int_equal(
        edge_kit_ask(kit.admin_port, "GET", "/admin/v1/tenants", bearer(0, "first"), ""), 200);
    assert_int_equal(edge_kit_ask(kit.admin_port, "POST", "/admin/v1/tenants", bearer(0, "first"),
                                  "{\"name\":\"x\"}"),
                     403);
}

/* The issuer signs with a key that nobody here has seen: the first token waits for it, on either
 * listener; the old key's tokens are taken as before. */
static void test_rotation(void **state)
{
    (void)state;
    source_set(1, 1);
    assert_int_equal(edge_kit_admin("PATCH", issuer_path, "{\"max_lifetime_s\":86000}"), 200);
    source_set(1, 1);
    struct edge_kit_connection connection = edge_kit_connect(kit.admin_port);
    edge_kit_write(&connection, "GET", "/admin/v1/tenants", bearer(1, "second"), "");
    assert_int_equal(ask(1, "second"), 200);
    edge_kit_read(&connection, NULL);
    edge_text_has(answer, "HTTP/1.1 200 ");
    edge_kit_close(&connection);
    assert_int_equal(ask(0, "first"), 200);
    assert_int_equal(edge_kit_admin("GET", issuer_path, ""), 200);
    edge_text_has(answer, "\"until\":");
}

/* Names of keys that are nowhere: the source is asked once, whatever comes. Some clients leave. */
static void test_unknown(void **state)
{
    (void)state;
    enum { CLIENTS = 12 };
    struct edge_kit_connection clients[CLIENTS];
    assert_int_equal(edge_kit_admin("PATCH", issuer_path, "{\"max_lifetime_s\":86001}"), 200);
    int before = atomic_load(&source.asked);
    for (int i = 0; i < CLIENTS; i++) {
        char kid[16];
        snprintf(kid, sizeof kid, "nobody-%d", i);
        clients[i] = edge_kit_connect(kit.port);
        edge_kit_write(&clients[i], "GET", "/v1/me", bearer(0, kid), "");
        if (i % 3 == 0)
            edge_kit_close(&clients[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (i % 3 == 0)
            continue;
        edge_kit_read(&clients[i], NULL);
        edge_text_has(answer, "HTTP/1.1 401 ");
        edge_text_has(answer, "no key of the token's kid");
        edge_kit_close(&clients[i]);
    }
    assert_true(atomic_load(&source.asked) <= before + 2); /* the change's, and the tokens' */
    assert_int_equal(edge_kit_admin("GET", "/metrics", ""), 200);
    edge_text_has(answer, "banyan_auth_refusals_total{method=\"token\",reason=\"key\"} ");
    edge_text_has(answer, "banyan_issuer_key_fetches_total{result=\"failed\"} ");
    edge_text_has(answer, "banyan_issuers_failing 0\n");
}

/* A token that waits for an issuer which is deleted, or which never answers in time, is
 * answered. */
static void test_deleted(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_admin("DELETE", issuer_path, ""), 200);
    assert_int_equal(ask(0, "first"), 401);
    edge_text_has(answer, "no issuer that is known");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls_are_named), cmocka_unit_test(test_down_then_up),
        cmocka_unit_test(test_rotation), cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_deleted)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
