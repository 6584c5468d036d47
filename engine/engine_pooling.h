/* engine_pooling: finds how a model's embeddings are made.
 *
 * Owns:     nothing.
 * Thread:   any, at start.
 * Cost:     a look-up.
 * Not here: making them (engine/step/step_embed).
 */
#pragma once

#include "engine/models/model_source.h"
#include "engine/request/engine_mode.h"

/* "off", "last", "mean" or "cls"; with "auto" (or NULL) what the file's key pooling_type says, and
 * NONE when it has none. INVALID for another word, UNSUPPORTED for another pooling of the file. */
enum status engine_pooling_find(enum engine_pooling *out, const char *word,
                                const struct model_source *source);

/* Whether vectors have the length 1: unless a directory's modules say otherwise. */
enum status engine_pooling_normalises(bool *out, const struct model_source *source);

/* UNSUPPORTED when the model cannot have this pooling: decoders do not see later tokens from the
 * first one, and encoders do nothing but embeddings. */
enum status engine_pooling_check(enum engine_pooling pooling, bool is_encoder);
