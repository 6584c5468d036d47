/* Tokens of template source: tags, white space, strings, line numbers, what is refused. */
#include "engine/text/chat_template_lexer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* The tokens written one after the other: text as <…>, strings in quotes, the rest as it is. */
static void expect(const char *source, const char *want)
{
    char got[512];
    size_t length = 0;
    struct chat_template_lexer lexer;
    struct chat_template_lexer_token token;
    chat_template_lexer_init(&lexer, slice_of(source));
    got[0] = '\0';
    do {
        assert_int_equal(chat_template_lexer_next(&lexer, &token), STATUS_OK);
        static const char *const before[] = {"", "<", "{{ ", " }}", "{% ", " %}",
                                             "", "'", "",    "",    ""};
        static const char *const after[] = {"", ">", "", "", "", "", " ", "' ", " ", " ", " "};
        length +=
            (size_t)snprintf(got + length, sizeof got - length, "%s%.*s%s", before[token.kind],
                             (int)token.text.length, token.text.length > 0 ? token.text.bytes : "",
                             after[token.kind]);
        assert_true(length < sizeof got);
    } while (token.kind != CHAT_TEMPLATE_LEXER_END);
    assert_string_equal(got, want);
}

static void tags_are_told_from_text(void **state)
{
    (void)state;
    expect("", "");
    expect("a { b } c", "<a { b } c>");
    expect("a{{ x.y['z'] }}b", "<a>{{ x . y [ 'z' ]  }}<b>");
    expect("{% if a==b %}", "{% if a == b  %}");
}

static void space_goes_as_in_jinja(void **state)
{
    (void)state;
    expect("a\n", "<a>");
    expect("a\n\n", "<a\n>");
    expect("  {% x %}\n  b", "{% x  %}<  b>");
    expect("a  {% x %}\n\nb", "<a  >{% x  %}<\nb>");
    expect("a\n  {% x %}", "<a\n>{% x  %}");
    expect("a \n {%- x -%} \n b", "<a>{% x  %}<b>");
    expect("a\n {%+ x +%}\nb", "<a\n >{% x  %}<\nb>");
    expect("a\n  {{ x }}\nb", "<a\n  >{{ x  }}<\nb>");
    expect("a\n  {{- x -}}\nb", "<a>{{ x  }}<b>");
    expect("a\n {# c #}\nb", "<a\n><b>");
    expect("a {#- c -#} b", "<a><b>");
    expect("{% x %}\n  {% y %}", "{% x  %}{% y  %}");
}

static void ends_inside_brackets_and_strings_are_none(void **state)
{
    (void)state;
    expect("{{ '}}' }}", "{{ '}}'  }}");
}

static void expect_error(const char *source, enum status want, const char *message)
{
    struct chat_template_lexer lexer;
    struct chat_template_lexer_token token;
    enum status status;
    chat_template_lexer_init(&lexer, slice_of(source));
    do
        status = chat_template_lexer_next(&lexer, &token);
    while (status == STATUS_OK && token.kind != CHAT_TEMPLATE_LEXER_END);
    assert_int_equal(status, want);
    if (strstr(status_note()->message, message) == NULL)
        fail_msg("'%s' does not say '%s'", status_note()->message, message);
}

static void bad_source_is_refused(void **state)
{
    (void)state;
    expect_error("a\n{{ x", STATUS_CORRUPT, "line 2: a tag is not closed");
    expect_error("{{ (a }}", STATUS_CORRUPT, "line 1: a tag is not closed");
    expect_error("{{", STATUS_CORRUPT, "line 1: a tag is not closed");
    expect_error("\n\n{# x", STATUS_CORRUPT, "line 3: a comment is not closed");
    expect_error("{#-", STATUS_CORRUPT, "a comment is not closed");
    expect_error("{#}", STATUS_CORRUPT, "a comment is not closed");
    expect_error("{{ 'abc }}", STATUS_CORRUPT, "a string is not closed");
    expect_error("{{ 'abc\\", STATUS_CORRUPT, "a string is not closed");
    expect_error("{{ a ? b }}", STATUS_CORRUPT, "0x3f");
    expect_error("{{ \xc3\xa9 }}", STATUS_CORRUPT, "0xc3");
}

