/* model_config: a model's hyper-parameters, read from the keys of its file and checked.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(keys + tensors).
 * Not here: the tensors themselves (decoder_weights), what the numbers are used for (decoder).
 */
#pragma once

#include "engine/models/arch.h"
#include "engine/models/model_source.h"
#include "engine/models/model_types.h"

/* Reads only the hyper-parameters, and checks each against its range, the others and the
 * embedding table. UNSUPPORTED names the architecture or key that is not supported, CORRUPT the
 * key that is wrong. */
enum status model_config_read(struct model_config *out, const struct model_source *source);
/* The same, with the architecture's row. */
enum status model_config_read_arch(struct model_config *out, const struct model_source *source,
                                   const struct arch **arch);

/* Logs, for each key that contradicts the row, what the file and what the row says; the row is
 * followed. Returns the number of such keys. */
uint32_t model_config_warn(const struct model_config *config, const struct arch *arch,
                           const struct model_source *source);

/* Returns whether each token attends to all of its text. */
bool model_config_is_encoder(const struct model_config *config);
/* Returns whether layers differ in how far they look back, so that pages have parts for each kind
 * of layer. */
bool model_config_has_two_windows(const struct model_config *config);
/* UNSUPPORTED when the model's pages cannot have this type. */
enum status model_config_check_kv(const struct model_config *config, enum kv_type type);
