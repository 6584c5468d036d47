/* tls: TLS settings and certificate of a listener; a local authority for machines without one.
 *
 * Owns:     OpenSSL's SSL_CTX: TLS 1.2 and 1.3 only, forward-secret suites, no early data, no
 *           renegotiation, no resumption, ALPN h2 and http/1.1.
 * Thread:   made at start, then used on its listener's thread.
 * Cost:     reads two files at the start and at a reload, and up to two more when clients are asked
 *           for certificates.
 * Not here: keys of clients (auth), the check of a client's certificate (tls_client).
 */
#pragma once

#include "gateway/http/tls_client.h"

struct tls_context;

/* Reads the certificate chain and its key (PEM). `session_name` is the session-id context, so that
 * a session of one listener never resumes on another; at most 32 bytes. IO or CORRUPT with the name
 * of the file that cannot be used; NO_MEMORY; UNSUPPORTED when OpenSSL lacks a suite or curve. */
enum status tls_context_open(struct tls_context **out, const char *cert_path, const char *key_path,
                             const char *session_name);
/* Not while a listener uses it. NULL is allowed. */
void tls_context_close(struct tls_context *tls);
struct tls_clients {
    const char *ca_path;
    const char *crl_path; /* "" = no revocation lists */
    bool is_required;     /* every client must send one; else a client may send none */
};
/* Asks clients for a certificate from now on (tls_client.h). Call it at most once. Fails as
 * tls_context_open does, and changes nothing then. */
enum status tls_context_ask_clients(struct tls_context *tls, const struct tls_clients *clients);

/* Reads all files again. The new ones apply to later handshakes, and to client certificates also on
 * open connections. When a file cannot be used, or key and certificate do not match, nothing
 * changes; errors are those of tls_context_open. In two steps, so that several contexts change
 * together or not at all: tls_context_take, which cannot fail, puts into use what tls_context_read
 * has read. */
enum status tls_context_reload(struct tls_context *tls);
enum status tls_context_read(struct tls_context *tls);
void tls_context_take(struct tls_context *tls);
/* For listener only: a reference to OpenSSL's context for one handshake, because libh2o takes none
 * before the client's first byte, and a reload may come before. tls_context_drop ends it. */
struct ssl_ctx_st *tls_context_hold(struct tls_context *tls);
void tls_context_drop(struct ssl_ctx_st *ssl);
/* For listener only: the functions for certificates and records; set before the first handshake. */
void tls_context_hook(struct tls_context *tls, struct tls_client_hook hook);
bool tls_context_asks_clients(const struct tls_context *tls); /* for a certificate */
bool tls_context_is_required(const struct tls_context *tls);  /* every client must send one */
/* Says what is wrong with the client's certificate at this time (Unix seconds), or
 * TLS_CLIENT_FINE. `client` NULL = it sent none. */
enum tls_client_reason tls_context_judge(const struct tls_context *tls, struct tls_client *client,
                                         int64_t now_s);

/* OpenSSL's callback for the password of an encrypted key: there is none. Without it OpenSSL asks
 * at the terminal, and the process hangs. */
int tls_no_password(char *out, int capacity, int is_writing, void *context);

/* Makes a local authority and a server certificate in `directory`, which is made too: ca.crt,
 * ca.key, server.crt, server.key (EC P-256; keys with mode 0600; names localhost, 127.0.0.1, ::1
 * and the host's), unless all four are there and valid for another day. INVALID for a long name,
 * IO, NO_MEMORY. */
enum status tls_make_self_signed(const char *directory);
