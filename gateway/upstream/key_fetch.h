/* key_fetch: an issuer's key set from its URL: one GET, bounded in every way.
 *
 *   https://login.example.com/keys      host and port are in --jwks-hosts, or nothing is sent
 *   http://127.0.0.1:8200/keys          without TLS to this machine's own addresses alone
 *
 * Owns:     nothing.
 * Thread:   one that may wait LIMIT_JWKS_FETCH_MS and, for a name, some seconds more.
 * Cost:     a connection for each; the file of certificates is read each time, so that it may
 *           change.
 * Not here: what the bytes mean (auth), when they are asked for (edge_keys), HTTP (https_client).
 *
 * Who may change issuers could otherwise make the server call any address and read from the error
 * what listens there. So the operator names the hosts at start, the sandbox opens their ports
 * alone, no redirect is followed, an answer that is no 200 is told by its code alone, and addresses
 * where no issuer can be are never connected to: this-network, link-local (a cloud's metadata),
 * multicast, broadcast. Private addresses are fine: the operator has named the host, and with TLS
 * whatever answers there must have a certificate for that name.
 */
#pragma once

#include <stdatomic.h>
#include <sys/socket.h>

#include "config/base/slice.h"

struct key_fetch_options {
    const char *url;
    const char *hosts;          /* "name", "name:port", "[::1]:port", with commas between them */
    const char *ca_file;        /* PEM */
    const atomic_bool *is_over; /* set: it ends soon; or NULL */
};

/* INVALID when it is no URL of a key set; FORBIDDEN when its host and port are not among
 * `hosts`, or it is http to another machine. Param "jwks_url". */
enum status key_fetch_check(const char *url, const char *hosts);

/* The answer's body, at most LIMIT_JWKS_BYTES, into `out`. As key_fetch_check and
 * https_client_call; also UNAVAILABLE for any answer but 200. The note says what went wrong, and
 * nothing of what came. */
enum status key_fetch(const struct key_fetch_options *options, struct buffer *out);

/* The ports in `hosts`, each once, at most `capacity`; 443 where none is named. INVALID (param
 * "jwks_hosts") for what is no list of hosts, LIMIT for too many ports. */
enum status key_fetch_ports(const char *hosts, uint16_t *ports, size_t capacity, size_t *count);

/* Whether an issuer may have this address. */
bool key_fetch_accepts(const struct sockaddr *address);
