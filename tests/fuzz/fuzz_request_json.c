/* fuzz_request_json: any body as a chat, a completion and a generation gives a request or an error,
 * and nothing else. */
#include <stddef.h>
#include <stdint.h>

#include "gateway/dialect/ask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct slice body = {(const char *)data, size};
    for (int kind = ASK_CHAT; kind <= ASK_GENERATE; kind++) {
        struct ask request;
        if (ask_parse(&request, (enum ask_dialect)kind, body, "m", 100) != STATUS_OK)
            continue;
        ASSERT(request.prompt_count >= 1);
        ASSERT(request.prompt_count * request.engine.choices <= LIMIT_ANSWERS);
        ASSERT(request.engine.stop_count <= LIMIT_STOP_STRINGS);
        ASSERT(request.engine.sampling.bias_count <= LIMIT_LOGIT_BIAS);
        for (uint32_t i = 0; i < request.prompt_count; i++) {
            struct engine_request one;
            ask_of_prompt(&request, i, &one);
        }
        ask_deinit(&request);
    }
    return 0;
}
