/* step_view: what the planner is shown: who runs, who is paused, and a few of those who wait.
 *
 * Owns:     nothing; it fills the step's arrays.
 * Thread:   engine thread only.
 * Cost:     O(running + clients that wait + candidates), tens of microseconds with 10,000 waiting;
 *           under want of pages O(pages of the running) too.
 * Not here: who goes first (scheduler), its execution (step_plan), who follows whom (step_prefix).
 *
 * Of each class, the clients that have had least are shown, with the heads of their queues: no more
 * can come in at one step, and who is left out has had more than all who are shown. Prompts too
 * long to be looked up all in one step are shown as they are looked up, the poorest's first.
 */
#pragma once

#include "engine/step/step_state.h"

enum {
    STEP_VIEW_CLIENTS = 32, /* of a class, and requests of a class when there are so many */
    STEP_VIEW_CANDIDATES = SERVICE_CLASS_COUNT * STEP_VIEW_CLIENTS + LIMIT_CHOICES,
    /* Requests of a client's queue that are looked at for those who do not follow another. */
    STEP_VIEW_DEPTH = 256,
};

void step_view(struct step *step, struct scheduler_input *input);
