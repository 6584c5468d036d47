/* template_input: what a request brings, as values of a template.
 *
 * Owns:     nothing; values are the run's, strings without escapes point into the request.
 * Thread:   that of the run.
 * Cost:     O(bytes of the JSON), charged to the run; no recursion.
 * Not here: reading JSON itself (config/base/json_read), refusing a request's fields (the face).
 */
#pragma once

#include "engine/text/chat_template_types.h"
#include "engine/text/template_value.h"

/* One JSON value. `text` must outlive the run. INVALID, TEMPLATE_LIMIT. */
enum status template_input_json(struct template_run *run, struct slice text, bool is_own,
                                struct template_value *out);
/* The list of messages. Arguments of tool calls that are a JSON object in a string become that
 * object, as templates want them. INVALID for a message that is no object. */
enum status template_input_messages(struct template_run *run, const struct chat_template_args *args,
                                    struct template_value *out);
