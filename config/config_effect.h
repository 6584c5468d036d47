/* config_effect: finds options that have no effect beside others.
 *
 *   beside --upstream   the options of a model of our own: groups "Model" and "Engine"
 *   without --upstream  the options of a foreign server: group "Foreign engine"
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over the options.
 * Not here: reading options (config).
 */
#pragma once

#include <stddef.h>

#include "config/base/status.h"
#include "config/config_types.h"

/* INVALID, with the option as param, for a flag without effect: whoever wrote it expects one.
 * `without` gets the names of options from file and environment that have none, separated by
 * commas, as far as there is room: those sources may be shared by several servers. */
enum status config_effect_check(const struct config *config, char *without, size_t capacity);
