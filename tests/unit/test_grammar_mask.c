/* grammar_mask: masks against trying every token, and that fuel, cuts, kept masks and classes
 * change no bit. */
#include "engine/grammar/grammar_mask.h"

#include <pthread.h>

#include "config/base/limits_grammar.h"
#include "tests/unit/grammar_kit.h"

enum { VOCAB = 900, WORDS = (VOCAB + 31) / 32, TEXT_BYTES = 12, CONTROL = 3 };

static struct token_trie *trie;
static struct token_classes *classes;
static char texts[VOCAB][TEXT_BYTES];
static uint64_t states_tried, too_complex;

/* Tokens over few bytes, so that many are allowed. Some have the same bytes, as in real
 * vocabularies. */
static int setup(void **state)
{
    (void)state;
    static const char *pointers[VOCAB];
    struct rng rng = {.seed = 11};
    for (uint32_t id = 0; id < VOCAB; id++) {
        const char *letters = id % 3 == 0 ? "abcd" : id % 3 == 1 ? "abcd\"\\, " : "ab\"xyz\xc3\xa9";
        uint32_t length = 1 + (uint32_t)rng_below(&rng, TEXT_BYTES - 2);
        for (uint32_t i = 0; i < length; i++)
            texts[id][i] = letters[rng_below(&rng, strlen(letters))];
        if (id % 10 == 9)
            memcpy(texts[id], texts[id - 5], TEXT_BYTES);
        if (id < 4)
            memcpy(texts[id], (char[2]){"abcd"[id], 0}, 2);
        if (id >= VOCAB - CONTROL)
            texts[id][0] = '\0';
        pointers[id] = texts[id];
    }
    trie = kit_trie(pointers, VOCAB);
    assert_int_equal(token_classes_new(trie, &classes), STATUS_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    token_classes_free(classes);
    token_trie_free(trie);
    printf("%llu states were compared with trying every token\n", (unsigned long long)states_tried);
    return 0;
}

static void try_every_token(struct grammar_run *run, uint32_t *mask)
{
    memset(mask, 0, WORDS * sizeof *mask);
    for (uint32_t id = 0; id < VOCAB; id++)
        if (grammar_run_commit(run, id)) {
            mask[id / 32] |= 1u << id % 32;
            grammar_run_back(run, 1);
        }
}

static void assert_same(const uint32_t *mask, const uint32_t *expected, const char *what)
{
    for (uint32_t id = 0; id < VOCAB; id++)
        if ((mask[id / 32] >> id % 32 & 1) != (expected[id / 32] >> id % 32 & 1))
            fail_msg("%s: token %u \"%s\" is %s", what, id, texts[id],
                     mask[id / 32] >> id % 32 & 1 ? "allowed" : "forbidden");
}

/* A mask in calls of little fuel. */
static void make_in_pieces(struct grammar_run *run, uint32_t fuel, uint32_t *mask)
{
    enum grammar_mask_result result;
    uint32_t calls = 0;
    do {
        result = grammar_mask_make(run, fuel, mask);
        assert_int_not_equal(result, GRAMMAR_MASK_TOO_COMPLEX);
        assert_true(calls++ < 100000);
        (void)grammar_run_accepts(run); /* a question in between does no harm */
    } while (result == GRAMMAR_MASK_SUSPENDED);
}

/* False when a token is over the limits, which a very ambiguous grammar may be. */
static bool compare_here(struct grammar_run *run, struct rng *rng)
{
    uint32_t expected[WORDS], mask[WORDS];
    bool accepts = grammar_run_accepts(run);
    try_every_token(run, expected);
    if (grammar_run_is_too_complex(run))
        return false;
    grammar_run_use_classes(run, NULL);
    make_in_pieces(run, UINT32_MAX, mask);
    assert_same(mask, expected, "whole");
    make_in_pieces(run, UINT32_MAX, mask);
    assert_same(mask, expected, "kept");
    make_in_pieces(run, 1 + (uint32_t)rng_below(rng, 40), mask);
    assert_same(mask, expected, "resumed");
    grammar_run_use_classes(run, classes);
    make_in_pieces(run, UINT32_MAX, mask);
    assert_same(mask, expected, "classed");
    make_in_pieces(run, 1 + (uint32_t)rng_below(rng, 40), mask);
    assert_same(mask, expected, "classed and resumed");
    assert_int_equal(grammar_run_accepts(run), accepts);
    states_tried++;
    return true;
}

/* A token that the mask allows; false when there is none. */
static bool choose(struct grammar_run *run, struct rng *rng)
{
    uint32_t mask[WORDS];
    make_in_pieces(run, UINT32_MAX, mask);
    uint32_t start = (uint32_t)rng_below(rng, VOCAB);
    for (uint32_t i = 0; i < VOCAB; i++) {
        uint32_t id = (start + i) % VOCAB;
        if (mask[id / 32] >> id % 32 & 1)
            return grammar_run_commit(run, id);
    }
    return false;
}

static void walk(struct grammar *grammar, struct rng *rng, uint32_t steps)
{
    struct grammar_run *run;
    grammar_mask_classes(grammar, classes);
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    for (uint32_t i = 0; i < steps; i++) {
        bool is_compared = compare_here(run, rng);
        too_complex += !is_compared;
        if (!is_compared || !choose(run, rng))
            grammar_run_reset(run);
    }
    grammar_run_free(run);
    grammar_drop(grammar);
}

static void test_masks_of_random_rules_equal_trying_every_token(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    for (uint32_t i = 0; i < rounds(60, 6000); i++) {
        struct kit_rules rules;
        struct grammar *grammar;
        kit_rules_random(&rules, &rng);
        if (kit_rules_build(&rules, &grammar) == STATUS_OK)
            walk(grammar, &rng, 5);
    }
}

/* Lists of strings and words, with lengths, classes, a lazy lexeme and control tokens. */
static struct grammar *make_strings(uint32_t min, uint32_t max)
{
    static const struct regex_range inside[] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}};
    static const struct regex_range word[] = {{'a', 'c'}};
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    struct regex_pool *regexes = grammar_builder_regexes(kit.builder);
    regex_node_id quote = regex_text(regexes, SLICE("\""));
    regex_node_id escape =
        regex_or(regexes, regex_text(regexes, SLICE("\\\"")), regex_text(regexes, SLICE("\\\\")));
    regex_node_id one = regex_or(regexes, regex_chars(regexes, inside, 3), escape);
    regex_node_id string =
        regex_cat(regexes, quote, regex_cat(regexes, regex_repeat(regexes, one, min, max), quote));
    grammar_symbol value = grammar_rule(kit.builder);
    grammar_symbol list = grammar_rule(kit.builder);
    grammar_symbol comma = grammar_text(kit.builder, SLICE(","));
    grammar_symbol control = grammar_token(kit.builder, VOCAB - 1);
    grammar_symbol text = grammar_lexeme(kit.builder, string, GRAMMAR_GREEDY);
    grammar_symbol letters = grammar_lexeme(
        kit.builder, regex_repeat(regexes, regex_chars(regexes, word, 1), 2, 9), GRAMMAR_GREEDY);
    regex_node_id until =
        regex_cat(regexes, regex_text(regexes, SLICE("d")),
                  regex_cat(regexes, REGEX_ALL, regex_text(regexes, SLICE("xy"))));
    grammar_symbol lazy = grammar_lexeme(kit.builder, until, GRAMMAR_LAZY);
    grammar_rule_add(kit.builder, value, &text, 1);
    grammar_rule_add(kit.builder, value, &letters, 1);
    grammar_rule_add(kit.builder, value, &lazy, 1);
    grammar_rule_add(kit.builder, value, (grammar_symbol[]){control, list}, 2);
    grammar_rule_add(kit.builder, list, &value, 1);
    grammar_rule_add(kit.builder, list, (grammar_symbol[]){list, comma, value}, 3);
    assert_int_equal(kit_finish(&kit, list, &grammar), STATUS_OK);
    return grammar;
}

