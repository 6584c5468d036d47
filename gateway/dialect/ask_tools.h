/* ask_tools: the tools of a request, and which of them the answer may call.
 *
 * Owns:     nothing; what it makes is the ask's.
 * Thread:   any.
 * Cost:     O(bytes of the tools).
 * Not here: how a model writes calls (engine/answer), showing tools to a model whose template has
 *           no place for them (ask_generic).
 */
#pragma once

#include "gateway/dialect/ask_types.h"

/* Once all fields are read: checks the choice against the tools, decides whether the answer is
 * split, and gives the tools to the template. */
enum status ask_tools_check(struct ask *ask);

/* Whether the answer may call tool `index`. */
bool ask_tools_allows(const struct ask_tools *tools, size_t index);
/* The name of tool `index`. */
struct slice ask_tools_name(const struct ask_tools *tools, size_t index);
/* For answer_tools; `context` is the buffer ask_tools.lines. */
bool ask_tools_has(void *context, struct slice tool);
bool ask_tools_is_text(void *context, struct slice tool, struct slice parameter);
