/* chat_template_parser: template source → program.
 *
 * Owns:     the parser's own state; the caller owns the program.
 * Thread:   one, at start.
 * Cost:     O(bytes); statements nest on a stack of their own.
 * Not here: tags and white space (chat_template_lexer), expressions (template_expression),
 *           running (chat_template_eval).
 *
 * All of Jinja that chat templates use:
 *
 *     statements   if, elif, else · for with if and else, break, continue · set, also of a block
 *                  and of a namespace's attribute · macro · call · filter · generation · {{ … }}
 *     expressions  all operators, tests, filters, slices, calls, literals (template_expression)
 *     tables       template_filters.def, template_tests.def, template_methods.def,
 *                  template_functions.def
 *
 * Everything else is refused here, by name and line, so a template that compiles has no unknown
 * construct: inheritance and includes, `with`, `do`, recursive loops, `*` before arguments, macros
 * inside of other statements than if.
 */
#pragma once

#include "engine/text/chat_template_code.h"

/* `source` is borrowed for the call and has \n as its only newline. Errors as
 * chat_template_compile; after a failure nothing is left to free. */
enum status chat_template_parser_run(struct chat_template_program *out, struct slice source);
void chat_template_parser_free(struct chat_template_program *program);
