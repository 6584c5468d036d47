#include "engine/sampling/reasoning_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/answer/answer_format.h"

enum { OPEN = 300, CLOSE, CALL, CALL_END };

static const struct reasoning_marks as_tokens = {.open = {"<think>", OPEN},
                                                 .close = {"</think>", CLOSE},
                                                 .call_open = {"<call>", CALL},
                                                 .call_close = {"</call>", CALL_END},
                                                 .close_tokens = {CLOSE},
                                                 .close_count = 1};
static const struct reasoning_marks as_text = {
    .open = {"<think>", REASONING_NO_TOKEN},
    .close = {"</think>", REASONING_NO_TOKEN},
    .call_open = {"<call>", REASONING_NO_TOKEN},
    .call_close = {"</call>", REASONING_NO_TOKEN},
    .close_tokens = {'<', '/', 't', 'h', 'i', 'n', 'k', '>'},
    .close_count = 8};

static struct reasoning_budget budget;

/* A token for each byte. */
static void take_text(const char *text)
{
    for (; *text != '\0'; text++)
        reasoning_budget_take(&budget, (unsigned char)*text, (struct slice){text, 1});
}

static void take_mark(uint32_t token)
{
    reasoning_budget_take(&budget, token, (struct slice){0});
}

static void expect(uint32_t token)
{
    assert_int_equal(reasoning_budget_next(&budget), token);
}

static void test_none(void **state)
{
    (void)state;
    memset(&budget, 0, sizeof budget);
    take_text("<think>abc");
    expect(REASONING_NO_TOKEN);
}

static void test_control_tokens(void **state)
{
    (void)state;
    reasoning_budget_begin(&budget, &as_tokens, 3, false, true);
    take_text("<think>abcdef"); /* text that reads like a mark is none */
    expect(REASONING_NO_TOKEN);
    take_mark(OPEN);
    take_text("ab");
    expect(REASONING_NO_TOKEN);
    take_text("c");
    expect(CLOSE);
    take_mark(CLOSE);
    expect(REASONING_NO_TOKEN);
    take_text("the answer");
    expect(REASONING_NO_TOKEN);
    take_mark(OPEN); /* nothing is left for more reasoning */
    expect(CLOSE);
}

static void test_the_prompt_opens(void **state)
{
    (void)state;
    reasoning_budget_begin(&budget, &as_tokens, 0, true, false);
    expect(CLOSE);
    take_mark(CLOSE);
    expect(REASONING_NO_TOKEN);
    reasoning_budget_begin(&budget, &as_tokens, 5, true, false);
    take_text("ab");
    take_mark(CLOSE); /* by itself */
    take_text("cdefghij");
    expect(REASONING_NO_TOKEN);
    assert_int_equal(budget.tokens, 2);
}

static void test_text(void **state)
{
    (void)state;
    reasoning_budget_begin(&budget, &as_text, 4, false, true);
    take_text("<thin<<think>xyz");
    expect(REASONING_NO_TOKEN);
    take_text("<"); /* the mark is forced as a whole, whatever of it had begun */
    for (const char *mark = "</think>"; *mark != '\0'; mark++) {
        expect((unsigned char)*mark);
        reasoning_budget_take(&budget, (unsigned char)*mark, (struct slice){mark, 1});
    }
    expect(REASONING_NO_TOKEN);
    assert_int_equal(budget.tokens, 4);
    /* in one token with what stands around it */
    reasoning_budget_begin(&budget, &as_text, 1, false, true);
    reasoning_budget_take(&budget, 9, slice_of("Hi <think>so"));
    expect(REASONING_NO_TOKEN);
    reasoning_budget_take(&budget, 9, slice_of("x"));
    expect('<');
    assert_int_equal(budget.behind, 0);
    reasoning_budget_take(&budget, 9, slice_of("y</think>zz")); /* a grammar did not allow it yet */
    assert_int_equal(budget.behind, 2);
    expect(REASONING_NO_TOKEN);
}

static void test_calls(void **state)
{
    (void)state;
    reasoning_budget_begin(&budget, &as_text, 0, false, true);
    take_text("<call>{\"a\":\"<think>\"}");
    expect(REASONING_NO_TOKEN);
    take_text("</call><think>");
    expect('<');
    reasoning_budget_begin(&budget, &as_text, 0, false, false);
    take_text("<call><think>"); /* without tools these are no calls */
    expect('<');
    reasoning_budget_begin(&budget, &as_tokens, 0, false, true);
    take_mark(CALL);
    take_mark(OPEN);
    expect(REASONING_NO_TOKEN);
    take_mark(CALL_END);
    take_mark(OPEN);
    expect(CLOSE);
}

/* What the search for a mark rests on. */
static void test_marks_begin_once(void **state)
{
    (void)state;
    static const char *const names[] = {"mistral_args", "deepseek_v3", "gemma4",
                                        "qwen_xml",     "hermes",      "generic"};
    static const enum answer_mark marks[] = {ANSWER_REASON_OPEN, ANSWER_REASON_CLOSE,
                                             ANSWER_CALL_OPEN, ANSWER_CALL_CLOSE};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t m = 0; m < sizeof marks / sizeof marks[0]; m++) {
            const char *text = answer_format_named(names[i])->marks[marks[m]];
            if (text != NULL)
                assert_null(strchr(text + 1, text[0]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_control_tokens),
        cmocka_unit_test(test_the_prompt_opens),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_marks_begin_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
