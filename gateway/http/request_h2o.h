/* request_h2o: the inside of a request, for listener.c, which makes them, and request.c.
 *
 * Owns:     struct http_request: a counted chunk of the h2o request's pool; its disposal is the one
 *           entrance through which every end is noticed.
 * Thread:   the loop's thread.
 * Cost:     –
 * Not here: what handlers see (request.h).
 */
#pragma once

#include "gateway/http/loop_h2o.h"
#include "gateway/http/request.h"

enum { REQUEST_ID_BYTES = 4 + 32, REQUEST_PATH_ARGUMENTS = 2 };

/* What a listener gives to each of its requests. */
struct request_host {
    struct loop *loop;
    void (*handler)(struct http_request *request, void *context);
    void *context;
    size_t body_bytes_max;
    bool makes_request_ids;
    struct http_header answer_header; /* name NULL = none */
    h2o_timeout_t *unread_timeout;
    h2o_linklist_t requests; /* of struct http_request.link */
    uint32_t requests_running;
};

/* What is known of a connection, hung on its socket. */
struct request_connection {
    h2o_linklist_t link;
    struct http_request *request; /* the one that runs on an HTTP/1 connection, or NULL */
    struct listener *listener;
    h2o_socket_t *socket;
    int descriptor;
    uint32_t streams_started;
    uint32_t streams_early; /* ended before they were answered */
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

    struct slice method, path, query, body;
    struct http_header *headers;
    size_t header_count;
    struct slice path_arguments[REQUEST_PATH_ARGUMENTS];
    char id[REQUEST_ID_BYTES + 1];
    size_t input_bytes_at_start;
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

    bool is_started;  /* the handler has run */
    bool is_answered; /* respond or stream_begin */
    bool is_sending;  /* between h2o_send and proceed */
    bool is_ending;   /* stream_end was called */
    bool is_aborting;
    bool is_finished; /* the last h2o_send is done: touch nothing but `gone` */
    bool is_lost;     /* the client left, gone has run */
};

/* Takes over an h2o request: copies what is needed of it and starts the handler one turn later. */
void request_begin(struct request_host *host, h2o_req_t *h2o);
/* Ends a request from outside, as if its client had left. */
void request_lose(struct http_request *request);
/* True when the answer under way was made by a handler of ours, not by libh2o itself. */
bool request_is_ours(const h2o_req_t *h2o);
/* "req_" and 32 random hex digits with the closing NUL. */
void request_id_make(char out[REQUEST_ID_BYTES + 1]);
const char *request_reason(int code);
/* Used by the router. */
void request_path_argument_set(struct http_request *request, size_t index, struct slice value);
