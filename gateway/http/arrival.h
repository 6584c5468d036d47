/* arrival: requests on their way in: who owns them and what they hold until they are whole.
 *
 * Owns:     the two shares of a listener's unfinished requests: of strangers, by address, and of
 *           owners that are known.
 * Thread:   the loop's thread.
 * Cost:     for a request that comes in one read, one pass over its head; for each further read
 *           O(streams of the connection).
 * Not here: requests that are whole (request), the inside of HTTP/2 connections (h2_arrival).
 *
 *   TLS record ─► on_read ─► head whole, body not? ─► claim ─ known ────► booked to its owner
 *                                │                       ├─ unproved ─► booked to its address
 *                                │                       └─ stranger ─► body cut off, answered now
 *                                └─► libh2o ─► what the connection holds now is booked; the share
 *                                              of strangers is over its limit? somebody gives way
 *
 * The first TLS record of each read puts the hook in front of libh2o's own reader. Plain sockets
 * have no hook; the listener's sweep books what they hold.
 */
#pragma once

#include "gateway/http/arrival_input.h"
#include "gateway/http/door_share.h"
#include "gateway/http/listener_claim.h"

struct request_connection;
struct arrival {
    struct door_share strangers;
    struct door_share known;
    enum listener_claim (*claim)(void *context, const struct listener_head *head,
                                 uint8_t owner[LISTENER_OWNER_BYTES]);
    void *claim_context;
    size_t body_bytes_max;
    bool wants_client;
    struct door_metrics *door; /* counts what is refused */
    /* NULL, or what is wrong with the client's certificate now; NULL: nobody judges. */
    const char *(*client_fault)(struct request_connection *connection);
    void (*kill)(struct request_connection *connection, size_t bytes); /* it gives way */
    /* Books what an HTTP/2 connection holds. */
    void (*book_h2)(struct request_connection *connection);
    void (*prove)(struct request_connection *connection); /* somebody is authenticated on it */
    void (*render)(int http_code, struct buffer *out);    /* the body of a refusal */
    struct request_connection *reading; /* whose read is under way; NULL once it is gone */
};

/* Before the connection's first byte is read; `peer` as for address_table_key. */
void arrival_begin(struct request_connection *connection, struct arrival *arrival);
void arrival_end(struct request_connection *connection);

/* For tls_client_hook.record. */
void arrival_record(void *transport);

/* HTTP/1: the handshake is over, some bytes of a request may be there already. */
void arrival_h1_begin(struct request_connection *connection);
/* A request is whole, its bytes are the request's from here on. */
void arrival_h1_serve(struct request_connection *connection);
/* It is over; behind its first `skip` bytes the connection's input has what comes next. */
void arrival_h1_next(struct request_connection *connection, size_t skip);

/* Who owns a request. The connection fills in what `head` lacks: peer and certificate. */
enum listener_claim arrival_claim(struct request_connection *connection, struct listener_head head,
                                  uint8_t owner[DOOR_SHARE_OWNER_BYTES]);
/* The owner of a request is known: the kernel may take in more of this socket at once. */
void arrival_trust(struct request_connection *connection);

/* Books what an HTTP/1 connection holds. */
void arrival_h1_book(struct request_connection *connection);
/* Books that many bytes to the connection's address, and lets somebody give way if need be. */
void arrival_book(struct request_connection *connection, size_t bytes);
/* Of TLS records that are not whole. */
size_t arrival_encrypted_bytes(const h2o_socket_t *socket);

/* The code that refuses a request whose owner is known and has no room (door_share_admit): 429 when
 * that is the owner's own doing, else 503; counts the refusal. 0: it is not refused. */
int arrival_refusal_code(struct arrival *arrival, enum byte_shares_verdict verdict);
/* The code for one that gives way to another: 408 when it took too long, else 429. */
int arrival_give_way_code(struct arrival *arrival, const struct door_hold *hold);
