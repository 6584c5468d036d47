/* gpu_parity_errors: a request for more memory than there is says how much of what, and the device
 * goes on. */
#include "tests/gpu/gpu_parity.h"

void gpu_parity_errors(void)
{
    const uint32_t sent[4] = {1, 2, 3, 4};
    uint32_t got[4] = {0};
    void *memory;
    const enum status status =
        cuda_backend_alloc(parity.device, &memory, (size_t)1 << 46, "pages for the test");
    const char *message = status_note()->message;
    parity_tell(status == STATUS_NO_MEMORY ? 0 : INFINITY, "64 TiB: NO_MEMORY");
    parity_tell(strstr(message, "pages for the test") && strstr(message, "67108864 MiB") ? 0
                                                                                         : INFINITY,
                "64 TiB: said how much of what");
    uint32_t *there = parity_up(sent, sizeof sent);
    parity_down(got, there, sizeof got);
    parity_tell(parity_same(got, sent, sizeof got), "the device goes on");
    parity_drop(there);
}
