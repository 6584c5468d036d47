/* gpu_device: what a program of checks says and returns where there is no device. */
#pragma once

#include <stdio.h>

#include "kernels/cuda/cuda_device.h"

/* Prints the driver's reason, in the form that tests/gpu/check looks for; returns the exit status
 * 77. */
static inline int gpu_device_missing(void)
{
    printf("no CUDA device: %s\n", cuda_device_why());
    return 77;
}
