/* adapter_piece: the tokens of a frame, where ids or log-probabilities were asked for.
 *
 *   chats        "logprobs":{"content":[{"token":" a","bytes":[32,97],"logprob":-0.1,
 *                                        "top_logprobs":[{"token":…,"logprob":…},…]},…]}
 *   completions  "logprobs":{"tokens":[" a",…],"token_logprobs":[-0.1,…],
 *                            "top_logprobs":[{" a":-0.1,…},…]}
 *   both         "token_ids":[257,…]
 *
 * Owns:     nothing; pieces borrow from the frame and from the caller's storage.
 * Thread:   any.
 * Cost:     O(tokens × alternatives).
 * Not here: the text of a frame (adapter_stream).
 *
 * Some servers write the form of chats in completions too.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

/* Bytes of one token and its alternatives. The longest tokens of vocabularies have some 500. */
enum { ADAPTER_PIECE_BYTES = 16384 };

struct adapter_piece {
    bool has_id;
    bool has_logprob;
    uint32_t id;
    float logprob;
    struct slice bytes;
    uint32_t top_count;
    struct {
        struct slice bytes;
        float logprob;
    } top[LIMIT_LOGPROBS];
    size_t used;
    char storage[ADAPTER_PIECE_BYTES]; /* the last member: a copy may have a shorter one */
};

/* Pieces of a frame that are still to be read. */
struct adapter_pieces {
    const json_t *chat;
    const json_t *tokens, *logprobs, *tops;
    const json_t *ids;
    size_t count, at;
};

/* Finds the pieces of a choice; there may be none. PROTOCOL when there are not as many ids as
 * log-probabilities, or more than LIMIT_UPSTREAM_EVENT_TOKENS. */
enum status adapter_pieces_find(struct adapter_pieces *out, const json_t *choice);
/* Reads the next piece, which exists (`at` < `count`). PROTOCOL when it is malformed. */
enum status adapter_pieces_next(struct adapter_pieces *pieces, struct adapter_piece *out);
