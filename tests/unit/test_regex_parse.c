#include "engine/grammar/regex_parse.h"

#include <regex.h>

#include "config/base/limits_grammar.h"
#include "config/base/rng.h"
#include "engine/grammar/grammar_fuel.h"
#include "tests/kit/rounds.h"
#include "tests/unit/base_kit.h"

static struct regex_pool *pool;

static int begin(void **state)
{
    (void)state;
    return regex_pool_new(NULL, &pool) == STATUS_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    enum status status = regex_pool_status(pool);
    regex_pool_free(pool);
    return status == STATUS_OK ? 0 : -1;
}

/* --- what matches --- */

struct row {
    const char *source;
    enum regex_match match;
    const char *yes[6];
    const char *no[6];
};

static const struct row rows[] = {
    {"abc", REGEX_WHOLE, {"abc"}, {"", "ab", "xabc", "abcx"}},
    {"abc", REGEX_SEARCH, {"abc", "xabcx", "ababc"}, {"", "ab", "acb"}},
    {"^abc", REGEX_SEARCH, {"abc", "abcx"}, {"xabc", "ab"}},
    {"abc$", REGEX_SEARCH, {"abc", "xabc"}, {"abcx", "abc\n"}},
    {"^a|b$", REGEX_SEARCH, {"a", "b", "ax", "xb"}, {"xa", "bx", ""}},
    {"^(a|b)$", REGEX_SEARCH, {"a", "b"}, {"ab", "", "a\n"}},
    {"(^|,)x(,|$)", REGEX_SEARCH, {"x", "a,x", "x,a", "a,x,b"}, {"xa", "ax", "a,xa"}},
    {"(?:^a|b)?c", REGEX_SEARCH, {"ac", "xbc", "xac", "c"}, {"a", "b"}},
    {"x(a|$)$", REGEX_SEARCH, {"x", "xa", "bx"}, {"xab", "xb"}},
    {"^^a$$", REGEX_SEARCH, {"a"}, {"", "aa", "ba"}},
    {"", REGEX_SEARCH, {"", "a"}, {NULL}},
    {"^$", REGEX_SEARCH, {""}, {"a", "\n"}},
    {"", REGEX_WHOLE, {""}, {"a"}},
    {"a||b", REGEX_WHOLE, {"", "a", "b"}, {"ab"}},
    {"a*?b+?c??", REGEX_WHOLE, {"b", "aab", "bbc", "abc"}, {"", "a", "ac", "bcc"}},
    {"a{2}b{1,}c{0,2}", REGEX_WHOLE, {"aab", "aabbcc"}, {"ab", "aaab", "aa", "aabccc"}},
    {"a{,2}", REGEX_WHOLE, {"a{,2}"}, {"a", "aa"}},
    {"[a-c-]+", REGEX_WHOLE, {"abc", "-", "a-c"}, {"d", ""}},
    {"[^a-c]", REGEX_WHOLE, {"d", "\n", "é", "\xf0\x9f\x98\x80"}, {"a", "b", "", "dd", "\xc3"}},
    {"[]", REGEX_WHOLE, {NULL}, {"", "a"}},
    {"[^]", REGEX_WHOLE, {"a", "\n", "é"}, {"", "ab"}},
    {"[\\]\\\\^-]+", REGEX_WHOLE, {"]", "\\", "^", "-"}, {"["}},
    {"[\\d_a-]+", REGEX_WHOLE, {"0", "9_", "a-"}, {"b"}},
    {"\\d+\\D", REGEX_WHOLE, {"1x", "12é"}, {"1", "12", "x"}},
    {"\\w\\W", REGEX_WHOLE, {"a-", "_é"}, {"aa", "--", "é-"}},
    {"\\s\\S",
     REGEX_WHOLE,
     {" a", "\ta", "\xc2\xa0x", "\xef\xbb\xbfx", "\xe2\x80\xa8x"},
     {"a ", "  "}},
    {".", REGEX_WHOLE, {"a", "é", "\t"}, {"\n", "\r", "\xe2\x80\xa8", "\xe2\x80\xa9", "", "\xff"}},
    {"\\u0041\\x42\\u{1F600}\\uD83D\\uDE00",
     REGEX_WHOLE,
     {"AB\xf0\x9f\x98\x80\xf0\x9f\x98\x80"},
     {"AB"}},
    {"\\t\\n\\v\\f\\r\\cJ", REGEX_WHOLE, {"\t\n\v\f\r\n"}, {"tnvfr"}},
    {"[\\b]\\/\\.\\*\\-\\_\\\"\\@", REGEX_WHOLE, {"\b/.*-_\"@"}, {"b/.*-_\"@"}},
    {"(?<year>\\d{4})-(?P<m>\\d\\d)", REGEX_WHOLE, {"2026-11"}, {"26-11"}},
    {"é{2}|[à-ö]x", REGEX_WHOLE, {"éé", "îx", "àx", "öx"}, {"é", "øx"}},
    {"^(?=.*\\d)(?=.*[a-z]).{3,5}$",
     REGEX_SEARCH,
     {"a1x", "xx1", "1aaaa"},
     {"aaa", "111", "a1", "a11111"}},
    {"^(?!.*foo)[a-z]+$", REGEX_SEARCH, {"bar", "fo"}, {"foo", "xfoox", ""}},
    {"^(?!(?:a|b)$)[a-c]*$", REGEX_SEARCH, {"", "c", "ab"}, {"a", "b", "d"}},
    {"(?=ab)a", REGEX_SEARCH, {"ab", "xxab"}, {"a", "ba"}},
    {"(?!ab)a", REGEX_SEARCH, {"a", "ac", "abac"}, {"ab", "b"}},
    {"(?=^.{2,3}$)\\w+", REGEX_SEARCH, {"ab", "abc", "a-"}, {"a", "abcd", "--"}},
    {"a(?=b|$)", REGEX_SEARCH, {"a", "ab", "ca"}, {"ac", "b", ""}},
    {"^a(?!b).?(?=c)c*$", REGEX_SEARCH, {"ac", "acc", "adc", "adcc"}, {"abc", "a", "ad", "acd"}},
    {"^(?!^x|y)\\w+$", REGEX_SEARCH, {"a", "ax"}, {"x", "y", "yb", ""}},
    {"a(?=b)", REGEX_WHOLE, {NULL}, {"a", "ab"}},
    {"a(?=b)b|c", REGEX_WHOLE, {"ab", "c"}, {"a", "abc"}},
    {"(?=a)\\w\\w", REGEX_WHOLE, {"ab", "aa"}, {"ba", "a"}},
    {"a]b}", REGEX_WHOLE, {"a]b}"}, {NULL}},
    {"a{x}", REGEX_WHOLE, {"a{x}"}, {NULL}},
    {"\\0", REGEX_WHOLE, {NULL}, {"0", ""}},
};

