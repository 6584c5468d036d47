/* loop_h2o: libh2o's event loop inside struct loop, for the few files that use libh2o.
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     –
 * Not here: what other rooms use of a loop (loop).
 */
#pragma once

#include "gateway/http/h2o_compat.h"

struct loop;

h2o_loop_t *loop_h2o(struct loop *loop);
/* Runs one turn of the loop, which waits for events at most `wait_ms`. loop_run calls it; others
 * call it outside loop_run, to close connections. */
void loop_h2o_turn(struct loop *loop, uint32_t wait_ms);
/* The number of the present turn. A turn begins with timers, and goes on with what has come. */
uint64_t loop_h2o_turns(const struct loop *loop);
/* libh2o measures timeouts with the wall clock. When that steps back, timeouts would be late by the
 * step: this lets those that began in the future begin now. loop_h2o_turn calls it. */
void loop_h2o_forgive_clock(struct loop *loop);
