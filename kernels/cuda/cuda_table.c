#include <string.h>

#include "config/base/limits.h"
#include "config/base/log.h"
#include "kernels/cpu/ops/ops.h"
#include "kernels/cuda/cuda_ceilings.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_draw.h"
#include "kernels/cuda/cuda_graph.h"
#include "kernels/cuda/cuda_nccl.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_step.h"
#include "kernels/ranks.h"

/* The device's table of operations: cuda_ops.h, with the step's arrays where the device has its own
 * copies. Only in builds with a device's operations (preset cuda), or which run them on the
 * processor (tests/kit/simt). */

enum {
    TABLE_PAGE_TOKENS = 64,
    TABLE_PAGES = 65536, /* kernels_options.tables_max if that is 0 */
};
#define TABLE_SPLIT_BYTES ((size_t)128 << 20) /* 128k keys of 32 heads of 128: 8 MiB a row */

/* Returns whether the device of that driver number is supported. */
static bool table_takes(int index)
{
    struct cuda_device device;
    return cuda_device_get(index, &device) == STATUS_OK && device.major >= CUDA_BACKEND_CAPABILITY;
}

static int table_count(void)
{
    int count = 0;
    for (int i = 0; i < cuda_device_count(); i++)
        count += table_takes(i);
    return count;
}

/* Returns whether each rank has a device of its own. */
static bool table_has_each(uint32_t device, const struct ranks *ranks)
{
    const uint32_t end = device + ranks_count(ranks);
    if (end > (uint32_t)cuda_device_count())
        return false;
    for (uint32_t i = device; i < end; i++)
        if (!table_takes((int)i))
            return false;
    return true;
}

static int table_device(uint32_t device, const struct ranks *ranks)
{
    return (int)(device + (table_has_each(device, ranks) ? ranks_own(ranks) : 0));
}

static enum status table_open(struct kernels *kernels, const struct kernels_options *options)
{
    struct cuda_backend *backend;
    kernels->has_own_device = table_has_each(options->device, options->ranks);
    TRY(cuda_backend_open(
        &backend, &(struct cuda_backend_options){
                      .device = table_device(options->device, options->ranks),
                      .rows_max = options->rows_max,
                      .cols_max = options->cols_max,
                      .tables_max = options->tables_max > 0 ? options->tables_max : TABLE_PAGES,
                      .split_bytes = TABLE_SPLIT_BYTES,
                      .is_free = options->is_free,
                      .trial = options->trial,
                      .kernels = kernels}));
    kernels->device = backend;
    return STATUS_OK;
}

static void table_close(struct kernels *kernels)
{
    cuda_nccl_close(kernels->nccl);
    cuda_backend_free_host(kernels->device, kernels->ranks_host);
    cuda_backend_close(kernels->device);
}

static void table_attach(struct kernels *kernels)
{
    cuda_backend_attach(kernels->device);
}

/* --- memory --- */

static void *table_buffer_create(struct kernels *kernels, size_t bytes)
{
    void *buffer;
    (void)cuda_backend_alloc(kernels->device, &buffer, bytes,
                             "buffers"); /* table_no_memory gives the details */
    return buffer;
}

static void table_buffer_destroy(struct kernels *kernels, void *buffer)
{
    cuda_backend_free(kernels->device, buffer);
}

static void *table_host_create(struct kernels *kernels, size_t bytes)
{
    void *memory;
    (void)cuda_backend_alloc_host(kernels->device, &memory, bytes, "buffers");
    return memory;
}

static void table_host_destroy(struct kernels *kernels, void *memory)
{
    cuda_backend_free_host(kernels->device, memory);
}

static enum status table_no_memory(struct kernels *kernels, size_t bytes, const char *what)
{
    return cuda_backend_no_memory(kernels->device, bytes, what);
}

static void table_upload(struct kernels *kernels, void *to, const void *from, size_t bytes)
{
    cuda_backend_upload(kernels->device, to, from, bytes);
}

