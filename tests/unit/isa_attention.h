/* isa_attention: equal bits of a table and ref_int8 in attention and in writing pages.
 *
 * Owns:     nothing. A test of one instruction set includes it and calls
 *           isa_attention_check and isa_attention_check_edges with its name.
 * Not here: what a table's own test knows better.
 */
#pragma once

#include "tests/kit/rounds.h"
#include "tests/unit/kernels_kit.h"

struct isa_attention_shape {
    uint32_t heads, kv_heads, head_dim, page_tokens, tokens;
    enum kv_type type;
    uint32_t window;    /* 0: none */
    const float *sinks; /* [heads] or NULL */
    float softcap;      /* 0: none */
};

/* Everything of one sequence written, then `rows` random rows of it asked for at once. */
static void isa_attention_run(struct kernels *kernels, const struct isa_attention_shape *shape,
                              const float *k, const float *v, const float *q,
                              const uint32_t *positions, uint32_t rows, float *out)
{
    struct kit_pages pages = kit_pages_make(kernels, shape->type, shape->page_tokens, 2,
                                            shape->kv_heads, shape->head_dim, 2, shape->tokens);
    uint32_t *all = malloc((shape->tokens + rows) * sizeof *all);
    uint32_t *sequence = malloc((shape->tokens + rows) * sizeof *sequence);
    uint32_t *open_of = malloc((shape->tokens + rows) * sizeof *open_of);
    for (uint32_t i = 0; i < shape->tokens + rows; i++) {
        all[i] = i;
        sequence[i] = 1;
    }
    struct kv_rows kv = kit_rows(&pages, sequence, all, shape->tokens, open_of);
    struct kv_write_args write = {.k = k, .v = v, .rows = shape->tokens, .layer = 1, .kv = kv};
    kernels_kv_write(kernels, &write);
    kv = kit_rows(&pages, sequence, positions, rows, open_of);
    struct attention_args args = {.q = q,
                                  .out = out,
                                  .rows = rows,
                                  .heads = shape->heads,
                                  .layer = 1,
                                  .scale = 0.125f,
                                  .kv = kv,
                                  .window = shape->window,
                                  .sinks = shape->sinks,
                                  .softcap = shape->softcap};
    kernels_attention(kernels, &args);
    kit_pages_free(kernels, &pages);
    free(all);
    free(sequence);
    free(open_of);
}

static void isa_attention_compare(struct kernels *fast, struct kernels *judge, struct rng *rng,
                                  const struct isa_attention_shape *shape)
{
    const size_t kv_size = (size_t)shape->tokens * shape->kv_heads * shape->head_dim;
    uint32_t rows = 1 + (uint32_t)rng_below(rng, shape->tokens < 60 ? shape->tokens : 60);
    const size_t q_size = (size_t)rows * shape->heads * shape->head_dim;
    float *k = kit_floats(rng, kv_size, 4);
    float *v = kit_floats(rng, kv_size, 2);
    float *q = kit_floats(rng, q_size, 3);
    float *a = calloc(q_size, sizeof *a);
    float *b = calloc(q_size, sizeof *b);
    uint32_t *positions = malloc(rows * sizeof *positions);
    uint32_t first = (uint32_t)rng_below(rng, shape->tokens - rows + 1);
    bool is_run = rng_below(rng, 4) > 0;
    for (uint32_t r = 0; r < rows; r++)
        positions[r] = is_run ? first + r : (uint32_t)rng_below(rng, shape->tokens);
    isa_attention_run(fast, shape, k, v, q, positions, rows, a);
    isa_attention_run(judge, shape, k, v, q, positions, rows, b);
    kit_assert_same_bits(a, b, q_size);
    free(k);
    free(v);
    free(q);
    free(a);
    free(b);
    free(positions);
}

/* The last `rows` rows of last + 1 keys; what follows in their page is NaN. */
static void isa_attention_edge(struct kernels *fast, struct kernels *judge, struct rng *rng,
                               const struct isa_attention_shape *shape, uint32_t rows,
                               uint32_t last)
{
    struct isa_attention_shape seen = *shape;
    seen.tokens = last + 1;
    const size_t kv_size = (size_t)seen.tokens * shape->kv_heads * shape->head_dim;
    const size_t q_size = (size_t)rows * shape->heads * shape->head_dim;
    float *k = kit_floats(rng, kv_size, 4);
    float *v = kit_floats(rng, kv_size, 2);
    float *q = kit_floats(rng, q_size, 3);
    float *a = calloc(q_size, sizeof *a);
    float *b = calloc(q_size, sizeof *b);
    uint32_t positions[16];
    assert_true(rows <= 16 && rows <= seen.tokens);
    for (uint32_t r = 0; r < rows; r++)
        positions[r] = last + 1 - rows + r;
    isa_attention_run(fast, &seen, k, v, q, positions, rows, a);
    isa_attention_run(judge, &seen, k, v, q, positions, rows, b);
    kit_assert_same_bits(a, b, q_size);
    free(k);
    free(v);
    free(q);
    free(a);
    free(b);
}

