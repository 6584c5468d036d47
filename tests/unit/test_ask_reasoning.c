#include "gateway/dialect/ask_reasoning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/dialect/ask.h"

enum { EFFORT = 1, THINKING = 2, VERBOSITY = 4, REASONS = 8 };

static const struct {
    int reads;
    const char *fields;
    const char *variables; /* NULL: refused */
    const char *param;
} cases[] = {
    {0, ",\"reasoning_effort\":\"none\",\"verbosity\":\"medium\"", "", NULL},
    {0, ",\"reasoning_effort\":\"low\"", NULL, "reasoning_effort"},
    {0, ",\"verbosity\":\"low\"", NULL, "verbosity"},
    {EFFORT, ",\"reasoning_effort\":\"much\"", NULL, "reasoning_effort"},
    {EFFORT, ",\"reasoning_effort\":7", NULL, "reasoning_effort"},
    {EFFORT, ",\"reasoning_effort\":\"low\"", "{\"reasoning_effort\":\"low\"}", NULL},
    {THINKING, ",\"reasoning_effort\":\"low\"", "{\"enable_thinking\":true}", NULL},
    {THINKING, ",\"reasoning_effort\":\"none\"", "{\"enable_thinking\":false}", NULL},
    {THINKING, ",\"reasoning_effort\":\"none\",\"chat_template_kwargs\":{\"enable_thinking\":true}",
     "{\"enable_thinking\":true}", NULL},
    {VERBOSITY, ",\"verbosity\":\"low\"", "{\"verbosity\":\"low\"}", NULL},
    {0, ",\"chat_template_kwargs\":{\"a\":1}", "{\"a\":1}", NULL},
    {0, ",\"thinking_token_budget\":9", NULL, "thinking_token_budget"},
    {REASONS, ",\"thinking_token_budget\":9", "", NULL},
};

static const struct {
    const char *format;
    const char *fields;
    bool is_refused;
    bool limits;
} budgets[] = {
    {"hermes", ",\"thinking_token_budget\":0", false, true},
    {"hermes", ",\"thinking_token_budget\":null", false, false},
    {"hermes", "", false, false},
    /* A constraint holds behind reasoning. */
    {"hermes", ",\"thinking_token_budget\":0,\"response_format\":{\"type\":\"json_object\"}", false,
     true},
    {"hermes",
     ",\"thinking_token_budget\":0,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
     "\"f\"}}]",
     false, true},
    /* Reasoning that ends with the end of a message has no mark of its own. */
    {"harmony", ",\"thinking_token_budget\":0", true, false},
};

static void test_budgets(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        const struct answer_model answer = {.format = answer_format_named(budgets[i].format),
                                            .has_reasoning = true};
        const struct ask_model model = {.name = "m", .vocab = 100, .answer = &answer};
        char body[512];
        struct ask ask;
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]%s}",
                 budgets[i].fields);
        enum status status = ask_parse(&ask, ASK_CHAT, slice_of(body), &model);
        assert_int_equal(status, budgets[i].is_refused ? STATUS_UNSUPPORTED : STATUS_OK);
        if (budgets[i].is_refused)
            continue;
        assert_int_equal(ask.engine.limits_reasoning, budgets[i].limits);
        assert_int_equal(ask.engine.reasoning_max, 0);
        ask_deinit(&ask);
    }
}

static void test_variables(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct answer_model answer = {.format = answer_format_named("hermes"),
                                            .has_reasoning = (cases[i].reads & REASONS) != 0,
                                            .reads_effort = (cases[i].reads & EFFORT) != 0,
                                            .reads_thinking = (cases[i].reads & THINKING) != 0,
                                            .reads_verbosity = (cases[i].reads & VERBOSITY) != 0};
        const struct ask_model model = {.name = "m", .vocab = 100, .answer = &answer};
        char body[512];
        struct ask ask;
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]%s}",
                 cases[i].fields);
        enum status status = ask_parse(&ask, ASK_CHAT, slice_of(body), &model);
        if (cases[i].variables == NULL) {
            assert_int_not_equal(status, STATUS_OK);
            assert_string_equal(status_note()->param, cases[i].param);
            continue;
        }
        assert_int_equal(status, STATUS_OK);
        if (!slice_is(ask.engine.inputs.values, cases[i].variables))
            fail_msg("%s: %.*s", cases[i].fields, (int)ask.engine.inputs.values.length,
                     ask.engine.inputs.values.bytes);
        ask_deinit(&ask);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variables),
                                       cmocka_unit_test(test_budgets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
