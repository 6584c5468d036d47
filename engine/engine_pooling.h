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

/* "off", "last" or "mean"; with "auto" (or NULL) what the file's key pooling_type says, and NONE
 * when it has none. INVALID for another word, UNSUPPORTED for another pooling of the file. */
enum status engine_pooling_find(enum engine_pooling *out, const char *word,
                                const struct model_source *source);
