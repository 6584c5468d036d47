/* template_call: the arguments of a filter, test, method, function or macro.
 *
 * Owns:     nothing; arguments lie on the evaluator's stack.
 * Thread:   that of the run.
 * Cost:     a comparison of names for each named argument.
 * Not here: what is called (template_filter, template_test, template_method, template_function).
 */
#pragma once

#include "engine/text/template_value.h"

enum { TEMPLATE_CALL_PARAMS = 4 };

struct template_call {
    const struct template_value *values; /* [count] by position */
    uint32_t count;
    uint32_t named_count;
    const struct template_value *named; /* name, value, name, value … */
};

struct template_args {
    struct template_value value; /* what the filter, test or method is applied to */
    struct template_value at[TEMPLATE_CALL_PARAMS]; /* TEMPLATE_ABSENT when not given */
    const struct template_call *call;
};

/* Puts arguments into the order of `params`, words with a blank between two. "*" takes any and
 * leaves them in the call. INVALID for one too many, or a name that is not among them. */
enum status template_call_bind(struct template_run *run, const struct template_call *call,
                               struct template_value value, const char *params,
                               struct template_args *out);
/* An argument that must be a whole number, `missing` when it is absent or none. */
enum status template_call_integer(struct template_run *run, struct template_value value,
                                  int64_t missing, int64_t *out);
/* The value of a named argument, or NULL. */
const struct template_value *template_call_named(const struct template_run *run,
                                                 const struct template_call *call,
                                                 const char *name);
