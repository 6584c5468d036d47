#include "kernels/cuda/cuda_step.h"

#include <string.h>

#include "tests/unit/kernels_kit.h"

enum { ROWS_MAX = 40, SEQUENCES = 6, PAGES = 80, TABLES_MAX = ROWS_MAX * PAGES, HEADS = 8 };

struct bed {
    struct kv_layout layout;
    uint32_t table[SEQUENCES][PAGES];
    const uint32_t *tables[SEQUENCES];
    uint32_t tokens[ROWS_MAX];
    uint32_t sequence[ROWS_MAX];
    uint32_t position[ROWS_MAX];
    uint32_t logit_row[ROWS_MAX];
    struct kernels_step step;
    char *area;
    size_t area_bytes;
};

static const struct cuda_step_room ROOM = {
    .processors = 132, .tables_max = TABLES_MAX, .split_bytes = 64 << 20};

static void bed_init(struct bed *bed)
{
    struct cuda_step_form form;
    *bed = (struct bed){.layout = {.page_tokens = 16, .kv_heads = 2, .head_dim = 64}};
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        bed->tables[s] = bed->table[s];
        for (uint32_t p = 0; p < PAGES; p++)
            bed->table[s][p] = 100 * s + p;
    }
    cuda_step_form(&form, ROWS_MAX, ROWS_MAX, 2, ROOM.processors);
    bed->area_bytes = form.tables + TABLES_MAX * sizeof(uint32_t);
    bed->area = malloc(bed->area_bytes);
    assert_non_null(bed->area);
}

static void bed_make(struct bed *bed, struct rng *rng)
{
    const uint32_t rows = 1 + (uint32_t)rng_below(rng, ROWS_MAX / 2);
    uint32_t wanted = 0;
    for (uint32_t r = 0; r < rows; r++) {
        const bool goes_on = r > 0 && rng_below(rng, 3) != 0;
        bed->tokens[r] = (uint32_t)rng_below(rng, 1000);
        bed->sequence[r] = goes_on ? bed->sequence[r - 1] : (uint32_t)rng_below(rng, SEQUENCES);
        bed->position[r] = goes_on && bed->position[r - 1] + 1 < 16 * PAGES
                               ? bed->position[r - 1] + 1
                               : (uint32_t)rng_below(rng, 16 * PAGES);
        if (rng_below(rng, 2) == 0)
            bed->logit_row[wanted++] = r;
    }
    bed->step = (struct kernels_step){.rows = rows,
                                      .tokens = bed->tokens,
                                      .kv = {.layout = &bed->layout,
                                             .sequence = bed->sequence,
                                             .position = bed->position,
                                             .page_tables = bed->tables},
                                      .logit_rows = wanted,
                                      .logit_row = bed->logit_row,
                                      .heads = HEADS};
    memset(bed->area, 0xff, bed->area_bytes);
}

static void check_row(const struct bed *bed, const struct cuda_step_form *form,
                      const struct cuda_plan_row *row, uint32_t of)
{
    const uint32_t *tables = (const uint32_t *)(bed->area + form->tables);
    assert_int_equal(row->position, bed->position[of]);
    assert_int_equal(tables[row->table + row->position / 16],
                     bed->table[bed->sequence[of]][row->position / 16]);
}

/* Rows of a set: as given, then none; attention's plan is of these rows, and padding in none. */
static void check_set(const struct bed *bed, const struct cuda_step_form *form, uint32_t index,
                      uint32_t rows, const uint32_t *of, const struct cuda_step_set *set)
{
    const struct cuda_plan_row *row = (const struct cuda_plan_row *)(bed->area + form->row[index]);
    const struct cuda_tiles_head *plan =
        (const struct cuda_tiles_head *)(bed->area + form->plan[index][0]);
    assert_int_equal(set->rows, form->rows[index]);
    for (uint32_t r = 0; r < set->rows; r++)
        if (r < rows)
            check_row(bed, form, &row[r], of != NULL ? of[r] : r);
        else
            assert_int_equal(row[r].position, CUDA_PLAN_NONE);
    assert_int_equal(plan->rows, rows);
    assert_int_equal(plan->works, set->plans[0].works);
    assert_int_equal(plan->states > 0, set->plans[0].has_states);
    assert_true(set->plans[0].works >= (rows > 0));
    for (uint32_t r = 0; r < rows; r++)
        assert_true(cuda_tiles_rows(plan)[r].row < rows);
    for (uint32_t w = 0; w < plan->works; w++)
        assert_true(cuda_tiles_works(plan)[w].first + cuda_tiles_works(plan)[w].rows <= rows);
}

