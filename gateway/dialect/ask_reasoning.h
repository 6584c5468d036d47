/* ask_reasoning: how much a model shall reason and write, as variables of its template.
 *
 * Owns:     nothing; what it makes is in the ask's blocks.
 * Thread:   any.
 * Cost:     O(bytes of the variables).
 * Not here: reading reasoning in the answer (engine/answer).
 *
 *   reasoning_effort   reasoning_effort and enable_thinking (false for "none"), as far as the
 *                      template reads them; a template without both takes "none" alone
 *   verbosity          the same; without it "medium" alone
 * What the client gives in chat_template_kwargs goes first.
 */
#pragma once

#include "gateway/dialect/ask_types.h"

/* Once all fields are read: checks both, and gives the template its variables. */
enum status ask_reasoning_check(struct ask *ask);
