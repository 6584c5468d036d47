/* loop_h2o: the loop under struct loop, for the few files that use libh2o.
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     –
 * Not here: anything else about loops (loop).
 */
#pragma once

#include "gateway/http/h2o_compat.h"
#include "gateway/http/loop.h"

h2o_loop_t *loop_h2o(struct loop *loop);
/* One turn outside loop_run, waiting at most `wait_ms`: for taking things down in order. */
void loop_h2o_turn(struct loop *loop, uint32_t wait_ms);
