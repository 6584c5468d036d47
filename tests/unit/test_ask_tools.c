#include "gateway/dialect/ask_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/dialect/ask.h"

static struct answer_model answer;

static enum status parse(struct ask *ask, const char *format, const char *messages,
                         const char *fields)
{
    static char body[1 << 17];
    const struct ask_model model = {.name = "m", .vocab = 100, .answer = &answer};
    answer.format = answer_format_named(format);
    snprintf(body, sizeof body, "{\"model\":\"m\",\"messages\":[%s]%s}", messages, fields);
    return ask_parse(ask, ASK_CHAT, slice_of(body), &model);
}

#define USER       "{\"role\":\"user\",\"content\":\"Hi\"}"
#define TOOL(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"parameters\":{}}}"
#define TOOLS      ",\"tools\":[" TOOL("f") "," TOOL("g") "]"

static void test_choices(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        enum ask_tool_choice choice;
        bool is_single, f, g;
    } cases[] = {
        {TOOLS, ASK_TOOLS_AUTO, false, true, true},
        {TOOLS ",\"tool_choice\":\"auto\",\"parallel_tool_calls\":false", ASK_TOOLS_AUTO, true,
         true, true},
        {TOOLS ",\"tool_choice\":\"none\"", ASK_TOOLS_NONE, false, true, true},
        {TOOLS ",\"tool_choice\":\"required\"", ASK_TOOLS_REQUIRED, false, true, true},
        {TOOLS ",\"tool_choice\":" TOOL("g"), ASK_TOOLS_REQUIRED, true, false, true},
        {TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\","
               "\"tools\":[" TOOL("g") "]}}",
         ASK_TOOLS_AUTO, false, false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ask ask;
        if (parse(&ask, "hermes", USER, cases[i].fields) != STATUS_OK)
            fail_msg("%s: %s", cases[i].fields, status_note()->message);
        assert_int_equal(ask.tools.choice, cases[i].choice);
        assert_int_equal(ask.tools.is_single, cases[i].is_single);
        assert_int_equal(ask_tools_allows(&ask.tools, 0), cases[i].f);
        assert_int_equal(ask_tools_allows(&ask.tools, 1), cases[i].g);
        assert_true(ask.is_split);
        assert_true(ask.engine.wants_marks);
        assert_true(ask.engine.constraint.is_set);
        assert_true(ask.engine.constraint.is_calls);
        assert_true(ask.engine.inputs.tools.length > 0);
        ask_deinit(&ask);
    }
}

static void test_wrong_tools_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        enum status status;
        const char *param;
    } cases[] = {
        {",\"tools\":[" TOOL("f") "," TOOL("f") "]", STATUS_INVALID, "tools[1].function.name"},
        {",\"tools\":[" TOOL("a b") "]", STATUS_INVALID, "tools[0].function.name"},
        {",\"tools\":[" TOOL("") "]", STATUS_INVALID, "tools[0].function.name"},
        {",\"tools\":[" TOOL(
             "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklm") "]",
         STATUS_INVALID, "tools[0].function.name"},
        {",\"tools\":[{\"type\":\"custom\"}]", STATUS_UNSUPPORTED, "tools[0].type"},
        {",\"tools\":[{\"type\":\"function\"}]", STATUS_INVALID, "tools[0].function"},
        {",\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":7}}]", STATUS_INVALID,
         "tools[0].function.parameters"},
        {",\"tools\":[{\"function\":{\"name\":\"f\",\"strict\":7}}]", STATUS_INVALID,
         "tools[0].function.strict"},
        {",\"tool_choice\":\"required\"", STATUS_INVALID, "tool_choice"},
        {",\"tool_choice\":\"some\"", STATUS_INVALID, "tool_choice"},
        {",\"tool_choice\":7", STATUS_INVALID, "tool_choice"},
        {TOOLS ",\"tool_choice\":" TOOL("h"), STATUS_INVALID, "tool_choice.function.name"},
        {TOOLS ",\"tool_choice\":{\"type\":\"function\"}", STATUS_INVALID, "tool_choice.function"},
        {TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":"
               "\"required\",\"tools\":[]}}",
         STATUS_INVALID, "tool_choice"},
        {TOOLS ",\"parallel_tool_calls\":1", STATUS_INVALID, "parallel_tool_calls"},
        {TOOLS ",\"skip_special_tokens\":false", STATUS_INVALID, "skip_special_tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ask ask;
        enum status status = parse(&ask, "hermes", USER, cases[i].fields);
        if (status != cases[i].status || strcmp(status_note()->param, cases[i].param) != 0)
            fail_msg("%s: %s, param '%s'", cases[i].fields, status_name(status),
                     status_note()->param);
    }
}

