#include "kernels/cuda/cuda_tiles.h"

#include "tests/unit/kernels_kit.h"

enum { ROWS_MAX = 96, SEGMENTS_MAX = 24, PROCESSORS = 132 };

/* Rows of sequences in turn; a sequence's table is its number. */
struct batch {
    struct cuda_plan_row rows[ROWS_MAX];
    uint32_t order[ROWS_MAX];
    uint32_t shared[ROWS_MAX];
    struct attention_groups groups;
    uint32_t count;
};

static void batch_add(struct batch *batch, uint32_t sequence, uint32_t position, uint32_t shared)
{
    const uint32_t i = batch->count++;
    assert_true(i < ROWS_MAX);
    batch->rows[i] = (struct cuda_plan_row){.position = position, .table = sequence};
    batch->order[i] = i;
    batch->shared[i] = shared;
    batch->groups = (struct attention_groups){batch->order, batch->shared};
}

static const struct cuda_tiles_args ARGS = {
    .group = 4, .kv_heads = 8, .processors = PROCESSORS, .states_max = UINT32_MAX};

/* The caller frees it. */
static struct cuda_tiles_head *plan(const struct batch *batch, struct cuda_tiles_args args,
                                    bool has_groups)
{
    const size_t bytes = cuda_tiles_bytes(ROWS_MAX, args.processors);
    struct cuda_tiles_head *out = malloc(bytes);
    assert_non_null(out);
    args.rows = batch->rows;
    args.count = batch->count;
    args.groups = has_groups ? &batch->groups : NULL;
    cuda_tiles_plan(&args, out);
    assert_true(out->bytes <= bytes);
    return out;
}

static uint32_t segments_of(uint32_t position)
{
    return position / CUDA_PLAN_SEGMENT + 1;
}

/* That lie wholly behind the window. */
static uint32_t hidden_of(const struct cuda_tiles_args *args, uint32_t position)
{
    uint32_t hidden = 0;
    while (args->window > 0 && (hidden + 1) * CUDA_PLAN_SEGMENT + args->window <= position + 1)
        hidden++;
    return hidden;
}

/* Rows of one work read the same pages in its segments. */
static void check_work(const struct batch *batch, const struct cuda_tiles_args *args,
                       const struct cuda_tiles_work *work)
{
    assert_true(work->rows >= 1 && work->rows * args->group <= CUDA_PLAN_QUERIES);
    assert_true(work->begin < work->end);
    assert_true(work->keys > work->begin * CUDA_PLAN_SEGMENT);
    for (uint32_t i = work->first; i < work->first + work->rows; i++) {
        const struct cuda_plan_row *row = &batch->rows[batch->order[i]];
        const struct cuda_plan_row *before = &batch->rows[batch->order[i > 0 ? i - 1 : 0]];
        assert_true(work->least <= row->position);
        if (i > work->first && row->table != before->table)
            assert_true(batch->shared[i] >= work->end * CUDA_PLAN_SEGMENT);
        /* Its own last segment is read to its end. */
        if (work->end >= segments_of(row->position) && work->begin < segments_of(row->position))
            assert_true(work->keys > row->position || work->end > segments_of(row->position));
    }
}

/* Each row's segments are each in one work, but for those that it does not see, and states have
 * places of their own. */
static void check_plan(const struct batch *batch, const struct cuda_tiles_args *args,
                       const struct cuda_tiles_head *out)
{
    uint32_t seen[ROWS_MAX][SEGMENTS_MAX] = {{0}};
    uint32_t works_of[ROWS_MAX] = {0};
    uint32_t next = 0;
    const struct cuda_tiles_work *works = cuda_tiles_works(out);
    const struct cuda_tiles_row *rows = cuda_tiles_rows(out);
    for (uint32_t w = 0; w < out->works; w++) {
        check_work(batch, args, &works[w]);
        for (uint32_t i = works[w].first; i < works[w].first + works[w].rows; i++) {
            const uint32_t segments = segments_of(batch->rows[rows[i].row].position);
            for (uint32_t s = works[w].begin; s < works[w].end && s < segments; s++)
                seen[rows[i].row][s]++;
            works_of[rows[i].row]++;
            assert_int_equal(rows[i].states == CUDA_TILES_NONE, works[w].is_whole);
        }
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint32_t row = rows[i].row;
        const uint32_t segments = segments_of(batch->rows[row].position);
        const uint32_t hidden = hidden_of(args, batch->rows[row].position);
        for (uint32_t s = 0; s < segments; s++)
            assert_true(seen[row][s] == 1 || (s < hidden && seen[row][s] == 0));
        assert_int_equal(rows[i].segment, hidden);
        assert_true(works_of[row] == 1 || rows[i].states != CUDA_TILES_NONE);
        next += rows[i].states != CUDA_TILES_NONE ? segments - hidden : 0;
        for (uint32_t j = 0; j < i && rows[i].states != CUDA_TILES_NONE; j++)
            if (rows[j].states != CUDA_TILES_NONE)
                assert_true(rows[i].states + segments - hidden <= rows[j].states ||
                            rows[j].states + segments_of(batch->rows[rows[j].row].position) -
                                    rows[j].segment <=
                                rows[i].states);
    }
    assert_int_equal(out->states, next);
}

