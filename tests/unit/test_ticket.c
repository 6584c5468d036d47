#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "engine/request/ticket.h"

enum { VOCAB = 100, CONTEXT = 20 };

static const uint32_t tokens[CONTEXT + 1] = {1, 2, 3, 99};

static struct engine_request plain(uint32_t token_count, uint32_t tokens_max)
{
    return (struct engine_request){
        .request_id = SLICE("req_1"),
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = tokens,
        .token_count = token_count,
        .choices = 1,
        .tokens_max = tokens_max,
        .sampling = {.top_p = 1},
    };
}

/* Acquires, checks as tokens, keeps the status and releases. */
static enum status try_request(struct ticket_table *table, const struct engine_request *asked,
                               uint32_t *tokens_max)
{
    uint32_t slot;
    engine_request_id id;
    enum status status = ticket_acquire(table, asked, 5, &slot, &id);
    if (status != STATUS_OK)
        return status;
    status = ticket_check_asked(&table->slots[slot], VOCAB);
    if (status == STATUS_OK)
        status = ticket_take_tokens(table, slot, VOCAB, CONTEXT);
    if (tokens_max != NULL)
        *tokens_max = table->slots[slot].tokens_max;
    ticket_release(table, slot);
    assert_int_equal(atomic_load(&table->bytes), 0);
    assert_int_equal(atomic_load(&table->free_count), table->count);
    return status;
}

static void test_prompt_lengths(void **state)
{
    (void)state;
    struct ticket_table table;
    assert_int_equal(ticket_table_init(&table, 2, 100000), STATUS_OK);
    uint32_t tokens_max = 0;
    struct engine_request asked = plain(0, 1);
    assert_int_equal(try_request(&table, &asked, NULL), STATUS_INVALID);
    assert_string_equal(status_note()->param, "prompt");
    asked = plain(1, 0);
    assert_int_equal(try_request(&table, &asked, &tokens_max), STATUS_OK);
    assert_int_equal(tokens_max, CONTEXT - 1);
    asked = plain(CONTEXT - 1, 1);
    assert_int_equal(try_request(&table, &asked, &tokens_max), STATUS_OK);
    assert_int_equal(tokens_max, 1);
    asked = plain(CONTEXT - 1, 2);
    assert_int_equal(try_request(&table, &asked, NULL), STATUS_CONTEXT_LENGTH);
    assert_non_null(strstr(status_note()->message, "maximum context length is 20 tokens"));
    assert_non_null(strstr(status_note()->message, "requested 21 tokens (19 in the prompt, 2"));
    asked = plain(CONTEXT, 1);
    assert_int_equal(try_request(&table, &asked, NULL), STATUS_CONTEXT_LENGTH);
    assert_non_null(strstr(status_note()->message, "the prompt has 20 tokens"));
    asked = plain(1, UINT32_MAX);
    assert_int_equal(try_request(&table, &asked, NULL), STATUS_CONTEXT_LENGTH);
    assert_non_null(strstr(status_note()->message, "requested 4294967296 tokens"));
    ticket_table_deinit(&table);
}

