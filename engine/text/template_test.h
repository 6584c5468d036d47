/* template_test: the tests behind `is` (template_tests.def).
 *
 * Owns:     nothing.
 * Thread:   that of the run.
 * Cost:     that of a comparison at most, charged to the run.
 * Not here: finding a test while a template is compiled (template_expression).
 */
#pragma once

#include "engine/text/template_call.h"

enum { TEMPLATE_TEST_NONE = UINT32_MAX };

/* The number of a test, or TEMPLATE_TEST_NONE. */
uint32_t template_test_find(struct slice name);
/* Whether `value is test(arguments)`. INVALID for wrong arguments. */
enum status template_test_call(struct template_run *run, uint32_t test, struct template_value value,
                               const struct template_call *call, bool *out);
