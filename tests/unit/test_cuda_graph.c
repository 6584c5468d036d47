#include "kernels/cuda/cuda_graph.h"

#include <string.h>

#include "tests/unit/kernels_kit.h"

static void test_buckets_hold_their_rows_and_few_more(void **state)
{
    (void)state;
    enum { ROOM = 2048 };
    uint32_t buckets = 0;
    uint32_t last = 0;
    for (uint32_t rows = 0; rows <= ROOM; rows++) {
        const uint32_t bucket = cuda_graph_bucket(rows, ROOM);
        assert_true(bucket >= rows);
        assert_true(bucket >= last);
        if (rows > CUDA_GRAPH_ROWS_MAX)
            assert_int_equal(bucket, rows);
        else
            assert_true(bucket < 2 * rows || rows < 2);
        buckets += bucket != last && rows <= CUDA_GRAPH_ROWS_MAX;
        last = bucket;
        assert_int_equal(cuda_graph_bucket(bucket, ROOM), bucket);
    }
    assert_int_equal(buckets, 10);
}

/* Where a bucket would be more than there is room for, all that there is. */
static void test_buckets_stay_within_room(void **state)
{
    (void)state;
    for (uint32_t room = 1; room < 300; room += 7)
        for (uint32_t rows = 0; rows <= room; rows++) {
            const uint32_t bucket = cuda_graph_bucket(rows, room);
            assert_in_range(bucket, rows, room);
            assert_true(bucket == room || bucket == cuda_graph_bucket(rows, 4096));
        }
}

static struct cuda_graph_key key_of(uint32_t rows)
{
    struct cuda_graph_key key;
    memset(&key, 0, sizeof key);
    key.rows = rows;
    return key;
}

static struct cuda_graph *add(struct cuda_graphs *graphs, uint32_t rows, void *launches,
                              size_t bytes)
{
    const struct cuda_graph_key key = key_of(rows);
    struct cuda_graph *graph = cuda_graph_add(graphs, &key);
    graph->launches = launches;
    graph->bytes = bytes;
    graphs->bytes += bytes;
    return graph;
}

static void test_a_key_finds_its_own_graph_alone(void **state)
{
    (void)state;
    static struct cuda_graphs graphs;
    memset(&graphs, 0, sizeof graphs);
    for (uint32_t i = 0; i < LIMIT_CUDA_GRAPHS; i++)
        add(&graphs, i, NULL, 0);
    for (uint32_t i = 0; i < LIMIT_CUDA_GRAPHS + 3; i++) {
        const struct cuda_graph_key key = key_of(i);
        const struct cuda_graph *graph = cuda_graph_find(&graphs, &key);
        if (i < LIMIT_CUDA_GRAPHS)
            assert_int_equal(graph->key.rows, i);
        else
            assert_null(graph);
    }
    struct cuda_graph_key other[6];
    for (int i = 0; i < 6; i++)
        other[i] = key_of(7);
    other[0].context = &graphs;
    other[1].pages = &graphs;
    other[2].layers = 1;
    other[3].wanted = 1;
    other[4].is_all = 1;
    other[5].blocks[1][0] = 2;
    for (int i = 0; i < 6; i++)
        assert_null(cuda_graph_find(&graphs, &other[i]));
}

static void test_the_least_recently_used_goes_of_many_seen_once_those_first(void **state)
{
    (void)state;
    static struct cuda_graphs graphs;
    int some = 0;
    memset(&graphs, 0, sizeof graphs);
    add(&graphs, 1, &some, 100);
    add(&graphs, 2, &some, 20);
    for (uint32_t i = 0; i <= CUDA_GRAPH_WAITING; i++)
        add(&graphs, 3 + i, NULL, 0);
    static const uint32_t used[] = {1, 3};
    for (size_t i = 0; i < 2; i++) {
        const struct cuda_graph_key key = key_of(used[i]);
        assert_non_null(cuda_graph_find(&graphs, &key));
    }
    static const uint32_t order[] = {4, 5, 2, 1, 6};
    static const size_t bytes[] = {120, 120, 100, 0, 0};
    for (size_t i = 0; i < 5; i++) {
        struct cuda_graph *graph = cuda_graph_oldest(&graphs);
        assert_int_equal(graph->key.rows, order[i]);
        cuda_graph_remove(&graphs, graph);
        assert_int_equal(graphs.bytes, bytes[i]);
        assert_int_equal(graphs.count, CUDA_GRAPH_WAITING + 2 - i);
    }
}

/* Two shapes in turn, where all places are taken: both are found at their second step. */
static void test_shapes_that_alternate_do_not_throw_each_other_out(void **state)
{
    (void)state;
    static struct cuda_graphs graphs;
    int some = 0;
    uint32_t found = 0;
    memset(&graphs, 0, sizeof graphs);
    for (uint32_t i = 0; i < LIMIT_CUDA_GRAPHS; i++)
        add(&graphs, i, &some, 0);
    for (uint32_t step = 0; step < 4; step++) {
        const struct cuda_graph_key key = key_of(LIMIT_CUDA_GRAPHS + step % 2);
        if (cuda_graph_find(&graphs, &key) != NULL) {
            found++;
            continue;
        }
        cuda_graph_remove(&graphs, cuda_graph_oldest(&graphs));
        cuda_graph_add(&graphs, &key);
    }
    assert_int_equal(found, 2);
}

/* Shapes that never come again take few places of captured ones. */
static void test_shapes_seen_once_leave_the_captured_ones_alone(void **state)
{
    (void)state;
    static struct cuda_graphs graphs;
    int some = 0;
    uint32_t captured = 0;
    memset(&graphs, 0, sizeof graphs);
    for (uint32_t i = 0; i < LIMIT_CUDA_GRAPHS; i++)
        add(&graphs, i, &some, 0);
    for (uint32_t i = 0; i < 1000; i++) {
        const struct cuda_graph_key key = key_of(LIMIT_CUDA_GRAPHS + i);
        cuda_graph_remove(&graphs, cuda_graph_oldest(&graphs));
        cuda_graph_add(&graphs, &key);
    }
    for (uint32_t i = 0; i < graphs.count; i++)
        captured += graphs.graphs[i].launches != NULL;
    assert_int_equal(captured, LIMIT_CUDA_GRAPHS - CUDA_GRAPH_WAITING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_hold_their_rows_and_few_more),
        cmocka_unit_test(test_buckets_stay_within_room),
        cmocka_unit_test(test_a_key_finds_its_own_graph_alone),
        cmocka_unit_test(test_the_least_recently_used_goes_of_many_seen_once_those_first),
        cmocka_unit_test(test_shapes_that_alternate_do_not_throw_each_other_out),
        cmocka_unit_test(test_shapes_seen_once_leave_the_captured_ones_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
