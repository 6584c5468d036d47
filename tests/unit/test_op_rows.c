/* Operations by rows, in every table: threads and other rows leave the bits alone. */
#include "kernels/kernels.h"

#include "tests/unit/kernels_kit.h"

enum { ROWS = 64, COLS = 300 };

/* `one` does row r alone; `many` does all rows with several threads. */
struct both {
    struct kernels *one;
    struct kernels *many;
    float *x;
    float *w;
    float *alone;
    float *together;
};

static struct both both_make(const char *isa, struct rng *rng)
{
    struct both both = {.one = kit_kernels(isa, 1, ROWS, COLS),
                        .many = kit_kernels(isa, 3, ROWS, COLS),
                        .x = kit_floats(rng, ROWS * COLS, 4),
                        .w = kit_floats(rng, COLS, 1),
                        .alone = kit_floats(rng, ROWS * COLS, 1),
                        .together = malloc(ROWS * COLS * sizeof(float))};
    memcpy(both.together, both.alone, ROWS * COLS * sizeof(float));
    return both;
}

static void both_free(struct both *both)
{
    kernels_destroy(both->one);
    kernels_destroy(both->many);
    free(both->x);
    free(both->w);
    free(both->alone);
    free(both->together);
}

static void check_norm(const char *isa, struct rng *rng, enum norm_kind kind, bool accumulate)
{
    struct both both = both_make(isa, rng);
    struct norm_args norm = {.weight = both.w,
                             .rows = 1,
                             .cols = COLS,
                             .epsilon = 1e-5f,
                             .kind = kind,
                             .bias = kind == NORM_LAYER ? both.w : NULL,
                             .accumulate = accumulate};
    for (uint32_t r = 0; r < ROWS; r++) {
        norm.x = both.x + r * COLS;
        norm.y = both.alone + r * COLS;
        kernels_norm(both.one, &norm);
    }
    if (!accumulate) /* in place */
        memcpy(both.together, both.x, ROWS * COLS * sizeof(float));
    norm.x = accumulate ? both.x : both.together;
    norm.y = both.together;
    norm.rows = ROWS;
    kernels_norm(both.many, &norm);
    kit_assert_same_bits(both.alone, both.together, ROWS * COLS);
    both_free(&both);
}

static void check_act(const char *isa, struct rng *rng, enum act_kind kind)
{
    struct both both = both_make(isa, rng);
    for (uint32_t r = 0; r < ROWS; r++)
        kernels_act(both.one, &(struct act_args){.kind = kind,
                                                 .x = both.alone + r * COLS,
                                                 .up = both.x + r * COLS,
                                                 .rows = 1,
                                                 .cols = COLS});
    kernels_act(both.many,
                &(struct act_args){
                    .kind = kind, .x = both.together, .up = both.x, .rows = ROWS, .cols = COLS});
    kit_assert_same_bits(both.alone, both.together, ROWS * COLS);
    both_free(&both);
}

static void check_softcap(const char *isa, struct rng *rng)
{
    struct both both = both_make(isa, rng);
    for (uint32_t r = 0; r < ROWS; r++)
        kernels_softcap(both.one, &(struct softcap_args){both.alone + r * COLS, 1, COLS, 0.75f});
    kernels_softcap(both.many, &(struct softcap_args){both.together, ROWS, COLS, 0.75f});
    kit_assert_same_bits(both.alone, both.together, ROWS * COLS);
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        assert_true(fabsf(both.alone[i]) <= 0.75f);
    both_free(&both);
}

static void test_norm_act_softcap(void **state)
{
    (void)state;
    struct rng rng = {.seed = 1};
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        for (int i = 0; i < 4; i++)
            check_norm(*isa, &rng, i % 2 == 0 ? NORM_RMS : NORM_LAYER, i / 2 == 1);
        for (enum act_kind kind = ACT_SILU_MUL; kind <= ACT_GELU_ERF; kind++)
            check_act(*isa, &rng, kind);
        check_softcap(*isa, &rng);
    }
}

/* A scale of the embedding and a factor of the angles multiply what comes without them. */
static void test_scale_and_factor(void **state)
{
    (void)state;
    enum { VOCAB = 7, WIDTH = 64, PAIRS = 8 };
    struct rng rng = {.seed = 6};
    const uint32_t tokens[3] = {6, 0, 3};
    const uint32_t positions[3] = {0, 5, 1000};
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_q8_0, VOCAB, WIDTH);
    float *frequencies = kit_floats(&rng, PAIRS, 1);
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct kernels *kernels = kit_kernels(*isa, 1, 3, WIDTH);
        struct weight table;
        float out[2][3 * WIDTH];
        float angles[2][3 * PAIRS * 2];
        assert_int_equal(kernels_weight_create(kernels, &table, &tensor), STATUS_OK);
        for (int i = 0; i < 2; i++) {
            kernels_embed(kernels, &(struct embed_args){.table = &table,
                                                        .tokens = tokens,
                                                        .rows = 3,
                                                        .out = out[i],
                                                        .scale = i == 0 ? 0 : 25.3f});
            kernels_rope_table(kernels, &(struct rope_table_args){.positions = positions,
                                                                  .frequencies = frequencies,
                                                                  .rows = 3,
                                                                  .pairs = PAIRS,
                                                                  .table = angles[i],
                                                                  .factor = i == 0 ? 0 : 1.3f});
        }
        for (uint32_t i = 0; i < 3 * WIDTH; i++)
            assert_true(out[1][i] == out[0][i] * 25.3f);
        for (uint32_t i = 0; i < 3 * PAIRS * 2; i++)
            assert_float_equal(angles[1][i], angles[0][i] * 1.3f, 2e-7f);
        kernels_weight_destroy(kernels, &table);
        kernels_destroy(kernels);
    }
    free(frequencies);
    kit_tensor_free(&tensor);
}

