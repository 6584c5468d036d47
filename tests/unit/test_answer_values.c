#include "engine/answer/answer_values.h"

#include "config/base/limits_grammar.h"
#include "engine/answer/answer_grammar.h"
#include "engine/answer/answer_split.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/grammar_run.h"
#include "tests/unit/grammar_kit.h"

static struct token_trie *trie;

static int setup(void **state)
{
    (void)state;
    static const char *const texts[] = {"a"};
    trie = kit_trie(texts, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    token_trie_free(trie);
    return 0;
}

static struct answer_model model_of(const char *format)
{
    struct answer_model model = {.format = answer_format_named(format)};
    for (uint32_t i = 0; i < ANSWER_MARKS; i++)
        model.tokens[i] = VOCAB_NONE;
    return model;
}

static enum status compile(const struct answer_model *model, const char *schema, bool is_strict,
                           struct grammar **out, struct constraint_error *error)
{
    struct buffer source;
    struct grammar_fuel fuel;
    const struct constraint_options options = {0};
    buffer_init(&source, 1 << 16);
    answer_grammar_begin(&source, ANSWER_CHOICE_REQUIRED, true);
    answer_grammar_tool(&source, 0, SLICE("f"), is_strict, slice_of(schema));
    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, NULL);
    enum status status =
        answer_grammar_compile(model, buffer_slice(&source), &options, &fuel, out, error);
    buffer_deinit(&source);
    return status;
}

static bool accepts(struct grammar *grammar, const char *answer)
{
    struct grammar_run *run;
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    bool is_whole = grammar_run_commit_bytes(run, slice_of(answer)) && grammar_run_accepts(run);
    grammar_run_free(run);
    return is_whole;
}

/* Strings of the test's schemas have names that begin with s. */
static bool is_text(void *context, struct slice tool, struct slice parameter)
{
    (void)context;
    (void)tool;
    return slice_starts_with(parameter, SLICE("s"));
}

static void take_arguments(void *context, const struct answer_part *part)
{
    if (part->kind == ANSWER_CALL_ARGUMENTS)
        buffer_append_slice(context, part->text);
}

static void check_split(const struct answer_model *model, const char *answer, const char *wanted)
{
    struct answer_split split;
    struct buffer arguments;
    buffer_init(&arguments, 1 << 16);
    const struct answer_split_options options = {.model = model,
                                                 .has_calls = true,
                                                 .tools = {NULL, is_text, NULL},
                                                 .take = take_arguments,
                                                 .context = &arguments};
    answer_split_init(&split, &options);
    answer_split_text(&split, slice_of(answer));
    answer_split_end(&split);
    if (!slice_is(buffer_slice(&arguments), wanted))
        fail_msg("%s:\n  gave   %.*s\n  wanted %s", answer, (int)arguments.length, arguments.bytes,
                 wanted);
    answer_split_deinit(&split);
    buffer_deinit(&arguments);
}

#define TAGS(inner)         "<tool_call>\n<function=f>\n" inner "</function>\n</tool_call>"
#define TAG(key, text)      "<parameter=" key ">\n" text "\n</parameter>\n"
#define GEMMA(inner)        "<|tool_call>call:f{" inner "}<tool_call|>"
#define QUOTED(text)        "<|\"|>" text "<|\"|>"
#define OBJECT(inner)       "{\"type\":\"object\",\"properties\":{" inner "}}"
#define NEEDS(inner, names) "{\"properties\":{" inner "},\"required\":[" names "]}"

