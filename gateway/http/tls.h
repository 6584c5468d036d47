/* tls: server contexts of OpenSSL, and the self-made authority for machines without a certificate.
 *
 * Owns:     SSL_CTX of one listener; TLS 1.2 and 1.3 only, forward-secret suites, no early data, no
 *           renegotiation, no resumption, ALPN h2 and http/1.1.
 * Thread:   made at start, reloaded on its listener's thread.
 * Cost:     reads two files when made and when reloaded, two more where clients are asked for
 *           certificates.
 * Not here: keys of clients (auth), what makes a client's certificate right (tls_client).
 */
#pragma once

#include "gateway/http/tls_client.h"

struct tls_context;

/* `session_name` sets the session-id context, so that a session of one listener never resumes on
 * another. IO or CORRUPT names the file that cannot be used. */
enum status tls_context_open(struct tls_context **out, const char *cert_path, const char *key_path,
                             const char *session_name);
void tls_context_close(struct tls_context *tls);
/* From now on clients are asked for a certificate (tls_client.h). As tls_context_open fails, and
 * stays as it is then. */
struct tls_clients {
    const char *ca_path;
    const char *crl_path; /* "": no revocation lists */
    bool is_required;     /* of every client; else whoever shows one must show a right one */
};
enum status tls_context_ask_clients(struct tls_context *tls, const struct tls_clients *clients);

/* Reads all files again, for handshakes that begin from then on, and for certificates of clients on
 * connections that are there: these keep everything else. When a file cannot be used, or two do
 * not fit, everything stays as it is. In two steps, so that several contexts change together or
 * not at all: what tls_context_read has read counts from tls_context_take on, which cannot fail. */
enum status tls_context_reload(struct tls_context *tls);
enum status tls_context_read(struct tls_context *tls);
void tls_context_take(struct tls_context *tls);
/* OpenSSL's context for one handshake, for listener alone: libh2o takes no reference of its own
 * before the client's first byte, and a reload may come before that. Give it back. */
struct ssl_ctx_st *tls_context_hold(struct tls_context *tls);
void tls_context_drop(struct ssl_ctx_st *ssl);
/* For listener alone: who hears of certificates; set before the first handshake. */
void tls_context_hook(struct tls_context *tls, struct tls_client_hook hook);
bool tls_context_asks_clients(const struct tls_context *tls); /* for certificates */
bool tls_context_is_required(const struct tls_context *tls);  /* one of every client */
/* What is wrong with a connection whose client has shown `client` (NULL: nothing) at this time. */
enum tls_client_reason tls_context_judge(const struct tls_context *tls, struct tls_client *client,
                                         int64_t now_s);

/* Answers OpenSSL, server or client, that there is no password of an encrypted key: without it the
 * terminal is asked, and the start hangs. */
int tls_no_password(char *out, int capacity, int is_writing, void *context);

/* Makes DIR/ca.crt, DIR/ca.key, DIR/server.crt, DIR/server.key (0600 for keys; EC P-256; names
 * localhost, 127.0.0.1, ::1 and this host's) unless they are there and valid for a day more. */
enum status tls_make_self_signed(const char *directory);
