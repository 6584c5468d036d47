#include "kernels/registry.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/cpu/cpu_features.h"

/* TABLE(name): best first; each is kernels/cpu/<name>/table_<name>.c. "auto" never takes `ref`,
 * which is slow and exists to judge. */
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

static const char *const registry_table_names[] = {
#define TABLE(name) #name,
    REGISTRY_TABLES
#undef TABLE
        NULL};

enum { REGISTRY_COUNT = sizeof registry_tables / sizeof registry_tables[0] };

const char *const *registry_names(void)
{
    return registry_table_names;
}

const struct kernel_table *registry_find(const char *isa)
{
    for (int i = 0; i < REGISTRY_COUNT; i++)
        if (strcmp(registry_tables[i]->name, isa) == 0)
            return registry_tables[i];
    return NULL;
}

enum status registry_choose(const struct kernel_table **out, const char *isa)
{
    uint32_t features = cpu_features();
    *out = NULL;
    if (isa == NULL || strcmp(isa, "auto") == 0) {
        int best = 0;
        while (registry_tables[best]->needs & ~features)
            best++; /* ends: ref_int8 needs nothing */
        *out = registry_tables[best];
        return STATUS_OK;
    }
    if (strcmp(isa, "cuda") == 0)
        FAIL(STATUS_UNSUPPORTED, "kernels cuda cannot run an engine yet (kernels/cuda/README.md)");
    const struct kernel_table *table = registry_find(isa);
    if (table == NULL)
        FAIL(STATUS_UNSUPPORTED, "no kernels named \"%.32s\" in this build", isa);
    if (table->needs & ~features) {
        char missing[128];
        cpu_features_names(table->needs & ~features, missing, sizeof missing);
        FAIL(STATUS_UNSUPPORTED, "kernels %s need what this machine lacks: %s", isa, missing);
    }
    *out = table;
    return STATUS_OK;
}
