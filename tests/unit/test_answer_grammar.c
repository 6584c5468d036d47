#include "engine/answer/answer_grammar.h"

#include "config/base/limits_grammar.h"
#include "engine/answer/answer_split.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/grammar_run.h"
#include "tests/unit/grammar_kit.h"

static struct token_trie *trie; /* the trie's control tokens begin at 1 */

static int setup(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "", "", "", "", "", "", "",
                                        "",  "", "", "", "", "", ""};
    trie = kit_trie(texts, sizeof texts / sizeof texts[0]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    token_trie_free(trie);
    return 0;
}

static const char *const schema =
    "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},"
    "\"required\":[\"n\"],\"additionalProperties\":false}";

/* Marks are text, or the control tokens 1 and up. */
static struct answer_model model_of(const char *format, bool has_tokens)
{
    struct answer_model model = {.format = answer_format_named(format)};
    for (uint32_t i = 0; i < ANSWER_MARKS; i++)
        model.tokens[i] = has_tokens && model.format->marks[i] != NULL ? i + 1 : VOCAB_NONE;
    return model;
}

static enum status compile(const struct answer_model *model, enum answer_choice choice,
                           bool is_single, const char *of_f, bool is_strict, struct grammar **out,
                           struct constraint_error *error)
{
    struct buffer source;
    struct grammar_fuel fuel;
    const struct constraint_options options = {0};
    buffer_init(&source, 1 << 16);
    answer_grammar_begin(&source, choice, is_single);
    answer_grammar_tool(&source, 0, SLICE("f"), is_strict, slice_of(of_f));
    answer_grammar_tool(&source, 3, SLICE("g"), false, (struct slice){0});
    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, NULL);
    enum status status =
        answer_grammar_compile(model, buffer_slice(&source), &options, &fuel, out, error);
    buffer_deinit(&source);
    return status;
}

/* Feeds an answer; its marks are tokens if the model has them as such. */
static bool accepts(const struct answer_model *model, struct grammar *grammar, const char *answer)
{
    struct grammar_run *run;
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    bool is_taken = true;
    for (const char *at = answer; *at != '\0' && is_taken;) {
        size_t length = 1;
        uint32_t token = VOCAB_NONE;
        for (uint32_t i = 0; i < ANSWER_MARKS && token == VOCAB_NONE; i++) {
            const char *mark = model->format->marks[i];
            if (model->tokens[i] == VOCAB_NONE || strncmp(at, mark, strlen(mark)) != 0)
                continue;
            token = model->tokens[i];
            length = strlen(mark);
        }
        is_taken = token != VOCAB_NONE ? grammar_run_commit(run, token)
                                       : grammar_run_commit_bytes(run, (struct slice){at, length});
        at += length;
    }
    bool is_whole = is_taken && grammar_run_accepts(run);
    grammar_run_free(run);
    return is_whole;
}

#define CALL(name, arguments)                                                                      \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"

