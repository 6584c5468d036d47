#include "tests/kit/text_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/base/utf8.h"

enum { TEXT_FILE_TOKENS = 256 + TEXT_FILE_MERGES + TEXT_FILE_EXTRAS, TEXT_FILE_TOKEN_BYTES = 128 };

/* Computes the alphabet from its definition, in a different way than engine/models/vocab. */
static uint32_t keys_character(unsigned int byte)
{
    uint32_t next = 0x100;
    for (unsigned int b = 0; b < 256; b++) {
        bool prints =
            (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
        uint32_t character = prints ? b : next;
        next += prints ? 0 : 1;
        if (b == byte)
            return character;
    }
    abort();
}

static void keys_bytes(char tokens[][TEXT_FILE_TOKEN_BYTES])
{
    for (unsigned int byte = 0; byte < 256; byte++) {
        size_t length = utf8_encode(keys_character(byte), tokens[byte]);
        tokens[byte][length] = '\0';
    }
    snprintf(tokens[TEXT_FILE_MISSING_BYTE], TEXT_FILE_TOKEN_BYTES, "filler");
}

void text_file_keys(struct gguf_writer *writer, const struct text_file *file)
{
    static char tokens[TEXT_FILE_TOKENS][TEXT_FILE_TOKEN_BYTES];
    const char *texts[TEXT_FILE_TOKENS];
    int32_t kinds[TEXT_FILE_TOKENS];
    uint32_t count = 256;
    uint32_t merges = 0;
    keys_bytes(tokens);
    for (; merges < TEXT_FILE_MERGES && file->merges[merges] != NULL; merges++) {
        const char *row = file->merges[merges];
        const char *blank = strchr(row, ' ');
        if (blank != NULL)
            snprintf(tokens[count++], TEXT_FILE_TOKEN_BYTES, "%.*s%s", (int)(blank - row), row,
                     blank + 1);
    }
    for (uint32_t i = 0; i < count; i++)
        kinds[i] = 1;
    for (int i = 0; i < TEXT_FILE_EXTRAS && file->extras[i].text != NULL; i++) {
        kinds[count] = (int32_t)file->extras[i].kind;
        snprintf(tokens[count++], TEXT_FILE_TOKEN_BYTES, "%s", file->extras[i].text);
    }
    for (uint32_t i = 0; i < count; i++)
        texts[i] = tokens[i];
    gguf_writer_string(writer, "tokenizer.ggml.model", file->model != NULL ? file->model : "gpt2");
    gguf_writer_string(writer, "tokenizer.ggml.pre", file->pre != NULL ? file->pre : "gpt-2");
    gguf_writer_strings(writer, "tokenizer.ggml.tokens", texts, count);
    gguf_writer_strings(writer, "tokenizer.ggml.merges", file->merges, merges);
    if (!file->without_kinds)
        gguf_writer_array(writer, "tokenizer.ggml.token_type", GGUF_WRITER_I32, count, kinds,
                          count * sizeof kinds[0]);
}

void text_file_make(const struct text_file *file, struct buffer *out)
{
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    text_file_keys(&writer, file);
    gguf_writer_finish(&writer, out);
    gguf_writer_deinit(&writer);
}