static void test_the_area_says_what_the_step_says(void **state)
{
    (void)state;
    struct rng rng = {.seed = 8};
    struct bed bed;
    bed_init(&bed);
    for (int round = 0; round < 400; round++) {
        struct cuda_step_form form;
        struct cuda_step_set sets[CUDA_STEP_SETS];
        bed_make(&bed, &rng);
        const struct kernels_step *step = &bed.step;
        const uint32_t wanted = cuda_step_wanted(step);
        assert_true(wanted == step->logit_rows || step->logit_rows == step->rows);
        const uint32_t more = (uint32_t)rng_below(&rng, ROWS_MAX / 2);
        cuda_step_form(&form, step->rows + more, wanted > 0 ? wanted + more : 0, 1,
                       ROOM.processors);
        const size_t bytes = cuda_step_fill(&form, step, &ROOM, bed.area, sets);
        const uint32_t *tokens = (const uint32_t *)(bed.area + form.tokens);
        const uint32_t *positions = (const uint32_t *)(bed.area + form.positions);
        const uint32_t *logit_row = (const uint32_t *)(bed.area + form.logit_row);
        assert_in_range(bytes, form.tables + sizeof(uint32_t), bed.area_bytes);
        for (uint32_t r = 0; r < form.rows[CUDA_STEP_ALL]; r++) {
            assert_int_equal(tokens[r], r < step->rows ? bed.tokens[r] : 0);
            assert_int_equal(positions[r], r < step->rows ? bed.position[r] : 0);
        }
        for (uint32_t r = 0; r < form.rows[CUDA_STEP_WANTED]; r++)
            assert_int_equal(logit_row[r], r < wanted ? bed.logit_row[r] : 0);
        check_set(&bed, &form, CUDA_STEP_ALL, step->rows, NULL, &sets[CUDA_STEP_ALL]);
        check_set(&bed, &form, CUDA_STEP_WANTED, wanted, bed.logit_row, &sets[CUDA_STEP_WANTED]);
    }
    free(bed.area);
}

/* Places depend on the padded counts alone, do not overlap and are whole times 16 bytes. */
static void test_places_are_those_of_the_padded_counts(void **state)
{
    (void)state;
    for (uint32_t rows = 0; rows < 70; rows++)
        for (uint32_t wanted = 0; wanted <= rows; wanted += 3) {
            struct cuda_step_form form;
            cuda_step_form(&form, rows, wanted, 2, 132);
            const size_t places[] = {0,
                                     form.tokens,
                                     form.positions,
                                     form.logit_row,
                                     form.row[0],
                                     form.plan[0][0],
                                     form.plan[0][1],
                                     form.row[1],
                                     form.plan[1][0],
                                     form.plan[1][1],
                                     form.tables};
            const size_t bytes[] = {sizeof(struct cuda_step_head),
                                    rows * sizeof(uint32_t),
                                    rows * sizeof(uint32_t),
                                    wanted * sizeof(uint32_t),
                                    rows * sizeof(struct cuda_plan_row),
                                    cuda_tiles_bytes(rows, rows > 0 ? 132 : 0),
                                    cuda_tiles_bytes(rows, rows > 0 ? 132 : 0),
                                    wanted * sizeof(struct cuda_plan_row),
                                    cuda_tiles_bytes(wanted, wanted > 0 ? 132 : 0),
                                    cuda_tiles_bytes(wanted, wanted > 0 ? 132 : 0)};
            for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
                assert_int_equal(places[i] % 16, 0);
                assert_true(places[i] + bytes[i] <= places[i + 1]);
            }
        }
}

static void test_tables_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct bed bed;
    struct cuda_step_form form;
    struct cuda_step_set sets[CUDA_STEP_SETS];
    struct cuda_step_room room = ROOM;
    bed_init(&bed);
    bed.step = (struct kernels_step){.rows = 1,
                                     .kv = {.layout = &bed.layout,
                                            .sequence = bed.sequence,
                                            .position = bed.position,
                                            .page_tables = bed.tables},
                                     .heads = HEADS};
    bed.position[0] = 16 * 5;
    cuda_step_form(&form, 1, 0, 1, 132);
    room.tables_max = 6;
    assert_int_equal(cuda_step_fill(&form, &bed.step, &room, bed.area, sets),
                     form.tables + 6 * sizeof(uint32_t));
    room.tables_max = 5;
    assert_int_equal(cuda_step_fill(&form, &bed.step, &room, bed.area, sets), 0);
    free(bed.area);
}

