/* hf_words: the tokenizer.json of BERT's kind (WordPiece), as the keys that a GGUF file would have.
 *
 * Owns:     nothing.
 * Thread:   one.
 * Cost:     O(tokens).
 * Not here: tokens by id (hf_merges), the files of a directory (hf_tokenizer), the tokenizer itself
 *           (engine/text/tokenizer_wordpiece).
 *
 * Truncation and padding that the file states are for training and are ignored.
 */
#pragma once

#include "config/base/json_read.h"
#include "engine/models/gguf_keys.h"
#include "engine/models/hf_merges.h"

/* Whether the model at index `model` is WordPiece. */
bool hf_words_is(const struct json_read *json, uint32_t model);

/* Writes tokens, kinds, the unknown token, the steps of BertNormalizer, and the tokens that the
 * post-processor puts around a text. UNSUPPORTED names a normaliser, pre-tokenizer, prefix or
 * post-processor that is another one, with its words; CORRUPT names what is wrong. */
enum status hf_words_write(const struct hf_merges *merges, const struct json_read *json,
                           uint32_t model, struct gguf_keys *keys);
