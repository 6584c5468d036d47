/* Layers of experts in every table: the formula, batch invariance, biases, ranks' shares. */
#include "kernels/kernels_experts.h"

#include "kernels/kernels_measure.h"
#include "tests/unit/experts_kit.h"

enum { ROWS = 40, EXPERTS = 6, USED = 3, WIDTH = 96, HIDDEN = 64, TYPES = 5 };

static const uint32_t TYPE_SETS[TYPES][3] = {
    {TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_0, TENSOR_TYPE_q8_0},
    {TENSOR_TYPE_mxfp4, TENSOR_TYPE_mxfp4, TENSOR_TYPE_mxfp4},
    {TENSOR_TYPE_f32, TENSOR_TYPE_f32, TENSOR_TYPE_f32},
    {TENSOR_TYPE_q5_0, TENSOR_TYPE_f16, TENSOR_TYPE_bf16}, /* one reads codes, one floats */
    {TENSOR_TYPE_bf16, TENSOR_TYPE_q4_1, TENSOR_TYPE_q4_0},
};

static struct experts_layer make_layer(struct rng *rng, int set, bool has_bias)
{
    struct experts_shape shape = {EXPERTS, USED, WIDTH, HIDDEN, {0}, has_bias};
    memcpy(shape.types, TYPE_SETS[set], sizeof shape.types);
    return experts_kit_layer(rng, &shape);
}

/* out[rows] = x · the expert's matrixᵀ + bias, as a layer of its own. */
static void one_linear(struct kernels *kernels, const struct tensor *tensor, const float *bias,
                       uint32_t expert, const float *x, float *out)
{
    const struct tensor one = experts_kit_one(tensor, expert);
    struct weight weight;
    assert_int_equal(kernels_weight_create(kernels, &weight, &one), STATUS_OK);
    struct linear_args args = {.x = x, .rows = 1, .count = 1, .weights = {&weight}, .y = {out}};
    if (bias != NULL)
        args.bias[0] = bias + (size_t)expert * weight.rows;
    kernels_linear(kernels, &args);
    kernels_weight_destroy(kernels, &weight);
}

/* The sum over a row's slots, from separate operations. */
static void row_alone(struct kernels *kernels, const struct experts_layer *layer,
                      const struct kernels_routes *routes, uint32_t r, enum act_kind act,
                      const float *x, float *out)
{
    float gate[HIDDEN];
    float up[HIDDEN];
    float result[WIDTH];
    float sum[WIDTH] = {0};
    for (uint32_t slot = 0; slot < USED; slot++) {
        const uint32_t expert = routes->expert[r * USED + slot];
        one_linear(kernels, &layer->gate, layer->gate_bias, expert, x, gate);
        one_linear(kernels, &layer->up, layer->up_bias, expert, x, up);
        kernels_act(kernels, &(struct act_args){
                                 .kind = act, .x = gate, .up = up, .rows = 1, .cols = HIDDEN});
        one_linear(kernels, &layer->down, layer->down_bias, expert, gate, result);
        for (uint32_t c = 0; c < WIDTH; c++)
            sum[c] = fmaf(routes->weight[r * USED + slot], result[c], sum[c]);
    }
    memcpy(out, sum, sizeof sum);
}

/* Few rows and many, on one thread and more: the bits of separate operations (in ref, whose sum is
 * in double, nearly). */
static void check_formula(const char *isa, int set, bool has_bias, enum act_kind act)
{
    static const uint32_t row_counts[] = {1, 2, 7, ROWS};
    struct rng rng = {.seed = (uint64_t)set};
    struct experts_layer layer = make_layer(&rng, set, has_bias);
    struct kernels *alone = kit_kernels(isa, 1, 1, WIDTH);
    float *x = kit_floats(&rng, ROWS * WIDTH, 2);
    float *logits = kit_floats(&rng, ROWS * EXPERTS, 2);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct kernels *kernels = kit_kernels(isa, threads, ROWS, WIDTH);
        struct experts_side side = experts_kit_open(kernels, &layer, ROWS);
        for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
            const uint32_t rows = row_counts[i];
            float *y = kit_floats(&rng, (size_t)rows * WIDTH, 1);
            float want[WIDTH];
            struct experts_args args = experts_kit_args(&side, x, rows, y);
            args.act = act;
            experts_kit_route(&side, logits, rows, true);
            kernels_experts(kernels, &args);
            for (uint32_t r = 0; r < rows; r += 1 + rows / 8) {
                row_alone(alone, &layer, &side.routes, r, act, x + r * WIDTH, want);
                if (strcmp(isa, "ref") == 0)
                    kit_assert_close(y + r * WIDTH, want, WIDTH, 1e-4f);
                else
                    kit_assert_same_bits(y + r * WIDTH, want, WIDTH);
            }
            free(y);
        }
        experts_kit_close(&side);
        kernels_destroy(kernels);
    }
    experts_kit_free(&layer);
    kernels_destroy(alone);
    free(x);
    free(logits);
}

