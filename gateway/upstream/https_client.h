/* https_client: a blocking HTTPS client for one server: one connection, one call at a time.
 *
 * Owns:     the connection, which stays open between calls, and OpenSSL's context.
 * Thread:   one at a time; calls block.
 * Cost:     an answer is kept whole, up to answer_bytes.
 * Not here: keys, JSON, retries (cli_api); which servers key sets come from (key_fetch).
 *
 *   connect ─ TLS 1.2+, certificate and name verified ─ HTTP/1.1: request ─ head ─ body
 *
 * libcurl is not used: it would load a dozen libraries into every process of the server.
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
    const char *url;       /* "https://HOST[:PORT]", IPv6 in brackets; the port is 443 by default */
    const char *ca_file;   /* trusted certificates, PEM; NULL = the system's */
    const char *cert_file; /* client certificate and its intermediates, PEM; NULL = none */
    const char *cert_key_file; /* private key of cert_file, PEM */
    /* Time for a whole call. The look-up of the name counts, but is not cut off when it is over. */
    uint32_t timeout_ms;
    bool may_be_plain;   /* accepts "http://" too: the caller knows that nobody can eavesdrop */
    size_t answer_bytes; /* largest answer; 0 = LIMIT_HTTPS_ANSWER_BYTES */
    /* Whether the client may connect to this address of the host; NULL = to any address. */
    bool (*accepts)(const struct sockaddr *address);
    /* Where the host is, for a process that cannot look names up; NULL = the name is looked up. The
     * client uses it at each call, so it must stay. */
    const struct sockaddr *address;
    /* Another thread may set it: a call then ends within 200 ms, or after the look-up of the name.
     * NULL = nobody does. */
    const atomic_bool *is_over;
};

struct https_client_request {
    const char *method;
    const char *path;    /* with the query; percent-encoded by the caller */
    const char *headers; /* more header lines, each with its CRLF; "" = none */
    struct slice body;   /* sent as application/json when the method is not GET */
};

struct https_client_answer {
    int code;
    uint32_t retry_after_ms;                 /* 0 = none given */
    char request_id[LIMIT_REQUEST_ID_BYTES]; /* x-request-id, cut if it is longer */
    char next_page[64]; /* x-next-page if it consists of a-z, 0-9 and "_"; else "" */
    struct buffer body;
};

/* Reads the files; connects only with the first call. INVALID (param "url"), IO when a certificate
 * or key file cannot be used, NO_MEMORY. The strings of `options` are copied; is_over is not. */
enum status https_client_open(struct https_client **out,
                              const struct https_client_options *options);
void https_client_close(struct https_client *https);

void https_client_answer_init(struct https_client_answer *answer);
void https_client_answer_deinit(struct https_client_answer *answer);

/* Makes one call and fills `answer`, whatever its HTTP code. The caller inits and deinits `answer`;
 * it inits or clears it before each call. Fails with
 *   UNAVAILABLE  nobody listens, the server does not speak TLS, or the name is unknown
 *   FORBIDDEN    the server's certificate is not trusted, or is for another name
 *   IO           the connection ended before the answer was complete
 *   DEADLINE     timeout_ms passed
 *   CANCELLED    is_over was set
 *   PROTOCOL     the answer is no HTTP, or longer than answer_bytes
 *   LIMIT        the request's head is too long
 * After IO, DEADLINE, CANCELLED and PROTOCOL the server may or may not have acted on the
 * request. */
enum status https_client_call(struct https_client *https,
                              const struct https_client_request *request,
                              struct https_client_answer *answer);
