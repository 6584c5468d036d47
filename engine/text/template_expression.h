/* template_expression: expressions of a template → instructions that leave a value on the stack.
 *
 * Owns:     nothing.
 * Thread:   one, at start.
 * Cost:     O(bytes). It recurses with the nesting of an expression, at most LIMIT_TEMPLATE_DEPTH
 *           levels, which take less than 64 KiB of stack.
 * Not here: statements (chat_template_parser), names and instructions (template_compile).
 *
 * The grammar is that of jinja2 without * and ** before arguments.
 */
#pragma once

#include "engine/text/template_compile.h"

/* One expression; `has_if` allows "a if b else c". */
enum status template_expression_parse(struct template_compile *compile, bool has_if);
/* The same, or several with commas, which make a tuple. */
enum status template_expression_list(struct template_compile *compile, bool has_if);
/* Filters, as they stand behind a value that is on the stack: "| upper | trim". Without a `|` in
 * front of the first one if `is_open`. */
enum status template_expression_filters(struct template_compile *compile, bool is_open);
