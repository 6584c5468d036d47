/* tls_client: checks clients' certificates and reads the names in them.
 *
 *   handshake ─ chain as sent ─► client ─ checked against the authorities ─► FINE, or the reason
 *   request   ─ files read again, or a certificate or list expired? ───────► checked again
 *
 * Owns:     authorities and revocation lists as read; each client's chain (a reference to
 *           OpenSSL's), fingerprint and names.
 * Thread:   the listener's loop.
 * Cost:     a chain of two P-256 keys is checked in some 0.3 ms, once for a connection; a request
 *           costs two comparisons. About 1 KiB for a connection and its certificates, of which
 *           there are at most LIMIT_CLIENT_SHOWN.
 * Not here: which tenant a certificate belongs to (certificate), the proof that the client has its
 *           key (OpenSSL's handshake), answers (request).
 *
 * A handshake with an invalid certificate, or without one, succeeds. The connection's requests are
 * refused before any handler, with the reason: a TLS alert could not give it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/peer_certificate.h"

enum tls_client_reason {
    TLS_CLIENT_FINE,
#define TLS_CLIENT_REASON(name, word, sentence) TLS_CLIENT_##name,
#include "gateway/http/tls_client_reasons.def"
#undef TLS_CLIENT_REASON
    TLS_CLIENT_REASONS,
};
/* For log and metrics. */
const char *tls_client_word(enum tls_client_reason reason);
/* For the answer to the client; "" for FINE. */
const char *tls_client_sentence(enum tls_client_reason reason);

/* --- authorities --- */

struct tls_client_trust;

/* Reads the authorities of a PEM file: roots, and authorities that they signed. With `crl_path` ""
 * there are no revocation lists; else every authority of a chain must have a current one in that
 * file. IO with the name of the file that cannot be used, or NO_MEMORY. */
enum status tls_client_trust_open(struct tls_client_trust **out, const char *ca_path,
                                  const char *crl_path);
/* NULL is allowed. */
void tls_client_trust_close(struct tls_client_trust *authorities);
struct ssl_ctx_st;
struct tls_client;
/* `transport` is the data of the connection's BIO, which libh2o sets. */
struct tls_client_hook {
    /* A client has sent its certificate, during the handshake. Takes the client over. */
    void (*shown)(void *transport, struct tls_client *client);
    /* A TLS record is about to be read. May be NULL. */
    void (*record)(void *transport);
};
/* Asks the clients of this context for a certificate of these authorities. `hook` must outlive
 * `ssl`. NO_MEMORY. */
enum status tls_client_trust_ask(const struct tls_client_trust *authorities, struct ssl_ctx_st *ssl,
                                 const struct tls_client_hook *hook);

/* --- clients --- */

struct x509_st;
struct stack_st_X509;
/* Reads a certificate. `above` is the rest of the chain as sent, or NULL. The caller closes the
 * client; NULL without memory. */
struct tls_client *tls_client_open(struct x509_st *leaf, struct stack_st_X509 *above);
void tls_client_close(struct tls_client *client);
/* The certificate's fingerprint and names; they prove nothing unless tls_client_judge says FINE. */
const struct peer_certificate *tls_client_peer(const struct tls_client *client);
/* Checks whether the certificate is valid at `now_s` (Unix seconds). The chain is verified again
 * when `authorities` were read anew, or when a certificate or revocation list has expired. */
enum tls_client_reason tls_client_judge(struct tls_client *client,
                                        const struct tls_client_trust *authorities, int64_t now_s);
/* The last result of tls_client_judge. */
enum tls_client_reason tls_client_reason(const struct tls_client *client);
