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

/* Returns the number of devices; 0 without a driver. */
int cuda_device_count(void);
/* Returns the driver's reason why cuda_device_count is 0, or why no device that it reports is used.
 */
const char *cuda_device_why(void);
/* Makes the driver open all that it needs of device `index`; ignores failures. */
void cuda_device_prepare(int index);
/* Calls `each` for the paths that the driver opens again for device `index` after
 * cuda_device_prepare (cuda_nodes). */
void cuda_device_places(int index, void (*each)(void *context, const char *path, bool is_node),
                        void *context);
/* Describes device `index` < cuda_device_count(). UNAVAILABLE with the driver's message. */
enum status cuda_device_get(int index, struct cuda_device *out);

#ifdef __cplusplus
}
#endif
