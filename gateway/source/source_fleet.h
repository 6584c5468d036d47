/* source_fleet: the engines of this process as a source.
 *
 * Owns:     the source; not the fleet.
 * Thread:   the loop's.
 * Cost:     beside the fleet's own: an event is copied once.
 * Not here: text services and published prompts, which ask the fleet itself (face_text,
 *           face_prompt).
 */
#pragma once

#include "engine/fleet.h"
#include "gateway/source/source.h"

/* NO_MEMORY. `fleet` must outlive the source. */
enum status source_fleet_open(struct source **out, struct fleet *fleet);
