/* hf_presplit: what tokenizer.json says about normalisers and pre-tokenizers, in words.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(steps).
 * Not here: cutting a text (engine/text/tokenizer_presplit).
 */
#pragma once

#include "config/base/json_read.h"

/* Appends the steps of a normaliser or pre-tokenizer, the value at index `at`, with "; " between
 * them; nothing for null. A step that this does not know is its type alone, and so equals nothing
 * that is supported. */
void hf_presplit_describe(const struct json_read *json, uint32_t at, struct buffer *out);

/* Returns the name of the row of engine/text/presplits.def that cuts like these steps, or NULL. */
const char *hf_presplit_find(struct slice pre_tokenizer, bool is_nfc, bool ignores_merges);
