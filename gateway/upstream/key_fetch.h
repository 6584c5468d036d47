/* key_fetch: fetches an issuer's key set (JWKS) from its URL with one GET, limited in time and
 * size.
 *
 *   https://login.example.com/keys      host and port must be in --jwks-hosts
 *   http://127.0.0.1:8200/keys          the same; without TLS only to this machine's loopback
 *
 * Owns:     nothing.
 * Thread:   one that may block for LIMIT_JWKS_FETCH_MS, and for seconds more to look up a name.
 * Cost:     one connection for each fetch. The certificate file is read each time, so that a new
 *           file takes effect.
 * Not here: what the bytes mean (auth), when to fetch (edge_keys), HTTP (https_client).
 *
 * An admin who may change issuers must not be able to make the server call any address and learn
 * from the error what listens there (server-side request forgery). Therefore:
 *   - the operator names the allowed hosts at start, and the sandbox opens only their ports;
 *   - redirects are not followed, and of an answer other than 200 only the code is reported;
 *   - addresses where no issuer can be are never connected to: this-network, link-local and cloud
 *     metadata, multicast, broadcast.
 * Private addresses are allowed: the operator has named the host, and over TLS the server there
 * must have a certificate for that name.
 */
#pragma once

#include <stdatomic.h>
#include <sys/socket.h>

#include "config/base/slice.h"

struct key_fetch_options {
    const char *url;
    const char *hosts;          /* "name", "name:port", "[::1]:port", with commas between them */
    const char *ca_file;        /* trusted certificates, PEM; NULL = the system's */
    const atomic_bool *is_over; /* as in https_client_options */
};

/* INVALID when `url` is no URL of a key set. FORBIDDEN when its host and port are not in `hosts`,
 * or when it is http to another machine. The note's param is "jwks_url". */
enum status key_fetch_check(const char *url, const char *hosts);

/* Appends the key set, at most LIMIT_JWKS_BYTES, to `out`. Fails as key_fetch_check() and
 * https_client_call() do, and with UNAVAILABLE for every answer but 200. The note says what went
 * wrong, and quotes nothing of the answer. */
enum status key_fetch(const struct key_fetch_options *options, struct buffer *out);

/* The ports of `hosts`, each once; 443 where none is given. INVALID (param "jwks_hosts") when
 * `hosts` is no list of hosts, LIMIT when there are more than `capacity` ports. */
enum status key_fetch_ports(const char *hosts, uint16_t *ports, size_t capacity, size_t *count);

/* Whether the server may connect to this address to fetch keys. */
bool key_fetch_accepts(const struct sockaddr *address);
