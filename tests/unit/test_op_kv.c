#include "kernels/cpu/ops/ops.h"

#include "config/base/limits.h"
#include "kernels/cpu/kv_tile.h"
#include "tests/unit/kernels_kit.h"

static void test_layout(void **state)
{
    (void)state;
    struct kernels *kernels = kit_kernels("ref", 1, 1, 1);
    struct kv_layout layout;
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_F16, 16, 30, 3, 64, &layout), STATUS_OK);
    assert_int_equal(layout.tile_bytes, 16 * 64 * 2);
    assert_int_equal(layout.layer_bytes, 3 * 2 * 16 * 64 * 2);
    assert_int_equal(layout.page_bytes, 30 * 3 * 2 * 16 * 64 * 2);
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_F16, 16, 1, 1, 1, &layout), STATUS_OK);
    assert_int_equal(layout.page_bytes, 64);
    /* A byte an element and a scale for keys and for values of each token and head. */
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_I8, 32, 30, 3, 64, &layout), STATUS_OK);
    assert_int_equal(layout.tile_bytes, 32 * (64 + 4));
    assert_int_equal(layout.page_bytes, 30 * 3 * 2 * 32 * (64 + 4));
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_K4V8, 16, 30, 3, 64, &layout), STATUS_OK);
    assert_int_equal(layout.tile_bytes, 16 * (32 + 16)); /* codes; step and least of a channel */
    assert_int_equal(layout.page_bytes, 30 * 3 * 16 * (32 + 16 + 64 + 4));
    assert_int_equal(layout.open_bytes, 30 * 3 * 16 * 64 * 2);
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_K4V4, 16, 30, 3, 64, &layout), STATUS_OK);
    assert_int_equal(layout.tile_bytes, 16 * (32 + 16)); /* as above */
    /* magnitudes, signs, a step: 0.348 of f16 */
    assert_int_equal(layout.head_bytes, 16 * (32 + 16 + 32 + 8 + 1));
    assert_true(layout.page_bytes * 100 < (size_t)35 * (30 * 3 * 2 * 16 * 64 * 2));
    assert_int_equal(layout.open_bytes, 30 * 3 * 16 * 64 * 2);
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_K4V4, 16, 1, 1, 67, &layout), STATUS_OK);
    assert_int_equal(layout.head_bytes, 68 * 12 + 16 * (3 * 20 + 2));
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_I8, 16, 1, 1, 5, &layout), STATUS_OK);
    assert_int_equal(layout.tile_bytes, 16 * (8 + 4));
    kernels_destroy(kernels);
}

static void test_limits(void **state)
{
    (void)state;
    static const struct {
        uint32_t tokens, layers, kv_heads, head_dim;
        enum status status;
    } cases[] = {
        {16, LIMIT_LAYERS, LIMIT_HEADS, LIMIT_HEAD_DIM, STATUS_OK},
        {LIMIT_PAGE_TOKENS, 1, 1, 1, STATUS_OK},
        {0, 1, 1, 1, STATUS_UNSUPPORTED},
        {15, 1, 1, 1, STATUS_UNSUPPORTED},
        {17, 1, 1, 1, STATUS_UNSUPPORTED},
        {LIMIT_PAGE_TOKENS + 16, 1, 1, 1, STATUS_UNSUPPORTED},
        {16, 0, 1, 1, STATUS_UNSUPPORTED},
        {16, LIMIT_LAYERS + 1, 1, 1, STATUS_UNSUPPORTED},
        {16, 1, 0, 1, STATUS_UNSUPPORTED},
        {16, 1, LIMIT_HEADS + 1, 1, STATUS_UNSUPPORTED},
        {16, 1, 1, 0, STATUS_UNSUPPORTED},
        {16, 1, 1, LIMIT_HEAD_DIM + 1, STATUS_UNSUPPORTED},
    };
    struct kernels *kernels = kit_kernels("ref", 1, 1, 1);
    struct kv_layout layout;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_F16, cases[i].tokens, cases[i].layers,
                                           cases[i].kv_heads, cases[i].head_dim, &layout),
                         cases[i].status);
    kernels_destroy(kernels);
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) { /* float32 pages judge only */
        kernels = kit_kernels(*isa, 1, 1, 1);
        bool is_judge = strcmp(*isa, "ref") == 0;
        assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_F32, 16, 1, 1, 1, &layout),
                         is_judge ? STATUS_OK : STATUS_UNSUPPORTED);
        assert_true(is_judge || strstr(status_note()->message, "f32") != NULL);
        kernels_destroy(kernels);
    }
}