static void test_formula(void **state)
{
    (void)state;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (int set = 0; set < TYPES; set++)
            check_formula(*isa, set, set % 2 == 1, set == 1 ? ACT_CLAMPED_MUL : ACT_SILU_MUL);
}

/* A row's bits depend on that row alone, however many rows choose the same experts, and whatever
 * memory held before. */
static void check_invariance(const char *isa, int set, enum experts_routing routing)
{
    struct rng rng = {.seed = 11};
    struct experts_layer layer = make_layer(&rng, set, true);
    float *x = kit_floats(&rng, ROWS * WIDTH, 2);
    float *logits = experts_kit_logits(&rng, routing, ROWS, EXPERTS);
    float *old = kit_floats(&rng, ROWS * WIDTH, 1);
    float *want = malloc(ROWS * WIDTH * sizeof *want);
    float *got = malloc(ROWS * WIDTH * sizeof *got);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct kernels *kernels = kit_kernels(isa, threads, ROWS, WIDTH);
        struct experts_side side = experts_kit_open(kernels, &layer, ROWS);
        memset(side.scratch, 0xff, kernels_experts_bytes(kernels, ROWS, USED, WIDTH, HIDDEN));
        memcpy(got, old, ROWS * WIDTH * sizeof *got);
        for (uint32_t first = 0, rows; first < ROWS; first += rows) {
            rows = threads == 1 ? 1 : 1 + (uint32_t)rng_below(&rng, ROWS - first);
            struct experts_args args =
                experts_kit_args(&side, x + first * WIDTH, rows, got + first * WIDTH);
            args.accumulate = true;
            experts_kit_route(&side, logits + first * EXPERTS, rows, false);
            kernels_experts(kernels, &args);
        }
        if (threads == 1)
            memcpy(want, got, ROWS * WIDTH * sizeof *want);
        else
            kit_assert_same_bits(got, want, ROWS * WIDTH);
        experts_kit_close(&side);
        kernels_destroy(kernels);
    }
    experts_kit_free(&layer);
    free(x), free(logits), free(old), free(want), free(got);
}

static void test_batch_invariance(void **state)
{
    (void)state;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (int set = 0; set < TYPES; set++)
            for (int routing = 0; routing < EXPERTS_ROUTINGS; routing++)
                if (set == 0 || set % EXPERTS_ROUTINGS == routing)
                    check_invariance(*isa, set, (enum experts_routing)routing);
}

/* A value that is not finite reaches the rows that have it, and no others. */
static void test_not_numbers_stay_in_their_row(void **state)
{
    (void)state;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct rng rng = {.seed = 5};
        struct experts_layer layer = make_layer(&rng, 0, false);
        struct kernels *kernels = kit_kernels(*isa, 2, ROWS, WIDTH);
        struct experts_side side = experts_kit_open(kernels, &layer, ROWS);
        float *x = kit_floats(&rng, ROWS * WIDTH, 1);
        float *logits = kit_floats(&rng, ROWS * EXPERTS, 1);
        float *y = kit_floats(&rng, ROWS * WIDTH, 1);
        struct experts_args args = experts_kit_args(&side, x, ROWS, y);
        x[3 * WIDTH + 5] = NAN;
        logits[3 * EXPERTS] = NAN;
        experts_kit_route(&side, logits, ROWS, false);
        kernels_experts(kernels, &args);
        for (uint32_t i = 0; i < ROWS * WIDTH; i++)
            assert_int_equal(isnan(y[i]) != 0, i / WIDTH == 3);
        experts_kit_close(&side);
        kernels_destroy(kernels);
        experts_kit_free(&layer);
        free(x), free(logits), free(y);
    }
}

