#include "kernels/dispatch/registry.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/cpu/cpu_features.h"

/* TABLE(name), best first; each is kernels/cpu/<name>/table_<name>.c. "auto" never takes `ref`,
 * which is slow and only a reference. */
#if defined(__x86_64__)
#define REGISTRY_TABLES                                                                            \
    TABLE(amx) TABLE(avx512) TABLE(avxvnni) TABLE(avx2) TABLE(ref_int8) TABLE(ref)
#else
#define REGISTRY_TABLES TABLE(ref_int8) TABLE(ref)
#endif

#define TABLE(name) extern const struct kernel_table table_##name;
REGISTRY_TABLES
#undef TABLE

static const struct kernel_table *const registry_tables[] = {
#define TABLE(name) &table_##name,
    REGISTRY_TABLES
#undef TABLE
};

/* The first name is the device's, in builds that have it. */
static const char *const registry_all_names[] = {"cuda",
#define TABLE(name) #name,
                                                 REGISTRY_TABLES
#undef TABLE
                                                     NULL};

enum { REGISTRY_COUNT = sizeof registry_tables / sizeof registry_tables[0] };

/* NULL in builds without a device. */
static const struct kernels_ops *registry_device(void)
{
    return &cuda_ops;
}

const char *const *registry_names(void)
{
    return registry_all_names + (registry_device() == NULL);
}

const struct kernel_table *registry_find(const char *isa)
{
    for (int i = 0; i < REGISTRY_COUNT; i++)
        if (strcmp(registry_tables[i]->name, isa) == 0)
            return registry_tables[i];
    return NULL;
}

bool registry_can_run(const char *isa)
{
    const struct kernels_ops *device = registry_device();
    const struct kernel_table *table = registry_find(isa);
    if (device != NULL && strcmp(isa, device->name) == 0)
        return device->count() > 0;
    return table != NULL && (table->needs & ~cpu_features()) == 0;
}

static const struct kernel_table *choose_best(void)
{
    uint32_t features = cpu_features();
    int best = 0;
    while (registry_tables[best]->needs & ~features)
        best++; /* ends at ref_int8 at the latest, which needs nothing */
    return registry_tables[best];
}

bool registry_is_auto(const char *isa)
{
    return isa == NULL || strcmp(isa, "auto") == 0;
}

enum status registry_choose(const struct kernels_ops **ops, const struct kernel_table **table,
                            const char *isa)
{
    const struct kernels_ops *device = registry_device();
    const bool is_auto = registry_is_auto(isa);
    *ops = &cpu_ops;
    *table = choose_best();
    if (device != NULL && device->count() > 0 && (is_auto || strcmp(isa, device->name) == 0))
        *ops = device;
    if (is_auto || *ops == device)
        return STATUS_OK;
    if (strcmp(isa, "cuda") == 0)
        FAIL(STATUS_UNSUPPORTED, device == NULL
                                     ? "this build has no kernels for cuda (preset cuda has)"
                                     : "the kernels for cuda need a device of sm_80 or later, "
                                       "which this machine lacks");
    *table = registry_find(isa);
    if (*table == NULL)
        FAIL(STATUS_UNSUPPORTED, "this build has no kernels named \"%.32s\"", isa);
    uint32_t missing = (*table)->needs & ~cpu_features();
    if (missing != 0) {
        char names[128];
        cpu_features_names(missing, names, sizeof names);
        *table = NULL;
        FAIL(STATUS_UNSUPPORTED, "the kernels %s need features that this machine lacks: %s", isa,
             names);
    }
    return STATUS_OK;
}
