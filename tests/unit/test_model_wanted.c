#include "engine/models/model_wanted.h"

#include "tests/unit/kernels_kit.h"

enum { SEQUENCES = 9, ROWS_MAX = SEQUENCES * 4, BLOCK = ATTENTION_BLOCK_KEYS, NONE = UINT32_MAX };

struct bed {
    uint32_t sequence[ROWS_MAX], position[ROWS_MAX]; /* of rows */
    uint32_t order[ROWS_MAX], shared[ROWS_MAX];
    uint32_t logit_row[ROWS_MAX];
    struct attention_groups groups;
    struct model_batch batch;
};

static uint32_t seen_of(const struct bed *bed, uint32_t row)
{
    return (bed->position[row] + 1) / BLOCK * BLOCK;
}

/* Sequences of 1 to 4 rows, in any order in `order`; each shares some keys with the one before it
 * there, as far as its first row and the other's last see. */
static void bed_make(struct bed *bed, struct rng *rng)
{
    uint32_t first[SEQUENCES + 1] = {0};
    uint32_t at = 0;
    const uint32_t start = (uint32_t)rng_below(rng, SEQUENCES);
    *bed = (struct bed){.groups = {bed->order, bed->shared}};
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        const uint32_t from = (uint32_t)rng_below(rng, 8 * BLOCK);
        first[s + 1] = first[s] + 1 + (uint32_t)rng_below(rng, 4);
        for (uint32_t r = first[s]; r < first[s + 1]; r++) {
            bed->sequence[r] = s;
            bed->position[r] = from + r - first[s];
        }
    }
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        const uint32_t s = (start + 2 * i) % SEQUENCES;
        for (uint32_t r = first[s]; r < first[s + 1]; r++) {
            bed->order[at] = r;
            bed->shared[at++] = 0;
        }
        const uint32_t begin = at - (first[s + 1] - first[s]);
        const uint32_t seen = begin > 0 ? seen_of(bed, bed->order[begin - 1]) : 0;
        const uint32_t own = seen_of(bed, first[s]);
        if (rng_below(rng, 4) > 0)
            bed->shared[begin] =
                BLOCK * (uint32_t)rng_below(rng, (seen < own ? seen : own) / BLOCK + 1);
    }
    bed->batch = (struct model_batch){.rows = at,
                                      .kv = {.sequence = bed->sequence, .position = bed->position},
                                      .groups = &bed->groups,
                                      .logit_row = bed->logit_row};
}

/* Keys that wanted rows order[a] and order[b] have in common, sequence by sequence. */
static uint32_t common_of(const struct bed *bed, uint32_t a, uint32_t b)
{
    uint32_t keys = seen_of(bed, bed->order[a]);
    if (bed->sequence[bed->order[a]] == bed->sequence[bed->order[b]])
        return 0;
    for (uint32_t i = a + 1; i <= b; i++)
        if (bed->sequence[bed->order[i]] != bed->sequence[bed->order[i - 1]])
            keys = bed->shared[i] < keys ? bed->shared[i] : keys;
    return keys;
}

static void test_neighbours_share_through_those_between(void **state)
{
    (void)state;
    struct rng rng = {.seed = 12};
    uint32_t found = 0;
    for (int round = 0; round < 2000; round++) {
        struct bed bed;
        bool is_wanted[ROWS_MAX] = {false};
        uint32_t order[ROWS_MAX], shared[ROWS_MAX];
        uint32_t before = NONE;
        uint32_t count = 0;
        bool has_common = false;
        bed_make(&bed, &rng);
        for (uint32_t r = 0; r < bed.batch.rows; r++) {
            is_wanted[r] = rng_below(&rng, 3) == 0;
            if (is_wanted[r])
                bed.logit_row[bed.batch.logit_rows++] = r;
        }
        const bool is_shared = model_wanted_groups(&bed.batch, order, shared);
        for (uint32_t i = 0; i < bed.batch.rows; i++) {
            if (!is_wanted[bed.order[i]])
                continue;
            const uint32_t keys = before != NONE ? common_of(&bed, before, i) : 0;
            has_common = has_common || keys > 0;
            if (is_shared) {
                assert_int_equal(bed.logit_row[order[count]], bed.order[i]);
                assert_int_equal(shared[count], keys);
            }
            before = i;
            count++;
        }
        assert_int_equal(is_shared, has_common);
        found += is_shared;
    }
    assert_in_range(found, 100, 1900);
}

/* Rows that want logits twice, or out of turn, share nothing; neither do those of no groups. */
static void test_rows_out_of_turn_share_nothing(void **state)
{
    (void)state;
    uint32_t sequence[] = {0, 1}, position[] = {100, 100}, row[] = {0, 1, 1};
    uint32_t order[3], shared[3] = {0, 64};
    const uint32_t all[] = {0, 1}, keys[] = {0, 64};
    const struct attention_groups groups = {all, keys};
    struct model_batch batch = {.rows = 2,
                                .kv = {.sequence = sequence, .position = position},
                                .groups = &groups,
                                .logit_rows = 2,
                                .logit_row = row};
    assert_true(model_wanted_groups(&batch, order, shared));
    assert_int_equal(shared[1], 64);
    batch.logit_rows = 3;
    assert_false(model_wanted_groups(&batch, order, shared));
    batch.logit_rows = 2;
    row[0] = 1;
    row[1] = 0;
    assert_false(model_wanted_groups(&batch, order, shared));
    row[0] = 0;
    row[1] = 1;
    batch.groups = NULL;
    assert_false(model_wanted_groups(&batch, order, shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbours_share_through_those_between),
        cmocka_unit_test(test_rows_out_of_turn_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
