/* edge_held: bytes of answers that are not streamed, held until they are whole, of all requests.
 *
 * Owns:     one sum.
 * Thread:   the loop's thread.
 * Cost:     O(1).
 * Not here: the bytes (edge_assemble, edge_job), the bound of one answer (limits.h).
 *
 * Over LIMIT_ANSWERS_BYTES those are told so that hold more than LIMIT_ANSWER_SHARE_BYTES: who asks
 * for little is not hurt by who asks for much.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct edge_held {
    size_t total;
};

/* `*own`, what one request held so far, becomes `now`. False when that one is too much now. */
bool edge_held_set(struct edge_held *held, size_t *own, size_t now);
