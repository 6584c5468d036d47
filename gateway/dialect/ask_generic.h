/* ask_generic: shows tools, calls and results to a model whose template has no place for them.
 *
 * Owns:     nothing; the messages that it makes are in the ask's blocks.
 * Thread:   any.
 * Cost:     O(bytes of tools and messages).
 * Not here: reading the calls that the model then writes (engine/answer, the format "generic").
 *
 *   tools      behind the system message, or a system message of their own
 *   a call     in the assistant's text: <tool_call>\n{"name":…,"arguments":…}\n</tool_call>
 *   a result   a turn of the user: <tool_response>\n…\n</tool_response>; results that follow each
 *              other are one turn
 */
#pragma once

#include "gateway/dialect/ask_types.h"

/* Whether the model is one, and the request has tools, or calls or results in its messages. */
bool ask_generic_is_needed(const struct ask *ask);
/* Replaces the messages. NO_MEMORY; LIMIT when they become longer than a body may be. */
enum status ask_generic_apply(struct ask *ask);