static void test_masks_of_strings_equal_trying_every_token(void **state)
{
    (void)state;
    struct rng rng = {.seed = 4};
    static const uint32_t lengths[][2] = {
        {0, REGEX_UNBOUNDED}, {0, 5}, {3, 3}, {1, 20}, {2, REGEX_UNBOUNDED}};
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        walk(make_strings(lengths[i][0], lengths[i][1]), &rng, rounds(60, 15500));
}

/* What a thread makes of one grammar: a sum over its masks. */
struct thread {
    struct grammar *grammar;
    uint64_t seed;
    uint64_t sum;
};

static void *walk_alone(void *context)
{
    struct thread *thread = context;
    struct rng rng = {.seed = thread->seed};
    struct grammar_run *run;
    uint32_t mask[WORDS];
    if (grammar_run_new(thread->grammar, trie, &run) != STATUS_OK)
        return NULL;
    grammar_run_use_classes(run, classes);
    for (uint32_t i = 0; i < 300; i++) {
        enum grammar_mask_result result = GRAMMAR_MASK_SUSPENDED;
        while (result == GRAMMAR_MASK_SUSPENDED)
            result = grammar_mask_make(run, 500, mask);
        for (uint32_t word = 0; word < WORDS; word++)
            thread->sum = (thread->sum ^ mask[word]) * 0x9e3779b97f4a7c15u;
        uint32_t id = (uint32_t)rng_below(&rng, VOCAB);
        for (uint32_t tries = 0; tries < VOCAB && (mask[id / 32] >> id % 32 & 1) == 0; tries++)
            id = (id + 1) % VOCAB;
        if (!grammar_run_commit(run, id))
            grammar_run_reset(run);
    }
    grammar_run_free(run);
    return NULL;
}

