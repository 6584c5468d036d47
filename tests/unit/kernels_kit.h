/* kernels_kit: random tensors, vectors and pages for the tests of the kernels.
 *
 * Owns:     nothing but what its caller frees with free().
 * Not here: assertions about results.
 */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "kernels/kernels.h"
#include "kernels/types/half.h"

static inline float kit_float(struct rng *rng)
{
    return (float)(rng_unit(rng_next(rng)) * 2 - 1);
}

static inline float *kit_floats(struct rng *rng, size_t n, float scale)
{
    float *out = malloc((n + 1) * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        out[i] = kit_float(rng) * scale;
    return out;
}

static inline void kit_half(unsigned char *at, float value)
{
    uint16_t half = half_from_float(value);
    memcpy(at, &half, sizeof half);
}

/* Factors of a block of random bytes that give weights of about ±0.3. */
static inline void kit_factors(struct rng *rng, uint32_t id, unsigned char *block)
{
    float value = kit_float(rng) * 0.3f;
    float m = kit_float(rng) * 0.2f;
    switch (id) {
    case TENSOR_TYPE_f32:
        memcpy(block, &value, sizeof value);
        return;
    case TENSOR_TYPE_bf16: /* the high half of a float32 */
        memcpy(block, (const char *)&value + 2, 2);
        return;
    case TENSOR_TYPE_f16:
        kit_half(block, value);
        return;
    case TENSOR_TYPE_mxfp4: /* 2^-12 to 2^-5, codes of up to 12 */
        block[0] = (unsigned char)(116 + rng_below(rng, 8));
        return;
    case TENSOR_TYPE_q6_k: /* scales of up to 128 × codes of up to 32 */
        kit_half(block + 208, value / 4096);
        return;
    case TENSOR_TYPE_q4_k: /* scales of up to 63 × codes of up to 15, mins of up to 63 */
    case TENSOR_TYPE_q5_k:
        kit_half(block, value / 63 / (id == TENSOR_TYPE_q4_k ? 15 : 31));
        kit_half(block + 2, m / 63);
        return;
    case TENSOR_TYPE_q4_1:
    case TENSOR_TYPE_q5_1:
        kit_half(block + 2, m);
        break;
    default:
        break;
    }
    bool is_fifth = id == TENSOR_TYPE_q5_0 || id == TENSOR_TYPE_q5_1;
    kit_half(block, value / (id == TENSOR_TYPE_q8_0 ? 127 : is_fifth ? 16 : 8));
}

/* A matrix as in a file: random codes, scales that give weights of about ±0.3. */
static inline struct tensor kit_tensor(struct rng *rng, uint32_t id, uint32_t rows, uint32_t cols)
{
    const struct tensor_type_info *type = tensor_type_info(id);
    assert_non_null(type);
    size_t blocks = (size_t)rows * (cols / type->block_elements);
    size_t bytes = blocks * type->block_bytes;
    unsigned char *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)rng_next(rng);
    for (size_t b = 0; b < blocks; b++)
        kit_factors(rng, id, data + b * type->block_bytes);
    return (struct tensor){
        .type = type, .dim_count = 2, .dims = {cols, rows, 1, 1}, .data = data, .bytes = bytes};
}

static inline struct kernels *kit_kernels(const char *isa, uint32_t threads, uint32_t rows_max,
                                          uint32_t cols_max)
{
    struct kernels *kernels;
    struct kernels_options options = {
        .isa = isa, .threads = threads, .rows_max = rows_max, .cols_max = cols_max};
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OK);
    return kernels;
}

static inline void kit_assert_close(const float *a, const float *b, size_t n, float tolerance)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= tolerance))
            fail_msg("element %zu of %zu: %.9g and %.9g differ by more than %g", i, n, (double)a[i],
                     (double)b[i], (double)tolerance);
}

/* Says where the first difference is, which assert_memory_equal does not. */
static inline void kit_assert_same_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (half_float_bits(a[i]) != half_float_bits(b[i]))
            fail_msg("element %zu of %zu: %a and %a", i, n, (double)a[i], (double)b[i]);
}

/* A fast table, or NULL on a machine that cannot run it (then it must refuse by name). */
static inline struct kernels *kit_fast(const char *isa, uint32_t threads, uint32_t rows_max,
                                       uint32_t cols_max)
{
    if (kernels_can_run(isa))
        return kit_kernels(isa, threads, rows_max, cols_max);
    struct kernels *kernels;
    struct kernels_options options = {
        .isa = isa, .threads = threads, .rows_max = rows_max, .cols_max = cols_max};
    assert_int_equal(kernels_create(&kernels, &options), STATUS_UNSUPPORTED);
    return NULL;
}

/* Types of KV that every table keeps. */
static const enum kv_type kit_kv_types[] = {KV_TYPE_F16, KV_TYPE_F16Q, KV_TYPE_I8, KV_TYPE_K4V8,
                                            KV_TYPE_K4V4};
