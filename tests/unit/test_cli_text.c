/* cli_text: what may reach a terminal, and how wide it is. */
#include "gateway/cli/cli_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void safe(struct slice text, const char *wanted, size_t columns)
{
    struct buffer out;
    buffer_init(&out, 4096);
    assert_int_equal(cli_text_append(&out, text), columns);
    assert_string_equal(out.bytes != NULL ? out.bytes : "", wanted);
    assert_int_equal(cli_text_columns(buffer_slice(&out)), columns);
    buffer_deinit(&out);
}

#define FFFD "\xef\xbf\xbd"

static void test_hidden_characters(void **state)
{
    (void)state;
    safe(SLICE(""), "", 0);
    safe(SLICE("plain ~"), "plain ~", 7);
    safe(SLICE("\x1b[31mred\r\n\t\a\x7f"), FFFD "[31mred" FFFD FFFD FFFD FFFD FFFD, 13);
    safe(SLICE("a\0b"), "a" FFFD "b", 3);
    safe(SLICE("\xc2\x9b"
               "2J"),
         FFFD "2J", 3); /* C1: the one-byte escape */
    safe(SLICE("a\xe2\x80\xae"
               "b"),
         "a" FFFD "b", 3); /* U+202E turns the line around */
    safe(SLICE("a\xe2\x81\xa6"
               "b"),
         "a" FFFD "b", 3); /* U+2066 isolates */
    safe(SLICE("a\xe2\x80\x8b"
               "b"),
         "a" FFFD "b", 3);                                                 /* U+200B hides */
    safe(SLICE("\xf3\xa0\x81\x81"), FFFD, 1);                              /* U+E0041, a tag */
    safe(SLICE("\xff\xc3(\xed\xa0\x80"), FFFD FFFD "(" FFFD FFFD FFFD, 6); /* no UTF-8 */
    safe(SLICE("\xe2\x82"), FFFD FFFD, 2);                                 /* cut short */
}

static void test_widths(void **state)
{
    (void)state;
    safe(SLICE("gl\xc3\xb6"
               "bex"),
         "gl\xc3\xb6"
         "bex",
         6);
    safe(SLICE("\xe4\xb8\x96\xe7\x95\x8c"), "\xe4\xb8\x96\xe7\x95\x8c", 4);
    safe(SLICE("e\xcc\x81"), "e\xcc\x81", 1);
    safe(SLICE("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80", 2);
}

static void fits(const char *text, size_t columns, bool is_right, const char *wanted)
{
    struct buffer out;
    buffer_init(&out, 4096);
    cli_text_append_fit(&out, slice_of(text), columns, is_right);
    assert_string_equal(out.bytes, wanted);
    assert_int_equal(cli_text_columns(buffer_slice(&out)), columns);
    buffer_deinit(&out);
}

static void test_fit(void **state)
{
    (void)state;
    fits("abc", 5, false, "abc  ");
    fits("abc", 5, true, "  abc");
    fits("abc", 3, false, "abc");
    fits("abcd", 3, false, "ab\xe2\x80\xa6");
    fits("abcd", 1, true, "\xe2\x80\xa6");
    fits("\xe4\xb8\x96\xe7\x95\x8c", 4, false, "\xe4\xb8\x96\xe7\x95\x8c");
    /* A wide character that does not fit leaves a space. */
    fits("\xe4\xb8\x96\xe7\x95\x8c", 3, false, "\xe4\xb8\x96\xe2\x80\xa6");
    fits("\xe4\xb8\x96\xe7\x95\x8c", 2, false, "\xe2\x80\xa6 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hidden_characters),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
