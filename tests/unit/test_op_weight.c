#include "kernels/cpu/ops/ops.h"

#include "config/base/mem.h"
#include "tests/unit/kernels_kit.h"

static void test_limits_and_refusals(void **state)
{
    (void)state;
    struct rng rng = {.seed = 1};
    struct kernels *kernels = kit_kernels("ref", 2, 4, 64);
    struct tensor good = kit_tensor(&rng, TENSOR_TYPE_q4_1, 3, 64);
    struct weight weight;
    assert_int_equal(op_weight_create(kernels, &weight, &good), STATUS_OK);
    assert_int_equal(weight.rows, 3);
    assert_int_equal(weight.cols, 64);
    op_weight_destroy(kernels, &weight);
    assert_null(weight.packed);
    op_weight_destroy(kernels, &weight); /* nothing twice */

    struct tensor bad = good;
    bad.dims[0] = 96; /* over cols_max */
    assert_int_equal(op_weight_create(kernels, &weight, &bad), STATUS_UNSUPPORTED);
    bad.dims[0] = 48; /* no whole blocks */
    assert_int_equal(op_weight_create(kernels, &weight, &bad), STATUS_UNSUPPORTED);
    bad.dims[0] = 0;
    assert_int_equal(op_weight_create(kernels, &weight, &bad), STATUS_UNSUPPORTED);
    bad = good;
    bad.dims[1] = 0;
    assert_int_equal(op_weight_create(kernels, &weight, &bad), STATUS_UNSUPPORTED);
    bad.dims[1] = UINT64_MAX;
    assert_int_equal(op_weight_create(kernels, &weight, &bad), STATUS_UNSUPPORTED);
    bad = good;
    bad.dims[2] = 2;
    assert_int_equal(op_weight_create(kernels, &weight, &bad), STATUS_UNSUPPORTED);
    bad = good;
    bad.bytes -= 1;
    assert_int_equal(op_weight_create(kernels, &weight, &bad), STATUS_CORRUPT);
    bad.bytes += 2;
    assert_int_equal(op_weight_create(kernels, &weight, &bad), STATUS_CORRUPT);
    assert_null(weight.packed);
    kit_tensor_free(&good);
    kernels_destroy(kernels);
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct rng rng = {.seed = 2};
    struct kernels *kernels = kit_kernels("ref", 1, 4, 64);
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_f32, 3, 64);
    struct weight weight;
    int left = 0;
    mem_hook_set(fail_at, &left);
    assert_int_equal(op_weight_create(kernels, &weight, &tensor), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_null(weight.packed);
    kit_tensor_free(&tensor);
    kernels_destroy(kernels);
}

/* Packed by several threads, a row comes back exactly, in every table and type. */
static void test_rows_come_back(void **state)
{
    (void)state;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (size_t t = 0; t < KIT_TYPES; t++) {
            enum { ROWS = 401, COLS = 512 };
            struct rng rng = {.seed = t};
            struct kernels *kernels = kit_kernels(*isa, 3, 4, COLS);
            struct tensor tensor = kit_tensor(&rng, kit_types[t], ROWS, COLS);
            struct weight weight;
            assert_int_equal(op_weight_create(kernels, &weight, &tensor), STATUS_OK);
            for (uint32_t r = 0; r < ROWS; r++) {
                float want[COLS];
                float got[COLS];
                tensor_row_to_f32(&tensor, r, want);
                kernels->table->weight_row(&weight, r, got);
                kit_assert_same_bits(got, want, COLS);
            }
            op_weight_destroy(kernels, &weight);
            kit_tensor_free(&tensor);
            kernels_destroy(kernels);
        }
}

/* Weights of several chunks, given back in any order: each keeps its own bytes, none is left. */
static void test_many_weights(void **state)
{
    (void)state;
    enum { COUNT = 24, ROWS = 2000, COLS = 256 };
    struct rng rng = {.seed = 5};
    struct kernels *kernels = kit_kernels("ref", 1, 1, COLS);
    struct weight weights[COUNT];
    struct tensor tensors[COUNT];
    uint32_t order[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) { /* 2 MB each, and some too small for a chunk */
        tensors[i] = kit_tensor(&rng, TENSOR_TYPE_f32, i % 5 == 0 ? 3 : ROWS, COLS);
        assert_int_equal(op_weight_create(kernels, &weights[i], &tensors[i]), STATUS_OK);
        assert_int_equal((uintptr_t)weights[i].packed % 64, 0);
        order[i] = i;
    }
    for (uint32_t i = COUNT; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(&rng, i);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t at = order[i];
        assert_memory_equal(weights[at].packed, tensors[at].data, tensors[at].bytes);
        op_weight_destroy(kernels, &weights[at]);
        kit_tensor_free(&tensors[at]);
    }
    assert_null(kernels->chunks);
    kernels_destroy(kernels);
}

/* Either allocation of a new chunk fails. */
static void test_no_memory_for_a_chunk(void **state)
{
    (void)state;
    struct rng rng = {.seed = 6};
    struct kernels *kernels = kit_kernels("ref", 1, 1, 256);
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_f32, 100, 256);
    struct weight weight;
    for (int n = 0; n < 2; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        assert_int_equal(op_weight_create(kernels, &weight, &tensor), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
        assert_null(kernels->chunks);
    }
    kit_tensor_free(&tensor);
    kernels_destroy(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_and_refusals),   cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_rows_come_back),        cmocka_unit_test(test_many_weights),
        cmocka_unit_test(test_no_memory_for_a_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
