/* template_sort: the order of values, as Python's sort puts them: stable, also when reversed.
 *
 * Owns:     nothing; orders are the run's memory.
 * Thread:   that of the run.
 * Cost:     O(n log n) comparisons, charged to the run.
 * Not here: the order of two values (template_value).
 */
#pragma once

#include "engine/text/template_value.h"

/* Sets `*order` to the indices of `keys` in their order. INVALID for keys that have none. */
enum status template_sort_order(struct template_run *run, const struct template_value *keys,
                                uint32_t count, bool is_reverse, uint32_t **order);
/* A dict with its keys in order. */
enum status template_sort_pairs(struct template_run *run, struct template_value dict,
                                struct template_value *out);
