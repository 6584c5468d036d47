/* listener: accepts connections on one listening socket, with or without TLS, and serves HTTP/1.1
 * and HTTP/2 on them.
 *
 * Owns:     the listening socket, its h2o context, and open connections.
 * Thread:   the loop's thread after listener_open.
 * Cost:     at most connections_max connections; every limit here is per listener.
 * Not here: making and reading certificates (tls), routes (router).
 */
#pragma once

#include "gateway/http/listener_claim.h"
#include "gateway/http/router.h"
#include "gateway/http/tls.h"

struct cors;
struct listener;

struct listener_options {
    struct loop *loop;
    const char *name;        /* "public", "admin", "engine": for the log and metrics */
    int descriptor;          /* a bound, listening socket; the listener owns it */
    struct tls_context *tls; /* NULL = without TLS */
    size_t body_bytes_max;
    bool makes_request_ids;           /* x-request-id on every answer */
    struct http_header answer_header; /* on every answer of a handler; name NULL = none */
    const struct cors *cors;          /* which web pages may read answers (cors.h); NULL = none */
    uint32_t connections_max;
    uint32_t arrival_ms_max; /* for a request to arrive whole, and idle; 0 = LIMIT_ARRIVAL_MS */
    uint32_t unread_ms_max;  /* for a client to read a piece of an answer, or the rest of one that
                                has ended; 0 = LIMIT_UNREAD_MS */
    /* Open and new connections of one IP address, and TLS handshakes a second of all together; 0 =
     * no limit. Above the first two a connection is closed at once; above the third, it waits. */
    uint32_t connections_per_address;
    uint32_t connects_per_address_s;
    uint32_t handshakes_s;
    /* Memory for requests that are not whole yet: of all whose owner is not known (0 =
     * LIMIT_UNFINISHED_BYTES), of one IP address of these (0 = no limit of its own), and of all
     * known owners. */
    size_t unfinished_bytes_max;
    size_t unfinished_address_bytes_max;
    size_t known_bytes_max;
    /* Finds the owner of a request whose body has not arrived. NULL = all are
     * LISTENER_UNPROVED. */
    enum listener_claim (*claim)(void *context, const struct listener_head *head,
                                 uint8_t owner[LISTENER_OWNER_BYTES]);
    void *claim_context;
    struct metrics *metrics; /* for the counts of door_metrics; NULL = they are not kept */
    /* Called for every accepted socket before anything is read; false closes it. NULL = all are
     * served. */
    bool (*admit)(void *context, int descriptor);
    void *admit_context;
    /* Called for every request that is not refused before; it usually calls router_find. */
    http_handler handler;
    void *context;
};

/* Serves until listener_close. `options` and its strings are only read during the call, except
 * what its pointers name, which must outlive the listener. NO_MEMORY or IO. */
enum status listener_open(struct listener **out, const struct listener_options *options);
/* Stops accepting, and ends connections without a running request (HTTP/2: GOAWAY); running
 * requests go on. */
void listener_drain(struct listener *listener);
uint32_t listener_requests_running(const struct listener *listener);
uint32_t listener_connections(const struct listener *listener);
/* Closes every connection and frees the listener; to a running request this looks as if its client
 * had left. Call it on the loop's thread outside loop_run and before loop_destroy: it runs turns
 * of the loop itself. */
void listener_close(struct listener *listener);

/* Binds and listens on "127.0.0.1:8443" or "[::1]:8443" (port 0 = any free one); `bound` gets the
 * address with its port. INVALID for text that is no address, EXISTS when it is in use, IO. */
enum status listener_bind_tcp(int *descriptor, const char *address, char *bound, size_t bound_max);
/* Writes the address of a bound TCP socket: "127.0.0.1:8443", "[::1]:8443". */
enum status listener_address(int descriptor, char *bound, size_t bound_max);
/* Binds and listens on a Unix socket. A socket on which no process listens is removed first.
 * EXISTS when another process listens there. */
enum status listener_bind_unix(int *descriptor, const char *path);
