/* scheduler_turn: in which order a plan goes through the sequences it is shown.
 *
 * Owns:     nothing; writes marks, levels and scratch of scheduler_fair, and turns of the plan.
 * Thread:   any; pure.
 * Cost:     O(running clients × waiting clients + sequences²) with small constants.
 * Not here: what they get (scheduler), whose pages they take (scheduler_take).
 *
 * The order is by class; then clients that are not over before those that are, and of the latter
 * those that have reached their limit last; then sequences with pages before those without. Among
 * sequences with pages: every client's first sequence, then every client's second, by weight, so
 * that the sequences of a step are divided fairly when there are too many. Among sequences without
 * pages: least service first. Then by age.
 */
#pragma once

#include "engine/scheduler/scheduler_take.h"

/* Begins a plan: finds which clients want service and which are over, sets levels and the order. */
void scheduler_turn_begin(struct scheduler_state *state);

/* Key of one more sequence with rows of this one's client: its sequences with rows / weight. */
double scheduler_turn_key(const struct scheduler_state *state, uint32_t index);

/* Whether the client of a waiting sequence may have one slot more. */
bool scheduler_turn_has_place(const struct scheduler_state *state, uint32_t index);

/* The waiting sequence that is admitted next, of a class and of clients that are over or not; its
 * index counts after the running ones. SCHEDULER_NONE when none may be admitted. Only clients whose
 * key is below `key` count, and with `is_first` only those that hold no pages.
 *
 * Of the clients with a positive deficit it is the one with the longest prefix in the cache; of a
 * client, first a request that was passed too often. If no client has a positive deficit, the level
 * is raised for this choice only. */
uint32_t scheduler_turn_candidate(const struct scheduler_state *state,
                                  enum service_class service_class, bool is_over, double key,
                                  bool is_first);