static const struct {
    const char *format;
    enum answer_choice choice;
    bool is_single, has_tokens, is_accepted;
    const char *answer;
} cases[] = {
    {"hermes", ANSWER_CHOICE_NONE, false, false, true, "plain < text"},
    {"hermes", ANSWER_CHOICE_NONE, false, false, true, "{\"name\": \"f\"}"},
    {"hermes", ANSWER_CHOICE_NONE, false, false, true, ""},
    {"hermes", ANSWER_CHOICE_NONE, false, false, false, CALL("f", "{\"n\":1}")},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, true, ""},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, true, "text <tool_cal"},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, true, CALL("f", "{\"n\":1}")},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, true,
     "Let me.\n" CALL("f", "{\"n\":1}") "\n" CALL("g", "{\"x\":[]}") " bye"},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, false, CALL("f", "{\"n\":\"1\"}")},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, false, CALL("h", "{}")},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, false, "x<tool_call>text</tool_call>"},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, true,
     "{\"name\": \"f\", \"arguments\": {\"n\": 1}}"},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, false, "{\"name\": \"f\", \"arguments\": {}}"},
    {"hermes", ANSWER_CHOICE_AUTO, false, false, true, "{\"answer\": 42}"},
    {"hermes", ANSWER_CHOICE_AUTO, true, false, true, "Hm. " CALL("f", "{\"n\":1}")},
    {"hermes", ANSWER_CHOICE_AUTO, true, false, false,
     CALL("f", "{\"n\":1}") CALL("f", "{\"n\":1}")},
    {"hermes", ANSWER_CHOICE_REQUIRED, false, false, true,
     CALL("f", "{\"n\":1}") "\n" CALL("g", "{}")},
    {"hermes", ANSWER_CHOICE_REQUIRED, false, false, false, "Hm. " CALL("f", "{\"n\":1}")},
    {"hermes", ANSWER_CHOICE_REQUIRED, false, false, false, ""},
    {"hermes", ANSWER_CHOICE_REQUIRED, true, false, false,
     CALL("f", "{\"n\":1}") CALL("f", "{\"n\":1}")},
    {"llama3", ANSWER_CHOICE_REQUIRED, true, false, true,
     "{\"name\": \"f\", \"parameters\": {\"n\": 1}}"},
    {"llama3", ANSWER_CHOICE_AUTO, true, false, true, "text"},
    {"mistral", ANSWER_CHOICE_AUTO, false, true, true,
     "Hm.[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"n\": 1}}, {\"name\": \"g\", "
     "\"arguments\": {}}]"},
    {"mistral", ANSWER_CHOICE_REQUIRED, true, true, false,
     "[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]"},
    {"mistral_args", ANSWER_CHOICE_REQUIRED, false, true, true,
     "[TOOL_CALLS]f[ARGS]{\"n\": 1}[TOOL_CALLS]g[ARGS]{}"},
    {"mistral_args", ANSWER_CHOICE_AUTO, false, true, true, "Hm.[TOOL_CALLS]f[ARGS]{\"n\": 1}"},
    {"mistral_args", ANSWER_CHOICE_AUTO, false, true, false, "[TOOL_CALLS]f[ARGS]{\"m\": 1}"},
    {"deepseek_v3", ANSWER_CHOICE_REQUIRED, false, true, true,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"n\": 1}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"qwen_xml", ANSWER_CHOICE_REQUIRED, true, false, true,
     "<tool_call>\n<function=f>\n<parameter=n>\n17\n</parameter>\n</function>\n</tool_call>"},
    {"qwen_xml", ANSWER_CHOICE_REQUIRED, true, false, false,
     "<tool_call>\n<function=f>\n<parameter=n>\nx\n</parameter>\n</function>\n</tool_call>"},
    {"qwen_xml", ANSWER_CHOICE_REQUIRED, true, false, false,
     "<tool_call>\n<function=f>\n</function>\n</tool_call>"},
    {"qwen_xml", ANSWER_CHOICE_REQUIRED, false, false, true,
     "<tool_call><function=g><parameter=x>\nany <text>\n</parameter></function></tool_call>"
     "<tool_call><function=f><parameter=n>\n1</parameter></function></tool_call>"},
    {"qwen_xml", ANSWER_CHOICE_AUTO, true, false, true,
     "Hm. <tool_call><function=f><parameter=n>\n1</parameter></function></tool_call>"},
    {"qwen_xml", ANSWER_CHOICE_AUTO, true, false, true, "Hm."},
    {"qwen_xml", ANSWER_CHOICE_AUTO, false, false, false, "<tool_call><function=h>"},
    {"gemma4", ANSWER_CHOICE_REQUIRED, true, true, true, "<|tool_call>call:f{n:17}<tool_call|>"},
    {"gemma4", ANSWER_CHOICE_REQUIRED, true, false, true, "<|tool_call>call:f{n:17}<tool_call|>"},
    {"gemma4", ANSWER_CHOICE_REQUIRED, true, true, false, "<|tool_call>call:f{}<tool_call|>"},
    {"gemma4", ANSWER_CHOICE_REQUIRED, true, true, false,
     "<|tool_call>call:f{n:<|\"|>1<|\"|>}<tool_call|>"},
    {"gemma4", ANSWER_CHOICE_REQUIRED, false, true, true,
     "<|tool_call>call:g{a:[<|\"|>x,}<|\"|>,true,{b:-1.5}],c:{}}<tool_call|>"
     "<|tool_call>call:f{n:1}<tool_call|>"},
    {"gemma4", ANSWER_CHOICE_AUTO, true, true, true, "Hm.<|tool_call>call:f{n:1}<tool_call|>"},
    {"harmony", ANSWER_CHOICE_REQUIRED, true, true, true,
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"n\":1}<|call|>"},
    {"harmony", ANSWER_CHOICE_REQUIRED, true, true, true,
     " to=functions.f<|channel|>commentary json<|message|>{\"n\":1}"},
    {"harmony", ANSWER_CHOICE_REQUIRED, true, true, false,
     "<|channel|>commentary to=functions.f<|message|>{}<|call|>"},
    {"harmony", ANSWER_CHOICE_REQUIRED, true, true, false, "<|channel|>final<|message|>Hi"},
    {"harmony", ANSWER_CHOICE_REQUIRED, true, true, false,
     "<|channel|>commentary<|message|>Hi<|end|>"},
    {"harmony", ANSWER_CHOICE_REQUIRED, false, true, true,
     "<|channel|>commentary to=functions.f json<|message|>{\"n\":1}<|call|><|start|>assistant"
     "<|channel|>commentary to=functions.g<|message|>{}<|call|>"},
    {"harmony", ANSWER_CHOICE_AUTO, true, true, true,
     "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"n\":1}<|call|>"},
    {"harmony", ANSWER_CHOICE_AUTO, true, true, true, "<|channel|>final<|message|>Hi"},
    {"harmony", ANSWER_CHOICE_NONE, true, true, true,
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi"},
    {"harmony", ANSWER_CHOICE_NONE, true, true, false,
     "<|channel|>commentary to=functions.g<|message|>{}<|call|>"},
};

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct answer_model model = model_of(cases[i].format, cases[i].has_tokens);
        struct grammar *grammar;
        struct constraint_error error;
        if (compile(&model, cases[i].choice, cases[i].is_single, schema, true, &grammar, &error) !=
            STATUS_OK)
            fail_msg("%s: %s", cases[i].format, error.message);
        if (accepts(&model, grammar, cases[i].answer) != cases[i].is_accepted)
            fail_msg("%s, choice %d: %s", cases[i].format, cases[i].choice, cases[i].answer);
        grammar_drop(grammar);
    }
}

