/* choice: a list of texts, one of which is the whole answer.
 *
 * Owns:     nothing; the rules belong to the builder.
 * Thread:   that of the builder.
 * Cost:     a step of fuel for each byte.
 * Not here: which field of a request names it (gateway/dialect).
 */
#pragma once

#include "config/base/slice.h"
#include "engine/grammar/grammar.h"

/* Sets `*start` to a symbol that matches one of the texts; the caller calls grammar_finish.
 * `source` is a JSON array of 1 to LIMIT_CHOICE_TEXTS strings; the empty text is allowed. On
 * failure status_note() has the sentence, which does not quote the source:
 *   INVALID  it is no such array
 *   LIMIT    more texts
 *   CANCELLED, NO_MEMORY; LIMIT when out of fuel */
enum status choice_build(struct grammar_builder *builder, struct slice source,
                         grammar_symbol *start);
