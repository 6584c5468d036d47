#include "kernels/cpu/ops/ops.h"

#include <string.h>

#include "config/base/limits.h"
#include "kernels/cpu/kv_tile.h"

enum status op_kv_layout(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                         uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                         struct kv_layout *out)
{
    if ((kernels->table->kv_types >> type & 1) == 0)
        FAIL(STATUS_UNSUPPORTED, "the kernels %s have no KV pages of type %s", kernels->table->name,
             kernels_kv_type_name(type));
    if (page_tokens < KV_TILE_KEYS || page_tokens > LIMIT_PAGE_TOKENS ||
        page_tokens % KV_TILE_KEYS != 0)
        FAIL(STATUS_UNSUPPORTED, "pages of %u tokens; multiples of %d up to %d are supported",
             page_tokens, KV_TILE_KEYS, LIMIT_PAGE_TOKENS);
    if (head_dim < 1 || head_dim > LIMIT_HEAD_DIM)
        FAIL(STATUS_UNSUPPORTED, "heads of %u dimensions; from 1 to %d are supported", head_dim,
             LIMIT_HEAD_DIM);
    if (layers < 1 || layers > LIMIT_LAYERS || kv_heads < 1 || kv_heads > LIMIT_HEADS)
        FAIL(STATUS_UNSUPPORTED, "%u layers of %u KV heads; up to %d of %d are supported", layers,
             kv_heads, LIMIT_LAYERS, LIMIT_HEADS);
    struct kv_layout layout = {.type = type,
                               .page_tokens = page_tokens,
                               .layers = layers,
                               .kv_heads = kv_heads,
                               .head_dim = head_dim};
    const size_t groups = page_tokens / KV_TILE_KEYS;
    layout.tile_bytes = groups * kv_tile_keys_bytes(&layout);
    layout.head_bytes = layout.tile_bytes + groups * kv_tile_group_bytes(&layout);
    layout.layer_bytes = layout.head_bytes * kv_heads;
    layout.page_bytes = (layout.layer_bytes * layers + 63) / 64 * 64;
    if (kernels_kv_has_groups(type))
        layout.open_bytes =
            ((size_t)layers * kv_heads * head_dim * KV_TILE_KEYS * sizeof(uint16_t) + 63) / 64 * 64;
    *out = layout;
    return STATUS_OK;
}

/* Copies the first tokens of each of `count` cells; a cell has 16 tokens of `bytes` side by side.
 */
static void kv_copy_part(char *to, const char *from, size_t count, size_t bytes, uint32_t tokens)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * KV_TILE_KEYS * bytes, from + i * KV_TILE_KEYS * bytes, tokens * bytes);
}

/* Copies exactly the wanted tokens, because the elements behind them may belong to another
 * sequence. */
void op_kv_copy(struct kernels *kernels, const struct kv_layout *layout, void *to_page,
                const void *from_page, uint32_t tokens)
{
    (void)kernels;
    const size_t group = kv_tile_group_bytes(layout);
    const size_t scales = group - kv_tile_scales_bytes(layout);
    const uint32_t groups = tokens / KV_TILE_KEYS;
    const uint32_t rest = tokens % KV_TILE_KEYS;
    const size_t key = kv_tile_values_codes(layout) ? KV_TILE_QUAD : kv_tile_element_bytes(layout);
    ASSERT(tokens <= layout->page_tokens);
    ASSERT(rest == 0 || layout->open_bytes == 0);
    for (uint32_t tile = 0; tile < layout->layers * layout->kv_heads * 2; tile++) {
        const bool is_keys = tile % 2 == 0;
        const size_t at = tile / 2 * layout->head_bytes + (is_keys ? 0 : layout->tile_bytes);
        const size_t whole = groups * (is_keys ? kv_tile_keys_bytes(layout) : group);
        char *to = (char *)to_page + at;
        const char *from = (const char *)from_page + at;
        memcpy(to, from, whole);
        if (rest == 0)
            continue;
        to += whole;
        from += whole;
        kv_copy_part(to, from, is_keys ? scales / KV_TILE_KEYS / key : 1,
                     is_keys ? key : scales / KV_TILE_KEYS, rest);
        kv_copy_part(to + scales, from + scales, scales < group, sizeof(float), rest);
    }
}

/* The cost of a key's element: each dimension goes to a cache line of its own, in a page that has
 * not been touched lately. */
enum { KV_SCATTER = 4 };

struct kv_job {
    const struct kernel_table *table;
    const struct kv_write_args *args;
};

static void op_kv_write_job(void *context, uint32_t thread, uint32_t count)
{
    const struct kv_job *job = context;
    uint32_t begin;
    uint32_t end;
    threads_share(job->args->rows, thread, count, &begin, &end);
    if (begin >= end)
        return;
    for (uint32_t i = 0; i < KV_WRITE_ROPES; i++)
        if (job->args->rope[i] != NULL)
            job->table->rope(job->args->rope[i], begin, end);
    job->table->kv_write(job->args, begin, end);
}

/* Packs groups that are full now: the last row of a group packs its keys. */
static void op_kv_pack_job(void *context, uint32_t thread, uint32_t count)
{
    const struct kv_job *job = context;
    const struct kv_rows *kv = &job->args->kv;
    const struct kv_layout *layout = kv->layout;
    uint32_t begin;
    uint32_t end;
    threads_share(job->args->rows, thread, count, &begin, &end);
    for (uint32_t r = begin; r < end; r++) {
        const uint32_t token = kv->position[r] % layout->page_tokens;
        if (token % KV_TILE_KEYS != KV_TILE_KEYS - 1)
            continue;
        void *page = kv_tile_page(kv, r, kv->position[r]);
        for (uint32_t h = 0; h < layout->kv_heads; h++)
            job->table->keys_pack(kv_tile_open(kv, r, job->args->layer, h), layout->head_dim,
                                  kv_tile_at(layout, page, job->args->layer, h) +
                                      token / KV_TILE_KEYS * kv_tile_keys_bytes(layout));
    }
}

void op_kv_write(struct kernels *kernels, const struct kv_write_args *asked)
{
    struct kv_write_args own = *asked;
    const struct kv_write_args *args = &own;
    const struct kv_layout *layout = args->kv.layout;
    struct kv_job job = {kernels->table, args};
    own.kv = ops_group(&asked->kv, asked->group);
    ASSERT(args->layer < layout->layers);
    ASSERT(kernels->table->kv_types >> layout->type & 1);
    size_t elements = (size_t)args->rows * layout->kv_heads * layout->head_dim * KV_SCATTER;
    for (uint32_t i = 0; i < KV_WRITE_ROPES; i++)
        if (args->rope[i] != NULL) {
            ASSERT(args->rope[i]->rows == args->rows);
            ASSERT(args->rope[i]->pairs * 2 <= args->rope[i]->head_dim);
            elements += (size_t)args->rows * args->rope[i]->heads * args->rope[i]->head_dim;
        }
    ops_run(kernels, &(struct ops_work){.op = KERNELS_OP_kv_write}, elements, op_kv_write_job,
            &job);
    uint32_t full = 0;
    for (uint32_t r = 0; layout->open_bytes > 0 && r < args->rows; r++)
        full += (args->kv.position[r] + 1) % KV_TILE_KEYS == 0;
    if (full > 0)
        ops_run(kernels, &(struct ops_work){.op = KERNELS_OP_kv_write},
                (size_t)full * KV_TILE_KEYS * layout->kv_heads * layout->head_dim, op_kv_pack_job,
                &job);
}