static regex_node_id parse(const char *source, enum regex_match match)
{
    regex_node_id id;
    struct regex_error error;
    enum status status = regex_parse(pool, slice_of(source), match, &id, &error);
    if (status != STATUS_OK)
        fail_msg("%s: %s", source, error.message);
    return id;
}

static void test_rows(void **state)
{
    (void)state;
    uint32_t checks = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        regex_node_id id = parse(row->source, row->match);
        for (uint32_t j = 0; j < 6 && row->yes[j] != NULL; j++, checks++)
            if (!regex_matches(pool, id, slice_of(row->yes[j])))
                fail_msg("%s does not match \"%s\"", row->source, row->yes[j]);
        for (uint32_t j = 0; j < 6 && row->no[j] != NULL; j++, checks++)
            if (regex_matches(pool, id, slice_of(row->no[j])))
                fail_msg("%s matches \"%s\"", row->source, row->no[j]);
    }
    printf("%u texts\n", checks);
    assert_true(regex_matches(pool, parse("\\0", REGEX_WHOLE), (struct slice){"\0", 1}));
}

static void test_flags(void **state)
{
    (void)state;
    regex_node_id id;
    struct regex_error error;
    uint32_t flags = REGEX_DOT_ALL | REGEX_IGNORE_CASE;
    assert_int_equal(
        regex_parse_flags(pool, SLICE("a.[^x-z]\\x4b"), REGEX_WHOLE, flags, &id, &error),
        STATUS_OK);
    assert_true(regex_matches(pool, id, SLICE("A\nbk")));
    assert_true(regex_matches(pool, id, SLICE("axBK")));
    assert_false(regex_matches(pool, id, SLICE("a\nYk")));
}

/* --- what is refused --- */

struct refusal {
    const char *source;
    enum status status;
    const char *name; /* in the message */
    size_t offset;
};

