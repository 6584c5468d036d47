/* chat_template_parser: template source → program.
 *
 * Owns:     the parser's own state; the caller owns the program.
 * Thread:   one, at start.
 * Cost:     O(bytes); no recursion: a stack of operators for expressions, a stack for statements.
 * Not here: tags and white space (chat_template_lexer), running (chat_template_eval).
 *
 * The subset:
 *
 *     statements   for · if, elif, else · set · {{ … }} · raise_exception(…)
 *     values       literals · names · x['k'] · x[0] · x.k
 *     operators    == != < <= > >= · in, not in · + - % ~ · and, or, not
 *     tests        is, is not: defined, undefined, none, string
 *     filters      those of chat_filters.def
 *     loops        loop.first .last .index .index0 .length
 *
 * Everything else is refused here, by name and line, so a template that compiles has no unknown
 * construct.
 */
#pragma once

#include "engine/text/chat_template_code.h"

/* `source` is borrowed for the call and has \n as its only newline. Errors as
 * chat_template_compile; after a failure nothing is left to free. */
enum status chat_template_parser_run(struct chat_template_program *out, struct slice source);
void chat_template_parser_free(struct chat_template_program *program);
