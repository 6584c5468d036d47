/* Values, errors and bounds of a run; what a raised exception may tell; failing memory. Agreement
 * with Jinja itself is test_chat_template's. */
#include "engine/text/chat_template_eval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "engine/text/chat_template.h"
#include "engine/text/chat_template_parser.h"
#include "tests/kit/rounds.h"

static uint64_t steps;

/* Runs `source` over `count` messages that are all the same, with `tools`. */
static enum status run_tools(const char *source, struct chat_message message, size_t count,
                             struct slice tools, struct chat_template_text *out)
{
    static struct chat_message messages[LIMIT_MESSAGES + 1];
    struct chat_template_program program;
    for (size_t i = 0; i < count; i++)
        messages[i] = message;
    if (chat_template_parser_run(&program, slice_of(source)) != STATUS_OK)
        fail_msg("%s: %s", source, status_note()->message);
    struct chat_template_args args = {.messages = messages, .message_count = count, .tools = tools};
    enum status status = chat_template_eval_run(&program, &args, out, &steps);
    chat_template_parser_free(&program);
    return status;
}

static enum status run(const char *source, struct chat_message message, size_t count,
                       struct chat_template_text *out)
{
    return run_tools(source, message, count, (struct slice){NULL, 0}, out);
}

static const struct chat_message hello = {{"user", 4}, {"secret", 6}, {NULL, 0}};

static void expect(const char *source, const char *want)
{
    struct chat_template_text out;
    if (run(source, hello, 2, &out) != STATUS_OK)
        fail_msg("%s: %s", source, status_note()->message);
    if (!slice_is(buffer_slice(&out.bytes), want))
        fail_msg("%s: '%.*s', not '%s'", source, (int)out.bytes.length, out.bytes.bytes, want);
    chat_template_text_free(&out);
}

static void expect_error(const char *source, enum status want, const char *message)
{
    struct chat_template_text out;
    enum status status = run(source, hello, 2, &out);
    if (status != want || strstr(status_note()->message, message) == NULL)
        fail_msg("%s: %s, '%s'", source, status_name(status), status_note()->message);
    assert_null(strstr(status_note()->message, "secret"));
    assert_int_equal(out.span_count, 0);
    assert_null(out.spans);
    chat_template_text_free(&out);
}

static void strings_of_pieces_behave_as_one(void **state)
{
    (void)state;
    expect("{% set s = 'x' + messages[0].content + 'y' %}{{ s == 'xsecrety' }}", "True");
    expect("{% set s = 'x' + messages[0].content + 'y' %}{{ 'xs' in s }}{{ 'ty' in s }}",
           "TrueTrue");
    expect("{% set s = 'x' + messages[0].content + 'y' %}{{ s | length }}", "8");
    expect("{% set s = 'a' + 'b' %}{% set t = 'c' + 'd' %}{{ s + t + s }}{{ s }}{{ t }}",
           "abcdababcd");
    expect("{{ ('  ' + ' a' + ' b ' + '  ') | trim }}", "a b");
    expect("{{ (' ' + '  ' + ' ') | trim }}|", "|");
    expect("{{ ('ab' + 'c') < ('a' + 'bd') }}{{ 'ab' < 'a' + 'bc' }}{{ 'abc' < 'ab' }}",
           "TrueTrueFalse");
    expect("{{ '' in 'a' }}{{ 'a' in '' }}{{ '' in '' }}", "TrueFalseTrue");
    expect("{% set s = 'a' %}{% set t = s + 'b' %}{% set u = s + 'c' %}{{ s }}{{ t }}{{ u }}",
           "aabac");
}

