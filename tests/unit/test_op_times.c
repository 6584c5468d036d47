/* What an operation is counted as: calls, shapes, arithmetic and bytes; times only as far as they
 * must hold on any machine. */
#include "kernels/cpu/ops/ops.h"

#include "tests/unit/kernels_kit.h"

enum { COLS = 64, ROWS_MAX = 64 };

static const struct kernels_time *find(const struct kernels_time *times, uint32_t count,
                                       const char *name, uint32_t outputs)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(times[i].name, name) == 0 && times[i].outputs == outputs)
            return &times[i];
    fail_msg("no %s of %u outputs", name, outputs);
    return NULL;
}

static void run_linear(struct kernels *kernels, const struct weight *a, const struct weight *b,
                       uint32_t rows)
{
    struct rng rng = {.seed = rows};
    float *x = kit_floats(&rng, (size_t)rows * COLS, 1);
    float *y[2] = {kit_floats(&rng, (size_t)rows * a->rows, 1), NULL};
    struct linear_args args = {
        .x = x, .rows = rows, .count = 1, .weights = {a, b}, .y = {y[0], NULL}};
    if (b != NULL) {
        y[1] = kit_floats(&rng, (size_t)rows * b->rows, 1);
        args.y[1] = y[1];
        args.count = 2;
    }
    kernels_linear(kernels, &args);
    free(x);
    free(y[0]);
    free(y[1]);
}

static struct weight make_weight(struct kernels *kernels, uint32_t type, uint32_t rows)
{
    struct rng rng = {.seed = rows};
    struct weight weight;
    struct tensor tensor = kit_tensor(&rng, type, rows, COLS);
    assert_int_equal(kernels_weight_create(kernels, &weight, &tensor), STATUS_OK);
    kit_tensor_free(&tensor);
    return weight;
}

/* Codes are multiplied as integers, floats (and everything in `ref`) as floats; shapes stand apart,
 * whether the threads were asked (many rows) or not. */
static void check_linear(const char *isa, uint32_t threads)
{
    struct kernels *kernels = kit_kernels(isa, threads, ROWS_MAX, COLS);
    struct weight codes = make_weight(kernels, TENSOR_TYPE_q8_0, 48);
    struct weight floats = make_weight(kernels, TENSOR_TYPE_f32, 32);
    struct kernels_time times[KERNELS_TIMES_MAX];
    bool is_int8 = strcmp(isa, "ref") != 0;
    kernels_times_begin(kernels);
    run_linear(kernels, &codes, NULL, 1);
    run_linear(kernels, &codes, NULL, ROWS_MAX);
    run_linear(kernels, &codes, &floats, 3);
    run_linear(kernels, &floats, NULL, 2);
    uint32_t count = kernels_times_end(kernels, times);
    assert_int_equal(count, 3);

    const struct kernels_time *one = find(times, count, "linear", 48);
    const uint64_t operations = (uint64_t)2 * 48 * COLS * (1 + ROWS_MAX);
    assert_ptr_equal(one, &times[0]); /* in the order of first calls */
    assert_int_equal(one->inputs, COLS);
    assert_int_equal(one->calls, 2);
    assert_int_equal(one->bytes, 2 * codes.packed_bytes);
    assert_int_equal(one->int8_operations, is_int8 ? operations : 0);
    assert_int_equal(one->f32_operations, is_int8 ? 0 : operations);
    assert_true(one->wait_ns <= one->ns);

    const struct kernels_time *both = find(times, count, "linear", 48 + 32);
    const uint64_t of_codes = (uint64_t)2 * 48 * COLS * 3;
    assert_int_equal(both->calls, 1);
    assert_int_equal(both->bytes, codes.packed_bytes + floats.packed_bytes);
    assert_int_equal(both->int8_operations, is_int8 ? of_codes : 0);
    assert_int_equal(both->f32_operations, 2 * 32 * COLS * 3 + (is_int8 ? 0 : of_codes));
    assert_int_equal(find(times, count, "linear", 32)->f32_operations, 2 * 32 * COLS * 2);

    kernels_weight_destroy(kernels, &codes);
    kernels_weight_destroy(kernels, &floats);
    kernels_destroy(kernels);
}

