/* chat_template: the model's own chat template, a bounded subset of Jinja, interpreted.
 *
 * Owns:     the parsed template.
 * Thread:   compiled at start; rendered from any thread.
 * Cost:     bounded: LIMIT_TEMPLATE_STEPS steps, LIMIT_TEMPLATE_OUTPUT_BYTES of output.
 * Not here: tokens (tokenizer). No attribute access, no calls beyond the listed filters.
 */
#pragma once

#include "config/base/slice.h"
#include "engine/text/chat_template_types.h"

struct chat_template;

/* UNSUPPORTED names construct and line: "line 3: filter 'tojson' is not supported". */
enum status chat_template_compile(struct chat_template **out, struct slice source);
void chat_template_destroy(struct chat_template *chat_template);

/* Whether the template can write these bytes by itself: they stand in one of its literals, or the
 * end of one, whole ones and the beginning of another one make them. May say yes of what no message
 * makes it write. */
bool chat_template_writes(const struct chat_template *chat_template, struct slice text);

/* Renders into `out`, and lists the spans that are the template's own text, in rising order and
 * joined where they touch: only there may control tokens be matched. `spans` has room for
 * `span_capacity`; LIMIT beyond. INVALID when the template raises an exception. */
enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_template_args *args, struct buffer *out,
                                 struct tokenizer_span *spans, size_t span_capacity,
                                 size_t *span_count);
