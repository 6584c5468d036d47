/* Our answer against what the operating system says of the same processor. */
#include "kernels/cpu/cpu_features.h"

#include <stdbool.h>
#include <stdio.h>

#include "tests/unit/kernels_kit.h"

static bool has_flag(const char *name)
{
    char *line = NULL;
    size_t size = 0;
    bool has = false;
    FILE *file = fopen("/proc/cpuinfo", "r");
    assert_non_null(file);
    char wanted[64];
    snprintf(wanted, sizeof wanted, " %s ", name);
    while (!has && getline(&line, &size, file) > 0) {
        if (strncmp(line, "flags", 5) != 0)
            continue;
        line[strcspn(line, "\n")] = ' ';
        has = strstr(line, wanted) != NULL;
    }
    free(line);
    fclose(file);
    return has;
}

static void test_same_as_the_operating_system(void **state)
{
    (void)state;
    uint32_t features = cpu_features();
    assert_int_equal((features & CPU_FEATURE_FMA) != 0, has_flag("fma"));
    assert_int_equal((features & CPU_FEATURE_F16C) != 0, has_flag("f16c"));
    assert_int_equal((features & CPU_FEATURE_AVX2) != 0, has_flag("avx2"));
    bool has_avx512 =
        has_flag("avx512f") && has_flag("avx512bw") && has_flag("avx512dq") && has_flag("avx512vl");
    assert_int_equal((features & CPU_FEATURE_AVX512) != 0, has_avx512);
    assert_int_equal((features & CPU_FEATURE_AVX512_VNNI) != 0,
                     has_avx512 && has_flag("avx512_vnni"));
    assert_true(!has_flag("avx_vnni") ||
                (features & CPU_FEATURE_AVX_VNNI)); /* old kernels: no name */
    if (features & CPU_FEATURE_AMX_INT8) /* and the system grants its tiles, which it may refuse */
        assert_true(has_flag("amx_tile") && has_flag("amx_int8"));
    assert_int_equal(cpu_features(), features);
}

static void test_names(void **state)
{
    (void)state;
    char out[128];
    cpu_features_names(0, out, sizeof out);
    assert_string_equal(out, "");
    cpu_features_names(CPU_FEATURE_FMA | CPU_FEATURE_AVX512_VNNI, out, sizeof out);
    assert_string_equal(out, "FMA, AVX-512 VNNI");
    cpu_features_names(UINT32_MAX, out, 6); /* cut, terminated */
    assert_string_equal(out, "FMA, ");
    out[0] = 'x';
    cpu_features_names(UINT32_MAX, out, 0);
    assert_int_equal(out[0], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_operating_system),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