static void errors_name_their_line(void **state)
{
    (void)state;
    expect_error("\n{{ 1 + 'a' }}", STATUS_INVALID, "line 2: a number and a string");
    expect_error("{{ 1 % 0 }}", STATUS_INVALID, "divided by zero");
    expect_error("{{ 1 // 0 }}{{ 1 / 0 }}", STATUS_INVALID, "divided by zero");
    expect_error("{{ nothing.role }}", STATUS_INVALID, "undefined value has no attribute 'role'");
    expect_error("{{ nothing['role'] }}", STATUS_INVALID, "an undefined value has no parts");
    expect_error("{{ nothing + 'x' }}", STATUS_INVALID, "an undefined value and a string");
    expect_error("{{ 1 < 'a' }}", STATUS_INVALID, "have no order");
    expect_error("{{ 1 | length }}", STATUS_INVALID, "a number has no length");
    expect_error("{{ 1 in 'a' }}", STATUS_INVALID, "'in' does not look for a number in a string");
    expect_error("{% for m in 1 %}{% endfor %}", STATUS_INVALID, "a number cannot be iterated");
    expect_error("{% for a, b in messages | map('first') %}{% endfor %}", STATUS_INVALID,
                 "4 values are put into 2 variables");
    expect_error("{{ nothing() }}", STATUS_INVALID, "an undefined value cannot be called");
    expect_error("{{ messages.append(1) }}", STATUS_INVALID, "an undefined value cannot be called");
    expect_error("{{ messages[0].pop('role') }}", STATUS_INVALID,
                 "an undefined value cannot be called");
    expect_error("{{ nothing | tojson }}", STATUS_INVALID,
                 "an undefined value has no text in JSON");
    expect_error("{{ range }}", STATUS_INVALID, "a function has no text");
    expect_error("{% set messages.x = 1 %}", STATUS_INVALID, "set on namespaces only");
    expect_error("{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", STATUS_INVALID,
                 "a macro gets too many arguments");
    expect_error("{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", STATUS_INVALID,
                 "a macro has no parameter of that name");
    expect_error("{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}", STATUS_INVALID,
                 "a macro gets an argument twice");
    expect_error("{{ 'a' | replace('a') }}", STATUS_INVALID, "replace needs two strings");
    expect_error("{{ 'a' | trim('a', 'b') }}", STATUS_INVALID, "too many arguments");
    expect_error("{{ [] | map('abc') | list }}{{ ['x'] | map('abc') | list }}", STATUS_INVALID,
                 "a filter of that name is not supported");
    expect_error("{{ '{' | from_json }}", STATUS_INVALID, "the JSON text is not valid");
    expect_error("{% macro m() %}{{ caller() }}{% endmacro %}{% set ns = namespace() %}"
                 "{% macro keep() %}{% set ns.f = caller %}{% endmacro %}"
                 "{% for x in [1] %}{% call keep() %}{{ x }}{% endcall %}{% endfor %}{% set f = "
                 "ns.f %}{{ f() }}",
                 STATUS_INVALID, "a block is called after its end");
}

static void numbers_do_not_overflow(void **state)
{
    (void)state;
    /* 999999999 doubled by each round of nested loops: 2^2^… goes past 63 bits. */
    struct buffer source_bytes;
    const char *source = "{% set x = 999999999 %}{% set y = x + x %}{% set y = y + y %}"
                         "{{ y }}{{ 0 - y }}";
    expect(source, "3999999996-3999999996");
    buffer_init(&source_bytes, 8192);
    buffer_append_text(&source_bytes, "{% set y = 999999999 %}");
    for (int i = 0; i < 40; i++)
        buffer_append_text(&source_bytes, "{% set y = y + y %}");
    expect_error(source_bytes.bytes, STATUS_INVALID, "a number is too large");
    buffer_deinit(&source_bytes);
    expect_error("{{ 999999999999 * 999999999999 }}", STATUS_INVALID, "a number is too large");
    expect_error("{{ 10 ** 19 }}", STATUS_INVALID, "a number is too large");
    expect("{{ 2 ** 62 }}{{ (-2) ** 3 }}{{ 0 ** 0 }}", "4611686018427387904-81");
    expect("{{ 1 ** 999999999999 }}{{ (-1) ** 999999999999 }}", "1-1");
}

static void exceptions_tell_the_templates_words_only(void **state)
{
    (void)state;
    expect_error("{{ raise_exception('roles must alternate') }}", STATUS_INVALID,
                 "line 1: roles must alternate");
    expect_error("{{ raise_exception('bad: ' + messages[0].content + '!') }}", STATUS_INVALID,
                 "bad: !");
    expect("{{ 1 or raise_exception('never') }}", "1");
}

static void exceptions_of_any_length_fit(void **state)
{
    (void)state;
    struct buffer source;
    buffer_init(&source, 8192);
    buffer_append_text(&source, "{{ raise_exception('");
    for (int i = 0; i < 2000; i++)
        buffer_append_char(&source, 'a');
    buffer_append_text(&source, "' + 'b') }}");
    expect_error(source.bytes, STATUS_INVALID, "aaaa");
    buffer_deinit(&source);
}

/* --- bounds --- */

/* A request's bound is told apart from a text that is too long for the model. */
static void expect_limit(const char *source, struct slice tools, const char *message)
{
    struct chat_template_text out;
    enum status status = run_tools(source, hello, 1, tools, &out);
    if (status != STATUS_TEMPLATE_LIMIT || strstr(status_note()->message, message) == NULL)
        fail_msg("%s: %s, '%s'", source, status_name(status), status_note()->message);
    chat_template_text_free(&out);
}

