/* request_h2o: the inside of a request, for listener.c, which makes them, and request.c.
 *
 * Owns:     struct http_request: a counted chunk of the h2o request's pool; its disposal is the one
 *           entrance through which every end is noticed.
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

/* What a listener gives to each of its requests. */
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
    void (*flooded)(struct request_connection *connection); /* it is to be killed */
    /* NULL, or why no handler hears of the connection: its client's certificate. */
    const char *(*client_fault)(struct request_connection *connection);
    bool wants_client; /* a certificate of every client */
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

/* What is known of a connection, hung on its socket. */
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
    struct tls_client *client;        /* the certificate it has shown; NULL: none */
    struct timeval connected_at;
    int64_t accepted_us;
    int descriptor;
    struct arrival *arrival;       /* its listener's */
    struct arrival_input arriving; /* what is on its way in */
    uint32_t streams_started;      /* that reached a handler, in all */
    uint32_t streams_vanished;     /* that never did, in all: the sweep finds them */
    uint32_t judged;               /* streams that are over; see request_connection_judge */
    uint32_t judged_early;         /* of these, the ones that ended before they were answered */
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
    h2o_timeout_entry_t unread_entry; /* runs from the last send to the end */

    h2o_buffer_t *input; /* HTTP/1: the buffer that the strings lie in; NULL = they are h2o's */
    struct slice method, path, query, body;
    struct http_header *headers;
    size_t header_count;
    struct slice path_arguments[REQUEST_PATH_ARGUMENTS];
    char id[REQUEST_ID_BYTES + 1];
    size_t input_bytes_own;     /* of this request, at the front of the connection's input */
    size_t head_bytes;          /* of HTTP/1, at the front of those */
    bool is_cut;                /* its body was not waited for */
    bool is_lingering;          /* answered but for the end: the client still sends */
    int refusal_code;           /* 0, or the code the start answers with instead of the handler */
    const char *refusal_reason; /* a sentence, or NULL for the code's own */

    void (*gone)(void *context, bool is_early);
    void *gone_context;
    void (*half_closed)(void *context);
    void *half_closed_context;
    void (*drained)(void *context);
    void *drained_context;

    struct buffer pending; /* written, not yet given to h2o */
    struct buffer sending; /* given to h2o, not yet taken by the connection */
    size_t sending_left;   /* of a whole answer, at the end of `sending`: not yet given to h2o */

    bool is_head;     /* answered like a GET, without the body */
    bool is_started;  /* the handler has run */
    bool is_answered; /* respond or stream_begin */
    bool is_chunked;  /* a stream over HTTP/1.1, whose chunks are made here */
    bool is_sending;  /* between h2o_send and proceed */
    bool is_ending;   /* stream_end was called */
    bool is_aborting;
    bool is_finished; /* the last h2o_send is done: touch nothing but `gone` */
    bool is_lost;     /* the client left, gone has run */
};

/* So many more streams are over, so many of them before they were answered. True when it is a
 * flood of resets: more than half ended early, of at least LIMIT_STREAMS_JUDGED, or of
 * LIMIT_STREAMS_JUDGED_TRUSTED once LIMIT_STREAMS_JUDGED ended well (a proxy's connection, on which
 * many clients leave). Old streams count for less and less, so that a good past pays for little. */
bool request_connection_judge(struct request_connection *connection, uint32_t over, uint32_t early);
/* What pages of the request's Origin may do with its answer, whoever makes it. */
void request_add_cors(const struct cors *cors, h2o_req_t *h2o);
/* Takes over an h2o request: copies what is needed of it and starts the handler one turn later. */
void request_begin(struct request_host *host, h2o_req_t *h2o);
/* Ends a request from outside, as if its client had left. */
void request_lose(struct http_request *request);
/* True when the answer under way was made by a handler of ours, not by libh2o itself. */
bool request_is_ours(const h2o_req_t *h2o);
/* "127.0.0.1:1234" */
void request_peer_name(const struct request_connection *connection, char out[REQUEST_PEER_BYTES]);
/* "req_" and 32 random hex digits with the closing NUL. */
void request_id_make(char out[REQUEST_ID_BYTES + 1]);
const char *request_reason(int code);
/* Used by the router. The handler of a HEAD sees a GET. */
void request_method_set(struct http_request *request, struct slice method);
void request_path_argument_set(struct http_request *request, size_t index, struct slice value);
