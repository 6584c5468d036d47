/* listener: sockets that accept, plain or TLS, HTTP/1.1 and HTTP/2, for one face of the server.
 *
 * Owns:     listening sockets, their h2o contexts, open connections.
 * Thread:   the loop's thread after listener_open.
 * Cost:     connections are bounded by LIMIT_CONNECTIONS and the option max_connections.
 * Not here: certificates' making (tls), routes (router).
 */
#pragma once

#include "gateway/http/listener_claim.h"
#include "gateway/http/router.h"
#include "gateway/http/tls.h"

struct cors;
struct listener;

struct listener_options {
    struct loop *loop;
    const char *name;        /* "public", "admin", "engine": for logs */
    int descriptor;          /* a bound, listening socket; the listener owns it */
    struct tls_context *tls; /* NULL = plain */
    size_t body_bytes_max;
    bool makes_request_ids;           /* x-request-id on every answer */
    struct http_header answer_header; /* on every answer of a handler; name NULL = none */
    const struct cors *cors;          /* which pages may read answers (cors.h); NULL = none */
    uint32_t connections_max;
    uint32_t arrival_ms_max; /* for a request to arrive whole, and idle; 0 = LIMIT_ARRIVAL_MS */
    uint32_t unread_ms_max;  /* for the client to read the rest of a finished answer; 0 =
                             * LIMIT_UNREAD_MS */
    /* One address's share (Unix sockets have none), and TLS handshakes of all together; 0 = any
     * number. Above the first two a connection is closed at once; above the third, they wait. */
    uint32_t connections_per_address;
    uint32_t connects_per_address_s;
    uint32_t handshakes_s;
    /* Memory of requests that are not whole yet: of all whose owner is not known (0 =
     * LIMIT_UNFINISHED_BYTES), and of one address of these (0 = any part of it); and of owners that
     * are known. */
    size_t unfinished_bytes_max;
    size_t unfinished_address_bytes_max;
    size_t known_bytes_max;
    /* Whose a request is that announces a body which is not there yet. NULL: nobody is known. */
    enum listener_claim (*claim)(void *context, const struct listener_head *head,
                                 uint8_t owner[LISTENER_OWNER_BYTES]);
    void *claim_context;
    struct metrics *metrics; /* where the door counts (door_metrics); NULL = nowhere */
    /* Asked for every accepted socket before anything is read; false closes it. NULL = all. */
    bool (*admit)(void *context, int descriptor);
    void *admit_context;
    /* Called for every request, before anything else; usually ends in router_find. */
    http_handler handler;
    void *context;
};

enum status listener_open(struct listener **out, const struct listener_options *options);
/* Stops accepting and asks keep-alive connections to leave (h2: GOAWAY); running requests go on. */
void listener_drain(struct listener *listener);
uint32_t listener_requests_running(const struct listener *listener);
uint32_t listener_connections(const struct listener *listener);
/* Closes every connection (running requests see their client leave) and frees the listener. Called
 * on the loop's thread outside loop_run, before loop_destroy: it turns the loop by itself. */
void listener_close(struct listener *listener);

/* Binds and listens. "127.0.0.1:8443" (port 0 = any) or a path for a Unix socket (removed first
 * when nobody answers on it). EXISTS when the address is in use. */
enum status listener_bind_tcp(int *descriptor, const char *address, char *bound, size_t bound_max);
/* "127.0.0.1:8443", "[::1]:8443": where a TCP socket that was bound listens. */
enum status listener_address(int descriptor, char *bound, size_t bound_max);
enum status listener_bind_unix(int *descriptor, const char *path);
