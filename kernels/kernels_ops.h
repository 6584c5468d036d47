/* kernels_ops: the interface between the public functions and a machine: one function for each
 * operation.
 *
 * Owns:     nothing; each kind of machine defines one constant table.
 * Thread:   as kernels.h says.
 * Cost:     one indirect call an operation.
 * Not here: the contract of an operation (kernels.h, kernels_kv.h, kernels_step.h): a function here
 *           does what the public function of its name says.
 *
 * Private to the room. The processor's table is cpu/ops/cpu_ops.c, over the leaves of a
 * kernel_table; a device's is cuda/cuda_table.c. A struct kernels for a device also has threads and
 * a processor's table: the caller's own work (kernels_each, kernels_row_*) uses those on every
 * machine.
 */
#pragma once

#include "kernels/kernels.h"
#include "kernels/kernels_draw.h"
#include "kernels/kernels_experts.h"
#include "kernels/kernels_measure.h"
#include "kernels/kernels_prepare.h"
#include "kernels/kernels_step.h"

struct kernels_ops {
    const char *name; /* NULL: the name of the processor's table */
    bool is_device;
    uint32_t page_tokens;
    /* Returns the number of such devices; NULL for the processor. */
    int (*count)(void);
    void (*prepare)(uint32_t device, const struct ranks *ranks); /* NULL: nothing to do */
    /* NULL: nothing is opened later. */
    void (*places)(uint32_t device, const struct ranks *ranks, kernels_prepare_place *each,
                   void *context);
    /* NULL: the free memory is unknown. */
    enum status (*no_memory)(struct kernels *kernels, size_t bytes, const char *what);

    /* NULL: it captures none. */
    struct kernels_captures (*measure_captures)(const struct kernels *kernels);

    /* All functions below are required except the three of the drawer. `open` takes what operations
     * need, or fails and takes nothing. */
    enum status (*open)(struct kernels *kernels, const struct kernels_options *options);
    void (*close)(struct kernels *kernels); /* releases what open took, if it succeeded */
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
    void (*norm)(struct kernels *kernels, const struct norm_args *args);
    void (*linear)(struct kernels *kernels, const struct linear_args *args);
    void (*rope_table)(struct kernels *kernels, const struct rope_table_args *args);
    void (*rope)(struct kernels *kernels, const struct rope_args *args);
    void (*kv_write)(struct kernels *kernels, const struct kv_write_args *args);
    void (*attention)(struct kernels *kernels, const struct attention_args *args);
    void (*act)(struct kernels *kernels, const struct act_args *args);
    void (*softcap)(struct kernels *kernels, const struct softcap_args *args);
    void (*gather)(struct kernels *kernels, const struct gather_args *args);
    void (*route)(struct kernels *kernels, const struct route_args *args);
    size_t (*experts_bytes)(const struct kernels *kernels, uint32_t rows_max, uint32_t used,
                            uint32_t width, uint32_t hidden);
    void (*experts)(struct kernels *kernels, const struct experts_args *args);
    enum status (*ranks_open)(struct kernels *kernels);
    void (*all_reduce)(struct kernels *kernels, const struct all_reduce_args *args);
    void (*all_gather)(struct kernels *kernels, const struct all_gather_args *args);
    void (*logits_stats)(struct kernels *kernels, const float *logits, uint32_t rows,
                         uint32_t vocab, struct logits_stats *out);

    /* The drawer's three: NULL where logits are in host memory. */
    enum status (*drawer_create)(struct kernels *kernels, struct kernels_drawer **out,
                                 uint32_t vocab, uint32_t adjusts_max);
    void (*drawer_destroy)(struct kernels *kernels, struct kernels_drawer *drawer);
    enum status (*draw)(struct kernels *kernels, struct kernels_drawer *drawer,
                        const struct draw_args *args);

    enum status (*measure_ceilings)(struct kernels *kernels, size_t model_bytes,
                                    struct kernels_ceilings *out);
};

extern const struct kernels_ops cpu_ops;

/* Exists in builds for CUDA, and where tests run its kernels on the processor; elsewhere its
 * address is NULL. */
#if BANYAN_CUDA
extern const struct kernels_ops cuda_ops;
#else
extern const struct kernels_ops cuda_ops __attribute__((weak));
#endif
