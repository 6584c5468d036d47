/* template_method: the methods of strings and mappings (template_methods.def), and the attributes
 * that values have.
 *
 * Owns:     nothing; the run owns the values.
 * Thread:   that of the run.
 * Cost:     charged to the run by the bytes touched.
 * Not here: filters (template_filter), what a loop knows (chat_template_eval).
 */
#pragma once

#include "engine/text/template_call.h"

/* Whether any kind of value has a method of this name. */
bool template_method_is_known(struct slice name);
/* value.name: a method, the value of a key, or undefined. INVALID for an undefined value. */
enum status template_method_attribute(struct template_run *run, struct template_value value,
                                      struct slice name, struct template_value *out);
enum status template_method_call(struct template_run *run, struct template_value method,
                                 const struct template_call *call, struct template_value *out);
