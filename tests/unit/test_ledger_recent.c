#include "auth/ledger/ledger_recent.h"

#include "tests/unit/base_kit.h"

#include "config/base/rng.h"

/* Against a plain array of the last n different ids. */
static void test_model(void **state)
{
    (void)state;
    for (uint32_t capacity = 2; capacity <= 256; capacity *= 2) {
        struct ledger_recent recent;
        struct rng rng = {.seed = capacity};
        uint64_t model[256];
        uint32_t count = 0;
        assert_int_equal(ledger_recent_init(&recent, capacity), STATUS_OK);
        for (int step = 0; step < 20000; step++) {
            char id[32];
            uint64_t number = rng_below(&rng, capacity * 3);
            bool is_known = false;
            for (uint32_t i = 0; i < count; i++)
                is_known = is_known || model[i] == number;
            snprintf(id, sizeof id, "req_%llu", (unsigned long long)number);
            assert_int_equal(ledger_recent_add(&recent, slice_of(id)), !is_known);
            if (is_known)
                continue;
            if (count == capacity)
                memmove(model, model + 1, --count * sizeof model[0]);
            model[count++] = number;
        }
        assert_int_equal(recent.count, capacity);
        uint32_t used = 0;
        for (uint32_t i = 0; i < 2 * capacity; i++)
            used += recent.slots[i] != 0;
        assert_int_equal(used, capacity);
        ledger_recent_deinit(&recent);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int n = 1; n <= 2; n++) {
        struct ledger_recent recent;
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        assert_int_equal(ledger_recent_init(&recent, 4), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
        assert_null(recent.order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