static enum status table_download(struct kernels *kernels, void *to, const void *from, size_t bytes)
{
    return cuda_backend_download(kernels->device, to, from, bytes);
}

static enum status table_weight_create(struct kernels *kernels, struct weight *out,
                                       const struct tensor *tensor)
{
    return cuda_backend_weight_create(kernels->device, out, tensor);
}

static void table_weight_destroy(struct kernels *kernels, struct weight *weight)
{
    cuda_backend_weight_destroy(kernels->device, weight);
}

/* --- pages --- */

static enum status table_kv_layout(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                                   uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                                   struct kv_layout *out)
{
    TRY(cuda_kv_layout(type, page_tokens, layers, kv_heads, head_dim, out));
    return cuda_attention_fits(kernels->device, out);
}

static void table_kv_copy(struct kernels *kernels, const struct kv_layout *layout, void *to_page,
                          const void *from_page, uint32_t tokens)
{
    cuda_kv_copy(kernels->device, layout, to_page, from_page, tokens);
}

static uint64_t table_pages_copy(struct kernels *kernels, const struct pages_copy_args *args)
{
    return cuda_pages_copy(kernels->device, args);
}

static void table_pages_wait(struct kernels *kernels, uint64_t batch)
{
    cuda_pages_wait_for(kernels->device, batch);
}

static uint64_t table_pages_ended(struct kernels *kernels)
{
    return cuda_pages_ended(kernels->device);
}

static enum status table_pages_end(struct kernels *kernels)
{
    return cuda_pages_end(kernels->device);
}

/* --- a step --- */

static enum status table_step_run(struct kernels *kernels, const struct kernels_step *step,
                                  void (*forward)(void *context), void *context)
{
    return cuda_step_run(kernels->device, step, forward, context);
}

static enum status table_step_end(struct kernels *kernels)
{
    return cuda_backend_end(kernels->device);
}

/* Inside a step, operations are launched over its padded rows (cuda_step). */
static void table_embed(struct kernels *kernels, const struct embed_args *args)
{
    struct embed_args own = *args;
    own.tokens = cuda_step_tokens(kernels->device);
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_embed(kernels->device, &own);
}

static void table_norm(struct kernels *kernels, const struct norm_args *args)
{
    struct norm_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_norm(kernels->device, &own);
}

static void table_linear(struct kernels *kernels, const struct linear_args *args)
{
    struct linear_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_linear(kernels->device, &own);
}

static void table_rope_table(struct kernels *kernels, const struct rope_table_args *args)
{
    struct rope_table_args own = *args;
    own.positions = cuda_step_positions(kernels->device);
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_rope_table(kernels->device, &own);
}

static void table_rope(struct kernels *kernels, const struct rope_args *args)
{
    struct rope_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_rope(kernels->device, &own);
}

static void table_kv_write(struct kernels *kernels, const struct kv_write_args *args)
{
    struct kv_write_args own = *args;
    struct rope_args ropes[KV_WRITE_ROPES];
    own.rows = cuda_step_rows(kernels->device, args->rows);
    for (int i = 0; i < KV_WRITE_ROPES; i++)
        if (args->rope[i] != NULL) {
            ropes[i] = *args->rope[i];
            ropes[i].rows = own.rows;
            own.rope[i] = &ropes[i];
        }
    cuda_kv_write(kernels->device, &own);
}

static void table_attention(struct kernels *kernels, const struct attention_args *args)
{
    struct attention_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_attention(kernels->device, &own);
}

static void table_act(struct kernels *kernels, const struct act_args *args)
{
    struct act_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_act(kernels->device, &own);
}

static void table_softcap(struct kernels *kernels, const struct softcap_args *args)
{
    struct softcap_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_softcap(kernels->device, &own);
}

static void table_gather(struct kernels *kernels, const struct gather_args *args)
{
    struct gather_args own = *args;
    own.order = cuda_step_logit_row(kernels->device);
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_gather(kernels->device, &own);
}