/* The first tokens arrive whole, of the others not one byte. */
static void check_copy(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                       uint32_t head_dim)
{
    struct kit_pages from = kit_pages_make(kernels, type, page_tokens, 2, 3, head_dim, 1, 1);
    struct kit_pages to = kit_pages_make(kernels, type, page_tokens, 2, 3, head_dim, 1, 1);
    const struct kv_layout *layout = &from.layout;
    const size_t element = kv_tile_element_bytes(layout);
    for (uint32_t tokens = 0; tokens <= page_tokens; tokens++) {
        memset(from.pages, 0x11, layout->page_bytes);
        memset(to.pages, 0x77, layout->page_bytes);
        kernels_kv_copy(kernels, layout, to.pages, from.pages, tokens);
        for (uint32_t layer = 0; layer < 2; layer++)
            for (uint32_t h = 0; h < 3; h++)
                for (uint32_t t = 0; t < page_tokens; t++)
                    for (uint32_t d = 0; d < head_dim; d++) {
                        const char *tile = kv_tile_at(layout, to.pages, layer, h);
                        char want = t < tokens ? 0x11 : 0x77;
                        assert_int_equal(tile[kv_tile_k_index(layout, t, d) * element], want);
                        tile += layout->tile_bytes;
                        assert_int_equal(tile[kv_tile_v_index(layout, t, d) * element], want);
                        for (int i = 0; type == KV_TYPE_I8 && i < 4; i++) {
                            size_t scale = kv_tile_scale_offset(layout, t) + (size_t)i;
                            assert_int_equal(tile[scale], want);
                            assert_int_equal(tile[scale - layout->tile_bytes], want);
                        }
                    }
    }
    kit_pages_free(kernels, &from);
    kit_pages_free(kernels, &to);
}

/* Of a type with open groups whole groups are copied. */
static void check_copy_groups(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                              uint32_t head_dim)
{
    struct kit_pages from = kit_pages_make(kernels, type, page_tokens, 2, 3, head_dim, 1, 1);
    struct kit_pages to = kit_pages_make(kernels, type, page_tokens, 2, 3, head_dim, 1, 1);
    const struct kv_layout *layout = &from.layout;
    for (uint32_t tokens = 0; tokens <= page_tokens; tokens += 16) {
        const size_t keys = tokens / 16 * kv_tile_keys_bytes(layout);
        const size_t values = tokens / 16 * kv_tile_group_bytes(layout);
        memset(from.pages, 0x11, layout->page_bytes);
        memset(to.pages, 0x77, layout->page_bytes);
        kernels_kv_copy(kernels, layout, to.pages, from.pages, tokens);
        for (uint32_t tile = 0; tile < 2 * 3; tile++)
            for (size_t i = 0; i < layout->head_bytes; i++) {
                const bool is_copied =
                    i < layout->tile_bytes ? i < keys : i - layout->tile_bytes < values;
                assert_int_equal(((char *)to.pages)[tile * layout->head_bytes + i],
                                 is_copied ? 0x11 : 0x77);
            }
    }
    kit_pages_free(kernels, &from);
    kit_pages_free(kernels, &to);
}

static void test_copy(void **state)
{
    (void)state;
    struct kernels *kernels = kit_kernels("ref", 1, 1, 1);
    check_copy(kernels, KV_TYPE_F16, 16, 8);
    check_copy(kernels, KV_TYPE_F16, 48, 5);
    check_copy(kernels, KV_TYPE_F16Q, 32, 5);
    check_copy(kernels, KV_TYPE_F32, 32, 3);
    check_copy(kernels, KV_TYPE_I8, 16, 64);
    check_copy(kernels, KV_TYPE_I8, 48, 5);
    check_copy_groups(kernels, KV_TYPE_K4V8, 16, 64);
    check_copy_groups(kernels, KV_TYPE_K4V8, 48, 5);
    check_copy_groups(kernels, KV_TYPE_K4V4, 16, 64);
    check_copy_groups(kernels, KV_TYPE_K4V4, 48, 5);
    kernels_destroy(kernels);
}

