/* tokenizer: text → token ids, by byte-level BPE with the pre-split that the model file names.
 *
 * Owns:     merge ranks, the look-up from bytes to ids, the compiled pre-split (PCRE2).
 * Thread:   made at start; encoding from any thread (each call has its own match data).
 * Cost:     O(n log n) in the text's bytes for any text: 50 to 100 ns a byte, 750 ns if 4 MB are
 *           one word; scratch on the heap, freed. Lets other tenants' texts run meanwhile
 * (turns_spend). Not here: ids → bytes (vocab), templates (chat_template). Pre-splits are rows of
 * presplits.def.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/models/vocab.h"

struct tokenizer;

/* UNSUPPORTED names the model or pre-split that is not supported; CORRUPT for wrong merges;
 * NO_MEMORY. Borrows `vocab`. */
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
/* Whether text becomes this token only where control tokens are matched. */
bool tokenizer_is_mark(const struct tokenizer *tokenizer, uint32_t id);

/* Part of a text in which control tokens may be matched by name. */
struct tokenizer_span {
    size_t offset;
    size_t length;
};

/* Encodes `text` (UTF-8; other bytes are kept as bytes). Control tokens and marks are matched only
 * where a match is wholly inside one of `spans` (rising, not overlapping): NULL with count 0
 * matches none, tokenizer_everywhere(text) all. LIMIT when more than `capacity` ids are needed. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct slice text,
                             const struct tokenizer_span *spans, size_t span_count, uint32_t *ids,
                             size_t capacity, size_t *count);

/* A lower bound of the number of ids of a text, by the longest token that begins with each
 * byte: one pass, about a nanosecond a byte. A text whose bound exceeds the context need
 * not be encoded. */
size_t tokenizer_fewest(const struct tokenizer *tokenizer, struct slice text);

static inline struct tokenizer_span tokenizer_everywhere(struct slice text)
{
    return (struct tokenizer_span){0, text.length};
}
