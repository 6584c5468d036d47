/* Values, errors and bounds of a run; what a raised exception may tell; failing memory. Agreement
 * with Jinja itself is test_chat_template's. */
#include "engine/text/chat_template_eval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "engine/text/chat_template_parser.h"

enum { SPANS = 4096 };
static struct tokenizer_span spans[SPANS];
static size_t span_count;
static uint64_t steps;

/* Runs `source` over `count` messages that are all the same. */
static enum status run(const char *source, struct chat_message message, size_t count,
                       struct buffer *out)
{
    static struct chat_message messages[LIMIT_MESSAGES + 1];
    struct chat_template_program program;
    for (size_t i = 0; i < count; i++)
        messages[i] = message;
    assert_int_equal(chat_template_parser_run(&program, slice_of(source)), STATUS_OK);
    struct chat_template_args args = {.messages = messages, .message_count = count};
    buffer_init(out, LIMIT_TEMPLATE_OUTPUT_BYTES + 1);
    enum status status =
        chat_template_eval_run(&program, &args, out, spans, SPANS, &span_count, &steps);
    chat_template_parser_free(&program);
    return status;
}

static const struct chat_message hello = {{"user", 4}, {"secret", 6}};

static void expect(const char *source, const char *want)
{
    struct buffer out;
    assert_int_equal(run(source, hello, 2, &out), STATUS_OK);
    assert_int_equal(out.length, strlen(want));
    assert_memory_equal(out.length > 0 ? out.bytes : "", want, out.length);
    buffer_deinit(&out);
}

static void expect_error(const char *source, enum status want, const char *message)
{
    struct buffer out;
    enum status status = run(source, hello, 2, &out);
    if (status != want || strstr(status_note()->message, message) == NULL)
        fail_msg("%s: %s, '%s'", source, status_name(status), status_note()->message);
    assert_null(strstr(status_note()->message, "secret"));
    assert_int_equal(span_count, 0);
    buffer_deinit(&out);
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
    expect_error("\n{{ 1 + 'a' }}", STATUS_INVALID, "line 2: only numbers");
    expect_error("{{ 1 % 0 }}", STATUS_INVALID, "divided by zero");
    expect_error("{{ nothing.role }}", STATUS_INVALID, "only messages have parts");
    expect_error("{{ messages.role }}", STATUS_INVALID, "only messages have parts");
    expect_error("{{ messages }}", STATUS_INVALID, "has no text");
    expect_error("{{ messages[0] }}", STATUS_INVALID, "has no text");
    expect_error("{{ messages[0] == messages[1] }}", STATUS_INVALID, "cannot be compared");
    expect_error("{{ 1 < 'a' }}", STATUS_INVALID, "have an order");
    expect_error("{{ 1 | length }}", STATUS_INVALID, "no length");
    expect_error("{{ 1 in 'a' }}", STATUS_INVALID, "'in' looks for");
    expect_error("{{ 'a' in 1 }}", STATUS_INVALID, "'in' looks for");
    expect_error("{% for m in 'abc' %}{% endfor %}", STATUS_INVALID, "messages only");
    expect_error("{% for m in nothing %}{% endfor %}", STATUS_INVALID, "messages only");
}

static void numbers_do_not_overflow(void **state)
{
    (void)state;
    /* 999999999 doubled by each round of nested loops: 2^2^… goes past 63 bits. */
    struct buffer out;
    const char *source = "{% set x = 999999999 %}{% set y = x + x %}{% set y = y + y %}"
                         "{{ y }}{{ 0 - y }}";
    expect(source, "3999999996-3999999996");
    buffer_init(&out, 8192);
    buffer_append_text(&out, "{% set y = 999999999 %}");
    for (int i = 0; i < 40; i++)
        buffer_append_text(&out, "{% set y = y + y %}");
    expect_error(out.bytes, STATUS_INVALID, "a number is too large");
    buffer_deinit(&out);
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

static void steps_are_bounded(void **state)
{
    (void)state;
    struct buffer out;
    const char *three = "{% for a in messages %}{% for b in messages %}{% for c in messages %}"
                        "{% endfor %}{% endfor %}{% endfor %}";
    assert_int_equal(run(three, hello, 1024, &out), STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, "too many steps"));
    assert_in_range(steps, LIMIT_TEMPLATE_STEPS + 1, LIMIT_TEMPLATE_STEPS + 10);
    buffer_deinit(&out);
}

