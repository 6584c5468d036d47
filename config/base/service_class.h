/* service_class: how urgent a request is: the list of classes, their names and their tiers.
 *
 * Owns:     the enum and each class's two names (service_class.def).
 * Thread:   any; constants.
 * Cost:     a walk over three names.
 * Not here: what a class gets (engine/scheduler), who may ask for which (auth/tenants/tenant).
 */
#pragma once

#include <stdbool.h>

#include "config/base/slice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most urgent class comes first, so `a < b` means "a is more urgent than b". */
enum service_class {
#define CLASS(name, NAME, tier) SERVICE_CLASS_##NAME,
#include "config/base/service_class.def"
#undef CLASS
    SERVICE_CLASS_COUNT
};

/* Returns the name that logs, metrics, headers and the config API use, such as "realtime". */
const char *service_class_name(enum service_class service_class);

/* Returns the value of `service_tier` in an answer, such as "priority". */
const char *service_class_tier(enum service_class service_class);

/* Return false, and leave `out` untouched, when no class has that name or tier. */
bool service_class_from_name(struct slice name, enum service_class *out);
bool service_class_from_tier(struct slice tier, enum service_class *out);

/* The least urgent class. */
enum { SERVICE_CLASS_LOWEST = SERVICE_CLASS_COUNT - 1 };

/* Returns the class `by` steps less urgent, at most the least urgent one. */
enum service_class service_class_lower(enum service_class service_class, uint32_t by);

#ifdef __cplusplus
}
#endif
