/* grammar_run: rows against a naive recogniser, going back, repetition, counts, control tokens,
 * lazy lexemes, and what happens at the limits. */
#include "engine/grammar/grammar_run.h"

#include "config/base/limits_grammar.h"
#include "engine/grammar/grammar_run_state.h"
#include "tests/unit/grammar_kit.h"

static struct token_trie *trie; /* "a" to "d", then some longer ones, then a control token */
enum { LETTER_A, LETTER_B, LETTER_C, LETTER_D, TOKEN_AB, TOKEN_CONTROL, TOKENS };

static int setup(void **state)
{
    (void)state;
    static const char *const texts[TOKENS] = {"a", "b", "c", "d", "ab", ""};
    trie = kit_trie(texts, TOKENS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    token_trie_free(trie);
    return 0;
}

static struct grammar_run *begin_run(struct grammar *grammar)
{
    struct grammar_run *run;
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    grammar_drop(grammar); /* the run has its own reference */
    return run;
}

static bool commit(struct grammar_run *run, const char *text)
{
    return grammar_run_commit_bytes(run, slice_of(text));
}

/* --- against the naive recogniser --- */

static void try_texts(const struct kit_rules *rules, struct grammar *grammar, struct rng *rng)
{
    struct grammar_run *run = begin_run(grammar);
    for (uint32_t i = 0; i < 12; i++) {
        char text[KIT_TEXT];
        bool is_whole;
        bool goes_on = kit_rules_match(rules, text, 0, &is_whole);
        grammar_run_reset(run);
        assert_int_equal(grammar_run_accepts(run), is_whole);
        for (uint32_t length = 1; length <= KIT_TEXT && goes_on; length++) {
            text[length - 1] = "abcdefgh"[rng_below(rng, KIT_LETTERS)];
            goes_on = kit_rules_match(rules, text, length, &is_whole);
            bool is_taken = grammar_run_commit_bytes(run, (struct slice){&text[length - 1], 1});
            if (grammar_run_is_too_complex(run))
                fail_msg("too complex after %u bytes", length);
            assert_int_equal(is_taken, goes_on);
            if (goes_on)
                assert_int_equal(grammar_run_accepts(run), is_whole);
        }
    }
    grammar_run_free(run);
}

static void test_rows_accept_what_a_naive_recogniser_accepts(void **state)
{
    (void)state;
    struct rng rng = {.seed = 1};
    uint32_t built = 0;
    for (uint32_t i = 0; i < rounds(400, 40000); i++) {
        struct kit_rules rules;
        struct grammar *grammar;
        kit_rules_random(&rules, &rng);
        enum status status = kit_rules_build(&rules, &grammar);
        assert_int_equal(status, rules.is_productive[0] ? STATUS_OK : STATUS_INVALID);
        if (status != STATUS_OK)
            continue;
        try_texts(&rules, grammar, &rng);
        built++;
    }
    assert_true(built > 100);
}

/* --- going back --- */

/* A grammar with nesting, lists, and lexemes that end late. */
static struct grammar *make_nested(void)
{
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    struct regex_pool *regexes = grammar_builder_regexes(kit.builder);
    regex_node_id a = regex_text(regexes, SLICE("a"));
    grammar_symbol value = grammar_rule(kit.builder);
    grammar_symbol list = grammar_rule(kit.builder);
    grammar_symbol word =
        grammar_lexeme(kit.builder, regex_repeat(regexes, a, 1, REGEX_UNBOUNDED), GRAMMAR_GREEDY);
    grammar_symbol open = grammar_text(kit.builder, SLICE("b"));
    grammar_symbol comma = grammar_text(kit.builder, SLICE("c"));
    grammar_symbol close = grammar_text(kit.builder, SLICE("d"));
    grammar_rule_add(kit.builder, value, &word, 1);
    grammar_rule_add(kit.builder, value, (grammar_symbol[]){open, list, close}, 3);
    grammar_rule_add(kit.builder, list, &value, 1);
    grammar_rule_add(kit.builder, list, (grammar_symbol[]){list, comma, value}, 3);
    assert_int_equal(kit_finish(&kit, value, &grammar), STATUS_OK);
    return grammar;
}

/* What can be seen of a run's place. */
static uint32_t view(struct grammar_run *run)
{
    uint32_t seen = grammar_run_accepts(run);
    for (uint32_t token = 0; token < TOKENS; token++)
        if (grammar_run_commit(run, token)) {
            seen |= 2u << token;
            grammar_run_back(run, 1);
        }
    return seen;
}

static void test_going_back_equals_a_new_replay(void **state)
{
    (void)state;
    struct rng rng = {.seed = 2};
    struct grammar *grammar = make_nested();
    struct grammar_run *run = begin_run(grammar_hold(grammar));
    struct grammar_run *other = begin_run(grammar);
    uint32_t tokens[4096];
    uint32_t count = 1;
    tokens[0] = LETTER_B;
    assert_true(grammar_run_commit(run, LETTER_B));
    for (uint32_t i = 0; i < rounds(300, 3000) && count < 4000; i++) {
        for (uint32_t k = 0; k < 20; k++) {
            uint32_t token = (uint32_t)rng_below(&rng, TOKENS);
            if (grammar_run_commit(run, token))
                tokens[count++] = token;
        }
        uint32_t most = grammar_run_backs(run) < count ? grammar_run_backs(run) : count - 1;
        uint32_t back = (uint32_t)rng_below(&rng, (most < 6 ? most : 6) + 1);
        grammar_run_back(run, back);
        count -= back;
        assert_int_equal(grammar_run_tokens(run), count);
        grammar_run_reset(other);
        for (uint32_t k = 0; k < count; k++)
            assert_true(grammar_run_commit(other, tokens[k]));
        assert_int_equal(view(run), view(other));
    }
    assert_true(count > 100);
    grammar_run_free(run);
    grammar_run_free(other);
}

static void test_32_tokens_can_be_taken_back(void **state)
{
    (void)state;
    struct grammar_run *run = begin_run(make_nested());
    assert_int_equal(grammar_run_backs(run), 0);
    for (uint32_t i = 0; i < 100; i++)
        assert_true(commit(run, "a"));
    assert_int_equal(grammar_run_backs(run), GRAMMAR_RUN_BACK);
    grammar_run_back(run, 5);
    assert_int_equal(grammar_run_backs(run), GRAMMAR_RUN_BACK - 5);
    assert_false(commit(run, "x")); /* a refused token changes nothing */
    assert_int_equal(grammar_run_backs(run), GRAMMAR_RUN_BACK - 5);
    assert_int_equal(grammar_run_tokens(run), 95);
    grammar_run_free(run);
}

/* --- repetition --- */

static void try_repeat(uint32_t min, uint32_t max, uint32_t most)
{
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol letter = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol start = grammar_repeat(kit.builder, letter, min, max);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_OK);
    assert_true(grammar_rules(grammar) <= 64);
    struct grammar_run *run = begin_run(grammar);
    for (uint32_t count = 0; count <= most; count++) {
        assert_int_equal(grammar_run_accepts(run), count >= min && count <= max);
        assert_int_equal(grammar_run_is_over(run), count == max);
        assert_int_equal(commit(run, "a"), count < max);
        if (count == max)
            break;
    }
    grammar_run_free(run);
}

