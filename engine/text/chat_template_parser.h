/* chat_template_parser: template source → program.
 *
 * Owns:     what it is making; the program is the caller's.
 * Thread:   one, at start.
 * Cost:     O(bytes); no recursion: expressions by a stack of operators, statements by a stack.
 * Not here: tags and white space (chat_template_lexer), running (chat_template_eval).
 *
 * for · if/elif/else · set · {{ … }} · literals · names · x['k'] x[0] x.k · == != < <= > >= in,
 * not in · + - % ~ · and or not · is (not) defined, undefined, none, string · |trim |length ·
 * loop.first .last .index .index0 .length · raise_exception(…). Everything else is refused here,
 * by name and line, so that a template which compiles has no construct left to be surprised by.
 */
#pragma once

#include "engine/text/chat_template_code.h"

/* `source` is borrowed for the call; its newlines are \n. On failure nothing is left to free. */
enum status chat_template_parser_run(struct chat_template_program *out, struct slice source);
void chat_template_parser_free(struct chat_template_program *program);