static void bytes_compared_are_steps(void **state)
{
    (void)state;
    /* A megabyte looked through for each of 1,024 messages would be a gigabyte. */
    static char content[1 << 20];
    struct chat_message message = {SLICE("user"), {content, sizeof content}};
    struct buffer out;
    memset(content, 'a', sizeof content);
    static const char *const sources[] = {
        "{% for m in messages %}{{ m.content == messages[0].content }}{% endfor %}",
        "{% for m in messages %}{{ 'b' in m.content }}{% endfor %}",
        "{% for m in messages %}{{ m.content | length }}{% endfor %}",
        "{% for m in messages %}{% set x = m.content | trim %}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        assert_int_equal(run(sources[i], message, LIMIT_MESSAGES, &out), STATUS_LIMIT);
        assert_non_null(strstr(status_note()->message, "too many steps"));
        buffer_deinit(&out);
    }
}

static void output_is_bounded(void **state)
{
    (void)state;
    static char content[LIMIT_TEMPLATE_OUTPUT_BYTES / 2];
    struct chat_message message = {SLICE(""), {content, sizeof content}};
    struct buffer out;
    memset(content, 'a', sizeof content);
    const char *source = "{% for m in messages %}{{ m.content }}{% endfor %}";
    assert_int_equal(run(source, message, 2, &out), STATUS_OK);
    assert_int_equal(out.length, LIMIT_TEMPLATE_OUTPUT_BYTES);
    buffer_deinit(&out);
    assert_int_equal(run("{% for m in messages %}{{ m.content }}{% endfor %}.", message, 2, &out),
                     STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, "output is too long"));
    buffer_deinit(&out);
}

static void messages_are_bounded(void **state)
{
    (void)state;
    struct buffer out;
    const char *source = "{{ messages | length }}";
    assert_int_equal(run(source, hello, LIMIT_MESSAGES, &out), STATUS_OK);
    buffer_deinit(&out);
    assert_int_equal(run(source, hello, LIMIT_MESSAGES + 1, &out), STATUS_LIMIT);
    buffer_deinit(&out);
}

static void numbers_as_text_are_bounded(void **state)
{
    (void)state;
    struct buffer out;
    const char *source = "{% for a in messages %}{% for b in messages %}{{ 999999999 }}"
                         "{% endfor %}{% endfor %}";
    assert_int_equal(run(source, hello, 80, &out), STATUS_OK); /* 6,400 × 9 digits */
    buffer_deinit(&out);
    assert_int_equal(run(source, hello, 90, &out), STATUS_LIMIT); /* 8,100 × 9 */
    buffer_deinit(&out);
}

/* The largest chat that a request may hold stays far from the limit of steps. */
static void a_large_chat_fits(void **state)
{
    (void)state;
    static char content[4096];
    struct chat_message message = {SLICE("user"), {content, sizeof content}};
    struct buffer out;
    memset(content, 'x', sizeof content);
    const char *source = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
                         "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}";
    assert_int_equal(run(source, message, LIMIT_MESSAGES, &out), STATUS_OK);
    assert_int_equal(out.length, LIMIT_MESSAGES * (4096 + 4 + 12 + 10 + 2));
    assert_true(steps < LIMIT_TEMPLATE_STEPS / 10);
    buffer_deinit(&out);
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
    struct chat_message message = hello;
    struct chat_template_args args = {.messages = &message, .message_count = 1};
    struct slice source = SLICE("{{ 12 ~ messages[0].content ~ 'x' }}{{ 'a' in 'b' + 'a' }}");
    assert_int_equal(chat_template_parser_run(&program, source), STATUS_OK);
    int n = 0;
    for (;; n++) {
        struct buffer out;
        int left = n;
        buffer_init(&out, 4096);
        mem_hook_set(fail_at, &left);
        enum status status =
            chat_template_eval_run(&program, &args, &out, spans, SPANS, &span_count, NULL);
        mem_hook_set(NULL, NULL);
        assert_int_equal(status, left >= 0 ? STATUS_OK : STATUS_NO_MEMORY);
        buffer_deinit(&out);
        if (left >= 0)
            break;
    }
    assert_true(n >= 6); /* state, pieces, digits, output, both sides of `in` */
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
        cmocka_unit_test(bytes_compared_are_steps),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(messages_are_bounded),
        cmocka_unit_test(numbers_as_text_are_bounded),
        cmocka_unit_test(a_large_chat_fits),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
