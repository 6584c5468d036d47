#include "engine/engine_constrain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_run.h"
#include "engine/models/gguf.h"
#include "tests/kit/engine_run.h"

static struct vocab *vocab;
static struct ticket_table tickets;
static struct metrics *metrics;
static struct engine_constrain *constrain;

static int set_up(void **state)
{
    (void)state;
    struct gguf *gguf = NULL;
    assert_int_equal(gguf_open(&gguf, engine_run_make_model()), STATUS_OK);
    assert_int_equal(vocab_create(&vocab, gguf), STATUS_OK);
    gguf_close(gguf);
    engine_run_remove_model();
    assert_int_equal(ticket_table_init(&tickets, 8, 64 << 20), STATUS_OK);
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    assert_int_equal(engine_constrain_new(vocab, NULL, 1 << 20, metrics, NULL, &constrain),
                     STATUS_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    engine_constrain_free(constrain);
    ticket_table_deinit(&tickets);
    metrics_destroy(metrics);
    vocab_destroy(vocab);
    return 0;
}

static double counted(const char *result)
{
    char labels[64];
    snprintf(labels, sizeof labels, "result=\"%s\"", result);
    return metric_value(
        metrics_get(metrics, METRIC_COUNTER, "banyan_grammars_total", "", labels, NULL, 0));
}

static uint32_t slot_of(uint8_t domain, enum constraint_kind kind, const char *source,
                        uint32_t choices)
{
    uint32_t slot = 0;
    engine_request_id id = 0;
    struct engine_request asked = {
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .choices = choices,
        .constraint = {
            .is_set = true, .kind = kind, .source = slice_of(source), .field = slice_of("field")}};
    memset(asked.domain.bytes, domain, sizeof asked.domain.bytes);
    assert_int_equal(ticket_acquire(&tickets, &asked, 0, &slot, &id), STATUS_OK);
    return slot;
}

static enum status take(uint8_t domain, enum constraint_kind kind, const char *source,
                        uint32_t choices)
{
    const uint32_t slot = slot_of(domain, kind, source, choices);
    enum status status = engine_constrain_take(constrain, &tickets, slot);
    if (status == STATUS_OK)
        for (uint32_t i = 0; i < choices; i++)
            assert_non_null(tickets.slots[slot].guards[i].run);
    ticket_release(&tickets, slot);
    assert_null(tickets.slots[slot].guards);
    return status;
}

/* A domain finds what it compiled; another domain, and a request without one, compile again. */
static void test_domains_share_nothing(void **state)
{
    (void)state;
    const uint8_t domains[] = {1, 1, 2, 1, 0, 0};
    const double compiled[] = {1, 1, 2, 2, 3, 4};
    for (size_t i = 0; i < sizeof domains; i++) {
        assert_int_equal(take(domains[i], CONSTRAINT_REGEX, "a{2,5}", 2), STATUS_OK);
        assert_true(counted("compiled") == compiled[i]);
        assert_true(counted("compiled") + counted("cached") == (double)i + 1);
    }
}

/* The kind and the options belong to the source. */
static void test_kinds_are_apart(void **state)
{
    (void)state;
    const double before = counted("compiled");
    assert_int_equal(take(1, CONSTRAINT_REGEX, "[\"a\"]", 1), STATUS_OK);
    assert_int_equal(take(1, CONSTRAINT_CHOICE, "[\"a\"]", 1), STATUS_OK);
    assert_true(counted("compiled") == before + 2);
}

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        enum constraint_kind kind;
        const char *source;
        enum status status;
        const char *param;
    } cases[] = {
        {CONSTRAINT_REGEX, "a(", STATUS_INVALID_GRAMMAR, "field"},
        {CONSTRAINT_REGEX, "(?<!a)b", STATUS_INVALID_GRAMMAR, "field"},
        {CONSTRAINT_CHOICE, "[]", STATUS_INVALID_GRAMMAR, "field"},
        {CONSTRAINT_LARK, "start: other", STATUS_INVALID_GRAMMAR, "field"},
        {CONSTRAINT_JSON_SCHEMA, "{\"type\":7}", STATUS_INVALID_SCHEMA, "field.type"},
        {CONSTRAINT_JSON_SCHEMA, "{\"properties\":{\"a\":{\"$ref\":\"http://x\"}}}",
         STATUS_UNSUPPORTED_SCHEMA, "field.properties.a.$ref"},
        {CONSTRAINT_JSON_SCHEMA, "false", STATUS_INVALID_SCHEMA, "field"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(take(1, cases[i].kind, cases[i].source, 1), cases[i].status);
        assert_string_equal(status_note()->param, cases[i].param);
        assert_true(strlen(status_note()->message) > 10);
    }
}

