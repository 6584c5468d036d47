#include "kernels/cuda/cuda_plan.h"

#include "tests/unit/kernels_kit.h"

/* Sequence s's page p is 100 s + p. */
enum { SEQUENCES = 4, PAGES = 50, ROWS_MAX = 64 };

struct bed {
    struct kv_layout layout;
    uint32_t table[SEQUENCES][PAGES];
    const uint32_t *tables[SEQUENCES];
};

static void bed_init(struct bed *bed)
{
    *bed = (struct bed){.layout = {.page_tokens = 16}};
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        bed->tables[s] = bed->table[s];
        for (uint32_t p = 0; p < PAGES; p++)
            bed->table[s][p] = 100 * s + p;
    }
}

static struct kv_rows bed_rows(const struct bed *bed, const uint32_t *sequence,
                               const uint32_t *position)
{
    return (struct kv_rows){.layout = &bed->layout,
                            .sequence = sequence,
                            .position = position,
                            .page_tables = bed->tables};
}

static void test_rows_carry_their_tables(void **state)
{
    (void)state;
    static const uint32_t sequence[] = {2, 2, 0, 1, 1, 2};
    static const uint32_t position[] = {15, 16, 0, 33, 31, 5};
    struct bed bed;
    struct cuda_plan_row rows[6];
    uint32_t tables[16];
    bed_init(&bed);
    struct kv_rows kv = bed_rows(&bed, sequence, position);
    assert_int_equal(cuda_plan_rows(&kv, 6, rows, tables, 16), 2 + 1 + 3 + 1);
    for (uint32_t r = 0; r < 6; r++) {
        const uint32_t page = position[r] / 16;
        assert_int_equal(rows[r].position, position[r]);
        assert_int_equal(tables[rows[r].table + page], 100 * sequence[r] + page);
    }
    assert_int_equal(rows[0].table, rows[1].table);
    assert_int_equal(rows[3].table, rows[4].table);
    assert_int_equal(cuda_plan_rows(&kv, 6, rows, tables, 7), 7);
    assert_int_equal(cuda_plan_rows(&kv, 6, rows, tables, 6), CUDA_PLAN_NONE);
    assert_int_equal(cuda_plan_rows(&kv, 0, rows, tables, 0), 0);
}

/* Each row is in one tile, tiles are of one sequence, rising, and not larger than a block. */
static void test_tiles_cover_the_rows_once(void **state)
{
    (void)state;
    struct rng rng = {.seed = 5};
    struct bed bed;
    bed_init(&bed);
    for (int round = 0; round < 300; round++) {
        uint32_t sequence[ROWS_MAX];
        uint32_t position[ROWS_MAX];
        struct cuda_plan_row rows[ROWS_MAX];
        struct cuda_plan_tile tiles[ROWS_MAX];
        uint32_t tables[ROWS_MAX * PAGES];
        const uint32_t count = (uint32_t)(rng_next(&rng) % (ROWS_MAX + 1));
        const uint32_t group = 1 + (uint32_t)(rng_next(&rng) % CUDA_PLAN_QUERIES);
        uint32_t keys_max;
        uint32_t at = 0;
        for (uint32_t r = 0; r < count; r++) {
            const bool goes_on = r > 0 && rng_next(&rng) % 4 != 0;
            sequence[r] = goes_on ? sequence[r - 1] : (uint32_t)(rng_next(&rng) % SEQUENCES);
            position[r] = goes_on ? position[r - 1] + 1 : (uint32_t)(rng_next(&rng) % 700);
        }
        struct kv_rows kv = bed_rows(&bed, sequence, position);
        assert_true(cuda_plan_rows(&kv, count, rows, tables, ROWS_MAX * PAGES) < CUDA_PLAN_NONE);
        const uint32_t made = cuda_plan_tiles(rows, count, group, tiles, &keys_max);
        for (uint32_t t = 0; t < made; t++) {
            const struct cuda_plan_tile *tile = &tiles[t];
            assert_int_equal(tile->first, at);
            assert_in_range(tile->rows, 1, CUDA_PLAN_QUERIES / group);
            at += tile->rows;
            assert_int_equal(tile->keys, position[at - 1] + 1);
            assert_true(tile->keys <= keys_max);
            for (uint32_t r = tile->first + 1; r < at; r++) {
                assert_int_equal(sequence[r], sequence[r - 1]);
                assert_true(position[r] > position[r - 1]);
            }
        }
        assert_int_equal(at, count);
    }
}

static void test_splits_fill_the_device_and_fit(void **state)
{
    (void)state;
    /* Enough blocks already; one segment; no room for partial results. */
    assert_int_equal(cuda_plan_splits(4 * 132, 132, 8192, 1, UINT64_MAX), 1);
    assert_int_equal(cuda_plan_splits(8, 132, CUDA_PLAN_SEGMENT, 1, UINT64_MAX), 1);
    assert_int_equal(cuda_plan_splits(8, 132, 8192, 1000, 31999), 1);
    assert_int_equal(cuda_plan_splits(0, 132, 0, 0, 0), 1);
    assert_int_equal(cuda_plan_splits(8, 132, 8192, 1000, 32000), 32);
    assert_int_equal(cuda_plan_splits(100, 132, 8192, 1, UINT64_MAX), 6);
    for (uint32_t keys = 1; keys < 9000; keys += 37)
        for (uint32_t blocks = 1; blocks < 600; blocks += 11) {
            const uint32_t splits = cuda_plan_splits(blocks, 132, keys, 1, UINT64_MAX);
            const uint32_t each = cuda_plan_split_segments(keys, splits);
            const uint32_t segments = cuda_plan_split_segments(keys, 1);
            assert_true(splits * each >= segments);      /* all are computed */
            assert_true((splits - 1) * each < segments); /* no part is empty */
        }
}

static void test_copies_are_as_long_as_pages_follow_each_other(void **state)
{
    (void)state;
    static const uint32_t to[] = {4, 5, 6, 9, 10, 3};
    static const uint32_t from[] = {7, 8, 9, 10, 12, 13};
    static const uint32_t lengths[] = {3, 1, 1, 1};
    const struct pages_copy_args args = {.to_pages = to, .from_pages = from, .count = 6};
    uint32_t index = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct cuda_plan_run run = cuda_plan_copy(&args, index);
        assert_int_equal(run.to, to[index]);
        assert_int_equal(run.from, from[index]);
        assert_int_equal(run.count, lengths[i]);
        index += run.count;
    }
    assert_int_equal(index, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_carry_their_tables),
        cmocka_unit_test(test_tiles_cover_the_rows_once),
        cmocka_unit_test(test_splits_fill_the_device_and_fit),
        cmocka_unit_test(test_copies_are_as_long_as_pages_follow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
