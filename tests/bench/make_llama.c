/* make_llama: writes a small Llama-shaped model file with random weights, byte-level tokenizer and
 * chat template: what sanitizer builds and load tests run on, where the real model takes too long.
 *
 * usage: make_llama FILE [vocab [layers [width]]]     defaults 512 2 64; width a multiple of 64
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/kit/llama_file.h"

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

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: make_llama FILE [vocab [layers [width]]]\n");
        return 2;
    }
    struct llama_shape shape = llama_file_shape();
    shape.vocab = number(argc, argv, 2, 512, 65536);
    shape.layers = number(argc, argv, 3, 2, 64);
    shape.width = number(argc, argv, 4, 64, 4096);
    shape.head_dim = 32;
    shape.heads = shape.width / 32;
    shape.kv_heads = shape.heads % 2 == 0 ? shape.heads / 2 : shape.heads;
    shape.hidden = 2 * shape.width;
    shape.context = 2048;
    shape.type = 8; /* Q8_0 */
    if (shape.vocab < 259 || shape.width % 64 != 0) {
        fprintf(stderr, "make_llama: at least 259 tokens, a width that is a multiple of 64\n");
        return 2;
    }
    struct gguf_writer writer;
    struct buffer file;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "general.name", "random");
    llama_file_write_tokenizer(&writer, shape.vocab);
    llama_file_write(&writer, &shape);
    gguf_writer_finish(&writer, &file);
    FILE *out = fopen(argv[1], "wb");
    bool is_written = out != NULL && fwrite(file.bytes, 1, file.length, out) == file.length;
    is_written = out != NULL && fclose(out) == 0 && is_written;
    if (!is_written)
        perror(argv[1]);
    buffer_deinit(&file);
    gguf_writer_deinit(&writer);
    return is_written ? 0 : 1;
}
