#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "config/base/clock.h"
#include "engine/request/inbox.h"

static void test_order_and_room(void **state)
{
    (void)state;
    struct inbox inbox;
    assert_int_equal(inbox_init(&inbox, 5), STATUS_OK);
    uint32_t slot;
    assert_false(inbox_pop(&inbox, &slot));
    for (uint32_t i = 0; i < 5; i++)
        inbox_push(&inbox, 100 + i);
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(inbox_pop(&inbox, &slot));
        assert_int_equal(slot, 100 + i);
    }
    assert_false(inbox_pop(&inbox, &slot));
    inbox_deinit(&inbox);
}

static void test_wait(void **state)
{
    (void)state;
    struct inbox inbox;
    assert_int_equal(inbox_init(&inbox, 2), STATUS_OK);
    inbox_ring(&inbox);
    inbox_wait(&inbox, -1); /* rung before: returns */
    int64_t begin_us = clock_mono_us(clock_system());
    inbox_wait(&inbox, 20000);
    assert_true(clock_mono_us(clock_system()) - begin_us >= 20000);
    inbox_deinit(&inbox);
}

enum { PRODUCERS = 3, ITEMS = 3000 };

struct producer {
    struct inbox *inbox;
    _Atomic uint32_t *taken;
    uint32_t first;
};

static void *produce(void *context)
{
    struct producer *producer = context;
    for (uint32_t i = 0; i < ITEMS; i++) {
        /* No more in flight than there are slots, as the request table guarantees. */
        while (i - atomic_load(producer->taken) >= 8)
            sched_yield();
        inbox_push(producer->inbox, producer->first + i);
    }
    return NULL;
}

/* A lost wake-up would leave the waiter without limit asleep: the test would not end. */
static void test_no_ring_is_lost(void **state)
{
    (void)state;
    struct inbox inbox;
    assert_int_equal(inbox_init(&inbox, PRODUCERS * 8), STATUS_OK);
    pthread_t threads[PRODUCERS];
    struct producer producers[PRODUCERS];
    _Atomic uint32_t taken[PRODUCERS];
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        atomic_init(&taken[i], 0);
        producers[i] = (struct producer){&inbox, &taken[i], i * ITEMS};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (uint32_t count = 0; count < PRODUCERS * ITEMS;) {
        uint32_t slot;
        if (!inbox_pop(&inbox, &slot)) {
            inbox_wait(&inbox, -1);
            continue;
        }
        uint32_t who = slot / ITEMS;
        assert_int_equal(slot % ITEMS, atomic_load(&taken[who])); /* in order, each once */
        atomic_fetch_add(&taken[who], 1);
        count++;
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    inbox_deinit(&inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_room),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_no_ring_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
