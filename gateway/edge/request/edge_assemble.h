/* edge_assemble: joins the frames of a stream to one chat.completion, text_completion or generation
 * object, or to a list of embeddings.
 *
 * Owns:     what has been collected, at most edge_assemble_most().
 * Thread:   one at a time.
 * Cost:     O(bytes); text, log-probabilities and ids are spliced as the engine wrote them.
 * Not here: finding frames in the stream, and the token count (edge_stream).
 */
#pragma once

#include <stdbool.h>

#include "gateway/edge/engines/edge_stream.h"

struct edge_assemble;

/* Bytes that all frames of an answer have at most. */
size_t edge_assemble_most(enum edge_stream_form form);
/* NO_MEMORY. */
enum status edge_assemble_create(struct edge_assemble **out, enum edge_stream_form form);
void edge_assemble_destroy(struct edge_assemble *assemble);
/* Adds one frame: its JSON object without the opening brace. LIMIT when all frames together are
 * longer than that; PROTOCOL when the frame is not what an engine sends;
 * NO_MEMORY. */
enum status edge_assemble_add(struct edge_assemble *assemble, struct slice rest);
/* Changes the answer's service_tier to that of the class. */
void edge_assemble_set_class(struct edge_assemble *assemble, enum service_class service_class);
/* Bytes of memory that it holds. */
size_t edge_assemble_bytes(const struct edge_assemble *assemble);
/* Whether a frame has brought id, created and model; then no fallback is needed. */
bool edge_assemble_has_head(const struct edge_assemble *assemble);
/* Appends the complete object. When no frame has come, `fallback`
 * ("\"id\":…,\"created\":…,\"model\":…,") replaces the members of the first frame. */
enum status edge_assemble_render(const struct edge_assemble *assemble,
                                 const struct edge_final *final, struct slice fallback,
                                 struct buffer *out);