static void test_repetition_counts_exactly(void **state)
{
    (void)state;
    for (uint32_t min = 0; min <= 9; min++)
        for (uint32_t max = min; max <= 18; max++)
            try_repeat(min, max, 20);
    try_repeat(0, GRAMMAR_UNBOUNDED, 100);
    try_repeat(5, GRAMMAR_UNBOUNDED, 100);
    try_repeat(1000, 1023, 1100);
    try_repeat(0, 1500, 1600);
    if (rounds(0, 1) != 0)
        try_repeat(65535, 65535, 65535);
    try_repeat(3, GRAMMAR_REPEAT, 5000);
}

static void test_a_repetition_that_is_wrong_matches_nothing(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol letter = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol start = grammar_repeat(kit.builder, letter, 3, 2);
    assert_int_equal(start, GRAMMAR_NOTHING);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_INVALID);
    kit_begin(&kit);
    letter = grammar_text(kit.builder, SLICE("a"));
    start = grammar_repeat(kit.builder, letter, GRAMMAR_REPEAT + 1, GRAMMAR_UNBOUNDED);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_LIMIT);
}

/* --- counts --- */

/* Each of the letters a to d at most once, at least two of them, in any order. */
static struct grammar *make_unique(void)
{
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol more = grammar_rule(kit.builder);
    for (uint32_t i = 0; i < 4; i++) {
        grammar_symbol letter = grammar_text(kit.builder, (struct slice){&"abcd"[i], 1});
        struct grammar_use uses[2] = {{letter, GRAMMAR_PASS_VALUE, 0},
                                      {more, GRAMMAR_PASS_OR, (uint64_t)1 << i}};
        grammar_counted_add(kit.builder, more,
                            (struct grammar_when){GRAMMAR_CLEAR, (uint64_t)1 << i}, uses, 2);
    }
    grammar_counted_add(kit.builder, more, (struct grammar_when){GRAMMAR_BITS, 2}, NULL, 0);
    assert_int_equal(kit_finish(&kit, more, &grammar), STATUS_OK);
    return grammar;
}

