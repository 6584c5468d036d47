/* piece_file: small GGUF files with a vocabulary of SentencePiece's BPE, for tests of text.
 *
 * Owns:     nothing; the bytes made belong to the caller.
 * Thread:   one.
 * Cost:     linear; aborts when there is no memory (tests only).
 * Not here: byte-level vocabularies (text_file), models with tensors (llama_file).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "tests/kit/gguf_writer.h"

enum { PIECE_FILE_PIECES = 4096 };

/* Tokens: "<unk>" (0), "<s>" (1) and "</s>" (2), control tokens both, the 256 byte tokens if asked
 * for, then the pieces. */
struct piece_file {
    const struct piece_file_piece {
        const char *text; /* with U+2581 for a blank */
        float score;
        int32_t kind; /* enum vocab_kind; not checked */
    } * pieces;
    uint32_t piece_count;
    bool has_bytes;
    bool adds_no_blank;
    bool without_scores;
    bool without_kinds;
    uint32_t scores_less; /* entries that the scores lack */
};

/* Writes the keys into a writer, so that a test may add its own. */
void piece_file_keys(struct gguf_writer *writer, const struct piece_file *file);
/* Makes the whole file; `out` is initialised here and freed by the caller. */
void piece_file_make(const struct piece_file *file, struct buffer *out);
