/* lark: grammars and what they match, and constructs that are refused by name. */
#include "engine/schema/lark.h"

#include "config/base/limits_grammar.h"
#include "tests/unit/grammar_kit.h"

enum { CONTROL = 2 };

static struct token_trie *trie;
static struct lark_error error;

static int setup(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "b", ""};
    trie = kit_trie(texts, 3);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    token_trie_free(trie);
    return 0;
}

static bool find_token(const void *context, struct slice name, uint32_t *token)
{
    (void)context;
    *token = CONTROL;
    return slice_is(name, "<|call|>");
}

static enum status build(const char *source, struct grammar **out)
{
    static const struct lark_tokens tokens = {find_token, NULL};
    static const struct constraint_options options = {.tokens = &tokens};
    struct kit_grammar kit;
    grammar_symbol start;
    kit_begin(&kit);
    *out = NULL;
    error = (struct lark_error){0};
    enum status status = lark_build(kit.builder, slice_of(source), &options, &start, &error);
    if (status != STATUS_OK) {
        grammar_builder_free(kit.builder);
        return status;
    }
    return kit_finish(&kit, start, out);
}

static struct grammar_run *begin(const char *source)
{
    struct grammar *grammar;
    struct grammar_run *run;
    if (build(source, &grammar) != STATUS_OK)
        fail_msg("line %u: %s", error.line, error.message);
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    grammar_drop(grammar);
    return run;
}

static bool matches(struct grammar_run *run, const char *text)
{
    grammar_run_reset(run);
    return (text[0] == '\0' || grammar_run_commit_bytes(run, slice_of(text))) &&
           grammar_run_accepts(run);
}

/* A grammar, texts that it matches, and texts that it does not, each list ended by NULL. */
struct row {
    const char *source;
    const char *good[6];
    const char *bad[6];
};

static void test_constructs_match_what_they_say(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"start: \"a\" \"b\"", {"ab"}, {"a", "b", "abb", ""}},
        {"start: \"a\"\n     | \"b\" -> other\n\n     | \"cd\"\n", {"a", "b", "cd"}, {"c", "ab"}},
        {"?start: x+\nx: \"a\" | \"(\" start \")\"",
         {"a", "aa", "(a)", "a((a)a)"},
         {"", "(", "()"}},
        {"start: \"a\"? \"b\"* \"c\"+", {"c", "abbc", "bcc"}, {"ab", "aac", ""}},
        {"start: \"a\"~3", {"aaa"}, {"aa", "aaaa"}},
        {"start: \"a\"~2..3 \"b\"{1,2} \"c\"{2} \"d\"{1,}",
         {"aabccd", "aaabbccddd"},
         {"abccd", "aabcd"}},
        {"start: \"a\"{,2}", {"", "a", "aa"}, {"aaa"}},
        {"start: [\"a\"] (\"b\" | \"c\")", {"ab", "c"}, {"a", "bc"}},
        {"start: \"aB\"i", {"ab", "AB", "Ab"}, {"a", "a b"}},
        {"start: \"a\"..\"e\" \"\xc3\xa0\"..\"\xc3\xbf\"", {"c\xc3\xa9"}, {"f\xc3\xa9", "ce"}},
        {"start: /[a-c]+x/ /y/i", {"abxY", "cxy"}, {"xy", "abX"}},
        {"start: /a.b/s", {"axb", "a\nb"}, {"ab"}},
        {"start: /a.b/", {"axb"}, {"a\nb"}},
        {"start: /a\\/b/ \"\\\"\\\\\\n\\t\\x41\\u00e9\"", {"a/b\"\\\n\tA\xc3\xa9"}, {"ab"}},
        {"start: WORD NUM\nWORD: LETTER+\nLETTER: /[a-z]/\nNUM: (\"0\"..\"9\")~1..3",
         {"ab12", "z999"},
         {"12", "ab", "a1234"}},
        {"start: \"x\" REST\nREST: /(.*)/", {"x", "xyz"}, {"", "y"}},
        {"// a comment\nstart: a // another\n\n\na: \"1\"", {"1"}, {"2"}},
        {"start:\n  | \"a\"\n  | \"b\"\n", {"a", "b"}, {"", "ab"}},
        {"start: \"a\" |", {"a", ""}, {"aa"}},
        {"!start: _X\n_X: \"q\"", {"q"}, {"x"}},
        {"%import common.INT\n%import common.CNAME -> NAME\n%import common (WS, LF)\n"
         "start: NAME \"=\" INT LF",
         {"a_1=42\n"},
         {"1=1\n", "a=\n", "a=1"}},
        {"%import common.SIGNED_NUMBER\nstart: SIGNED_NUMBER",
         {"1", "-1.5e+3", ".5", "+2."},
         {"e1", "."}},
        {"%import common.ESCAPED_STRING\nstart: ESCAPED_STRING",
         {"\"a\\\"b\"", "\"\""},
         {"\"a", "\"\\\""}},
        {"start: \"x=\" %json {\"type\": \"integer\",\n \"minimum\": 7} (\";\" y)?\n"
         "y: %json {\"enum\": [\"}\", \"\\\"{\"]}",
         {"x=7", "x=12;\"}\"", "x=9;\"\\\"{\""},
         {"x=6", "x=", "x=7;", "x=7;\"{\""}},
        {"%import common.WS\n%ignore WS\nstart: %json {\"type\":\"array\",\"items\":{\"const\":1}} "
         "~ 2",
         {"[1][]", "[1, 1]\n\n\n [1]  "},
         {"[1]", "[2][]"}},
        {"%import common.WS\n%ignore WS\nstart: \"a\" \"b\"",
         {"ab", "a b", "a \n\tb  "},
         {" ab", "b"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct grammar_run *run = begin(rows[i].source);
        for (uint32_t k = 0; k < 6 && rows[i].good[k] != NULL; k++)
            if (!matches(run, rows[i].good[k]))
                fail_msg("%s: does not match \"%s\"", rows[i].source, rows[i].good[k]);
        for (uint32_t k = 0; k < 6 && rows[i].bad[k] != NULL; k++)
            if (matches(run, rows[i].bad[k]))
                fail_msg("%s: matches \"%s\"", rows[i].source, rows[i].bad[k]);
        grammar_run_free(run);
    }
}

