/* chat_template: the model's own chat template: all of Jinja that such templates use, interpreted.
 *
 * Owns:     the parsed template.
 * Thread:   compiled at start; rendered from any thread.
 * Cost:     bounded: LIMIT_TEMPLATE_STEPS steps, LIMIT_TEMPLATE_OUTPUT_BYTES of output and
 *           LIMIT_TEMPLATE_VALUE_BYTES of values.
 * Not here: tokens (tokenizer), how a template is used for a request (prepare).
 */
#pragma once

#include "config/base/slice.h"
#include "engine/text/chat_template_types.h"

struct chat_template;

/* Compiles a template. UNSUPPORTED names construct and line ("line 3: filter 'abc' is not
 * supported"); CORRUPT for wrong syntax, LIMIT when it is too large, NO_MEMORY. */
enum status chat_template_compile(struct chat_template **out, struct slice source);
void chat_template_destroy(struct chat_template *chat_template);

/* Whether the template can write these bytes by itself: they are inside one of its literals, or
 * made of the end of one, whole ones, and the beginning of another. It may be true of bytes that no
 * message makes it write. */
bool chat_template_writes(const struct chat_template *chat_template, struct slice text);

/* Renders a chat. INVALID when the template raises an exception or misuses a value, TEMPLATE_LIMIT
 * when it goes over a bound; messages begin with "chat template, line N: ". The caller frees `out`,
 * also after a failure, when it is empty. */
enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_template_args *args,
                                 struct chat_template_text *out);
void chat_template_text_free(struct chat_template_text *text);
