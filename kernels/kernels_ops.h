/* kernels_ops: what a machine is to the public functions: one function for each operation.
 *
 * Owns:     nothing; each kind of machine defines one constant table.
 * Thread:   as kernels.h says.
 * Cost:     one indirect call an operation.
 * Not here: the contract of an operation (kernels.h, kernels_kv.h, kernels_step.h): a function here
 *           does what the public function of its name says.
 *
 * Inside the room alone. The processor's is cpu/ops/cpu_ops.c, over the leaves of a kernel_table; a
 * device's is cuda/cuda_table.c. A struct kernels of a device has threads and a processor's table
 * too: the caller's own work (kernels_each, kernels_row_*) goes there, whatever the machine.
 */
#pragma once

#include "kernels/kernels.h"
#include "kernels/kernels_draw.h"
#include "kernels/kernels_measure.h"
#include "kernels/kernels_prepare.h"
#include "kernels/kernels_step.h"

struct kernels_ops {
    const char *name; /* NULL: that of the processor's table */
    bool is_device;
    uint32_t page_tokens;
    /* How many such devices there are; NULL: it is the processor. */
    int (*count)(void);
    void (*prepare)(uint32_t device, const struct ranks *ranks); /* NULL: nothing */
    /* NULL: nothing is opened behind it. */
    void (*places)(uint32_t device, const struct ranks *ranks, kernels_prepare_place *each,
                   void *context);
    /* NULL: nothing is known of what there is. */
    enum status (*no_memory)(struct kernels *kernels, size_t bytes, const char *what);

    /* NULL: it captures none. */
    struct kernels_captures (*measure_captures)(const struct kernels *kernels);

    /* From here on each is there, but for the drawer's three. This one takes what operations
     * need, or fails with nothing taken. */
    enum status (*open)(struct kernels *kernels, const struct kernels_options *options);
    void (*close)(struct kernels *kernels); /* what open took, if it did */
    void (*attach)(struct kernels *kernels);

    void *(*buffer_create)(struct kernels *kernels, size_t bytes);
    void (*buffer_destroy)(struct kernels *kernels, void *buffer);
    void *(*host_create)(struct kernels *kernels, size_t bytes);
    void (*host_destroy)(struct kernels *kernels, void *memory);
    void (*upload)(struct kernels *kernels, void *to, const void *from, size_t bytes);
    enum status (*download)(struct kernels *kernels, void *to, const void *from, size_t bytes);

    enum status (*weight_create)(struct kernels *kernels, struct weight *out,
                                 const struct tensor *tensor);
    void (*weight_destroy)(struct kernels *kernels, struct weight *weight);

    enum status (*kv_layout)(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                             uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                             struct kv_layout *out);
    void (*kv_copy)(struct kernels *kernels, const struct kv_layout *layout, void *to_page,
                    const void *from_page, uint32_t tokens);
    uint64_t (*pages_copy)(struct kernels *kernels, const struct pages_copy_args *args);
    void (*pages_wait)(struct kernels *kernels, uint64_t batch);
    uint64_t (*pages_ended)(struct kernels *kernels);
    enum status (*pages_end)(struct kernels *kernels);

    enum status (*step_run)(struct kernels *kernels, const struct kernels_step *step,
                            void (*forward)(void *context), void *context);
    enum status (*step_end)(struct kernels *kernels);

    void (*embed)(struct kernels *kernels, const struct embed_args *args);
    void (*rmsnorm)(struct kernels *kernels, const struct rmsnorm_args *args);
    void (*linear)(struct kernels *kernels, const struct linear_args *args);
    void (*rope_table)(struct kernels *kernels, const struct rope_table_args *args);
    void (*rope)(struct kernels *kernels, const struct rope_args *args);
    void (*kv_write)(struct kernels *kernels, const struct kv_write_args *args);
    void (*attention)(struct kernels *kernels, const struct attention_args *args);
    void (*silu_mul)(struct kernels *kernels, const struct silu_mul_args *args);
    void (*gather)(struct kernels *kernels, const struct gather_args *args);
    enum status (*ranks_open)(struct kernels *kernels);
    void (*all_reduce)(struct kernels *kernels, const struct all_reduce_args *args);
    void (*all_gather)(struct kernels *kernels, const struct all_gather_args *args);
    void (*logits_stats)(struct kernels *kernels, const float *logits, uint32_t rows,
                         uint32_t vocab, struct logits_stats *out);

    /* NULL, all three, where logits are the host's. */
    enum status (*drawer_create)(struct kernels *kernels, struct kernels_drawer **out,
                                 uint32_t vocab, uint32_t adjusts_max);
    void (*drawer_destroy)(struct kernels *kernels, struct kernels_drawer *drawer);
    enum status (*draw)(struct kernels *kernels, struct kernels_drawer *drawer,
                        const struct draw_args *args);

    enum status (*measure_ceilings)(struct kernels *kernels, size_t model_bytes,
                                    struct kernels_ceilings *out);
};

extern const struct kernels_ops cpu_ops;

/* In builds for CUDA, and where tests run its kernels on the processor; else there is none, and its
 * address is NULL. */
#if BANYAN_CUDA
extern const struct kernels_ops cuda_ops;
#else
extern const struct kernels_ops cuda_ops __attribute__((weak));
#endif
