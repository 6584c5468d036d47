/* pool_copy: a request that outlives the body it was read from, so that it can be sent again.
 *
 * Owns:     one block with all texts of the request.
 * Thread:   any.
 * Cost:     one allocation and one copy.
 * Not here: who sends it again, and when (pool).
 */
#pragma once

#include "engine/engine.h"

struct pool_copy;

/* NO_MEMORY. */
enum status pool_copy_create(struct pool_copy **out, const struct engine_request *from);
void pool_copy_destroy(struct pool_copy *copy);
const struct engine_request *pool_copy_request(const struct pool_copy *copy);
