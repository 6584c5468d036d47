#include "engine/models/arch.h"

static const struct arch ARCHES[] = {
#define ARCH(id, of_classes, of_features, ...)                                                     \
    {.name = id, .classes = of_classes, .features = of_features, __VA_ARGS__},
#include "engine/models/arch.def"
#undef ARCH
};
enum { ARCH_COUNT = sizeof ARCHES / sizeof ARCHES[0] };

const struct arch *arch_find(struct slice name)
{
    for (uint32_t i = 0; i < ARCH_COUNT; i++)
        if (slice_is(name, ARCHES[i].name))
            return &ARCHES[i];
    return NULL;
}

const struct arch *arch_at(uint32_t index)
{
    return index < ARCH_COUNT ? &ARCHES[index] : NULL;
}
