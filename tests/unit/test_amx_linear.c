/* Equal bits of amx and ref_int8: of its source over tiles in plain C where AVX-512 is, and of the
 * instructions where they are. */
#include "kernels/cpu/amx/amx.h"

#include "kernels/cpu/ops/ops.h"
#include "kernels/dispatch/registry.h"
#include "tests/kit/tiles.h"
#include "tests/unit/isa_experts.h"
#include "tests/unit/isa_linear.h"

/* avx512's kernels with the leaf over tiles in plain C; NULL where the rest cannot run. */
static struct kernels *make_emulated(struct kernel_table *table, uint32_t threads, uint32_t rows,
                                     uint32_t cols)
{
    struct kernels *kernels = kit_fast("avx512", threads, rows, cols);
    if (kernels == NULL) {
        print_message("no AVX-512 with VNNI here: the leaf cannot run over tiles in plain C\n");
        return NULL;
    }
    *table = *registry_find("amx");
    table->linear = k_linear_tiles;
    kernels->table = table;
    return kernels;
}

/* Tiles are for all types of codes from AMX_ROWS_MIN rows on; each thread gives its own back. */
static void check_type(struct kernels *fast, struct kernels *judge,
                       const struct tensor_type_info *type)
{
    static const uint32_t row_counts[] = {1, 47, 48, 49, 53, 64, 70};
    static const uint32_t output_counts[] = {1, 15, 16, 17, 49};
    struct rng rng = {.seed = type->id};
    const uint32_t unit = type->take == NULL ? 11 : type->block_elements > 32 ? 256 : 32;
    for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++)
        for (size_t o = 0; o < sizeof output_counts / sizeof *output_counts; o++) {
            uint64_t before = tiles_products();
            isa_linear_compare(fast, judge, &rng, type->id, row_counts[r], output_counts[o],
                               unit * (1 + 2 * (uint32_t)rng_below(&rng, unit > 32 ? 1 : 2)));
            bool has_tiles = type->take != NULL && row_counts[r] >= AMX_ROWS_MIN;
            assert_true((tiles_products() > before) == has_tiles);
            assert_false(tiles_are_held());
        }
}

static void test_tiles_in_plain_c(void **state)
{
    (void)state;
    struct kernel_table table;
    struct kernels *fast = make_emulated(&table, 1, 70, 768);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, 70, 768);
    for (size_t t = 0; t < KIT_TYPES; t++)
        check_type(fast, judge, tensor_type_info(kit_types[t]));
    kernels_destroy(fast);
    kernels_destroy(judge);
}

/* Rows cut over threads, then (of fewer rows) outputs: each thread has tiles of its own. */
static void test_threads(void **state)
{
    (void)state;
    struct kernel_table table;
    struct rng rng = {.seed = 5};
    struct kernels *fast = make_emulated(&table, 2, 99, 576);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, 99, 576);
    isa_linear_compare(fast, judge, &rng, TENSOR_TYPE_q4_1, 99, 576, 576);
    isa_linear_compare(fast, judge, &rng, TENSOR_TYPE_q8_0, 50, 600, 576);
    kernels_destroy(fast);
    kernels_destroy(judge);
}

/* More input than stays in a cache at once: chunks of two tiles of 16 rows. */
static void test_chunks(void **state)
{
    (void)state;
    enum { COLS = 32 * 340, ROWS = 70 };
    struct kernel_table table;
    struct rng rng = {.seed = 6};
    struct kernels *fast = make_emulated(&table, 1, ROWS, COLS);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, ROWS, COLS);
    isa_linear_compare(fast, judge, &rng, TENSOR_TYPE_q4_1, ROWS, 49, COLS);
    kernels_destroy(fast);
    kernels_destroy(judge);
}

/* Experts of many rows are ranges of a weight's groups. */
static void test_experts(void **state)
{
    (void)state;
    struct kernel_table table;
    struct kernels *fast = make_emulated(&table, 2, 70, 96);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, 70, 96);
    const uint32_t type = TENSOR_TYPE_q4_0;
    const struct experts_shape shape = {3, 2, 96, 96, {type, type, type}, false};
    const uint64_t before = tiles_products();
    isa_experts_shape(fast, judge, &shape, true, 7);
    assert_true(tiles_products() > before);
    kernels_destroy(fast);
    kernels_destroy(judge);
}

static void test_the_instructions(void **state)
{
    (void)state;
    if (!kernels_can_run("amx"))
        print_message("no AMX (int8) here, or the system does not grant it: its instructions were "
                      "not run\n");
    isa_linear_check("amx"); /* without: refused by name */
    isa_experts_check("amx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles_in_plain_c), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_chunks),           cmocka_unit_test(test_experts),
        cmocka_unit_test(test_the_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