enum { KIT_KV_TYPES = sizeof kit_kv_types / sizeof *kit_kv_types };

/* Each group of 16 tokens of each page has an open group of its own. */
static inline void kit_open_of(const struct kv_rows *kv, uint32_t rows, uint32_t *open_of)
{
    const uint32_t page_tokens = kv->layout->page_tokens;
    for (uint32_t r = 0; r < rows; r++)
        open_of[r] =
            (kv->page_tables[kv->sequence[r]][kv->position[r] / page_tokens] * page_tokens +
             kv->position[r] % page_tokens) /
            16;
}

/* Pages of one layer or more with random tables: sequence i owns pages i, i + n, i + 2n, … */
struct kit_pages {
    struct kv_layout layout;
    void *pages;
    void *open; /* a group for each of the pages' groups; NULL when the type has none */
    uint32_t sequences;
    uint32_t pages_each;
    uint32_t *table;
    const uint32_t **tables;
};

static inline struct kit_pages kit_pages_make(struct kernels *kernels, enum kv_type type,
                                              uint32_t page_tokens, uint32_t layers,
                                              uint32_t kv_heads, uint32_t head_dim,
                                              uint32_t sequences, uint32_t tokens)
{
    struct kit_pages out = {.sequences = sequences};
    assert_int_equal(
        kernels_kv_layout(kernels, type, page_tokens, layers, kv_heads, head_dim, &out.layout),
        STATUS_OK);
    out.pages_each = (tokens + page_tokens - 1) / page_tokens;
    size_t bytes = out.layout.page_bytes * out.pages_each * sequences;
    out.pages = kernels_buffer_create(kernels, bytes);
    assert_non_null(out.pages);
    memset(out.pages, 0xff, bytes); /* NaN: a key that was not written must not be used */
    bytes = out.layout.open_bytes * out.pages_each * sequences * (page_tokens / 16);
    if (bytes > 0) {
        out.open = kernels_buffer_create(kernels, bytes);
        assert_non_null(out.open);
        memset(out.open, 0xff, bytes);
    }
    out.table = malloc((size_t)sequences * out.pages_each * sizeof *out.table);
    out.tables = malloc(sequences * sizeof *out.tables);
    for (uint32_t s = 0; s < sequences; s++) {
        out.tables[s] = out.table + (size_t)s * out.pages_each;
        for (uint32_t p = 0; p < out.pages_each; p++)
            out.table[s * out.pages_each + p] = p * sequences + s;
    }
    return out;
}

/* Where rows live; `open_of` [rows] is filled. */
static inline struct kv_rows kit_rows(const struct kit_pages *pages, const uint32_t *sequence,
                                      const uint32_t *position, uint32_t rows, uint32_t *open_of)
{
    struct kv_rows kv = {.layout = &pages->layout,
                         .pages = pages->pages,
                         .sequence = sequence,
                         .position = position,
                         .page_tables = pages->tables,
                         .open = pages->open,
                         .open_of = open_of};
    kit_open_of(&kv, rows, open_of);
    return kv;
}

static inline void kit_pages_free(struct kernels *kernels, struct kit_pages *pages)
{
    kernels_buffer_destroy(kernels, pages->pages);
    kernels_buffer_destroy(kernels, pages->open);
    free(pages->table);
    free(pages->tables);
}

/* One matrix, y = x · Wᵀ + bias (or +=), the weight packed and given back. `bias` NULL: none. */
static inline void kit_linear_bias(struct kernels *kernels, const struct tensor *tensor,
                                   const float *x, uint32_t rows, const float *bias, float *y,
                                   bool accumulate)
{
    struct weight weight;
    assert_int_equal(kernels_weight_create(kernels, &weight, tensor), STATUS_OK);
    struct linear_args args = {.x = x,
                               .rows = rows,
                               .count = 1,
                               .weights = {&weight},
                               .bias = {bias},
                               .y = {y},
                               .accumulate = accumulate};
    kernels_linear(kernels, &args);
    kernels_weight_destroy(kernels, &weight);
}

static inline void kit_linear(struct kernels *kernels, const struct tensor *tensor, const float *x,
                              uint32_t rows, float *y, bool accumulate)
{
    kit_linear_bias(kernels, tensor, x, rows, NULL, y, accumulate);
}

static inline void kit_tensor_free(struct tensor *tensor)
{
    free((void *)(uintptr_t)tensor->data);
}

/* The processor's tables that can run here, NULL-terminated; "ref" alone does not round inputs. */
static inline const char *const *kit_isas(void)
{
    static const char *names[8];
    size_t count = 0;
    for (const char *const *name = kernels_built(); *name != NULL && count < 7; name++)
        if (kernels_can_run(*name) && strcmp(*name, "cuda") != 0)
            names[count++] = *name;
    names[count] = NULL;
    return names;
}

static const uint32_t kit_types[] = {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m) TENSOR_TYPE_##name,
#include "kernels/types/tensor_types.def"
};
enum { KIT_TYPES = sizeof kit_types / sizeof *kit_types };
