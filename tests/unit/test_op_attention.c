/* Batch invariance of attention: the same query alone and in any company, same bits. */
#include "kernels/kernels.h"

#include "tests/unit/kernels_kit.h"

enum { SEQUENCES = 3, TOKENS = 300, HEADS = 6, KV_HEADS = 2, DIM = 64 };

struct scene {
    struct kit_pages pages;
    float *q; /* [SEQUENCES][TOKENS][HEADS][DIM] */
    float *want;
};

static void scene_fill(struct kernels *kernels, struct scene *scene, struct rng *rng)
{
    const size_t size = (size_t)SEQUENCES * TOKENS * KV_HEADS * DIM;
    float *k = kit_floats(rng, size, 3);
    float *v = kit_floats(rng, size, 1);
    uint32_t *sequence = malloc(SEQUENCES * TOKENS * sizeof *sequence);
    uint32_t *position = malloc(SEQUENCES * TOKENS * sizeof *position);
    for (uint32_t i = 0; i < SEQUENCES * TOKENS; i++) {
        sequence[i] = i / TOKENS;
        position[i] = i % TOKENS;
    }
    scene->pages = kit_pages_make(kernels, KV_TYPE_F16, 16, 1, KV_HEADS, DIM, SEQUENCES, TOKENS);
    struct kv_rows kv = {&scene->pages.layout, scene->pages.pages, sequence, position,
                         scene->pages.tables};
    struct kv_write_args write = {k, v, SEQUENCES * TOKENS, 0, kv};
    kernels_kv_write(kernels, &write);
    scene->q = kit_floats(rng, (size_t)SEQUENCES * TOKENS * HEADS * DIM, 2);
    scene->want = malloc((size_t)SEQUENCES * TOKENS * HEADS * DIM * sizeof(float));
    for (uint32_t i = 0; i < SEQUENCES * TOKENS; i++) { /* each query alone */
        size_t at = (size_t)i * HEADS * DIM;
        kv.sequence = &sequence[i];
        kv.position = &position[i];
        struct attention_args args = {scene->q + at, scene->want + at, 1, HEADS, 0, 0.125f, kv, NULL};
        kernels_attention(kernels, &args);
    }
    free(k);
    free(v);
    free(sequence);
    free(position);
}

/* Random runs of random sequences in one call, as a step with chunks and decodes has them. */
static void check_batch(struct kernels *kernels, const struct scene *scene, struct rng *rng)
{
    uint32_t sequence[128];
    uint32_t position[128];
    uint32_t rows = 0;
    while (rows < 100) {
        uint32_t s = (uint32_t)rng_below(rng, SEQUENCES);
        uint32_t first = (uint32_t)rng_below(rng, TOKENS);
        uint32_t count = 1 + (uint32_t)rng_below(rng, 28);
        for (uint32_t i = 0; i < count && first + i < TOKENS; i++) {
            sequence[rows] = s;
            position[rows++] = first + i;
        }
    }
    const size_t size = (size_t)HEADS * DIM;
    float *q = malloc(rows * size * sizeof *q);
    float *out = malloc(rows * size * sizeof *out);
    for (uint32_t r = 0; r < rows; r++)
        memcpy(q + r * size, scene->q + (sequence[r] * TOKENS + position[r]) * size,
               size * sizeof *q);
    struct attention_args args = {
        q,
        out,
        rows,
        HEADS,
        0,
        0.125f,
        {&scene->pages.layout, scene->pages.pages, sequence, position, scene->pages.tables},
        NULL};
    kernels_attention(kernels, &args);
    for (uint32_t r = 0; r < rows; r++)
        kit_assert_same_bits(out + r * size,
                             scene->want + (sequence[r] * TOKENS + position[r]) * size, size);
    free(q);
    free(out);
}

static void test_batch_invariance(void **state)
{
    (void)state;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct rng rng = {.seed = 8};
        struct scene scene;
        struct kernels *one = kit_kernels(*isa, 1, SEQUENCES * TOKENS, 64);
        scene_fill(one, &scene, &rng);
        for (uint32_t threads = 1; threads <= 4; threads++) {
            struct kernels *many = kit_kernels(*isa, threads, 128, 64);
            for (int repeat = 0; repeat < 5; repeat++)
                check_batch(many, &scene, &rng);
            kernels_destroy(many);
        }
        kit_pages_free(one, &scene.pages);
        kernels_destroy(one);
        free(scene.q);
        free(scene.want);
    }
}

/* Integer tables against the formula: only float32 and the order of sums differ. */
static void test_accuracy(void **state)
{
    (void)state;
    struct scene ref;
    struct rng rng = {.seed = 9};
    struct kernels *judge = kit_kernels("ref", 2, SEQUENCES * TOKENS, 64);
    scene_fill(judge, &ref, &rng);
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct scene scene;
        struct rng again = {.seed = 9};
        struct kernels *kernels = kit_kernels(*isa, 2, SEQUENCES * TOKENS, 64);
        scene_fill(kernels, &scene, &again);
        kit_assert_close(scene.want, ref.want, (size_t)SEQUENCES * TOKENS * HEADS * DIM, 5e-6f);
        kit_pages_free(kernels, &scene.pages);
        kernels_destroy(kernels);
        free(scene.q);
        free(scene.want);
    }
    kit_pages_free(judge, &ref.pages);
    kernels_destroy(judge);
    free(ref.q);
    free(ref.want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_invariance),
        cmocka_unit_test(test_accuracy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
