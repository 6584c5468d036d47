/* Batch invariance of linear layers: other rows, other threads, other company, same bits. */
#include "kernels/kernels.h"

#include "tests/unit/kernels_kit.h"

/* Rows enough for four threads to be given some each, then fewer. */
enum { MANY = 130, ROWS = MANY + 37, COLS = 256, MATRICES = 3 };
static const uint32_t outputs[MATRICES] = {48, 19, 144};

struct layer {
    struct tensor tensors[MATRICES];
    float *x;
};

/* Every row alone, one matrix at a time, one thread: what all other ways must equal. */
static void run_alone(const char *isa, const struct layer *layer, float *const *want)
{
    struct kernels *kernels = kit_kernels(isa, 1, 1, COLS);
    for (uint32_t m = 0; m < MATRICES; m++)
        for (uint32_t r = 0; r < ROWS; r++)
            kit_linear(kernels, &layer->tensors[m], layer->x + (size_t)r * COLS, 1,
                       want[m] + (size_t)r * outputs[m], false);
    kernels_destroy(kernels);
}

static void check_split(const char *isa, const struct layer *layer, float *const *want,
                        uint32_t threads, struct rng *rng)
{
    struct kernels *kernels = kit_kernels(isa, threads, ROWS, COLS);
    struct weight weights[MATRICES];
    for (uint32_t m = 0; m < MATRICES; m++)
        assert_int_equal(kernels_weight_create(kernels, &weights[m], &layer->tensors[m]),
                         STATUS_OK);
    for (uint32_t first = 0; first < ROWS;) {
        uint32_t rows = first == 0 ? MANY : 1 + (uint32_t)rng_below(rng, ROWS - first);
        float *y[MATRICES];
        for (uint32_t m = 0; m < MATRICES; m++)
            y[m] = kit_floats(rng, (size_t)rows * outputs[m], 1);
        struct linear_args args = {.x = layer->x + (size_t)first * COLS,
                                   .rows = rows,
                                   .count = MATRICES,
                                   .weights = {&weights[0], &weights[1], &weights[2]},
                                   .y = {y[0], y[1], y[2]}};
        kernels_linear(kernels, &args);
        for (uint32_t m = 0; m < MATRICES; m++) {
            kit_assert_same_bits(y[m], want[m] + (size_t)first * outputs[m],
                                 (size_t)rows * outputs[m]);
            free(y[m]);
        }
        first += rows;
    }
    for (uint32_t m = 0; m < MATRICES; m++)
        kernels_weight_destroy(kernels, &weights[m]);
    kernels_destroy(kernels);
}

static void check_types(const char *isa, const uint32_t types[MATRICES], uint64_t seed)
{
    struct rng rng = {.seed = seed};
    struct layer layer = {.x = kit_floats(&rng, (size_t)ROWS * COLS, 2)};
    float *want[MATRICES];
    for (uint32_t m = 0; m < MATRICES; m++) {
        layer.tensors[m] = kit_tensor(&rng, types[m], outputs[m], COLS);
        want[m] = malloc((size_t)ROWS * outputs[m] * sizeof(float));
    }
    run_alone(isa, &layer, want);
    for (uint32_t threads = 1; threads <= 4; threads++)
        check_split(isa, &layer, want, threads, &rng);
    for (uint32_t m = 0; m < MATRICES; m++) {
        kit_tensor_free(&layer.tensors[m]);
        free(want[m]);
    }
    free(layer.x);
}

static void test_batch_invariance(void **state)
{
    (void)state;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (size_t t = 0; t < KIT_TYPES; t++) {
            uint32_t same[MATRICES] = {kit_types[t], kit_types[t], kit_types[t]};
            uint32_t mixed[MATRICES] = {kit_types[t], kit_types[(t + 1) % KIT_TYPES],
                                        kit_types[(t + 3) % KIT_TYPES]};
            check_types(*isa, same, t);
            check_types(*isa, mixed, 100 + t);
        }
}

