/* edit_distance: how many letters must change to make one name of another.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(length × length), no allocation.
 * Not here: which names there are (config_option, gateway/cli).
 */
#pragma once

#include "config/base/slice.h"

enum { EDIT_DISTANCE_NAME_BYTES = 64 };

/* Levenshtein's distance of `name` (shorter than EDIT_DISTANCE_NAME_BYTES) and `wanted` (any),
 * where `fold` (may be NULL) says what a character of `wanted` counts as. */
size_t edit_distance(const char *name, struct slice wanted, char (*fold)(char c));