static void test_rope(void **state)
{
    (void)state;
    struct rng rng = {.seed = 2};
    enum { HEADS = 3, DIM = 64, PAIRS = 32 };
    uint32_t positions[ROWS];
    float frequencies[PAIRS];
    for (uint32_t r = 0; r < ROWS; r++)
        positions[r] = (uint32_t)rng_below(&rng, 8192);
    for (uint32_t i = 0; i < PAIRS; i++)
        frequencies[i] = powf(10000, -(float)i / PAIRS);
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct kernels *kernels = kit_kernels(*isa, 2, ROWS, DIM);
        float *table = malloc(ROWS * PAIRS * 2 * sizeof *table);
        float *x = kit_floats(&rng, ROWS * HEADS * DIM, 1);
        float *want = malloc(ROWS * HEADS * DIM * sizeof *want);
        struct rope_table_args make = {.positions = positions,
                                       .frequencies = frequencies,
                                       .rows = ROWS,
                                       .pairs = PAIRS,
                                       .table = table};
        kernels_rope_table(kernels, &make);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t h = 0; h < HEADS; h++)
                for (uint32_t i = 0; i < PAIRS; i++) {
                    float angle = (float)positions[r] * frequencies[i];
                    size_t at = (size_t)(r * HEADS + h) * DIM + 2 * i;
                    double c = cos((double)angle);
                    double s = sin((double)angle);
                    want[at] = (float)((double)x[at] * c - (double)x[at + 1] * s);
                    want[at + 1] = (float)((double)x[at + 1] * c + (double)x[at] * s);
                }
        struct rope_args args = {.x = x,
                                 .table = table,
                                 .rows = ROWS,
                                 .heads = HEADS,
                                 .head_dim = DIM,
                                 .pairs = PAIRS,
                                 .pairing = ROPE_INTERLEAVED};
        kernels_rope(kernels, &args);
        kit_assert_close(x, want, ROWS * HEADS * DIM, 3e-7f);
        kernels_destroy(kernels);
        free(table);
        free(x);
        free(want);
    }
}

static void test_embed(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (size_t t = 0; t < KIT_TYPES; t++) {
            enum { VOCAB = 50, WIDTH = 512 };
            struct kernels *kernels = kit_kernels(*isa, 2, ROWS, WIDTH);
            struct tensor tensor = kit_tensor(&rng, kit_types[t], VOCAB, WIDTH);
            struct weight table;
            uint32_t tokens[ROWS];
            float *out = malloc(ROWS * WIDTH * sizeof *out);
            assert_int_equal(kernels_weight_create(kernels, &table, &tensor), STATUS_OK);
            for (uint32_t r = 0; r < ROWS; r++)
                tokens[r] = r == 0 ? VOCAB - 1 : (uint32_t)rng_below(&rng, VOCAB);
            struct embed_args args = {.table = &table, .tokens = tokens, .rows = ROWS, .out = out};
            kernels_embed(kernels, &args);
            for (uint32_t r = 0; r < ROWS; r++) {
                float want[WIDTH];
                tensor_row_to_f32(&tensor, tokens[r], want);
                kit_assert_same_bits(out + r * WIDTH, want, WIDTH);
            }
            kernels_weight_destroy(kernels, &table);
            kit_tensor_free(&tensor);
            kernels_destroy(kernels);
            free(out);
        }
}

static void test_logits_stats(void **state)
{
    (void)state;
    struct rng rng = {.seed = 4};
    enum { VOCAB = 5000 };
    float *logits = kit_floats(&rng, ROWS * VOCAB, 15);
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct kernels *kernels = kit_kernels(*isa, 3, 1, 1);
        struct logits_stats together[ROWS];
        kernels_logits_stats(kernels, logits, ROWS, VOCAB, together);
        for (uint32_t r = 0; r < ROWS; r++) {
            const float *row = logits + r * VOCAB;
            struct logits_stats alone;
            kernels_logits_stats(kernels, row, 1, VOCAB, &alone);
            assert_memory_equal(&alone, &together[r], sizeof alone);
            double sum = 0;
            for (uint32_t i = 0; i < VOCAB; i++) {
                assert_true(row[i] <= alone.max);
                assert_true(row[i] < alone.max || i >= alone.argmax);
                sum += exp((double)row[i]);
            }
            assert_true(row[alone.argmax] == alone.max);
            assert_true(fabs(log(sum) - (double)alone.log_sum_exp) < 2e-6);
        }
        kernels_destroy(kernels);
    }
    free(logits);
}

enum { EACH_MAX = 20 };

struct each_seen {
    _Atomic uint32_t times[EACH_MAX];
    uint32_t thread[EACH_MAX];
};

static void each_one(void *context, uint32_t index, uint32_t thread)
{
    struct each_seen *seen = context;
    seen->times[index]++;
    seen->thread[index] = thread;
}

/* Each once, in runs, on threads below the most. */
static void test_each(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct kernels *kernels = kit_kernels("ref", threads, 1, 1);
        for (uint32_t most = 1; most <= 5; most++)
            for (uint32_t count = 0; count <= EACH_MAX; count++) {
                struct each_seen seen = {0};
                kernels_each(kernels, most, count, each_one, &seen);
                for (uint32_t i = 0; i < EACH_MAX; i++) {
                    assert_int_equal(seen.times[i], i < count);
                    assert_true(seen.thread[i] < most && seen.thread[i] < threads);
                    assert_true(i == 0 || i >= count || seen.thread[i] >= seen.thread[i - 1]);
                }
            }
        kernels_destroy(kernels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm_act_softcap),
        cmocka_unit_test(test_scale_and_factor),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_logits_stats),
        cmocka_unit_test(test_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