static void test_ranges(void **state)
{
    (void)state;
    struct ticket_table table;
    assert_int_equal(ticket_table_init(&table, 2, 1000000), STATUS_OK);
    struct engine_request asked;
#define CASE(change, want, name)                                                                   \
    asked = plain(3, 1);                                                                           \
    change;                                                                                        \
    assert_int_equal(try_request(&table, &asked, NULL), (want));                                   \
    if ((want) != STATUS_OK)                                                                       \
    assert_string_equal(status_note()->param, (name))
    CASE(asked.choices = 0, STATUS_OUT_OF_RANGE, "n");
    CASE(asked.choices = LIMIT_CHOICES, STATUS_OK, "");
    CASE(asked.choices = LIMIT_CHOICES + 1, STATUS_OUT_OF_RANGE, "n");
    CASE(asked.sampling.temperature = -0.01f, STATUS_OUT_OF_RANGE, "temperature");
    CASE(asked.sampling.temperature = 2, STATUS_OK, "");
    CASE(asked.sampling.temperature = 2.01f, STATUS_OUT_OF_RANGE, "temperature");
    CASE(asked.sampling.temperature = NAN, STATUS_OUT_OF_RANGE, "temperature");
    CASE(asked.sampling.top_p = 0, STATUS_OUT_OF_RANGE, "top_p");
    CASE(asked.sampling.top_p = 1.01f, STATUS_OUT_OF_RANGE, "top_p");
    CASE(asked.sampling.min_p = 1, STATUS_OK, "");
    CASE(asked.sampling.min_p = -1, STATUS_OUT_OF_RANGE, "min_p");
    CASE(asked.sampling.presence_penalty = 2.5f, STATUS_OUT_OF_RANGE, "presence_penalty");
    CASE(asked.sampling.frequency_penalty = -2.5f, STATUS_OUT_OF_RANGE, "frequency_penalty");
    CASE(asked.sampling.repetition_penalty = 2, STATUS_OK, "");
    CASE(asked.sampling.repetition_penalty = 2.1f, STATUS_OUT_OF_RANGE, "repetition_penalty");
    CASE(asked.sampling.repetition_penalty = -1, STATUS_OUT_OF_RANGE, "repetition_penalty");
    CASE(asked.tokens_min = asked.tokens_max, STATUS_OK, "");
    CASE(asked.tokens_min = asked.tokens_max + 1, STATUS_OUT_OF_RANGE, "min_tokens");
    CASE((asked.tokens_max = 0, asked.tokens_min = UINT32_MAX), STATUS_OUT_OF_RANGE, "min_tokens");
    CASE(asked.top_logprobs = LIMIT_LOGPROBS, STATUS_OK, "");
    CASE(asked.top_logprobs = LIMIT_LOGPROBS + 1, STATUS_OUT_OF_RANGE, "top_logprobs");
    CASE((asked.stop_count = 1, asked.stop[0] = SLICE("")), STATUS_OUT_OF_RANGE, "stop");
    CASE((asked.stop_count = 1, asked.stop[0] = SLICE("x")), STATUS_OK, "");
    CASE((asked.stop_count = 1, asked.stop[0] = SLICE("\xff")), STATUS_INVALID, "stop");
    CASE((asked.sampling.bias_count = 1,
          asked.sampling.bias[0] = (struct engine_bias){VOCAB - 1, 100}),
         STATUS_OK, "");
    CASE((asked.sampling.bias_count = 1, asked.sampling.bias[0] = (struct engine_bias){VOCAB, 0}),
         STATUS_OUT_OF_RANGE, "logit_bias");
    CASE((asked.sampling.bias_count = 1, asked.sampling.bias[0] = (struct engine_bias){0, -101}),
         STATUS_OUT_OF_RANGE, "logit_bias");
    const uint32_t foreign[3] = {1, 2, VOCAB};
    CASE(asked.tokens = foreign, STATUS_OUT_OF_RANGE, "prompt[2]");
#undef CASE
    ticket_table_deinit(&table);
}

