#include "auth/ledger/usage_waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SECOND_US = 1000000 };

static struct usage_waiting waiting;

static int setup(void **state)
{
    (void)state;
    usage_waiting_init(&waiting);
    return 0;
}

static uint32_t due_at(int64_t second)
{
    struct usage_waiting_entry due[USAGE_WAITING_DUE];
    return usage_waiting_due(&waiting, second * SECOND_US, due);
}

static void test_one_that_waits_is_tried_again(void **state)
{
    (void)state;
    assert_int_equal(usage_waiting_held(&waiting), INT64_MAX);
    assert_true(usage_waiting_add(&waiting, "a", 7, 100, 0));
    assert_true(usage_waiting_has(&waiting, "a", 7));
    assert_false(usage_waiting_has(&waiting, "a", 8));
    assert_false(usage_waiting_has(&waiting, "b", 7));
    assert_int_equal(usage_waiting_held(&waiting), 99);
    assert_int_equal(due_at(0), 0);
    assert_int_equal(due_at(1), 1);
    /* Refused again: after 2, 4, then each 5 s; what it lacks never becomes less. */
    assert_false(usage_waiting_add(&waiting, "a", 7, 200, 1 * SECOND_US));
    assert_int_equal(usage_waiting_held(&waiting), 99);
    assert_int_equal(due_at(2), 0);
    assert_int_equal(due_at(3), 1);
    assert_false(usage_waiting_add(&waiting, "a", 7, 50, 3 * SECOND_US));
    assert_int_equal(usage_waiting_held(&waiting), 49);
    assert_int_equal(due_at(6), 0);
    assert_int_equal(due_at(7), 1);
    for (int64_t at = 7; at < 50; at += 5) {
        usage_waiting_add(&waiting, "a", 7, 50, at * SECOND_US);
        assert_int_equal(due_at(at + 4), 0);
        assert_int_equal(due_at(at + 5), 1);
    }
}

static void test_one_that_is_made_is_watched(void **state)
{
    (void)state;
    usage_waiting_add(&waiting, "a", 7, 100, 0);
    usage_waiting_add(&waiting, "b", 7, 90, 0);
    assert_true(usage_waiting_made(&waiting, "b", 7, 0));
    assert_false(usage_waiting_made(&waiting, "c", 7, 0));
    assert_int_equal(usage_waiting_count(&waiting), 1);
    assert_int_equal(usage_waiting_held(&waiting), 99);
    assert_true(usage_waiting_made(&waiting, "a", 7, 0));
    assert_int_equal(usage_waiting_held(&waiting), INT64_MAX);
    for (int64_t at = 2; at < 60; at += 2)
        assert_int_equal(due_at(at), 3);
    assert_int_equal(due_at(60), 0);
    assert_int_equal(waiting.count, 0);
}

static void test_without_room_all_is_compared(void **state)
{
    (void)state;
    char name[16];
    struct usage_waiting_entry due[USAGE_WAITING_DUE];
    assert_false(usage_waiting_made(&waiting, "watched", 1, 0));
    for (int i = 0; i < USAGE_WAITING_MAX; i++) {
        snprintf(name, sizeof name, "t%d", i);
        assert_true(usage_waiting_add(&waiting, name, 1, 1000 + i, 0));
    }
    assert_int_equal(usage_waiting_count(&waiting), USAGE_WAITING_MAX);
    assert_int_equal(waiting.lost_since, INT64_MAX); /* the watched one gave its place */
    assert_true(usage_waiting_add(&waiting, "more", 1, 500, 0));
    assert_true(usage_waiting_add(&waiting, "more", 2, 600, 0));
    assert_int_equal(waiting.lost_since, 500);
    assert_int_equal(usage_waiting_held(&waiting), 499);
    assert_false(usage_waiting_has(&waiting, "more", 1));
    assert_int_equal(usage_waiting_due(&waiting, 2 * SECOND_US, due), USAGE_WAITING_DUE);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_that_waits_is_tried_again),
        TEST(test_one_that_is_made_is_watched),
        TEST(test_without_room_all_is_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
