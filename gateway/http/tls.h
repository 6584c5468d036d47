/* tls: server contexts of OpenSSL, and the self-made authority for machines without a certificate.
 *
 * Owns:     SSL_CTX of one listener; TLS 1.2 and 1.3 only, forward-secret suites, no early data, no
 *           renegotiation, no resumption, ALPN h2 and http/1.1.
 * Thread:   made at start, reloaded on its listener's thread.
 * Cost:     reads two files when made and when reloaded.
 * Not here: keys of clients (auth).
 */
#pragma once

#include "config/base/status.h"

struct tls_context;

/* `session_name` sets the session-id context, so that a session of one listener never resumes on
 * another. IO or CORRUPT names the file that cannot be used. */
enum status tls_context_open(struct tls_context **out, const char *cert_path, const char *key_path,
                             const char *session_name);
void tls_context_close(struct tls_context *tls);
/* Reads both files again, for handshakes that begin from then on; connections keep what they have.
 * When a file cannot be used, or the two do not fit, everything stays as it is. */
enum status tls_context_reload(struct tls_context *tls);
/* OpenSSL's context, for listener alone; borrowed until the next reload. */
struct ssl_ctx_st *tls_context_ssl(struct tls_context *tls);

/* Makes DIR/ca.crt, DIR/ca.key, DIR/server.crt, DIR/server.key (0600 for keys; EC P-256; names
 * localhost, 127.0.0.1, ::1 and this host's) unless they are there and valid for a day more. */
enum status tls_make_self_signed(const char *directory);
