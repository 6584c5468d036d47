#include "kernels/kernels.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "kernels/cpu/cpu_ceilings.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/ops/ops.h"
#include "kernels/half.h"
#include "kernels/registry.h"

enum { KERNELS_ALIGNMENT = 64, KERNELS_PADDING = 64 };
#define KERNELS_HUGE_PAGE ((size_t)2 << 20)

static size_t kernels_round_up(size_t bytes)
{
    return (bytes + KERNELS_ALIGNMENT - 1) / KERNELS_ALIGNMENT * KERNELS_ALIGNMENT;
}

static const char *const KERNELS_KV_TYPES[] = {
#define KV_TYPE(id, name) [KV_TYPE_##id] = name,
#include "kernels/kv_types.def"
};

const char *kernels_kv_type_name(enum kv_type type)
{
    return KERNELS_KV_TYPES[type];
}

enum status kernels_kv_type_find(enum kv_type *out, const char *name)
{
    static const char names[] = ""
#define KV_TYPE(id, name) " " name
#include "kernels/kv_types.def"
        ;
    for (int type = 0; type < KV_TYPES; type++)
        if (strcmp(name, KERNELS_KV_TYPES[type]) == 0) {
            *out = (enum kv_type)type;
            return STATUS_OK;
        }
    FAIL(STATUS_UNSUPPORTED, "KV type '%.32s' is not known; there are%s", name, names);
}

/* What one thread needs at most: a packed input of few rows, the scratch of a linear layer and what
 * a gated one keeps, or the attention leaf's own scratch. */
static void kernels_size_thread_scratch(struct kernels *kernels)
{
    const struct kernel_table *table = kernels->table;
    size_t input = kernels_round_up(table->input_bytes(OPS_FEW_ROWS, kernels->cols_max));
    size_t row = kernels_round_up(table_linear_scratch(kernels->cols_max));
    size_t bytes = input + row + ops_gated_bytes(kernels->rows_max);
    if (bytes < table->attention_scratch_bytes)
        bytes = table->attention_scratch_bytes;
    kernels->row_scratch_offset = input;
    kernels->gated_scratch_offset = input + row;
    kernels->thread_scratch_bytes = kernels_round_up(bytes + KERNELS_PADDING);
}

