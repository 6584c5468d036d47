/* limits_tools: bounds of tools, of what a model writes about them, and of how an answer ends.
 *
 * Owns:     every number that bounds tools, calls and stop tokens, with its reason.
 * Not here: other bounds of requests (limits).
 */
#pragma once

#define LIMIT_TOOLS           128 /* of a request, as in the OpenAI schema */
#define LIMIT_TOOL_NAME_BYTES 64  /* as in the OpenAI schema */
#define LIMIT_STOP_TOKENS     32  /* `stop_token_ids`; each is compared with each token */
#define LIMIT_CALLS           128 /* of an answer; what opens like a further one is content */
/* Held of a call before its name is known, and of a parameter whose type is not known yet. */
#define LIMIT_CALL_HELD_BYTES (64 * 1024)
