/* scheduler_turn: in which order a plan goes through those it is shown.
 *
 * Owns:     nothing; writes marks, levels and scratch of scheduler_fair, and turns of the plan.
 * Thread:   any; pure.
 * Cost:     O(clients running × clients waiting + sequences²) with small constants.
 * Not here: what they get (scheduler), whose pages they take (scheduler_take).
 *
 * By class; those not over before those over, and of these who has had all that it may last; those
 * with pages before those without. With pages:
 * every client's first sequence, then every client's second, by weight, so that places in a step
 * are shared out fairly where they are short. Without: who has had least. Then by age.
 */
#pragma once

#include "engine/scheduler/scheduler_take.h"

/* At the start of a plan: who wants more, levels, who is over, the order. */
void scheduler_turn_begin(struct scheduler_state *state);

/* The key that the next sequence of this one's client would have among those with rows. */
double scheduler_turn_key(const struct scheduler_state *state, uint32_t index);

/* Whether there is a place in the table for one more of a waiting sequence's client. */
bool scheduler_turn_has_place(const struct scheduler_state *state, uint32_t index);

/* The waiting sequence of a class, of clients that are over or not, to be admitted next, as index
 * behind those running; SCHEDULER_NONE when no more may be. Only clients whose key is below `key`,
 * and with `is_first` those alone that hold no pages, whose first prompt it is.
 * Longest match of those with a positive deficit, first of its client when it was passed by too
 * often; as if the level rose when nobody is positive. */
uint32_t scheduler_turn_candidate(const struct scheduler_state *state,
                                  enum service_class service_class, bool is_over, double key,
                                  bool is_first);
