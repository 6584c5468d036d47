/* tls_client: certificates of clients: are they right, and what do they say?
 *
 *   handshake ─ chain as sent ─► client ─ judged by the authorities ─► reason, or none
 *   request   ─ files were read again since, or its time is over? ─► judged again
 *
 * Owns:     authorities and revocation lists as they were when read; of each client its chain (a
 *           reference to OpenSSL's), fingerprint and names.
 * Thread:   the listener's loop.
 * Cost:     a chain of two P-256 keys is judged in some 0.3 ms, once a connection; a request costs
 *           two comparisons. About 1 KiB a connection beside the certificates, of which there are
 *           LIMIT_CLIENT_SHOWN at most.
 * Not here: whose a certificate is (certificate), the proof that the client has its key
 *           (OpenSSL's handshake), answers (request).
 *
 * A handshake with a wrong certificate, or without one, is completed: every request of it is
 * refused before any handler, with the reason, which an alert could not tell.
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
const char *tls_client_word(enum tls_client_reason reason);
/* For whoever sent it. */
const char *tls_client_sentence(enum tls_client_reason reason);

/* --- authorities --- */

struct tls_client_trust;

/* All certificates of the PEM file are trusted roots or lead to one in it. `crl_path` "": there are
 * no revocation lists; else every authority of a chain must have one there that is not over. IO or
 * CORRUPT names the file that cannot be used. */
enum status tls_client_trust_open(struct tls_client_trust **out, const char *ca_path,
                                  const char *crl_path);
void tls_client_trust_close(struct tls_client_trust *authorities);
struct ssl_ctx_st;
/* Asks clients of this context for a certificate of these authorities. `shown` hears of each with
 * the transport's own pointer (the data of its BIO), during the handshake; the client is its
 * own then. */
struct tls_client;
struct tls_client_hook {
    void (*shown)(void *transport, struct tls_client *client);
    /* May be NULL: called for each TLS record that is read, before its bytes are handed on. */
    void (*record)(void *transport);
};
enum status tls_client_trust_ask(const struct tls_client_trust *authorities, struct ssl_ctx_st *ssl,
                                 const struct tls_client_hook *hook);

/* --- clients --- */

struct x509_st;
struct stack_st_X509;
/* `above` may be NULL. NULL without memory. */
struct tls_client *tls_client_open(struct x509_st *leaf, struct stack_st_X509 *above);
void tls_client_close(struct tls_client *client);
/* What it says; only to be believed when it is judged fine. */
const struct peer_certificate *tls_client_peer(const struct tls_client *client);
/* Is it right now (Unix seconds)? The chain is looked at again when `authorities` are others than
 * at the last time. */
enum tls_client_reason tls_client_judge(struct tls_client *client,
                                        const struct tls_client_trust *authorities, int64_t now_s);
/* The last answer of tls_client_judge. */
enum tls_client_reason tls_client_reason(const struct tls_client *client);
