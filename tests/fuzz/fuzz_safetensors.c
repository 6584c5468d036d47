/* fuzz_safetensors: bytes → safetensors_parse, then the first and last byte of every tensor of what
 * was accepted, and the look-up of its name. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/models/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct safetensors *file;
    uint64_t sum = 0;
    if (safetensors_parse(&file, bytes, length, "fuzz") != STATUS_OK)
        return 0;
    for (uint32_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_at(file, i);
        ASSERT(tensor->bytes > 0);
        ASSERT(safetensors_find(file, tensor->name) == tensor);
        sum += (uint64_t)tensor->data[0] + (uint64_t)tensor->data[tensor->bytes - 1];
    }
    __asm__ volatile("" : : "r"(sum));
    safetensors_close(file);
    return 0;
}
