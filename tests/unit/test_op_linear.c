/* Batch invariance of linear layers: other rows, other threads, other company, same bits. */
#include "kernels/kernels.h"

#include "tests/kit/rounds.h"
#include "tests/unit/kernels_kit.h"

/* Rows enough for four threads to be given some each, then fewer. */
enum { MANY = 130, ROWS = MANY + 37, COLS = 256, MATRICES = 3 };
static const uint32_t outputs[MATRICES] = {48, 19, 144};

struct layer {
    struct tensor tensors[MATRICES];
    float *x;
    float *bias; /* of all matrices, one after the other */
    enum act_kind act;
};

static const float *layer_bias(const struct layer *layer, uint32_t matrix)
{
    const float *bias = layer->bias;
    for (uint32_t m = 0; m < matrix; m++)
        bias += outputs[m];
    return bias;
}

/* Every row alone, one matrix at a time, one thread: what all other ways must equal. */
static void run_alone(const char *isa, const struct layer *layer, float *const *want)
{
    struct kernels *kernels = kit_kernels(isa, 1, 1, COLS);
    for (uint32_t m = 0; m < MATRICES; m++)
        for (uint32_t r = 0; r < ROWS; r++) {
            float *y = want[m] + (size_t)r * outputs[m];
            kit_linear_bias(kernels, &layer->tensors[m], layer->x + (size_t)r * COLS, 1,
                            layer_bias(layer, m), y, false);
            if (layer->act != ACT_NONE)
                kernels_act(
                    kernels,
                    &(struct act_args){.kind = layer->act, .x = y, .rows = 1, .cols = outputs[m]});
        }
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
        struct linear_args args = {
            .x = layer->x + (size_t)first * COLS,
            .rows = rows,
            .count = MATRICES,
            .weights = {&weights[0], &weights[1], &weights[2]},
            .bias = {layer_bias(layer, 0), layer_bias(layer, 1), layer_bias(layer, 2)},
            .y = {y[0], y[1], y[2]},
            .act = layer->act};
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
    struct layer layer = {.x = kit_floats(&rng, (size_t)ROWS * COLS, 2),
                          .bias = kit_floats(&rng, outputs[0] + outputs[1] + outputs[2], 1),
                          .act = seed % 2 == 1 ? ACT_GELU_TANH : ACT_NONE};
    float *want[MATRICES];
    for (uint32_t m = 0; m < MATRICES; m++) {
        layer.tensors[m] = kit_tensor(&rng, types[m], outputs[m], COLS);
        want[m] = malloc((size_t)ROWS * outputs[m] * sizeof(float));
    }
    run_alone(isa, &layer, want);
    for (uint32_t threads = 1; threads <= 4; threads += rounds(3, 1))
        check_split(isa, &layer, want, threads, &rng);
    for (uint32_t m = 0; m < MATRICES; m++) {
        kit_tensor_free(&layer.tensors[m]);
        free(want[m]);
    }
    free(layer.x);
    free(layer.bias);
}

/* In a usual run each type is in a layer of its own or in one of three types, by turns of two, so
 * that both come with an activation and without; and there are one thread or four. */
static void test_batch_invariance(void **state)
{
    (void)state;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (size_t t = 0; t < KIT_TYPES; t++) {
            uint32_t same[MATRICES] = {kit_types[t], kit_types[t], kit_types[t]};
            uint32_t mixed[MATRICES] = {kit_types[t], kit_types[(t + 1) % KIT_TYPES],
                                        kit_types[(t + 3) % KIT_TYPES]};
            const bool is_all = rounds(0, 1) > 0;
            if (is_all || t / 2 % 2 == 0)
                check_types(*isa, same, t);
            if (is_all || t / 2 % 2 == 1)
                check_types(*isa, mixed, 100 + t);
        }
}

/* What stands before and behind a layer. */
struct fused {
    uint32_t types[2];
    enum norm_kind norm;
    enum act_kind act;
    bool has_bias;
};

/* The norm and the activation as operations of their own: y[i] [rows][out]. */
static void run_apart(struct kernels *kernels, const struct fused *fused,
                      const struct linear_args *args, float *normed, float *const y[2])
{
    const uint32_t cols = args->weights[0]->cols;
    const uint32_t out = args->weights[0]->rows;
    struct linear_args apart = {.x = normed,
                                .rows = args->rows,
                                .count = 2,
                                .weights = {args->weights[0], args->weights[1]},
                                .bias = {args->bias[0], args->bias[1]},
                                .y = {y[0], y[1]}};
    kernels_norm(kernels, &(struct norm_args){.x = args->x,
                                              .weight = args->norm,
                                              .y = normed,
                                              .rows = args->rows,
                                              .cols = cols,
                                              .epsilon = args->epsilon,
                                              .kind = args->norm_kind,
                                              .bias = args->norm_bias});
    kernels_linear(kernels, &apart);
    for (int i = 0; i < (kernels_act_takes_two(fused->act) ? 1 : 2) && fused->act != ACT_NONE; i++)
        kernels_act(
            kernels,
            &(struct act_args){
                .kind = fused->act, .x = y[i], .up = y[1], .rows = args->rows, .cols = out});
}

