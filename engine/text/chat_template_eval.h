/* chat_template_eval: runs a program over what one request brings.
 *
 * Owns:     the values of one run, on the heap, freed at its end.
 * Thread:   any; the program is shared and not changed.
 * Cost:     at most LIMIT_TEMPLATE_STEPS steps (an instruction is one, and so are 256 bytes copied
 *           or compared), LIMIT_TEMPLATE_OUTPUT_BYTES of output, LIMIT_TEMPLATE_VALUE_BYTES of
 *           values, LIMIT_TEMPLATE_CALLS macros inside each other. No recursion.
 * Not here: syntax (chat_template_parser), what values are (template_value).
 *
 * A string is a list of pieces. Each piece points into the program, the request or the run, and
 * knows whether the template or a client wrote it; joining strings joins lists. So the origin of
 * each byte of output is known.
 */
#pragma once

#include "engine/text/chat_template_code.h"
#include "engine/text/chat_template_types.h"

/* As chat_template_render, for a program. Sets `steps` (may be NULL) to the steps taken. */
enum status chat_template_eval_run(const struct chat_template_program *program,
                                   const struct chat_template_args *args,
                                   struct chat_template_text *out, uint64_t *steps);
