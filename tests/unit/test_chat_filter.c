/* chat_filter: what each filter of chat_filters.def does with every kind of value, over strings of
 * several pieces and in all alphabets; what a filter charges. */
#include "engine/text/chat_filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/mem.h"

static const struct chat_template_code code = {.line = 3};

/* A string of these texts, in a run that has nothing else. */
static struct eval_value string_of(struct eval *eval, const char *const *texts, uint32_t count)
{
    struct eval_value string = {.kind = EVAL_STRING, .count = count, .first = eval->piece_count};
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(
            chat_template_run_add_piece(eval, (struct eval_piece){slice_of(texts[i]), i == 0}),
            STATUS_OK);
    return string;
}

static void text_is(const struct eval *eval, struct eval_value string, const char *wanted)
{
    char text[64] = "";
    size_t length = 0;
    assert_int_equal(string.kind, EVAL_STRING);
    for (uint32_t i = 0; i < string.count; i++) {
        struct slice piece = eval->pieces[string.first + i].text;
        assert_true(piece.length > 0);
        memcpy(text + length, piece.bytes, piece.length);
        length += piece.length;
    }
    text[length] = '\0';
    assert_string_equal(text, wanted);
}

static void test_trim(void **state)
{
    (void)state;
    static const struct {
        const char *texts[3];
        uint32_t count;
        const char *wanted;
    } cases[] = {
        {{" a b\n"}, 1, "a b"},
        {{" ", "\t x", " \r"}, 3, "x"},
        {{"  ", "\xc2\xa0\xe3\x80\x80", " "}, 3, ""}, /* no-break and ideographic space */
        {{"\xe2\x80\x8b x"}, 1, "\xe2\x80\x8b x"},    /* of no width, and no white space */
        {{"x ", " ", " y"}, 3, "x   y"},
        {{NULL}, 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct eval eval = {.code = &code};
        struct eval_value out;
        struct eval_value string = string_of(&eval, cases[i].texts, cases[i].count);
        assert_int_equal(chat_filter_trim(&eval, string, &out), STATUS_OK);
        text_is(&eval, out, cases[i].wanted);
        if (out.count > 0) /* whose bytes they are is known as before */
            assert_int_equal(eval.pieces[out.first].is_own, i != 1);
        mem_free(eval.pieces);
    }
}

static void test_length(void **state)
{
    (void)state;
    static const char *const texts[] = {"a\xc3\xa4", "\xe2\x82\xac\xf0\x9f\x99\x82"};
    const struct chat_template_args args = {.message_count = 7};
    struct eval eval = {.code = &code, .args = &args};
    struct eval_value out;
    assert_int_equal(chat_filter_length(&eval, string_of(&eval, texts, 2), &out), STATUS_OK);
    assert_int_equal(out.integer, 4); /* characters, not bytes */
    const struct {
        enum eval_kind kind;
        int64_t wanted;
    } cases[] = {{EVAL_MESSAGES, 7}, {EVAL_MESSAGE, 2}, {EVAL_UNDEFINED, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            chat_filter_length(&eval, (struct eval_value){.kind = cases[i].kind}, &out), STATUS_OK);
        assert_int_equal(out.kind, EVAL_INTEGER);
        assert_int_equal(out.integer, cases[i].wanted);
    }
    assert_int_equal(chat_filter_length(&eval, eval_integer(5), &out), STATUS_INVALID);
    assert_string_equal(status_note()->message, "chat template, line 3: this value has no length");
    mem_free(eval.pieces);
}

/* Reading many bytes takes many steps, of which a run has a bounded number. */
static void test_what_a_filter_reads_is_charged(void **state)
{
    (void)state;
    static char text[1 << 20];
    memset(text, 'x', sizeof text - 1);
    const char *texts[] = {text};
    struct eval eval = {.code = &code};
    struct eval_value out;
    struct eval_value string = string_of(&eval, texts, 1);
    assert_int_equal(chat_filter_trim(&eval, string, &out), STATUS_OK);
    assert_true(eval.steps >= sizeof text / 256);
    uint64_t before = eval.steps;
    assert_int_equal(chat_filter_length(&eval, string, &out), STATUS_OK);
    assert_true(eval.steps - before >= sizeof text / 256);
    eval.steps = LIMIT_TEMPLATE_STEPS;
    assert_int_equal(chat_filter_length(&eval, string, &out), STATUS_LIMIT);
    mem_free(eval.pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_what_a_filter_reads_is_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
