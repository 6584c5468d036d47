/* template_filter: the filters of template_filters.def, those of strings and numbers among them.
 *
 * Owns:     nothing; the run owns the values.
 * Thread:   that of the run.
 * Cost:     a filter charges the run for the bytes that it reads and writes.
 * Not here: finding a filter while a template is compiled (template_expression), the filters of
 *           lists and mappings (template_filter_list).
 *
 * What a filter adds to a string, such as the blanks of indent, is the template's only if the whole
 * string is.
 */
#pragma once

#include "engine/text/template_call.h"

enum { TEMPLATE_FILTER_NONE = UINT32_MAX };

/* Sets `out` to `args->value | name(args->at …)`. INVALID for a value that the filter does not
 * take. */
#define TEMPLATE_FILTER(name, params)                                                              \
    enum status template_filter_##name(struct template_run *run, const struct template_args *args, \
                                       struct template_value *out);
#include "engine/text/template_filters.def"
#undef TEMPLATE_FILTER

/* The number of a filter, or TEMPLATE_FILTER_NONE. */
uint32_t template_filter_find(struct slice name);
enum status template_filter_call(struct template_run *run, uint32_t filter,
                                 struct template_value value, const struct template_call *call,
                                 struct template_value *out);

enum template_filter_case {
    TEMPLATE_FILTER_UPPER,
    TEMPLATE_FILTER_LOWER,
    TEMPLATE_FILTER_TITLE,
    TEMPLATE_FILTER_CAPITALIZE,
};

/* A string in another case, and one in which `old` is replaced; methods have them too. */
enum status template_filter_change(struct template_run *run, struct template_value string,
                                   enum template_filter_case wanted, struct template_value *out);
enum status template_filter_put(struct template_run *run, struct template_value string,
                                struct template_value old, struct template_value new, int64_t most,
                                struct template_value *out);
