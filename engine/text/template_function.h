/* template_function: the functions that every template can call (template_functions.def).
 *
 * Owns:     nothing; the run owns the values.
 * Thread:   that of the run.
 * Cost:     a range costs its length; charged to the run.
 * Not here: macros (chat_template_eval), methods (template_method).
 */
#pragma once

#include "engine/text/template_call.h"

enum { TEMPLATE_FUNCTION_NONE = UINT32_MAX };

/* The number of a function, or TEMPLATE_FUNCTION_NONE. */
uint32_t template_function_find(struct slice name);
/* INVALID for wrong arguments, and always from raise_exception, with the template's words. */
enum status template_function_call(struct template_run *run, uint32_t function,
                                   const struct template_call *call, struct template_value *out);
