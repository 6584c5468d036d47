/* ask_block: memory that lives as long as the request that was read into it.
 *
 * Owns:     a list of blocks, freed all at once.
 * Thread:   one at a time.
 * Cost:     one allocation for each block.
 * Not here: what is put into the blocks (ask, ask_messages).
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "config/base/slice.h"
#include "config/base/status.h"

/* Memory for `count` items of `size` bytes, aligned for any type, not zeroed; NULL when there is
 * none. `*blocks` is the list, NULL at first. */
void *ask_block_take(void **blocks, size_t count, size_t size);
/* Puts a copy of a text into the blocks. NO_MEMORY. */
enum status ask_block_copy(struct slice text, void **blocks, struct slice *out);
/* Puts a value's JSON text into the blocks. NO_MEMORY. */
enum status ask_block_json(const json_t *value, void **blocks, struct slice *out);
void ask_block_free(void *blocks);
