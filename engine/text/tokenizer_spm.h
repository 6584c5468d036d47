/* tokenizer_spm: SentencePiece's BPE: characters are merged to pieces, the highest score first.
 *
 * Owns:     the merges of all pieces, the symbol of each character, the scratch of one caller.
 * Thread:   read-only once it is made; a work belongs to one caller.
 * Cost:     O(n log n) in the longest part of the text that no cut divides, mostly a word. So a
 *           text with blanks needs little memory.
 * Not here: user-defined and control pieces (tokenizer), the blank in a piece (vocab).
 *
 * SentencePiece writes a blank as U+2581. Here pieces and text have the blank itself in its place.
 *
 *     text ─► cut before a blank ─► symbols ─► merges by score ─► pieces ─► ids
 *             that follows another                                └─ a character that is no piece:
 *             character                                              byte tokens, or unknown
 *
 * The text is cut between a character and a blank only if no piece contains that character followed
 * by a blank. No merge could reach over such a cut, so the tokens are those of the whole text.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/models/gguf.h"
#include "engine/models/vocab.h"
#include "engine/text/tokenizer_bpe.h"
#include "engine/text/tokenizer_cache.h"

struct tokenizer_spm;

/* CORRUPT when scores are missing, too few or no numbers, or when neither an unknown token nor all
 * byte tokens are there; UNSUPPORTED for a normaliser that this tokenizer does not have; the
 * message names the key. NO_MEMORY. */
enum status tokenizer_spm_create(struct tokenizer_spm **out, const struct vocab *vocab,
                                 const struct gguf *gguf);
void tokenizer_spm_destroy(struct tokenizer_spm *spm);
/* Whether plain text can become this token. */
bool tokenizer_spm_makes(const struct tokenizer_spm *spm, uint32_t id);
/* Whether characters without a piece become byte tokens. */
bool tokenizer_spm_has_bytes(const struct tokenizer_spm *spm);

/* The memory of one caller, used again for each text. */
struct tokenizer_spm_work {
    uint32_t *symbols; /* of one part, [capacity] */
    size_t capacity;
    struct tokenizer_bpe_scratch scratch;
    struct tokenizer_cache cache;
    bool is_behind_unknown; /* the last id was the unknown token: it stands for a whole run */
};

/* `text_length` is that of the text, or 0 to remember no words. */
void tokenizer_spm_work_init(struct tokenizer_spm_work *work, size_t text_length);
void tokenizer_spm_work_deinit(struct tokenizer_spm_work *work);

/* Encodes text without specials, which stands at the beginning or behind a special; a blank is put
 * before it if the model wants one. Bytes that are not UTF-8 become byte tokens. `*count` grows.
 * LIMIT when more than `capacity` ids are needed; NO_MEMORY. */
enum status tokenizer_spm_encode(const struct tokenizer_spm *spm, struct tokenizer_spm_work *work,
                                 struct slice text, uint32_t *ids, size_t capacity, size_t *count);
