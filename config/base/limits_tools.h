/* limits_tools: bounds of tools and of what a model writes about them.
 *
 * Owns:     every number that bounds tools and calls, with its reason.
 * Not here: bounds of requests (limits).
 */
#pragma once

#define LIMIT_TOOLS           128 /* of a request, as in the OpenAI schema */
#define LIMIT_TOOL_NAME_BYTES 64  /* as in the OpenAI schema */
#define LIMIT_CALLS           128 /* of an answer; what opens like a further one is content */
/* Held of a call before its name is known, and of a parameter whose type is not known yet. */
#define LIMIT_CALL_HELD_BYTES (64 * 1024)