static const struct slice none = {NULL, 0};

static void steps_are_bounded(void **state)
{
    (void)state;
    struct chat_template_text out;
    const char *three = "{% for a in messages %}{% for b in messages %}{% for c in messages %}"
                        "{% endfor %}{% endfor %}{% endfor %}";
    assert_int_equal(run(three, hello, 1024, &out), STATUS_TEMPLATE_LIMIT);
    assert_non_null(strstr(status_note()->message, "line 1: too many steps"));
    assert_in_range(steps, LIMIT_TEMPLATE_STEPS + 1, LIMIT_TEMPLATE_STEPS + 10);
    chat_template_text_free(&out);
    expect_limit("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
                 none, "too many steps");
}

static void bytes_touched_are_steps(void **state)
{
    (void)state;
    /* A megabyte looked through for each of 1,024 rounds would be a gigabyte. */
    static char content[1 << 20];
    struct chat_message message = {SLICE("user"), {content, sizeof content}, {NULL, 0}};
    struct chat_template_text out;
    memset(content, 'a', sizeof content);
    static const char *const values[] = {
        "c == messages[0].content ~ ''",
        "'b' in c",
        "c | length",
        "c | trim",
        "c.split('b')",
        "c | replace('b', 'c')",
        "c[1:]",
        "c.find('b')",
        "c | tojson",
        "c | upper",
        "c | indent",
        "c ~ c ~ 'x' == c ~ c ~ 'y'",
        "[c] | string",
        "c | list | length",
        "c is in(['b' ~ c, c ~ 'b'])",
    };
    for (size_t i = 0; i < rounds(3, sizeof values / sizeof values[0]); i++) {
        char source[256];
        snprintf(source, sizeof source,
                 "{%% set c = messages[0].content ~ '' %%}{%% for i in range(1024) %%}"
                 "{%% set x = %s %%}{%% endfor %%}",
                 values[i]);
        enum status status = run(source, message, 1, &out);
        if (status != STATUS_TEMPLATE_LIMIT)
            fail_msg("%s: %s", values[i], status_name(status));
        chat_template_text_free(&out);
    }
}

static void output_is_bounded(void **state)
{
    (void)state;
    static char content[LIMIT_TEMPLATE_OUTPUT_BYTES / 2];
    struct chat_message message = {SLICE(""), {content, sizeof content}, {NULL, 0}};
    struct chat_template_text out;
    memset(content, 'a', sizeof content);
    const char *source = "{% for m in messages %}{{ m.content }}{% endfor %}";
    assert_int_equal(run(source, message, 2, &out), STATUS_OK);
    assert_int_equal(out.bytes.length, LIMIT_TEMPLATE_OUTPUT_BYTES);
    chat_template_text_free(&out);
    assert_int_equal(run("{% for m in messages %}{{ m.content }}{% endfor %}.", message, 2, &out),
                     STATUS_TEMPLATE_LIMIT);
    assert_non_null(strstr(status_note()->message, "output is too long"));
    chat_template_text_free(&out);
}

static void values_are_bounded(void **state)
{
    (void)state;
    expect_limit("{% set ns = namespace(x=[1, 2]) %}{% for i in range(60) %}"
                 "{% set ns.x = ns.x + ns.x %}{% endfor %}",
                 none, "the values need more than 67108864 bytes");
    expect_limit("{% set ns = namespace(x=1) %}{% for i in range(200) %}"
                 "{% set ns.x = [ns.x] %}{% endfor %}",
                 none, "nested deeper than 128");
    expect_limit("{{ range(100001) | length }}", none, "more than 100000 numbers");
    expect_limit("{{ 'ab' * 999999999 }}", none, "too many steps");
    expect_limit("{{ [1] * 999999999 }}", none, "a list is too long");
    expect_limit("{{ 'a' | indent(999999999, true) }}", none, "the output is too long");
    expect_limit("{{ [1] | tojson(indent=65) }}", none, "an indent is at most 64");
    expect("{{ range(100000) | length }}{{ range(5, 0, -2) | list }}", "100000[5, 3, 1]");
    /* A list of one list twice, and so on: 2^40 leaves, each looked at when it is printed. */
    expect_limit("{% set ns = namespace(x=1) %}{% for i in range(40) %}"
                 "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
                 none, "too");
    expect_limit("{% set ns = namespace(x=1, y=1) %}{% for i in range(40) %}"
                 "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
                 "{{ ns.x == ns.y }}",
                 none, "too many steps");
}

