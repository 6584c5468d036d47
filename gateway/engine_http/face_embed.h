/* face_embed: writes embeddings as the JSON of SSE frames, in the OpenAI schema.
 *
 * Owns:     nothing.
 * Thread:   the loop's.
 * Cost:     O(numbers); the decimal form takes about 0.3 µs a number.
 * Not here: when frames are sent (face_job), the answer in one piece (edge_assemble).
 *
 *   {"n":0,"model":"…","data":[{"object":"embedding","index":3,"embedding":[0.012,…]}]}
 *
 * There is one frame for each text, in the order in which they are done. With base64 the embedding
 * is a string: the bytes of its float32 numbers, little-endian.
 */
#pragma once

#include "config/base/slice.h"

/* Appends one frame. `vector` holds the float32 numbers as bytes, without alignment. */
void face_embed_write(const char *model, uint32_t index, struct slice vector, bool is_base64,
                      struct buffer *out);