static void test_counted_rules_know_what_was_used(void **state)
{
    (void)state;
    struct grammar_run *run = begin_run(make_unique());
    for (uint32_t number = 0; number < 4096; number++) { /* six letters, two bits each */
        uint32_t used = 0;
        bool goes_on = true;
        grammar_run_reset(run);
        for (uint32_t i = 0; i < 6 && goes_on; i++) {
            uint32_t letter = number >> 2 * i & 3;
            assert_int_equal(grammar_run_accepts(run), __builtin_popcount(used) >= 2);
            goes_on = (used >> letter & 1) == 0;
            assert_int_equal(grammar_run_commit(run, letter), goes_on);
            used |= 1u << letter;
        }
    }
    grammar_run_free(run);
}

static void test_counts_are_added_and_compared(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol a = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol b = grammar_text(kit.builder, SLICE("b"));
    grammar_symbol more = grammar_rule(kit.builder);
    struct grammar_use one[2] = {{a, GRAMMAR_PASS_VALUE, 0}, {more, GRAMMAR_PASS_ADD, 3}};
    struct grammar_use end[1] = {{b, GRAMMAR_PASS_VALUE, 0}};
    grammar_counted_add(kit.builder, more, (struct grammar_when){GRAMMAR_MOST, 8}, one, 2);
    grammar_counted_add(kit.builder, more, (struct grammar_when){GRAMMAR_LEAST, 6}, end, 1);
    assert_int_equal(kit_finish(&kit, more, &grammar), STATUS_OK);
    struct grammar_run *run = begin_run(grammar); /* aab, aaab */
    assert_false(commit(run, "b"));
    assert_true(commit(run, "a"));
    assert_false(commit(run, "b"));
    assert_true(commit(run, "a"));
    assert_true(commit(run, "b"));
    assert_true(grammar_run_is_over(run));
    grammar_run_back(run, 1);
    assert_true(commit(run, "a"));
    assert_false(commit(run, "a"));
    assert_true(commit(run, "b"));
    assert_true(grammar_run_is_over(run));
    grammar_run_free(run);
}

/* --- lexemes and control tokens --- */

static void test_control_tokens_stand_between_lexemes(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    struct regex_pool *regexes = grammar_builder_regexes(kit.builder);
    regex_node_id a = regex_text(regexes, SLICE("a"));
    grammar_symbol word =
        grammar_lexeme(kit.builder, regex_repeat(regexes, a, 2, REGEX_UNBOUNDED), GRAMMAR_GREEDY);
    grammar_symbol control = grammar_token(kit.builder, TOKEN_CONTROL);
    grammar_symbol start =
        grammar_sequence(kit.builder, (grammar_symbol[]){control, word, control}, 3);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_OK);
    struct grammar_run *run = begin_run(grammar);
    assert_false(grammar_run_commit(run, LETTER_A));
    assert_true(grammar_run_commit(run, TOKEN_CONTROL));
    assert_false(grammar_run_commit(run, TOKEN_CONTROL));
    assert_true(grammar_run_commit(run, LETTER_A));
    assert_false(grammar_run_commit(run, TOKEN_CONTROL)); /* the word has two letters */
    assert_true(grammar_run_commit(run, LETTER_A));
    assert_false(grammar_run_accepts(run));
    assert_true(grammar_run_commit(run, TOKEN_CONTROL));
    assert_true(grammar_run_is_over(run));
    grammar_run_back(run, 2);
    assert_false(grammar_run_commit(run, TOKEN_CONTROL));
    grammar_run_free(run);
}

static void test_a_lazy_lexeme_ends_at_its_first_match(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    struct regex_pool *regexes = grammar_builder_regexes(kit.builder);
    struct byte_set all;
    memset(&all, 0xff, sizeof all);
    regex_node_id any = regex_repeat(regexes, regex_bytes(regexes, &all), 0, REGEX_UNBOUNDED);
    regex_node_id until = regex_cat(regexes, any, regex_text(regexes, SLICE("ab")));
    grammar_symbol text = grammar_lexeme(kit.builder, until, GRAMMAR_LAZY);
    grammar_symbol close = grammar_text(kit.builder, SLICE("d"));
    grammar_symbol start = grammar_sequence(kit.builder, (grammar_symbol[]){text, close}, 2);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_OK);
    struct grammar_run *run = begin_run(grammar);
    assert_true(commit(run, "xaacdda"));
    assert_true(commit(run, "b"));
    assert_false(commit(run, "x"));
    assert_true(commit(run, "d"));
    assert_true(grammar_run_is_over(run));
    grammar_run_free(run);
}

