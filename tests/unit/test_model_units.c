/* model_units: places of layers by hand and for random kinds: each place once, in units that are
 * full but for the last; layouts, and what is no layout of a model. */
#include "engine/models/model_units.h"

#include "tests/unit/kernels_kit.h"

static struct kernels *kernels;

static int setup(void **state)
{
    (void)state;
    kernels = kit_kernels("ref", 1, 16, 64);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kernels_destroy(kernels);
    return 0;
}

/* Layers written as 'a' read all keys, others have a window of 100. */
static struct model_config config_of(const char *layers)
{
    struct model_config config = {.layers = (uint32_t)strlen(layers),
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .kind_count = 2,
                                  .kinds = {{.window = 0}, {.window = 100}}};
    for (uint32_t i = 0; i < config.layers; i++)
        config.kind_of[i] = layers[i] != 'a';
    return config;
}

static void test_places(void **state)
{
    (void)state;
    static const uint32_t groups[] = {1, 1, 0, 2, 2, 3, 3, 0, 4};
    static const uint32_t layers[] = {0, 1, 0, 0, 1, 0, 1, 1, 0};
    const struct model_config config = config_of("wwawwwwaw");
    struct kv_layout layout;
    struct model_place places[9];
    assert_int_equal(model_units_layout(kernels, &config, 2, KV_TYPE_F16, 16, &layout), STATUS_OK);
    assert_int_equal(layout.layers, 2);
    assert_int_equal(layout.window_units, 4);
    assert_int_equal(layout.window, 100);
    assert_int_equal(model_units_windows(&config), 4);
    assert_int_equal(layout.page_bytes, 2 * 2 * 16 * 16 * 2 * 2);
    assert_true(model_units_places(&config, &layout, places));
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(places[i].group, groups[i]);
        assert_int_equal(places[i].layer, layers[i]);
    }
    assert_int_equal(model_units_layout_whole(kernels, &config, 2, KV_TYPE_F16, 16, &layout),
                     STATUS_OK);
    assert_true(model_units_places(&config, &layout, places));
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(places[i].group, 0);
        assert_int_equal(places[i].layer, i);
    }
}

static void test_one_kind_has_one_unit(void **state)
{
    (void)state;
    const struct model_config all = config_of("aaaa");
    const struct model_config windows = config_of("wwww");
    const struct model_config *const configs[] = {&all, &windows};
    struct kv_layout layout;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(model_units_layout(kernels, configs[i], 1, KV_TYPE_I8, 16, &layout),
                         STATUS_OK);
        assert_int_equal(layout.window_units, 0);
        assert_int_equal(layout.layers, 4);
        assert_int_equal(model_units_windows(configs[i]), 0);
    }
}

static void test_random_kinds(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    for (int round = 0; round < 300; round++) {
        char text[LIMIT_LAYERS + 1] = {0};
        const uint32_t count = 2 + (uint32_t)rng_below(&rng, 60);
        for (uint32_t i = 0; i < count; i++)
            text[i] = "aww"[rng_below(&rng, 3)];
        text[0] = 'a';
        text[1] = 'w';
        const struct model_config config = config_of(text);
        struct kv_layout layout;
        struct model_place places[LIMIT_LAYERS];
        static bool is_used[LIMIT_LAYERS + 1][LIMIT_LAYERS];
        memset(is_used, 0, sizeof is_used);
        assert_int_equal(model_units_layout(kernels, &config, 1, KV_TYPE_F16, 16, &layout),
                         STATUS_OK);
        assert_true(model_units_places(&config, &layout, places));
        for (uint32_t i = 0; i < count; i++) {
            assert_true(places[i].group <= layout.window_units);
            assert_true(places[i].layer < layout.layers);
            assert_int_equal(places[i].group == 0, text[i] == 'a');
            assert_false(is_used[places[i].group][places[i].layer]);
            is_used[places[i].group][places[i].layer] = true;
        }
        for (uint32_t group = 0; group < layout.window_units; group++) /* all but the last */
            for (uint32_t layer = 0; layer < layout.layers; layer++)
                assert_true(is_used[group][layer]);
        assert_true(is_used[layout.window_units][0]);
    }
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    const struct model_config config = config_of("awwaww");
    const struct model_config other = config_of("awwwww");
    struct kv_layout layout;
    struct model_place places[6];
    assert_int_equal(model_units_layout(kernels, &config, 2, KV_TYPE_K4V8, 16, &layout),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "k4v8"));
    assert_int_equal(model_units_layout(kernels, &config, 2, KV_TYPE_K4V4, 16, &layout),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "k4v4"));
    assert_int_equal(model_units_layout(kernels, &config, 2, KV_TYPE_I8, 16, &layout), STATUS_OK);
    assert_false(model_units_places(&other, &layout, places));
    layout.window++;
    assert_false(model_units_places(&config, &layout, places));
    layout.window--;
    layout.window_units--;
    assert_false(model_units_places(&config, &layout, places));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_one_kind_has_one_unit),
        cmocka_unit_test(test_random_kinds),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
