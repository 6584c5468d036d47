#include "gateway/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "config/base/mem.h"

struct tls_context {
    SSL_CTX *ssl;
};

/* Without it OpenSSL asks the terminal for an encrypted key's words, and the start hangs. */
static int open_no_password(char *out, int capacity, int is_writing, void *context)
{
    (void)out;
    (void)capacity;
    (void)is_writing;
    (void)context;
    return -1;
}

static enum status open_files(SSL_CTX *ssl, const char *cert_path, const char *key_path)
{
    if (SSL_CTX_use_certificate_chain_file(ssl, cert_path) != 1)
        FAIL(STATUS_IO, "the certificate file %s cannot be used (%s)", cert_path,
             ERR_reason_error_string(ERR_peek_last_error()));
    if (SSL_CTX_use_PrivateKey_file(ssl, key_path, SSL_FILETYPE_PEM) != 1)
        FAIL(STATUS_IO, "the key file %s cannot be used (%s)", key_path,
             ERR_reason_error_string(ERR_peek_last_error()));
    if (SSL_CTX_check_private_key(ssl) != 1)
        FAIL(STATUS_CORRUPT, "the key in %s does not belong to the certificate in %s", key_path,
             cert_path);
    return STATUS_OK;
}

enum status tls_context_open(struct tls_context **out, const char *cert_path, const char *key_path,
                             const char *session_name)
{
    struct tls_context *tls = mem_zalloc(1, sizeof(*tls));
    if (tls == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a TLS context");
    ERR_clear_error();
    tls->ssl = SSL_CTX_new(TLS_server_method());
    enum status status = STATUS_OK;
    if (tls->ssl == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for a TLS context");
    SSL_CTX_set_min_proto_version(tls->ssl, TLS1_2_VERSION);
    SSL_CTX_set_max_early_data(tls->ssl, 0);
    SSL_CTX_set_options(tls->ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                      SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* Idle streams keep no record buffers: 10 KB less a connection. */
    SSL_CTX_set_mode(tls->ssl, SSL_MODE_RELEASE_BUFFERS);
    /* Sessions resume by tickets alone: a cache would grow with every stranger's handshake. */
    SSL_CTX_set_session_cache_mode(tls->ssl, SSL_SESS_CACHE_OFF);
    size_t name_length = strlen(session_name);
    ASSERT(name_length <= SSL_MAX_SID_CTX_LENGTH);
    SSL_CTX_set_session_id_context(tls->ssl, (const unsigned char *)session_name,
                                   (unsigned)name_length);
    SSL_CTX_set_default_passwd_cb(tls->ssl, open_no_password);
    TRY_OUT(open_files(tls->ssl, cert_path, key_path));
    *out = tls;
    return STATUS_OK;
out:
    tls_context_close(tls);
    ERR_clear_error();
    return status;
}

void tls_context_close(struct tls_context *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->ssl);
    mem_free(tls);
}

struct ssl_ctx_st *tls_context_ssl(struct tls_context *tls)
{
    return tls->ssl;
}
