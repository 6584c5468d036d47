#include "engine/models/hf_rope.h"

#include "tests/unit/hf_kit.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
#define LLAMA3      "\"rope_scaling\":{\"rope_type\":\"llama3\""
#define YARN        "\"rope_scaling\":{\"rope_type\":\"yarn\""

static void test_bad_scalings(void **state)
{
    static const struct hf_kit_case cases[] = {
        {"mistral", "\"rope_theta\":10000,", "", STATUS_CORRUPT, "rope_theta' is missing"},
        {"mistral", "\"rope_theta\":10000", "\"rope_theta\":\"x\"", STATUS_CORRUPT, "no number"},
        {"llama", LLAMA3, "\"rope_scaling\":{\"rope_type\":\"dynamic\"", STATUS_UNSUPPORTED,
         "rope_type 'dynamic'"},
        {"llama", LLAMA3, "\"rope_scaling\":{\"truncate\":false", STATUS_UNSUPPORTED,
         "rope_type ''"},
        {"llama", LLAMA3, "\"rope_scaling\":{\"rope_type\":\"linear\"", STATUS_UNSUPPORTED,
         "'low_freq_factor'"},
        {"llama", LLAMA3, LLAMA3 ",\"mscale\":1", STATUS_UNSUPPORTED, "'mscale'"},
        {"llama", LLAMA3, LLAMA3 ",\"other\":{}", STATUS_UNSUPPORTED, "'other'"},
        {"llama", LLAMA3, LLAMA3 ",\"rope_theta\":1", STATUS_CORRUPT, "two different values"},
        {"llama", "\"factor\":32,", "", STATUS_CORRUPT, "factor' is missing"},
        {"llama", "\"low_freq_factor\":1.0", "\"low_freq_factor\":4.0", STATUS_CORRUPT,
         "out of range"},
        {"llama", ",\"original_max_position_embeddings\":64", "", STATUS_CORRUPT,
         "original_max_position_embeddings' is missing"},
        {"qwen2", "\"rope_scaling\":null",
         LLAMA3 ",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
                "\"original_max_position_embeddings\":64}",
         STATUS_UNSUPPORTED, "llama3 is not supported"},
        {"qwen2", "\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"mrope\"}",
         STATUS_UNSUPPORTED, "rope_type 'mrope'"},
        {"gpt_oss", "\"truncate\":false", "\"truncate\":true", STATUS_UNSUPPORTED, "truncate"},
        {"phi3_long", "\"short_factor\":[1,", "\"short_factor\":[", STATUS_CORRUPT, "short_factor"},
        {"phi3_long", "\"short_factor\":[1,", "\"short_factor\":[\"1\",", STATUS_CORRUPT,
         "no number"},
        {"phi3_long", "\"partial_rotary_factor\":0.75", "\"partial_rotary_factor\":1.5",
         STATUS_CORRUPT, "partial_rotary_factor"},
        {"qwen2", "\"rope_scaling\":null", "\"rope_scaling\":[8]", STATUS_CORRUPT,
         "rope_scaling' is no object"},
        {"qwen2", "\"rope_scaling\":null", "\"rope_scaling\":{\"full_attention\":2}",
         STATUS_CORRUPT, "full_attention' is no object"},
        {"llama", LLAMA3, "\"rope_parameters\":{\"rope_type\":\"default\"}," LLAMA3,
         STATUS_UNSUPPORTED, "rope_scaling' is there beside rope_parameters"},
        {"phi3_long", "\"short_factor\"", "\"factor\":3,\"short_factor\"", STATUS_UNSUPPORTED,
         "factor' is not max_position_embeddings divided"},
        {"phi3_long", "\"short_factor\"", "\"factor\":8,\"short_factor\"", STATUS_OK, NULL},
        {"qwen2", "\"rope_scaling\":null",
         "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,"
         "\"original_max_position_embeddings\":64}",
         STATUS_OK, NULL},
    };
    (void)state;
    hf_kit_check(cases, COUNT(cases), TINY_SPELLING_OLD);
}

static void test_bad_parameters_of_kinds(void **state)
{
    static const struct hf_kit_case cases[] = {
        {"gemma3", "\"sliding_attention\":{\"rope_type\":\"default\"",
         "\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":2", STATUS_UNSUPPORTED,
         "layers with a window"},
        {"mistral", "\"rope_parameters\":{",
         "\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":5},",
         STATUS_UNSUPPORTED, "two bases"},
        {"mistral", "\"rope_parameters\":{",
         "\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"default\","
         "\"rope_theta\":10000},",
         STATUS_OK, NULL},
        {"mistral", ",\"rope_theta\":10000", "", STATUS_CORRUPT, "rope_theta' is missing"},
    };
    (void)state;
    hf_kit_check(cases, COUNT(cases), TINY_SPELLING_NEW);
}

/* A frequency that turns more than high_freq_factor times in the original context stays, one that
 * turns less than low_freq_factor times is divided by the factor. */
static void test_factors_of_llama3(void **state)
{
    const struct hf_kit_case same = {"llama", "{", "{", STATUS_OK, NULL};
    struct hf_config config;
    (void)state;
    for (enum tiny_spelling s = TINY_SPELLING_OLD; s <= TINY_SPELLING_NEW; s++) {
        assert_int_equal(hf_kit_read(&same, s, &config), STATUS_OK);
        assert_true(config.rope.factors[0] == 1.0f);
        assert_true(config.rope.factors[15] == 32.0f);
        bool has_between = false;
        for (uint32_t i = 1; i < config.rope.pairs; i++) {
            assert_true(config.rope.factors[i] >= config.rope.factors[i - 1]);
            has_between |= config.rope.factors[i] > 1 && config.rope.factors[i] < 32;
        }
        assert_true(has_between);
        assert_false(config.rope.has_long);
    }
}

static void test_factors_for_long_contexts(void **state)
{
    const struct hf_kit_case same = {"phi3_long", "{", "{", STATUS_OK, NULL};
    struct hf_config config;
    (void)state;
    assert_int_equal(hf_kit_read(&same, TINY_SPELLING_NEW, &config), STATUS_OK);
    assert_int_equal(config.rope.pairs, 12);
    assert_true(config.rope.has_long);
    assert_true(config.rope.factors[2] == 1.02f);
    assert_true(config.rope.long_factors[2] == 2.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_scalings),
        cmocka_unit_test(test_bad_parameters_of_kinds),
        cmocka_unit_test(test_factors_of_llama3),
        cmocka_unit_test(test_factors_for_long_contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