static const struct refusal refusals[] = {
    {"a\\bc", STATUS_UNSUPPORTED, "word boundary \\b", 1},
    {"\\B", STATUS_UNSUPPORTED, "word boundary \\B", 0},
    {"(a)\\1", STATUS_UNSUPPORTED, "back reference \\1", 3},
    {"(?<x>a)\\k<x>", STATUS_UNSUPPORTED, "back reference \\k", 7},
    {"\\p{L}", STATUS_UNSUPPORTED, "property \\p", 0},
    {"[\\P{L}]", STATUS_UNSUPPORTED, "property \\P", 1},
    {"(?<=a)b", STATUS_UNSUPPORTED, "Lookbehind", 0},
    {"(?<!a)b", STATUS_UNSUPPORTED, "Lookbehind", 0},
    {"(a(?=b))", STATUS_UNSUPPORTED, "Lookahead", 2},
    {"a$(?=b)", STATUS_UNSUPPORTED, "Anchors", 2},
    {"(?!^a|b)c", STATUS_UNSUPPORTED, "Anchors", 0},
    {"a(?=^b)", STATUS_UNSUPPORTED, "Anchors", 1},
    {"((?!a).)*", STATUS_UNSUPPORTED, "Lookahead", 1},
    {"(?i)a", STATUS_UNSUPPORTED, "kind of group", 0},
    {"a^b", STATUS_UNSUPPORTED, "Anchors", 1},
    {"a$b", STATUS_UNSUPPORTED, "Anchors", 2},
    {"(^a)+", STATUS_UNSUPPORTED, "Anchors", 0},
    {"(a$)b", STATUS_UNSUPPORTED, "Anchors", 4},
    {"b(^a)", STATUS_UNSUPPORTED, "Anchors", 1},
    {"\\Aa", STATUS_UNSUPPORTED, "anchor \\A", 0},
    {"a\\", STATUS_INVALID, "backslash ends", 1},
    {"\\a", STATUS_INVALID, "escape \\a", 0},
    {"\\01", STATUS_INVALID, "escape \\0", 0},
    {"\\u12", STATUS_INVALID, "\\u", 0},
    {"\\ud800", STATUS_INVALID, "\\u", 0},
    {"\\u{110000}", STATUS_INVALID, "\\u", 0},
    {"\\x1", STATUS_INVALID, "\\x", 0},
    {"\\c1", STATUS_INVALID, "\\c", 0},
    {"(a", STATUS_INVALID, "not closed", 0},
    {"a)", STATUS_INVALID, "not open", 1},
    {"[a", STATUS_INVALID, "not closed", 0},
    {"[z-a]", STATUS_INVALID, "out of order", 1},
    {"[\\w-z]", STATUS_INVALID, "range", 1},
    {"[a-\\d]", STATUS_INVALID, "range", 1},
    {"*a", STATUS_INVALID, "nothing to repeat", 0},
    {"a**", STATUS_INVALID, "nothing to repeat", 2},
    {"x{2}{3}", STATUS_INVALID, "nothing to repeat", 4},
    {"a|+", STATUS_INVALID, "nothing to repeat", 2},
    {"(?=a)*", STATUS_INVALID, "nothing to repeat", 5},
    {"a{3,2}", STATUS_INVALID, "out of order", 1},
    {"(?<x", STATUS_INVALID, "name of a group", 0},
    {"a\xff", STATUS_INVALID, "UTF-8", 0},
    {"a{65536}", STATUS_LIMIT, "multiply", 1},
    {"a{99999999999999999999}", STATUS_LIMIT, "multiply", 1},
    {"(a{1,999}){1,999}", STATUS_LIMIT, "multiply", 10},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *row = &refusals[i];
        struct regex_error error;
        regex_node_id id;
        enum status status = regex_parse(pool, slice_of(row->source), REGEX_SEARCH, &id, &error);
        if (status != row->status || error.offset != row->offset ||
            strstr(error.message, row->name) == NULL)
            fail_msg("%s: %s, \"%s\" at %zu", row->source, status_name(status), error.message,
                     error.offset);
        assert_int_equal(id, REGEX_NONE);
    }
}

static void test_limits(void **state)
{
    (void)state;
    enum { DEEP = 100000, LONG = LIMIT_GRAMMAR_SOURCE_BYTES };
    static char text[LONG + 1];
    struct regex_error error;
    regex_node_id id;
    struct grammar_fuel fuel;
    memset(text, '(', DEEP);
    assert_int_equal(regex_parse(pool, (struct slice){text, DEEP}, REGEX_WHOLE, &id, &error),
                     STATUS_LIMIT);
    assert_int_equal(error.offset, LIMIT_GRAMMAR_DEPTH);
    memset(text, 'a', sizeof text);
    assert_int_equal(regex_parse(pool, (struct slice){text, LONG + 1}, REGEX_WHOLE, &id, &error),
                     STATUS_LIMIT);
    assert_int_equal(regex_parse(pool, (struct slice){text, DEEP}, REGEX_WHOLE, &id, &error),
                     STATUS_OK);
    assert_true(regex_matches(pool, id, (struct slice){text, DEEP}));

    struct regex_pool *small;
    grammar_fuel_init(&fuel, 1000, NULL);
    assert_int_equal(regex_pool_new(&fuel, &small), STATUS_OK);
    assert_int_equal(regex_parse(small, (struct slice){text, DEEP}, REGEX_WHOLE, &id, &error),
                     STATUS_LIMIT);
    assert_string_equal(error.message, "The regex is too large to compile.");
    regex_pool_free(small);
}

