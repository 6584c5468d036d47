/* edit_distance: how many letters must change to turn one name into another.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(length × length), no allocation.
 * Not here: the list of names to choose from (config_option, gateway/cli).
 */
#pragma once

#include "config/base/slice.h"

enum { EDIT_DISTANCE_NAME_BYTES = 64 };

/* Returns the Levenshtein distance of `name`, shorter than EDIT_DISTANCE_NAME_BYTES, and `wanted`,
 * of any length. `fold`, if not NULL, maps each character of `wanted` before it is compared. */
size_t edit_distance(const char *name, struct slice wanted, char (*fold)(char c));