/* What stands before and behind a layer changes no bit when it is part of the call: types that are
 * rounded and types that are not, both in one call, outputs that are no whole groups, rows for
 * every way of cutting. */
static void check_fused(const char *isa, const struct fused *fused, uint32_t threads, uint32_t rows,
                        uint32_t out)
{
    struct rng rng = {.seed = rows};
    struct kernels *kernels = kit_kernels(isa, threads, ROWS, COLS);
    struct tensor tensors[2];
    struct weight weights[2];
    float *x = kit_floats(&rng, (size_t)rows * COLS, 2);
    float *norm = kit_floats(&rng, (size_t)2 * COLS, 1);
    float *bias = kit_floats(&rng, (size_t)2 * out, 1);
    float *normed = kit_floats(&rng, (size_t)rows * COLS, 1);
    float *y[4];
    for (int i = 0; i < 4; i++)
        y[i] = kit_floats(&rng, (size_t)rows * out, 1);
    for (int i = 0; i < 2; i++) {
        tensors[i] = kit_tensor(&rng, fused->types[i], out, COLS);
        assert_int_equal(kernels_weight_create(kernels, &weights[i], &tensors[i]), STATUS_OK);
    }
    struct linear_args args = {.x = x,
                               .rows = rows,
                               .count = 2,
                               .weights = {&weights[0], &weights[1]},
                               .y = {y[2], y[3]},
                               .act = fused->act,
                               .norm = norm,
                               .norm_bias = fused->norm == NORM_LAYER ? norm + COLS : NULL,
                               .norm_kind = fused->norm,
                               .epsilon = 1e-5f};
    if (fused->has_bias) {
        args.bias[0] = bias;
        args.bias[1] = bias + out;
    }
    run_apart(kernels, fused, &args, normed, y);
    kernels_linear(kernels, &args);
    kit_assert_same_bits(y[2], y[0], (size_t)rows * out);
    if (!kernels_act_takes_two(fused->act))
        kit_assert_same_bits(y[3], y[1], (size_t)rows * out);
    for (int i = 0; i < 2; i++) {
        kernels_weight_destroy(kernels, &weights[i]);
        kit_tensor_free(&tensors[i]);
    }
    for (int i = 0; i < 4; i++)
        free(y[i]);
    free(x);
    free(norm);
    free(bias);
    free(normed);
    kernels_destroy(kernels);
}

static void test_norm_and_act(void **state)
{
    (void)state;
    static const uint32_t row_counts[] = {1, 3, 5, 16, 33, ROWS};
    static const struct fused cases[] = {
        {{TENSOR_TYPE_q4_1, TENSOR_TYPE_q8_0}, NORM_RMS, ACT_NONE, false},
        {{TENSOR_TYPE_q4_1, TENSOR_TYPE_q8_0}, NORM_RMS, ACT_SILU_MUL, false},
        {{TENSOR_TYPE_q6_k, TENSOR_TYPE_f16}, NORM_RMS, ACT_GELU_MUL, false},
        {{TENSOR_TYPE_f32, TENSOR_TYPE_bf16}, NORM_RMS, ACT_CLAMPED_MUL, true},
        {{TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_0}, NORM_LAYER, ACT_GELU_TANH, true},
        {{TENSOR_TYPE_f32, TENSOR_TYPE_q5_0}, NORM_LAYER, ACT_GELU_ERF, true},
    };
    enum { OUT = 41, OUT_MORE = 233, CASES = sizeof cases / sizeof *cases };
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        for (uint32_t threads = rounds(3, 1); threads <= 3; threads++)
            for (size_t i = 0; i < CASES * (sizeof row_counts / sizeof *row_counts); i++)
                check_fused(*isa, &cases[i % CASES], threads, row_counts[i / CASES], OUT);
        /* More groups than a layer with an activation takes at once of so many rows: 12, then 3. */
        check_fused(*isa, &cases[1], 1, ROWS, OUT_MORE);
        check_fused(*isa, &cases[4], 1, ROWS, OUT_MORE);
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
        cmocka_unit_test(test_norm_and_act),
        cmocka_unit_test(test_no_rows_touch_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
