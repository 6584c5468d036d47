/* hf_pooling: what a directory of sentence-transformers says of its embeddings.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     reads two small files.
 * Not here: making embeddings (engine/step/step_embed).
 *
 *   modules.json       modules: Transformer, Pooling and, if vectors have length 1, Normalize
 *   1_Pooling/config.json      which pooling; the folder's name is that of the module's path
 */
#pragma once

#include "engine/models/gguf_keys.h"

/* Writes "<arch>.pooling_type", with the numbers of GGUF files, and "banyan.embeddings_normalised".
 * A directory without modules.json gets neither key. UNSUPPORTED names a module or pooling that is
 * another one; CORRUPT what is wrong. */
enum status hf_pooling_read(int folder, const char *arch, struct gguf_keys *keys);