/* A point between digits makes a number a float, but for indices: x.0.1 */
static void numbers_end_where_they_do_in_python(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        enum chat_template_lexer_kind kind;
        const char *text;
    } cases[] = {
        {"{{ 12 }}", CHAT_TEMPLATE_LEXER_INTEGER, "12"},
        {"{{ 1_000 }}", CHAT_TEMPLATE_LEXER_INTEGER, "1_000"},
        {"{{ 1.5 }}", CHAT_TEMPLATE_LEXER_FLOAT, "1.5"},
        {"{{ 1.5e-3 }}", CHAT_TEMPLATE_LEXER_FLOAT, "1.5e-3"},
        {"{{ 2e10 }}", CHAT_TEMPLATE_LEXER_FLOAT, "2e10"},
        {"{{ 1.x }}", CHAT_TEMPLATE_LEXER_INTEGER, "1"},
        {"{{ 1ab }}", CHAT_TEMPLATE_LEXER_INTEGER, "1ab"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct chat_template_lexer lexer;
        struct chat_template_lexer_token token;
        chat_template_lexer_init(&lexer, slice_of(cases[i].source));
        assert_int_equal(chat_template_lexer_next(&lexer, &token), STATUS_OK);
        assert_int_equal(chat_template_lexer_next(&lexer, &token), STATUS_OK);
        assert_int_equal(token.kind, cases[i].kind);
        assert_true(slice_is(token.text, cases[i].text));
    }
}

static void lines_are_counted(void **state)
{
    (void)state;
    struct chat_template_lexer lexer;
    struct chat_template_lexer_token token;
    chat_template_lexer_init(&lexer, SLICE("a\n{%\n x\n%}\n\n{# \n #}b"));
    static const uint32_t lines[] = {1, 2, 3, 4, 5, 7, 7};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(chat_template_lexer_next(&lexer, &token), STATUS_OK);
        assert_int_equal(token.line, lines[i]);
    }
    assert_int_equal(token.kind, CHAT_TEMPLATE_LEXER_END);
}

static void expect_unescaped(const char *written, const char *want)
{
    struct chat_template_lexer_token token = {CHAT_TEMPLATE_LEXER_STRING, 1, slice_of(written)};
    struct buffer out;
    buffer_init(&out, 100);
    assert_int_equal(chat_template_lexer_unescape(&token, &out), STATUS_OK);
    assert_int_equal(out.length, strlen(want));
    assert_memory_equal(out.length > 0 ? out.bytes : "", want, out.length);
    buffer_deinit(&out);
}

static void expect_bad_string(const char *written, enum status want)
{
    struct chat_template_lexer_token token = {CHAT_TEMPLATE_LEXER_STRING, 4, slice_of(written)};
    struct buffer out;
    buffer_init(&out, 100);
    assert_int_equal(chat_template_lexer_unescape(&token, &out), want);
    assert_non_null(strstr(status_note()->message, "line 4: "));
    buffer_deinit(&out);
}

static void escapes_are_pythons(void **state)
{
    (void)state;
    expect_unescaped("", "");
    expect_unescaped("a\\n\\t\\r\\\\\\'\\\"\\a\\b\\f\\v", "a\n\t\r\\'\"\a\b\f\v");
    expect_unescaped("\\x41\\xe9\\u20AC", "A\xc3\xa9\xe2\x82\xac");
    expect_unescaped("\\q\\.", "\\q\\.");
    expect_unescaped("a\\\nb", "ab");
    expect_bad_string("\\x4", STATUS_CORRUPT);
    expect_bad_string("\\u12g4", STATUS_CORRUPT);
    expect_bad_string("\\ud800", STATUS_CORRUPT);
    expect_bad_string("\\0", STATUS_UNSUPPORTED);
    expect_bad_string("\\N{DASH}", STATUS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_are_told_from_text),
        cmocka_unit_test(space_goes_as_in_jinja),
        cmocka_unit_test(ends_inside_brackets_and_strings_are_none),
        cmocka_unit_test(bad_source_is_refused),
        cmocka_unit_test(numbers_end_where_they_do_in_python),
        cmocka_unit_test(lines_are_counted),
        cmocka_unit_test(escapes_are_pythons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
