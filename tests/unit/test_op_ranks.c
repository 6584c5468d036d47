#include "kernels/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "kernels/kernels_step.h"
#include "tests/kit/rank_group.h"

/* A row; what one thread does alone; what takes two meetings and has a rest. */
static const struct {
    uint32_t rows;
    uint32_t cols;
} shapes[] = {{1, 1}, {1, 64}, {3, 4000}, {129, 2100}, {0, 64}};

enum { SHAPES = sizeof shapes / sizeof shapes[0], FLOATS_MAX = 129 * 2100 };

/* Of such different sizes that another order of sums has other bits. */
static float part_of(uint32_t shape, uint32_t rank, uint32_t i)
{
    uint64_t bits = rng_at(1 + shape, rank, i);
    return (float)((double)(bits >> 40) * (bits & 1 ? 1e-3 : -1e3) /
                   (double)(1 + (bits >> 1) % 997));
}

static struct kernels *open_kernels(struct ranks *ranks, uint32_t threads)
{
    struct kernels *kernels = NULL;
    const struct kernels_options options = {
        .isa = "ref_int8", .threads = threads, .rows_max = 129, .cols_max = 4000, .ranks = ranks};
    return kernels_create(&kernels, &options) == STATUS_OK ? kernels : NULL;
}

static int sum_all(struct ranks *ranks, void *context)
{
    static float x[FLOATS_MAX];
    const uint32_t *threads = context;
    struct kernels *kernels = open_kernels(ranks, *threads);
    int code = kernels != NULL ? 0 : 1;
    for (uint32_t s = 0; s < SHAPES && code == 0; s++) {
        uint32_t count = shapes[s].rows * shapes[s].cols;
        for (uint32_t i = 0; i < count; i++)
            x[i] = part_of(s, ranks_own(ranks), i);
        kernels_all_reduce(kernels, &(struct all_reduce_args){
                                        .x = x, .rows = shapes[s].rows, .cols = shapes[s].cols});
        for (uint32_t i = 0; i < count && code == 0; i++) {
            float sum = part_of(s, 0, i);
            for (uint32_t rank = 1; rank < ranks_count(ranks); rank++)
                sum += part_of(s, rank, i);
            code = memcmp(&sum, &x[i], sizeof sum) == 0 ? 0 : 2;
        }
    }
    if (kernels != NULL)
        kernels_destroy(kernels);
    return code;
}

static void test_sums_from_the_first_rank_on(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 4; count++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            struct rank_group group;
            rank_group_fork(&group, count, sum_all, &threads);
            assert_int_equal(sum_all(group.ranks, &threads), 0);
            assert_int_equal(rank_group_end(&group), 0);
        }
}

/* A token each, more ranks than columns, and parts that are wider than what is laid out at once. */
static const struct {
    uint32_t rows;
    uint32_t cols;
} wholes[] = {{1, 7}, {3, 2}, {70, 8191}, {2, 600001}, {0, 9}};

enum { WHOLES = sizeof wholes / sizeof wholes[0], WHOLE_MAX = 2 * 600001 };

static int gather_all(struct ranks *ranks, void *context)
{
    static float part[WHOLE_MAX];
    static float out[WHOLE_MAX];
    uint32_t own = ranks_own(ranks);
    uint32_t count = ranks_count(ranks);
    struct kernels *kernels = open_kernels(ranks, 1);
    int code = kernels != NULL ? 0 : 1;
    (void)context;
    for (uint32_t w = 0; w < WHOLES && code == 0; w++) {
        uint32_t cols = wholes[w].cols;
        uint32_t begin = (uint32_t)((uint64_t)cols * own / count);
        uint32_t end = (uint32_t)((uint64_t)cols * (own + 1) / count);
        for (uint32_t r = 0; r < wholes[w].rows; r++)
            for (uint32_t i = begin; i < end; i++)
                part[(size_t)r * (end - begin) + i - begin] = (float)(r * 1000003 + i);
        kernels_all_gather(kernels,
                           &(struct all_gather_args){
                               .part = part, .out = out, .rows = wholes[w].rows, .cols = cols});
        for (uint32_t i = 0; i < wholes[w].rows * cols && own == 0 && code == 0; i++)
            code = out[i] == (float)(i / cols * 1000003 + i % cols) ? 0 : 2;
    }
    if (kernels != NULL)
        kernels_destroy(kernels);
    return code;
}

static void test_parts_become_whole(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 4; count++) {
        struct rank_group group;
        rank_group_fork(&group, count, gather_all, NULL);
        assert_int_equal(gather_all(group.ranks, NULL), 0);
        assert_int_equal(rank_group_end(&group), 0);
    }
}

static int end_at_once(struct ranks *ranks, void *context)
{
    (void)ranks;
    (void)context;
    return 0;
}

static void nothing(void *context)
{
    (void)context;
}

static void test_a_rank_that_ended_fails_the_step(void **state)
{
    (void)state;
    struct rank_group group;
    float x[64] = {1};
    const struct kernels_step step = {.rows = 1};
    rank_group_fork(&group, 2, end_at_once, NULL);
    struct kernels *kernels = open_kernels(group.ranks, 1);
    assert_non_null(kernels);
    assert_int_equal(kernels_step_run(kernels, &step, nothing, NULL), STATUS_OK);
    kernels_all_reduce(kernels, &(struct all_reduce_args){.x = x, .rows = 1, .cols = 64});
    kernels_all_reduce(kernels, &(struct all_reduce_args){.x = x, .rows = 1, .cols = 64});
    assert_int_equal(kernels_step_run(kernels, &step, nothing, NULL), STATUS_UNAVAILABLE);
    kernels_destroy(kernels);
    assert_int_equal(rank_group_end(&group), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_from_the_first_rank_on),
        cmocka_unit_test(test_parts_become_whole),
        cmocka_unit_test(test_a_rank_that_ended_fails_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
