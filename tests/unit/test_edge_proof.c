/* edge_proof: requests whose token nobody knows yet: answered when it is checked, let go when their
 * clients leave, refused when an address fails too often. */
#include "config/base/clock.h"
#include "tests/unit/jwt_kit.h"

#include "tests/unit/edge_kit.h"

enum { CLIENTS = 40 };

static struct jwt_kit_key key;
static char issuer_id[LIMIT_ID_BYTES];
static struct edge_kit_connection clients[CLIENTS];

static int setup(void **state)
{
    assert_int_equal(edge_kit_setup(state), 0);
    key = jwt_kit_make(AUTH_JWT_HS256, "h", 0);
    struct buffer jwks = jwt_kit_jwks(&key, 1);
    char body[1024];
    snprintf(body, sizeof body,
             "{\"name\":\"idp\",\"issuer\":\"" JWT_KIT_ISS "\",\"audiences\":[\"banyan\"],"
             "\"algorithms\":[\"HS256\"],\"jwks\":%s}",
             jwks.bytes);
    buffer_deinit(&jwks);
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/issuers", body), 201);
    edge_kit_member("id", issuer_id, sizeof issuer_id);
    return 0;
}

/* The header of a token that no other call has made; a bad one has expired. */
static const char *bearer(bool is_good)
{
    static char header[1024];
    static int number;
    char claims[512];
    struct buffer token;
    long long now_s = (long long)(clock_wall_us(clock_system()) / 1000000);
    buffer_init(&token, sizeof header);
    snprintf(claims, sizeof claims,
             "{\"iss\":\"" JWT_KIT_ISS
             "\",\"aud\":\"banyan\",\"exp\":%lld,\"tenant\":\"%s\",\"n\":%d}",
             is_good ? now_s + 3600 : now_s - 3600, kit.tenant_id, number++);
    jwt_kit_token(&token, &key, claims);
    snprintf(header, sizeof header, "authorization: Bearer %s\r\n", token.bytes);
    buffer_deinit(&token);
    return header;
}

static void test_served(void **state)
{
    (void)state;
    const char *header = bearer(true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/me", header, ""), 200);
        edge_text_has(answer, issuer_id);
        edge_text_has(answer, kit.tenant_id);
    }
    assert_int_equal(edge_kit_ask(kit.admin_port, "GET", "/admin/v1/tenants", header, ""), 401);
    header = bearer(false);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/me", header, ""), 401);
        edge_text_has(answer, "The token has expired.");
        edge_text_has(answer, "www-authenticate: Bearer\r\n");
    }
    /* What is known without a check: no form, no token, a path that is none. */
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/me", edge_kit_bearer("a.b"), ""), 401);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/nothere", bearer(true), ""), 404);
    assert_int_equal(edge_kit_public("GET", "/v1/me", ""), 200);
}

/* Clients that leave while their tokens wait or are checked; the others are served. */
static void test_gone(void **state)
{
    (void)state;
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = edge_kit_connect(kit.port);
    for (int i = 0; i < CLIENTS; i++) {
        edge_kit_write(&clients[i], "GET", "/nothere", bearer(true), "");
        if (i % 2 == 0)
            edge_kit_close(&clients[i]);
    }
    for (int i = 1; i < CLIENTS; i += 2) {
        edge_kit_read(&clients[i], NULL);
        edge_text_has(answer, "HTTP/1.1 404 "); /* the handler's own answer */
        edge_kit_close(&clients[i]);
    }
}

/* Sends a head that announces a body, and 1,000 bytes of it. */
static struct edge_kit_connection begin_body(int port, const char *path, const char *header)
{
    char text[2048];
    struct edge_kit_connection connection = edge_kit_connect(port);
    int length = snprintf(text, sizeof text,
                          "POST %s HTTP/1.1\r\nhost: x\r\nconnection: close\r\n%s"
                          "content-length: 100000\r\n\r\n",
                          path, header);
    assert_int_equal(SSL_write(connection.tls, text, length), length);
    memset(text, ' ', 1000);
    assert_int_equal(SSL_write(connection.tls, text, 1000), 1000);
    return connection;
}

