/* gpu_table: no operation is missing in a table: the processor's, and the device's in builds that
 * have it. Runs no operation, so it needs no device. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels_ops.h"

/* From `open` on the struct has functions only, one after the other. */
static const size_t BEGIN = offsetof(struct kernels_ops, open);

/* Returns the number of functions between two offsets of the table that are NULL. */
static int missing(const struct kernels_ops *ops, size_t begin, size_t end)
{
    void (*function)(void);
    int count = 0;
    for (size_t at = begin; at < end; at += sizeof function) {
        memcpy(&function, (const char *)ops + at, sizeof function);
        count += function == NULL;
    }
    return count;
}

static int check(const char *name, bool is_well)
{
    printf("%-48s %s\n", name, is_well ? "ok" : "MISSING");
    return !is_well;
}

int main(void)
{
    const struct kernels_ops *device = &cuda_ops; /* NULL in builds without a device */
    const size_t drawer = offsetof(struct kernels_ops, drawer_create);
    const size_t behind = offsetof(struct kernels_ops, measure_ceilings);
    int failed = check("the processor's operations", missing(&cpu_ops, BEGIN, drawer) == 0);
    failed +=
        check("the processor's logits are the host's", missing(&cpu_ops, drawer, behind) == 3);
    failed += check("the processor's ceilings", cpu_ops.measure_ceilings != NULL);
    failed += check("there is a table for a device", device != NULL);
    if (failed != 0)
        return 1;
    return check("a device's operations",
                 missing(device, BEGIN, sizeof *device) == 0 && device->count != NULL &&
                     device->prepare != NULL && device->no_memory != NULL && device->name != NULL &&
                     device->measure_captures != NULL && device->is_device);
}
