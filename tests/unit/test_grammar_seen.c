/* grammar_seen: lists whose items all differ: the stack of texts, and masks against trying every
 * token, where tokens hold several items. */
#include "engine/grammar/grammar_seen.h"

#include "config/base/limits_grammar.h"
#include "tests/unit/grammar_kit.h"

static void test_lists_share_their_beginnings(void **state)
{
    (void)state;
    struct grammar_seen seen = {0};
    uint32_t steps = 0;
    assert_true(grammar_seen_init(&seen, 8));
    grammar_seen_begin(&seen, 0, 0);
    grammar_seen_begin(&seen, 1, 11);
    assert_false(grammar_seen_has(&seen, 1, 0, &steps));
    assert_true(grammar_seen_add(&seen, 1, 0));
    uint64_t one = grammar_seen_after(&seen, 1, 0);
    assert_true(one > GRAMMAR_LIST_MOST(0) && one <= GRAMMAR_LIST_MOST(1));
    assert_true(grammar_seen_add(&seen, 1, 0)); /* twice is once */
    assert_int_equal(seen.rows[1].count, 1);
    grammar_seen_begin(&seen, 2, 22);
    assert_true(grammar_seen_add(&seen, 2, one));
    uint64_t two = grammar_seen_after(&seen, 2, one);
    assert_true(two >= GRAMMAR_LIST_LEAST(2) && two <= GRAMMAR_LIST_MOST(2));
    assert_int_equal(grammar_seen_after(&seen, 2, 0), 0); /* that list is another one */
    grammar_seen_begin(&seen, 3, 11);
    assert_true(grammar_seen_has(&seen, 3, two, &steps));
    assert_false(grammar_seen_has(&seen, 3, 0, &steps));
    grammar_seen_begin(&seen, 2, 33); /* row 2 is made again: its text is gone */
    assert_int_equal(grammar_seen_after(&seen, 2, one), one);
    grammar_seen_deinit(&seen);
}

static void test_the_stack_has_an_end(void **state)
{
    (void)state;
    struct grammar_seen seen = {0};
    uint64_t list = 0;
    assert_true(grammar_seen_init(&seen, LIMIT_GRAMMAR_TEXTS + 1));
    for (uint32_t row = 0; row < LIMIT_GRAMMAR_TEXTS; row++) {
        grammar_seen_begin(&seen, row, row);
        assert_true(grammar_seen_add(&seen, row, list));
        list = grammar_seen_after(&seen, row, list);
    }
    uint32_t steps = 0;
    grammar_seen_begin(&seen, LIMIT_GRAMMAR_TEXTS, LIMIT_GRAMMAR_TEXTS);
    assert_false(grammar_seen_has(&seen, LIMIT_GRAMMAR_TEXTS, list, &steps));
    assert_int_equal(steps, 1 + LIMIT_GRAMMAR_TEXTS / 4);
    assert_false(grammar_seen_add(&seen, LIMIT_GRAMMAR_TEXTS, list));
    grammar_seen_deinit(&seen);
}

static void test_texts_that_no_list_has_are_dropped(void **state)
{
    (void)state;
    struct grammar_seen seen = {0};
    uint64_t lists[6] = {0};
    assert_true(grammar_seen_init(&seen, 8));
    grammar_seen_begin(&seen, 0, 0);
    for (uint32_t row = 1; row < 6; row++) { /* two lists: 1 3 5 and 2 4 */
        const uint64_t before = row > 2 ? lists[row - 2] : 0;
        grammar_seen_begin(&seen, row, row * 11);
        assert_true(grammar_seen_add(&seen, row, before));
        lists[row] = grammar_seen_after(&seen, row, before);
    }
    assert_false(grammar_seen_is_tight(&seen, 5));
    grammar_seen_compact_begin(&seen);
    grammar_seen_keep(&seen, lists[3]);
    grammar_seen_keep_row(&seen, 5);
    grammar_seen_move(&seen, 5);
    grammar_seen_move_row(&seen, 5, 1);
    const uint64_t list = grammar_seen_moved(&seen, lists[3]);
    uint32_t steps = 0;
    assert_int_equal((uint32_t)list, 2); /* of the texts 11, 33 and 55 */
    assert_true(list >> 32 == lists[3] >> 32);
    const uint64_t after = grammar_seen_after(&seen, 1, list);
    assert_int_equal((uint32_t)after, 3);
    for (uint32_t row = 1; row < 6; row++) {
        grammar_seen_begin(&seen, 2, row * 11);
        assert_true(grammar_seen_has(&seen, 2, after, &steps) == (row % 2 == 1));
    }
    assert_true(grammar_seen_add(&seen, 2, after));
    assert_int_equal((uint32_t)grammar_seen_after(&seen, 2, after), 4);
    grammar_seen_deinit(&seen);
}

/* --- masks --- */

enum { LETTERS = 6, LENGTH = 4, TOKENS = 6 + 36 + 216 + 1296 + 1, BACK = 3 };
static char texts[TOKENS][LENGTH];

static struct slice text_of(const void *context, uint32_t id)
{
    (void)context;
    return (struct slice){texts[id], strnlen(texts[id], LENGTH)};
}

