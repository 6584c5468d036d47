/* Batch invariance of attention: the same query alone, in any company, and with any pages shared:
 * same bits. */
#include "kernels/kernels.h"

#include "tests/kit/rounds.h"
#include "tests/unit/kernels_kit.h"

enum { SEQUENCES = 3, TOKENS = 300, HEADS = 6, KV_HEADS = 2, DIM = 64 };

static const float SINKS[HEADS] = {-3, 0, 1, 2.5f, 5, 30};

struct scene {
    uint32_t window;    /* 0: none */
    const float *sinks; /* [HEADS] or NULL */
    struct kit_pages pages;
    float *q; /* [SEQUENCES][TOKENS][HEADS][DIM] */
    float *want;
};

static void scene_fill(struct kernels *kernels, struct scene *scene, enum kv_type type,
                       struct rng *rng)
{
    const size_t size = (size_t)SEQUENCES * TOKENS * KV_HEADS * DIM;
    float *k = kit_floats(rng, size, 3);
    float *v = kit_floats(rng, size, 1);
    uint32_t *sequence = malloc(SEQUENCES * TOKENS * sizeof *sequence);
    uint32_t *position = malloc(SEQUENCES * TOKENS * sizeof *position);
    uint32_t *open_of = malloc(SEQUENCES * TOKENS * sizeof *open_of);
    for (uint32_t i = 0; i < SEQUENCES * TOKENS; i++) {
        sequence[i] = i / TOKENS;
        position[i] = i % TOKENS;
    }
    scene->pages = kit_pages_make(kernels, type, 16, 1, KV_HEADS, DIM, SEQUENCES, TOKENS);
    struct kv_rows kv = kit_rows(&scene->pages, sequence, position, SEQUENCES * TOKENS, open_of);
    struct kv_write_args write = {k, v, SEQUENCES * TOKENS, 0, 0, kv, {NULL}};
    kernels_kv_write(kernels, &write);
    scene->q = kit_floats(rng, (size_t)SEQUENCES * TOKENS * HEADS * DIM, 2);
    scene->want = malloc((size_t)SEQUENCES * TOKENS * HEADS * DIM * sizeof(float));
    for (uint32_t i = 0; i < SEQUENCES * TOKENS; i++) { /* each query alone */
        size_t at = (size_t)i * HEADS * DIM;
        kv.sequence = &sequence[i];
        kv.position = &position[i];
        kv.open_of = &open_of[i];
        struct attention_args args = {.q = scene->q + at,
                                      .out = scene->want + at,
                                      .rows = 1,
                                      .heads = HEADS,
                                      .scale = 0.125f,
                                      .kv = kv,
                                      .window = scene->window,
                                      .sinks = scene->sinks};
        kernels_attention(kernels, &args);
    }
    free(k);
    free(v);
    free(sequence);
    free(position);
    free(open_of);
}

/* Random runs of random sequences in one call, as a step with chunks and decodes has them. */
static void check_batch(struct kernels *kernels, const struct scene *scene, struct rng *rng)
{
    uint32_t sequence[128];
    uint32_t position[128];
    uint32_t open_of[128];
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
    struct attention_args args = {.q = q,
                                  .out = out,
                                  .rows = rows,
                                  .heads = HEADS,
                                  .scale = 0.125f,
                                  .kv = kit_rows(&scene->pages, sequence, position, rows, open_of),
                                  .window = scene->window,
                                  .sinks = scene->sinks};
    kernels_attention(kernels, &args);
    for (uint32_t r = 0; r < rows; r++)
        kit_assert_same_bits(out + r * size,
                             scene->want + (sequence[r] * TOKENS + position[r]) * size, size);
    free(q);
    free(out);
}

