/* chat_template: the model's own chat template, in a bounded subset of Jinja, interpreted.
 *
 * Owns:     the parsed template.
 * Thread:   compiled at start; rendered from any thread.
 * Cost:     bounded: LIMIT_TEMPLATE_STEPS steps, LIMIT_TEMPLATE_OUTPUT_BYTES of output.
 * Not here: tokens (tokenizer). Only listed attributes and filters can be used.
 */
#pragma once

#include "config/base/slice.h"
#include "engine/text/chat_template_types.h"

struct chat_template;

/* Compiles a template. UNSUPPORTED names construct and line ("line 3: filter 'tojson' is not
 * supported"); CORRUPT for wrong syntax, LIMIT when it is too large, NO_MEMORY. */
enum status chat_template_compile(struct chat_template **out, struct slice source);
void chat_template_destroy(struct chat_template *chat_template);

/* Whether the template can write these bytes by itself: they are inside one of its literals, or
 * made of the end of one, whole ones, and the beginning of another. It may be true of bytes that no
 * message makes it write. */
bool chat_template_writes(const struct chat_template *chat_template, struct slice text);

/* Renders into `out`, and lists the spans that are the template's own text, in rising order
 * and joined where they touch: control tokens may be matched only there. `spans` has room
 * for `span_capacity`; LIMIT beyond. INVALID when the template raises an exception or
 * misuses a value. */
enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_template_args *args, struct buffer *out,
                                 struct tokenizer_span *spans, size_t span_capacity,
                                 size_t *span_count);