static void count_calls(void *context, const struct answer_part *part)
{
    *(uint32_t *)context += part->kind == ANSWER_CALL_END;
}

/* What the grammar of required calls accepts, the splitter reads as calls. */
static void test_what_is_constrained_is_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!cases[i].is_accepted || cases[i].choice != ANSWER_CHOICE_REQUIRED)
            continue;
        const struct answer_model model = model_of(cases[i].format, false);
        uint32_t calls = 0;
        struct answer_split split;
        const struct answer_split_options options = {
            .model = &model, .has_calls = true, .take = count_calls, .context = &calls};
        answer_split_init(&split, &options);
        answer_split_text(&split, slice_of(cases[i].answer));
        answer_split_end(&split);
        /* Without its mark a call needs to be of a known tool, and none is known here. */
        assert_int_equal(calls > 0, strcmp(cases[i].format, "llama3") != 0);
        answer_split_deinit(&split);
    }
}

static void test_reasoning_comes_first(void **state)
{
    (void)state;
    struct answer_model model = model_of("hermes", false);
    struct grammar *grammar;
    struct constraint_error error;
    model.has_reasoning = true;
    assert_int_equal(compile(&model, ANSWER_CHOICE_REQUIRED, true, schema, true, &grammar, &error),
                     STATUS_OK);
    assert_true(accepts(&model, grammar, "<think>hm</think>\n" CALL("f", "{\"n\":1}")));
    assert_true(accepts(&model, grammar, CALL("f", "{\"n\":1}")));
    assert_false(accepts(&model, grammar, "hm</think>\n" CALL("f", "{\"n\":1}")));
    assert_false(accepts(&model, grammar, "<think>hm</think>\n"));
    grammar_drop(grammar);
    /* Beside text it may come, too, where its marks are control tokens. */
    model = model_of("mistral_args", true);
    model.has_reasoning = true;
    assert_int_equal(compile(&model, ANSWER_CHOICE_AUTO, true, schema, true, &grammar, &error),
                     STATUS_OK);
    assert_true(accepts(&model, grammar, "[THINK]hm[/THINK]So.[TOOL_CALLS]f[ARGS]{\"n\":1}"));
    assert_false(accepts(&model, grammar, "hm[/THINK]So."));
    assert_true(accepts(&model, grammar, "So."));
    grammar_drop(grammar);
    assert_int_equal(compile(&model, ANSWER_CHOICE_NONE, true, schema, true, &grammar, &error),
                     STATUS_OK);
    assert_true(accepts(&model, grammar, "[THINK]hm[/THINK]So."));
    assert_false(accepts(&model, grammar, "[THINK]hm[/THINK][TOOL_CALLS]f[ARGS]{\"n\":1}"));
    grammar_drop(grammar);
}

/* A schema that cannot be compiled is refused for a strict tool, and any object for others. */
static void test_schemas_that_cannot_be(void **state)
{
    (void)state;
    static const char *const contains =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"contains\":{}}}}";
    const struct answer_model model = model_of("hermes", false);
    struct grammar *grammar;
    struct constraint_error error;
    assert_int_equal(compile(&model, ANSWER_CHOICE_AUTO, false, contains, true, &grammar, &error),
                     STATUS_UNSUPPORTED);
    assert_null(grammar);
    assert_string_equal(error.path, "[0].function.parameters.properties.a.contains");
    assert_string_equal(error.keyword, "contains");
    assert_int_equal(compile(&model, ANSWER_CHOICE_AUTO, false, contains, false, &grammar, &error),
                     STATUS_OK);
    assert_int_equal(grammar_notes(grammar)[0], 1); /* of the first of two tools */
    assert_int_equal(grammar_notes(grammar)[1], 0);
    assert_true(accepts(&model, grammar, CALL("f", "{\"b\":null}")));
    assert_false(accepts(&model, grammar, CALL("f", "[]")));
    grammar_drop(grammar);
}

static void test_which_formats(void **state)
{
    (void)state;
    const struct answer_model deepseek = model_of("deepseek_v3", true);
    const struct answer_model harmony = model_of("harmony", false);
    assert_true(answer_grammar_can(&deepseek, false));
    assert_false(answer_grammar_can(&deepseek, true));
    assert_false(answer_grammar_can(&harmony, false)); /* marks that are text */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_what_is_constrained_is_split),
        cmocka_unit_test(test_reasoning_comes_first),
        cmocka_unit_test(test_schemas_that_cannot_be),
        cmocka_unit_test(test_which_formats),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
