/* radix_model: the prefix trees told by a list of whole paths, looked up one by one.
 *
 * Owns:     both while it runs.
 * Thread:   one.
 * Cost:     O(entries²) an operation, of few entries.
 * Not here: where the choices come from (random numbers in tests, bytes in the fuzz target).
 */
#pragma once

#include <stdint.h>

/* Makes a small tree and does up to `operations` with it, comparing answers with the list and
 * checking the tree after each. All choices come from `draw`: a number below `bound`. Returns NULL,
 * or what differed; `*done` is the number of operations done. */
const char *radix_model_run(uint32_t (*draw)(void *context, uint32_t bound), void *context,
                            uint32_t operations, uint32_t *done);
