/* tiny_golden: what transformers and llama.cpp's converter said about one generated model.
 *
 * Owns:     the parsed file and the log-probabilities, until tiny_golden_close.
 * Thread:   one.
 * Cost:     reads two small files.
 * Not here: making them (tests/parity/tiny/make.py), the model itself (tests/kit/tiny_model).
 */
#pragma once

#include <jansson.h>

#include "tests/kit/tiny_model.h"

enum { TINY_GOLDEN_TOKENS = 48 };

struct tiny_golden {
    const struct tiny_model *model;
    json_t *json;
    uint32_t tokens[TINY_GOLDEN_TOKENS];
    uint32_t positions; /* the last ones of the text have log-probabilities */
    double *logprobs;   /* [positions][TINY_VOCAB] */
};

/* Ends the program with a message when a file is missing or wrong. */
void tiny_golden_open(struct tiny_golden *golden, const struct tiny_model *model);
void tiny_golden_close(struct tiny_golden *golden);

/* Returns the largest difference between the golden and the log-probabilities of `logits`
 * [TINY_GOLDEN_TOKENS][TINY_VOCAB]. A logit that is not finite gives infinity. */
double tiny_golden_difference(const struct tiny_golden *golden, const float *logits);
