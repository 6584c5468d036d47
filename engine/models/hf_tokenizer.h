/* hf_tokenizer: the files about text in a Hugging Face directory, as the keys of a GGUF file.
 *
 * Owns:     nothing.
 * Thread:   one.
 * Cost:     O(bytes of tokenizer.json); the JSON takes up to 192 MiB while it is read.
 * Not here: tokenizing (engine/text), the vocabulary in use (vocab).
 *
 * Read are tokenizer.json, tokenizer_config.json, generation_config.json and chat_template.jinja.
 * What they say about text must be what a tokenizer here does. Otherwise the directory is refused,
 * and the error quotes the file.
 */
#pragma once

#include "config/base/json_read.h"
#include "engine/models/gguf_keys.h"

/* Writes the keys; nothing when the directory has no tokenizer.json. `config` is config.json (NULL:
 * none), `size` the rows of its embeddings; 0: as many as there are tokens. */
enum status hf_tokenizer_read(int folder, const struct json_read *config, uint32_t size,
                              struct gguf_keys *keys);