/* All texts of at most four of these letters. */
static struct token_trie *make_trie(void)
{
    struct token_trie *trie;
    uint32_t count = 0;
    uint32_t size = 1;
    for (uint32_t length = 1; length <= LENGTH; length++) {
        size *= LETTERS;
        for (uint32_t number = 0; number < size; number++, count++)
            for (uint32_t i = 0, left = number; i < length; i++, left /= LETTERS)
                texts[count][i] = "ab\",[]"[left % LETTERS];
    }
    assert_int_equal(count, TOKENS - 1);
    const struct token_trie_source source = {.vocab = TOKENS, .bytes = text_of};
    assert_int_equal(token_trie_new(&source, &trie), STATUS_OK);
    return trie;
}

/* A list of lists of strings over a and b; the strings of each inner list differ. */
static struct grammar *make_lists(void)
{
    const struct grammar_when always = {GRAMMAR_ALWAYS, 0};
    const struct grammar_when fewer = {GRAMMAR_MOST, GRAMMAR_LIST_MOST(5)};
    struct byte_set set = {0};
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    struct regex_pool *pool = grammar_builder_regexes(kit.builder);
    byte_set_add(&set, 'a');
    byte_set_add(&set, 'b');
    regex_node_id quote = regex_text(pool, slice_of("\""));
    regex_node_id letters = regex_repeat(pool, regex_bytes(pool, &set), 0, REGEX_UNBOUNDED);
    regex_node_id regex = regex_cat(pool, quote, regex_cat(pool, letters, quote));
    const struct grammar_use open = {grammar_text(kit.builder, slice_of("[")), 0, 0};
    const struct grammar_use close = {grammar_text(kit.builder, slice_of("]")), 0, 0};
    const struct grammar_use comma = {grammar_text(kit.builder, slice_of(",")), 0, 0};
    const struct grammar_use item = {grammar_lexeme(kit.builder, regex, GRAMMAR_NEW), 0, 0};
    grammar_symbol first = grammar_rule(kit.builder), after = grammar_rule(kit.builder);
    const struct grammar_use next[] = {comma, item, {after, GRAMMAR_PASS_LIST, 0}};
    grammar_counted_add(kit.builder, first, always, &next[1], 2);
    grammar_counted_add(kit.builder, after, always, &close, 1);
    grammar_counted_add(kit.builder, after, fewer, next, 3);
    grammar_symbol list = grammar_rule(kit.builder), lists = grammar_rule(kit.builder);
    const struct grammar_use whole[] = {open, {first, GRAMMAR_PASS_VALUE, 0}};
    grammar_counted_add(kit.builder, list, always, whole, 2);
    grammar_rule_add(kit.builder, lists, &list, 1);
    grammar_rule_add(kit.builder, lists, (grammar_symbol[]){lists, comma.symbol, list}, 3);
    grammar_symbol start =
        grammar_sequence(kit.builder, (grammar_symbol[]){open.symbol, lists, close.symbol}, 3);
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_OK);
    return grammar;
}

/* Compares a mask with trying every token, and goes on with one that is allowed. Tokens with many
 * marks come as often as tokens of letters. */
static bool step(struct grammar_run *run, struct rng *rng, uint32_t fuel)
{
    uint32_t mask[TOKENS / 32 + 1];
    uint32_t allowed[TOKENS], count = 0;
    while (grammar_mask_make(run, fuel, mask) == GRAMMAR_MASK_SUSPENDED)
        ;
    for (uint32_t id = 0; id < TOKENS - 1; id++) {
        bool is_allowed = (mask[id / 32] >> id % 32 & 1) != 0;
        bool is_taken = grammar_run_commit(run, id);
        assert_false(grammar_run_is_too_complex(run));
        if (is_taken != is_allowed)
            fail_msg("token %.4s: mask %d, commit %d", texts[id], is_allowed, is_taken);
        if (is_taken)
            grammar_run_back(run, 1);
        if (is_allowed)
            allowed[count++] = id;
    }
    assert_true(count != 0 || grammar_run_accepts(run));
    return count != 0 && grammar_run_commit(run, allowed[rng_below(rng, count)]);
}

static void test_masks_are_what_can_be_committed(void **state)
{
    (void)state;
    struct token_trie *trie = make_trie();
    struct grammar *grammar = make_lists();
    struct rng rng = {.seed = 5};
    struct grammar_run *run;
    uint32_t states = 0;
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    for (uint32_t round = 0; round < rounds(12, 2000); round++) {
        grammar_run_reset(run);
        for (uint32_t i = 0; i < 30 && step(run, &rng, 1 + (uint32_t)rng_below(&rng, 3000)); i++) {
            states++;
            if (i % 7 == 6)
                grammar_run_back(run, 1 + (uint32_t)rng_below(&rng, BACK));
        }
    }
    assert_true(states > 100);
    grammar_run_free(run);
    grammar_drop(grammar);
    token_trie_free(trie);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_share_their_beginnings),
        cmocka_unit_test(test_the_stack_has_an_end),
        cmocka_unit_test(test_texts_that_no_list_has_are_dropped),
        cmocka_unit_test(test_masks_are_what_can_be_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
