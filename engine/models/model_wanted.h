/* model_wanted: which of the rows with logits read the same pages.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(rows × log logit_rows).
 * Not here: groups of all rows (batch.c), the last layer's computation of these rows (models/).
 */
#pragma once

#include <stdbool.h>

#include "engine/models/model_types.h"

/* Reduces batch->groups to the rows of logit_row, each named by its index there: `order` and
 * `shared` [logit_rows], as in struct attention_groups. False when no two of them have pages in
 * common, or logit_row does not rise. */
bool model_wanted_groups(const struct model_batch *batch, uint32_t *order, uint32_t *shared);
