/* arrival: requests that are not whole yet: who owns them, and the memory that they use.
 *
 * Owns:     the two shares of memory for a listener's unfinished requests: that of strangers, by
 *           address, and that of known owners.
 * Thread:   the loop's thread.
 * Cost:     one pass over the head of a request that comes in one read; O(streams of the
 *           connection) for each further read.
 * Not here: requests that are whole (request), the inside of HTTP/2 connections (h2_arrival).
 *
 *   TLS record ─► on_read ─► head whole, body not? ─► claim ─ known ────► booked to its owner
 *                                │                       ├─ unproved ─► booked to its address
 *                                │                       └─ stranger ─► body cut off, answered now
 *                                └─► libh2o ─► the connection's memory is booked; if the share of
 *                                              strangers is over its limit, a connection gives way
 *
 * A stranger has no valid credential; the credential of an unproved caller is being checked. The
 * first TLS record of each read puts the hook in front of libh2o's reader. Sockets without TLS have
 * no hook; the listener's sweep books their memory.
 */
#pragma once

#include "gateway/http/arrival_input.h"
#include "gateway/http/door_share.h"
#include "gateway/http/listener_claim.h"

struct request_connection;

/* What HTTP/2 connections of a listener may read in a turn of the loop (h2_turns). */
struct arrival_turns {
    struct loop *loop;
    struct loop_timer *timer;
    h2o_context_t *h2o;
    uint64_t turn; /* in which frames were read last */
    uint32_t work; /* what was read in it */
    uint32_t held; /* connections that wait, at most */
};

struct arrival {
    struct arrival_turns turns;
    struct door_share strangers;
    struct door_share known;
    enum listener_claim (*claim)(void *context, const struct listener_head *head,
                                 uint8_t owner[LISTENER_OWNER_BYTES]);
    void *claim_context;
    size_t body_bytes_max;
    bool wants_client;
    struct door_metrics *door; /* counts refusals */
    /* Returns what is wrong with the client's certificate now, or NULL. NULL = it is not
     * checked. */
    const char *(*client_fault)(struct request_connection *connection);
    /* Ends a connection that must give way, or streams of it. */
    void (*kill)(struct request_connection *connection, size_t bytes);
    /* Books the memory of an HTTP/2 connection. */
    void (*book_h2)(struct request_connection *connection);
    /* A client was authenticated on the connection. */
    void (*prove)(struct request_connection *connection);
    /* Writes the body of the answer with this code. */
    void (*render)(int http_code, struct buffer *out);
    struct request_connection *reading; /* the connection that is being read; NULL once it ended */
};

/* Call it before the connection's first byte is read, with `peer` set. */
void arrival_begin(struct request_connection *connection, struct arrival *arrival);
void arrival_end(struct request_connection *connection);

/* For tls_client_hook.record. */
void arrival_record(void *transport);

/* Lets libh2o's `reader` read what the connection has sent, and books its memory. The connection
 * may be gone when it returns. */
void arrival_read(struct request_connection *connection, h2o_socket_cb reader, const char *error);

/* HTTP/1: the handshake is over; bytes of a request may have come already. */
void arrival_h1_begin(struct request_connection *connection);
/* HTTP/1: a request is whole, and accounts for its bytes itself from now on. */
void arrival_h1_serve(struct request_connection *connection);
/* HTTP/1: the request is over. The next one follows in the input after the first `skip` bytes. */
void arrival_h1_next(struct request_connection *connection, size_t skip);

/* Asks who owns a request; `head` lacks peer and certificate, which the connection adds. */
enum listener_claim arrival_claim(struct request_connection *connection, struct listener_head head,
                                  uint8_t owner[DOOR_SHARE_OWNER_BYTES]);
/* Lets the kernel receive more of this socket at once, because a known owner uses it. */
void arrival_trust(struct request_connection *connection);

/* Books the memory of an HTTP/1 connection. */
void arrival_h1_book(struct request_connection *connection);
/* Books so many bytes to the connection's address. If a limit is passed, connections give way. */
void arrival_book(struct request_connection *connection, size_t bytes);
/* Bytes allocated for incomplete TLS records. */
size_t arrival_encrypted_bytes(const h2o_socket_t *socket);

/* The HTTP code for the verdict on a request of a known owner (door_share_admit): 0 when it is
 * admitted, 429 when its owner uses its share, else 503. Counts refusals. */
int arrival_refusal_code(struct arrival *arrival, enum byte_shares_verdict verdict);
/* The HTTP code for a request that gives way to another one: 408 when it took too long, else
 * 429. */
int arrival_give_way_code(struct arrival *arrival, const struct door_hold *hold);
