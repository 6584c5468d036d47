/* grammar_force: bytes that must follow, and the tokens that a greedy tokenizer would write. */
#include "engine/grammar/grammar_force.h"

#include "tests/unit/grammar_kit.h"

static const char *const texts[] = {"{",   "\"",  "n",    "a",  "m",  "e",     ":",
                                    "{\"", "\":", "name", "na", "1",  "2",     "}",
                                    "x",   "12",  "\":1", "",   "am", "\"name"};
enum { TOKENS = sizeof texts / sizeof *texts, CONTROL = 17 };

static struct token_trie *trie;

static int setup(void **state)
{
    (void)state;
    trie = kit_trie(texts, TOKENS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    token_trie_free(trie);
    return 0;
}

/* The longest token that fits, from left to right. */
static enum status encode(void *context, struct slice text, uint32_t *ids, size_t capacity,
                          size_t *count)
{
    uint32_t *calls = context;
    (*calls)++;
    *count = 0;
    for (size_t at = 0; at < text.length;) {
        uint32_t best = TOKENS;
        for (uint32_t id = 0; id < TOKENS; id++) {
            struct slice token = slice_of(texts[id]);
            struct slice rest = {text.bytes + at, text.length - at};
            if (token.length != 0 && slice_starts_with(rest, token) &&
                (best == TOKENS || token.length > strlen(texts[best])))
                best = id;
        }
        if (best == TOKENS || *count == capacity)
            return STATUS_LIMIT;
        ids[(*count)++] = best;
        at += strlen(texts[best]);
    }
    return STATUS_OK;
}

/* {"name":N} where N is one or more of 1 and 2. */
static struct grammar_run *begin(void)
{
    struct kit_grammar kit;
    struct grammar *grammar;
    struct grammar_run *run;
    kit_begin(&kit);
    struct regex_pool *regexes = grammar_builder_regexes(kit.builder);
    regex_node_id digit =
        regex_or(regexes, regex_text(regexes, SLICE("1")), regex_text(regexes, SLICE("2")));
    grammar_symbol parts[4] = {
        grammar_text(kit.builder, SLICE("{")), grammar_text(kit.builder, SLICE("\"name\":")),
        grammar_lexeme(kit.builder, regex_repeat(regexes, digit, 1, REGEX_UNBOUNDED),
                       GRAMMAR_GREEDY),
        grammar_text(kit.builder, SLICE("}"))};
    assert_int_equal(kit_finish(&kit, grammar_sequence(kit.builder, parts, 4), &grammar),
                     STATUS_OK);
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    grammar_drop(grammar);
    return run;
}

static void test_bytes_that_must_follow(void **state)
{
    (void)state;
    char bytes[64];
    struct grammar_run *run = begin();
    assert_int_equal(grammar_force_bytes(run, bytes, sizeof bytes), 8);
    assert_memory_equal(bytes, "{\"name\":", 8);
    assert_int_equal(grammar_force_bytes(run, bytes, 3), 3);
    assert_true(grammar_run_commit_bytes(run, SLICE("{\"na")));
    assert_int_equal(grammar_force_bytes(run, bytes, sizeof bytes), 4);
    assert_memory_equal(bytes, "me\":", 4);
    assert_true(grammar_run_commit_bytes(run, SLICE("me\":1")));
    assert_int_equal(grammar_force_bytes(run, bytes, sizeof bytes), 0);
    assert_true(grammar_run_commit_bytes(run, SLICE("2}")));
    assert_int_equal(grammar_force_bytes(run, bytes, sizeof bytes), 0);
    assert_true(grammar_run_is_over(run));
    grammar_run_free(run);
}

/* The last `":` may become `":1`, so it is given up; the sampler writes it. */
static void test_tokens_are_canonical_and_those_that_may_grow_are_given_up(void **state)
{
    (void)state;
    uint32_t tokens[16], calls = 0;
    struct grammar_run *run = begin();
    size_t count = grammar_force_tokens(run, NULL, 0, encode, &calls, tokens, 16);
    assert_int_equal(count, 2);
    assert_string_equal(texts[tokens[0]], "{\"");
    assert_string_equal(texts[tokens[1]], "name");
    for (size_t i = 0; i < count; i++)
        assert_true(grammar_run_commit(run, tokens[i]));
    assert_int_equal(grammar_force_tokens(run, tokens, 2, encode, &calls, tokens, 16), 0);
    grammar_run_reset(run);
    assert_int_equal(grammar_force_tokens(run, NULL, 0, encode, &calls, tokens, 1), 1);
    grammar_run_free(run);
}

/* `{` and `"` were sampled apart. The tokenizer would have joined them, so the bytes behind are
 * tokenised with fewer of the tokens before. */
static void test_tokens_before_stay_as_they_are(void **state)
{
    (void)state;
    uint32_t tokens[16], calls = 0;
    static const uint32_t before[3] = {CONTROL, 0, 1};
    struct grammar_run *run = begin();
    assert_true(grammar_run_commit_bytes(run, SLICE("{")));
    assert_true(grammar_run_commit_bytes(run, SLICE("\"")));
    size_t count = grammar_force_tokens(run, before, 3, encode, &calls, tokens, 16);
    assert_int_equal(count, 1);
    assert_string_equal(texts[tokens[0]], "name");
    assert_int_equal(calls, 3); /* with both, with the quote (which joins "name"), with none */
    assert_int_equal(grammar_run_tokens(run), 2);
    grammar_run_free(run);
}

static enum status refuse(void *context, struct slice text, uint32_t *ids, size_t capacity,
                          size_t *count)
{
    (void)context, (void)text, (void)ids, (void)capacity, (void)count;
    return STATUS_LIMIT;
}

static void test_without_a_tokenizer_nothing_is_forced(void **state)
{
    (void)state;
    uint32_t tokens[16];
    struct grammar_run *run = begin();
    assert_int_equal(grammar_force_tokens(run, NULL, 0, refuse, NULL, tokens, 16), 0);
    grammar_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_that_must_follow),
        cmocka_unit_test(test_tokens_are_canonical_and_those_that_may_grow_are_given_up),
        cmocka_unit_test(test_tokens_before_stay_as_they_are),
        cmocka_unit_test(test_without_a_tokenizer_nothing_is_forced),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
