#include "gateway/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "config/base/mem.h"

/* What is made of the files when they are read. */
struct tls_reading {
    SSL_CTX *ssl;
    struct tls_client_trust *authorities; /* of clients; NULL = none are asked for a certificate */
};

struct tls_context {
    struct tls_reading now;
    struct tls_reading next; /* read and not yet in use */
    char *cert_path;
    char *key_path;
    char *session_name;
    char *ca_path; /* NULL = clients are not asked for a certificate */
    char *crl_path;
    bool is_required;
    struct tls_client_hook hook;
};

int tls_no_password(char *out, int capacity, int is_writing, void *context)
{
    (void)out;
    (void)capacity;
    (void)is_writing;
    (void)context;
    return -1;
}

static const char *open_cause(void)
{
    unsigned long error = ERR_peek_last_error();
    if (ERR_SYSTEM_ERROR(error))
        return strerror(ERR_GET_REASON(error));
    const char *cause = ERR_reason_error_string(error);
    return cause != NULL ? cause : "no reason given";
}

static enum status open_files(SSL_CTX *ssl, const char *cert_path, const char *key_path)
{
    if (SSL_CTX_use_certificate_chain_file(ssl, cert_path) != 1)
        FAIL(STATUS_IO, "the certificate file %s cannot be used (%s)", cert_path, open_cause());
    if (SSL_CTX_use_PrivateKey_file(ssl, key_path, SSL_FILETYPE_PEM) != 1)
        FAIL(STATUS_IO, "the key file %s cannot be used (%s)", key_path, open_cause());
    if (SSL_CTX_check_private_key(ssl) != 1)
        FAIL(STATUS_CORRUPT, "the key in %s does not belong to the certificate in %s", key_path,
             cert_path);
    return STATUS_OK;
}

/* Chooses the protocol: HTTP/2, else HTTP/1.1, also for a client that offers neither. */
static int open_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                     const unsigned char *offered, unsigned offered_length, void *context)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    (void)ssl;
    (void)context;
    unsigned char *chosen;
    int result =
        SSL_select_next_proto(&chosen, out_length, ours, sizeof(ours) - 1, offered, offered_length);
    *out = chosen;
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

/* Without tickets and a session cache no key outlives a handshake, no session of one listener
 * resumes on another, and handshakes of unknown clients use no memory afterwards. API clients keep
 * their connections and lose little. */
static void open_without_resumption(SSL_CTX *ssl)
{
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(ssl, 0);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
}

/* OpenSSL calls it for each message; for each head of a record that is read, the hook runs. */
static void on_message(int is_written, int version, int type, const void *bytes, size_t length,
                       SSL *ssl, void *argument)
{
    const struct tls_client_hook *hook = argument;
    (void)version;
    (void)bytes;
    (void)length;
    if (!is_written && type == SSL3_RT_HEADER && hook->record != NULL)
        hook->record(BIO_get_data(SSL_get_rbio(ssl)));
}