static void test_a_tool_too_many(void **state)
{
    (void)state;
    static char fields[1 << 15];
    for (int count = 128; count <= 129; count++) {
        size_t length = (size_t)snprintf(fields, sizeof fields, ",\"tools\":[");
        for (int i = 0; i < count; i++)
            length += (size_t)snprintf(fields + length, sizeof fields - length,
                                       "%s{\"function\":{\"name\":\"f%d\"}}", i > 0 ? "," : "", i);
        snprintf(fields + length, sizeof fields - length, "]");
        struct ask ask;
        enum status status = parse(&ask, "hermes", USER, fields);
        assert_int_equal(status, count == 128 ? STATUS_OK : STATUS_OUT_OF_RANGE);
        if (status == STATUS_OK)
            ask_deinit(&ask);
    }
}

#define CALL                                                                                       \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":"            \
    "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}},{\"id\":\"c2\"," \
    "\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"not JSON\"}}]}"
#define RESULT(id) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"r" id "\"}"

static void test_results_have_calls(void **state)
{
    (void)state;
    struct ask ask;
    assert_int_equal(parse(&ask, "hermes", USER "," CALL "," RESULT("c2"), ""), STATUS_OK);
    ask_deinit(&ask);
    assert_int_equal(parse(&ask, "hermes", USER "," CALL "," RESULT("c3"), ""), STATUS_INVALID);
    assert_string_equal(status_note()->param, "messages[2].tool_call_id");
    assert_int_equal(parse(&ask, "hermes", RESULT("c1") "," CALL, ""), STATUS_INVALID);
    assert_string_equal(status_note()->param, "messages[0].tool_call_id");
    assert_int_equal(parse(&ask, "hermes", "{\"role\":\"tool\",\"content\":\"x\"}", ""),
                     STATUS_INVALID);
    assert_string_equal(status_note()->param, "messages[0].tool_call_id");
}

/* Mistral's templates take ids of nine letters alone: others become such, always the same. */
static void test_ids_of_nine_letters(void **state)
{
    (void)state;
    struct ask ask;
    char first[512];
    for (int round = 0; round < 2; round++) {
        assert_int_equal(parse(&ask, "mistral", USER "," CALL "," RESULT("c2"), ""), STATUS_OK);
        const struct engine_message *messages = ask.engine.messages;
        const char *call = strstr(messages[1].json.bytes, "\"id\":\"");
        const char *second = strstr(call + 1, "\"id\":\"") + strlen("\"id\":\"");
        const char *result = strstr(messages[2].json.bytes, "\"tool_call_id\":\"");
        assert_memory_equal(second, result + strlen("\"tool_call_id\":\""), 9);
        assert_int_equal(second[9], '"');
        assert_memory_not_equal(call + strlen("\"id\":\""), second, 9);
        assert_true(messages[1].json.length < sizeof first);
        if (round > 0)
            assert_memory_equal(first, messages[1].json.bytes, messages[1].json.length);
        memcpy(first, messages[1].json.bytes, messages[1].json.length);
        ask_deinit(&ask);
    }
    assert_int_equal(parse(&ask, "hermes", USER "," CALL "," RESULT("c2"), ""), STATUS_OK);
    assert_non_null(strstr(ask.engine.messages[1].json.bytes, "\"id\":\"c1\""));
    ask_deinit(&ask);
}