/* Each set is planned by its own groups, and both by the window. */
static void test_sets_are_planned_by_their_groups_and_the_window(void **state)
{
    (void)state;
    enum { KEYS = 1024, SHARED = 512 };
    struct bed bed;
    struct cuda_step_form form;
    struct cuda_step_set sets[CUDA_STEP_SETS];
    bed_init(&bed);
    const uint32_t order[] = {0, 1, 2}, shared[] = {0, SHARED, SHARED};
    const struct attention_groups groups = {order, shared}, wanted = {order, shared};
    bed.step = (struct kernels_step){.rows = 3,
                                     .kv = {.layout = &bed.layout,
                                            .sequence = bed.sequence,
                                            .position = bed.position,
                                            .page_tables = bed.tables},
                                     .logit_rows = 2,
                                     .logit_row = bed.logit_row,
                                     .heads = HEADS};
    for (uint32_t r = 0; r < 3; r++) {
        bed.sequence[r] = r;
        bed.position[r] = KEYS - 1;
        bed.logit_row[r] = r + 1;
    }
    cuda_step_form(&form, 3, 2, 2, ROOM.processors);
    const struct cuda_tiles_head *all = (struct cuda_tiles_head *)(bed.area + form.plan[0][0]);
    const struct cuda_tiles_head *some = (struct cuda_tiles_head *)(bed.area + form.plan[1][0]);
    assert_true(cuda_step_fill(&form, &bed.step, &ROOM, bed.area, sets) > 0);
    assert_int_equal(cuda_tiles_keys(all), 3 * KEYS);
    assert_int_equal(cuda_tiles_keys(some), 2 * KEYS);
    bed.step.groups = &groups;
    bed.step.wanted_groups = &wanted;
    assert_true(cuda_step_fill(&form, &bed.step, &ROOM, bed.area, sets) > 0);
    assert_int_equal(cuda_tiles_keys(all), 3 * KEYS - 2 * SHARED);
    assert_int_equal(cuda_tiles_keys(some), 2 * KEYS - SHARED);
    bed.step.window[0] = KEYS / 4;
    assert_true(cuda_step_fill(&form, &bed.step, &ROOM, bed.area, sets) > 0);
    assert_int_equal(cuda_tiles_keys(all), 3 * KEYS / 4);
    assert_int_equal(cuda_tiles_keys(some), 2 * KEYS / 4);
    free(bed.area);
}

/* Layers of two kinds have a plan each. Keys in window units are read by each sequence alone. */
static void test_each_kind_of_layers_has_its_plan(void **state)
{
    (void)state;
    enum { KEYS = 1024, SHARED = 768, WINDOW = 512 };
    struct bed bed;
    struct cuda_step_form form;
    struct cuda_step_set sets[CUDA_STEP_SETS];
    bed_init(&bed);
    const uint32_t *tables[2 * SEQUENCES];
    const uint32_t order[] = {0, 1}, shared[] = {0, SHARED};
    const struct attention_groups groups = {order, shared};
    for (uint32_t s = 0; s < 2 * SEQUENCES; s++)
        tables[s] = bed.tables[s % SEQUENCES];
    bed.step = (struct kernels_step){.rows = 2,
                                     .kv = {.layout = &bed.layout,
                                            .sequence = bed.sequence,
                                            .position = bed.position,
                                            .page_tables = tables,
                                            .sequences = SEQUENCES},
                                     .groups = &groups,
                                     .window = {0, WINDOW},
                                     .heads = HEADS};
    for (uint32_t r = 0; r < 2; r++) {
        bed.sequence[r] = r;
        bed.position[r] = KEYS - 1;
    }
    assert_int_equal(cuda_step_kinds(&bed.step), 2);
    cuda_step_form(&form, 2, 0, 2, ROOM.processors);
    const struct cuda_tiles_head *every = (struct cuda_tiles_head *)(bed.area + form.plan[0][0]);
    const struct cuda_tiles_head *window = (struct cuda_tiles_head *)(bed.area + form.plan[0][1]);
    const size_t bytes = cuda_step_fill(&form, &bed.step, &ROOM, bed.area, sets);
    assert_int_equal(cuda_tiles_keys(every), 2 * KEYS - SHARED);
    assert_int_equal(cuda_tiles_keys(window), 2 * WINDOW - (SHARED - WINDOW));
    assert_int_equal(sets[0].plans[1].works, window->works);
    bed.layout.window_units = 1;
    bed.layout.window = WINDOW;
    assert_int_equal(cuda_step_fill(&form, &bed.step, &ROOM, bed.area, sets),
                     bytes + 2 * WINDOW / 16 * sizeof(uint32_t));
    assert_int_equal(cuda_tiles_keys(every), 2 * KEYS - SHARED);
    assert_int_equal(cuda_tiles_keys(window), 2 * WINDOW);
    free(bed.area);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_area_says_what_the_step_says),
        cmocka_unit_test(test_places_are_those_of_the_padded_counts),
        cmocka_unit_test(test_tables_that_do_not_fit_are_refused),
        cmocka_unit_test(test_sets_are_planned_by_their_groups_and_the_window),
        cmocka_unit_test(test_each_kind_of_layers_has_its_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
