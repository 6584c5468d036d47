/* tls_client: certificates that are right, and each that is not refused for its own reason; the
 * names in them; authorities and lists that are read again; over a real listener, HTTP/1.1 and
 * HTTP/2, TLS 1.2 and 1.3. */
#include "gateway/http/tls_client.h"

#include "config/base/metrics.h"
#include "http_kit_tls.h"
#include "tls_client_kit.h"

struct fixture {
    char folder[64];
    char ca[96];
    char crl[96];
    struct kit_cert root;
    struct tls_client_trust *authorities;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    kit_folder_make(f->folder);
    snprintf(f->ca, sizeof f->ca, "%s/ca.pem", f->folder);
    snprintf(f->crl, sizeof f->crl, "%s/crl.pem", f->folder);
    f->root = kit_cert_root("root");
    kit_cert_write(f->ca, &f->root, 1);
    assert_int_equal(tls_client_trust_open(&f->authorities, f->ca, ""), STATUS_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    tls_client_trust_close(f->authorities);
    kit_cert_free(&f->root);
    kit_folder_remove(f->folder);
    free(f);
    return 0;
}

/* With `above` on the way; frees both but the fixture's. */
static void judged(struct fixture *f, struct kit_cert cert, struct kit_cert *above, size_t count,
                   enum tls_client_reason reason)
{
    STACK_OF(X509) *chain = sk_X509_new_null();
    for (size_t i = 0; i < count; i++)
        sk_X509_push(chain, above[i].x509);
    struct tls_client *client = tls_client_open(cert.x509, chain);
    assert_non_null(client);
    assert_string_equal(tls_client_word(tls_client_judge(client, f->authorities, time(NULL))),
                        tls_client_word(reason));
    assert_int_equal(tls_client_reason(client), reason);
    tls_client_close(client);
    sk_X509_free(chain);
    kit_cert_free(&cert);
}

static void judged_spec(struct fixture *f, struct kit_spec spec, enum tls_client_reason reason)
{
    spec.name = "client";
    spec.issuer = &f->root;
    judged(f, kit_cert_make(&spec), NULL, 0, reason);
}

static void test_each_for_its_own_reason(void **state)
{
    struct fixture *f = *state;
    struct kit_cert other = kit_cert_root("other");
    struct kit_cert twin = kit_cert_root("root"); /* the name, and another key */
    judged_spec(f, (struct kit_spec){.names = "URI:urn:x"}, TLS_CLIENT_FINE);
    judged_spec(f, (struct kit_spec){.purpose = ""}, TLS_CLIENT_FINE);
    judged_spec(f, (struct kit_spec){.purpose = "serverAuth,clientAuth"}, TLS_CLIENT_FINE);
    judged_spec(f, (struct kit_spec){.rsa_bits = 2048}, TLS_CLIENT_FINE);
    judged_spec(f, (struct kit_spec){.until_s = -60}, TLS_CLIENT_EXPIRED);
    judged_spec(f, (struct kit_spec){.from_s = 3600}, TLS_CLIENT_EARLY);
    judged_spec(f, (struct kit_spec){.purpose = "serverAuth"}, TLS_CLIENT_PURPOSE);
    judged_spec(f, (struct kit_spec){.rsa_bits = 1024}, TLS_CLIENT_WEAK);
    judged_spec(f, (struct kit_spec){.is_sha1 = true}, TLS_CLIENT_WEAK);
    judged_spec(f, (struct kit_spec){.constraints = "critical,CA:TRUE"}, TLS_CLIENT_AUTHORITY);
    judged(f, kit_cert_make(&(struct kit_spec){.name = "self"}), NULL, 0, TLS_CLIENT_SELF_SIGNED);
    judged(f, kit_cert_make(&(struct kit_spec){.name = "client", .issuer = &other}), NULL, 0,
           TLS_CLIENT_STRANGER);
    judged(f, kit_cert_make(&(struct kit_spec){.name = "client", .issuer = &other}), &other, 1,
           TLS_CLIENT_STRANGER); /* that it sends its root along does not help */
    judged(f, kit_cert_make(&(struct kit_spec){.name = "client", .issuer = &twin}), &twin, 1,
           TLS_CLIENT_SIGNATURE);
    X509_up_ref(f->root.x509);
    EVP_PKEY_up_ref(f->root.key);
    judged(f, f->root, NULL, 0, TLS_CLIENT_AUTHORITY);
    kit_cert_free(&other);
    kit_cert_free(&twin);
}

static void test_chains(void **state)
{
    enum { LONGEST = LIMIT_CLIENT_CHAIN + 1 };
    struct fixture *f = *state;
    struct kit_cert above[LONGEST];
    const struct kit_cert *issuer = &f->root;
    for (size_t i = 0; i < LONGEST; i++) {
        char name[16];
        snprintf(name, sizeof name, "above %zu", i);
        above[i] = kit_cert_make(
            &(struct kit_spec){.name = name, .issuer = issuer, .constraints = "critical,CA:TRUE"});
        issuer = &above[i];
        struct kit_spec spec = {.name = "client", .issuer = issuer};
        judged(f, kit_cert_make(&spec), above, i + 1,
               i < LIMIT_CLIENT_CHAIN ? TLS_CLIENT_FINE : TLS_CLIENT_CHAIN);
        judged(f, kit_cert_make(&spec), above, i, TLS_CLIENT_STRANGER); /* one is missing */
    }
    /* An authority that may have none below it; a plain certificate that signs; one that is old. */
    struct kit_cert last = kit_cert_make(&(struct kit_spec){
        .name = "last", .issuer = &f->root, .constraints = "critical,CA:TRUE,pathlen:0"});
    struct kit_cert below[2] = {
        last, kit_cert_make(&(struct kit_spec){
                  .name = "below", .issuer = &last, .constraints = "critical,CA:TRUE"})};
    judged(f, kit_cert_make(&(struct kit_spec){.name = "client", .issuer = &below[1]}), below, 2,
           TLS_CLIENT_CHAIN);
    struct kit_cert plain = kit_cert_make(&(struct kit_spec){.name = "plain", .issuer = &f->root});
    judged(f, kit_cert_make(&(struct kit_spec){.name = "client", .issuer = &plain}), &plain, 1,
           TLS_CLIENT_STRANGER);
    struct kit_cert over = kit_cert_make(&(struct kit_spec){
        .name = "over", .issuer = &f->root, .constraints = "critical,CA:TRUE", .until_s = -60});
    judged(f, kit_cert_make(&(struct kit_spec){.name = "client", .issuer = &over}), &over, 1,
           TLS_CLIENT_EXPIRED);
    for (size_t i = 0; i < LONGEST; i++)
        kit_cert_free(&above[i]);
    kit_cert_free(&below[0]);
    kit_cert_free(&below[1]);
    kit_cert_free(&plain);
    kit_cert_free(&over);
}

/* The client of a certificate with these names, judged; takes `raw`. */
static struct tls_client *named(struct fixture *f, const char *names, GENERAL_NAMES *raw)
{
    struct kit_cert cert = kit_cert_make(
        &(struct kit_spec){.name = "client", .issuer = &f->root, .names = names, .raw = raw});
    struct tls_client *client = tls_client_open(cert.x509, NULL);
    assert_non_null(client);
    (void)tls_client_judge(client, f->authorities, time(NULL));
    kit_cert_free(&cert);
    GENERAL_NAMES_free(raw);
    return client;
}

static void test_names(void **state)
{
    struct fixture *f = *state;
    struct tls_client *client =
        named(f,
              "URI:spiffe://example.org/A,DNS:Agent.EXAMPLE.org,DNS:*.example.org,DNS:*,"
              "IP:127.0.0.1,email:a@example.org,URI:urn:b",
              NULL);
    const struct peer_certificate *peer = tls_client_peer(client);
    assert_int_equal(tls_client_reason(client), TLS_CLIENT_FINE);
    assert_int_equal(peer->name_count, 3);
    assert_int_equal(peer->names[0].kind, PEER_NAME_URI);
    assert_true(slice_is(peer->names[0].text, "spiffe://example.org/A"));
    assert_int_equal(peer->names[1].kind, PEER_NAME_DNS);
    assert_true(slice_is(peer->names[1].text, "agent.example.org"));
    assert_true(slice_is(peer->names[2].text, "urn:b"));
    tls_client_close(client);
    static const struct {
        int type;
        const char *bytes;
        int length;
        enum tls_client_reason reason;
        size_t count;
    } rows[] = {
        {GEN_URI, "urn:a\0.evil", 11, TLS_CLIENT_NAME, 0},
        {GEN_DNS, "a.example\0.evil.example", 23, TLS_CLIENT_NAME, 0},
        {GEN_DNS, "*\0", 2, TLS_CLIENT_NAME, 0},
        {GEN_DNS, "\0", 1, TLS_CLIENT_NAME, 0},
        {GEN_URI, "urn:a b", 7, TLS_CLIENT_NAME, 0},
        {GEN_URI, "urn:\xc3\xa4", 6, TLS_CLIENT_NAME, 0},
        {GEN_URI, "urn:\n", 5, TLS_CLIENT_NAME, 0},
        {GEN_URI, "", 0, TLS_CLIENT_FINE, 0},
        {GEN_EMAIL, "a\0b", 3, TLS_CLIENT_FINE, 0}, /* not looked at */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        GENERAL_NAMES *raw = NULL;
        kit_cert_name(&raw, rows[i].type, rows[i].bytes, rows[i].length);
        client = named(f, NULL, raw);
        if (tls_client_reason(client) != rows[i].reason)
            fail_msg("row %zu: %s", i, tls_client_word(tls_client_reason(client)));
        assert_int_equal(tls_client_peer(client)->name_count, rows[i].count);
        tls_client_close(client);
    }
    /* The longest, and one byte more; as many as may be, and one more; the extension twice. */
    char text[LIMIT_PEER_NAME_BYTES];
    memset(text, 'a', sizeof text);
    for (int more = 0; more < 2; more++) {
        GENERAL_NAMES *raw = NULL;
        kit_cert_name(&raw, GEN_URI, text, LIMIT_PEER_NAME_BYTES - 1 + more);
        client = named(f, NULL, raw);
        assert_int_equal(tls_client_reason(client), TLS_CLIENT_FINE);
        assert_int_equal(tls_client_peer(client)->name_count, 1 - more);
        tls_client_close(client);
        raw = NULL;
        for (int i = 0; i < LIMIT_PEER_NAMES + more; i++)
            kit_cert_name(&raw, GEN_DNS, text, LIMIT_PEER_NAME_BYTES - 1 - i);
        client = named(f, NULL, raw);
        assert_int_equal(tls_client_reason(client), more ? TLS_CLIENT_NAMES : TLS_CLIENT_FINE);
        assert_int_equal(tls_client_peer(client)->name_count, more ? 0 : LIMIT_PEER_NAMES);
        tls_client_close(client);
    }
    GENERAL_NAMES *raw = NULL;
    kit_cert_name(&raw, GEN_URI, "urn:b", 5);
    client = named(f, "URI:urn:a", raw);
    assert_int_equal(tls_client_reason(client), TLS_CLIENT_OTHER);
    assert_int_equal(tls_client_peer(client)->name_count, 0);
    tls_client_close(client);
}

static void test_time_and_readings(void **state)
{
    struct fixture *f = *state;
    struct kit_cert cert =
        kit_cert_make(&(struct kit_spec){.name = "client", .issuer = &f->root, .until_s = 1000});
    struct kit_cert other = kit_cert_root("other");
    struct tls_client_trust *lists, *strangers;
    struct tls_client *client = tls_client_open(cert.x509, NULL);
    time_t now = time(NULL);
    assert_int_equal(tls_client_reason(client), TLS_CLIENT_OTHER); /* nobody has judged yet */
    assert_int_equal(tls_client_judge(client, f->authorities, now), TLS_CLIENT_FINE);
    assert_int_equal(tls_client_judge(client, f->authorities, now + 900), TLS_CLIENT_FINE);
    assert_int_equal(tls_client_judge(client, f->authorities, now + 1100), TLS_CLIENT_EXPIRED);
    tls_client_close(client);
    client = tls_client_open(cert.x509, NULL);
    assert_int_equal(tls_client_judge(client, f->authorities, now), TLS_CLIENT_FINE);
    kit_cert_write(f->ca, &other, 1);
    assert_int_equal(tls_client_trust_open(&strangers, f->ca, ""), STATUS_OK);
    assert_int_equal(tls_client_judge(client, strangers, now), TLS_CLIENT_STRANGER);
    assert_int_equal(tls_client_judge(client, f->authorities, now), TLS_CLIENT_FINE);
    tls_client_trust_close(strangers);
    /* Lists: empty, this one's, over, of another authority alone, none that can be read. */
    const struct {
        const struct kit_cert *issuer;
        const struct kit_cert *revoked;
        bool is_old;
        enum tls_client_reason reason;
    } rows[] = {{&f->root, NULL, false, TLS_CLIENT_FINE},
                {&f->root, &other, false, TLS_CLIENT_FINE},
                {&f->root, &cert, false, TLS_CLIENT_REVOKED},
                {&f->root, NULL, true, TLS_CLIENT_LIST_OLD},
                {&other, NULL, false, TLS_CLIENT_LIST_MISSING}};
    kit_cert_write(f->ca, &f->root, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kit_cert_write_list(f->crl, rows[i].issuer, rows[i].revoked, rows[i].is_old);
        assert_int_equal(tls_client_trust_open(&lists, f->ca, f->crl), STATUS_OK);
        assert_string_equal(tls_client_word(tls_client_judge(client, lists, now)),
                            tls_client_word(rows[i].reason));
        tls_client_trust_close(lists);
    }
    tls_client_close(client);
    assert_int_equal(tls_client_trust_open(&lists, f->ca, "/nowhere.pem"), STATUS_IO);
    assert_null(lists);
    assert_non_null(strstr(status_note()->message, "/nowhere.pem"));
    assert_int_equal(tls_client_trust_open(&lists, "/nowhere.pem", ""), STATUS_IO);
    assert_int_equal(tls_client_trust_open(&lists, f->ca, f->ca), STATUS_IO); /* no list in it */
    kit_cert_free(&cert);
    kit_cert_free(&other);
}

/* --- over a listener --- */

static const char request[] = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/* Answers how many names the peer has, or "none". */
static void handle(struct http_request *http, void *context)
{
    char text[32];
    bool is_required;
    const struct peer_certificate *peer = http_peer_certificate(http, &is_required);
    (void)context;
    snprintf(text, sizeof text, peer != NULL ? "{\"names\":%zu}" : "{\"none\":%zu}",
             peer != NULL ? peer->name_count : (size_t)is_required);
    http_respond_json(http, 200, slice_of(text));
}

struct server {
    struct http_kit_tls tls;
    struct http_kit kit;
    struct metrics *metrics;
};

static void server_start(struct server *server, struct fixture *f, bool is_required, bool has_list)
{
    const struct tls_clients clients = {
        .ca_path = f->ca, .crl_path = has_list ? f->crl : "", .is_required = is_required};
    http_kit_tls_start(&server->tls);
    assert_int_equal(tls_context_ask_clients(server->tls.server, &clients), STATUS_OK);
    assert_int_equal(metrics_create(&server->metrics), STATUS_OK);
    server->kit = (struct http_kit){.tls = server->tls.server};
    http_kit_start(&server->kit, false,
                   (struct listener_options){.handler = handle, .metrics = server->metrics});
}

static void server_stop(struct server *server)
{
    http_kit_stop(&server->kit);
    http_kit_tls_stop(&server->tls);
    metrics_destroy(server->metrics);
}

/* `cert` NULL: none is sent. */
static SSL *server_connect(struct server *server, const struct kit_cert *cert, bool is_h2)
{
    SSL_CTX *context = server->tls.client;
    SSL_CTX_free(context);
    server->tls.client = SSL_CTX_new(TLS_client_method());
    char ca[128];
    http_kit_tls_file(&server->tls, "ca.crt", ca);
    SSL_CTX_load_verify_locations(server->tls.client, ca, NULL);
    SSL_CTX_set_security_level(server->tls.client, 0);
    if (cert != NULL) {
        assert_int_equal(SSL_CTX_use_certificate(server->tls.client, cert->x509), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey(server->tls.client, cert->key), 1);
    }
    SSL *ssl = http_kit_tls_connect(&server->tls, &server->kit, is_h2);
    assert_non_null(ssl);
    return ssl;
}

static void asks(SSL *ssl, const char *tail, const char *word)
{
    char answer[2048];
    http_kit_tls_send(ssl, request, sizeof request - 1);
    http_kit_tls_read(ssl, answer, sizeof answer, tail);
    assert_non_null(strstr(answer, word));
}

static double counted(const struct server *server, const char *name, const char *labels)
{
    return metric_value(metrics_get(server->metrics, METRIC_COUNTER, name, "", labels, NULL, 0));
}

static void test_listener(void **state)
{
    struct fixture *f = *state;
    struct kit_cert good = kit_cert_make(
        &(struct kit_spec){.name = "client", .issuer = &f->root, .names = "URI:urn:a,DNS:b"});
    struct kit_cert old =
        kit_cert_make(&(struct kit_spec){.name = "old", .issuer = &f->root, .until_s = -60});
    for (int is_required = 0; is_required < 2; is_required++) {
        struct server server;
        server_start(&server, f, is_required, false);
        SSL *ssl = server_connect(&server, &good, false);
        asks(ssl, "{\"names\":2}", "200");
        asks(ssl, "{\"names\":2}", "200");
        http_kit_tls_drop(ssl);
        ssl = server_connect(&server, &old, false);
        asks(ssl, NULL, "401 ");
        http_kit_tls_drop(ssl);
        ssl = server_connect(&server, NULL, false);
        asks(ssl, is_required ? NULL : "{\"none\":0}",
             is_required ? "\"code\":\"invalid_client_certificate\"" : "200");
        http_kit_tls_drop(ssl);
        assert_true(counted(&server, "banyan_client_certificates_total", "listener=\"test\"") == 1);
        assert_true(counted(&server, "banyan_client_certificates_refused_total",
                            "listener=\"test\",why=\"expired\"") == 1);
        assert_true(counted(&server, "banyan_client_certificates_refused_total",
                            "listener=\"test\",why=\"missing\"") == is_required);
        server_stop(&server);
    }
    kit_cert_free(&good);
    kit_cert_free(&old);
}

struct reload {
    struct tls_context *tls;
    enum status status;
    _Atomic int is_done;
};

static void reload_call(void *context)
{
    struct reload *reload = context;
    reload->status = tls_context_reload(reload->tls);
    atomic_store(&reload->is_done, 1);
}

static enum status reload_now(struct server *server)
{
    struct reload reload = {.tls = server->tls.server};
    loop_post(server->kit.loop, reload_call, &reload);
    for (int i = 0; i < 3000 && !atomic_load(&reload.is_done); i++)
        usleep(10000);
    assert_int_equal(atomic_load(&reload.is_done), 1);
    return reload.status;
}

/* A list that is read again counts for connections that are there; so does one that takes it back;
 * a file that cannot be read changes nothing. */
static void test_revoked_while_connected(void **state)
{
    struct fixture *f = *state;
    struct server server;
    struct kit_cert one = kit_cert_make(&(struct kit_spec){.name = "one", .issuer = &f->root});
    struct kit_cert two = kit_cert_make(&(struct kit_spec){.name = "two", .issuer = &f->root});
    kit_cert_write_list(f->crl, &f->root, NULL, false);
    server_start(&server, f, true, true);
    SSL *first = server_connect(&server, &one, false);
    SSL *second = server_connect(&server, &two, false);
    asks(first, "{\"names\":0}", "200");
    asks(second, "{\"names\":0}", "200");
    kit_cert_write_list(f->crl, &f->root, &one, false);
    asks(first, "{\"names\":0}", "200"); /* not read yet */
    assert_int_equal(reload_now(&server), STATUS_OK);
    asks(second, "{\"names\":0}", "200");
    asks(first, NULL, "revoked by its authority");
    assert_true(counted(&server, "banyan_client_certificates_refused_total",
                        "listener=\"test\",why=\"revoked\"") == 1);
    unlink(f->crl);
    assert_int_equal(reload_now(&server), STATUS_IO);
    asks(second, "{\"names\":0}", "200");
    http_kit_tls_drop(first);
    http_kit_tls_drop(second);
    server_stop(&server);
    kit_cert_free(&one);
    kit_cert_free(&two);
}

/* The identity is the connection's: all of its streams have it. */
static void test_http2(void **state)
{
    struct fixture *f = *state;
    struct server server;
    struct kit_cert cert =
        kit_cert_make(&(struct kit_spec){.name = "client", .issuer = &f->root, .names = "DNS:a"});
    server_start(&server, f, true, false);
    for (int is_shown = 0; is_shown < 2; is_shown++) {
        SSL *ssl = server_connect(&server, is_shown ? &cert : NULL, true);
        struct buffer out;
        buffer_init(&out, 1 << 16);
        http_kit_h2_preface(&out);
        for (uint32_t stream = 1; stream < 8; stream += 2)
            http_kit_h2_request(&out, stream, "GET", "/", NULL, true);
        http_kit_tls_send(ssl, out.bytes, out.length);
        buffer_deinit(&out);
        static struct http_kit_h2_frame frame;
        for (int answers = 0; answers < 4;) {
            assert_true(http_kit_h2_read(ssl, &frame));
            if (frame.type != H2_DATA || frame.length == 0)
                continue;
            frame.payload[frame.length < sizeof frame.payload ? frame.length : 0] = '\0';
            assert_non_null(strstr((const char *)frame.payload,
                                   is_shown ? "{\"names\":1}" : "invalid_client_certificate"));
            answers++;
        }
        http_kit_tls_drop(ssl);
    }
    server_stop(&server);
    kit_cert_free(&cert);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_each_for_its_own_reason),
        WITH_FIXTURE(test_chains),
        WITH_FIXTURE(test_names),
        WITH_FIXTURE(test_time_and_readings),
        WITH_FIXTURE(test_listener),
        WITH_FIXTURE(test_revoked_while_connected),
        WITH_FIXTURE(test_http2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