/* Shaped as the grammar of a patch tool: lines to their ends, optional parts, terminals that may be
 * empty. */
static void test_a_grammar_of_patches(void **state)
{
    (void)state;
    struct grammar_run *run = begin("start: head file+ tail\n"
                                    "head: \"*** Begin\" LF\n"
                                    "tail: \"*** End\" LF?\n"
                                    "file: added | removed | changed\n"
                                    "added: \"*** New: \" name LF line+\n"
                                    "removed: \"*** Gone: \" name LF\n"
                                    "changed: \"*** Changed: \" name LF moved? change?\n"
                                    "moved: \"*** Now: \" name LF\n"
                                    "name: /(.+)/\n"
                                    "line: \"+\" /(.*)/ LF -> line\n"
                                    "change: (place | edit)+ last?\n"
                                    "place: (\"@@\" | \"@@ \" /(.+)/) LF\n"
                                    "edit: (\"+\" | \"-\" | \" \") /(.*)/ LF\n"
                                    "last: \"*** End of File\" LF\n"
                                    "%import common.LF\n");
    assert_true(matches(run, "*** Begin\n*** New: a b.txt\n+one\n+\n*** End\n"));
    assert_true(matches(run, "*** Begin\n*** Gone: x\n*** Gone: y\n*** End"));
    assert_true(matches(run, "*** Begin\n*** Changed: x\n*** Now: y\n@@ f()\n-a\n+b\n c\n"
                             "*** End of File\n*** End\n"));
    assert_true(matches(run, "*** Begin\n*** Changed: x\n@@\n+\n*** End\n"));
    assert_false(matches(run, "*** Begin\n*** End\n"));
    assert_false(matches(run, "*** Begin\n*** New: x\n*** End\n"));
    assert_false(matches(run, "*** Begin\n*** Changed: x\n@@ \n*** End\n"));
    grammar_run_free(run);
}

