/* fuzz_request_json: any body as a chat, a completion and a generation gives a request or an error,
 * and nothing else. */
#include <stddef.h>
#include <stdint.h>

#include "gateway/engine_http/face_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct slice body = {(const char *)data, size};
    for (int kind = FACE_CHAT; kind <= FACE_GENERATE; kind++) {
        struct face_request request;
        if (face_request_parse(&request, (enum face_kind)kind, body, "m", 100) != STATUS_OK)
            continue;
        ASSERT(request.prompt_count >= 1);
        ASSERT(request.prompt_count * request.engine.choices <= LIMIT_ANSWERS);
        ASSERT(request.engine.stop_count <= LIMIT_STOP_STRINGS);
        ASSERT(request.engine.sampling.bias_count <= LIMIT_LOGIT_BIAS);
        for (uint32_t i = 0; i < request.prompt_count; i++) {
            struct engine_request one;
            face_request_of_prompt(&request, i, &one);
        }
        face_request_deinit(&request);
    }
    return 0;
}