/* A macro that goes down a schema, as some templates do with tools. */
static void macros_and_schemas_are_bounded(void **state)
{
    (void)state;
    const char *down = "{% macro f(x) %}{% if x is mapping %}<{{ f(x['a']) }}>{% else %}{{ x }}"
                       "{% endif %}{% endmacro %}{{ f(tools) }}";
    struct chat_template_text out;
    struct buffer tools;
    buffer_init(&tools, 1 << 20);
    for (int depth = 63; depth <= 10000; depth = depth == 63 ? 64 : depth == 64 ? 10000 : 10001) {
        buffer_clear(&tools);
        for (int i = 0; i < depth; i++)
            buffer_append_text(&tools, "{\"a\":");
        buffer_append_char(&tools, '1');
        for (int i = 0; i < depth; i++)
            buffer_append_char(&tools, '}');
        if (depth == 63) { /* 64 macros inside each other */
            assert_int_equal(run_tools(down, hello, 1, buffer_slice(&tools), &out), STATUS_OK);
            assert_int_equal(out.bytes.length, 2 * 63 + 1);
            chat_template_text_free(&out);
        } else {
            expect_limit(down, buffer_slice(&tools),
                         depth == 64 ? "macros call each other more than 64 deep"
                                     : "nested deeper than 128 levels");
        }
    }
    buffer_deinit(&tools);
    expect_limit("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", none, "more than 64 deep");
    expect_limit("{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
                 none, "more than 64 deep");
    expect_limit("{% macro f() %}{% for a in [1] %}{% for b in [1] %}{% for c in [1] %}"
                 "{% for d in [1] %}{% for e in [1] %}{% for g in [1] %}{% for h in [1] %}"
                 "{% for i in [1] %}{{ f() }}{% endfor %}{% endfor %}{% endfor %}{% endfor %}"
                 "{% endfor %}{% endfor %}{% endfor %}{% endfor %}{% endmacro %}{{ f() }}",
                 none, "too deep");
}

static void messages_are_bounded(void **state)
{
    (void)state;
    struct chat_template_text out;
    const char *source = "{{ messages | length }}";
    assert_int_equal(run(source, hello, LIMIT_MESSAGES, &out), STATUS_OK);
    chat_template_text_free(&out);
    assert_int_equal(run(source, hello, LIMIT_MESSAGES + 1, &out), STATUS_LIMIT);
    chat_template_text_free(&out);
}

/* The largest chat that a request may hold stays far from the limit of steps. */
static void a_large_chat_fits(void **state)
{
    (void)state;
    static char content[4096];
    struct chat_message message = {SLICE("user"), {content, sizeof content}, {NULL, 0}};
    struct chat_template_text out;
    memset(content, 'x', sizeof content);
    const char *source = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
                         "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}";
    assert_int_equal(run(source, message, LIMIT_MESSAGES, &out), STATUS_OK);
    assert_int_equal(out.bytes.length, LIMIT_MESSAGES * (4096 + 4 + 12 + 10 + 2));
    assert_true(steps < LIMIT_TEMPLATE_STEPS / 10);
    chat_template_text_free(&out);
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    struct chat_template_program program;
    struct chat_message message = {.json = SLICE("{\"role\":\"\\n\",\"content\":\"y\"}")};
    struct chat_template_args args = {.messages = &message, .message_count = 1};
    struct slice source = SLICE("{{ 12 ~ messages[0].content ~ 'x' }}{{ 'a' in 'b' + 'a' }}"
                                "{% set x %}{{ messages | tojson }}{% endset %}{{ x | upper }}");
    assert_int_equal(chat_template_parser_run(&program, source), STATUS_OK);
    int n = 0;
    for (;; n++) {
        struct chat_template_text out;
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = chat_template_eval_run(&program, &args, &out, NULL);
        mem_hook_set(NULL, NULL);
        assert_int_equal(status, left >= 0 ? STATUS_OK : STATUS_NO_MEMORY);
        chat_template_text_free(&out);
        if (left >= 0)
            break;
    }
    assert_true(n >= 10);
    chat_template_parser_free(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_of_pieces_behave_as_one),
        cmocka_unit_test(errors_name_their_line),
        cmocka_unit_test(numbers_do_not_overflow),
        cmocka_unit_test(exceptions_tell_the_templates_words_only),
        cmocka_unit_test(exceptions_of_any_length_fit),
        cmocka_unit_test(steps_are_bounded),
        cmocka_unit_test(bytes_touched_are_steps),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(values_are_bounded),
        cmocka_unit_test(macros_and_schemas_are_bounded),
        cmocka_unit_test(messages_are_bounded),
        cmocka_unit_test(a_large_chat_fits),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
