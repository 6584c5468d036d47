/* cuda_ops: the operations of kernels.h on a device, one file each. The arguments are the same;
 * pointers are device memory unless a comment says host.
 *
 * Owns:     nothing.
 * Thread:   the engine thread.
 * Cost:     launches; only cuda_pages_end waits, and cuda_pages_copy for a batch from long before.
 * Not here: memory, errors (cuda_backend), the step's tables (cuda_step).
 *
 * Bits: as kernels.h requires, those of a row depend on that row's inputs alone. Every sum is one
 * fixed tree or fold over absolute positions. Linear layers and attention use one matrix
 * instruction (m16n8k16, float32 sums) for few rows and many. The bits differ from those of all
 * other tables.
 */
#pragma once

#include "kernels/cuda/cuda_backend.h"
#include "kernels/kernels_experts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Supports types f16, f16q, bf16, i8 and fp8, pages of a multiple of 16 tokens, heads of a multiple
 * of 16 dimensions up to 256; else UNSUPPORTED. Layout: kernels/cuda/cuda_kv.h. */
enum status cuda_kv_layout(enum kv_type type, uint32_t page_tokens, uint32_t layers,
                           uint32_t kv_heads, uint32_t head_dim, struct kv_layout *out);

/* args->tokens: device. */
void cuda_embed(struct cuda_backend *backend, const struct embed_args *args);
void cuda_norm(struct cuda_backend *backend, const struct norm_args *args);
/* args->bias: host; what it points to: device. Rounds inputs to 16-bit floats: to float16 of x ÷
 * the row's own power of two (so that none overflows), or to bfloat16 for bfloat16 weights. */
void cuda_linear(struct cuda_backend *backend, const struct linear_args *args);
/* args->positions: device. */
void cuda_rope_table(struct cuda_backend *backend, const struct rope_table_args *args);
void cuda_rope(struct cuda_backend *backend, const struct rope_args *args);
/* args->rope: host; what it points to: device; one of them has x = args->k. One launch over the
 * rows of the step; only `layout` and `pages` of args->kv are read. */
void cuda_kv_write(struct cuda_backend *backend, const struct kv_write_args *args);
/* Returns whether this device can attend over such pages. Heads of more than 128 dimensions in
 * codes of 8 bits need 102 KiB of a block's shared memory; sm_86 and sm_89 have 99. UNSUPPORTED. */
enum status cuda_attention_fits(const struct cuda_backend *backend, const struct kv_layout *layout);
/* As cuda_kv_write; with args->is_wanted over those of the step's rows that want logits. At most 64
 * query heads over a KV head. args->groups are the step's, args->sinks: device. */
void cuda_attention(struct cuda_backend *backend, const struct attention_args *args);
void cuda_act(struct cuda_backend *backend, const struct act_args *args);
void cuda_softcap(struct cuda_backend *backend, const struct softcap_args *args);
/* args->logits and the arrays of the routes: device. Two launches, whose grids depend on the rows
 * and the number of experts alone. */
void cuda_route(struct cuda_backend *backend, const struct route_args *args);
size_t cuda_experts_bytes(uint32_t rows_max, uint32_t used, uint32_t width, uint32_t hidden);
/* As cuda_linear rounds inputs; those of a row are rounded once for each of its experts. */
void cuda_experts(struct cuda_backend *backend, const struct experts_args *args);
/* `out`: device. */
void cuda_logits_stats(struct cuda_backend *backend, const float *logits, uint32_t rows,
                       uint32_t vocab, struct logits_stats *out);

/* args->order: device. */
void cuda_gather(struct cuda_backend *backend, const struct gather_args *args);

/* As kernels_kv_copy: the first `tokens` tokens of a page, all layers. */
void cuda_kv_copy(struct cuda_backend *backend, const struct kv_layout *layout, void *to_page,
                  const void *from_page, uint32_t tokens);
/* As kernels_pages_copy, between device and pinned memory in either direction; page numbers: host.
 * Runs on a stream of its own: after the work queued before it, beside the work queued after it.
 * Work queued after cuda_pages_wait comes after all copies (after cuda_pages_wait_for: after the
 * batches up to one). */
uint64_t cuda_pages_copy(struct cuda_backend *backend, const struct pages_copy_args *args);
uint64_t cuda_pages_ended(struct cuda_backend *backend);
void cuda_pages_wait_for(struct cuda_backend *backend, uint64_t batch);
void cuda_pages_wait(struct cuda_backend *backend);
/* Waits for the copies. UNAVAILABLE as cuda_backend_end. */
enum status cuda_pages_end(struct cuda_backend *backend);

#ifdef __cplusplus
}
#endif