/* Whoever leaves while its source is compiled is not waited for. */
static void test_cancelled(void **state)
{
    (void)state;
    const uint32_t slot = slot_of(3, CONSTRAINT_REGEX, "([a-z]{1,50} ){1,90}", 1);
    const engine_request_id id = atomic_load(&tickets.slots[slot].id);
    assert_true(ticket_cancel(&tickets, id));
    const double refused = counted("refused");
    const double cancelled = counted("cancelled");
    assert_int_equal(engine_constrain_take(constrain, &tickets, slot), STATUS_CANCELLED);
    assert_true(counted("cancelled") == cancelled + 1);
    assert_true(counted("refused") == refused);
    ticket_release(&tickets, slot);
}

/* A cancel of the slot's previous request that comes late ends nothing. */
static void test_a_late_flag(void **state)
{
    (void)state;
    const uint32_t slot = slot_of(4, CONSTRAINT_REGEX, "[a-z]{1,50}", 1);
    atomic_store(&tickets.slots[slot].is_cancelled, true);
    assert_int_equal(engine_constrain_take(constrain, &tickets, slot), STATUS_OK);
    ticket_release(&tickets, slot);
}

/* The guards of all choices and the grammar count in the memory of waiting requests. */
static void test_memory(void **state)
{
    (void)state;
    const uint32_t slot = slot_of(1, CONSTRAINT_REGEX, "a", LIMIT_CHOICES);
    const uint64_t before = atomic_load(&tickets.bytes);
    assert_int_equal(engine_constrain_take(constrain, &tickets, slot), STATUS_OK);
    assert_true(atomic_load(&tickets.bytes) - before >= LIMIT_CHOICES * GUARD_BYTES);
    ticket_release(&tickets, slot);
    assert_int_equal(atomic_load(&tickets.bytes), 0);
    const uint32_t large =
        slot_of(1, CONSTRAINT_REGEX, "[a-f]{9}[g-m]{9}[n-z]{9}([a-c]|[d-f]|[g-i]){2000}z", 1);
    assert_int_equal(engine_constrain_take(constrain, &tickets, large), STATUS_OK);
    const struct grammar *grammar = grammar_run_grammar(tickets.slots[large].guards[0].run);
    const size_t all = grammar_bytes(grammar);
    const size_t alone = tickets.slots[large].bytes;
    assert_true(alone >= GUARD_BYTES + grammar_part_bytes(grammar));
    assert_true(alone > all / 4);
    /* Another request of the same source shares the grammar, and counts its part. */
    const uint32_t other =
        slot_of(1, CONSTRAINT_REGEX, "[a-f]{9}[g-m]{9}[n-z]{9}([a-c]|[d-f]|[g-i]){2000}z", 1);
    assert_int_equal(engine_constrain_take(constrain, &tickets, other), STATUS_OK);
    assert_true(tickets.slots[other].bytes < alone);
    ticket_release(&tickets, other);
    ticket_release(&tickets, large);
    assert_int_equal(atomic_load(&tickets.bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_domains_share_nothing),
        cmocka_unit_test(test_kinds_are_apart),
        cmocka_unit_test(test_what_is_wrong_is_named),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_a_late_flag),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
