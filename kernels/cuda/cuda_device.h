/* cuda_device: which NVIDIA devices this process may use.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     the first call starts the driver (some 100 ms).
 * Not here: memory, streams and errors (cuda_backend).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/base/status.h"

struct cuda_device {
    char name[256];
    int major; /* compute capability */
    int minor;
    size_t memory_bytes;
};

#ifdef __cplusplus
extern "C" {
#endif

/* How many devices there are; 0 without a driver too. */
int cuda_device_count(void);
/* Why cuda_device_count is 0, in the driver's words. */
const char *cuda_device_why(void);
/* The driver opens all that it needs of device `index`, or nothing. */
void cuda_device_prepare(int index);
/* The paths that the driver opens again for device `index` behind cuda_device_prepare (cuda_nodes).
 */
void cuda_device_places(int index, void (*each)(void *context, const char *path, bool is_node),
                        void *context);
/* Device `index` < cuda_device_count(); UNAVAILABLE with the driver's words. */
enum status cuda_device_get(int index, struct cuda_device *out);

#ifdef __cplusplus
}
#endif