static void check_invariance(const char *isa, enum kv_type type, uint32_t window,
                             const float *sinks)
{
    struct rng rng = {.seed = 8};
    struct scene scene = {.window = window, .sinks = sinks};
    struct kernels *one = kit_kernels(isa, 1, SEQUENCES * TOKENS, 64);
    scene_fill(one, &scene, type, &rng);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct kernels *many = kit_kernels(isa, threads, 128, 64);
        for (uint32_t repeat = rounds(1, 5); repeat > 0; repeat--)
            check_batch(many, &scene, &rng);
        kernels_destroy(many);
    }
    kit_pages_free(one, &scene.pages);
    kernels_destroy(one);
    free(scene.q);
    free(scene.want);
}

static void test_batch_invariance(void **state)
{
    (void)state;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (int i = 0; i < KIT_KV_TYPES; i++)
            check_invariance(*isa, kit_kv_types[i], 0, NULL);
}

static void test_batch_invariance_with_windows_and_sinks(void **state)
{
    (void)state;
    int i = 0;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++, i++)
        check_invariance(*isa, kit_kv_types[i % KIT_KV_TYPES], i % 2 ? 130 : 21, SINKS);
}

/* Integer tables against the formula: only float32 and the order of sums differ; and over pages of
 * int8 that queries are rounded too, to a 254th of their range. */