static void test_copy(void **state)
{
    (void)state;
    struct ticket_table table;
    assert_int_equal(ticket_table_init(&table, 2, 100000), STATUS_OK);
    char text[] = "some text";
    char content[] = "a question";
    uint32_t own[3] = {7, 8, 9};
    const struct engine_message messages[2] = {
        {SLICE("system"), SLICE(""), {NULL, 0}},
        {SLICE("user"), {content, sizeof(content) - 1}, {"{}", 2}},
    };
    struct engine_request asked = plain(3, 1);
    asked.tokens = own;
    asked.text = slice_of(text);
    asked.messages = messages;
    asked.message_count = 2;
    asked.stop_count = 2;
    asked.stop[0] = SLICE("ab");
    asked.stop[1] = slice_of(text);
    asked.echo = true;
    asked.want_logprobs = true;
    asked.top_logprobs = 2;
    asked.choices = 2;
    uint32_t slot;
    engine_request_id id;
    assert_int_equal(ticket_acquire(&table, &asked, 77, &slot, &id), STATUS_OK);
    memset(text, 'x', sizeof(text) - 1);
    memset(content, 'x', sizeof(content) - 1);
    memset(own, 0, sizeof(own));
    struct ticket *ticket = &table.slots[slot];
    assert_true(slice_is(ticket->asked.text, "some text"));
    assert_true(slice_is(ticket->asked.messages[0].role, "system"));
    assert_true(slice_is(ticket->asked.messages[1].content, "a question"));
    assert_true(slice_is(ticket->asked.stop[0], "ab"));
    assert_true(slice_is(ticket->asked.stop[1], "some text"));
    assert_true(slice_is(ticket->asked.request_id, "req_1"));
    assert_int_equal(ticket->submitted_us, 77);
    assert_int_equal(ticket_take_tokens(&table, slot, VOCAB, CONTEXT), STATUS_OK);
    assert_int_equal(ticket->prompt[2], 9);
    for (uint32_t choice = 0; choice < 2; choice++)
        for (uint32_t i = 0; i < 3; i++)
            ticket_score_at(ticket, choice, i)->top[1].token = choice * 10 + i;
    assert_int_equal(ticket_score_at(ticket, 1, 2)->top[1].token, 12);
    assert_int_equal(ticket_score_at(ticket, 0, 2)->top[1].token, 2);
    ticket_table_deinit(&table); /* with the slot still held: nothing leaks */
}

static void test_full(void **state)
{
    (void)state;
    struct ticket_table table;
    assert_int_equal(ticket_table_init(&table, 3, 60), STATUS_OK);
    struct engine_request asked = plain(0, 1);
    uint32_t slots[3];
    engine_request_id ids[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(ticket_acquire(&table, &asked, 0, &slots[i], &ids[i]), STATUS_OK);
    uint32_t slot;
    engine_request_id id;
    assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &id), STATUS_BUSY);
    ticket_release(&table, slots[1]);
    asked.text = (struct slice){"0123456789012345678901234567890123456789", 40};
    /* 2 × 5 bytes of ids are held; 5 + 40 go in, 5 + 46 do not. */
    assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &id), STATUS_OK);
    assert_int_equal(slot, slots[1]);
    assert_true(id != ids[1]);
    ticket_release(&table, slot);
    asked.text = (struct slice){"0123456789012345678901234567890123456789012345", 46};
    assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &id), STATUS_BUSY);
    assert_int_equal(atomic_load(&table.bytes), 10);
    assert_int_equal(atomic_load(&table.free_count), 1);
    ticket_table_deinit(&table);
}

static void test_stale_ids(void **state)
{
    (void)state;
    struct ticket_table table;
    assert_int_equal(ticket_table_init(&table, 1, 1000), STATUS_OK);
    struct engine_request asked = plain(1, 1);
    uint32_t slot;
    engine_request_id first;
    engine_request_id second;
    assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &first), STATUS_OK);
    assert_true(first != 0);
    assert_false(ticket_is_cancelled(&table.slots[slot]));
    assert_true(ticket_acknowledge(&table, first, 0, 3));
    assert_true(ticket_acknowledge(&table, first, 0, 2));
    assert_int_equal(ticket_acknowledged(&table.slots[slot], 0), 5);
    assert_true(ticket_acknowledge(&table, first, 0, UINT32_MAX));
    assert_int_equal(ticket_acknowledged(&table.slots[slot], 0), UINT32_MAX);
    assert_true(ticket_cancel(&table, first));
    assert_true(ticket_is_cancelled(&table.slots[slot]));
    ticket_release(&table, slot);
    assert_false(ticket_cancel(&table, first));

    assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &second), STATUS_OK);
    assert_true(second != first);
    assert_false(ticket_is_cancelled(&table.slots[slot]));
    assert_int_equal(ticket_acknowledged(&table.slots[slot], 0), 0);
    assert_false(ticket_acknowledge(&table, first, 0, 3));
    assert_false(ticket_acknowledge(&table, second, LIMIT_CHOICES, 3));
    assert_int_equal(ticket_acknowledged(&table.slots[slot], 0), 0);
    assert_false(ticket_cancel(&table, first));
    assert_false(ticket_is_cancelled(&table.slots[slot]));
    assert_false(ticket_cancel(&table, 0));
    assert_false(ticket_cancel(&table, UINT64_MAX));
    assert_true(ticket_cancel(&table, second));
    assert_true(ticket_is_cancelled(&table.slots[slot]));
    ticket_table_deinit(&table);
}

