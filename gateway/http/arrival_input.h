/* arrival_input: what a connection keeps for its requests on their way in.
 *
 * Owns:     nothing by itself: arrival fills and empties it.
 * Thread:   the loop's thread.
 * Cost:     –
 * Not here: booking and claims (arrival).
 */
#pragma once

#include "gateway/http/door_share.h"
#include "gateway/http/h1_head.h"
#include "gateway/http/h2o_compat.h"

struct st_h2o_http2_conn_t;

typedef ssize_t (*arrival_frame_reader)(struct st_h2o_http2_conn_t *conn, const uint8_t *bytes,
                                        size_t length, const char **error);

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
    struct buffer answer;    /* on its way in the middle of a body that gives way */
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
