/* model_units: which unit of a KV page holds a layer's keys, where layers have two kinds.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(layers).
 * Not here: who owns units (engine/kv/kv_pool), what lies inside one (kernels).
 *
 * A unit holds as many layers as the model has layers that read all keys. These are in the first
 * unit of a page. The others, which read the last `window` keys only, are in its window units:
 *
 *     kinds of layers   w w a w w w w a w         2 read all keys, 7 have a window
 *     unit, layer in it 1 1 0 2 2 3 3 0 4         4 window units; the last one is half empty
 *                       0 1 0 0 1 0 1 1 0
 *
 * A model with one kind of layers has one unit a page. So have pages that hold all layers of a
 * model with two kinds, which tests and drafts use.
 */
#pragma once

#include "engine/models/model_types.h"

struct model_place {
    uint32_t group; /* as in kv_write_args */
    uint32_t layer;
};

/* Lays out units for `kv_heads` heads (a rank's share). UNSUPPORTED as kernels_kv_layout and
 * model_config_check_kv. */
enum status model_units_layout(struct kernels *kernels, const struct model_config *config,
                               uint32_t kv_heads, enum kv_type type, uint32_t page_tokens,
                               struct kv_layout *out);
/* Lays out pages of one unit, with all layers. */
enum status model_units_layout_whole(struct kernels *kernels, const struct model_config *config,
                                     uint32_t kv_heads, enum kv_type type, uint32_t page_tokens,
                                     struct kv_layout *out);

/* Window units of a page; 0 = all layers are of one kind. */
uint32_t model_units_windows(const struct model_config *config);

/* Writes the place of each layer to out [config->layers]; false when the layout is neither of these
 * for this model. */
bool model_units_places(const struct model_config *config, const struct kv_layout *layout,
                        struct model_place *out);
