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

/* No session resumes, on no listener and with neither version: there are no tickets and no ids. */
static void test_sessions_do_not_resume(void **state)
{
    (void)state;
    static char answer[4096];
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    SSL_CTX_set_session_cache_mode(tls.client, SSL_SESS_CACHE_CLIENT);
    struct http_kit kit = {.tls = tls.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < 2; i++) {
        SSL_CTX_set_max_proto_version(tls.client, versions[i]);
        SSL *first = http_kit_tls_connect(&tls, &kit, false);
        assert_non_null(first);
        const char *request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        http_kit_tls_send(first, request, strlen(request));
        http_kit_tls_read(first, answer, sizeof(answer), NULL); /* tickets would come before */
        SSL_SESSION *session = SSL_get1_session(first);
        assert_false(SSL_SESSION_has_ticket(session));
        http_kit_tls_drop(first);
        SSL *again = SSL_new(tls.client);
        SSL_set_fd(again, http_kit_connect(&kit));
        SSL_set_session(again, session);
        assert_int_equal(SSL_connect(again), 1);
        assert_false(SSL_session_reused(again));
        http_kit_tls_drop(again);
        SSL_SESSION_free(session);
    }
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
}

/* Only forward-secret suites with authenticated encryption are spoken. */
static void test_suites(void **state)
{
    (void)state;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    struct http_kit kit = {.tls = tls.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    SSL_CTX_set_max_proto_version(tls.client, TLS1_2_VERSION);
    SSL_CTX_set_security_level(tls.client, 0);
    const struct {
        const char *suites;
        bool is_served;
    } rows[] = {
        {"ECDHE-ECDSA-AES128-GCM-SHA256", true},
        {"ECDHE-ECDSA-CHACHA20-POLY1305", true},
        {"ECDHE-ECDSA-AES128-SHA256", false},
        {"ECDHE-ECDSA-AES256-SHA", false},
        {"AES128-GCM-SHA256", false},
        {"ECDHE-ECDSA-AES128-CCM8", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(SSL_CTX_set_cipher_list(tls.client, rows[i].suites), 1);
        SSL *ssl = http_kit_tls_connect(&tls, &kit, false);
        assert_int_equal(ssl != NULL, rows[i].is_served);
        if (ssl != NULL)
            http_kit_tls_drop(ssl);
    }
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[65536];
    FILE *in = fopen(from, "r");
    FILE *out = fopen(to, "w");
    assert_non_null(in);
    assert_non_null(out);
    size_t length = fread(bytes, 1, sizeof(bytes), in);
    assert_int_equal(fwrite(bytes, 1, length, out), length);
    fclose(in);
    fclose(out);
}

struct reload {
    struct tls_context *tls;
    enum status status;
    _Atomic int is_done;
};

static void post_reload(void *context)
{
    struct reload *reload = context;
    reload->status = tls_context_reload(reload->tls);
    reload->is_done = 1;
}

static enum status reload_on_loop(struct http_kit *kit, struct tls_context *tls)
{
    struct reload reload = {.tls = tls};
    loop_post(kit->loop, post_reload, &reload);
    http_kit_wait(&reload.is_done, 1);
    return reload.status;
}

/* True when the served certificate is the one in `path`. */
static bool is_served(const struct http_kit_tls *tls, const struct http_kit *kit, const char *path)
{
    SSL *ssl = SSL_new(tls->client);
    SSL_set_fd(ssl, http_kit_connect(kit));
    SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL);
    assert_int_equal(SSL_connect(ssl), 1);
    X509 *served = SSL_get1_peer_certificate(ssl);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    X509 *wanted = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    bool is_same = X509_cmp(served, wanted) == 0;
    X509_free(served);
    X509_free(wanted);
    http_kit_tls_drop(ssl);
    return is_same;
}

/* A reload is for new handshakes only, and a bad one changes nothing. */
static void test_reload(void **state)
{
    (void)state;
    static char answer[4096];
    const char *request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct http_kit_tls one, two;
    http_kit_tls_start(&one);
    http_kit_tls_start(&two);
    char cert[128], key[128], kept_cert[128], next_cert[128], next_key[128];
    http_kit_tls_file(&one, "server.crt", cert);
    http_kit_tls_file(&one, "server.key", key);
    http_kit_tls_file(&one, "kept.crt", kept_cert);
    http_kit_tls_file(&two, "server.crt", next_cert);
    http_kit_tls_file(&two, "server.key", next_key);
    copy_file(cert, kept_cert);
    struct http_kit kit = {.tls = one.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    SSL *old = http_kit_tls_connect(&one, &kit, false);
    assert_non_null(old);

    copy_file(next_cert, cert); /* the old key does not fit */
    assert_int_not_equal(reload_on_loop(&kit, one.server), STATUS_OK);
    assert_true(is_served(&one, &kit, kept_cert));
    unlink(cert);
    assert_int_equal(reload_on_loop(&kit, one.server), STATUS_IO);
    assert_true(is_served(&one, &kit, kept_cert));
    copy_file(next_cert, cert);
    copy_file(next_key, key);
    assert_int_equal(reload_on_loop(&kit, one.server), STATUS_OK);
    assert_true(is_served(&one, &kit, next_cert));

    http_kit_tls_send(old, request, strlen(request)); /* made before, goes on */
    http_kit_tls_read(old, answer, sizeof(answer), "{}");
    http_kit_tls_drop(old);
    unlink(kept_cert);
    http_kit_stop(&kit);
    http_kit_tls_stop(&one);
    http_kit_tls_stop(&two);
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

struct count {
    struct listener *listener;
    _Atomic int connections; /* -1: not looked yet */
};

static void count_call(void *context)
{
    struct count *count = context;
    atomic_store(&count->connections, (int)listener_connections(count->listener));
}

/* libh2o makes the SSL when the first byte comes: the context must still be there then. */
static void test_reload_before_the_first_byte(void **state)
{
    (void)state;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    struct http_kit kit = {.tls = tls.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    int fd = http_kit_connect(&kit);
    for (int i = 0; i < 3000; i++) { /* until it is accepted */
        struct count count = {.listener = kit.listener, .connections = -1};
        loop_post(kit.loop, count_call, &count);
        while (atomic_load(&count.connections) < 0)
            usleep(1000);
        if (atomic_load(&count.connections) > 0)
            break;
        usleep(10000);
    }
    assert_int_equal(reload_on_loop(&kit, tls.server), STATUS_OK);
    assert_int_equal(reload_on_loop(&kit, tls.server), STATUS_OK);
    SSL *ssl = SSL_new(tls.client);
    SSL_set_fd(ssl, fd);
    SSL_set1_host(ssl, "localhost");
    assert_int_equal(SSL_connect(ssl), 1);
    http_kit_tls_drop(ssl);
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_alpn),
        cmocka_unit_test(test_sessions_do_not_resume),
        cmocka_unit_test(test_suites),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_reload_before_the_first_byte),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_encrypted_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
