/* fuzz_json_read: any text is refused, or read into values that stay inside each other, whose
 * strings are valid UTF-8 and lie in the text or in the copy. */
#include <stdint.h>
#include <stdlib.h>

#include "config/base/json_read.h"
#include "config/base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void check_value(const struct json_read *json, uint32_t at)
{
    const struct json_read_value *value = &json->values[at];
    ASSERT(value->next > at);
    ASSERT(value->next <= json->count);
    if (value->kind == JSON_READ_STRING)
        ASSERT(utf8_is_valid(value->bytes, value->length));
    if (value->kind == JSON_READ_INTEGER || value->kind == JSON_READ_FLOAT)
        ASSERT(value->length > 0);
    if (value->kind != JSON_READ_ARRAY && value->kind != JSON_READ_OBJECT)
        return;
    uint32_t child = at + 1;
    for (uint32_t i = 0; i < value->count; i++) {
        if (value->kind == JSON_READ_OBJECT) {
            ASSERT(json->values[child].kind == JSON_READ_STRING);
            child = json->values[child].next;
        }
        child = json->values[child].next;
        ASSERT(child <= value->next);
    }
    ASSERT(child == value->next);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const struct json_read_limits limits = {.depth = 16, .values = 4096};
    struct json_read json;
    if (json_read(&json, (struct slice){(const char *)bytes, length}, &limits) != STATUS_OK) {
        ASSERT(json.values == NULL);
        return 0;
    }
    ASSERT(json.values[0].next == json.count);
    for (uint32_t i = 0; i < json.count; i++) {
        int64_t integer;
        double number;
        check_value(&json, i);
        bool is_integer = json_read_integer(&json.values[i], &integer);
        ASSERT(!is_integer || json_read_number(&json.values[i], &number));
    }
    json_read_free(&json);
    return 0;
}