static void test_every_segment_is_read_for_every_row_once(void **state)
{
    (void)state;
    struct rng rng = {.seed = 5};
    for (int round = 0; round < 400; round++) {
        struct batch batch = {.count = 0};
        struct cuda_tiles_args args = ARGS;
        uint32_t before = 0;
        args.group = 1 + (uint32_t)rng_below(&rng, round % 2 ? 8 : CUDA_PLAN_QUERIES);
        args.kv_heads = 1 + (uint32_t)rng_below(&rng, 8);
        args.processors = 1 + (uint32_t)rng_below(&rng, 40);
        args.states_max = round % 5 == 0 ? 20 : UINT32_MAX;
        args.window = round % 3 == 0 ? 1 + (uint32_t)rng_below(&rng, 3000) : 0;
        for (uint32_t sequence = 0; batch.count < 60; sequence++) {
            const uint32_t last = (uint32_t)rng_below(&rng, SEGMENTS_MAX * CUDA_PLAN_SEGMENT);
            uint32_t rows = rng_below(&rng, 3) ? 1 : 1 + (uint32_t)rng_below(&rng, 30);
            rows = rows <= last ? rows : 1;
            const uint32_t first = last + 1 - rows;
            uint32_t most = first + 1 < before + 1 ? first + 1 : before + 1;
            most = sequence > 0 ? most / ATTENTION_BLOCK_KEYS : 0;
            for (uint32_t r = 0; r < rows; r++)
                batch_add(&batch, sequence, first + r,
                          r == 0 && rng_below(&rng, 2)
                              ? (uint32_t)rng_below(&rng, most + 1) * ATTENTION_BLOCK_KEYS
                              : 0);
            before = first;
        }
        for (int has_groups = 0; has_groups <= 1; has_groups++) {
            struct cuda_tiles_head *out = plan(&batch, args, has_groups);
            check_plan(&batch, &args, out);
            assert_true(out->states <= args.states_max);
            free(out);
        }
    }
}

/* 64 streams over a prefix of 4,096 tokens, each with up to 128 of its own: what must be read, by
 * arithmetic, for at most a third of the plain pass's time over the same pages (which caches serve
 * again) and an eighth of it over unshared ones. */
static void test_a_shared_prefix_is_read_once_a_tile(void **state)
{
    (void)state;
    struct batch batch = {.count = 0};
    for (uint32_t s = 0; s < 64; s++)
        batch_add(&batch, s, 4096 + 127 - s % 2, s > 0 ? 4096 : 0);
    struct cuda_tiles_head *plain = plan(&batch, ARGS, false);
    struct cuda_tiles_head *shared = plan(&batch, ARGS, true);
    check_plan(&batch, &ARGS, shared);
    assert_int_equal(cuda_tiles_keys(plain), 64 * 4224 - 32);
    assert_int_equal(cuda_tiles_keys(shared), 4 * 4096 + 64 * 128 - 32);
    assert_true(8 * cuda_tiles_keys(shared) <= cuda_tiles_keys(plain));
    /* The longest work is no longer than an even share for a quarter of the device's rounds. */
    for (uint32_t w = 0; w < shared->works; w++)
        assert_true(cuda_tiles_works(shared)[w].end - cuda_tiles_works(shared)[w].begin <= 2);
    free(shared);
    /* Eight heads over a KV head: half as many rows in a tile. */
    struct cuda_tiles_args args = ARGS;
    args.group = 8;
    shared = plan(&batch, args, true);
    assert_int_equal(cuda_tiles_keys(shared), 8 * 4096 + 64 * 128 - 32);
    assert_true(3 * cuda_tiles_keys(shared) <= cuda_tiles_keys(plain));
    free(shared);
    free(plain);
}

