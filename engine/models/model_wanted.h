/* model_wanted: which rows that want logits read the same pages.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(rows × log wanted rows).
 * Not here: groups of all rows (batch.c); what the last layer computes of the wanted (models/).
 */
#pragma once

#include <stdbool.h>

#include "engine/models/model_types.h"

/* What is left of batch->groups when only the rows of logit_row stay, each by its place there:
 * `order` and `shared` [logit_rows], as struct attention_groups has them. False: no two have pages
 * in common, or logit_row does not rise. */
bool model_wanted_groups(const struct model_batch *batch, uint32_t *order, uint32_t *shared);
