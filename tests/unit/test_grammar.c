/* grammar: what compilation drops and refuses, limits, bytes, failures that are latched. */
#include "engine/grammar/grammar.h"

#include "config/base/limits_grammar.h"
#include "engine/grammar/grammar_form.h"
#include "tests/unit/grammar_kit.h"

static void test_a_start_without_a_match_is_invalid(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol a = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol loop = grammar_rule(kit.builder);
    grammar_symbol empty = grammar_rule(kit.builder);
    grammar_rule_add(kit.builder, loop, (grammar_symbol[]){a, loop}, 2);
    grammar_rule_add(kit.builder, loop, (grammar_symbol[]){empty}, 1);
    grammar_rule_add(kit.builder, loop, (grammar_symbol[]){a, GRAMMAR_NOTHING}, 2);
    assert_int_equal(kit_finish(&kit, loop, &grammar), STATUS_INVALID);
    assert_null(grammar);
    assert_string_equal(status_note()->message, "no value can match");
    kit_begin(&kit);
    assert_int_equal(kit_finish(&kit, GRAMMAR_NOTHING, &grammar), STATUS_INVALID);
    kit_begin(&kit);
    grammar_symbol nothing = grammar_lexeme(kit.builder, REGEX_NONE, GRAMMAR_GREEDY);
    assert_int_equal(nothing, GRAMMAR_NOTHING);
    assert_int_equal(kit_finish(&kit, nothing, &grammar), STATUS_INVALID);
}

/* Alternatives that cannot match go, and what only they need goes with them. */
static void test_what_is_not_needed_is_dropped(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol a = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol b = grammar_text(kit.builder, SLICE("b"));
    grammar_symbol start = grammar_rule(kit.builder);
    grammar_symbol never = grammar_rule(kit.builder);
    grammar_symbol other = grammar_rule(kit.builder);
    grammar_rule_add(kit.builder, other, &b, 1);
    grammar_rule_add(kit.builder, never, (grammar_symbol[]){other, never}, 2);
    grammar_rule_add(kit.builder, start, (grammar_symbol[]){never, b}, 2);
    grammar_rule_add(kit.builder, start, (grammar_symbol[]){a, a}, 2);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_OK);
    assert_int_equal(grammar_rules(grammar), 2); /* the start's own and `start` */
    assert_int_equal(grammar_lexemes(grammar), 1);
    grammar_drop(grammar);
}

/* Rules of one alternative with one symbol stand for it. */
static void test_single_symbols_are_replaced(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol last = grammar_text(kit.builder, SLICE("a"));
    for (uint32_t i = 0; i < 100; i++) {
        grammar_symbol rule = grammar_rule(kit.builder);
        grammar_rule_add(kit.builder, rule, &last, 1);
        last = rule;
    }
    assert_int_equal(kit_finish(&kit, last, &grammar), STATUS_OK);
    assert_int_equal(grammar_rules(grammar), 1);
    assert_int_equal(grammar->dots[0], grammar_symbol_of(GRAMMAR_LEXEME, 0));
    grammar_drop(grammar);
}

static void test_equal_lexemes_are_one(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    char text[8];
    kit_begin(&kit);
    struct regex_pool *regexes = grammar_builder_regexes(kit.builder);
    grammar_symbol all = grammar_rule(kit.builder);
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "w%u", i % 500);
        grammar_symbol lexeme = grammar_text(kit.builder, slice_of(text));
        assert_int_equal(lexeme, grammar_text(kit.builder, slice_of(text)));
        grammar_rule_add(kit.builder, all, &lexeme, 1);
    }
    regex_node_id w1 = regex_text(regexes, SLICE("w1"));
    assert_int_not_equal(grammar_lexeme(kit.builder, w1, GRAMMAR_GREEDY),
                         grammar_lexeme(kit.builder, w1, GRAMMAR_LAZY));
    assert_int_equal(kit_finish(&kit, all, &grammar), STATUS_OK);
    assert_int_equal(grammar_lexemes(grammar), 500);
    grammar_drop(grammar);
}

static void test_repetitions_take_few_rules(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol a = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol start = grammar_repeat(kit.builder, a, 21845, GRAMMAR_REPEAT);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_OK);
    assert_true(grammar_rules(grammar) <= 4 * 16);
    assert_true(KIT_FUEL - kit.fuel.left < 1000);
    grammar_drop(grammar);
}

