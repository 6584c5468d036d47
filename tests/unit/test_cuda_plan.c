#include "kernels/cuda/cuda_plan.h"

#include "tests/unit/kernels_kit.h"

/* Sequence s's page p is 100 s + p. */
enum { SEQUENCES = 4, PAGES = 50 };

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

/* Window unit u of sequence s's page p is 1000 u + 100 s + p. */
static void test_rows_carry_their_window_units_from_the_first_that_is_read(void **state)
{
    (void)state;
    static const uint32_t sequence[] = {2, 2, 0, 1};
    static const uint32_t position[] = {700, 701, 3, 130};
    enum { UNITS = 2, WINDOW = 100 };
    uint32_t windows[UNITS][SEQUENCES][PAGES];
    const uint32_t *all[(1 + UNITS) * SEQUENCES];
    struct bed bed;
    struct cuda_plan_row rows[4];
    uint32_t tables[200];
    bed_init(&bed);
    bed.layout.window_units = UNITS;
    bed.layout.window = WINDOW;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        all[s] = bed.tables[s];
        for (uint32_t u = 0; u < UNITS; u++) {
            all[(1 + u) * SEQUENCES + s] = windows[u][s];
            for (uint32_t p = 0; p < PAGES; p++)
                windows[u][s][p] = 1000 * (u + 1) + 100 * s + p;
        }
    }
    struct kv_rows kv = bed_rows(&bed, sequence, position);
    kv.page_tables = all;
    kv.sequences = SEQUENCES;
    /* Attention of position 700 reads from key 576 (page 36) on, of 130 from key 0 on. */
    const uint32_t entries = 44 + UNITS * (44 - 36) + 1 + UNITS + 9 + UNITS * 9;
    assert_int_equal(cuda_plan_rows(&kv, 4, rows, tables, 200), entries);
    assert_int_equal(cuda_plan_rows(&kv, 4, rows, tables, entries), entries);
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t p = kernels_window_first(WINDOW, position[r]) / 16; p <= position[r] / 16;
             p++)
            for (uint32_t group = 0; group <= UNITS; group++)
                assert_int_equal(tables[cuda_plan_entry(&rows[r], group, UNITS, p)],
                                 all[group * SEQUENCES + sequence[r]][p]);
    assert_int_equal(cuda_plan_rows(&kv, 4, rows, tables, entries - 1), CUDA_PLAN_NONE);
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
        cmocka_unit_test(test_rows_carry_their_window_units_from_the_first_that_is_read),
        cmocka_unit_test(test_copies_are_as_long_as_pages_follow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