/* Few queries of a KV head and many, each rest of a register block, and last keys all over a block
 * and its groups. A usual run takes every third number of queries, from another first one for the
 * next shape and type, so that all numbers come. */
static void isa_attention_check_edges(const char *isa)
{
    static const struct isa_attention_shape shapes[] = {{1, 1, 24, 16, 0, 0, 0, NULL, 0},
                                                        {2, 1, 40, 16, 0, 0, 0, NULL, 0},
                                                        {3, 1, 64, 16, 0, 0, 0, NULL, 0},
                                                        {10, 2, 17, 32, 0, 0, 0, NULL, 0}};
    struct rng rng = {.seed = 13};
    struct kernels *fast = kit_fast(isa, 1, 192, 64);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, 192, 64);
    for (size_t i = 0; i < KIT_KV_TYPES * (sizeof shapes / sizeof *shapes); i++) {
        struct isa_attention_shape shape = shapes[i / KIT_KV_TYPES];
        shape.type = kit_kv_types[i % KIT_KV_TYPES];
        const uint32_t turn = (uint32_t)(i / KIT_KV_TYPES + i % KIT_KV_TYPES);
        for (uint32_t rows = 1 + turn % rounds(3, 1); rows <= 16; rows += rounds(3, 1)) {
            shape.softcap = rows % 4 == 1 ? 2 : 0;
            for (uint32_t last = rows - 1 + rows % 5; last < 160; last += 23)
                isa_attention_edge(fast, judge, &rng, &shape, rows, last);
        }
    }
    kernels_destroy(fast);
    kernels_destroy(judge);
}

/* With a window and without, with sinks and without. In a usual run one shape and type has both and
 * neither, the next has one of them. */
static void isa_attention_check(const char *isa)
{
    static const struct isa_attention_shape shapes[] = {
        {9, 3, 64, 16, 1, 0, 0, NULL, 0},    {9, 3, 64, 16, 16, 0, 0, NULL, 0},
        {9, 3, 64, 16, 17, 0, 0, NULL, 0},   {9, 3, 64, 16, 63, 0, 0, NULL, 0},
        {9, 3, 64, 16, 64, 0, 0, NULL, 0},   {9, 3, 64, 16, 65, 0, 0, NULL, 0},
        {9, 3, 64, 16, 255, 0, 0, NULL, 0},  {9, 3, 64, 16, 256, 0, 0, NULL, 0},
        {9, 3, 64, 16, 257, 0, 0, NULL, 0},  {9, 3, 64, 32, 600, 0, 0, NULL, 0},
        {4, 4, 128, 64, 300, 0, 0, NULL, 0}, {4, 1, 80, 16, 130, 0, 0, NULL, 0},
        {2, 1, 8, 16, 70, 0, 0, NULL, 0},    {8, 2, 24, 16, 270, 0, 0, NULL, 0},
        {52, 1, 16, 16, 70, 0, 0, NULL, 0},  {3, 3, 1, 16, 70, 0, 0, NULL, 0},
        {4, 2, 37, 16, 150, 0, 0, NULL, 0},  {10, 2, 44, 32, 290, 0, 0, NULL, 0},
        {6, 2, 512, 16, 40, 0, 0, NULL, 0},  {4, 2, 24, 48, 330, 0, 0, NULL, 0},
        {3, 1, 40, 80, 300, 0, 0, NULL, 0},
    };
    struct rng rng = {.seed = 11};
    struct kernels *fast = kit_fast(isa, 2, 600, 64);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 2, 600, 64);
    for (size_t i = 0; i < KIT_KV_TYPES * (sizeof shapes / sizeof *shapes); i++) {
        struct isa_attention_shape shape = shapes[i / KIT_KV_TYPES];
        shape.type = kit_kv_types[i % KIT_KV_TYPES];
        for (uint32_t repeat = 0; repeat < 4; repeat++) {
            const bool has_one = repeat == 1 || repeat == 2;
            if (rounds(1, 0) > 0 && has_one != ((i / KIT_KV_TYPES + i % KIT_KV_TYPES) % 2 == 1))
                continue;
            float *sinks = kit_floats(&rng, shape.heads, 5);
            shape.window =
                repeat > 1 ? 1 + (uint32_t)rng_below(&rng, (uint64_t)shape.tokens + 1) : 0;
            shape.sinks = repeat % 2 == 1 ? sinks : NULL;
            shape.softcap = rng_below(&rng, 2) == 1 ? 2.5f : 0;
            isa_attention_compare(fast, judge, &rng, &shape);
            free(sinks);
        }
    }
    kernels_destroy(fast);
    kernels_destroy(judge);
}