/* Two pairs that share much, and little with each other: together only where that saves. */
static void test_neighbours_share_what_pays(void **state)
{
    (void)state;
    struct batch batch = {.count = 0};
    batch_add(&batch, 0, 5000, 0);
    batch_add(&batch, 1, 5000, 4608);
    batch_add(&batch, 2, 5000, 512);
    batch_add(&batch, 3, 5000, 4608);
    struct cuda_tiles_head *out = plan(&batch, ARGS, true);
    check_plan(&batch, &ARGS, out);
    assert_int_equal(cuda_tiles_keys(out), 2 * 4608 + 4 * (5001 - 4608));
    free(out);
}

static void test_works_fill_the_device_and_fit(void **state)
{
    (void)state;
    struct batch batch = {.count = 0};
    struct cuda_tiles_args args = ARGS;
    batch_add(&batch, 0, 8191, 0);
    struct cuda_tiles_head *out = plan(&batch, args, false);
    assert_int_equal(out->works, 32); /* a segment each: more parts there are not */
    assert_int_equal(out->states, 32);
    free(out);
    args.states_max = 31;
    out = plan(&batch, args, false);
    assert_int_equal(out->works, 1);
    assert_int_equal(out->states, 0);
    assert_int_equal(cuda_tiles_works(out)->is_whole, 1);
    free(out);
    /* A stream beside a much longer one is not cut for it. */
    batch_add(&batch, 1, 255, 0);
    out = plan(&batch, ARGS, false);
    assert_int_equal(out->works, 33);
    assert_int_equal(cuda_tiles_rows(out)[1].states, CUDA_TILES_NONE);
    free(out);
    /* 64 streams of 2,048 keys over 8 KV heads are blocks enough. */
    batch.count = 0;
    for (uint32_t s = 0; s < 64; s++)
        batch_add(&batch, s, 2047, 0);
    out = plan(&batch, ARGS, false);
    assert_int_equal(out->works, 64);
    assert_int_equal(out->states, 0);
    free(out);
    batch.count = 0;
    out = plan(&batch, ARGS, false);
    assert_int_equal(out->works, 0);
    free(out);
}

/* What a window hides is in no work: a long text has blocks for what it sees, and room for the
 * states of that alone. */
static void test_what_a_window_hides_is_not_planned(void **state)
{
    (void)state;
    struct batch batch = {.count = 0};
    struct cuda_tiles_args args = ARGS;
    args.window = 4096;
    args.states_max = 17;
    batch_add(&batch, 0, 131071, 0);
    struct cuda_tiles_head *out = plan(&batch, args, false);
    assert_int_equal(out->works, 16);
    assert_int_equal(out->states, 16);
    assert_int_equal(cuda_tiles_keys(out), 4096);
    free(out);
    /* 64 streams, of which each sees 16 or 17 segments, over 8 KV heads: blocks enough, uncut. */
    batch.count = 0;
    for (uint32_t s = 0; s < 64; s++)
        batch_add(&batch, s, 20000 + 100 * s, s > 0 ? 18944 : 0);
    args.states_max = UINT32_MAX;
    out = plan(&batch, args, false);
    assert_int_equal(out->works, 64);
    assert_int_equal(out->states, 0);
    assert_true(cuda_tiles_keys(out) <= 64 * (4096 + CUDA_PLAN_SEGMENT));
    const uint64_t apart = cuda_tiles_keys(out);
    free(out);
    /* Together they read no more; those whose windows begin behind what is shared stay apart. */
    out = plan(&batch, args, true);
    assert_true(cuda_tiles_keys(out) < apart);
    for (uint32_t w = 0; w < out->works; w++)
        assert_true(cuda_tiles_works(out)[w].rows == 1 || cuda_tiles_works(out)[w].end <= 74);
    free(out);
}

static void test_buckets_are_few(void **state)
{
    (void)state;
    uint32_t last = 0;
    uint32_t buckets = 0;
    for (uint32_t works = 1; works <= 4096; works++) {
        const uint32_t bucket = cuda_tiles_bucket(works);
        assert_true(bucket >= works);
        assert_true(works < 3 || 2 * bucket <= 3 * works);
        buckets += bucket != last;
        last = bucket;
    }
    assert_int_equal(buckets, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_segment_is_read_for_every_row_once),
        cmocka_unit_test(test_a_shared_prefix_is_read_once_a_tile),
        cmocka_unit_test(test_neighbours_share_what_pays),
        cmocka_unit_test(test_works_fill_the_device_and_fit),
        cmocka_unit_test(test_what_a_window_hides_is_not_planned),
        cmocka_unit_test(test_buckets_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
