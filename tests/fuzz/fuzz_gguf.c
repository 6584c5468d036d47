/* fuzz_gguf: bytes → gguf_parse, then every look-up in what was accepted. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/models/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void read_arrays(const struct gguf *gguf, const char *key)
{
    struct gguf_array array;
    struct slice text;
    uint64_t sum = 0;
    int32_t number;
    float real;
    if (gguf_get_array(gguf, key, &array) != STATUS_OK)
        return;
    struct gguf_array again = array;
    while (gguf_array_next_string(&again, &text) == STATUS_OK)
        for (size_t i = 0; i < text.length; i++)
            sum += (unsigned char)text.bytes[i];
    again = array;
    while (gguf_array_next_i32(&again, &number) == STATUS_OK)
        sum += (uint64_t)number;
    again = array;
    while (gguf_array_next_f32(&again, &real) == STATUS_OK)
        sum += real > 0;
    __asm__ volatile("" : : "r"(sum));
}

static void read_tensors(const struct gguf *gguf)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        struct slice name;
        struct tensor tensor;
        gguf_tensor_at(gguf, i, &name, &tensor);
        const unsigned char *data = tensor.data;
        sum += data[0];
        sum += data[tensor.bytes - 1];
        sum += (unsigned char)name.bytes[name.length - 1];
    }
    __asm__ volatile("" : : "r"(sum));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const char *const keys[] = {"general.architecture",
                                       "general.alignment",
                                       "u8",
                                       "i8",
                                       "i64",
                                       "f32",
                                       "f64",
                                       "yes",
                                       "words",
                                       "i32s",
                                       "f32s",
                                       "a"};
    struct gguf *gguf;
    if (gguf_parse(&gguf, bytes, length) != STATUS_OK)
        return 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        uint32_t number;
        float real;
        bool truth;
        struct slice text;
        (void)gguf_get_u32(gguf, keys[i], &number);
        (void)gguf_get_f32(gguf, keys[i], &real);
        (void)gguf_get_bool(gguf, keys[i], &truth);
        (void)gguf_get_string(gguf, keys[i], &text);
        read_arrays(gguf, keys[i]);
    }
    read_tensors(gguf);
    gguf_close(gguf);
    return 0;
}
