#include "kernels/cpu/ref_int8/ref_int8.h"

#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels_kit.h"

enum { TOKENS = 530, DIM = 20 };

struct scene {
    struct kernels *kernels;
    struct kit_pages pages;
    uint32_t sequence[TOKENS];
    uint32_t position[TOKENS];
    uint32_t open_of[TOKENS];
    float *k;
    float *v;
    float packed[TOKENS * DIM]; /* keys of 4 bits as rows of later groups read them */
};

/* What pages of int8 make of one token's elements. */
static void scene_round(float *x)
{
    int8_t codes[DIM];
    float scale = k_kv_codes_ref(x, DIM, codes);
    for (uint32_t d = 0; d < DIM; d++)
        x[d] = scale * (float)codes[d];
}

/* What pages of k4v4 make of one token's values. */
static void scene_pack_value(float *v)
{
    uint8_t group[16 * (20 + 1)];
    uint16_t value[DIM];
    k_values_pack_ref(v, DIM, 3, group);
    k_value_unpack_ref(group, DIM, 3, value);
    for (uint32_t d = 0; d < DIM; d++)
        v[d] = half_to_float(value[d]);
}

/* What a row of the last, unfinished group reads of keys of 4 bits. */
static void scene_pack(float *k)
{
    for (uint32_t first = 0; first + 16 <= TOKENS; first += 16) {
        uint16_t open[DIM * 16];
        uint8_t group[DIM * 12];
        for (uint32_t i = 0; i < DIM * 16; i++)
            open[i] = half_from_float(k[(first + i % 16) * DIM + i / 16]);
        k_keys_pack_ref(open, DIM, group);
        k_keys_unpack_ref(group, DIM, open);
        for (uint32_t i = 0; i < DIM * 16; i++)
            k[(first + i % 16) * DIM + i / 16] = half_to_float(open[i]);
    }
}

static void scene_make(struct scene *scene, struct rng *rng, enum kv_type type)
{
    scene->kernels = kit_kernels("ref_int8", 1, TOKENS, 64);
    scene->pages = kit_pages_make(scene->kernels, type, 16, 1, 1, DIM, 1, TOKENS);
    scene->k = kit_floats(rng, TOKENS * DIM, 2);
    scene->v = kit_floats(rng, TOKENS * DIM, 1);
    for (uint32_t i = 0; type != KV_TYPE_I8 && i < TOKENS * DIM; i++) { /* what pages keep */
        scene->k[i] = half_to_float(half_from_float(scene->k[i]));
        scene->v[i] = half_to_float(half_from_float(scene->v[i]));
    }
    for (uint32_t i = 0; i < TOKENS; i++) {
        scene->sequence[i] = 0;
        scene->position[i] = i;
    }
    struct kv_write_args write = {
        scene->k, scene->v,
        TOKENS,   0,
        0,        kit_rows(&scene->pages, scene->sequence, scene->position, TOKENS, scene->open_of),
        {NULL}};
    kernels_kv_write(scene->kernels, &write);
    for (uint32_t i = 0; i < TOKENS; i++) {
        if (type == KV_TYPE_F16Q || type == KV_TYPE_I8)
            scene_round(scene->k + (size_t)i * DIM);
        if (type == KV_TYPE_I8 || type == KV_TYPE_K4V8)
            scene_round(scene->v + (size_t)i * DIM);
        if (type == KV_TYPE_K4V4)
            scene_pack_value(scene->v + (size_t)i * DIM);
    }
    if (kernels_kv_has_groups(type))
        memcpy(scene->packed, scene->k, sizeof scene->packed);
    if (kernels_kv_has_groups(type))
        scene_pack(scene->packed);
}

static void scene_free(struct scene *scene)
{
    kit_pages_free(scene->kernels, &scene->pages);
    kernels_destroy(scene->kernels);
    free(scene->k);
    free(scene->v);
}

static void attend(struct scene *scene, uint32_t position, const float *q, float *out)
{
    const uint32_t order = 0;
    uint32_t open_of;
    struct attention_args args = {
        .q = q,
        .out = out,
        .rows = 1,
        .heads = 1,
        .scale = 0.3f,
        .kv = kit_rows(&scene->pages, scene->sequence, &position, 1, &open_of)};
    struct table_attention call = {.args = &args, .order = &order, .rows = 1, .heads = 1};
    k_attention_ref_int8(&call);
}

/* Block, segment and merge borders, against two plain passes in double. */
static void check_formula(enum kv_type type)
{
    static const uint32_t keys[] = {1, 2, 63, 64, 65, 128, 255, 256, 257, 320, 511, 512, 513, 530};
    struct rng rng = {.seed = 31};
    struct scene scene;
    scene_make(&scene, &rng, type);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        float *q = kit_floats(&rng, DIM, 3);
        float out[DIM];
        double want[DIM] = {0};
        double sum = 0;
        attend(&scene, keys[i] - 1, q, out);
        if (type == KV_TYPE_F16Q || type == KV_TYPE_I8) {
            for (uint32_t d = 0; d < DIM; d++)
                q[d] *= 0.3f;
            scene_round(q);
            for (uint32_t d = 0; d < DIM; d++)
                q[d] /= 0.3f;
        }
        for (uint32_t j = 0; j < keys[i]; j++) {
            const bool is_packed = kernels_kv_has_groups(type) && j / 16 < (keys[i] - 1) / 16;
            const float *k = (is_packed ? scene.packed : scene.k) + (size_t)j * DIM;
            double score = 0;
            for (uint32_t d = 0; d < DIM; d++)
                score += (double)q[d] * (double)k[d];
            score = exp(score * 0.3);
            sum += score;
            for (uint32_t d = 0; d < DIM; d++)
                want[d] += score * (double)scene.v[j * DIM + d];
        }
        for (uint32_t d = 0; d < DIM; d++)
            assert_float_equal(out[d], (float)(want[d] / sum), 2e-6f);
        free(q);
    }
    scene_free(&scene);
}

static void test_against_the_formula(void **state)
{
    (void)state;
    for (int i = 0; i < KIT_KV_TYPES; i++)
        check_formula(kit_kv_types[i]);
}

/* What lies beyond the last key of a page is NaN in this scene and must not matter; what lies in
 * the keys does. */
static void check_reads(enum kv_type type)
{
    struct rng rng = {.seed = 32};
    struct scene scene;
    scene_make(&scene, &rng, type);
    float *q = kit_floats(&rng, DIM, 1);
    float before[DIM];
    float after[DIM];
    uint32_t open_of;
    attend(&scene, 99, q, before);
    struct kv_write_args write = {
        scene.k, scene.v,
        1,       0,
        0,       kit_rows(&scene.pages, scene.sequence, (const uint32_t[]){100}, 1, &open_of),
        {NULL}};
    scene.k[0] = NAN;
    scene.v[0] = INFINITY;
    kernels_kv_write(scene.kernels, &write);
    attend(&scene, 99, q, after);
    kit_assert_same_bits(before, after, DIM);
    attend(&scene, 100, q, after);
    assert_true(isnan(after[0]));
    free(q);
    scene_free(&scene);
}

static void test_reads_its_keys_and_no_more(void **state)
{
    (void)state;
    for (int i = 0; i < KIT_KV_TYPES; i++)
        check_reads(kit_kv_types[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_formula),
        cmocka_unit_test(test_reads_its_keys_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
