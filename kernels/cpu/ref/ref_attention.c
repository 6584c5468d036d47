#include "kernels/cpu/ref/ref.h"

#include <math.h>
#include <string.h>

#include "config/base/limits.h"
#include "kernels/cpu/kv_tile.h"
#include "kernels/half.h"

static void write_store(const struct kv_layout *layout, char *tile, size_t index, float value)
{
    if (layout->type == KV_TYPE_F32) {
        ((float *)(void *)tile)[index] = value;
    } else {
        ((uint16_t *)(void *)tile)[index] = half_from_float(value);
    }
}

static float attention_load(const struct kv_layout *layout, const char *tile, size_t index)
{
    if (layout->type == KV_TYPE_F32)
        return ((const float *)(const void *)tile)[index];
    return half_to_float(((const uint16_t *)(const void *)tile)[index]);
}

void k_kv_write_ref(const struct kv_write_args *args, uint32_t begin, uint32_t end)
{
    const struct kv_layout *layout = args->kv.layout;
    for (uint32_t r = begin; r < end; r++) {
        void *page = kv_tile_page(&args->kv, r, args->kv.position[r]);
        uint32_t token = args->kv.position[r] % layout->page_tokens;
        for (uint32_t h = 0; h < layout->kv_heads; h++) {
            size_t from = ((size_t)r * layout->kv_heads + h) * layout->head_dim;
            char *tile = kv_tile_at(layout, page, args->layer, h);
            for (uint32_t d = 0; d < layout->head_dim; d++) {
                write_store(layout, tile, kv_tile_k_index(layout, token, d), args->k[from + d]);
                write_store(layout, tile + layout->tile_bytes, kv_tile_v_index(layout, token, d),
                            args->v[from + d]);
            }
        }
    }
}

/* softmax(scale × q · Kᵀ) · V of one query with a running maximum: when a greater score comes,
 * what was summed before is scaled down. */
static void attention_query(const struct attention_args *args, uint32_t row, uint32_t kv_head,
                            const float *q, float *out)
{
    const struct kv_layout *layout = args->kv.layout;
    const uint32_t n = layout->head_dim;
    double max = -INFINITY;
    double sum = 0;
    double mean[LIMIT_HEAD_DIM] = {0};
    for (uint32_t key = 0; key <= args->kv.position[row]; key++) {
        uint32_t token = key % layout->page_tokens;
        const char *k = kv_tile_at(layout, kv_tile_page(&args->kv, row, key), args->layer, kv_head);
        const char *v = k + layout->tile_bytes;
        double score = 0;
        for (uint32_t d = 0; d < n; d++)
            score +=
                (double)q[d] * (double)attention_load(layout, k, kv_tile_k_index(layout, token, d));
        score *= (double)args->scale;
        if (score > max) {
            double shrink = exp(max - score);
            sum *= shrink;
            for (uint32_t d = 0; d < n; d++)
                mean[d] *= shrink;
            max = score;
        }
        double p = exp(score - max);
        sum += p;
        for (uint32_t d = 0; d < n; d++)
            mean[d] += p * (double)attention_load(layout, v, kv_tile_v_index(layout, token, d));
    }
    for (uint32_t d = 0; d < n; d++)
        out[d] = (float)(mean[d] / sum);
}

void k_attention_ref(const struct table_attention *call)
{
    const struct attention_args *args = call->args;
    const uint32_t n = args->kv.layout->head_dim;
    for (uint32_t i = 0; i < call->rows; i++)
        for (uint32_t h = call->head; h < call->head + call->heads; h++) {
            uint32_t r = call->order[i];
            size_t at = ((size_t)r * args->heads + h) * n;
            attention_query(args, r, call->kv_head, args->q + at, args->out + at);
        }
}
