/* registry: the tables of this build, best first, and the choice among them.
 *
 * Owns:     nothing; tables are constants.
 * Thread:   any.
 * Cost:     asks the processor at each call: at start only.
 * Not here: what a table does (cpu/<isa>).
 */
#pragma once

#include "config/base/status.h"
#include "kernels/cpu/table.h"

/* By name, or the best one that runs here for NULL and "auto". UNSUPPORTED names what is missing:
 * the table in the build, or the features in the machine. */
enum status registry_choose(const struct kernel_table **out, const char *isa);

/* NULL when there is no such table in this build. */
const struct kernel_table *registry_find(const char *isa);

const char *const *registry_names(void);
