#include "engine/step/step_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"

enum { SLOTS = 64, CLIENTS = 9 };

static void enter(struct step_queue *queue, uint32_t slot, uint32_t client, int64_t deadline_us)
{
    struct ticket *ticket = &queue->tickets->slots[slot];
    ticket->client = client;
    ticket->asked.service_class = (enum service_class)(client % SERVICE_CLASS_COUNT);
    ticket->asked.deadline_us = deadline_us;
    step_queue_enter(queue, slot);
}

/* Against two arrays: whoever is in, by arrival. */
static void test_random_walk(void **state)
{
    (void)state;
    struct ticket_table tickets;
    struct step_queue queue;
    struct rng rng = {.seed = 7};
    uint32_t order[SLOTS];
    uint32_t count = 0;
    assert_int_equal(ticket_table_init(&tickets, SLOTS, 1000), STATUS_OK);
    assert_int_equal(step_queue_init(&queue, &tickets), STATUS_OK);
    for (uint32_t turn = 0; turn < 20000; turn++) {
        uint32_t slot = (uint32_t)rng_below(&rng, SLOTS);
        if (tickets.slots[slot].is_waiting) {
            uint32_t place = 0;
            while (order[place] != slot)
                place++;
            memmove(&order[place], &order[place + 1], (--count - place) * sizeof(order[0]));
            step_queue_leave(&queue, slot);
        } else {
            enter(&queue, slot, (uint32_t)rng_below(&rng, CLIENTS), 0);
            order[count++] = slot;
        }
        assert_true(step_queue_check(&queue));
        uint32_t at = queue.all.first;
        uint32_t last_of[CLIENTS];
        memset(last_of, 0xff, sizeof(last_of));
        for (uint32_t i = 0; i < count; i++) {
            uint32_t client = tickets.slots[at].client;
            assert_int_equal(at, order[i]);
            assert_int_equal(tickets.slots[at].in_client.before, last_of[client]);
            last_of[client] = at;
            at = tickets.slots[at].in_all.after;
        }
        assert_int_equal(at, TICKET_NONE);
    }
    step_queue_leave(&queue, order[0]);
    step_queue_leave(&queue, order[0]); /* not in it: nothing */
    assert_true(step_queue_check(&queue));
    step_queue_deinit(&queue);
    ticket_table_deinit(&tickets);
}

static void test_deadline(void **state)
{
    (void)state;
    struct ticket_table tickets;
    struct step_queue queue;
    assert_int_equal(ticket_table_init(&tickets, SLOTS, 1000), STATUS_OK);
    assert_int_equal(step_queue_init(&queue, &tickets), STATUS_OK);
    enter(&queue, 5, 0, 900);
    enter(&queue, 6, 0, 0);
    enter(&queue, 7, 1, 400);
    assert_int_equal(queue.deadline_us, 400);
    step_queue_leave(&queue, 7);
    step_queue_leave(&queue, 5);
    step_queue_find_deadline(&queue);
    assert_int_equal(queue.deadline_us, INT64_MAX);
    step_queue_deinit(&queue);
    ticket_table_deinit(&tickets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_walk),
        cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
