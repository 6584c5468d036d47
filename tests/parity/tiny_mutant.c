#include "tests/parity/tiny_mutant.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/table.h"

struct tiny_mutant tiny_mutant;

/* The names that --wrap wants. */
const struct arch *__real_arch_find(struct slice name);
const struct arch *__wrap_arch_find(struct slice name);
void __real_kernels_norm(struct kernels *kernels, const struct norm_args *args);
void __wrap_kernels_norm(struct kernels *kernels, const struct norm_args *args);
void __real_kernels_rope(struct kernels *kernels, const struct rope_args *args);
void __wrap_kernels_rope(struct kernels *kernels, const struct rope_args *args);
void __real_kernels_kv_write(struct kernels *kernels, const struct kv_write_args *args);
void __wrap_kernels_kv_write(struct kernels *kernels, const struct kv_write_args *args);
void __real_kernels_rope_table(struct kernels *kernels, const struct rope_table_args *args);
void __wrap_kernels_rope_table(struct kernels *kernels, const struct rope_table_args *args);
void __real_k_act_ref(const struct act_args *args, uint32_t begin, uint32_t end);
void __wrap_k_act_ref(const struct act_args *args, uint32_t begin, uint32_t end);

const struct arch *__wrap_arch_find(struct slice name)
{
    static struct arch changed;
    const struct arch *row = __real_arch_find(name);
    if (row == NULL || tiny_mutant.row == NULL)
        return row;
    memcpy(&changed, row, sizeof changed);
    tiny_mutant.row(&changed);
    return &changed;
}

void __wrap_kernels_norm(struct kernels *kernels, const struct norm_args *args)
{
    const uint32_t dim = tiny_mutant.head_dim;
    if (dim == 0 || args->x != args->y) { /* only q and k are normed in place */
        __real_kernels_norm(kernels, args);
        return;
    }
    for (uint32_t r = 0; r < args->rows; r++)
        for (uint32_t c = 0; c < args->cols; c += dim) {
            struct norm_args head = *args;
            head.x += (size_t)r * args->cols + c;
            head.y += (size_t)r * args->cols + c;
            head.weight += c;
            head.rows = 1;
            head.cols = dim;
            __real_kernels_norm(kernels, &head);
        }
}

void __wrap_kernels_rope(struct kernels *kernels, const struct rope_args *args)
{
    struct rope_args turn = *args;
    if (!tiny_mutant.has_norm_behind_rope) {
        __real_kernels_rope(kernels, args);
        return;
    }
    turn.norm = NULL;
    __real_kernels_rope(kernels, &turn);
    if (args->norm != NULL)
        __real_kernels_norm(kernels, &(struct norm_args){.x = args->x,
                                                         .weight = args->norm,
                                                         .y = args->x,
                                                         .rows = args->rows * args->heads,
                                                         .cols = args->head_dim,
                                                         .epsilon = args->epsilon,
                                                         .kind = NORM_RMS});
}

void __wrap_kernels_kv_write(struct kernels *kernels, const struct kv_write_args *args)
{
    struct kv_write_args write = *args;
    for (uint32_t i = 0; i < KV_WRITE_ROPES && tiny_mutant.has_norm_behind_rope; i++) {
        if (write.rope[i] != NULL)
            __wrap_kernels_rope(kernels, write.rope[i]);
        write.rope[i] = NULL;
    }
    __real_kernels_kv_write(kernels, &write);
}

void __wrap_kernels_rope_table(struct kernels *kernels, const struct rope_table_args *args)
{
    struct rope_table_args table = *args;
    if (tiny_mutant.has_no_rope_factor)
        table.factor = 0;
    __real_kernels_rope_table(kernels, &table);
}

void __wrap_k_act_ref(const struct act_args *args, uint32_t begin, uint32_t end)
{
    if (args->kind != ACT_CLAMPED_MUL || !(tiny_mutant.has_no_clamp || tiny_mutant.has_no_one)) {
        __real_k_act_ref(args, begin, end);
        return;
    }
    const float bound = tiny_mutant.has_no_clamp ? INFINITY : 7;
    for (size_t i = (size_t)begin * args->cols; i < (size_t)end * args->cols; i++) {
        const float gate = fminf(args->x[i], bound);
        const float up = fminf(fmaxf(args->up[i], -bound), bound);
        args->x[i] = gate / (1 + expf(-1.702f * gate)) * (tiny_mutant.has_no_one ? up : up + 1);
    }
}
