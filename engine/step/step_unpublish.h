/* step_unpublish: the end of published prompts, as engine_unpublish asked for it.
 *
 * Owns:     nothing; it ends requests of the domain and drops its pages from the cache.
 * Thread:   engine thread only.
 * Cost:     O(running + waiting) a request of the domain.
 * Not here: pinning a published prompt (step_prefix), how a request ends (step_end).
 */
#pragma once

#include "engine/step/step_state.h"

/* Takes every domain that waits in `unpublished`, before the first look of a step. */
void step_unpublish(struct step *step);
