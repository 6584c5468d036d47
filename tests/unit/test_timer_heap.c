/* timer_heap: against a list that is searched, over random operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "gateway/http/timer_heap.h"

enum { ENTRIES = 200, STEPS = 20000 };

static void test_against_a_list(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct rng rng = {.seed = seed};
        struct timer_heap heap;
        timer_heap_init(&heap);
        assert_int_equal(timer_heap_reserve(&heap, ENTRIES), STATUS_OK);
        static struct timer_heap_entry entries[ENTRIES];
        for (size_t i = 0; i < ENTRIES; i++)
            entries[i] = (struct timer_heap_entry){0};
        for (int step = 0; step < STEPS; step++) {
            struct timer_heap_entry *entry = &entries[rng_below(&rng, ENTRIES)];
            if (entry->slot == 0 && rng_below(&rng, 3) != 0)
                timer_heap_insert(&heap, entry, (int64_t)rng_below(&rng, 50)); /* many are equal */
            else
                timer_heap_remove(&heap, entry);
            const struct timer_heap_entry *least = NULL;
            for (size_t i = 0; i < ENTRIES; i++) {
                const struct timer_heap_entry *e = &entries[i];
                if (e->slot == 0)
                    continue;
                if (least == NULL || e->at_us < least->at_us ||
                    (e->at_us == least->at_us && e->order < least->order))
                    least = e;
            }
            if (timer_heap_first(&heap) != least)
                fail_msg("seed %d, step %d: another entry is first", (int)seed, step);
            if (step % 64 == 0)
                timer_heap_check(&heap);
        }
        timer_heap_deinit(&heap);
    }
}

static int fail_all(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
    return 1;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct timer_heap heap;
    timer_heap_init(&heap);
    mem_hook_set(fail_all, NULL);
    assert_int_equal(timer_heap_reserve(&heap, 1), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_null(timer_heap_first(&heap));
    assert_int_equal(timer_heap_reserve(&heap, 1), STATUS_OK);
    timer_heap_deinit(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_list),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