static int refuse_after(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- <= 0;
}

/* A tenant is known by its own domain, wherever its pages go. */
static void test_tenants_leave_room(void **state)
{
    (void)state;
    enum { SLOTS = 32 };
    struct ticket_table table;
    uint32_t slots[SLOTS];
    uint32_t slot;
    engine_request_id id;
    uint32_t count = 0;
    assert_int_equal(ticket_table_init(&table, SLOTS, 100000), STATUS_OK);
    table.tenant_max = 16;
    struct engine_request first = plain(3, 1);
    first.domain.bytes[0] = 1;
    struct engine_request second = plain(3, 1); /* its pages go to a group */
    second.domain.bytes[0] = 7;
    second.visible[0] = second.domain;
    second.visible[1].bytes[0] = 2;
    second.visible_count = 2;
    second.visible_group = 1;
    const struct engine_request unknown = plain(3, 1);

    for (; count < 16; count++)
        assert_int_equal(ticket_acquire(&table, &first, 0, &slots[count], &id), STATUS_OK);
    assert_int_equal(ticket_acquire(&table, &first, 0, &slot, &id), STATUS_ENGINE_SHARE);
    for (; count < 25; count++)
        assert_int_equal(ticket_acquire(&table, &second, 0, &slots[count], &id), STATUS_OK);
    /* 7 of 32 are free: only who has less than 2 gets one. */
    assert_int_equal(ticket_acquire(&table, &second, 0, &slot, &id), STATUS_ENGINE_SHARE);
    struct engine_request third = second;
    third.visible[1].bytes[0] = 3;
    for (; count < 27; count++)
        assert_int_equal(ticket_acquire(&table, &third, 0, &slots[count], &id), STATUS_OK);
    assert_int_equal(ticket_acquire(&table, &third, 0, &slot, &id), STATUS_ENGINE_SHARE);
    for (; count < SLOTS; count++)
        assert_int_equal(ticket_acquire(&table, &unknown, 0, &slots[count], &id), STATUS_OK);
    assert_int_equal(table.tenant_count, 3);
    while (count > 0)
        ticket_release(&table, slots[--count]);
    assert_int_equal(table.tenant_count, 0);
    assert_int_equal(ticket_acquire(&table, &first, 0, &slot, &id), STATUS_OK);
    ticket_release(&table, slot);
    ticket_table_deinit(&table);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct ticket_table table;
    struct engine_request asked = plain(3, 1);
    asked.echo = asked.want_logprobs = true;
    int left = 0;
    mem_hook_set(refuse_after, &left);
    assert_int_equal(ticket_table_init(&table, 2, 100000), STATUS_NO_MEMORY);
    left = 1;
    assert_int_equal(ticket_table_init(&table, 2, 100000), STATUS_NO_MEMORY);
    left = 2;
    assert_int_equal(ticket_table_init(&table, 2, 100000), STATUS_NO_MEMORY);
    left = 3;
    assert_int_equal(ticket_table_init(&table, 2, 100000), STATUS_OK);
    for (int allowed = 0; allowed < 3; allowed++) {
        left = allowed;
        assert_int_equal(try_request(&table, &asked, NULL), STATUS_BUSY);
    }
    left = 3;
    assert_int_equal(try_request(&table, &asked, NULL), STATUS_OK);
    mem_hook_set(NULL, NULL);
    ticket_table_deinit(&table);
}

