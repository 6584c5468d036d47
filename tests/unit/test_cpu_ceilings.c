/* Never how fast, only that figures are there and failures leave nothing. */
#include "kernels/cpu/ops/cpu_ceilings.h"

#include "config/base/mem.h"
#include "tests/unit/kernels_kit.h"

static void test_figures(void **state)
{
    (void)state;
    struct kernels *kernels = kit_kernels("auto", 2, 1, 1);
    struct kernels_ceilings out = {0};
    assert_int_equal(kernels_measure_ceilings(kernels, 1 << 20, &out), STATUS_OK);
    assert_true(out.int8_gops > 0);
    assert_true(out.f32_gflops > 0);
    assert_true(out.read_gbps_model > 0);
    assert_true(out.read_gbps_dram > 0);
    assert_true(isfinite(out.int8_gops) && isfinite(out.read_gbps_model));
    /* What was higher in an earlier moment stays; what was lower goes. */
    struct kernels_ceilings again = {.int8_gops = 1e15, .f32_gflops = 1e-9, .read_gbps_dram = 1e15};
    assert_int_equal(kernels_measure_ceilings(kernels, 1 << 20, &again), STATUS_OK);
    assert_true(again.int8_gops >= 1e15 && again.read_gbps_dram >= 1e15);
    assert_true(again.f32_gflops > 1e-9 && again.read_gbps_model > 0);
    kernels_destroy(kernels);
}

static int fail_always(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
    return 1;
}

static void test_refusals(void **state)
{
    (void)state;
    struct kernels *kernels = kit_kernels("ref", 1, 1, 1);
    struct kernels_ceilings out;
    assert_int_equal(cpu_ceilings_measure(kernels, 63, &out), STATUS_OUT_OF_RANGE);
    assert_int_equal(cpu_ceilings_measure(kernels, SIZE_MAX, &out), STATUS_NO_MEMORY);
    mem_hook_set(fail_always, NULL);
    assert_int_equal(cpu_ceilings_measure(kernels, 64, &out), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    kernels_destroy(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