static const struct {
    const char *format;
    const char *schema;
    const char *answer;
    const char *arguments; /* NULL: the grammar does not accept the answer */
} cases[] = {
    {"qwen_xml", "", TAGS(""), "{}"},
    {"qwen_xml", "", TAGS(TAG("a_1", "x\ny") TAG("b", "[1]")), "{\"a_1\":\"x\\ny\",\"b\":[1]}"},
    {"qwen_xml", "", TAGS(TAG("a b", "x")), NULL},
    {"qwen_xml", OBJECT("\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}"),
     TAGS(TAG("s", "say \"hi\" </param") TAG("n", "-3")),
     "{\"s\":\"say \\\"hi\\\" </param\",\"n\":-3}"},
    {"qwen_xml", OBJECT("\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}"),
     TAGS(TAG("n", "-3")), "{\"n\":-3}"},
    {"qwen_xml", OBJECT("\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}"),
     TAGS(TAG("n", "3.5")), NULL},
    {"qwen_xml", OBJECT("\"s\":{\"type\":\"string\"}"), TAGS(TAG("other", "1")), NULL},
    {"qwen_xml", NEEDS("\"s\":{\"type\":\"string\"}", "\"s\""), TAGS(""), NULL},
    {"qwen_xml", OBJECT("\"s\":{\"enum\":[\"red\",\"reddish\"]}"), TAGS(TAG("s", "reddish")),
     "{\"s\":\"reddish\"}"},
    {"qwen_xml", OBJECT("\"s\":{\"enum\":[\"red\",\"reddish\"]}"), TAGS(TAG("s", "redd")), NULL},
    {"qwen_xml",
     OBJECT("\"o\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^x\"},{\"type\":\"null\"}]}"),
     TAGS(TAG("o", "\"xy\"")), "{\"o\":\"xy\"}"},
    {"qwen_xml",
     OBJECT("\"o\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^x\"},{\"type\":\"null\"}]}"),
     TAGS(TAG("o", "\"y\"")), NULL},
    {"qwen_xml",
     "{\"$defs\":{\"p\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\"}}}},"
     "\"properties\":{\"at\":{\"$ref\":\"#/$defs/p\"}}}",
     TAGS(TAG("at", "{\"x\": 1.5}")), "{\"at\":{\"x\": 1.5}}"},
    {"qwen_xml", "{\"anyOf\":[{}],\"properties\":{}}", TAGS(TAG("k", "v")), "{\"k\":\"v\"}"},
    {"gemma4", "", GEMMA(""), "{}"},
    {"gemma4", "", GEMMA("a:" QUOTED("b,}]") ",c:[1,{d:null}]"),
     "{\"a\":\"b,}]\",\"c\":[1,{\"d\":null}]}"},
    {"gemma4", OBJECT("\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\",\"minimum\":0}"),
     GEMMA("s:" QUOTED("a \"b\"") ",n:3"), "{\"s\":\"a \\\"b\\\"\",\"n\":3}"},
    {"gemma4", OBJECT("\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\",\"minimum\":0}"),
     GEMMA("n:3"), "{\"n\":3}"},
    {"gemma4", OBJECT("\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\",\"minimum\":0}"),
     GEMMA("n:-3"), NULL},
    {"gemma4", OBJECT("\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}"), GEMMA(",n:3"),
     NULL},
    {"gemma4", NEEDS("\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}", "\"s\""),
     GEMMA("n:3"), NULL},
    {"gemma4", OBJECT("\"s\":{\"enum\":[\"a\",\"b\"]}"), GEMMA("s:" QUOTED("b")), "{\"s\":\"b\"}"},
    {"gemma4", OBJECT("\"s\":{\"enum\":[\"a\",\"b\"]}"), GEMMA("s:" QUOTED("c")), NULL},
    {"gemma4",
     OBJECT("\"l\":{\"type\":\"array\",\"items\":" OBJECT("\"k\":{\"type\":\"boolean\"}") "}"),
     GEMMA("l:[{k:true},{}]"), "{\"l\":[{\"k\":true},{}]}"},
    {"gemma4",
     OBJECT("\"l\":{\"type\":\"array\",\"items\":" OBJECT("\"k\":{\"type\":\"boolean\"}") "}"),
     GEMMA("l:[{k:1}]"), NULL},
    {"gemma4", OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}"), GEMMA("s:null"), "{\"s\":null}"},
    {"gemma4", OBJECT("\"s\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}"),
     GEMMA("s:7"), "{\"s\":7}"},
    {"gemma4", OBJECT("\"a key\":{\"type\":\"null\"}"), GEMMA(QUOTED("a key") ":null"),
     "{\"a key\":null}"},
};

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct answer_model model = model_of(cases[i].format);
        struct constraint_error error;
        struct grammar *grammar;
        if (compile(&model, cases[i].schema, false, &grammar, &error) != STATUS_OK)
            fail_msg("%s: %s %s", cases[i].schema, error.path, error.message);
        if (accepts(grammar, cases[i].answer) != (cases[i].arguments != NULL))
            fail_msg("%s under %s", cases[i].answer, cases[i].schema);
        if (cases[i].arguments != NULL)
            check_split(&model, cases[i].answer, cases[i].arguments);
        grammar_drop(grammar);
    }
}

/* What a format cannot hold is refused for a strict tool, with its path. */
static void test_strict_tools(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        const char *schema;
        enum status status;
        const char *path;
    } wrong[] = {
        {"qwen_xml", OBJECT("\"s\":{\"type\":\"string\",\"pattern\":\"a\"}"), STATUS_UNSUPPORTED,
         "[0].function.parameters.properties.s.pattern"},
        {"qwen_xml", "{\"anyOf\":[{}]}", STATUS_UNSUPPORTED, "[0].function.parameters.anyOf"},
        {"qwen_xml", OBJECT("\"o\":{\"type\":\"array\",\"contains\":{}}"), STATUS_UNSUPPORTED,
         "[0].function.parameters.properties.o.contains"},
        {"qwen_xml", "{\"properties\":{},\"required\":[\"a\"],\"additionalProperties\":false}",
         STATUS_INVALID, "[0].function.parameters.required"},
        {"gemma4", OBJECT("\"l\":{\"type\":\"array\",\"minItems\":2}"), STATUS_UNSUPPORTED,
         "[0].function.parameters.properties.l.minItems"},
        {"gemma4", OBJECT("\"o\":" OBJECT("\"r\":{\"$ref\":\"#/$defs/x\"}")), STATUS_UNSUPPORTED,
         "[0].function.parameters.properties.o.properties.r.$ref"},
        {"gemma4", OBJECT("\"t\":{\"type\":[7]}"), STATUS_INVALID,
         "[0].function.parameters.properties.t.type"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct answer_model model = model_of(wrong[i].format);
        struct constraint_error error;
        struct grammar *grammar;
        enum status status = compile(&model, wrong[i].schema, true, &grammar, &error);
        if (status != wrong[i].status || strcmp(error.path, wrong[i].path) != 0)
            fail_msg("%s: %s at '%s'", wrong[i].schema, status_name(status), error.path);
        assert_true(strlen(error.message) > 20);
        assert_int_equal(compile(&model, wrong[i].schema, false, &grammar, &error), STATUS_OK);
        grammar_drop(grammar);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_strict_tools),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
