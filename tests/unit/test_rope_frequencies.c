#include "engine/models/rope_frequencies.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/json_read.h"

enum { DIMS_MAX = 256, GOLDENS = 8 };

/* Compares eight frequencies, equally far apart from the first to the last, with values that
 * a script computed in double precision by the published formulas. */
static void check(const char *what, const struct model_rope *rope, uint32_t dims,
                  const float *factors, const double want[GOLDENS])
{
    float frequencies[DIMS_MAX / 2];
    rope_frequencies(rope, dims, factors, frequencies);
    for (uint32_t i = 0; i < GOLDENS; i++) {
        const uint32_t pair = i * (dims / 2 - 1) / (GOLDENS - 1);
        const double error = fabs((double)frequencies[pair] / want[i] - 1);
        if (!(error < 1e-6))
            fail_msg("%s: pair %u is %.9g, not %.9g", what, pair, (double)frequencies[pair],
                     want[i]);
    }
}

/* The factors that llama.cpp's converter writes for Llama 3.1 and later: low frequencies are
 * divided, high ones are not, those between are blended. */
static void llama3_factors(float base, uint32_t dims, double factor, float *out)
{
    const double low = 1;
    const double high = 4;
    const double original = 8192;
    for (uint32_t i = 0; i < dims / 2; i++) {
        const double turns = original / (2 * M_PI) * pow((double)base, -2.0 * i / dims);
        const double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);
        out[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
}

static void test_llama_factors(void **state)
{
    (void)state;
    static const double of_8[GOLDENS] = {1.000000000e+00, 1.579728099e-01, 2.495540867e-02,
                                         3.942276030e-03, 7.784655274e-05, 1.229763868e-05,
                                         1.942692537e-06, 3.068925989e-07};
    static const double of_32[GOLDENS] = {1.000000000e+00, 1.939227447e-01, 3.760603093e-02,
                                          4.839421346e-03, 9.708287803e-05, 3.774054294e-06,
                                          7.318749675e-07, 9.418306725e-08};
    const struct model_rope rope = {.base = 500000};
    float factors[DIMS_MAX / 2];
    llama3_factors(rope.base, 128, 8, factors);
    check("Llama 3.1, factor 8", &rope, 128, factors, of_8);
    llama3_factors(rope.base, 64, 32, factors);
    check("Llama 3.2, factor 32", &rope, 64, factors, of_32);
}

static void test_both_kinds_of_gemma_3(void **state)
{
    (void)state;
    static const double global[GOLDENS] = {1.250000000e-01, 1.791265713e-02, 2.566906283e-03,
                                           3.678408970e-04, 5.271206293e-05, 7.553704878e-06,
                                           1.082455404e-06, 1.392467325e-07};
    static const double local[GOLDENS] = {1.000000000e+00, 2.738419634e-01, 7.498942093e-02,
                                          2.053525026e-02, 5.623413252e-03, 1.539926526e-03,
                                          4.216965034e-04, 1.074607828e-04};
    const struct model_rope linear = {.base = 1e6f, .scaling = MODEL_ROPE_LINEAR, .factor = 8};
    const struct model_rope plain = {.base = 1e4f};
    check("Gemma 3, all keys", &linear, 256, NULL, global);
    check("Gemma 3, a window", &plain, 256, NULL, local);
}

static void test_yarn(void **state)
{
    (void)state;
    static const double gpt_oss[GOLDENS] = {1.000000000e+00, 2.254180002e-01, 5.081327482e-02,
                                            3.860359317e-03, 1.293187012e-04, 8.635495875e-06,
                                            1.946596211e-06, 3.023511428e-07};
    static const double rounded[GOLDENS] = {1.000000000e+00, 2.254180002e-01, 5.081327482e-02,
                                            4.069554715e-03, 2.279477958e-04, 8.635495875e-06,
                                            1.946596211e-06, 3.023511428e-07};
    static const double qwen[GOLDENS] = {1.000000000e+00, 1.433012570e-01, 2.053525026e-02,
                                         2.423422380e-03, 1.798411559e-04, 1.510740976e-05,
                                         2.164910808e-06, 3.102344402e-07};
    struct model_rope rope = {.base = 150000,
                              .scaling = MODEL_ROPE_YARN,
                              .factor = 32,
                              .original_context = 4096,
                              .beta_fast = 32,
                              .beta_slow = 1};
    check("GPT-OSS", &rope, 64, NULL, gpt_oss);
    rope.is_rounded = true;
    check("GPT-OSS with a rounded range", &rope, 64, NULL, rounded);
    rope.base = 1e6f;
    rope.factor = 4;
    rope.original_context = 32768;
    check("Qwen2.5, factor 4", &rope, 128, NULL, qwen);
    assert_float_equal(rope_frequencies_yarn_factor(32), 1.3465735902799727, 1e-6);
    assert_true(rope_frequencies_yarn_factor(1) == 1);
}

static void test_long_and_short_factors(void **state)
{
    (void)state;
    static const double far[GOLDENS] = {1.000000000e+00, 7.905694150e-02, 1.100538914e-02,
                                        1.958576991e-03, 4.866371922e-04, 1.016159663e-04,
                                        2.210280397e-05, 4.945010852e-06};
    static const double near[GOLDENS] = {1.000000000e+00, 2.983280811e-01, 7.304461817e-02,
                                         1.795362242e-02, 5.407079913e-03, 1.337052188e-03,
                                         3.315420595e-04, 8.241684753e-05};
    const struct model_rope rope = {.base = 1e4f, .scaling = MODEL_ROPE_LONG};
    float factors[48];
    for (uint32_t i = 0; i < 48; i++)
        factors[i] = 1 + 0.5f * (float)i;
    check("Phi-3, long", &rope, 96, factors, far);
    for (uint32_t i = 0; i < 48; i++)
        factors[i] = 1 + 0.01f * (float)i;
    check("Phi-3, short", &rope, 96, factors, near);
}

/* --- every pair, as transformers computes it --- */

/* What tests/parity/tiny/make.py wrote. */
static struct json_read golden;
static char golden_text[16384];

static void golden_open(const char *path)
{
    static const struct json_read_limits limits = {.depth = 8, .values = 4096};
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t bytes = fread(golden_text, 1, sizeof golden_text, file);
    fclose(file);
    assert_true(bytes < sizeof golden_text);
    assert_int_equal(json_read(&golden, (struct slice){golden_text, bytes}, &limits), STATUS_OK);
}

static uint32_t golden_index(uint32_t object, const char *name)
{
    const struct json_read_value *value = json_read_member(&golden, object, name);
    if (value == NULL)
        fail_msg("there is no %s", name);
    return (uint32_t)(value - golden.values);
}

/* transformers computes in float32, so its own rounding is within the bound. */
static void check_golden(const char *model, const char *layers, const struct model_rope *rope,
                         uint32_t dims, const float *factors, double scaling)
{
    float frequencies[DIMS_MAX / 2];
    const uint32_t of = golden_index(golden_index(0, model), layers);
    const uint32_t list = golden_index(of, "frequencies");
    double want = 0;
    rope_frequencies(rope, dims, factors, frequencies);
    assert_int_equal(golden.values[list].count, dims / 2);
    for (uint32_t pair = 0; pair < dims / 2; pair++) {
        assert_true(json_read_number(&golden.values[list + 1 + pair], &want));
        if (!(fabs((double)frequencies[pair] / want - 1) < 1e-6))
            fail_msg("%s: pair %u is %.9g, not %.9g", model, pair, (double)frequencies[pair], want);
    }
    assert_true(json_read_number(&golden.values[golden_index(of, "scaling")], &want));
    assert_float_equal(scaling, want, 1e-6);
}

static void test_as_transformers(void **state)
{
    (void)state;
    const struct model_rope llama = {.base = 500000};
    const struct model_rope plain = {.base = 1e4f};
    const struct model_rope linear = {.base = 1e6f, .scaling = MODEL_ROPE_LINEAR, .factor = 8};
    const struct model_rope phi = {.base = 1e4f, .scaling = MODEL_ROPE_LONG};
    const struct model_rope yarn = {.base = 150000,
                                    .scaling = MODEL_ROPE_YARN,
                                    .factor = 32,
                                    .original_context = 4096,
                                    .beta_fast = 32,
                                    .beta_slow = 1};
    float factors[DIMS_MAX / 2];
    golden_open("tests/parity/tiny/ropes.json");
    llama3_factors(llama.base, 128, 8, factors);
    check_golden("llama_8", "all", &llama, 128, factors, 1);
    llama3_factors(llama.base, 64, 32, factors);
    check_golden("llama_32", "all", &llama, 64, factors, 1);
    check_golden("gemma3_4b", "sliding_attention", &plain, 256, NULL, 1);
    check_golden("gpt_oss", "all", &yarn, 64, NULL, (double)rope_frequencies_yarn_factor(32));
    for (uint32_t i = 0; i < 48; i++)
        factors[i] = 1 + 0.01f * (float)i;
    check_golden("phi3_long", "all", &phi, 96, factors, 1.1902380714238083);
    json_read_free(&golden);
    golden_open("tests/parity/tiny/gemma3_linear.json");
    check_golden("ropes", "full_attention", &linear, 32, NULL, 1);
    json_read_free(&golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_transformers),        cmocka_unit_test(test_llama_factors),
        cmocka_unit_test(test_both_kinds_of_gemma_3),  cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_long_and_short_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
