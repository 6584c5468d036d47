/* tiny_folder: the models of tiny_model as Hugging Face directories.
 *
 * Owns:     nothing; the directory is the hf_writer's.
 * Thread:   one.
 * Cost:     linear in the weights.
 * Not here: the numbers (tiny_model), the files (hf_writer).
 */
#pragma once

#include "tests/kit/hf_writer.h"
#include "tests/kit/tiny_model.h"

/* How config.json spells rope and dtype. */
enum tiny_spelling { TINY_SPELLING_OLD /* rope_theta, rope_scaling */, TINY_SPELLING_NEW };

/* Writes config.json and the weights, in this many files. */
void tiny_folder_write(struct hf_writer *writer, const struct tiny_model *model, uint32_t files,
                       enum tiny_spelling spelling);
/* Appends config.json's text. */
void tiny_folder_config(const struct tiny_model *model, enum tiny_spelling spelling,
                        struct buffer *out);

/* Writes the files about text that say what the keys of llama_file_write_tokenizer say. The last
 * `padding` tokens are rows of the embeddings that tokenizer.json does not have. */
void tiny_folder_text(const struct hf_writer *writer, uint32_t vocab, uint32_t padding);
