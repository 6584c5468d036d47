#include "engine/sequence/sequence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"

enum { COUNT = 5, CONTEXT = 100, PAGES = 12 };

static struct kernels *kernels;
static struct kv_layout layout;
static uint32_t prompt[CONTEXT];

static int setup(void **state)
{
    (void)state;
    const struct kernels_options options = {
        .isa = "ref", .threads = 1, .rows_max = 4, .cols_max = 64};
    for (uint32_t i = 0; i < CONTEXT; i++)
        prompt[i] = i;
    if (kernels_create(&kernels, &options) != STATUS_OK)
        return -1;
    return kernels_kv_layout(kernels, KV_TYPE_F16, 16, 1, 1, 4, &layout) != STATUS_OK;
}

static int teardown(void **state)
{
    (void)state;
    kernels_destroy(kernels);
    return 0;
}

static void make_ticket(struct ticket *ticket, uint32_t prompt_count)
{
    memset(ticket, 0, sizeof(*ticket));
    ticket->asked.choices = 1;
    ticket->asked.domain = (struct engine_domain){{9}};
    ticket->asked.visible[0] = (struct engine_domain){{7}};
    ticket->asked.visible_count = 1;
    ticket->asked.stop[0] = SLICE("end");
    ticket->asked.stop_count = 1;
    ticket->prompt = prompt;
    ticket->prompt_count = prompt_count;
    ticket->tokens_max = CONTEXT - prompt_count;
}

static void test_one_life(void **state)
{
    (void)state;
    static struct ticket ticket;
    struct kv_pool pool;
    struct sequence_table table;
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * PAGES, CONTEXT),
                     STATUS_OK);
    assert_int_equal(sequence_table_init(&table, &pool, 2, CONTEXT), STATUS_OK);
    make_ticket(&ticket, 20);
    uint32_t index = sequence_acquire(&table, &ticket, 3, 1);
    struct sequence *sequence = &table.slots[index];
    assert_int_equal(sequence->slot, 3);
    assert_int_equal(sequence->choice, 1);
    assert_int_equal(sequence->token_count, 20);
    assert_memory_equal(sequence->tokens, prompt, 20 * sizeof(uint32_t));
    assert_int_equal(sequence_logits_from(sequence), 19);
    assert_int_equal(sequence->visible_count, 2);
    assert_int_equal(sequence->visible[0].bytes[0], 7);
    assert_int_equal(sequence->visible[1].bytes[0], 9);
    sequence_grow(sequence, &pool, 17);
    assert_int_equal(sequence->page_count, 2);
    sequence_grow(sequence, &pool, 32);
    assert_int_equal(sequence->page_count, 2);
    sequence->computed = 17;
    assert_true(sequence_table_check(&table, &pool, NULL));
    kv_pool_assert_visible(&pool, sequence->pages, 2, sequence->visible, 2);
    sequence->computed = 33; /* more than it has pages for */
    assert_false(sequence_table_check(&table, &pool, NULL));
    sequence_drop_pages(sequence, &pool);
    assert_int_equal(sequence->computed, 0);
    assert_int_equal(pool.free_count, PAGES);
    sequence->tokens[sequence->token_count++] = 5;
    assert_int_equal(sequence_generated(sequence), 1);
    assert_int_equal(sequence_logits_from(sequence), 20);

    /* An echo wants the logits of every prompt row that was not seen yet. */
    char scores;
    ticket.scores = &scores;
    uint32_t echo = sequence_acquire(&table, &ticket, 4, 0);
    assert_int_equal(sequence_logits_from(&table.slots[echo]), 0);
    table.slots[echo].scored = 7;
    assert_int_equal(sequence_logits_from(&table.slots[echo]), 7);
    assert_int_equal(sequence_acquire(&table, &ticket, 5, 0), SEQUENCE_NONE);

    /* The place waits for the consumer to take the records. */
    sequence->records_pushed = 2;
    sequence_release(&table, &pool, index);
    assert_int_equal(sequence_free_count(&table), 0);
    atomic_store(&sequence->records_taken, 1);
    assert_int_equal(sequence_acquire(&table, &ticket, 5, 0), SEQUENCE_NONE);
    atomic_store(&sequence->records_taken, 2);
    assert_int_equal(sequence_free_count(&table), 1);
    assert_int_equal(sequence_acquire(&table, &ticket, 5, 0), index);
    sequence_table_deinit(&table);
    kv_pool_deinit(&pool);
}