/* Whole experts in each of two ranks: the parts add up, and a rank reads its own experts only. */
static void test_whole_experts_to_ranks(void **state)
{
    (void)state;
    enum { RANKS = 2 };
    struct rng rng = {.seed = 12};
    struct experts_layer layer = make_layer(&rng, 2, false);
    float *x = kit_floats(&rng, ROWS * WIDTH, 1);
    float *logits = kit_floats(&rng, ROWS * EXPERTS, 2);
    float *y[1 + RANKS];
    for (uint32_t part = 0; part <= RANKS; part++) {
        struct kernels *kernels = kit_kernels("ref", 2, ROWS, WIDTH);
        struct experts_layer own = layer;
        struct tensor *const tensors[] = {&own.gate, &own.up, &own.down};
        char *memory[3] = {NULL};
        for (uint32_t t = 0; part > 0 && t < 3; t++) {
            const size_t each = tensors[t]->bytes / EXPERTS;
            memory[t] = malloc(tensors[t]->bytes / RANKS);
            for (uint32_t e = part - 1; e < EXPERTS; e += RANKS)
                memcpy(memory[t] + e / RANKS * each, (const char *)tensors[t]->data + e * each,
                       each);
            tensors[t]->data = memory[t];
            tensors[t]->dims[2] = EXPERTS / RANKS;
            tensors[t]->bytes = each * (EXPERTS / RANKS);
        }
        struct experts_side side = experts_kit_open(kernels, &own, ROWS);
        y[part] = kit_floats(&rng, ROWS * WIDTH, 1);
        struct experts_args args = experts_kit_args(&side, x, ROWS, y[part]);
        args.every = part > 0 ? RANKS : 0;
        args.own = part > 0 ? part - 1 : 0;
        experts_kit_route(&side, logits, ROWS, true);
        kernels_experts(kernels, &args);
        experts_kit_close(&side);
        kernels_destroy(kernels);
        for (uint32_t t = 0; t < 3; t++)
            free(memory[t]);
    }
    for (uint32_t i = 0; i < ROWS * WIDTH; i++)
        assert_float_equal(y[1][i] + y[2][i], y[0][i], 1e-4f);
    for (uint32_t part = 0; part <= RANKS; part++)
        free(y[part]);
    experts_kit_free(&layer);
    free(x), free(logits);
}

/* Counted are the bytes of the experts that some row uses. */
static void test_counts(void **state)
{
    (void)state;
    struct rng rng = {.seed = 1};
    struct experts_layer layer = make_layer(&rng, 0, false);
    struct kernels *kernels = kit_kernels("ref_int8", 1, ROWS, WIDTH);
    struct experts_side side = experts_kit_open(kernels, &layer, ROWS);
    const size_t each =
        (side.gate.packed_bytes + side.up.packed_bytes + side.down.packed_bytes) / EXPERTS;
    const uint64_t products = 3 * WIDTH * HIDDEN * 2;
    float *x = kit_floats(&rng, ROWS * WIDTH, 1);
    float *y = kit_floats(&rng, ROWS * WIDTH, 1);
    struct kernels_time times[KERNELS_TIMES_MAX];
    float *one = experts_kit_logits(&rng, EXPERTS_ONE, ROWS, EXPERTS);
    float *apart = experts_kit_logits(&rng, EXPERTS_APART, ROWS, EXPERTS);
    const struct experts_args args = experts_kit_args(&side, x, ROWS, y);
    kernels_times_begin(kernels);
    experts_kit_route(&side, one, ROWS, true);
    kernels_experts(kernels, &args);
    experts_kit_route(&side, apart, ROWS, true);
    kernels_experts(kernels, &args);
    assert_int_equal(kernels_times_end(kernels, times), 2);
    assert_string_equal(times[0].name, "route");
    assert_string_equal(times[1].name, "experts");
    assert_int_equal(times[0].calls, 2);
    assert_int_equal(times[1].calls, 2);
    assert_int_equal(times[1].bytes, (USED + EXPERTS) * each);
    assert_int_equal(times[1].int8_operations, 2 * ROWS * USED * products);
    experts_kit_close(&side);
    kernels_destroy(kernels);
    experts_kit_free(&layer);
    free(x), free(y), free(one), free(apart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_batch_invariance),
        cmocka_unit_test(test_not_numbers_stay_in_their_row),
        cmocka_unit_test(test_whole_experts_to_ranks),
        cmocka_unit_test(test_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
