#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "kernels/cpu/ops/ops.h"
#include "kernels/dispatch/registry.h"
#include "kernels/types/half.h"

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
    FAIL(STATUS_UNSUPPORTED, "KV type '%.32s' is unknown; known types are%s", name, names);
}

/* Returns whether a device that this build cannot compute on may be replaced by the processor: yes
 * if the user did not name the device. Ranks must all use the same kind of machine, so for them it
 * is an error. */
static bool may_leave(const struct kernels_options *options)
{
    return registry_is_auto(options->isa) && options->ranks == NULL;
}

enum status kernels_create(struct kernels **out, const struct kernels_options *options)
{
    const struct kernels_ops *ops;
    const struct kernel_table *table;
    enum status status = STATUS_OK;
    *out = NULL;
    if (options->rows_max < 1 || options->rows_max > LIMIT_BATCH_ROWS)
        FAIL(STATUS_OUT_OF_RANGE, "batches of %u rows; from 1 to %d are supported",
             options->rows_max, LIMIT_BATCH_ROWS);
    if (options->cols_max < 1 || options->cols_max > LIMIT_WEIGHT_COLS)
        FAIL(STATUS_OUT_OF_RANGE, "layers of %u inputs; from 1 to %d are supported",
             options->cols_max, LIMIT_WEIGHT_COLS);
    TRY(registry_choose(&ops, &table, options->isa));
    struct kernels *kernels = mem_zalloc(1, sizeof *kernels);
    if (kernels == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the kernels");
    kernels->table = table;
    kernels->rows_max = options->rows_max;
    kernels->cols_max = options->cols_max;
    kernels->ranks = options->ranks;
    TRY_OUT(threads_create(&kernels->threads, options->threads));
    status = ops->open(kernels, options);
    if (status == STATUS_UNSUPPORTED && may_leave(options)) {
        LOG(LOG_WARN, "device_left_out", LOG_TEXT("reason", status_note()->message));
        ops = &cpu_ops;
        status = ops->open(kernels, options);
    }
    TRY_OUT(status);
    kernels->ops = ops;
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
    ASSERT(kernels->chunks == NULL); /* destroy weights first */
    if (kernels->ops != NULL)
        kernels->ops->close(kernels);
    threads_destroy(kernels->threads);
    mem_free(kernels);
}

void kernels_prepare(const char *isa, uint32_t device, const struct ranks *ranks)
{
    const struct kernels_ops *ops;
    const struct kernel_table *table;
    if (registry_choose(&ops, &table, isa) == STATUS_OK && ops->prepare != NULL)
        ops->prepare(device, ranks);
}

void kernels_prepare_places(const char *isa, uint32_t device, const struct ranks *ranks,
                            kernels_prepare_place *each, void *context)
{
    const struct kernels_ops *ops;
    const struct kernel_table *table;
    if (registry_choose(&ops, &table, isa) == STATUS_OK && ops->places != NULL)
        ops->places(device, ranks, each, context);
}

void kernels_attach(struct kernels *kernels)
{
    kernels->ops->attach(kernels);
}

const char *kernels_isa(const struct kernels *kernels)
{
    return kernels->ops->name != NULL ? kernels->ops->name : kernels->table->name;
}

bool kernels_is_device(const struct kernels *kernels)
{
    return kernels->ops->is_device;
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
    return registry_can_run(isa);
}

uint32_t kernels_page_tokens(const struct kernels *kernels)
{
    return kernels->ops->page_tokens;
}

/* --- memory --- */

void *kernels_buffer_create(struct kernels *kernels, size_t bytes)
{
    return kernels->ops->buffer_create(kernels, bytes);
}

void kernels_buffer_destroy(struct kernels *kernels, void *buffer)
{
    kernels->ops->buffer_destroy(kernels, buffer);
}

void *kernels_host_create(struct kernels *kernels, size_t bytes)
{
    return kernels->ops->host_create(kernels, bytes);
}

void kernels_host_destroy(struct kernels *kernels, void *memory)
{
    kernels->ops->host_destroy(kernels, memory);
}

static enum status fail_memory(size_t bytes, const char *where, const char *what)
{
    const size_t mib = (bytes >> 20) + (bytes % (1 << 20) != 0);
    FAIL(STATUS_NO_MEMORY, "no %smemory for %zu MiB of %s", where, mib, what);
}

enum status kernels_no_memory(struct kernels *kernels, size_t bytes, const char *what)
{
    if (kernels->ops->no_memory != NULL)
        return kernels->ops->no_memory(kernels, bytes, what);
    return fail_memory(bytes, "", what);
}

/* The memory that a device has left does not matter for host memory, so its message is replaced. */
enum status kernels_no_host_memory(struct kernels *kernels, size_t bytes, const char *what)
{
    const enum status status = kernels_no_memory(kernels, bytes, what);
    return status != STATUS_NO_MEMORY ? status : fail_memory(bytes, "host ", what);
}

void kernels_upload(struct kernels *kernels, void *to, const void *from, size_t bytes)
{
    kernels->ops->upload(kernels, to, from, bytes);
}

enum status kernels_download(struct kernels *kernels, void *to, const void *from, size_t bytes)
{
    return kernels->ops->download(kernels, to, from, bytes);
}

enum status kernels_weight_create(struct kernels *kernels, struct weight *out,
                                  const struct tensor *tensor)
{
    return kernels->ops->weight_create(kernels, out, tensor);
}

void kernels_weight_destroy(struct kernels *kernels, struct weight *weight)
{
    kernels->ops->weight_destroy(kernels, weight);
}

enum status kernels_kv_layout(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                              uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                              struct kv_layout *out)
{
    return kernels->ops->kv_layout(kernels, type, page_tokens, layers, kv_heads, head_dim, out);
}

void kernels_kv_copy(struct kernels *kernels, const struct kv_layout *layout, void *to_page,
                     const void *from_page, uint32_t tokens)
{
    if (kernels->told != NULL)
        kernels->told->kv_copy(kernels->told->context, to_page, from_page, tokens);
    kernels->ops->kv_copy(kernels, layout, to_page, from_page, tokens);
}

uint64_t kernels_pages_copy(struct kernels *kernels, const struct pages_copy_args *args)
{
    if (kernels->told != NULL)
        kernels->told->pages_copy(kernels->told->context, args);
    return kernels->ops->pages_copy(kernels, args);
}

void kernels_copies_tell(struct kernels *kernels, const struct kernels_copies_told *told)
{
    kernels->told = told;
}

void kernels_pages_wait(struct kernels *kernels, uint64_t batch)
{
    kernels->ops->pages_wait(kernels, batch);
}

uint64_t kernels_pages_ended(struct kernels *kernels)
{
    return kernels->ops->pages_ended(kernels);
}

enum status kernels_pages_end(struct kernels *kernels)
{
    return kernels->ops->pages_end(kernels);
}

enum status kernels_step_run(struct kernels *kernels, const struct kernels_step *step,
                             void (*forward)(void *context), void *context)
{
    return kernels->ops->step_run(kernels, step, forward, context);
}

enum status kernels_step_end(struct kernels *kernels)
{
    return kernels->ops->step_end(kernels);
}

void kernels_embed(struct kernels *kernels, const struct embed_args *args)
{
    kernels->ops->embed(kernels, args);
}

void kernels_norm(struct kernels *kernels, const struct norm_args *args)
{
    kernels->ops->norm(kernels, args);
}

void kernels_linear(struct kernels *kernels, const struct linear_args *args)
{
    kernels->ops->linear(kernels, args);
}

void kernels_rope_table(struct kernels *kernels, const struct rope_table_args *args)
{
    kernels->ops->rope_table(kernels, args);
}

void kernels_rope(struct kernels *kernels, const struct rope_args *args)
{
    kernels->ops->rope(kernels, args);
}

void kernels_kv_write(struct kernels *kernels, const struct kv_write_args *args)
{
    kernels->ops->kv_write(kernels, args);
}

void kernels_attention(struct kernels *kernels, const struct attention_args *args)
{
    kernels->ops->attention(kernels, args);
}

void kernels_act(struct kernels *kernels, const struct act_args *args)
{
    kernels->ops->act(kernels, args);
}

void kernels_softcap(struct kernels *kernels, const struct softcap_args *args)
{
    kernels->ops->softcap(kernels, args);
}

void kernels_gather(struct kernels *kernels, const struct gather_args *args)
{
    kernels->ops->gather(kernels, args);
}

enum status kernels_ranks_open(struct kernels *kernels)
{
    return kernels->ranks != NULL ? kernels->ops->ranks_open(kernels) : STATUS_OK;
}

void kernels_all_reduce(struct kernels *kernels, const struct all_reduce_args *args)
{
    kernels->ops->all_reduce(kernels, args);
}

void kernels_all_gather(struct kernels *kernels, const struct all_gather_args *args)
{
    kernels->ops->all_gather(kernels, args);
}

void kernels_logits_stats(struct kernels *kernels, const float *logits, uint32_t rows,
                          uint32_t vocab, struct logits_stats *out)
{
    kernels->ops->logits_stats(kernels, logits, rows, vocab, out);
}

enum status kernels_drawer_create(struct kernels *kernels, struct kernels_drawer **out,
                                  uint32_t vocab, uint32_t adjusts_max)
{
    *out = NULL;
    if (kernels->ops->drawer_create == NULL)
        return STATUS_OK;
    return kernels->ops->drawer_create(kernels, out, vocab, adjusts_max);
}

void kernels_drawer_destroy(struct kernels *kernels, struct kernels_drawer *drawer)
{
    kernels->ops->drawer_destroy(kernels, drawer);
}

enum status kernels_draw(struct kernels *kernels, struct kernels_drawer *drawer,
                         const struct draw_args *args)
{
    return kernels->ops->draw(kernels, drawer, args);
}

/* --- the caller's own work, on the processor --- */

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

/* Why the bound holds: bits(k) ÷ 2^23 − 127 ≤ log2 k, and for k = 0 the bits are 0, too few to rule
 * an index out. The margins in `step` and `floor` cover what float arithmetic rounds away. */
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
    return kernels->ops->measure_ceilings(kernels, model_bytes, out);
}

struct kernels_captures kernels_measure_captures(const struct kernels *kernels)
{
    return kernels->ops->measure_captures != NULL ? kernels->ops->measure_captures(kernels)
                                                  : (struct kernels_captures){0};
}
