/* tokenizer: text → token ids, by byte-level BPE with the pre-split that the model file names, by
 * SentencePiece's BPE, or by WordPiece.
 *
 * Owns:     merge ranks, special tokens, the pre-split or the pieces.
 * Thread:   made at the start. Any thread may encode, because each call has its own memory.
 * Cost:     O(n log n) in the text's bytes for any text: 50 to 130 ns a byte, 750 ns a byte if 4 MB
 *           are one word. Scratch memory is on the heap and freed. Other tenants' texts can run
 *           meanwhile (turns_spend).
 * Not here: ids → bytes (vocab), templates (chat_template), one piece's merges (tokenizer_bpe),
 *           cutting into pieces (tokenizer_presplit), SentencePiece (tokenizer_spm), WordPiece
 *           (tokenizer_wordpiece).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/models/vocab.h"

struct tokenizer;

/* Borrows `vocab`. UNSUPPORTED for a pre-split that is not supported; the message names it. CORRUPT
 * for wrong merges or scores; NO_MEMORY. */
enum status tokenizer_create(struct tokenizer **out, const struct vocab *vocab,
                             const struct gguf *gguf);
void tokenizer_destroy(struct tokenizer *tokenizer);

/* Call it before anything is encoded. From then on marks are matched only where control tokens are,
 * whatever type the file gives them. Marks are tokens that the model's template writes by itself,
 * and those that begin or end a text. `writes` says whether the template can write these bytes.
 * Such a token is a mark when merges do not make it and it looks like one: <…> or […], or
 * user-defined with a character that is no letter, digit or white space. CORRUPT when merges of
 * plain text make one. */
enum status tokenizer_take_marks(struct tokenizer *tokenizer,
                                 bool (*writes)(const void *context, struct slice text),
                                 const void *context);
/* Whether the token is matched only where control tokens are. */
bool tokenizer_is_mark(const struct tokenizer *tokenizer, uint32_t id);

/* A part of a text in which the names of control tokens may become those tokens. */
struct tokenizer_span {
    size_t offset;
    size_t length;
};

/* Encodes `text`, which is UTF-8; other bytes are kept as bytes, or left out by WordPiece. Control
 * tokens and marks are matched only where a match is wholly inside one of `spans`. Spans rise and
 * do not overlap. NULL with count 0 matches no control token; tokenizer_everywhere(text) matches
 * all. LIMIT when more than `capacity` ids are needed. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct slice text,
                             const struct tokenizer_span *spans, size_t span_count, uint32_t *ids,
                             size_t capacity, size_t *count);

/* The memory of one caller who encodes many texts. It grows to what the longest text needs, and is
 * used again for the next. */
struct tokenizer_work;

/* Borrows the tokenizer. NO_MEMORY. */
enum status tokenizer_work_create(struct tokenizer_work **out, const struct tokenizer *tokenizer);
void tokenizer_work_destroy(struct tokenizer_work *work); /* NULL is allowed */
/* As tokenizer_encode without spans: no control token is matched. */
enum status tokenizer_work_encode(struct tokenizer_work *work, struct slice text, uint32_t *ids,
                                  size_t capacity, size_t *count);

/* Returns a lower bound of the number of ids of a text, from the longest token that begins with
 * each byte. It takes one pass, about a nanosecond for each byte. A text whose bound exceeds the
 * context need not be encoded. */
size_t tokenizer_fewest(const struct tokenizer *tokenizer, struct slice text);

/* Returns an upper bound of the number of ids of a text. */
size_t tokenizer_most(const struct tokenizer *tokenizer, struct slice text);

static inline struct tokenizer_span tokenizer_everywhere(struct slice text)
{
    return (struct tokenizer_span){0, text.length};
}
