#include "engine/models/model_units.h"

#include "engine/models/model_config.h"

/* The window of a kind that looks back less than the other kind, which reads all keys; 0 = there
 * are no two such kinds. `*few` is the number of its layers. */
static uint32_t units_window(const struct model_config *config, uint32_t *few)
{
    uint32_t window = 0;
    *few = 0;
    for (uint32_t i = 0; i < config->layers; i++) {
        const uint32_t own = config->kinds[config->kind_of[i]].window;
        window = own > window ? own : window;
        *few += own > 0;
    }
    return *few < config->layers ? window : 0;
}

uint32_t model_units_windows(const struct model_config *config)
{
    uint32_t few;
    const uint32_t window = units_window(config, &few);
    const uint32_t each = config->layers - few;
    return window > 0 ? (few + each - 1) / each : 0;
}

enum status model_units_layout(struct kernels *kernels, const struct model_config *config,
                               uint32_t kv_heads, enum kv_type type, uint32_t page_tokens,
                               struct kv_layout *out)
{
    uint32_t few;
    const uint32_t window = units_window(config, &few);
    if (window == 0)
        return model_units_layout_whole(kernels, config, kv_heads, type, page_tokens, out);
    const uint32_t each = config->layers - few;
    TRY(model_config_check_kv(config, type));
    TRY(kernels_kv_layout(kernels, type, page_tokens, each, kv_heads, config->head_dim, out));
    out->window_units = (few + each - 1) / each;
    out->window = window;
    return STATUS_OK;
}

enum status model_units_layout_whole(struct kernels *kernels, const struct model_config *config,
                                     uint32_t kv_heads, enum kv_type type, uint32_t page_tokens,
                                     struct kv_layout *out)
{
    return kernels_kv_layout(kernels, type, page_tokens, config->layers, kv_heads, config->head_dim,
                             out);
}

bool model_units_places(const struct model_config *config, const struct kv_layout *layout,
                        struct model_place *out)
{
    uint32_t few;
    uint32_t next[2] = {0, 0}; /* of the layers that read all keys, of the others */
    const uint32_t window = units_window(config, &few);
    const uint32_t each = layout->layers;
    const bool is_whole = layout->window_units == 0;
    if (is_whole ? each != config->layers
                 : window == 0 || layout->window != window || each != config->layers - few ||
                       layout->window_units != (few + each - 1) / each)
        return false;
    for (uint32_t i = 0; i < config->layers; i++) {
        const bool is_few = !is_whole && config->kinds[config->kind_of[i]].window > 0;
        const uint32_t at = next[is_few]++;
        out[i] =
            is_few ? (struct model_place){1 + at / each, at % each} : (struct model_place){0, at};
    }
    return true;
}
