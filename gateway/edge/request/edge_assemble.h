/* edge_assemble: the frames of a stream → one chat.completion, text_completion or generation
 * object.
 *
 * Owns:     what has been collected, bounded by LIMIT_ASSEMBLED_BYTES.
 * Thread:   one at a time.
 * Cost:     O(bytes); text, log-probabilities and ids are spliced as the engine wrote them.
 * Not here: frames' framing and the count (edge_stream).
 */
#pragma once

#include <stdbool.h>

#include "gateway/edge/engines/edge_stream.h"

struct edge_assemble;

enum status edge_assemble_create(struct edge_assemble **out, enum edge_stream_form form);
void edge_assemble_destroy(struct edge_assemble *assemble);
/* One frame: its object without the opening brace. LIMIT when all of it has become too long. */
enum status edge_assemble_add(struct edge_assemble *assemble, struct slice rest);
/* Its service_tier from now on is that of the class. */
void edge_assemble_set_class(struct edge_assemble *assemble, enum service_class service_class);
/* Memory that it holds. */
size_t edge_assemble_bytes(const struct edge_assemble *assemble);
/* Whether a first frame has come: then no fallback is needed. */
bool edge_assemble_has_head(const struct edge_assemble *assemble);
/* Appends the whole object. `fallback` ("\"id\":…,\"created\":…,\"model\":…,") stands for the
 * members that a first frame would have brought, when no frame has come. */
enum status edge_assemble_render(const struct edge_assemble *assemble,
                                 const struct edge_final *final, struct slice fallback,
                                 struct buffer *out);
