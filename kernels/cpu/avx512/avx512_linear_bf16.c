#include "config/base/clock.h"
#include "kernels/cpu/avx512/avx512.h"

enum { BF16_COLS = 256, BF16_OUTPUTS = 64, BF16_ROWS = 16, BF16_REPEAT = 16 };

/* A layer that fits into the first-level cache, except for its rounded inputs. */
struct bf16_trial {
    uint16_t packed[BF16_OUTPUTS * BF16_COLS];
    float x[BF16_ROWS * BF16_COLS];
    float y[2][BF16_ROWS * BF16_OUTPUTS];
    float rounded[BF16_ROWS * BF16_COLS];
};

/* Fills in values of ±0.5 to ±2, whose sums round at every step. */
static void bf16_fill(struct bf16_trial *trial)
{
    uint32_t state = 1;
    for (uint32_t i = 0; i < BF16_OUTPUTS * BF16_COLS; i++) {
        state = state * 1664525 + 1013904223; /* Numerical Recipes, 7.1 */
        trial->packed[i] = (uint16_t)(0x3f00 | (state >> 24) | (state >> 8 & 0x8000));
        if (i < BF16_ROWS * BF16_COLS)
            trial->x[i] = half_bits_float(0x3f000000 | state >> 8 | (state & 0x80) << 24);
    }
}

/* Compares the shortest of several alternating runs of each way; other load only ever adds time. */
bool k_dots_are_faster_avx512(void *scratch)
{
    struct bf16_trial *trial = scratch;
    int64_t ns[2] = {INT64_MAX, INT64_MAX};
    const struct weight weight = {.type = tensor_type_info(TENSOR_TYPE_bf16),
                                  .rows = BF16_OUTPUTS,
                                  .cols = BF16_COLS,
                                  .packed = trial->packed,
                                  .packed_bytes = sizeof trial->packed};
    bf16_fill(trial);
    for (int i = 0; i < 2 * BF16_REPEAT; i++) {
        const struct table_linear call = {
            .weight = &weight,
            .x = trial->x,
            .rows = BF16_ROWS,
            .group_end = BF16_OUTPUTS / TABLE_GROUP,
            .y = trial->y[i % 2],
            .y_stride = BF16_OUTPUTS,
            .has_dots = i % 2 == 1,
            .scratch = trial->rounded,
        };
        const int64_t begin = clock_mono_ns(clock_system());
        k_linear_float_avx512(&call);
        const int64_t took = clock_mono_ns(clock_system()) - begin;
        ns[i % 2] = took < ns[i % 2] ? took : ns[i % 2];
    }
    return ns[1] < ns[0] && memcmp(trial->y[0], trial->y[1], sizeof trial->y[0]) == 0;
}
