/* fuzz_hf_config: any JSON as config.json is refused, or becomes keys that a GGUF reader takes. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/models/hf_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const struct json_read_limits limits = {.depth = 16, .values = 4096};
    struct json_read json;
    struct hf_config config;
    struct gguf_keys keys;
    struct gguf *gguf;
    if (json_read(&json, (struct slice){(const char *)bytes, length}, &limits) != STATUS_OK)
        return 0;
    gguf_keys_init(&keys);
    if (hf_config_read(&config, &json, &keys) == STATUS_OK) {
        ASSERT(config.arch != NULL);
        ASSERT(config.rope.pairs <= HF_ROPE_FACTORS);
        if (gguf_keys_finish(&keys, &gguf) == STATUS_OK)
            gguf_close(gguf);
    }
    gguf_keys_deinit(&keys);
    json_read_free(&json);
    return 0;
}