static void test_limits_are_latched_and_named(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol a = grammar_text(kit.builder, SLICE("a"));
    for (uint32_t i = 0; i < LIMIT_GRAMMAR_RULES; i++)
        assert_int_not_equal(grammar_rule(kit.builder), GRAMMAR_NOTHING);
    assert_int_equal(grammar_builder_status(kit.builder), STATUS_OK);
    assert_int_equal(grammar_rule(kit.builder), GRAMMAR_NOTHING);
    assert_int_equal(grammar_builder_status(kit.builder), STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, "rules"));
    assert_int_equal(grammar_text(kit.builder, SLICE("b")), GRAMMAR_NOTHING);
    assert_int_equal(kit_finish(&kit, a, &grammar), STATUS_LIMIT);
}

static void test_fuel_bounds_what_is_built(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol a = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol start = grammar_rule(kit.builder);
    grammar_symbol many[64];
    for (uint32_t i = 0; i < 64; i++)
        many[i] = a;
    uint32_t count = 0;
    while (grammar_builder_status(kit.builder) == STATUS_OK && count < KIT_FUEL) {
        grammar_rule_add(kit.builder, start, many, 64);
        count++;
    }
    assert_true(count <= KIT_FUEL / 64);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_LIMIT);
}

static void test_a_cancelled_compilation_ends_soon(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    atomic_bool cancel = false;
    grammar_fuel_init(&kit.fuel, KIT_FUEL, &cancel);
    assert_int_equal(grammar_builder_new(&kit.fuel, &kit.builder), STATUS_OK);
    grammar_symbol start = grammar_rule(kit.builder);
    grammar_rule_add(kit.builder, start, NULL, 0);
    atomic_store(&cancel, true);
    uint32_t count = 0;
    while (grammar_builder_status(kit.builder) == STATUS_OK && count++ < KIT_FUEL)
        (void)grammar_rule(kit.builder);
    assert_true(count <= LIMIT_COMPILE_LOOK + 1);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_CANCELLED);
}

static struct kit_rules random_rules(uint64_t seed)
{
    struct rng rng = {.seed = seed};
    struct kit_rules rules;
    do
        kit_rules_random(&rules, &rng);
    while (!rules.is_productive[0]);
    return rules;
}

static enum status build_or_fail(const struct kit_rules *rules, struct grammar **out)
{
    struct kit_grammar kit;
    grammar_fuel_init(&kit.fuel, KIT_FUEL, NULL);
    *out = NULL;
    enum status status = grammar_builder_new(&kit.fuel, &kit.builder);
    if (status != STATUS_OK)
        return status;
    grammar_symbol letter = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol rule = grammar_rule(kit.builder);
    for (uint32_t i = 0; i < rules->rule[0].count + 80; i++)
        grammar_rule_add(kit.builder, rule, (grammar_symbol[]){letter, rule}, i % 3);
    return kit_finish(&kit, rule, out);
}

/* Each allocation fails once, and nothing leaks or is left half made. */
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    struct kit_rules rules = random_rules(5);
    struct grammar *grammar = NULL;
    uint32_t failures = 0;
    for (int at = 1; grammar == NULL; at++) {
        int left = at;
        mem_hook_set(kit_fail_at, &left);
        enum status status = build_or_fail(&rules, &grammar);
        mem_hook_set(NULL, NULL);
        assert_int_equal(status, grammar != NULL ? STATUS_OK : STATUS_NO_MEMORY);
        failures += grammar == NULL;
        assert_true(at < 10000);
    }
    assert_true(failures > 10);
    grammar_drop(grammar);
}

static void test_references_and_bytes(void **state)
{
    (void)state;
    struct kit_rules rules = random_rules(6);
    struct grammar *grammar;
    assert_int_equal(kit_rules_build(&rules, &grammar), STATUS_OK);
    size_t bytes = grammar_bytes(grammar);
    assert_true(bytes > sizeof(struct grammar) && bytes < LIMIT_GRAMMAR_BYTES);
    assert_ptr_equal(grammar_hold(grammar), grammar);
    grammar_drop(grammar);
    assert_int_equal(grammar_bytes(grammar), bytes);
    grammar_drop(grammar);
    grammar_drop(NULL);
    grammar_builder_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_start_without_a_match_is_invalid),
        cmocka_unit_test(test_what_is_not_needed_is_dropped),
        cmocka_unit_test(test_single_symbols_are_replaced),
        cmocka_unit_test(test_equal_lexemes_are_one),
        cmocka_unit_test(test_repetitions_take_few_rules),
        cmocka_unit_test(test_limits_are_latched_and_named),
        cmocka_unit_test(test_fuel_bounds_what_is_built),
        cmocka_unit_test(test_a_cancelled_compilation_ends_soon),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_references_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