static void test_control_tokens_are_found_by_name(void **state)
{
    (void)state;
    struct grammar_run *run = begin("start: \"a\" <|call|> \"b\"");
    assert_true(grammar_run_commit(run, 0));
    assert_false(grammar_run_commit(run, 1));
    assert_true(grammar_run_commit(run, CONTROL));
    assert_true(grammar_run_commit(run, 1));
    assert_true(grammar_run_is_over(run));
    grammar_run_free(run);
}

static void test_what_is_ignored_is_bounded(void **state)
{
    (void)state;
    struct grammar_run *run = begin("start: \"a\" \"b\"\n%ignore \" \"\n%ignore /#[^\\n]*\\n/");
    char text[4 * LIMIT_LARK_IGNORED];
    assert_true(matches(run, "a  # why\n #\n b"));
    for (uint32_t blanks = LIMIT_LARK_IGNORED; blanks <= LIMIT_LARK_IGNORED + 1; blanks++) {
        memset(text, ' ', sizeof text);
        text[0] = 'a';
        text[blanks + 1] = 'b';
        text[blanks + 2] = '\0';
        assert_int_equal(matches(run, text), blanks <= LIMIT_LARK_IGNORED);
    }
    grammar_run_free(run);
}

struct refusal {
    const char *source;
    enum status status;
    uint32_t line;
    const char *part; /* of keyword or message */
};