/* A template without tools gets texts. */
static void test_generic(void **state)
{
    (void)state;
    struct ask ask;
    assert_int_equal(parse(&ask, "generic",
                           "{\"role\":\"system\",\"content\":\"Be brief.\"}," USER "," CALL
                           "," RESULT("c1") "," RESULT("c2"),
                           TOOLS),
                     STATUS_OK);
    const struct engine_message *messages = ask.engine.messages;
    assert_int_equal(ask.engine.message_count, 4);
    assert_int_equal(ask.engine.inputs.tools.length, 0);
    assert_true(slice_starts_with(messages[0].content, SLICE("Be brief.\n\n# Tools\n")));
    const struct slice lines = SLICE("\n{\"name\":\"f\",\"parameters\":{}}\n{\"name\":\"g\"");
    assert_non_null(
        memmem(messages[0].content.bytes, messages[0].content.length, lines.bytes, lines.length));
    assert_true(slice_is(messages[1].content, "Hi"));
    assert_true(slice_is(messages[2].role, "assistant"));
    assert_true(slice_is(messages[2].content,
                         "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
                         "<tool_call>\n{\"name\": \"g\", \"arguments\": \"not JSON\"}\n"
                         "</tool_call>"));
    assert_true(slice_is(messages[3].role, "user"));
    assert_true(slice_is(messages[3].content, "<tool_response>\nrc1\n</tool_response>\n"
                                              "<tool_response>\nrc2\n</tool_response>"));
    ask_deinit(&ask);
    assert_int_equal(parse(&ask, "generic", USER, TOOLS), STATUS_OK);
    assert_int_equal(ask.engine.message_count, 2);
    assert_true(slice_is(ask.engine.messages[0].role, "system"));
    ask_deinit(&ask);
    assert_int_equal(parse(&ask, "generic", USER, ""), STATUS_OK);
    assert_int_equal(ask.engine.message_count, 1);
    assert_false(ask.is_split);
    ask_deinit(&ask);
}

static void test_strings_of_tags(void **state)
{
    (void)state;
    struct ask ask;
    assert_int_equal(
        parse(&ask, "qwen_xml", USER,
              ",\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":"
              "{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"e\":{\"enum\":[\"a\",\"b\"]},"
              "\"m\":{\"enum\":[\"a\",1]}}}}}]"),
        STATUS_OK);
    struct buffer *texts = &ask.tools.lines;
    assert_true(ask_tools_is_text(texts, SLICE("f"), SLICE("s")));
    assert_true(ask_tools_is_text(texts, SLICE("f"), SLICE("e")));
    assert_false(ask_tools_is_text(texts, SLICE("f"), SLICE("n")));
    assert_false(ask_tools_is_text(texts, SLICE("f"), SLICE("m")));
    assert_false(ask_tools_is_text(texts, SLICE("g"), SLICE("s")));
    assert_true(ask_tools_has(texts, SLICE("f")));
    assert_false(ask_tools_has(texts, SLICE("s")));
    ask_deinit(&ask);
}

/* A line is found among thousands, also where a key has a line's separators. */
static void test_many_strings(void **state)
{
    (void)state;
    static char fields[1 << 16];
    size_t length = (size_t)snprintf(fields, sizeof fields,
                                     ",\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":{"
                                     "\"properties\":{\"a\\n\\ng\\tb\":{\"type\":\"string\"}");
    for (int i = 0; i < 1500; i++)
        length += (size_t)snprintf(fields + length, sizeof fields - length,
                                   ",\"p%d\":{\"type\":\"%s\"}", i, i % 2 ? "string" : "null");
    snprintf(fields + length, sizeof fields - length, "}}}}]");
    struct ask ask;
    assert_int_equal(parse(&ask, "qwen_xml", USER, fields), STATUS_OK);
    for (int i = 0; i < 1500; i++) {
        char key[16];
        const int bytes = snprintf(key, sizeof key, "p%d", i);
        assert_int_equal(
            ask_tools_is_text(&ask.tools.lines, SLICE("f"), (struct slice){key, (size_t)bytes}),
            i % 2);
    }
    assert_true(ask_tools_is_text(&ask.tools.lines, SLICE("f"), SLICE("a\n\ng\tb")));
    assert_false(ask_tools_is_text(&ask.tools.lines, SLICE("g"), SLICE("b")));
    assert_true(ask_tools_has(&ask.tools.lines, SLICE("f")));
    assert_false(ask_tools_has(&ask.tools.lines, SLICE("g")));
    ask_deinit(&ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_wrong_tools_are_named),
        cmocka_unit_test(test_a_tool_too_many),
        cmocka_unit_test(test_results_have_calls),
        cmocka_unit_test(test_ids_of_nine_letters),
        cmocka_unit_test(test_generic),
        cmocka_unit_test(test_strings_of_tags),
        cmocka_unit_test(test_many_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
