/* arrival_input: the state of a connection for requests that are not whole.
 *
 * Owns:     nothing by itself: arrival and h2_arrival fill it and free what it has.
 * Thread:   the loop's thread.
 * Cost:     –
 * Not here: what is done with it (arrival, h2_arrival).
 */
#pragma once

#include "gateway/http/door_share.h"
#include "gateway/http/h1_head.h"
#include "gateway/http/h2_fields.h"
#include "gateway/http/h2o_compat.h"

struct st_h2o_http2_conn_t;

typedef ssize_t (*arrival_frame_reader)(struct st_h2o_http2_conn_t *conn, const uint8_t *bytes,
                                        size_t length, const char **error);

/* libh2o announces 100 concurrent streams. A client opens another one only when it knows that one
 * is over, so frames may still come for the last 100 streams that are over here, and for no
 * others. */
enum { ARRIVAL_CUTS = 100 };

/* The state of a connection for requests that are not whole. */
struct arrival_input {
    struct door_hold strangers; /* its memory, except bodies of known owners */
    struct door_hold known;     /* HTTP/1: the body that is arriving, when its owner is known */
    uint8_t address[DOOR_SHARE_OWNER_BYTES];
    uint8_t owner[DOOR_SHARE_OWNER_BYTES]; /* of `known` */
    h2o_socket_cb read;                    /* libh2o's reader, which ours calls */

    /* HTTP/1: the request that comes next */
    bool is_serving;         /* the present request is whole and not over */
    bool is_claimed;         /* its owner was asked for, and its body is arriving */
    bool is_unproved;        /* its credential is being checked */
    size_t reserved_bytes;   /* for head and body of a known owner */
    struct buffer answer;    /* sent in the middle of a body that gives way */
    bool is_cut;             /* its body was removed */
    int cut_code;            /* the code that refuses it; 0 = none */
    size_t cut_left;         /* bytes of the body still to come and to drop; SIZE_MAX = unknown */
    struct h1_head cut_head; /* the head before the body was removed */

    /* HTTP/2 */
    bool is_http2;
    arrival_frame_reader h2_expect; /* libh2o's reader of frames, which ours calls */
    arrival_frame_reader h2_preface;
    struct h2_fields h2_fields;     /* of the head that is arriving */
    uint64_t h2_turn;               /* the turn of the loop in which frames were read last */
    uint32_t h2_turn_work;          /* what was read in it (h2_turns) */
    bool is_h2_held;                /* it is not read until one of the next turns */
    h2o_socket_cb h2_reader;        /* libh2o's reader, while it is held */
    uint32_t h2_cuts[ARRIVAL_CUTS]; /* the last streams that are over and whose body was cut off */
    uint32_t h2_cut_count;
    uint32_t h2_trailers_of;   /* the stream whose trailers go on in the next frame; 0 = none */
    struct buffer h2_trailers; /* trailers of a dropped body, which still change the HPACK table */
};