static void test_what_is_wrong_is_named_with_its_line(void **state)
{
    (void)state;
    static const struct refusal rows[] = {
        {"start: a{b}\na: \"x\"", STATUS_UNSUPPORTED, 1, "Templates"},
        {"start: \"x\"\na{b}: b", STATUS_UNSUPPORTED, 2, "Templates"},
        {"start: A\nA.2: \"x\"", STATUS_UNSUPPORTED, 2, "Priorities"},
        {"start: \"x\"\n%override start: \"y\"", STATUS_UNSUPPORTED, 2, "%override"},
        {"start: \"x\"\n%declare A", STATUS_UNSUPPORTED, 2, "%declare"},
        {"start: \"x\"\n\n%extend start: \"y\"", STATUS_UNSUPPORTED, 3, "%extend"},
        {"start: \"x\"\n%import python.NAME", STATUS_UNSUPPORTED, 2, "common"},
        {"start: A\n%import common.NOTHING -> A", STATUS_UNSUPPORTED, 2, "NOTHING"},
        {"start: \"x\"\n%what", STATUS_INVALID, 2, "directive"},
        {"start: \"x\"\n%json {}", STATUS_INVALID, 2, "part of a rule"},
        {"start: \"x\" %json", STATUS_INVALID, 1, "%json"},
        {"start: \"x\" % \"y\"", STATUS_INVALID, 1, "expected"},
        {"start: \"x\"\n  | %json {\"a\": \"}\"", STATUS_INVALID, 2, "closing brace"},
        {"start: %json {\"type\":}", STATUS_INVALID, 1, "schema"},
        {"start: A\nA: %json {}", STATUS_INVALID, 2, "terminal"},
        {"start: \"x\"\n  | %json {\"properties\":\n{\"a\": {\"contains\": {}}}}",
         STATUS_UNSUPPORTED, 2, ".properties.a.contains"},
        {"start: /a/x", STATUS_UNSUPPORTED, 1, "flag"},
        {"start: /(?<=a)b/", STATUS_UNSUPPORTED, 1, "regex"},
        {"start: /(/", STATUS_INVALID, 1, "regex"},
        {"start: a", STATUS_INVALID, 1, "\"a\" is not defined"},
        {"a: \"x\"", STATUS_INVALID, 0, "\"start\""},
        {"start: \"x\"\nstart: \"y\"", STATUS_INVALID, 2, "twice"},
        {"start: A\nA: B\nB: \"x\" A", STATUS_INVALID, 3, "refers to itself"},
        {"start: A\nA: b\nb: \"x\"", STATUS_INVALID, 2, "rule"},
        {"start: A\nA: <|call|>", STATUS_INVALID, 2, "control token"},
        {"start: <|other|>", STATUS_INVALID, 1, "<|other|>"},
        {"start: \"x", STATUS_INVALID, 1, "closing quote"},
        {"start: \"\\q\"", STATUS_INVALID, 1, "escape"},
        {"start: \"\\ud800\"", STATUS_INVALID, 1, "escape"},
        {"start: /x", STATUS_INVALID, 1, "closing slash"},
        {"start: (\"x\"", STATUS_INVALID, 1, "bracket"},
        {"start: \"x\")", STATUS_INVALID, 1, "\")\""},
        {"start \"x\"", STATUS_INVALID, 1, "colon"},
        {"start: \"b\"..\"a\"", STATUS_INVALID, 1, "range"},
        {"start: \"ab\"..\"c\"", STATUS_INVALID, 1, "range"},
        {"start: \"a\"{3,2}", STATUS_INVALID, 1, "repetition"},
        {"start: \"a\"~x", STATUS_INVALID, 1, "repetition"},
        {"start: \"a\"{70000}", STATUS_LIMIT, 1, "times"},
        {"start: \"a\"{99999999999}", STATUS_LIMIT, 1, "times"},
        {"start: \"\xff\"", STATUS_INVALID, 0, "UTF-8"},
        {"", STATUS_INVALID, 0, "start"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct grammar *grammar;
        enum status status = build(rows[i].source, &grammar);
        if (status != rows[i].status || error.line != rows[i].line ||
            (strstr(error.message, rows[i].part) == NULL &&
             strstr(error.keyword, rows[i].part) == NULL))
            fail_msg("%s: %s, line %u: %s: %s", rows[i].source, status_name(status), error.line,
                     error.keyword, error.message);
        assert_null(grammar);
    }
}

/* A text of `count` times `part` between two others. */
static char *repeated(const char *first, const char *part, uint32_t count, const char *last)
{
    struct buffer text;
    buffer_init(&text, 64 << 20);
    buffer_append_text(&text, first);
    for (uint32_t i = 0; i < count; i++)
        buffer_append_text(&text, part);
    buffer_append_text(&text, last);
    assert_int_equal(text.status, STATUS_OK);
    return text.bytes;
}

static void test_hostile_sources_are_bounded(void **state)
{
    (void)state;
    struct grammar *grammar;
    char *deep = repeated("start: ", "(", LIMIT_LARK_DEPTH + 1, "\"x\"");
    assert_int_equal(build(deep, &grammar), STATUS_LIMIT);
    mem_free(deep);
    char *many = repeated("start: \"x\"", " \"x\"", LIMIT_LARK_NODES, "");
    assert_int_equal(build(many, &grammar), STATUS_LIMIT);
    mem_free(many);
    struct buffer chain; /* A0: A1, A1: A2, … */
    buffer_init(&chain, 1 << 20);
    buffer_append_text(&chain, "start: A0\n");
    for (uint32_t i = 0; i < 1000; i++)
        buffer_printf(&chain, "A%u: A%u\n", i, i + 1);
    buffer_append_text(&chain, "A1000: \"x\"\n");
    assert_int_equal(build(chain.bytes, &grammar), STATUS_LIMIT);
    buffer_deinit(&chain);
    char *schemas = repeated("start: \"x\"", " %json {}", LIMIT_LARK_SCHEMAS + 1, "");
    assert_int_equal(build(schemas, &grammar), STATUS_LIMIT);
    mem_free(schemas);
    /* Counts inside counts: the grammar is small, or it is refused. */
    enum status status = build("start: (A{999}){999}\nA: ((\"a\"{1,999}){1,999}){1,999}", &grammar);
    assert_true(status == STATUS_LIMIT || status == STATUS_INVALID || status == STATUS_OK);
    grammar_drop(grammar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constructs_match_what_they_say),
        cmocka_unit_test(test_a_grammar_of_patches),
        cmocka_unit_test(test_control_tokens_are_found_by_name),
        cmocka_unit_test(test_what_is_ignored_is_bounded),
        cmocka_unit_test(test_what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(test_hostile_sources_are_bounded),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