static void test_linear(void **state)
{
    (void)state;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (uint32_t threads = 1; threads <= 3; threads++)
            check_linear(*isa, threads);
}

/* Rows of one sequence read its keys once; another sequence reads again what is not said to be
 * common. */
static void check_attention(enum kv_type type)
{
    enum { HEADS = 4, KV_HEADS = 2, DIM = 32, KEYS = 70, ROWS = 4 };
    struct rng rng = {.seed = 3};
    struct kernels *kernels = kit_kernels("ref_int8", 2, 2 * KEYS, COLS);
    struct kit_pages pages = kit_pages_make(kernels, type, 16, 1, KV_HEADS, DIM, 2, 2 * KEYS);
    uint32_t sequence[2 * KEYS];
    uint32_t position[2 * KEYS];
    float *k = kit_floats(&rng, (size_t)2 * KEYS * KV_HEADS * DIM, 1);
    float *q = kit_floats(&rng, (size_t)ROWS * HEADS * DIM, 1);
    float *out = kit_floats(&rng, (size_t)ROWS * HEADS * DIM, 1);
    for (uint32_t i = 0; i < 2 * KEYS; i++) {
        sequence[i] = i / KEYS;
        position[i] = i % KEYS;
    }
    uint32_t open_of[2 * KEYS];
    struct kv_rows kv = kit_rows(&pages, sequence, position, 2 * KEYS, open_of);
    kernels_kv_write(kernels, &(struct kv_write_args){k, k, 2 * KEYS, 0, 0, kv, {NULL}});

    const uint32_t of_rows[ROWS] = {0, 0, 0, 1};
    const uint32_t at[ROWS] = {65, 66, 69, 67}; /* 66, 67, 70 and 68 keys */
    const uint32_t order[ROWS] = {0, 1, 2, 3};
    const uint32_t shared[ROWS] = {0, 0, 0, 64};
    const struct attention_groups groups = {order, shared};
    struct kernels_time times[KERNELS_TIMES_MAX];
    const uint64_t token_bytes = KV_HEADS * (type == KV_TYPE_I8     ? 2 * (DIM + 4)
                                             : type == KV_TYPE_K4V8 ? DIM / 2 + DIM / 4 + DIM + 4
                                             : type == KV_TYPE_K4V4 ? DIM / 2 + DIM / 4 + 20 + 1
                                                                    : 4 * DIM);
    const bool has_codes = type == KV_TYPE_I8 || type == KV_TYPE_F16Q;
    const uint64_t products = 2 * (66 + 67 + 70 + 68) * HEADS * DIM; /* of keys, and of values */
    memcpy(pages.table + pages.pages_each, pages.table, 4 * sizeof *pages.table);
    kv = kit_rows(&pages, of_rows, at, ROWS, open_of);
    for (int with_groups = 0; with_groups < 2; with_groups++) {
        struct attention_args args = {.q = q,
                                      .out = out,
                                      .rows = ROWS,
                                      .heads = HEADS,
                                      .scale = 0.2f,
                                      .kv = kv,
                                      .groups = with_groups ? &groups : NULL};
        uint64_t keys_read = with_groups ? 70 + 4 : 70 + 68;
        kernels_times_begin(kernels);
        kernels_attention(kernels, &args);
        assert_int_equal(kernels_times_end(kernels, times), 1);
        assert_string_equal(times[0].name, "attention");
        assert_int_equal(times[0].int8_operations, has_codes ? products : 0);
        assert_int_equal(times[0].f32_operations + times[0].int8_operations, 2 * products);
        assert_int_equal(times[0].bytes, keys_read * token_bytes);
    }
    free(k);
    free(q);
    free(out);
    kit_pages_free(kernels, &pages);
    kernels_destroy(kernels);
}

