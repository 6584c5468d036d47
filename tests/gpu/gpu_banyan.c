/* gpu_banyan: lets tests spoil the device of `banyan` over tests/kit/simt (gpu_banyan_simt).
 * SIGUSR2: the device of this process, and of processes forked from it, is lost; SIGUSR1: there is
 * a device again. SIMT_MEMORY_BYTES=N: the device has this much memory. */
#include <signal.h>
#include <stdlib.h>

#include "tests/kit/simt/simt.h"

static void on_signal(int number)
{
    simt_calls_left = number == SIGUSR2 ? 0 : -1;
}

__attribute__((constructor)) static void gpu_banyan(void)
{
    const char *bytes = getenv("SIMT_MEMORY_BYTES");
    if (bytes != NULL)
        simt_memory_bytes = strtoul(bytes, NULL, 10);
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
}
