/* edge_hold: the memory of the edge that one request holds: its body, and what is booked for it.
 *
 * Owns:     the body once it is taken from the request, and the booking in edge_memory.
 * Thread:   the loop's thread. Another thread may read the body while nothing else is called.
 * Cost:     O(1); taking a body of more than HTTP_BODY_KEPT bytes copies it.
 * Not here: the account of all requests (edge_memory), the answer's bytes (edge_job).
 *
 *   begin ─ take_body ─ (the body is sent, perhaps again) ─ drop_body: the engine has it ─ … ─ end
 */
#pragma once

#include "gateway/edge/state/edge_memory.h"
#include "gateway/http/request.h"

struct edge_hold {
    struct byte_shares_hold booked;
    struct buffer body; /* empty until the body is taken, and again once it is dropped */
    size_t body_bytes;  /* the length of the request's body, also after it was dropped */
    bool is_body_gone;  /* the body was dropped */
};

/* Books the request and its body to the tenant. Fails as edge_memory_take does. */
enum status edge_hold_begin(struct edge_hold *hold, struct edge_memory *memory,
                            const struct http_request *request, const uint8_t *tenant_hash);
/* Takes the body out of libh2o's buffers; does nothing when it was taken before. Slices of the
 * request that the caller got earlier are no longer valid. NO_MEMORY. */
enum status edge_hold_take_body(struct edge_hold *hold, struct http_request *request);
/* The body that is sent to the engine: the taken one, else the request's own bytes. */
struct slice edge_hold_body(const struct edge_hold *hold, const struct http_request *request);
/* Frees the body, because it will not be sent again. */
void edge_hold_drop_body(struct edge_hold *hold);
/* Books what the request holds now and `answer_bytes` of its answer. Fails as edge_memory_set does,
 * with one exception: while an answer holds at most LIMIT_ANSWER_SHARE_BYTES, it goes on although
 * the tenant's share is used up, because other answers of the tenant fill it. */
enum status edge_hold_set(struct edge_hold *hold, struct edge_memory *memory, size_t answer_bytes);
/* Frees the body and gives the booking back. A second call has no effect. */
void edge_hold_end(struct edge_hold *hold, struct edge_memory *memory);
