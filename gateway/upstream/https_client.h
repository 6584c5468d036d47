/* https_client: a blocking HTTPS client for one server: one connection, one call at a time.
 *
 * Owns:     the connection, kept between calls; OpenSSL's context. libcurl would do the same and
 *           bring a dozen libraries into every process of the server; this is four small steps.
 * Thread:   one at a time.
 * Cost:     an answer is held whole, up to answer_bytes.
 * Not here: keys, JSON, trying again (cli_api); which servers keys come from (key_fetch).
 *
 *   connect ─ TLS 1.2+, certificate and name verified ─ HTTP/1.1: request ─ head ─ body
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

struct https_client;

struct https_client_options {
    const char *url;     /* "https://HOST[:PORT]", IPv6 in brackets; the port is 443 if not given */
    const char *ca_file; /* PEM; NULL = the system's */
    const char *cert_file; /* PEM, the client's own and those above it; NULL = none */
    const char *cert_key_file;
    uint32_t timeout_ms; /* of a whole call, connecting included; not of looking the name up */
    bool may_be_plain;   /* "http://" is taken too: the caller knows that nobody can listen */
    size_t answer_bytes; /* of an answer at most; 0 = LIMIT_HTTPS_ANSWER_BYTES */
    /* Whether an address that the name stands for may be connected to; NULL = any. */
    bool (*accepts)(const struct sockaddr *address);
    const atomic_bool *is_over; /* set by another thread: the call ends within 200 ms; or NULL */
};

struct https_client_request {
    const char *method;
    const char *path;    /* with the query; percent-encoded by the caller */
    const char *headers; /* whole lines, each with its CRLF; may be "" */
    struct slice body;   /* sent as application/json when the method is not GET */
};

struct https_client_answer {
    int code;
    uint32_t retry_after_ms; /* 0 = the server says nothing */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    char next_page[64]; /* x-next-page, if it is a word of letters, digits and _; else "" */
    struct buffer body;
};

/* INVALID (param "url"), IO when a file of certificates or a key cannot be used. Nothing is sent
 * yet. */
enum status https_client_open(struct https_client **out,
                              const struct https_client_options *options);
void https_client_close(struct https_client *https);

void https_client_answer_init(struct https_client_answer *answer);
void https_client_answer_deinit(struct https_client_answer *answer);

/* Fills the answer, whatever its code. Fails with
 *   UNAVAILABLE  nobody listens, not with TLS, or the name is unknown
 *   FORBIDDEN    the server's certificate is not trusted or for another name
 *   IO           the connection ended before the answer was complete: it may or may not have acted
 *   DEADLINE     timeout_ms passed: the same
 *   CANCELLED    is_over was set: the same
 *   PROTOCOL     what came is no HTTP, or longer than answer_bytes */
enum status https_client_call(struct https_client *https,
                              const struct https_client_request *request,
                              struct https_client_answer *answer);