static void end_body(struct edge_kit_connection *connection)
{
    static char text[99000];
    memset(text, ' ', sizeof text);
    assert_int_equal(SSL_write(connection->tls, text, sizeof text), sizeof text);
    edge_kit_read(connection, NULL);
    edge_kit_close(connection);
}

/* Who shows nothing that is valid is answered before the body has come; bodies of keys, of tokens
 * that are known and of tokens that nobody has seen before are waited for. */
static void test_bodies_on_their_way(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        const char *code; /* at once; NULL: the body is waited for */
    } rows[] = {
        {"", "HTTP/1.1 401 "},
        {"authorization: Basic abc\r\n", "HTTP/1.1 401 "},
        {"authorization: Bearer sk-by-wrong\r\n", "HTTP/1.1 401 "},
        {"x-api-key: a\r\nx-api-key: b\r\n", "HTTP/1.1 401 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct edge_kit_connection connection =
            begin_body(kit.port, "/v1/chat/completions", rows[i].header);
        edge_kit_read(&connection, "}}");
        assert_memory_equal(answer, rows[i].code, strlen(rows[i].code));
        end_body(&connection);
        assert_string_equal(answer, "");
    }
    const char *good[] = {edge_kit_bearer(kit.key), bearer(true)};
    for (size_t i = 0; i < 4; i++) { /* the token twice: it is known then */
        struct edge_kit_connection connection =
            begin_body(kit.port, "/v1/chat/completions", good[i == 0 ? 0 : 1]);
        usleep(20000);
        end_body(&connection);
        edge_text_has(answer, "HTTP/1.1 400 "); /* 100,000 blanks are no JSON */
        edge_text_has(answer, "JSON");
    }
    /* A tenant's key is a stranger's on the admins' listener, and an admin's there is known. */
    struct edge_kit_connection connection =
        begin_body(kit.admin_port, "/admin/v1/tenants", edge_kit_bearer(kit.key));
    edge_kit_read(&connection, "}}");
    assert_memory_equal(answer, "HTTP/1.1 401 ", 13);
    edge_kit_close(&connection);
    connection = begin_body(kit.admin_port, "/admin/v1/tenants", edge_kit_bearer(kit.admin_key));
    end_body(&connection);
    edge_text_has(answer, "HTTP/1.1 400 ");
}

/* Bursts of bad tokens, each another one, until the address has had too many: then a token that is
 * not known is 429 before any check, one that is known and an API key pass. */
static void test_flood(void **state)
{
    (void)state;
    char known[1024];
    bool is_refused = false;
    snprintf(known, sizeof known, "%s", bearer(true));
    for (int i = 0; i < 60; i++) { /* what failed before is forgiven */
        if (edge_kit_ask(kit.port, "GET", "/v1/me", known, "") == 200)
            break;
        usleep(500000);
    }
    for (int turn = 0; turn < 100 && !is_refused; turn++) {
        for (int i = 0; i < CLIENTS; i++)
            clients[i] = edge_kit_connect(kit.port);
        for (int i = 0; i < CLIENTS; i++)
            edge_kit_write(&clients[i], "GET", "/v1/me", bearer(false), "");
        for (int i = 0; i < CLIENTS; i++) {
            edge_kit_read(&clients[i], NULL);
            bool is_too_many = strstr(answer, "HTTP/1.1 429 ") == answer;
            if (is_too_many)
                edge_text_has(answer, "retry-after: ");
            else
                edge_text_has(answer, "HTTP/1.1 401 ");
            is_refused = is_refused || is_too_many;
            edge_kit_close(&clients[i]);
        }
    }
    assert_true(is_refused);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/me", known, ""), 200);
    assert_int_equal(edge_kit_public("GET", "/v1/me", ""), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_served),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_bodies_on_their_way),
        cmocka_unit_test(test_flood),
    };
    return cmocka_run_group_tests(tests, setup, edge_kit_teardown);
}