static void test_attention(void **state)
{
    (void)state;
    for (int i = 0; i < KIT_KV_TYPES; i++)
        check_attention(kit_kv_types[i]);
}

/* What runs before begin and after end is not counted, and begin clears. */
static void test_off_until_asked_for(void **state)
{
    (void)state;
    struct kernels *kernels = kit_kernels("ref", 2, ROWS_MAX, COLS);
    struct weight weight = make_weight(kernels, TENSOR_TYPE_f32, 16);
    struct kernels_time times[KERNELS_TIMES_MAX];
    run_linear(kernels, &weight, NULL, 1);
    assert_int_equal(kernels_times_end(kernels, times), 0);
    kernels_times_begin(kernels);
    run_linear(kernels, &weight, NULL, 1);
    kernels_times_begin(kernels);
    run_linear(kernels, &weight, NULL, 0); /* no rows are no work */
    assert_int_equal(kernels_times_end(kernels, times), 0);
    kernels_times_begin(kernels);
    run_linear(kernels, &weight, NULL, 1);
    assert_int_equal(kernels_times_end(kernels, times), 1);
    run_linear(kernels, &weight, NULL, 1);
    assert_int_equal(kernels_times_end(kernels, times), 1);
    assert_int_equal(times[0].calls, 1);
    kernels_weight_destroy(kernels, &weight);
    kernels_destroy(kernels);
}

/* The same results with and without a clock beside them. */
static void test_bits(void **state)
{
    (void)state;
    enum { ROWS = 9, OUT = 200 };
    struct rng rng = {.seed = 4};
    struct kernels *kernels = kit_kernels("ref_int8", 3, ROWS, COLS);
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_q4_1, OUT, COLS);
    float *x = kit_floats(&rng, ROWS * COLS, 1);
    float *want = kit_floats(&rng, ROWS * OUT, 1);
    float *got = kit_floats(&rng, ROWS * OUT, 1);
    struct kernels_time times[KERNELS_TIMES_MAX];
    kit_linear(kernels, &tensor, x, ROWS, want, false);
    kernels_times_begin(kernels);
    kit_linear(kernels, &tensor, x, ROWS, got, false);
    assert_int_equal(kernels_times_end(kernels, times), 2); /* packing the weight is one, too */
    assert_string_equal(times[0].name, "weight_pack");
    kit_assert_same_bits(got, want, ROWS * OUT);
    free(x);
    free(want);
    free(got);
    kit_tensor_free(&tensor);
    kernels_destroy(kernels);
}

/* More shapes than places: nothing is lost. */
static void test_full(void **state)
{
    (void)state;
    enum { SHAPES = KERNELS_TIMES_MAX + 5 };
    struct kernels *kernels = kit_kernels("ref", 1, ROWS_MAX, COLS);
    struct kernels_time times[KERNELS_TIMES_MAX];
    struct weight weights[SHAPES];
    for (uint32_t i = 0; i < SHAPES; i++)
        weights[i] = make_weight(kernels, TENSOR_TYPE_f32, i + 1);
    kernels_times_begin(kernels);
    for (uint32_t i = 0; i < SHAPES; i++)
        run_linear(kernels, &weights[i], NULL, 1);
    assert_int_equal(kernels_times_end(kernels, times), KERNELS_TIMES_MAX);
    assert_int_equal(times[0].calls, 1);
    assert_int_equal(times[KERNELS_TIMES_MAX - 1].outputs, KERNELS_TIMES_MAX);
    assert_int_equal(times[KERNELS_TIMES_MAX - 1].calls, 6);
    for (uint32_t i = 0; i < SHAPES; i++)
        kernels_weight_destroy(kernels, &weights[i]);
    kernels_destroy(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_off_until_asked_for),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
