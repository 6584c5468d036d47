/* make_llama: writes a small model file of Llama's shape, with random weights, a byte-level
 * tokenizer and a chat template. Sanitizer builds and load tests run on it, where the real model
 * takes too long.
 *
 * usage: make_llama FILE [vocab [layers [width]]]     defaults: 512 2 64; width a multiple of 64
 *        make_llama FILE 1.1b q4_0|q8_0               TinyLlama's shape, too large for a cache */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/llama_file.h"

enum { TYPE_Q4_0 = 2, TYPE_Q8_0 = 8 }; /* as in tensor_types.def */

static uint32_t number(int count, char **arguments, int index, uint32_t fallback, uint32_t max)
{
    if (index >= count)
        return fallback;
    unsigned long value = strtoul(arguments[index], NULL, 10);
    if (value < 1 || value > max) {
        fprintf(stderr, "make_llama: %s is not from 1 to %u\n", arguments[index], max);
        exit(2);
    }
    return (uint32_t)value;
}

static struct llama_shape small_shape(int argc, char **argv)
{
    struct llama_shape shape = llama_file_shape();
    shape.vocab = number(argc, argv, 2, 512, 65536);
    shape.layers = number(argc, argv, 3, 2, 64);
    shape.width = number(argc, argv, 4, 64, 4096);
    shape.head_dim = 32;
    shape.heads = shape.width / 32;
    shape.kv_heads = shape.heads % 2 == 0 ? shape.heads / 2 : shape.heads;
    shape.hidden = 2 * shape.width;
    shape.context = 2048;
    shape.type = TYPE_Q8_0;
    if (shape.vocab < 259 || shape.width % 64 != 0) {
        fprintf(stderr, "make_llama: vocab must be at least 259, width a multiple of 64\n");
        exit(2);
    }
    return shape;
}

static struct llama_shape large_shape(const char *type)
{
    bool is_q4_0 = strcmp(type, "q4_0") == 0;
    if (!is_q4_0 && strcmp(type, "q8_0") != 0) {
        fprintf(stderr, "make_llama: %s is neither q4_0 nor q8_0\n", type);
        exit(2);
    }
    return (struct llama_shape){.layers = 22,
                                .width = 2048,
                                .heads = 32,
                                .kv_heads = 4,
                                .head_dim = 64,
                                .hidden = 5632,
                                .vocab = 32000,
                                .context = 2048,
                                .type = is_q4_0 ? TYPE_Q4_0 : TYPE_Q8_0,
                                .has_own_output = true,
                                .seed = 1};
}

int main(int argc, char **argv)
{
    bool is_large = argc == 4 && strcmp(argv[2], "1.1b") == 0;
    if (argc < 2) {
        fprintf(stderr, "usage: make_llama FILE [vocab [layers [width]] | 1.1b q4_0|q8_0]\n");
        return 2;
    }
    struct llama_shape shape = is_large ? large_shape(argv[3]) : small_shape(argc, argv);
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "general.name", "random");
    llama_file_write_tokenizer(&writer, shape.vocab);
    llama_file_write(&writer, &shape);
    bool is_written = gguf_writer_save(&writer, argv[1]);
    gguf_writer_deinit(&writer);
    return is_written ? 0 : 1;
}