static void table_route(struct kernels *kernels, const struct route_args *args)
{
    struct route_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_route(kernels->device, &own);
}

static size_t table_experts_bytes(const struct kernels *kernels, uint32_t rows_max, uint32_t used,
                                  uint32_t width, uint32_t hidden)
{
    (void)kernels;
    return cuda_experts_bytes(rows_max, used, width, hidden);
}

static void table_experts(struct kernels *kernels, const struct experts_args *args)
{
    struct experts_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    cuda_experts(kernels->device, &own);
}

static void table_logits_stats(struct kernels *kernels, const float *logits, uint32_t rows,
                               uint32_t vocab, struct logits_stats *out)
{
    struct logits_stats *stats = cuda_backend_stats(kernels->device);
    cuda_logits_stats(kernels->device, logits, rows, vocab, stats);
    /* a failure shows at the step's end */
    (void)cuda_backend_download(kernels->device, out, stats, rows * sizeof *out);
}

static enum status table_drawer_create(struct kernels *kernels, struct kernels_drawer **out,
                                       uint32_t vocab, uint32_t adjusts_max)
{
    struct cuda_draw *draw;
    TRY(cuda_draw_open(kernels->device, &draw, vocab, adjusts_max));
    *out = (struct kernels_drawer *)draw;
    return STATUS_OK;
}

static void table_drawer_destroy(struct kernels *kernels, struct kernels_drawer *drawer)
{
    (void)kernels;
    cuda_draw_close((struct cuda_draw *)drawer);
}

static enum status table_draw(struct kernels *kernels, struct kernels_drawer *drawer,
                              const struct draw_args *args)
{
    (void)kernels;
    return cuda_draw_run((struct cuda_draw *)drawer, args);
}

static enum status table_measure_ceilings(struct kernels *kernels, size_t model_bytes,
                                          struct kernels_ceilings *out)
{
    enum { MOST = 256 << 20 }; /* more than a device's caches hold, whatever the model's size */
    return cuda_ceilings(kernels->device, model_bytes < MOST ? model_bytes : MOST, out);
}

static struct kernels_captures table_measure_captures(const struct kernels *kernels)
{
    const struct cuda_graphs *graphs = cuda_graph_all(kernels->device);
    return (struct kernels_captures){graphs->captured, graphs->captured_us, graphs->captured_bytes};
}

static void table_prepare(uint32_t device, const struct ranks *ranks)
{
    cuda_device_prepare(table_device(device, ranks));
}

static void table_places(uint32_t device, const struct ranks *ranks, kernels_prepare_place *each,
                         void *context)
{
    cuda_device_places(table_device(device, ranks), each, context);
}

/* --- ranks --- */

/* Where ranks share a device, which NCCL refuses, or have no NCCL, sums go over the host: each
 * waits for the device and for all ranks. This is for tests of the rest; it is too slow for
 * serving. */
static enum status table_ranks_open(struct kernels *kernels)
{
    if (kernels->has_own_device)
        TRY(cuda_nccl_open(&kernels->nccl, kernels->device, kernels->ranks));
    const bool is_slow = kernels->has_own_device && kernels->nccl == NULL;
    LOG(is_slow ? LOG_WARN : LOG_INFO, "ranks_sum_by",
        LOG_TEXT("way", kernels->nccl != NULL ? "nccl" : "host"));
    if (kernels->nccl != NULL)
        return STATUS_OK;
    cuda_graph_set(kernels->device, false); /* sums over the host cannot be captured */
    return cuda_backend_alloc_host(kernels->device, (void **)&kernels->ranks_host,
                                   2 * sizeof(float) * LIMIT_VOCAB, "sums over ranks");
}