/* The lexer's table and the kept masks are shared; the bits are those of a thread that is alone. */
static void test_threads_share_a_grammar(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct thread together[THREADS], alone[THREADS];
    struct grammar *grammar = make_strings(1, 20);
    grammar_mask_classes(grammar, classes);
    for (uint32_t i = 0; i < THREADS; i++) {
        together[i] = (struct thread){grammar, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, walk_alone, &together[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < THREADS; i++) {
        alone[i] = (struct thread){make_strings(1, 20), i, 0};
        walk_alone(&alone[i]);
        grammar_drop(alone[i].grammar);
        assert_true(together[i].sum != 0);
        assert_int_equal(together[i].sum, alone[i].sum);
    }
    grammar_drop(grammar);
}

static void test_a_mask_is_dropped_when_the_run_moves(void **state)
{
    (void)state;
    uint32_t mask[WORDS], expected[WORDS];
    struct grammar *grammar = make_strings(0, REGEX_UNBOUNDED);
    struct grammar_run *run;
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    grammar_drop(grammar);
    for (uint32_t fuel = 1; fuel < 200; fuel += 7) {
        grammar_run_reset(run);
        assert_int_equal(grammar_mask_make(run, fuel, mask), GRAMMAR_MASK_SUSPENDED);
        assert_true(grammar_run_commit_bytes(run, SLICE("\"a")));
        try_every_token(run, expected);
        make_in_pieces(run, UINT32_MAX, mask);
        assert_same(mask, expected, "moved");
    }
    grammar_run_free(run);
}

/* Items of a row grow with the text, so a mask meets the limit sooner or later, by count. */
static void test_a_mask_over_the_limits_is_too_complex(void **state)
{
    (void)state;
    struct kit_grammar kit;
    struct grammar *grammar;
    struct grammar_run *run;
    uint32_t mask[WORDS];
    kit_begin(&kit);
    grammar_symbol a = grammar_text(kit.builder, SLICE("a"));
    grammar_symbol s = grammar_rule(kit.builder);
    grammar_rule_add(kit.builder, s, (grammar_symbol[]){s, s, s}, 3);
    grammar_rule_add(kit.builder, s, &a, 1);
    assert_int_equal(kit_finish(&kit, s, &grammar), STATUS_OK);
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    grammar_drop(grammar);
    enum grammar_mask_result result = GRAMMAR_MASK_DONE;
    uint32_t calls = 0;
    while (result != GRAMMAR_MASK_TOO_COMPLEX && calls++ < 100000) {
        result = grammar_mask_make(run, LIMIT_GRAMMAR_MASK_FUEL, mask);
        if (result == GRAMMAR_MASK_DONE && !grammar_run_commit(run, 0))
            result = GRAMMAR_MASK_TOO_COMPLEX;
    }
    assert_true(grammar_run_is_too_complex(run));
    assert_int_equal(grammar_mask_make(run, 1, mask), GRAMMAR_MASK_TOO_COMPLEX);
    grammar_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_of_random_rules_equal_trying_every_token),
        cmocka_unit_test(test_masks_of_strings_equal_trying_every_token),
        cmocka_unit_test(test_threads_share_a_grammar),
        cmocka_unit_test(test_a_mask_is_dropped_when_the_run_moves),
        cmocka_unit_test(test_a_mask_over_the_limits_is_too_complex),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
