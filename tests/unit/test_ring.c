#include "config/base/ring.h"

#include "tests/unit/base_kit.h"

#include <pthread.h>
#include <sched.h>

#include "config/base/rng.h"

static void test_order_and_limit(void **state)
{
    (void)state;
    struct ring ring;
    int item;
    assert_int_equal(ring_init(&ring, 4, sizeof(int)), STATUS_OK);
    assert_false(ring_pop(&ring, &item));
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 4; i++)
            assert_true(ring_push(&ring, &(int){round * 10 + i}));
        assert_int_equal(ring_count(&ring), 4);
        assert_false(ring_push(&ring, &(int){-1}));
        for (int i = 0; i < 4; i++) {
            assert_true(ring_pop(&ring, &item));
            assert_int_equal(item, round * 10 + i);
        }
        assert_false(ring_pop(&ring, &item));
        assert_int_equal(ring_count(&ring), 0);
    }
    ring_deinit(&ring);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct ring ring;
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(ring_init(&ring, 4, 100), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
}

/* Items of many sizes against an array of their first bytes. */
static void test_model(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    for (size_t bytes = 1; bytes < 50; bytes += 7) {
        struct ring ring;
        unsigned char model[16];
        size_t count = 0;
        assert_int_equal(ring_init(&ring, 16, bytes), STATUS_OK);
        for (int step = 0; step < 5000; step++) {
            unsigned char item[50];
            if (rng_below(&rng, 2) == 0) {
                memset(item, (int)rng_below(&rng, 256), sizeof item);
                bool was_full = count == 16;
                assert_int_equal(ring_push(&ring, item), !was_full);
                if (!was_full)
                    model[count++] = item[0];
            } else {
                bool was_empty = count == 0;
                assert_int_equal(ring_pop(&ring, item), !was_empty);
                if (was_empty)
                    continue;
                for (size_t i = 0; i < bytes; i++)
                    assert_int_equal(item[i], model[0]);
                memmove(model, model + 1, --count);
            }
            assert_int_equal(ring_count(&ring), count);
        }
        ring_deinit(&ring);
    }
}

/* Three producers, three consumers: every item arrives once, those of a producer in its order. */
enum { PRODUCERS = 3, CONSUMERS = 3, ITEMS = 30000 };

struct item {
    uint32_t producer;
    uint32_t number;
    uint64_t check; /* a function of the two: a torn copy shows */
};

struct traffic {
    struct ring ring;
    atomic_uint next_producer;
    atomic_uint popped;
    atomic_uint torn;
    atomic_uint disordered;
    atomic_uchar seen[PRODUCERS][ITEMS];
};

static void *produce(void *context)
{
    struct traffic *traffic = context;
    uint32_t producer = atomic_fetch_add(&traffic->next_producer, 1);
    for (uint32_t i = 0; i < ITEMS; i++) {
        struct item item = {producer, i, rng_at(producer, i, 0)};
        while (!ring_push(&traffic->ring, &item))
            sched_yield();
    }
    return NULL;
}

static void *consume(void *context)
{
    struct traffic *traffic = context;
    int64_t last[PRODUCERS] = {-1, -1, -1};
    while (atomic_load(&traffic->popped) < PRODUCERS * ITEMS) {
        struct item item;
        if (!ring_pop(&traffic->ring, &item)) {
            sched_yield();
            continue;
        }
        atomic_fetch_add(&traffic->popped, 1);
        if (item.producer >= PRODUCERS || item.number >= ITEMS ||
            item.check != rng_at(item.producer, item.number, 0)) {
            atomic_fetch_add(&traffic->torn, 1);
            continue;
        }
        atomic_fetch_add(&traffic->seen[item.producer][item.number], 1);
        if ((int64_t)item.number <= last[item.producer])
            atomic_fetch_add(&traffic->disordered, 1);
        last[item.producer] = item.number;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct traffic *traffic = aligned_alloc(64, (sizeof *traffic + 63) / 64 * 64);
    memset(traffic, 0, sizeof *traffic);
    pthread_t threads[PRODUCERS + CONSUMERS];
    assert_int_equal(ring_init(&traffic->ring, 64, sizeof(struct item)), STATUS_OK);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < PRODUCERS ? produce : consume, traffic), 0);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&traffic->popped), PRODUCERS * ITEMS);
    assert_int_equal(atomic_load(&traffic->torn), 0);
    assert_int_equal(atomic_load(&traffic->disordered), 0);
    for (int i = 0; i < PRODUCERS; i++) {
        for (int j = 0; j < ITEMS; j++)
            assert_int_equal(atomic_load(&traffic->seen[i][j]), 1);
    }
    ring_deinit(&traffic->ring);
    free(traffic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_limit),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