/* Written through a scrambled page table by any number of threads, each element is in its place. */
static void test_write(void **state)
{
    (void)state;
    enum { TOKENS = 70, HEADS = 3, DIM = 40 };
    struct rng rng = {.seed = 5};
    float *k = kit_floats(&rng, TOKENS * HEADS * DIM, 1);
    float *v = kit_floats(&rng, TOKENS * HEADS * DIM, 1);
    uint32_t sequence[TOKENS];
    uint32_t position[TOKENS];
    uint32_t open_of[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++) {
        sequence[i] = i % 2;
        position[i] = i / 2;
    }
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct kernels *kernels = kit_kernels(*isa, 3, TOKENS, 64);
        struct kit_pages pages =
            kit_pages_make(kernels, KV_TYPE_F16, 16, 2, HEADS, DIM, 2, TOKENS / 2);
        struct kv_write_args args = {
            k, v, TOKENS, 0, 1, kit_rows(&pages, sequence, position, TOKENS, open_of), {NULL}};
        kernels_kv_write(kernels, &args);
        for (uint32_t r = 0; r < TOKENS; r++)
            for (uint32_t h = 0; h < HEADS; h++)
                for (uint32_t d = 0; d < DIM; d++) {
                    void *page = kv_tile_page(&args.kv, r, position[r]);
                    char *tile = kv_tile_at(&pages.layout, page, 1, h);
                    const uint16_t *keys = (const uint16_t *)(void *)tile;
                    const uint16_t *values = keys + pages.layout.tile_bytes / 2;
                    size_t from = (size_t)(r * HEADS + h) * DIM + d;
                    uint32_t token = position[r] % 16;
                    assert_int_equal(keys[kv_tile_k_index(&pages.layout, token, d)],
                                     half_from_float(k[from]));
                    assert_int_equal(values[kv_tile_v_index(&pages.layout, token, d)],
                                     half_from_float(v[from]));
                }
        /* The other layer is untouched. */
        const uint16_t *other =
            (const uint16_t *)(void *)kv_tile_at(&pages.layout, pages.pages, 0, 0);
        for (uint32_t i = 0; i < pages.layout.layer_bytes / 2; i++)
            assert_int_equal(other[i], 0xffff);
        kit_pages_free(kernels, &pages);
        kernels_destroy(kernels);
    }
    free(k);
    free(v);
}

/* Rotated on the way, k and q have the bits of kernels_rope and the pages those of what it made. */
static void check_rope(const char *isa, enum kv_type type, uint32_t threads, uint32_t rows)
{
    enum { HEADS = 6, KV_HEADS = 2, DIM = 24, PAIRS = 10 };
    const size_t q_count = (size_t)rows * HEADS * DIM;
    const size_t k_count = (size_t)rows * KV_HEADS * DIM;
    struct rng rng = {.seed = rows};
    struct kernels *kernels = kit_kernels(isa, threads, rows, 1);
    struct kit_pages pages[2];
    float *table = kit_floats(&rng, (size_t)rows * PAIRS * 2, 1);
    float *v = kit_floats(&rng, k_count, 1);
    float *k[2] = {kit_floats(&rng, k_count, 1), malloc(k_count * sizeof(float))};
    float *q[2] = {kit_floats(&rng, q_count, 1), malloc(q_count * sizeof(float))};
    uint32_t *sequence = calloc(rows, sizeof *sequence);
    uint32_t *position = calloc(rows, sizeof *position);
    uint32_t *open_of = calloc(rows, sizeof *open_of);
    memcpy(k[1], k[0], k_count * sizeof(float));
    memcpy(q[1], q[0], q_count * sizeof(float));
    for (uint32_t r = 0; r < rows; r++)
        position[r] = r;
    for (int fused = 0; fused < 2; fused++) {
        const struct rope_args ropes[] = {
            {.x = k[fused],
             .table = table,
             .rows = rows,
             .heads = KV_HEADS,
             .head_dim = DIM,
             .pairs = PAIRS,
             .pairing = ROPE_HALVES,
             .norm = v,
             .epsilon = 1e-5f},
            {.x = q[fused],
             .table = table,
             .rows = rows,
             .heads = HEADS,
             .head_dim = DIM,
             .pairs = PAIRS,
             .pairing = ROPE_INTERLEAVED},
        };
        struct kit_pages *own = &pages[fused];
        *own = kit_pages_make(kernels, type, 16, 1, KV_HEADS, DIM, 1, rows);
        struct kv_write_args args = {
            k[fused], v, rows, 0, 0, kit_rows(own, sequence, position, rows, open_of), {NULL}};
        for (int i = 0; i < 2; i++)
            if (fused == 1)
                args.rope[i] = &ropes[i];
            else
                kernels_rope(kernels, &ropes[i]);
        kernels_kv_write(kernels, &args);
    }
    kit_assert_same_bits(k[1], k[0], k_count);
    kit_assert_same_bits(q[1], q[0], q_count);
    assert_memory_equal(pages[1].pages, pages[0].pages,
                        pages[0].layout.page_bytes * pages[0].pages_each);
    for (int i = 0; i < 2; i++) {
        kit_pages_free(kernels, &pages[i]);
        free(k[i]);
        free(q[i]);
    }
    free(v);
    free(table);
    free(sequence);
    free(position);
    free(open_of);
    kernels_destroy(kernels);
}

static void test_rope(void **state)
{
    (void)state;
    static const uint32_t row_counts[] = {1, 2, 17, 80};
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (int type = 0; type < KIT_KV_TYPES; type++)
            for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++)
                for (uint32_t threads = 1; threads <= 3; threads++)
                    check_rope(*isa, kit_kv_types[type], threads, row_counts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout), cmocka_unit_test(test_limits), cmocka_unit_test(test_copy),
        cmocka_unit_test(test_write),  cmocka_unit_test(test_rope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
