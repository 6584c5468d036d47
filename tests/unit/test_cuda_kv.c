#include "kernels/cuda/cuda_kv.h"

#include "kernels/cuda/cuda_ops.h"
#include "tests/unit/kernels_kit.h"

static const enum kv_type TYPES[] = {KV_TYPE_F16, KV_TYPE_F16Q, KV_TYPE_BF16, KV_TYPE_I8,
                                     KV_TYPE_FP8};
enum { TYPE_COUNT = sizeof TYPES / sizeof *TYPES };

static void take(unsigned char *taken, const struct kv_layout *layout, size_t at, size_t bytes)
{
    assert_true(at + bytes <= layout->page_bytes);
    for (size_t byte = 0; byte < bytes; byte++)
        assert_int_equal(taken[at + byte]++, 0);
}

/* Every element of a page, and every scale, has a place of its own, inside it, and all places are
 * taken. */
static void check_filled(enum kv_type type)
{
    enum { TOKENS = 48, LAYERS = 2, HEADS = 3, DIM = 32 };
    struct kv_layout layout;
    assert_int_equal(cuda_kv_layout(type, TOKENS, LAYERS, HEADS, DIM, &layout), STATUS_OK);
    const size_t bytes = cuda_kv_element_bytes(&layout);
    unsigned char *taken = calloc(1, layout.page_bytes);
    assert_non_null(taken);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t head = 0; head < HEADS; head++)
            for (uint32_t token = 0; token < TOKENS; token++) {
                const size_t k = cuda_kv_tile(&layout, layer, head);
                const size_t v = k + layout.tile_bytes;
                for (uint32_t dim = 0; dim < DIM; dim++) {
                    take(taken, &layout, k + bytes * cuda_kv_k_index(DIM, token, dim), bytes);
                    take(taken, &layout, v + bytes * cuda_kv_v_index(TOKENS, token, dim), bytes);
                }
                const size_t scale = cuda_kv_scales(&layout) + token * sizeof(float);
                if (cuda_kv_has_codes(&layout)) {
                    take(taken, &layout, k + scale, sizeof(float));
                    take(taken, &layout, v + scale, sizeof(float));
                }
            }
    for (size_t i = 0; i < layout.page_bytes; i++)
        assert_int_equal(taken[i], 1);
    free(taken);
}

static void test_elements_fill_the_page(void **state)
{
    (void)state;
    for (int i = 0; i < TYPE_COUNT; i++)
        check_filled(TYPES[i]);
}

/* Neighbours are loads of 16 bytes, on both sides. */
static void check_aligned(enum kv_type type, uint32_t tokens, uint32_t dims)
{
    struct kv_layout layout;
    assert_int_equal(cuda_kv_layout(type, tokens, 1, 3, dims, &layout), STATUS_OK);
    const uint32_t bytes = cuda_kv_element_bytes(&layout);
    assert_int_equal(layout.page_bytes % 64, 0);
    assert_int_equal(layout.tile_bytes % 16, 0);
    assert_int_equal(cuda_kv_scales(&layout) % 16, 0);
    for (uint32_t token = 0; token < tokens; token += 16 / bytes) {
        assert_int_equal(bytes * cuda_kv_k_index(dims, token, 16 / bytes) % 16, 0);
        assert_int_equal(bytes * cuda_kv_v_index(tokens, token, 3) % 16, 0);
    }
}

static void test_loads_are_aligned(void **state)
{
    (void)state;
    for (int i = 0; i < TYPE_COUNT; i++)
        for (uint32_t tokens = CUDA_KV_TOKENS; tokens <= 80; tokens += CUDA_KV_TOKENS)
            for (uint32_t dims = CUDA_KV_DIMS; dims <= CUDA_KV_DIM_MAX; dims += CUDA_KV_DIMS)
                check_aligned(TYPES[i], tokens, dims);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const struct {
        enum kv_type type;
        uint32_t tokens, layers, heads, dims;
    } wrong[] = {
        {KV_TYPE_F32, 64, 1, 1, 64},  {KV_TYPE_K4V8, 64, 1, 1, 64},  {KV_TYPE_F16, 8, 1, 1, 64},
        {KV_TYPE_F16, 72, 1, 1, 64},  {KV_TYPE_F16, 2048, 1, 1, 64}, {KV_TYPE_F16, 64, 0, 1, 64},
        {KV_TYPE_F16, 64, 1, 0, 64},  {KV_TYPE_F16, 64, 1, 1, 0},    {KV_TYPE_F16, 64, 1, 1, 40},
        {KV_TYPE_F16, 64, 1, 1, 272}, {KV_TYPE_K4V4, 64, 1, 1, 64},
    };
    struct kv_layout layout;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(cuda_kv_layout(wrong[i].type, wrong[i].tokens, wrong[i].layers,
                                        wrong[i].heads, wrong[i].dims, &layout),
                         STATUS_UNSUPPORTED);
    assert_int_equal(cuda_kv_layout(KV_TYPE_F16Q, 64, 1, 1, 64, &layout), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements_fill_the_page),
        cmocka_unit_test(test_loads_are_aligned),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
