#include "engine/request/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/grammar_mask.h"
#include "engine/grammar/token_class.h"

/* Tokens 0 to 25 are the letters, and token 26 is "ab". */
static struct slice bytes_of(const void *context, uint32_t id)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    (void)context;
    return id < 26 ? (struct slice){letters + id, 1} : (struct slice){letters, 2};
}

static struct token_trie *trie;
static struct token_classes *classes;

static int set_up(void **state)
{
    const struct token_trie_source source = {.vocab = 27, .bytes = bytes_of};
    (void)state;
    assert_int_equal(token_trie_new(&source, &trie), STATUS_OK);
    assert_int_equal(token_classes_new(trie, &classes), STATUS_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    token_classes_free(classes);
    token_trie_free(trie);
    return 0;
}

static struct grammar *grammar_make(const char *text)
{
    struct grammar_fuel fuel;
    struct grammar_builder *builder = NULL;
    struct grammar *grammar = NULL;
    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, NULL);
    assert_int_equal(grammar_builder_new(&fuel, &builder), STATUS_OK);
    assert_int_equal(grammar_finish(builder, grammar_text(builder, slice_of(text)), &grammar),
                     STATUS_OK);
    grammar_builder_free(builder);
    return grammar;
}

static void test_to_the_end(void **state)
{
    (void)state;
    struct grammar *grammar = grammar_make("abc");
    struct guard guard;
    assert_int_equal(guard_make(&guard, grammar, classes), STATUS_OK);
    grammar_drop(grammar); /* the guard has its own reference */
    assert_int_equal(grammar_mask_make(guard.run, LIMIT_GRAMMAR_MASK_FUEL, guard.mask),
                     GRAMMAR_MASK_DONE);
    assert_int_equal(guard.mask[0], 1 | 1U << 26);
    guard.is_ready = true;
    guard.waits = 3;
    assert_true(guard_take(&guard, 26));
    assert_false(guard.is_ready);
    assert_int_equal(guard.waits, 0);
    assert_false(guard_is_over(&guard));
    assert_true(guard_take(&guard, 2));
    assert_true(guard_is_over(&guard));
    guard_free(&guard);
}

/* A token that the grammar does not allow breaks the guard for good. */
static void test_broken(void **state)
{
    (void)state;
    struct grammar *grammar = grammar_make("abc");
    struct guard guard;
    assert_int_equal(guard_make(&guard, grammar, classes), STATUS_OK);
    assert_false(guard_take(&guard, 1));
    assert_true(guard.is_broken);
    assert_false(guard_take(&guard, 0));
    guard_free(&guard);
    grammar_drop(grammar);
}

/* What the prompt has written comes first. */
static void test_begun_by_the_prompt(void **state)
{
    (void)state;
    struct grammar *grammar = grammar_make("abc");
    struct guard guard;
    assert_int_equal(guard_make(&guard, grammar, classes), STATUS_OK);
    assert_true(guard_begin(&guard, SLICE("a")));
    assert_true(guard_take(&guard, 1));
    assert_int_equal(grammar_mask_make(guard.run, LIMIT_GRAMMAR_MASK_FUEL, guard.mask),
                     GRAMMAR_MASK_DONE);
    assert_int_equal(guard.mask[0], 1 << 2);
    assert_false(guard_begin(&guard, SLICE("x")));
    guard_free(&guard);
    grammar_drop(grammar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_the_end),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_begun_by_the_prompt),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
