#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/request/outbox.h"

enum { TEXT_MAX = 97, RECORDS = 20000 };

/* Record i, as a pure function of i. */
static void make(uint32_t i, struct outbox_record *record, struct engine_logprob *top, char *text,
                 size_t *text_bytes)
{
    *record = (struct outbox_record){
        .kind = (enum engine_event_kind)(i % 6),
        .slot = i,
        .sequence = i * 7,
        .choice = i % LIMIT_CHOICES,
        .tokens_so_far = i / 2,
        .token = i ^ 0x55,
        .logprob = -(float)(i % 100),
        .top_count = (uint32_t)(rng_at(1, 0, i) % (LIMIT_LOGPROBS + 1)),
        .finish = (enum engine_finish)(i % 6),
    };
    for (uint32_t k = 0; k < record->top_count; k++)
        top[k] = (struct engine_logprob){i + k, (float)k};
    *text_bytes = rng_at(1, 1, i) % (TEXT_MAX + 1);
    for (size_t k = 0; k < *text_bytes; k++)
        text[k] = (char)rng_at(1, 2 + i, k);
}

static bool push(struct outbox *outbox, uint32_t i)
{
    struct outbox_record record;
    struct engine_logprob top[LIMIT_LOGPROBS];
    char text[TEXT_MAX];
    size_t text_bytes;
    make(i, &record, top, text, &text_bytes);
    return outbox_push(outbox, &record, top, (struct slice){text, text_bytes});
}

static bool take(struct outbox *outbox, uint32_t i)
{
    struct outbox_record want;
    struct engine_logprob want_top[LIMIT_LOGPROBS];
    char want_text[TEXT_MAX];
    size_t want_bytes;
    const struct engine_logprob *top;
    struct slice text;
    const struct outbox_record *got = outbox_next(outbox, &top, &text);
    if (got == NULL)
        return false;
    make(i, &want, want_top, want_text, &want_bytes);
    assert_int_equal(got->kind, want.kind);
    assert_int_equal(got->slot, want.slot);
    assert_int_equal(got->sequence, want.sequence);
    assert_int_equal(got->choice, want.choice);
    assert_int_equal(got->tokens_so_far, want.tokens_so_far);
    assert_int_equal(got->token, want.token);
    assert_true(got->logprob == want.logprob);
    assert_int_equal(got->finish, want.finish);
    assert_int_equal(got->top_count, want.top_count);
    assert_memory_equal(top, want_top, want.top_count * sizeof(*top));
    assert_true(slice_equals(text, (struct slice){want_text, want_bytes}));
    return true;
}

static void test_full_and_empty(void **state)
{
    (void)state;
    struct outbox outbox;
    size_t most = outbox_record_bytes(LIMIT_LOGPROBS, TEXT_MAX);
    assert_int_equal(outbox_init(&outbox, 10 * most, most), STATUS_OK);
    assert_false(take(&outbox, 0));
    struct rng rng = {.seed = 9};
    uint32_t pushed = 0;
    uint32_t taken = 0;
    uint32_t full_count = 0;
    for (uint32_t step = 0; step < 30000; step++) {
        if (rng_below(&rng, 100) < 50 + (step / 1000 % 2) * 20) {
            bool is_pushed = push(&outbox, pushed);
            /* What was promised always fits. */
            assert_true(is_pushed || pushed - taken >= 10);
            full_count += !is_pushed;
            pushed += is_pushed;
        } else {
            bool is_taken = take(&outbox, taken);
            assert_true(is_taken == (pushed > taken));
            taken += is_taken;
        }
    }
    assert_true(full_count > 0);
    while (taken < pushed)
        assert_true(take(&outbox, taken++));
    assert_false(take(&outbox, taken));
    outbox_deinit(&outbox);
}

static void *produce(void *context)
{
    for (uint32_t i = 0; i < RECORDS;) {
        if (push(context, i))
            i++;
        else
            sched_yield();
    }
    return NULL;
}

static void test_two_threads(void **state)
{
    (void)state;
    struct outbox outbox;
    size_t most = outbox_record_bytes(LIMIT_LOGPROBS, TEXT_MAX);
    assert_int_equal(outbox_init(&outbox, most, most), STATUS_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, &outbox), 0);
    for (uint32_t i = 0; i < RECORDS;) {
        if (take(&outbox, i))
            i++;
        else
            sched_yield();
    }
    pthread_join(thread, NULL);
    outbox_deinit(&outbox);
}

static int refuse(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
    return 1;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct outbox outbox;
    mem_hook_set(refuse, NULL);
    assert_int_equal(outbox_init(&outbox, 100, 100), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_and_empty),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
