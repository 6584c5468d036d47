/* What the machine-independent part refuses and computes. */
#include "kernels/kernels_experts.h"

#include "config/base/limits.h"
#include "tests/unit/experts_kit.h"

static void check_refused(struct kernels *kernels, struct tensor tensor, uint64_t rows,
                          uint64_t experts, const char *why)
{
    struct weight weight;
    tensor.dims[1] = rows;
    tensor.dims[2] = experts;
    assert_int_equal(kernels_experts_weight(kernels, &weight, &tensor), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, why));
    assert_null(weight.packed);
}

static void test_weights(void **state)
{
    (void)state;
    struct rng rng = {.seed = 1};
    struct kernels *kernels = kit_kernels("ref_int8", 1, 1, 64);
    struct tensor tensor = experts_kit_tensor(&rng, TENSOR_TYPE_q4_0, 3, 32, 64);
    struct weight weight;
    assert_int_equal(kernels_experts_weight(kernels, &weight, &tensor), STATUS_OK);
    assert_int_equal(weight.rows, 96);
    assert_int_equal(weight.cols, 64);
    kernels_weight_destroy(kernels, &weight);
    check_refused(kernels, tensor, 24, 4, "experts of 24 outputs each");
    check_refused(kernels, tensor, (uint64_t)1 << 62, 4, "outputs each");
    check_refused(kernels, tensor, 32, 0, "a layer of 0 experts");
    check_refused(kernels, tensor, 32, LIMIT_EXPERTS + 1, "a layer of 257 experts");
    check_refused(kernels, tensor, 1 << 19, 16, "outputs"); /* too tall together */
    tensor.dims[3] = 2;
    check_refused(kernels, tensor, 32, 3, "no list of matrices");
    tensor.dims[3] = 1;
    tensor.bytes--;
    assert_int_equal(kernels_experts_weight(kernels, &weight, &tensor), STATUS_CORRUPT);
    kit_tensor_free(&tensor);
    kernels_destroy(kernels);
}

/* The arrays lie in their buffer, apart from each other. */
static void test_routes(void **state)
{
    (void)state;
    enum { ROWS = 7, EXPERTS = 5, USED = 3, PAIRS = ROWS * USED };
    const size_t bytes = kernels_routes_bytes(ROWS, EXPERTS, USED);
    char *buffer = aligned_alloc(64, bytes);
    struct kernels_routes routes;
    kernels_routes_init(&routes, buffer, ROWS, EXPERTS, USED);
    assert_int_equal(routes.experts, EXPERTS);
    assert_int_equal(routes.used, USED);
    assert_ptr_equal(routes.expert, buffer);
    assert_true((char *)routes.weight >= (char *)(routes.expert + PAIRS));
    assert_true((char *)routes.begin >= (char *)(routes.weight + PAIRS));
    assert_true((char *)routes.row >= (char *)(routes.begin + EXPERTS + 1));
    assert_true((char *)routes.place >= (char *)(routes.row + PAIRS));
    assert_true((char *)routes.pieces >= (char *)(routes.place + PAIRS));
    const uint32_t pieces = kernels_routes_pieces(ROWS, EXPERTS, USED);
    assert_true((char *)(routes.pieces + pieces) <= buffer + bytes);
    free(buffer);
}

/* Of any routing, pieces of at most 16 pairs: one for each pair of few rows, at most one
 * incomplete piece for each expert of many. */
static void test_pieces(void **state)
{
    (void)state;
    assert_int_equal(kernels_routes_pieces(1, 128, 8), 8);
    assert_int_equal(kernels_routes_pieces(16, 128, 8), 128);
    assert_int_equal(kernels_routes_pieces(512, 128, 8), 256 + 128);
    assert_int_equal(kernels_routes_pieces(512, 8, 2), 64 + 8);
}

static void test_read(void **state)
{
    (void)state;
    assert_float_equal((float)kernels_experts_read(128, 8, 1), 8, 1e-4f);
    assert_float_equal((float)kernels_experts_read(128, 8, 16), 82.4f, 0.1f);
    assert_float_equal((float)kernels_experts_read(4, 4, 1), 4, 1e-6f);
    assert_float_equal((float)kernels_experts_read(4, 2, 0), 0, 1e-6f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
