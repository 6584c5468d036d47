#include "config/base/service_class.h"

static const char *const names[SERVICE_CLASS_COUNT] = {
#define CLASS(name, NAME, tier) #name,
#include "config/base/service_class.def"
#undef CLASS
};

static const char *const tiers[SERVICE_CLASS_COUNT] = {
#define CLASS(name, NAME, tier) tier,
#include "config/base/service_class.def"
#undef CLASS
};

const char *service_class_name(enum service_class service_class)
{
    ASSERT(service_class < SERVICE_CLASS_COUNT);
    return names[service_class];
}

const char *service_class_tier(enum service_class service_class)
{
    ASSERT(service_class < SERVICE_CLASS_COUNT);
    return tiers[service_class];
}

static bool find(const char *const *texts, struct slice text, enum service_class *out)
{
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++)
        if (slice_is(text, texts[i])) {
            *out = (enum service_class)i;
            return true;
        }
    return false;
}

bool service_class_from_name(struct slice name, enum service_class *out)
{
    return find(names, name, out);
}

bool service_class_from_tier(struct slice tier, enum service_class *out)
{
    static const struct {
        const char *tier;
        enum service_class service_class;
    } others[] = {
#define CLASS(name, NAME, tier)
#define TIER(tier, NAME) {tier, SERVICE_CLASS_##NAME},
#include "config/base/service_class.def"
#undef TIER
#undef CLASS
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (slice_is(tier, others[i].tier)) {
            *out = others[i].service_class;
            return true;
        }
    return find(tiers, tier, out);
}

enum service_class service_class_lower(enum service_class service_class, uint32_t by)
{
    ASSERT(service_class < SERVICE_CLASS_COUNT);
    const uint32_t left = SERVICE_CLASS_COUNT - 1 - (uint32_t)service_class;
    return (enum service_class)((uint32_t)service_class + (by < left ? by : left));
}
