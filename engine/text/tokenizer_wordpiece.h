/* tokenizer_wordpiece: BERT's tokenizer: text is cleaned and cut into words, and of each word the
 * longest piece that is a token is taken first (Devlin et al. 2019, Wu et al. 2016).
 *
 * Owns:     the index of pieces, the options of the normaliser.
 * Thread:   read-only once it is made.
 * Cost:     O(n × characters of the longest piece) for any text; no memory.
 * Not here: control tokens in a text (tokenizer), the tokens around it (prepare).
 *
 *     text ─► clean ─► CJK characters apart ─► no accents ─► lower case ─► words, signs ─► pieces
 *
 * A piece that begins a word has a blank before it here, and one that goes on has none; the file
 * writes "word" and "##piece". A word of which no division into pieces begins with the longest ones
 * is the unknown token, and so is a word of more than 100 characters.
 *
 * Steps of the normaliser are those of Hugging Face's BertNormalizer, of the version of Unicode
 * that it has: marks, signs and format characters that came later are letters to it.
 */
#pragma once

#include "engine/models/gguf.h"
#include "engine/models/vocab.h"

struct tokenizer_wordpiece;

/* Reads the options "banyan.bert.clean", "cjk", "strip" and "lower" (all true when missing), and
 * tokenizer.ggml.unknown_token_id. CORRUPT without an unknown token; NO_MEMORY. */
enum status tokenizer_wordpiece_create(struct tokenizer_wordpiece **out, const struct vocab *vocab,
                                       const struct gguf *gguf);
void tokenizer_wordpiece_destroy(struct tokenizer_wordpiece *words);

/* Encodes text without specials; bytes that are not UTF-8 are left out. `*count` grows. LIMIT when
 * more than `capacity` ids are needed. */
enum status tokenizer_wordpiece_encode(const struct tokenizer_wordpiece *words, struct slice text,
                                       uint32_t *ids, size_t capacity, size_t *count);
/* At most so many ids for each byte of a text. */
enum { TOKENIZER_WORDPIECE_GROWTH = 3 };
