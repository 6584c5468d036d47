/* radix_model: a second implementation of the prefix trees: a list of whole paths, searched one by
 * one.
 *
 * Owns:     the tree and the list while it runs.
 * Thread:   one.
 * Cost:     O(entries²) an operation, with few entries.
 * Not here: where the choices come from (random numbers in tests, bytes in the fuzz target).
 */
#pragma once

#include <stdint.h>

/* Makes a small tree and does up to `operations` with it. Compares the results with the list and
 * checks the tree after each. Takes all choices from `draw`, which returns a number below `bound`.
 * Returns NULL, or a text that names the difference; `*done` is the number of operations done. */
const char *radix_model_run(uint32_t (*draw)(void *context, uint32_t bound), void *context,
                            uint32_t operations, uint32_t *done);
