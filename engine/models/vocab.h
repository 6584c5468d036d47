/* vocab: the tokens of a model: bytes and kind of each id, and the special ones.
 *
 * Owns:     a table of token bytes, decoded from the file's alphabet.
 * Thread:   made at start, then read-only from any.
 * Cost:     O(1) look-ups; no allocation after vocab_create.
 * Not here: text → tokens (tokenizer). It does not need PCRE2.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/models/gguf.h"

struct vocab;

enum { VOCAB_NONE = UINT32_MAX };

/* The kinds of tokenizer.ggml.token_type, by its numbers. */
enum vocab_kind {
    VOCAB_NORMAL = 1,
    VOCAB_UNKNOWN = 2,
    VOCAB_CONTROL = 3,
    VOCAB_USER_DEFINED = 4, /* a word of its own, matched in any text before it is split */
    VOCAB_UNUSED = 5,
    VOCAB_BYTE = 6,
};

/* What tokenizer.ggml.model says. */
enum vocab_model {
    VOCAB_MODEL_BYTES,  /* "gpt2": byte-level BPE; tokens are written in an alphabet of bytes */
    VOCAB_MODEL_PIECES, /* "llama": SentencePiece BPE; tokens are UTF-8, with U+2581 for a blank */
    VOCAB_MODEL_WORDS,  /* "bert": WordPiece; a token that begins a word has a blank before it */
};

/* UNSUPPORTED names a tokenizer.ggml.model other than these three; CORRUPT when
 * tokens are missing, repeated or malformed, or a special id is out of range. The file may
 * be closed afterwards. */
enum status vocab_create(struct vocab **out, const struct gguf *gguf);
void vocab_destroy(struct vocab *vocab);

enum vocab_model vocab_model(const struct vocab *vocab);
uint32_t vocab_size(const struct vocab *vocab);
/* The bytes that a token stands for; of a control token its name ("<|im_end|>"). */
struct slice vocab_bytes(const struct vocab *vocab, uint32_t id);
enum vocab_kind vocab_kind(const struct vocab *vocab, uint32_t id);
bool vocab_is_control(const struct vocab *vocab, uint32_t id);
/* Whether a token ends a generation: eos, eot and eom of the file, the end tokens of a directory's
 * generation_config.json, and well-known control tokens. */
bool vocab_is_end(const struct vocab *vocab, uint32_t id);
uint32_t vocab_bos(const struct vocab *vocab); /* VOCAB_NONE when the model has none */
uint32_t vocab_eos(const struct vocab *vocab);
bool vocab_adds_bos(const struct vocab *vocab); /* at the start of every text prompt */
bool vocab_adds_eos(const struct vocab *vocab); /* behind a text that is embedded */

/* Whether the tokenizer puts a blank before each part of a text: at its beginning and behind each
 * control or user-defined token. */
bool vocab_adds_blank(const struct vocab *vocab);
/* The text of a token that follows `previous` (VOCAB_NONE at the beginning of a text): its bytes,
 * without the first blank where the tokenizer would have added that. Everything that shows text
 * reads tokens through this function, so that an echo and an answer are the text of all ids. */
struct slice vocab_text(const struct vocab *vocab, uint32_t previous, uint32_t id);

/* Decodes text of the file's alphabet into `out`. In GPT-2's alphabet every byte is one printable
 * character: printable bytes stand for themselves, the others are U+0100 and up in rising order.
 * False when a character is not in the alphabet or there are more than `capacity` bytes. */
bool vocab_decode(struct slice text, char *out, size_t capacity, size_t *length);
