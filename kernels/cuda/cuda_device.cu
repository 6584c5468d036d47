#include "kernels/cuda/cuda_device.h"

#include <cuda_runtime.h>
#include <stdio.h>

extern "C" int cuda_device_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/* Choosing a device, and freeing nothing there, makes its context. */
extern "C" void cuda_device_prepare(int index)
{
    if (cudaSetDevice(index) != cudaSuccess || cudaFree(NULL) != cudaSuccess)
        (void)cudaGetLastError(); /* it comes again when the device is opened */
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