static void test_a_lexeme_that_may_be_empty_is_optional(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    struct regex_pool *regexes = grammar_builder_regexes(kit.builder);
    regex_node_id a = regex_text(regexes, SLICE("a"));
    grammar_symbol some =
        grammar_lexeme(kit.builder, regex_repeat(regexes, a, 0, REGEX_UNBOUNDED), GRAMMAR_GREEDY);
    grammar_symbol b = grammar_text(kit.builder, SLICE("b"));
    grammar_symbol start = grammar_sequence(kit.builder, (grammar_symbol[]){some, b, some}, 3);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_OK);
    struct grammar_run *run = begin_run(grammar);
    assert_false(grammar_run_accepts(run));
    assert_true(commit(run, "b"));
    assert_true(grammar_run_accepts(run));
    assert_false(grammar_run_is_over(run));
    grammar_run_reset(run);
    assert_true(commit(run, "aaabaa"));
    assert_true(grammar_run_accepts(run));
    assert_false(commit(run, "b"));
    grammar_run_free(run);
}

/* --- limits --- */

/* The thread of the engine asks after each token, and has no fuel for the lexer's table. */
static void test_asking_for_the_end_fills_nothing(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    struct regex_pool *regexes = grammar_builder_regexes(kit.builder);
    regex_node_id a = regex_text(regexes, SLICE("a")), d = regex_text(regexes, SLICE("d"));
    regex_node_id either = regex_or(regexes, a, d);
    grammar_symbol start = grammar_lexeme(
        kit.builder, regex_cat(regexes, regex_repeat(regexes, either, 1, 9), d), GRAMMAR_GREEDY);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_OK);
    struct grammar_run *run = begin_run(grammar);
    assert_true(commit(run, "ad"));
    uint64_t before = lexer_spent(run->grammar->lexer);
    assert_true(grammar_run_accepts(run));
    assert_false(grammar_run_is_over(run));
    assert_int_equal(lexer_spent(run->grammar->lexer), before);
    assert_true(commit(run, "dddddddd"));
    assert_true(grammar_run_is_over(run));
    grammar_run_free(run);
}

static void test_long_lists_fit_by_compaction(void **state)
{
    (void)state;
    struct grammar_run *run = begin_run(make_nested());
    assert_true(commit(run, "ba"));
    uint32_t count = rounds(40000, 400000);
    for (uint32_t i = 0; i < count; i++)
        assert_true(commit(run, i % 3 == 0 ? "cbad" : "ca"));
    assert_true(commit(run, "d"));
    assert_true(grammar_run_is_over(run));
    grammar_run_back(run, GRAMMAR_RUN_BACK);
    assert_true(commit(run, "d"));
    assert_true(grammar_run_is_over(run));
    grammar_run_free(run);
}

static void test_nesting_without_end_becomes_too_complex(void **state)
{
    (void)state;
    struct grammar_run *run = begin_run(make_nested());
    uint32_t depth = 0;
    while (depth < 1000000 && commit(run, "b"))
        depth++;
    assert_true(grammar_run_is_too_complex(run));
    assert_true(depth > 1000);
    assert_false(grammar_run_accepts(run));
    assert_false(commit(run, "a"));
    grammar_run_reset(run);
    assert_true(commit(run, "bad"));
    assert_true(grammar_run_is_over(run));
    grammar_run_free(run);
}

/* S = S S S | S S | a: the number of ways grows without bound, the number of items does not. */
static void test_ambiguous_rules_stay_within_the_limits(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol a = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol s = grammar_rule(kit.builder);
    grammar_rule_add(kit.builder, s, (grammar_symbol[]){s, s, s}, 3);
    grammar_rule_add(kit.builder, s, (grammar_symbol[]){s, s}, 2);
    grammar_rule_add(kit.builder, s, &a, 1);
    assert_int_equal(kit_finish(&kit, s, &grammar), STATUS_OK);
    struct grammar_run *run = begin_run(grammar);
    uint32_t count = 0;
    while (count < 10000 && commit(run, "a"))
        count++;
    assert_true(grammar_run_is_too_complex(run));
    assert_true(count >= 64);
    grammar_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_accept_what_a_naive_recogniser_accepts),
        cmocka_unit_test(test_going_back_equals_a_new_replay),
        cmocka_unit_test(test_32_tokens_can_be_taken_back),
        cmocka_unit_test(test_repetition_counts_exactly),
        cmocka_unit_test(test_a_repetition_that_is_wrong_matches_nothing),
        cmocka_unit_test(test_counted_rules_know_what_was_used),
        cmocka_unit_test(test_counts_are_added_and_compared),
        cmocka_unit_test(test_control_tokens_stand_between_lexemes),
        cmocka_unit_test(test_a_lazy_lexeme_ends_at_its_first_match),
        cmocka_unit_test(test_a_lexeme_that_may_be_empty_is_optional),
        cmocka_unit_test(test_asking_for_the_end_fills_nothing),
        cmocka_unit_test(test_long_lists_fit_by_compaction),
        cmocka_unit_test(test_nesting_without_end_becomes_too_complex),
        cmocka_unit_test(test_ambiguous_rules_stay_within_the_limits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
