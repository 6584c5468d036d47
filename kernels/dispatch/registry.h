/* registry: the tables of this build, best first, and the choice among them.
 *
 * Owns:     nothing; tables are constants.
 * Thread:   any.
 * Cost:     asks the processor, and the driver if there is one, at each call: at start only.
 * Not here: what a table does (cpu/<isa>, cuda).
 */
#pragma once

#include "config/base/status.h"
#include "kernels/cpu/table.h"
#include "kernels/kernels_ops.h"

/* Returns whether `isa` names no table: NULL or "auto". */
bool registry_is_auto(const char *isa);
/* Chooses a table by name, or for NULL and "auto" the best that runs here: a device, if there is
 * one. Beside a device's operations, *table is the best of the processor's tables. UNSUPPORTED
 * names what is missing: the table in the build, or the features in the machine. */
enum status registry_choose(const struct kernels_ops **ops, const struct kernel_table **table,
                            const char *isa);

/* Returns NULL when this build has no such table for the processor. */
const struct kernel_table *registry_find(const char *isa);
bool registry_can_run(const char *isa);

const char *const *registry_names(void);
