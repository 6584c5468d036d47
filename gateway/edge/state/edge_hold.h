/* edge_hold: what one request holds of the edge's memory: its body, and what is booked for it.
 *
 * Owns:     the body once it is taken from the request, the booking in edge_memory.
 * Thread:   the loop's thread; the body may be read elsewhere while nothing else is called.
 * Cost:     O(1), and a copy of a body of more than HTTP_BODY_KEPT bytes when it is taken.
 * Not here: the account (edge_memory), the answer's bytes (edge_job).
 *
 *   begin ─ take_body ─ (sent, sent again) ─ drop_body: the engine has it ─ … ─ end
 */
#pragma once

#include "gateway/edge/state/edge_memory.h"
#include "gateway/http/request.h"

struct edge_hold {
    struct byte_shares_hold booked;
    struct buffer body; /* taken from the request: empty before, and once it is dropped */
    size_t body_bytes;  /* of the request, whatever became of its body */
    bool is_body_gone;
};

/* Books the request and its body to the tenant; as edge_memory_take. */
enum status edge_hold_begin(struct edge_hold *hold, struct edge_memory *memory,
                            const struct http_request *request, const uint8_t *tenant_hash);
/* The body leaves libh2o's buffers, unless it was taken before. Slices of the request that were
 * asked for are stale. NO_MEMORY. */
enum status edge_hold_take_body(struct edge_hold *hold, struct http_request *request);
/* What is sent to the engine; the request's own bytes when they were not taken. */
struct slice edge_hold_body(const struct edge_hold *hold, const struct http_request *request);
/* Frees the body: it is never sent again. */
void edge_hold_drop_body(struct edge_hold *hold);
/* Books what it holds now and so many bytes of its answer, as edge_memory_set. Except: a running
 * answer of which little is held (LIMIT_ANSWER_SHARE_BYTES) goes on although the tenant's share is
 * used up, since other answers of the tenant fill it. */
enum status edge_hold_set(struct edge_hold *hold, struct edge_memory *memory, size_t answer_bytes);
/* Gives everything back; again without effect. */
void edge_hold_end(struct edge_hold *hold, struct edge_memory *memory);