static void table_reduce_host(struct kernels *kernels, const struct all_reduce_args *args)
{
    size_t left = (size_t)args->rows * args->cols;
    float *host = kernels->ranks_host;
    for (float *x = args->x; left > 0;) {
        uint32_t count = left < LIMIT_VOCAB ? (uint32_t)left : LIMIT_VOCAB;
        if (cuda_backend_download(kernels->device, host, x, count * sizeof *x) != STATUS_OK)
            return;
        op_ranks_reduce(kernels, &(struct all_reduce_args){.x = host, .rows = 1, .cols = count});
        if (kernels->is_lost)
            cuda_backend_fail(kernels->device, status_note()->message);
        cuda_backend_upload(kernels->device, x, host, count * sizeof *x);
        x += count;
        left -= count;
    }
}

static void table_all_reduce(struct kernels *kernels, const struct all_reduce_args *args)
{
    struct all_reduce_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    if (kernels->nccl != NULL)
        cuda_nccl_reduce(kernels->nccl, &own);
    else
        table_reduce_host(kernels, &own);
}

static void table_gather_host(struct kernels *kernels, const struct all_gather_args *args)
{
    uint32_t begin;
    uint32_t end;
    float *part = kernels->ranks_host;
    float *whole = part + LIMIT_VOCAB;
    threads_share(args->cols, ranks_own(kernels->ranks), ranks_count(kernels->ranks), &begin, &end);
    const size_t part_bytes = (end - begin) * sizeof(float);
    for (uint32_t row = 0; row < args->rows; row++) {
        const float *from = args->part + (size_t)row * (end - begin);
        if (cuda_backend_download(kernels->device, part, from, part_bytes) != STATUS_OK)
            return;
        op_ranks_gather(kernels, &(struct all_gather_args){
                                     .part = part, .out = whole, .rows = 1, .cols = args->cols});
        if (kernels->is_lost)
            cuda_backend_fail(kernels->device, status_note()->message);
        if (ranks_own(kernels->ranks) == 0)
            cuda_backend_upload(kernels->device, args->out + (size_t)row * args->cols, whole,
                                args->cols * sizeof *whole);
    }
}

static void table_all_gather(struct kernels *kernels, const struct all_gather_args *args)
{
    struct all_gather_args own = *args;
    own.rows = cuda_step_rows(kernels->device, args->rows);
    if (kernels->nccl != NULL)
        cuda_nccl_gather(kernels->nccl, &own);
    else
        table_gather_host(kernels, &own);
}

const struct kernels_ops cuda_ops = {
    .name = "cuda",
    .is_device = true,
    .page_tokens = TABLE_PAGE_TOKENS,
    .count = table_count,
    .prepare = table_prepare,
    .places = table_places,
    .open = table_open,
    .close = table_close,
    .attach = table_attach,
    .buffer_create = table_buffer_create,
    .buffer_destroy = table_buffer_destroy,
    .host_create = table_host_create,
    .no_memory = table_no_memory,
    .measure_captures = table_measure_captures,
    .host_destroy = table_host_destroy,
    .upload = table_upload,
    .download = table_download,
    .weight_create = table_weight_create,
    .weight_destroy = table_weight_destroy,
    .kv_layout = table_kv_layout,
    .kv_copy = table_kv_copy,
    .pages_copy = table_pages_copy,
    .pages_wait = table_pages_wait,
    .pages_ended = table_pages_ended,
    .pages_end = table_pages_end,
    .step_run = table_step_run,
    .step_end = table_step_end,
    .embed = table_embed,
    .norm = table_norm,
    .linear = table_linear,
    .rope_table = table_rope_table,
    .rope = table_rope,
    .kv_write = table_kv_write,
    .attention = table_attention,
    .act = table_act,
    .softcap = table_softcap,
    .gather = table_gather,
    .route = table_route,
    .experts_bytes = table_experts_bytes,
    .experts = table_experts,
    .ranks_open = table_ranks_open,
    .all_reduce = table_all_reduce,
    .all_gather = table_all_gather,
    .logits_stats = table_logits_stats,
    .drawer_create = table_drawer_create,
    .drawer_destroy = table_drawer_destroy,
    .draw = table_draw,
    .measure_ceilings = table_measure_ceilings,
};