/* However much of the lower classes comes, there is a slot for the higher. */
static void test_classes_at_the_door(void **state)
{
    (void)state;
    enum { SLOTS = 32 };
    struct ticket_table table;
    uint32_t slot;
    uint32_t taken = 0;
    engine_request_id id;
    assert_int_equal(ticket_table_init(&table, SLOTS, 100000), STATUS_OK);
    static const uint32_t most[] = {[SERVICE_CLASS_BATCH] = SLOTS - SLOTS / 8,
                                    [SERVICE_CLASS_STANDARD] = SLOTS - SLOTS / 16,
                                    [SERVICE_CLASS_REALTIME] = SLOTS};
    struct engine_request asked = plain(3, 1);
    for (uint32_t class = SERVICE_CLASS_COUNT; class -- > 0;) {
        asked.service_class = (enum service_class) class;
        for (; taken < most[class]; taken++)
            assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &id), STATUS_OK);
        assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &id), STATUS_BUSY);
    }
    ticket_table_deinit(&table);

    /* Nor does a tenant's own batch work shut its realtime work out. */
    assert_int_equal(ticket_table_init(&table, SLOTS, 100000), STATUS_OK);
    table.tenant_max = 4;
    asked.tenant.bytes[0] = 1;
    asked.service_class = SERVICE_CLASS_BATCH;
    for (taken = 0; taken < table.tenant_max; taken++)
        assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &id), STATUS_OK);
    assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &id), STATUS_ENGINE_SHARE);
    asked.service_class = SERVICE_CLASS_REALTIME;
    assert_int_equal(ticket_acquire(&table, &asked, 0, &slot, &id), STATUS_OK);
    assert_int_equal(table.slots[slot].report.service_class, SERVICE_CLASS_REALTIME);
    ticket_table_deinit(&table);
}

/* A tenant's texts, prompts and scores use up its share of the bytes, in whatever class they are;
 * another one's find room. */
static void test_bytes_of_tenants(void **state)
{
    (void)state;
    enum { BYTES = 10000, TEXT = 1000 };
    static char text[TEXT];
    struct ticket_table table;
    assert_int_equal(ticket_table_init(&table, 64, BYTES), STATUS_OK);
    table.tenant_max = 32;
    struct engine_request asked = plain(0, 1);
    asked.text = (struct slice){text, TEXT - 5};
    asked.tenant.bytes[0] = 1;
    uint32_t slots[64];
    engine_request_id id;
    uint32_t count = 0;
    for (;;) {
        asked.service_class = (enum service_class)(count % SERVICE_CLASS_COUNT);
        if (ticket_acquire(&table, &asked, 0, &slots[count], &id) != STATUS_OK)
            break;
        count++;
    }
    assert_int_equal(status_note()->status, STATUS_ENGINE_SHARE);
    assert_int_equal(count, BYTES / 5 / TEXT); /* own ≤ (free - 1000) / 4 is over at 2000 */
    /* Its prompt, of 16 bytes, finds no room either; another tenant's does. */
    assert_int_equal(ticket_take_prompt(&table, slots[0], NULL, 4, CONTEXT), STATUS_ENGINE_SHARE);
    asked.tenant.bytes[0] = 2;
    assert_int_equal(ticket_acquire(&table, &asked, 0, &slots[count], &id), STATUS_OK);
    ticket_release(&table, slots[count]);
    while (count > 0)
        ticket_release(&table, slots[--count]);
    assert_int_equal(atomic_load(&table.bytes), 0);
    assert_int_equal(table.tenant_count, 0);
    ticket_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_lengths),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_stale_ids),
        cmocka_unit_test(test_tenants_leave_room),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_classes_at_the_door),
        cmocka_unit_test(test_bytes_of_tenants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
