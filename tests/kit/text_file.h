/* text_file: small GGUF files with a vocabulary and merges, for tests of text.
 *
 * Owns:     nothing; the bytes made belong to the caller.
 * Thread:   one.
 * Cost:     linear; aborts when there is no memory (tests only).
 * Not here: models with tensors (llama_file).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "tests/kit/gguf_writer.h"

enum { TEXT_FILE_EXTRAS = 8, TEXT_FILE_MERGES = 32, TEXT_FILE_MISSING_BYTE = 0x04 };

/* Tokens: id = byte for the 256 bytes (TEXT_FILE_MISSING_BYTE has a filler instead), then the
 * products of the merges, then the extras. NULL or 0 omits a thing or keeps its default; the
 * default pre-split is gpt-2. */
struct text_file {
    const char *model;
    const char *pre;
    const char *merges[TEXT_FILE_MERGES]; /* "a b", in the file's alphabet, until NULL */
    struct text_file_extra {
        const char *text;
        uint32_t kind;          /* enum vocab_kind; not checked */
    } extras[TEXT_FILE_EXTRAS]; /* until text is NULL */
    bool without_kinds;
};

/* Writes the keys into a writer, so that a test may add its own. */
void text_file_keys(struct gguf_writer *writer, const struct text_file *file);
/* Makes the whole file; `out` is initialised here and freed by the caller. */
void text_file_make(const struct text_file *file, struct buffer *out);
