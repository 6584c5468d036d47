#include "kernels/cuda/cuda_device.h"

#include <ctype.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include "kernels/cuda/cuda_nodes.h"

/* The prefix of the driver's device nodes. */
#ifndef CUDA_DEVICE_NODES
#define CUDA_DEVICE_NODES "/dev/nvidia"
#endif

extern "C" int cuda_device_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

extern "C" const char *cuda_device_why(void)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return cudaGetErrorString(error);
    return count == 0 ? "the driver reports no device"
                      : "the driver reports devices that are older than sm_80, or for which this "
                        "build has no code";
}

/* Selects a device and frees nothing on it, which creates its context. */
extern "C" void cuda_device_prepare(int index)
{
    if (cudaSetDevice(index) != cudaSuccess || cudaFree(NULL) != cudaSuccess)
        (void)cudaGetLastError(); /* reported again when the device is opened */
}

extern "C" void cuda_device_places(int index,
                                   void (*each)(void *context, const char *path, bool is_node),
                                   void *context)
{
    enum { BUS_BYTES = 32 };
    char bus[BUS_BYTES];
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, index) != cudaSuccess) {
        (void)cudaGetLastError();
        bus[0] = '\0';
    }
    for (char *at = bus; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at); /* as the kernel writes it */
    const struct cuda_nodes nodes = {CUDA_DEVICE_NODES, bus, "/proc/driver/nvidia"};
    cuda_nodes_each(&nodes, each, context);
}

extern "C" enum status cuda_device_get(int index, struct cuda_device *out)
{
    cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, index);
    if (error != cudaSuccess)
        FAIL(STATUS_UNAVAILABLE, "CUDA device %d: %s", index, cudaGetErrorString(error));
    snprintf(out->name, sizeof out->name, "%s", properties.name);
    out->major = properties.major;
    out->minor = properties.minor;
    out->memory_bytes = properties.totalGlobalMem;
    return STATUS_OK;
}