static enum status open_ssl(SSL_CTX **out, const struct tls_context *tls)
{
    ERR_clear_error();
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    enum status status = STATUS_OK;
    if (ssl == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for a TLS context");
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_max_early_data(ssl, 0);
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    if (SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1 ||
        SSL_CTX_set1_groups_list(ssl, "X25519:P-256:P-384") != 1)
        FAIL_OUT(STATUS_UNSUPPORTED, "OpenSSL lacks a suite or a curve (%s)", open_cause());
    /* An idle connection keeps no record buffers, which would be 10 KB. */
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    open_without_resumption(ssl);
    size_t name_length = strlen(tls->session_name);
    ASSERT(name_length <= SSL_MAX_SID_CTX_LENGTH);
    SSL_CTX_set_session_id_context(ssl, (const unsigned char *)tls->session_name,
                                   (unsigned)name_length);
    SSL_CTX_set_alpn_select_cb(ssl, open_alpn, NULL);
    SSL_CTX_set_default_passwd_cb(ssl, tls_no_password);
    SSL_CTX_set_msg_callback(ssl, on_message);
    SSL_CTX_set_msg_callback_arg(ssl, (void *)(uintptr_t)&tls->hook);
    TRY_OUT(open_files(ssl, tls->cert_path, tls->key_path));
    *out = ssl;
    return STATUS_OK;
out:
    SSL_CTX_free(ssl);
    ERR_clear_error();
    return status;
}

static void reading_free(struct tls_reading *reading)
{
    SSL_CTX_free(reading->ssl); /* connections and handshakes have references of their own */
    tls_client_trust_close(reading->authorities);
    *reading = (struct tls_reading){0};
}

static enum status reading_make(struct tls_reading *out, const struct tls_context *tls)
{
    *out = (struct tls_reading){0};
    TRY(open_ssl(&out->ssl, tls));
    if (tls->ca_path == NULL)
        return STATUS_OK;
    enum status status = tls_client_trust_open(&out->authorities, tls->ca_path, tls->crl_path);
    if (status == STATUS_OK)
        status = tls_client_trust_ask(out->authorities, out->ssl, &tls->hook);
    if (status != STATUS_OK)
        reading_free(out);
    return status;
}

enum status tls_context_open(struct tls_context **out, const char *cert_path, const char *key_path,
                             const char *session_name)
{
    struct tls_context *tls = mem_zalloc(1, sizeof(*tls));
    if (tls == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a TLS context");
    enum status status = STATUS_OK;
    tls->cert_path = mem_strdup(cert_path);
    tls->key_path = mem_strdup(key_path);
    tls->session_name = mem_strdup(session_name);
    if (tls->cert_path == NULL || tls->key_path == NULL || tls->session_name == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for a TLS context");
    TRY_OUT(tls_context_reload(tls));
    *out = tls;
    return STATUS_OK;
out:
    tls_context_close(tls);
    return status;
}

enum status tls_context_read(struct tls_context *tls)
{
    reading_free(&tls->next);
    return reading_make(&tls->next, tls);
}

void tls_context_take(struct tls_context *tls)
{
    ASSERT(tls->next.ssl != NULL);
    reading_free(&tls->now);
    tls->now = tls->next;
    tls->next = (struct tls_reading){0};
}

enum status tls_context_reload(struct tls_context *tls)
{
    TRY(tls_context_read(tls));
    tls_context_take(tls);
    return STATUS_OK;
}

enum status tls_context_ask_clients(struct tls_context *tls, const struct tls_clients *clients)
{
    ASSERT(tls->ca_path == NULL);
    tls->ca_path = mem_strdup(clients->ca_path);
    tls->crl_path = mem_strdup(clients->crl_path);
    enum status status = STATUS_OK;
    if (tls->ca_path == NULL || tls->crl_path == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for a TLS context");
    TRY_OUT(tls_context_reload(tls));
    tls->is_required = clients->is_required;
    return STATUS_OK;
out:
    mem_free(tls->ca_path);
    mem_free(tls->crl_path);
    tls->ca_path = NULL;
    tls->crl_path = NULL;
    return status;
}

void tls_context_close(struct tls_context *tls)
{
    if (tls == NULL)
        return;
    reading_free(&tls->now);
    reading_free(&tls->next);
    mem_free(tls->cert_path);
    mem_free(tls->key_path);
    mem_free(tls->session_name);
    mem_free(tls->ca_path);
    mem_free(tls->crl_path);
    mem_free(tls);
}

struct ssl_ctx_st *tls_context_hold(struct tls_context *tls)
{
    SSL_CTX_up_ref(tls->now.ssl);
    return tls->now.ssl;
}

void tls_context_drop(struct ssl_ctx_st *ssl)
{
    SSL_CTX_free(ssl);
}

void tls_context_hook(struct tls_context *tls, struct tls_client_hook hook)
{
    tls->hook = hook;
}

bool tls_context_asks_clients(const struct tls_context *tls)
{
    return tls->ca_path != NULL;
}

bool tls_context_is_required(const struct tls_context *tls)
{
    return tls->is_required;
}

enum tls_client_reason tls_context_judge(const struct tls_context *tls, struct tls_client *client,
                                         int64_t now_s)
{
    if (client == NULL || tls->now.authorities == NULL)
        return tls->is_required ? TLS_CLIENT_MISSING : TLS_CLIENT_FINE;
    return tls_client_judge(client, tls->now.authorities, now_s);
}
