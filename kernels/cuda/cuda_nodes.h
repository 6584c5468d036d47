/* cuda_nodes: the paths that an NVIDIA driver opens again after a device's context exists.
 *
 * Owns:     nothing.
 * Thread:   any, while no other thread opens or closes descriptors.
 * Cost:     one look at each descriptor of this process, at start.
 * Not here: the context (cuda_device), who may open what (gateway/serve/sandbox).
 *
 * The kernel module allows one mapping for each descriptor. So the driver opens its device nodes
 * again for each stream, each piece of pinned memory and each mapping. Which nodes these are
 * differs from machine to machine (containers, MIG), so they are found among the descriptors that
 * the driver holds once the context exists.
 */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_nodes {
    const char *prefix; /* of a node's path: "/dev/nvidia" */
    const char *bus;    /* the device's PCI address, "0000:3b:00.0"; "" if unknown */
    const char *proc;   /* the driver's information folder: "/proc/driver/nvidia" */
};

/* Calls `each` once for each node of the driver, for its information folder and for the device's
 * PCI folders. Nodes of other devices are left out if that folder tells the number of this device's
 * node. `is_node`: read, write and ioctl; otherwise the path is only read. */
void cuda_nodes_each(const struct cuda_nodes *nodes,
                     void (*each)(void *context, const char *path, bool is_node), void *context);

#ifdef __cplusplus
}
#endif
