/* bert_folder: a small encoder as a Hugging Face directory, with random weights.
 *
 * Owns:     nothing.
 * Thread:   one.
 * Cost:     linear in the weights.
 * Not here: what is right (the tests).
 */
#pragma once

#include "tests/kit/hf_writer.h"

enum {
    BERT_LAYERS = 2,
    BERT_WIDTH = 64,
    BERT_HEADS = 2, /* of 32 */
    BERT_HIDDEN = 96,
    BERT_VOCAB = 40,
    BERT_CONTEXT = 96,
};

/* The value at `index` of a tensor, in [-scale, scale]. */
float bert_folder_value(const char *name, uint64_t index);

/* Writes config.json, the weights, modules.json and the file of the pooling (the mean, vectors of
 * length 1), and tokenizer.json: [PAD], [UNK], [CLS], [SEP], then "a" to "z", "##a" to "##j". */
void bert_folder_write(struct hf_writer *writer);
