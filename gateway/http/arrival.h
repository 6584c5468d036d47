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

#include "gateway/http/door_share.h"
#include "gateway/http/h1_head.h"
#include "gateway/http/h2o_compat.h"
#include "gateway/http/listener.h"

struct request_connection;
struct st_h2o_http2_conn_t;

typedef ssize_t (*arrival_frame_reader)(struct st_h2o_http2_conn_t *conn, const uint8_t *bytes,
                                        size_t length, const char **error);

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
    struct request_connection *reading; /* whose read is under way; NULL once it is gone */
};

/* libh2o announces 100 streams. A client opens another one only behind the frames of one that it
 * knows to be over, so frames may still come for the last 100 that are over here, and no others. */
enum { ARRIVAL_CUTS = 100 };

/* What a connection keeps for its requests on their way in. */
struct arrival_input {
    struct door_hold strangers; /* what it holds beyond bodies of known owners */
    struct door_hold known;     /* HTTP/1: the body under way, when its owner is known */
    uint8_t address[DOOR_SHARE_OWNER_BYTES];
    uint8_t owner[DOOR_SHARE_OWNER_BYTES]; /* of `known` */
    h2o_socket_cb read;                    /* libh2o's reader, in front of which ours stands */

    /* HTTP/1, of the request that comes next */
    bool is_serving; /* one is whole and not over: its bytes are booked elsewhere */
    bool is_claimed; /* its head has been looked at, its body is awaited */
    bool is_unproved;
    size_t reserved_bytes;   /* of a known owner: head and body */
    bool is_cut;             /* its body has been taken off */
    int cut_code;            /* 0, or what it is refused with */
    size_t cut_left;         /* of the body, still to come and to be dropped; SIZE_MAX: unknown */
    struct h1_head cut_head; /* as it was before */

    /* HTTP/2 */
    bool is_http2;
    arrival_frame_reader h2_expect; /* libh2o's reader of frames, in front of which ours stands */
    arrival_frame_reader h2_preface;
    uint32_t h2_cuts[ARRIVAL_CUTS]; /* the last streams that are over and whose body was cut off */
    uint32_t h2_cut_count;
    uint32_t h2_trailers_of;   /* whose trailers go on in the next frame; 0: nobody's */
    struct buffer h2_trailers; /* of a body that is dropped: they change the table of HPACK */
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