static void check_accuracy(enum kv_type type, uint32_t window, float tolerance)
{
    struct scene ref = {.window = window, .sinks = window > 0 ? SINKS : NULL};
    struct rng rng = {.seed = 9};
    struct kernels *judge = kit_kernels("ref", 2, SEQUENCES * TOKENS, 64);
    scene_fill(judge, &ref, type, &rng);
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct scene scene = {.window = ref.window, .sinks = ref.sinks};
        struct rng again = {.seed = 9};
        struct kernels *kernels = kit_kernels(*isa, 2, SEQUENCES * TOKENS, 64);
        scene_fill(kernels, &scene, type, &again);
        kit_assert_close(scene.want, ref.want, (size_t)SEQUENCES * TOKENS * HEADS * DIM, tolerance);
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

static void test_accuracy(void **state)
{
    (void)state;
    check_accuracy(KV_TYPE_F16, 0, 5e-6f);
    check_accuracy(KV_TYPE_F16Q, 0, 0.05f);
    check_accuracy(KV_TYPE_I8, 0, 0.03f);
    check_accuracy(KV_TYPE_K4V8, 0, 5e-6f);
    check_accuracy(KV_TYPE_K4V4, 0, 5e-6f);
    check_accuracy(KV_TYPE_F16, 1, 5e-6f);
    check_accuracy(KV_TYPE_F16, 97, 5e-6f);
    check_accuracy(KV_TYPE_I8, 64, 0.03f);
    check_accuracy(KV_TYPE_K4V8, 97, 5e-6f);
    check_accuracy(KV_TYPE_K4V4, 97, 5e-6f);
}

enum { SHARERS = 16, BLOCKS_MAX = 41, PAGES_EACH = BLOCKS_MAX * 4 + 4, CHUNK_MAX = 20 };

/* Sequences that begin with each other's pages. */
struct sharers {
    struct kv_layout layout;
    void *pages;
    uint32_t next_page;
    uint32_t count;
    uint32_t heads;
    uint32_t table[SHARERS][PAGES_EACH];
    const uint32_t *tables[SHARERS];
    uint32_t tokens[SHARERS];
    uint32_t chunk[SHARERS]; /* its last rows, which are asked for */
    uint32_t sequence[SHARERS * CHUNK_MAX];
    uint32_t position[SHARERS * CHUNK_MAX];
    uint32_t order[SHARERS * CHUNK_MAX];
    uint32_t shared[SHARERS * CHUNK_MAX];
    uint32_t rows;
    void *open;
};

/* Keys and values of tokens [from, all) of one sequence; later ones stay NaN. */
static void sharers_write(struct kernels *kernels, struct sharers *all, uint32_t s, uint32_t from,
                          struct rng *rng)
{
    uint32_t rows = all->tokens[s] - from;
    size_t size = (size_t)rows * all->layout.kv_heads * all->layout.head_dim;
    uint32_t *sequence = malloc((rows + 1) * sizeof *sequence);
    uint32_t *position = malloc((rows + 1) * sizeof *position);
    uint32_t *open_of = malloc((rows + 1) * sizeof *open_of);
    float *k = kit_floats(rng, size, 3);
    float *v = kit_floats(rng, size, 1);
    for (uint32_t i = 0; i < rows; i++) {
        sequence[i] = s;
        position[i] = from + i;
    }
    struct kv_rows kv = {&all->layout, all->pages, sequence, position,
                         all->tables,  all->open,  open_of,  0};
    kit_open_of(&kv, rows, open_of);
    kernels_kv_write(kernels, &(struct kv_write_args){k, v, rows, 0, 0, kv, {NULL}});
    free(open_of);
    free(sequence);
    free(position);
    free(k);
    free(v);
}

/* Sequence s begins with some pages of an earlier one, or with copies of them. */
static void sharers_add(struct kernels *kernels, struct sharers *all, uint32_t s,
                        uint32_t blocks_max, struct rng *rng)
{
    uint32_t from = 0;
    uint32_t tail = 1 + (uint32_t)rng_below(rng, 150);
    uint32_t other = s > 0 ? (uint32_t)rng_below(rng, s) : 0;
    bool is_copy = rng_below(rng, 5) == 0;
    if (s > 0 && rng_below(rng, 6) > 0)
        from = (uint32_t)rng_below(rng, all->tokens[other] / 16 + 1);
    uint32_t room = (uint32_t)rng_below(rng, blocks_max + 1) * 64 + tail;
    all->tokens[s] = s == 0 ? room : from * 16 + tail;
    if (all->tokens[s] > PAGES_EACH * 16)
        all->tokens[s] = PAGES_EACH * 16;
    if (from * 16 >= all->tokens[s])
        from = 0;
    for (uint32_t p = 0; p <= (all->tokens[s] - 1) / 16; p++) {
        uint32_t shared = all->table[other][p];
        char *base = all->pages;
        all->table[s][p] = p < from && !is_copy ? shared : all->next_page++;
        if (p < from && is_copy)
            memcpy((char *)all->open + all->layout.open_bytes * all->table[s][p],
                   (char *)all->open + all->layout.open_bytes * shared, all->layout.open_bytes);
        if (p < from && is_copy)
            kernels_kv_copy(kernels, &all->layout, base + all->layout.page_bytes * all->table[s][p],
                            base + all->layout.page_bytes * shared, 16);
    }
    sharers_write(kernels, all, s, from * 16, rng);
    uint32_t chunk = rng_below(rng, 3) == 0 ? 1 + (uint32_t)rng_below(rng, CHUNK_MAX) : 1;
    all->chunk[s] = chunk < all->tokens[s] ? chunk : all->tokens[s];
}

/* Whole blocks that both read from the same pages, with every row. */
static uint32_t sharers_common(const struct sharers *all, uint32_t a, uint32_t b)
{
    uint32_t keys = 0;
    uint32_t first_a = all->tokens[a] - all->chunk[a] + 1;
    uint32_t first_b = all->tokens[b] - all->chunk[b] + 1;
    while (keys + 64 <= first_a && keys + 64 <= first_b &&
           memcmp(&all->table[a][keys / 16], &all->table[b][keys / 16], 4 * sizeof(uint32_t)) == 0)
        keys += 64;
    return keys;
}

/* Rows of the sequences in any order, each told at most what it has in common with the one before.
 */
static void sharers_group(struct sharers *all, struct rng *rng)
{
    uint32_t place[SHARERS];
    uint32_t first[SHARERS];
    uint32_t rows = 0;
    for (uint32_t s = 0; s < all->count; s++) {
        uint32_t at = rng_below(rng, 2) == 0 ? s : (uint32_t)rng_below(rng, s + 1);
        memmove(place + at + 1, place + at, (s - at) * sizeof *place);
        place[at] = s;
        first[s] = s > 0 ? first[s - 1] + all->chunk[s - 1] : 0;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t s = place[i];
        uint32_t common = i > 0 ? sharers_common(all, place[i - 1], s) : 0;
        if (rng_below(rng, 8) == 0)
            common = common / 128 * 64;
        for (uint32_t r = 0; r < all->chunk[s]; r++) {
            all->sequence[first[s] + r] = s;
            all->position[first[s] + r] = all->tokens[s] - all->chunk[s] + r;
            all->order[rows] = first[s] + r;
            all->shared[rows++] = r == 0 ? common : 0;
        }
    }
    all->rows = rows;
}

static void sharers_run(struct kernels *kernels, const struct sharers *all, const float *q,
                        uint32_t row, uint32_t rows, const struct attention_groups *groups,
                        float *out)
{
    const size_t size = (size_t)all->heads * all->layout.head_dim;
    uint32_t open_of[SHARERS * CHUNK_MAX];
    struct kv_rows kv = {
        &all->layout, all->pages, all->sequence + row, all->position + row, all->tables, all->open,
        open_of,      0};
    kit_open_of(&kv, rows, open_of);
    kernels_attention(kernels, &(struct attention_args){.q = q + row * size,
                                                        .out = out + row * size,
                                                        .rows = rows,
                                                        .heads = all->heads,
                                                        .scale = 0.2f,
                                                        .kv = kv,
                                                        .groups = groups});
}

struct sharers_shape {
    uint32_t heads, kv_heads, dim, blocks_max;
};

static void check_sharing(const char *isa, enum kv_type type, const struct sharers_shape *shape,
                          struct rng *rng)
{
    struct sharers *all = calloc(1, sizeof *all);
    struct kernels *one = kit_kernels(isa, 1, PAGES_EACH * 16, 64);
    all->heads = shape->heads;
    all->count = 1 + (uint32_t)rng_below(rng, SHARERS);
    assert_int_equal(kernels_kv_layout(one, type, 16, 1, shape->kv_heads, shape->dim, &all->layout),
                     STATUS_OK);
    size_t bytes = all->layout.page_bytes * SHARERS * PAGES_EACH;
    all->pages = kernels_buffer_create(one, bytes);
    assert_non_null(all->pages);
    memset(all->pages, 0xff, bytes); /* NaN */
    all->open = calloc(SHARERS * PAGES_EACH, all->layout.open_bytes + 64);
    assert_non_null(all->open);
    for (uint32_t s = 0; s < all->count; s++) {
        all->tables[s] = all->table[s];
        sharers_add(one, all, s, shape->blocks_max, rng);
    }
    sharers_group(all, rng);
    const size_t size = (size_t)all->rows * shape->heads * shape->dim;
    float *q = kit_floats(rng, size, 2);
    float *want = malloc(size * sizeof *want);
    float *out = malloc(size * sizeof *out);
    const struct attention_groups groups = {all->order, all->shared};
    for (uint32_t r = 0; r < all->rows; r++) /* each query alone */
        sharers_run(one, all, q, r, 1, NULL, want);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct kernels *many = kit_kernels(isa, threads, SHARERS * CHUNK_MAX, 64);
        memset(out, 0, size * sizeof *out);
        sharers_run(many, all, q, 0, all->rows, &groups, out);
        assert_memory_equal(out, want, size * sizeof *out);
        memset(out, 0, size * sizeof *out);
        sharers_run(many, all, q, 0, all->rows, NULL, out);
        assert_memory_equal(out, want, size * sizeof *out);
        kernels_destroy(many);
    }
    for (size_t i = 0; i < size; i++)
        assert_true(out[i] == out[i]);
    free(q);
    free(want);
    free(out);
    kernels_buffer_destroy(one, all->pages);
    free(all->open);
    kernels_destroy(one);
    free(all);
}