/* What stands before and behind a layer changes no bit when it is done on the way: types that are
 * rounded and types that are not, both in one call, outputs that are no whole groups, rows for
 * every way of cutting. */
static void check_fused(const char *isa, uint32_t gate_type, uint32_t up_type, uint32_t threads,
                        uint32_t rows, uint32_t out)
{
    struct rng rng = {.seed = rows};
    struct kernels *kernels = kit_kernels(isa, threads, ROWS, COLS);
    struct tensor tensors[2] = {kit_tensor(&rng, gate_type, out, COLS),
                                kit_tensor(&rng, up_type, out, COLS)};
    struct weight weights[2];
    float *x = kit_floats(&rng, (size_t)rows * COLS, 2);
    float *norm = kit_floats(&rng, COLS, 1);
    float *normed = kit_floats(&rng, (size_t)rows * COLS, 1);
    float *y[3];
    for (int i = 0; i < 3; i++)
        y[i] = kit_floats(&rng, (size_t)rows * out, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kernels_weight_create(kernels, &weights[i], &tensors[i]), STATUS_OK);
    struct linear_args args = {.x = normed,
                               .rows = rows,
                               .count = 2,
                               .weights = {&weights[0], &weights[1]},
                               .y = {y[0], y[1]}};
    kernels_norm(
        kernels,
        &(struct norm_args){
            .x = x, .weight = norm, .y = normed, .rows = rows, .cols = COLS, .epsilon = 1e-5f});
    kernels_linear(kernels, &args);
    args = (struct linear_args){.x = x,
                                .rows = rows,
                                .count = 1,
                                .weights = {&weights[0]},
                                .y = {y[2]},
                                .norm = norm,
                                .epsilon = 1e-5f};
    kernels_linear(kernels, &args);
    kit_assert_same_bits(y[2], y[0], (size_t)rows * out);
    kernels_act(
        kernels,
        &(struct act_args){.kind = ACT_SILU_MUL, .x = y[0], .up = y[1], .rows = rows, .cols = out});
    args.count = 2;
    args.weights[1] = &weights[1];
    args.act = ACT_SILU_MUL;
    kernels_linear(kernels, &args);
    kit_assert_same_bits(y[2], y[0], (size_t)rows * out);
    for (int i = 0; i < 2; i++) {
        kernels_weight_destroy(kernels, &weights[i]);
        kit_tensor_free(&tensors[i]);
    }
    for (int i = 0; i < 3; i++)
        free(y[i]);
    free(x);
    free(norm);
    free(normed);
    kernels_destroy(kernels);
}

static void test_norm_and_gate(void **state)
{
    (void)state;
    static const uint32_t row_counts[] = {1, 3, 5, 16, 33, ROWS};
    enum { OUT = 41, OUT_MORE = 233 };
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        for (uint32_t threads = 1; threads <= 3; threads++)
            for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
                check_fused(*isa, TENSOR_TYPE_q4_1, TENSOR_TYPE_q8_0, threads, row_counts[i], OUT);
                check_fused(*isa, TENSOR_TYPE_q6_k, TENSOR_TYPE_f16, threads, row_counts[i], OUT);
                check_fused(*isa, TENSOR_TYPE_f32, TENSOR_TYPE_bf16, threads, row_counts[i], OUT);
            }
        /* More groups than a gated layer keeps at once of so many rows: 12, then 3. */
        check_fused(*isa, TENSOR_TYPE_q4_1, TENSOR_TYPE_q8_0, 1, ROWS, OUT_MORE);
    }
}

static void test_no_rows_touch_nothing(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_q8_0, 16, 32);
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct kernels *kernels = kit_kernels(*isa, 2, 1, 32);
        float y = 5;
        kit_linear(kernels, &tensor, NULL, 0, &y, false);
        assert_float_equal(y, 5, 0);
        kernels_destroy(kernels);
    }
    kit_tensor_free(&tensor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_invariance),
        cmocka_unit_test(test_norm_and_gate),
        cmocka_unit_test(test_no_rows_touch_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