/* --- beside the C library's --- */

enum { SOURCE_BYTES = 200 };

static void add(char *out, const char *text)
{
    size_t used = strlen(out);
    snprintf(out + used, 2 * SOURCE_BYTES - used, "%s", text);
}

static void write_random(struct rng *rng, char *out, uint32_t depth)
{
    static const char *const atoms[] = {"a",     "b",     "c",     ".",      "[ab]", "[^a]",
                                        "[a-c]", "(^|a)", "(b|$)", "a{0,2}", "ab",   "b*"};
    static const char *const counts[] = {"*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}"};
    size_t used = strlen(out);
    uint64_t way = depth == 0 || used > SOURCE_BYTES - 100 ? 0 : rng_below(rng, 5);
    if (way == 0) {
        add(out, atoms[rng_below(rng, sizeof atoms / sizeof *atoms)]);
    } else if (way == 1) {
        write_random(rng, out, depth - 1);
        add(out, "|");
        write_random(rng, out, depth - 1);
    } else if (way == 2) {
        add(out, "(");
        write_random(rng, out, depth - 1);
        add(out, ")");
        if (rng_below(rng, 2) == 0)
            add(out, counts[rng_below(rng, sizeof counts / sizeof *counts)]);
    } else {
        if (rng_below(rng, 8) == 0)
            add(out, "^");
        write_random(rng, out, depth - 1);
        write_random(rng, out, depth - 1);
        if (rng_below(rng, 8) == 0)
            add(out, "$");
    }
}

static void test_random(void **state)
{
    (void)state;
    uint32_t compared = 0, refused = 0, matches = 0;
    for (uint32_t round = 0; round < rounds(1500, 200000); round++) {
        struct rng rng = {round, 0};
        char source[2 * SOURCE_BYTES] = "";
        write_random(&rng, source, (uint32_t)rng_below(&rng, 5));
        struct regex_error error;
        regex_node_id id;
        regex_t judge;
        if (regcomp(&judge, source, REG_EXTENDED | REG_NOSUB) != 0)
            continue;
        if (regex_parse(pool, slice_of(source), REGEX_SEARCH, &id, &error) != STATUS_OK) {
            assert_non_null(strstr(error.message, "Anchors"));
            refused++;
            regfree(&judge);
            continue;
        }
        for (uint32_t i = 0; i < 12; i++) {
            char text[9];
            size_t length = rng_below(&rng, sizeof text);
            for (size_t j = 0; j < length; j++)
                text[j] = "aabbcd"[rng_below(&rng, 6)];
            text[length] = '\0';
            bool wanted = regexec(&judge, text, 0, NULL, 0) == 0;
            if (regex_matches(pool, id, slice_of(text)) != wanted)
                fail_msg("round %u: %s on \"%s\": wanted %d", round, source, text, wanted);
            matches += wanted;
            compared++;
        }
        regfree(&judge);
    }
    printf("%u texts compared, %u match; %u regexes with anchors inside refused\n", compared,
           matches, refused);
    assert_true(matches > 1000);
    assert_true(compared - matches > 1000);
}

static void test_no_memory(void **state)
{
    (void)state;
    enum status status = STATUS_NO_MEMORY;
    uint32_t failures = 0;
    for (int n = 1; status != STATUS_OK; n++) {
        struct regex_pool *small;
        assert_int_equal(regex_pool_new(NULL, &small), STATUS_OK);
        struct regex_error error;
        regex_node_id id;
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        status = regex_parse(small, SLICE("^(?!x)([^a-z]{1,5}|\\w+)$"), REGEX_SEARCH, &id, &error);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        failures += status != STATUS_OK;
        regex_pool_free(small);
    }
    assert_true(failures > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows, begin, end),
        cmocka_unit_test_setup_teardown(test_flags, begin, end),
        cmocka_unit_test_setup_teardown(test_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_limits, begin, end),
        cmocka_unit_test_setup_teardown(test_random, begin, end),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
