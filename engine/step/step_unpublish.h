/* step_unpublish: ends published prompts, as engine_unpublish asked for.
 *
 * Owns:     nothing; it ends requests of the domain and drops its pages from the cache.
 * Thread:   engine thread only.
 * Cost:     O(running + waiting) for each request of the domain.
 * Not here: pinning a published prompt (step_prefix), how a request ends (step_end).
 */
#pragma once

#include "engine/step/step_state.h"

/* Takes every domain that waits in `unpublished`. Called before the first lookup of a step. */
void step_unpublish(struct step *step);
