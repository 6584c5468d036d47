#include "tests/kit/piece_file.h"

#include <stdio.h>
#include <stdlib.h>

enum { PIECE_FILE_TOKENS = 3 + 256 + PIECE_FILE_PIECES };

void piece_file_keys(struct gguf_writer *writer, const struct piece_file *file)
{
    static char bytes[256][8];
    static const char *texts[PIECE_FILE_TOKENS];
    static float scores[PIECE_FILE_TOKENS];
    static int32_t kinds[PIECE_FILE_TOKENS];
    uint32_t count = 0;
    if (file->piece_count > PIECE_FILE_PIECES)
        abort();
    static const char *const first[] = {"<unk>", "<s>", "</s>"};
    for (; count < 3; count++) {
        texts[count] = first[count];
        scores[count] = 0;
        kinds[count] = count == 0 ? 2 : 3; /* unknown, control */
    }
    for (unsigned int byte = 0; byte < 256 && file->has_bytes; byte++, count++) {
        snprintf(bytes[byte], sizeof bytes[byte], "<0x%02X>", byte);
        texts[count] = bytes[byte];
        scores[count] = 0;
        kinds[count] = 6;
    }
    for (uint32_t i = 0; i < file->piece_count; i++, count++) {
        texts[count] = file->pieces[i].text;
        scores[count] = file->pieces[i].score;
        kinds[count] = file->pieces[i].kind;
    }
    gguf_writer_string(writer, "tokenizer.ggml.model", "llama");
    gguf_writer_string(writer, "tokenizer.ggml.pre", "default");
    gguf_writer_strings(writer, "tokenizer.ggml.tokens", texts, count);
    if (!file->without_scores)
        gguf_writer_array(writer, "tokenizer.ggml.scores", GGUF_WRITER_F32,
                          count - file->scores_less, scores,
                          (count - file->scores_less) * sizeof scores[0]);
    if (!file->without_kinds)
        gguf_writer_array(writer, "tokenizer.ggml.token_type", GGUF_WRITER_I32, count, kinds,
                          count * sizeof kinds[0]);
    gguf_writer_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_u32(writer, "tokenizer.ggml.eos_token_id", 2);
    gguf_writer_bool(writer, "tokenizer.ggml.add_space_prefix", !file->adds_no_blank);
}

void piece_file_make(const struct piece_file *file, struct buffer *out)
{
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    piece_file_keys(&writer, file);
    gguf_writer_finish(&writer, out);
    gguf_writer_deinit(&writer);
}