enum status kernels_create(struct kernels **out, const struct kernels_options *options)
{
    const struct kernel_table *table;
    enum status status = STATUS_OK;
    *out = NULL;
    if (options->rows_max < 1 || options->rows_max > LIMIT_BATCH_ROWS)
        FAIL(STATUS_OUT_OF_RANGE, "batches of %u rows; from 1 to %d are supported",
             options->rows_max, LIMIT_BATCH_ROWS);
    if (options->cols_max < 1 || options->cols_max > LIMIT_WEIGHT_COLS)
        FAIL(STATUS_OUT_OF_RANGE, "layers of %u inputs; from 1 to %d are supported",
             options->cols_max, LIMIT_WEIGHT_COLS);
    TRY(registry_choose(&table, options->isa));
    struct kernels *kernels = mem_zalloc(1, sizeof *kernels);
    if (kernels == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the kernels");
    kernels->table = table;
    kernels->rows_max = options->rows_max;
    kernels->cols_max = options->cols_max;
    TRY_OUT(threads_create(&kernels->threads, options->threads));
    kernels_size_thread_scratch(kernels);
    size_t scratch_bytes = kernels->thread_scratch_bytes * threads_count(kernels->threads);
    size_t input_bytes = table->input_bytes(options->rows_max, options->cols_max);
    kernels->input = kernels_buffer_create(kernels, input_bytes);
    size_t normed_bytes = (size_t)options->rows_max * options->cols_max * sizeof(float);
    kernels->normed = kernels_buffer_create(kernels, normed_bytes);
    kernels->thread_scratch = kernels_buffer_create(kernels, scratch_bytes);
    kernels->tiles = mem_zalloc(options->rows_max, sizeof *kernels->tiles);
    kernels->order = mem_zalloc(options->rows_max, sizeof *kernels->order);
    kernels->shared = mem_zalloc(options->rows_max, sizeof *kernels->shared);
    if (kernels->input == NULL || kernels->normed == NULL || kernels->thread_scratch == NULL ||
        kernels->tiles == NULL || kernels->order == NULL || kernels->shared == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for %zu bytes of scratch of the kernels",
                 scratch_bytes + input_bytes + normed_bytes);
    kernels->has_dots = table->dots_are_faster != NULL &&
                        (cpu_features() & CPU_FEATURE_AVX512_BF16) != 0 &&
                        table->dots_are_faster(ops_row_scratch(kernels, 0));
    *out = kernels;
    return STATUS_OK;
out:
    kernels_destroy(kernels);
    return status;
}

void kernels_destroy(struct kernels *kernels)
{
    if (kernels == NULL)
        return;
    ASSERT(kernels->chunks == NULL); /* weights go first */
    threads_destroy(kernels->threads);
    mem_free(kernels->input);
    mem_free(kernels->normed);
    mem_free(kernels->thread_scratch);
    mem_free(kernels->tiles);
    mem_free(kernels->order);
    mem_free(kernels->shared);
    mem_free(kernels);
}

const char *kernels_isa(const struct kernels *kernels)
{
    return kernels->table->name;
}

bool kernels_has_dots(const struct kernels *kernels)
{
    return kernels->has_dots;
}

uint32_t kernels_threads(const struct kernels *kernels)
{
    return threads_count(kernels->threads);
}

uint32_t kernels_processors(void)
{
    return threads_processors();
}

const char *const *kernels_built(void)
{
    return registry_names();
}

bool kernels_can_run(const char *isa)
{
    const struct kernel_table *table = registry_find(isa);
    return table != NULL && (table->needs & ~cpu_features()) == 0;
}

void *kernels_buffer_create(struct kernels *kernels, size_t bytes)
{
    (void)kernels; /* tables of other machines will place it in their own memory */
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t padded = kernels_round_up(bytes) + KERNELS_PADDING;
    bool is_huge = padded >= 2 * KERNELS_HUGE_PAGE;
    char *buffer = mem_alloc_aligned(is_huge ? KERNELS_HUGE_PAGE : KERNELS_ALIGNMENT, padded);
    if (buffer == NULL)
        return NULL;
    if (is_huge) /* a wish: where the system has no huge pages, all works as before */
        (void)madvise(buffer, padded / KERNELS_HUGE_PAGE * KERNELS_HUGE_PAGE, MADV_HUGEPAGE);
    memset(buffer + bytes, 0, padded - bytes);
    return buffer;
}

void kernels_buffer_destroy(struct kernels *kernels, void *buffer)
{
    (void)kernels;
    mem_free(buffer);
}

enum status kernels_weight_create(struct kernels *kernels, struct weight *out,
                                  const struct tensor *tensor)
{
    return op_weight_create(kernels, out, tensor);
}

void kernels_weight_destroy(struct kernels *kernels, struct weight *weight)
{
    op_weight_destroy(kernels, weight);
}

enum status kernels_kv_layout(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                              uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                              struct kv_layout *out)
{
    return op_kv_layout(kernels, type, page_tokens, layers, kv_heads, head_dim, out);
}

void kernels_kv_copy(struct kernels *kernels, const struct kv_layout *layout, void *to_page,
                     const void *from_page, uint32_t tokens)
{
    (void)kernels;
    op_kv_copy(layout, to_page, from_page, tokens);
}

void kernels_pages_copy(struct kernels *kernels, const struct pages_copy_args *args)
{
    op_pages_copy(kernels, args);
}

void kernels_embed(struct kernels *kernels, const struct embed_args *args)
{
    op_rows_embed(kernels, args);
}

void kernels_rmsnorm(struct kernels *kernels, const struct rmsnorm_args *args)
{
    op_rows_rmsnorm(kernels, args);
}

void kernels_linear(struct kernels *kernels, const struct linear_args *args)
{
    op_linear(kernels, args);
}

void kernels_rope_table(struct kernels *kernels, const struct rope_table_args *args)
{
    op_rows_rope_table(kernels, args);
}

void kernels_rope(struct kernels *kernels, const struct rope_args *args)
{
    op_rows_rope(kernels, args);
}

void kernels_kv_write(struct kernels *kernels, const struct kv_write_args *args)
{
    op_kv_write(kernels, args);
}

void kernels_attention(struct kernels *kernels, const struct attention_args *args)
{
    op_attention(kernels, args);
}

void kernels_silu_mul(struct kernels *kernels, const struct silu_mul_args *args)
{
    op_rows_silu_mul(kernels, args);
}

void kernels_logits_stats(struct kernels *kernels, const float *logits, uint32_t rows,
                          uint32_t vocab, struct logits_stats *out)
{
    op_rows_logits_stats(kernels, logits, rows, vocab, out);
}

void kernels_each(struct kernels *kernels, uint32_t threads_max, uint32_t count,
                  void (*each)(void *context, uint32_t index, uint32_t thread), void *context)
{
    op_rows_each(kernels, threads_max, count, each, context);
}

float kernels_row_exp(const struct kernels *kernels, const float *x, uint32_t count, float max,
                      float scale, float *out)
{
    return kernels->table->row_exp(x, count, max, scale, out);
}

uint32_t kernels_row_above(const struct kernels *kernels, const float *x, uint32_t count,
                           float least, uint32_t *ids)
{
    return kernels->table->row_above(x, count, least, ids);
}

/* bits(k) ÷ 2^23 − 127 ≤ log2 k, and 0 bits of k = 0 still are too few to rule anything out. The
 * sums are wide enough for what floats round away. */
void kernels_row_noise_set(struct row_noise_args *args, double temperature, double score)
{
    const double ln2 = 0.69314718055994531;
    double wanted = score * temperature;
    args->step = (float)(temperature * ln2 * 0x1p-23);
    args->floor =
        (float)(wanted - (24 + 127) * temperature * ln2 - 1e-4 * temperature - 1e-6 * fabs(wanted));
}

bool kernels_row_noise_reaches(const struct row_noise_args *args, uint32_t i)
{
    float upper = (float)(uint32_t)(~rng_of(args->stream, i) >> 40);
    return args->x[i] - (float)(int32_t)half_float_bits(upper) * args->step >= args->floor;
}

uint32_t kernels_row_noise(const struct kernels *kernels, const struct row_noise_args *args,
                           uint32_t *ids)
{
    return kernels->table->row_noise(args, ids);
}

void kernels_times_begin(struct kernels *kernels)
{
    op_times_begin(kernels);
}

uint32_t kernels_times_end(struct kernels *kernels, struct kernels_time *out)
{
    return op_times_end(kernels, out);
}

enum status kernels_measure_ceilings(struct kernels *kernels, size_t model_bytes,
                                     struct kernels_ceilings *out)
{
    return cpu_ceilings_measure(kernels, model_bytes, out);
}
