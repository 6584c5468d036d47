/* vocab: the tokens of a model: bytes of each id, kinds, the special ones.
 *
 * Owns:     a table of token bytes, decoded from the file's alphabet.
 * Thread:   made at start, then read-only from any.
 * Cost:     O(1) look-ups; no allocation after vocab_create.
 * Not here: text → tokens (tokenizer), needs no PCRE2.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/gguf.h"

struct vocab;

enum { VOCAB_NONE = UINT32_MAX };

/* CORRUPT when tokens are missing, doubled or malformed, or a special id is out of range. */
enum status vocab_create(struct vocab **out, const struct gguf *gguf);
void vocab_destroy(struct vocab *vocab);

uint32_t vocab_size(const struct vocab *vocab);
/* The bytes that a token stands for; control tokens give their name ("<|im_end|>"). */
struct slice vocab_bytes(const struct vocab *vocab, uint32_t id);
bool vocab_is_control(const struct vocab *vocab, uint32_t id);
/* Ends a generation: eos, eot and what else the file names. */
bool vocab_is_end(const struct vocab *vocab, uint32_t id);
uint32_t vocab_bos(const struct vocab *vocab);  /* VOCAB_NONE when the model has none */
uint32_t vocab_eos(const struct vocab *vocab);
bool vocab_adds_bos(const struct vocab *vocab); /* before every prompt that is text */
