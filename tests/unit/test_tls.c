/* tls: versions, protocols, session separation, files that cannot be used. */
#include "http_kit_tls.h"

#include <openssl/pem.h>
#include <unistd.h>

static void handle(struct http_request *request, void *context)
{
    (void)context;
    http_respond_json(request, 200, SLICE("{}"));
}

static void test_versions(void **state)
{
    (void)state;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    struct http_kit kit = {.tls = tls.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    const struct {
        int version;
        bool is_served;
    } rows[] = {{TLS1_1_VERSION, false}, {TLS1_2_VERSION, true}, {TLS1_3_VERSION, true}};
    SSL_CTX_set_security_level(tls.client, 0); /* the client must not be the one that refuses */
    for (size_t i = 0; i < 3; i++) {
        SSL_CTX_set_min_proto_version(tls.client, rows[i].version);
        SSL_CTX_set_max_proto_version(tls.client, rows[i].version);
        SSL *ssl = http_kit_tls_connect(&tls, &kit, false);
        assert_int_equal(ssl != NULL, rows[i].is_served);
        if (ssl == NULL)
            continue;
        assert_int_equal(SSL_version(ssl), rows[i].version);
        http_kit_tls_drop(ssl);
    }
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
}

static void test_alpn(void **state)
{
    (void)state;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    struct http_kit kit = {.tls = tls.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    for (int is_h2 = 0; is_h2 < 2; is_h2++) {
        SSL *ssl = http_kit_tls_connect(&tls, &kit, is_h2);
        assert_non_null(ssl);
        const unsigned char *protocol;
        unsigned length;
        SSL_get0_alpn_selected(ssl, &protocol, &length);
        const char *wanted = is_h2 ? "h2" : "http/1.1";
        assert_int_equal(length, strlen(wanted));
        assert_memory_equal(protocol, wanted, length);
        http_kit_tls_drop(ssl);
    }
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
}

/* A session of one listener resumes there, and not on a listener of another name. */
static void test_sessions_do_not_cross(void **state)
{
    (void)state;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    SSL_CTX_set_max_proto_version(tls.client, TLS1_2_VERSION); /* resumes without reading tickets */
    SSL_CTX_set_session_cache_mode(tls.client, SSL_SESS_CACHE_CLIENT);
    struct http_kit kit = {.tls = tls.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    char cert[128], key[128];
    http_kit_tls_file(&tls, "server.crt", cert);
    http_kit_tls_file(&tls, "server.key", key);
    struct tls_context *other_server;
    assert_int_equal(tls_context_open(&other_server, cert, key, "other"), STATUS_OK);
    struct http_kit other = {.tls = other_server};
    http_kit_start(&other, false, (struct listener_options){.handler = handle});
    SSL *first = http_kit_tls_connect(&tls, &kit, false);
    assert_non_null(first);
    SSL_SESSION *session = SSL_get1_session(first);
    SSL_shutdown(first);
    http_kit_tls_drop(first);
    for (int is_other = 0; is_other < 2; is_other++) {
        SSL *ssl = SSL_new(tls.client);
        SSL_set_fd(ssl, http_kit_connect(is_other ? &other : &kit));
        SSL_set_session(ssl, session);
        assert_int_equal(SSL_connect(ssl), 1);
        assert_int_equal(SSL_session_reused(ssl), !is_other);
        http_kit_tls_drop(ssl);
    }
    SSL_SESSION_free(session);
    http_kit_stop(&kit);
    http_kit_stop(&other);
    tls_context_close(other_server);
    http_kit_tls_stop(&tls);
}

static void test_bad_files(void **state)
{
    (void)state;
    struct http_kit_tls one, two;
    http_kit_tls_start(&one);
    http_kit_tls_start(&two);
    char cert[128], key[128], other_key[128];
    http_kit_tls_file(&one, "server.crt", cert);
    http_kit_tls_file(&one, "server.key", key);
    http_kit_tls_file(&two, "server.key", other_key);
    struct tls_context *tls = NULL;
    assert_int_equal(tls_context_open(&tls, "/nowhere.crt", key, "t"), STATUS_IO);
    assert_non_null(strstr(status_note()->message, "/nowhere.crt"));
    assert_int_equal(tls_context_open(&tls, cert, "/nowhere.key", "t"), STATUS_IO);
    assert_non_null(strstr(status_note()->message, "/nowhere.key"));
    assert_int_equal(tls_context_open(&tls, key, key, "t"),
                     STATUS_IO); /* a key is no certificate */
    assert_int_not_equal(tls_context_open(&tls, cert, other_key, "t"), STATUS_OK);
    assert_null(tls);
    http_kit_tls_stop(&one);
    http_kit_tls_stop(&two);
}

/* An encrypted key is refused; nobody is asked for its words, not even at standard input. */
static void test_encrypted_key(void **state)
{
    (void)state;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    char cert[128], key[128], locked[128];
    http_kit_tls_file(&tls, "server.crt", cert);
    http_kit_tls_file(&tls, "server.key", key);
    http_kit_tls_file(&tls, "locked.key", locked);
    FILE *file = fopen(key, "r");
    assert_non_null(file);
    EVP_PKEY *private = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    assert_non_null(private);
    file = fopen(locked, "w");
    assert_non_null(file);
    char words[] = "words";
    int written = PEM_write_PKCS8PrivateKey(file, private, EVP_aes_128_cbc(), words, 5, NULL, NULL);
    assert_int_equal(written, 1);
    fclose(file);
    EVP_PKEY_free(private);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "words\n", 6), 6);
    close(ends[1]);
    int input = dup(STDIN_FILENO);
    dup2(ends[0], STDIN_FILENO);
    struct tls_context *server = NULL;
    enum status status = tls_context_open(&server, cert, locked, "t");
    if (input >= 0)
        dup2(input, STDIN_FILENO);
    close(input);
    close(ends[0]);
    unlink(locked);
    assert_int_equal(status, STATUS_IO);
    assert_null(server);
    assert_non_null(strstr(status_note()->message, "locked.key"));
    http_kit_tls_stop(&tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_alpn),
        cmocka_unit_test(test_sessions_do_not_cross),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_encrypted_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