/* Pages for guesses that were wrong go back; those of what is computed stay. */
static void test_trim(void **state)
{
    (void)state;
    static struct ticket ticket;
    struct kv_pool pool;
    struct sequence_table table;
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * PAGES, CONTEXT),
                     STATUS_OK);
    assert_int_equal(sequence_table_init(&table, &pool, 1, CONTEXT), STATUS_OK);
    make_ticket(&ticket, 20);
    struct sequence *sequence = &table.slots[sequence_acquire(&table, &ticket, 0, 0)];
    for (uint32_t computed = 0; computed <= 48; computed++) {
        sequence_grow(sequence, &pool, computed + 20);
        sequence->computed = computed;
        sequence_trim(sequence, &pool);
        assert_int_equal(sequence->page_count, kv_pool_pages_for(&pool, computed));
        assert_int_equal(pool.free_count, PAGES - sequence->page_count);
        sequence_trim(sequence, &pool);
        assert_int_equal(pool.free_count, PAGES - sequence->page_count);
    }
    sequence_release(&table, &pool, 0);
    sequence_table_deinit(&table);
    kv_pool_deinit(&pool);
}

/* Random lives beside a list of who is running, in order of age. */
static void test_model(void **state)
{
    (void)state;
    static struct ticket ticket;
    struct kv_pool pool;
    struct sequence_table table;
    uint32_t order[COUNT];
    uint32_t order_count = 0;
    struct rng rng = {.seed = 12};
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * PAGES, CONTEXT),
                     STATUS_OK);
    assert_int_equal(sequence_table_init(&table, &pool, COUNT, CONTEXT), STATUS_OK);
    for (int step = 0; step < 20000; step++) {
        uint32_t place = order_count > 0 ? (uint32_t)rng_below(&rng, order_count) : 0;
        uint32_t kind = (uint32_t)rng_below(&rng, 5);
        struct sequence *sequence = order_count > 0 ? &table.slots[order[place]] : NULL;
        if (kind == 0) {
            make_ticket(&ticket, 1 + (uint32_t)rng_below(&rng, CONTEXT - 1));
            uint32_t index = sequence_acquire(&table, &ticket, 0, 0);
            assert_true((index == SEQUENCE_NONE) == (order_count == COUNT));
            if (index != SEQUENCE_NONE)
                order[order_count++] = index;
        } else if (kind == 1 && sequence != NULL) {
            sequence_release(&table, &pool, order[place]);
            order_count--;
            memmove(&order[place], &order[place + 1], (order_count - place) * sizeof(order[0]));
        } else if (kind == 2 && sequence != NULL) {
            uint32_t index = order[place];
            sequence_make_youngest(&table, index);
            memmove(&order[place], &order[place + 1], (order_count - 1 - place) * sizeof(order[0]));
            order[order_count - 1] = index;
        } else if (kind == 3 && sequence != NULL) {
            uint32_t room = sequence->page_count + pool.free_count;
            uint32_t tokens = (uint32_t)rng_below(&rng, sequence->token_count + 1);
            if (kv_pool_pages_for(&pool, tokens) <= room && tokens >= sequence->computed) {
                sequence_grow(sequence, &pool, tokens);
                sequence->computed = tokens;
            }
        } else if (kind == 4 && sequence != NULL) {
            sequence_drop_pages(sequence, &pool);
        }
        assert_int_equal(table.order_count, order_count);
        assert_memory_equal(table.order, order, order_count * sizeof(order[0]));
        assert_int_equal(sequence_free_count(&table), COUNT - order_count);
        assert_true(sequence_table_check(&table, &pool, NULL));
    }
    sequence_table_deinit(&table);
    kv_pool_deinit(&pool);
}

static int refuse_after(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- <= 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct kv_pool pool;
    assert_int_equal(kv_pool_init(&pool, kernels, &layout, layout.page_bytes * PAGES, CONTEXT),
                     STATUS_OK);
    for (int allowed = 0; allowed < 5; allowed++) {
        struct sequence_table table;
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        assert_int_equal(sequence_table_init(&table, &pool, COUNT, CONTEXT), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
    }
    kv_pool_deinit(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_life),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