static void test_shared_pages(void **state)
{
    (void)state;
    static const struct sharers_shape shapes[] = {
        {6, 2, 64, 6}, {9, 3, 16, 40}, {3, 1, 24, 12}, {52, 1, 8, 4}};
    struct rng rng = {.seed = 12};
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (uint32_t repeat = KIT_KV_TYPES * rounds(1, 5); repeat > 0; repeat--)
                check_sharing(*isa, kit_kv_types[repeat % KIT_KV_TYPES], &shapes[i], &rng);
}

/* The same keys in the second layer of pages, and in window units without those before the windows:
 * table 0 is the first units', the others' entries before the window are no places at all. */
static void check_units(const char *isa, enum kv_type type, uint32_t window, struct rng *rng)
{
    enum { LENGTH = 300, PAGES = (LENGTH + 15) / 16, ROWS = 3 };
    const size_t each = (size_t)KV_HEADS * DIM;
    struct kernels *kernels = kit_kernels(isa, 2, LENGTH, 64);
    struct kit_pages whole = kit_pages_make(kernels, type, 16, 3, KV_HEADS, DIM, 1, LENGTH);
    struct kit_pages units = kit_pages_make(kernels, type, 16, 1, KV_HEADS, DIM, 3, LENGTH);
    float *k = kit_floats(rng, LENGTH * each, 3);
    float *v = kit_floats(rng, LENGTH * each, 1);
    float *q = kit_floats(rng, (size_t)ROWS * HEADS * DIM, 2);
    float out[2][ROWS * HEADS * DIM];
    uint32_t sequence[LENGTH] = {0};
    uint32_t position[LENGTH];
    uint32_t open_of[LENGTH];
    uint32_t table[3][PAGES];
    const uint32_t *tables[3] = {table[0], table[1], table[2]};
    for (uint32_t i = 0; i < LENGTH; i++)
        position[i] = i;
    for (uint32_t t = 0; t < 3; t++)
        memcpy(table[t], units.tables[t], sizeof table[t]);
    units.layout.window_units = 2;
    units.layout.window = window;
    struct kv_write_args write = {.k = k,
                                  .v = v,
                                  .rows = LENGTH,
                                  .layer = 2,
                                  .kv = kit_rows(&whole, sequence, position, LENGTH, open_of)};
    kernels_kv_write(kernels, &write);
    write.kv = kit_rows(&units, sequence, position, LENGTH, open_of);
    write.kv.page_tables = tables;
    write.kv.sequences = 1;
    write.group = 2;
    write.layer = 0;
    kernels_kv_write(kernels, &write);
    struct attention_args args = {
        .q = q,
        .out = out[0],
        .rows = ROWS,
        .heads = HEADS,
        .layer = 2,
        .scale = 0.125f,
        .kv = kit_rows(&whole, sequence, position + LENGTH - ROWS, ROWS, open_of),
        .window = window};
    kernels_attention(kernels, &args);
    for (uint32_t p = 0; p < kernels_window_first(window, LENGTH - ROWS) / 16; p++)
        table[1][p] = table[2][p] = UINT32_MAX / 2;
    args.kv = write.kv;
    args.kv.position = position + LENGTH - ROWS;
    args.out = out[1];
    args.group = 2;
    args.layer = 0;
    kernels_attention(kernels, &args);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    free(k);
    free(v);
    free(q);
    kit_pages_free(kernels, &whole);
    kit_pages_free(kernels, &units);
    kernels_destroy(kernels);
}

static void test_window_units(void **state)
{
    (void)state;
    static const enum kv_type types[] = {KV_TYPE_F16, KV_TYPE_F16Q, KV_TYPE_I8};
    struct rng rng = {.seed = 13};
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            for (uint32_t window = 1; window < 300; window += 37)
                check_units(*isa, types[i], window, &rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window_units),
        cmocka_unit_test(test_batch_invariance),
        cmocka_unit_test(test_batch_invariance_with_windows_and_sinks),
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_shared_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
