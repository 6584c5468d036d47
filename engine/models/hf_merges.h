/* hf_merges: the model of tokenizer.json: tokens by id, and merges.
 *
 * Owns:     the lists; texts point into the JSON.
 * Thread:   one.
 * Cost:     O(tokens + merges); for pieces also O(characters of all pieces).
 * Not here: normalisers and the rest of the file (hf_tokenizer).
 */
#pragma once

#include "config/base/json_read.h"
#include "engine/models/gguf_keys.h"

struct hf_merges_index;

struct hf_merges {
    uint32_t size;        /* tokens, with those that only pad the vocabulary */
    struct slice *tokens; /* [size]; bytes NULL: there is none of this id */
    int32_t *kinds;       /* [size] enum vocab_kind, 0 where there is no token */
    char *fillers;        /* texts of tokens that pad */
    struct hf_merges_index *index;
};

/* Reads the vocabulary of the model at index `model`, and the added tokens, the list at index
 * `added` (0: none), which may be among them. UNSUPPORTED or CORRUPT names the token. */
enum status hf_merges_open(struct hf_merges *out, const struct json_read *json, uint32_t model,
                           uint32_t added, uint32_t size);
void hf_merges_close(struct hf_merges *merges);
/* Finds a token by its text; false when there is none. */
bool hf_merges_find(const struct hf_merges *merges, struct slice text, uint32_t *out);

/* Writes tokens and their kinds; then the merges of byte-level BPE as they are. */
enum status hf_merges_write_bytes(const struct hf_merges *merges, const struct json_read *json,
                                  uint32_t model, struct gguf_keys *keys);
/* The same with a score for each piece, as SentencePiece has. The merges must be those that
 * SentencePiece would make: for each piece all ways to divide it in two pieces, one behind the
 * other. UNSUPPORTED names the first piece of which that is not so. Merges that take or make
 * another than a normal token are left out. */
enum status hf_merges_write_pieces(const struct hf_merges *merges, const struct json_read *json,
                                   uint32_t model, struct gguf_keys *keys);
