/* chat_template_eval: runs a program over the messages of one request.
 *
 * Owns:     the values of one run, on the heap, freed at its end.
 * Thread:   any; the program is shared and not changed.
 * Cost:     at most LIMIT_TEMPLATE_STEPS steps (an instruction is one, and so are 256 bytes copied
 *           or compared); LIMIT_TEMPLATE_OUTPUT_BYTES of output; no recursion.
 * Not here: syntax (chat_template_parser).
 *
 * A string is a list of pieces. Each piece points into the program or the request and knows which
 * of the two; joining strings joins lists. So the origin of each byte of output is known, and
 * content is copied only into the output.
 */
#pragma once

#include "engine/text/chat_template_code.h"
#include "engine/text/chat_template_types.h"

/* As chat_template_render, for a program. Sets `steps` (may be NULL) to the steps taken. */
enum status chat_template_eval_run(const struct chat_template_program *program,
                                   const struct chat_template_args *args, struct buffer *out,
                                   struct tokenizer_span *spans, size_t span_capacity,
                                   size_t *span_count, uint64_t *steps);
