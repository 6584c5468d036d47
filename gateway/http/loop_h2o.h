/* loop_h2o: the loop under struct loop, for the few files that use libh2o.
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     –
 * Not here: anything else about loops (loop).
 */
#pragma once

#include "gateway/http/h2o_compat.h"

struct loop;

h2o_loop_t *loop_h2o(struct loop *loop);
/* One turn outside loop_run, waiting at most `wait_ms`: for taking things down in order. */
void loop_h2o_turn(struct loop *loop, uint32_t wait_ms);
/* libh2o measures time with the wall clock. When that steps back, what is to run now would wait for
 * the clock to come by again; this moves such entries to the present. Called by the loop itself. */
void loop_h2o_forgive_clock(struct loop *loop);
