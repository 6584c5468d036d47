/* service_class: how urgent a request is: the list of classes, their names and their tiers.
 *
 * Owns:     the enum and its two names each (service_class.def).
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

/* The most urgent first, so that `a < b` reads "a is more urgent than b". */
enum service_class {
#define CLASS(name, NAME, tier) SERVICE_CLASS_##NAME,
#include "config/base/service_class.def"
#undef CLASS
    SERVICE_CLASS_COUNT
};

/* "realtime": what logs, metrics, headers and the config API say. */
const char *service_class_name(enum service_class service_class);

/* "priority": what `service_tier` of an answer says. */
const char *service_class_tier(enum service_class service_class);

/* False, and `out` untouched, when no class has that name or tier. */
bool service_class_from_name(struct slice name, enum service_class *out);
bool service_class_from_tier(struct slice tier, enum service_class *out);

/* The least urgent. */
enum { SERVICE_CLASS_LOWEST = SERVICE_CLASS_COUNT - 1 };

/* So many classes less urgent; the least urgent one at most. */
enum service_class service_class_lower(enum service_class service_class, uint32_t by);

#ifdef __cplusplus
}
#endif
