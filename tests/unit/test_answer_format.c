#include "engine/answer/answer_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Pieces of templates, as models publish them. */
static const struct {
    const char *part;
    const char *format;
    bool has_reasoning;
} templates[] = {
    {"return a json object within <tool_call></tool_call> {\"name\": <f>, \"arguments\": <a>}",
     "hermes", false},
    {"<tool_call> \\\"arguments\\\" content.split('</think>')", "hermes", true},
    {"<tool_call>\\n<function=' + tool_call.name + '> arguments", "qwen_xml", false},
    {"{{- '\"parameters\": ' }}", "llama3", false},
    {"{{ \"[TOOL_CALLS] [\" }}", "mistral", false},
    {"{{ '[TOOL_CALLS]' + name + '[ARGS]' }}", "mistral_args", false},
    {"'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' ... '</think>'", "deepseek_v3", true},
    {"<|start|>assistant<|channel|>analysis<|message|>", "harmony", true},
    {"'<|tool_call>call:' + name", "gemma4", false},
    {"{{ '<|im_start|>' + message['role'] }}", "generic", false},
};

static void test_rows_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        struct answer_model model;
        answer_format_find(&model, slice_of(templates[i].part), true, NULL);
        assert_string_equal(model.format->name, templates[i].format);
        assert_int_equal(model.has_reasoning, templates[i].has_reasoning);
        assert_int_equal(answer_format_mark(&model, VOCAB_NONE), ANSWER_MARKS);
    }
}

/* A template that does not show tools gets them in a text of ours. */
static void test_a_template_without_tools_is_generic(void **state)
{
    (void)state;
    struct answer_model model;
    answer_format_find(&model, slice_of(templates[0].part), false, NULL);
    assert_string_equal(model.format->name, "generic");
    assert_null(answer_format_named("hermes2"));
}

static void test_marks_fit(void **state)
{
    (void)state;
    static const char *const names[] = {"hermes",      "generic", "qwen_xml",
                                        "llama3",      "mistral", "harmony",
                                        "deepseek_v3", "gemma4",  "mistral_args"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct answer_format *format = answer_format_named(names[i]);
        assert_non_null(format);
        for (size_t mark = 0; mark < ANSWER_MARKS; mark++)
            assert_true(format->marks[mark] == NULL ||
                        strlen(format->marks[mark]) < ANSWER_MARK_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_found),
        cmocka_unit_test(test_a_template_without_tools_is_generic),
        cmocka_unit_test(test_marks_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
