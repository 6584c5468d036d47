/* chat_filter: what each row of chat_filters.def does with a value.
 *
 * Owns:     nothing; values are the run's.
 * Thread:   that of the run.
 * Cost:     a filter charges the run for the bytes that it reads (chat_template_run_charge).
 * Not here: finding a filter by its name (chat_template_parser), calling it (chat_template_eval).
 */
#pragma once

#include "engine/text/chat_template_run.h"

/* `out` is what `value | name` is. INVALID for a value that the filter does not take. */
#define CHAT_FILTER(NAME, name)                                                                    \
    enum status chat_filter_##name(struct eval *eval, struct eval_value value,                     \
                                   struct eval_value *out);
#include "engine/text/chat_filters.def"
#undef CHAT_FILTER
