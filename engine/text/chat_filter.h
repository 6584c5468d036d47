/* chat_filter: the functions of the filters in chat_filters.def.
 *
 * Owns:     nothing; the run owns the values.
 * Thread:   that of the run.
 * Cost:     a filter charges the run for the bytes that it reads (chat_template_run_charge).
 * Not here: finding a filter by its name (chat_template_parser), calling it (chat_template_eval).
 */
#pragma once

#include "engine/text/chat_template_run.h"

/* Sets `out` to `value | name`. INVALID for a value that the filter does not take. */
#define CHAT_FILTER(NAME, name)                                                                    \
    enum status chat_filter_##name(struct eval *eval, struct eval_value value,                     \
                                   struct eval_value *out);
#include "engine/text/chat_filters.def"
#undef CHAT_FILTER
