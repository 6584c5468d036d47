/* request_h2o: the inside of requests and connections, for the files of this room.
 *
 * Owns:     struct http_request, in the pool of libh2o's request; every end of a request frees the
 *           pool and so runs its dispose function.
 * Thread:   the loop's thread.
 * Cost:     –
 * Not here: what handlers see (request.h).
 */
#pragma once

#include <netinet/in.h>

#include "gateway/http/arrival_input.h"
#include "gateway/http/http_header.h"
#include "gateway/http/loop_h2o.h"
#include "gateway/http/tls_client.h"

enum { REQUEST_ID_BYTES = 4 + 32, REQUEST_PATH_ARGUMENTS = 2, REQUEST_PEER_BYTES = 64 };

struct cors;
struct http_request;
struct request_connection;

/* What all requests of a listener share. */
struct request_host {
    struct loop *loop;
    void (*handler)(struct http_request *request, void *context);
    /* Answers instead of the handler; `reason` is NULL or a sentence. */
    void (*refuse)(struct http_request *request, int http_code, const char *reason);
    void *context;
    size_t body_bytes_max;
    bool makes_request_ids;
    struct http_header answer_header;                       /* name NULL = none */
    const struct cors *cors;                                /* NULL = none */
    void (*flooded)(struct request_connection *connection); /* kills the connection */
    /* Returns what is wrong with the client's certificate now, or NULL. NULL = it is not
     * checked. */
    const char *(*client_fault)(struct request_connection *connection);
    bool wants_client; /* every client must have a certificate */
    h2o_timeout_t *unread_timeout;
    h2o_timeout_t *linger_timeout;
    h2o_linklist_t requests; /* of struct http_request.link */
    uint32_t requests_running;
};

union request_peer {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* The state of a connection, which its socket points to. */
struct request_connection {
    h2o_linklist_t link;
    struct http_request *request; /* the one that runs on an HTTP/1 connection, or NULL */
    struct listener *listener;
    h2o_socket_t *socket;
    union request_peer peer;
    uint32_t address_row;             /* of the listener's address_table */
    h2o_linklist_t stranger;          /* in the listener's list until somebody is authenticated */
    h2o_linklist_t handshake;         /* in the listener's list while the handshake is under way */
    struct ssl_ctx_st *handshake_tls; /* held while the handshake is under way */
    struct tls_client *client;        /* its certificate; NULL = none was sent */
    struct timeval connected_at;
    int64_t accepted_us;
    int descriptor;
    struct arrival *arrival;       /* that of its listener */
    struct arrival_input arriving; /* requests that are not whole */
    uint32_t streams_started;      /* in all: streams that became requests */
    uint32_t streams_vanished;     /* in all: streams that never did; the sweep counts them */
    uint32_t judged;               /* streams that are over; see request_connection_judge */
    uint32_t judged_early;         /* those that ended before they were answered */
    bool is_dead;
};

struct http_request {
    h2o_generator_t generator;
    h2o_req_t *h2o;
    h2o_socket_t *socket; /* HTTP/1 only, else NULL */
    struct request_host *host;
    struct request_connection *connection;
    h2o_linklist_t link;
    h2o_timeout_entry_t start_entry;
    h2o_timeout_entry_t unread_entry; /* until the client must have read, or lingering ends */

    h2o_buffer_t *input; /* HTTP/1: the buffer with the strings; NULL = they are in the pool */
    struct slice method, path, query, body;
    struct http_header *headers;
    size_t header_count;
    struct slice path_arguments[REQUEST_PATH_ARGUMENTS];
    char id[REQUEST_ID_BYTES + 1];
    size_t input_bytes_own;     /* of this request, at the front of the connection's input */
    size_t head_bytes;          /* HTTP/1: bytes of the head */
    bool is_cut;                /* its body was not awaited */
    bool is_lingering;          /* answered except for the end, while the client still sends */
    int refusal_code;           /* 0, or the code that refuses it before the handler */
    const char *refusal_reason; /* a sentence, or NULL for that of the code */

    void (*gone)(void *context, bool is_early);
    void *gone_context;
    void (*half_closed)(void *context);
    void *half_closed_context;
    void (*drained)(void *context);
    void *drained_context;

    struct buffer pending; /* written by the handler, not yet given to libh2o */
    struct buffer sending; /* given to libh2o, not yet written to the connection */
    size_t sending_left;   /* bytes at the end of `sending` that are not yet given to libh2o */

    bool is_head;     /* a HEAD: answered like a GET, without the body */
    bool is_started;  /* the handler has run */
    bool is_answered; /* respond or stream_begin */
    bool is_chunked;  /* a stream over HTTP/1.1, whose chunks are made here */
    bool is_sending;  /* between h2o_send and on_proceed */
    bool is_ending;   /* the handler has ended the answer */
    bool is_aborting;
    bool is_finished; /* the last h2o_send has begun */
    bool is_lost;     /* the client left, and `gone` has run */
};

/* Counts `over` streams that ended, `early` of them before they were answered. True for a flood of
 * resets: more than half of the streams ended early, of at least LIMIT_STREAMS_JUDGED, or of
 * LIMIT_STREAMS_JUDGED_TRUSTED once LIMIT_STREAMS_JUDGED ended well (a proxy's connection, on which
 * many clients leave). The counts are halved from time to time, so that old streams count less. */
bool request_connection_judge(struct request_connection *connection, uint32_t over, uint32_t early);
/* Adds the CORS headers for the request's Origin to its answer. `cors` may be NULL. */
void request_add_cors(const struct cors *cors, h2o_req_t *h2o);
/* Makes the request for libh2o's whole request and starts the handler one turn later. */
void request_begin(struct request_host *host, h2o_req_t *h2o);
/* Ends a request as if its client had left. */
void request_lose(struct http_request *request);
/* True when this room makes the request's answer, and not libh2o. */
bool request_is_ours(const h2o_req_t *h2o);
/* "127.0.0.1:1234" */
void request_peer_name(const struct request_connection *connection, char out[REQUEST_PEER_BYTES]);
/* "req_", 32 random hex digits and a NUL. */
void request_id_make(char out[REQUEST_ID_BYTES + 1]);
/* The reason phrase of an HTTP code; "Status" for codes that are not used here. */
const char *request_reason(int code);
/* For the router: the handler of a HEAD sees a GET. */
void request_method_set(struct http_request *request, struct slice method);
void request_path_argument_set(struct http_request *request, size_t index, struct slice value);
