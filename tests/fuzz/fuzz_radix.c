/* fuzz_radix: bytes → choices of tests/kit/radix_model: the trees answer like a list of paths. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kit/radix_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { OPERATIONS_MAX = 4096, BYTES_PER_OPERATION = 3 };

struct input {
    const uint8_t *bytes;
    size_t left;
};

/* Takes a byte for each choice; zeros after the end. */
static uint32_t draw_byte(void *context, uint32_t bound)
{
    struct input *input = context;
    uint32_t byte = 0;
    if (input->left > 0) {
        input->left--;
        byte = *input->bytes++;
    }
    return byte % bound;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct input input = {bytes, length};
    uint32_t done = 0;
    size_t operations = length / BYTES_PER_OPERATION;
    if (operations > OPERATIONS_MAX)
        operations = OPERATIONS_MAX;
    const char *wrong = radix_model_run(draw_byte, &input, (uint32_t)operations, &done);
    if (wrong != NULL) {
        fprintf(stderr, "%s: operation %u\n", wrong, done);
        abort();
    }
    return 0;
}
