/* step_view: what the scheduler is shown: the running, the preempted, and a few waiting requests.
 *
 * Owns:     nothing; it fills the step's arrays.
 * Thread:   engine thread only.
 * Cost:     O(running + waiting clients + candidates), tens of microseconds with 10,000 waiting;
 *           when pages are scarce also O(pages of the running sequences).
 * Not here: which sequence goes first (scheduler), the execution of its plan (step_plan), which
 *           request follows which (step_prefix).
 *
 * Of each class it shows the clients with the least service, with the first requests of each. One
 * step cannot admit more than these, and every client left out has received more than all clients
 * shown. If the prompts are too long to be looked up in one step, those that have been looked up
 * are shown, beginning with the client of the least service.
 */
#pragma once

#include "engine/step/step_state.h"

enum {
    STEP_VIEW_CLIENTS = 32, /* of a class; also its requests, divided among fewer clients */
    STEP_VIEW_CANDIDATES = SERVICE_CLASS_COUNT * STEP_VIEW_CLIENTS + LIMIT_CHOICES,
    /* Requests of a client that are looked at to find those that do not follow another. */
    STEP_VIEW_DEPTH = 256,
};

/* Fills `input` for scheduler_plan; its arrays are the step's and valid until the next call. */
void step_view(struct step *step, struct scheduler_input *input);
