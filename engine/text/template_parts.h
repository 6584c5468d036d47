/* template_parts: values compared, and their parts: equality, order, `in`, keys, items, slices.
 *
 * Owns:     nothing; the run owns what values point to.
 * Thread:   that of the run.
 * Cost:     charged to the run by what is compared and copied; no recursion.
 * Not here: making values (template_value), methods (template_method).
 */
#pragma once

#include "engine/text/template_string.h"

/* x == y. */
enum status template_parts_equal(struct template_run *run, struct template_value a,
                                 struct template_value b, bool *is_equal);
/* -1, 0 or 1. INVALID unless both are numbers or both strings. */
enum status template_parts_order(struct template_run *run, struct template_value a,
                                 struct template_value b, int *order);
/* needle in hay. */
enum status template_parts_in(struct template_run *run, struct template_value needle,
                              struct template_value hay, bool *is_in);

/* The value of a dict's or namespace's key, or NULL. */
enum status template_parts_find(struct template_run *run, struct template_value dict,
                                struct template_value key, const struct template_value **out);
enum status template_parts_find_name(struct template_run *run, struct template_value dict,
                                     struct slice name, const struct template_value **out);
/* x[key]; undefined when it has no such part. A method is none. */
enum status template_parts_item(struct template_run *run, struct template_value value,
                                struct template_value key, struct template_value *out);
/* x[from:to:step]; absent parts are TEMPLATE_ABSENT or none. */
enum status template_parts_slice(struct template_run *run, struct template_value value,
                                 const struct template_value parts[3], struct template_value *out);
/* Sets a namespace's attribute. */
enum status template_parts_set(struct template_run *run, struct template_value names,
                               struct template_value name, struct template_value value);

/* The elements that a loop over `value` sees: of a dict its keys, of a string its characters. An
 * iterator is spent by it. INVALID when it cannot be iterated. */
enum status template_parts_elements(struct template_run *run, struct template_value value,
                                    const struct template_value **out, uint32_t *count);
