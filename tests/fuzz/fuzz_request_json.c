/* fuzz_request_json: any body as a chat, a completion and a generation gives a request or an error,
 * and nothing else. */
#include <stddef.h>
#include <stdint.h>

#include "gateway/dialect/ask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct slice body = {(const char *)data, size};
    static const char *const formats[] = {"generic", "qwen_xml", "mistral"};
    for (int i = 0; i < 5; i++) { /* a chat with three models */
        const struct answer_model answer = {.format = answer_format_named(formats[i % 3])};
        const struct ask_model model = {.name = "m", .vocab = 100, .answer = &answer};
        const enum ask_dialect dialect = i < 3 ? ASK_CHAT : i == 3 ? ASK_TEXT : ASK_GENERATE;
        struct ask request;
        if (ask_parse(&request, dialect, body, &model) != STATUS_OK)
            continue;
        ASSERT(request.prompt_count >= 1);
        ASSERT(request.prompt_count * request.engine.choices <= LIMIT_ANSWERS);
        ASSERT(request.engine.stop_count <= LIMIT_STOP_STRINGS);
        ASSERT(request.engine.sampling.bias_count <= LIMIT_LOGIT_BIAS);
        for (uint32_t prompt = 0; prompt < request.prompt_count; prompt++) {
            struct engine_request one;
            ask_of_prompt(&request, prompt, &one);
        }
        ask_deinit(&request);
    }
    return 0;
}
