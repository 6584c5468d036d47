#include "gateway/dialect/ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"

enum { VOCAB = 100 };

static enum status parse(struct ask *request, enum ask_dialect dialect, const char *body)
{
    static struct answer_model answer;
    const struct ask_model model = {.name = "m", .vocab = VOCAB, .answer = &answer};
    answer.format = answer_format_named("hermes");
    return ask_parse(request, dialect, slice_of(body), &model);
}

/* A chat, or a completion, with more fields: "," and members, or "". */
static enum status parse_with(struct ask *request, enum ask_dialect dialect, const char *fields)
{
    char body[8192];
    snprintf(body, sizeof body, "{\"model\":\"m\",%s%s}",
             dialect == ASK_CHAT ? "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
                                 : "\"prompt\":\"Hi\"",
             fields);
    return parse(request, dialect, body);
}

static void test_defaults(void **state)
{
    (void)state;
    struct ask request;
    assert_int_equal(parse_with(&request, ASK_CHAT, ""), STATUS_OK);
    assert_int_equal(request.engine.choices, 1);
    assert_int_equal(request.engine.tokens_max, 0);
    assert_true(request.engine.sampling.temperature == 1.0f);
    assert_true(request.engine.sampling.top_p == 1.0f);
    assert_false(request.is_stream);
    uint64_t first_seed = request.engine.sampling.seed;
    ask_deinit(&request);
    assert_int_equal(parse_with(&request, ASK_TEXT, ""), STATUS_OK);
    assert_int_equal(request.engine.tokens_max, 16);
    assert_true(request.engine.sampling.seed != first_seed);
    ask_deinit(&request);
}

static void test_every_honoured_field(void **state)
{
    (void)state;
    struct ask request;
    assert_int_equal(
        parse_with(&request, ASK_CHAT,
                   ",\"max_completion_tokens\":9,\"temperature\":0.5,\"top_p\":0.25,\"top_k\":7,"
                   "\"min_p\":0.125,\"n\":3,\"seed\":-2,\"presence_penalty\":-1,"
                   "\"frequency_penalty\":2,\"repetition_penalty\":1.5,\"min_tokens\":9,"
                   "\"logit_bias\":{\"5\":-100,\"99\":1.5},"
                   "\"stop\":[\"a\",\"bc\"],\"logprobs\":true,\"top_logprobs\":4,\"stream\":true,"
                   "\"stream_options\":{\"include_usage\":true},\"return_token_ids\":true,"
                   "\"ignore_eos\":true,\"response_format\":{\"type\":\"text\"},\"user\":\"u\","
                   "\"metadata\":{\"a\":\"b\"},\"service_tier\":\"auto\",\"store\":false,"
                   "\"tools\":null"),
        STATUS_OK);
    const struct engine_request *engine = &request.engine;
    assert_int_equal(engine->tokens_max, 9);
    assert_true(engine->sampling.temperature == 0.5f && engine->sampling.top_p == 0.25f);
    assert_true(engine->sampling.min_p == 0.125f);
    assert_int_equal(engine->sampling.top_k, 7);
    assert_int_equal(engine->choices, 3);
    assert_true(engine->sampling.seed == (uint64_t)-2);
    assert_true(engine->sampling.presence_penalty == -1.0f);
    assert_true(engine->sampling.frequency_penalty == 2.0f);
    assert_true(engine->sampling.repetition_penalty == 1.5f);
    assert_int_equal(engine->tokens_min, 9);
    assert_int_equal(engine->sampling.bias_count, 2);
    assert_int_equal(engine->stop_count, 2);
    assert_true(slice_is(engine->stop[1], "bc"));
    assert_true(engine->want_logprobs && engine->ignore_end && request.want_token_ids);
    assert_int_equal(engine->top_logprobs, 4);
    assert_true(request.is_stream);
    ask_deinit(&request);
}

static void test_messages(void **state)
{
    (void)state;
    struct ask request;
    assert_int_equal(parse(&request, ASK_CHAT,
                           "{\"model\":\"m\",\"messages\":[{\"role\":\"developer\",\"content\":"
                           "[{\"type\":\"text\",\"text\":\"one \"},{\"type\":\"text\",\"text\":"
                           "\"two\"}]},{\"role\":\"user\",\"content\":\"\",\"name\":null}]}"),
                     STATUS_OK);
    assert_int_equal(request.engine.message_count, 2);
    assert_true(slice_is(request.engine.messages[0].role, "system"));
    assert_true(slice_is(request.engine.messages[0].json,
                         "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"one \"},"
                         "{\"type\":\"text\",\"text\":\"two\"}]}"));
    assert_int_equal(request.engine.messages[1].json.length, 0);
    assert_true(slice_is(request.engine.messages[1].content, ""));
    struct engine_request one;
    ask_of_prompt(&request, 0, &one);
    assert_int_equal(one.prompt_kind, ENGINE_PROMPT_CHAT);
    ask_deinit(&request);
}

/* What a template gets goes there as the client wrote it, but for members that say nothing. */
static void test_inputs_of_the_template(void **state)
{
    (void)state;
    struct ask request;
    assert_int_equal(
        parse(&request, ASK_CHAT,
              "{\"model\":\"m\",\"messages\":["
              "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":"
              "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":0.10}\"}}],"
              "\"refusal\":null},"
              "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"21\"}],"
              "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"x\":0.1}}],"
              "\"documents\":[{\"b\":1,\"a\":2}],\"chat_template_kwargs\":{\"enable_thinking\":"
              "false}}"),
        STATUS_OK);
    assert_true(slice_is(request.engine.messages[0].json,
                         "{\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
                         "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":0.10}\"}}],"
                         "\"role\":\"assistant\"}") ||
                slice_is(request.engine.messages[0].json,
                         "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\","
                         "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                         "\"{\\\"a\\\":0.10}\"}}]}"));
    assert_true(slice_is(request.engine.messages[1].role, "tool"));
    assert_true(slice_is(request.engine.inputs.documents, "[{\"b\":1,\"a\":2}]"));
    assert_true(slice_is(request.engine.inputs.values, "{\"enable_thinking\":false}"));
    assert_non_null(strstr(request.engine.inputs.tools.bytes, "\"x\":0.1"));
    struct engine_request one;
    ask_of_prompt(&request, 0, &one);
    assert_true(one.inputs.tools.length > 0);
    ask_deinit(&request);
}

/* Texts may have any character in them, names may not have a NUL. */
static void test_nul(void **state)
{
    (void)state;
    struct ask request;
    struct engine_request one;
    assert_int_equal(
        parse(&request, ASK_CHAT,
              "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\\u0000b\"},"
              "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\u0000\"},"
              "{\"type\":\"text\",\"text\":\"c\"}]}],\"stop\":\"x\\u0000\"}"),
        STATUS_OK);
    assert_true(slice_equals(request.engine.messages[0].content, SLICE("a\0b")));
    assert_non_null(strstr(request.engine.messages[1].json.bytes, "\"text\":\"\\u0000\"}"));
    assert_true(slice_equals(request.engine.stop[0], SLICE("x\0")));
    ask_deinit(&request);
    assert_int_equal(parse(&request, ASK_TEXT, "{\"model\":\"m\",\"prompt\":[\"\\u0000\"]}"),
                     STATUS_OK);
    ask_of_prompt(&request, 0, &one);
    assert_true(slice_equals(one.text, SLICE("\0")));
    ask_deinit(&request);
    static const struct {
        const char *more;
        const char *param;
    } names[] = {
        {",\"user\":\"u\\u0000\"", "user"},
        {",\"metadata\":{\"a\":\"\\u0000\"}", "metadata.a"},
        {",\"prompt_cache_key\":\"\\u0000\"", "prompt_cache_key"},
        {",\"safety_identifier\":\"\\u0000\"", "safety_identifier"},
        {",\"service_tier\":\"flex\\u0000\"", "service_tier"},
        {",\"response_format\":{\"type\":\"text\\u0000\"}", "response_format.type"},
        {",\"modalities\":[\"text\\u0000\"]", "modalities"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(parse_with(&request, ASK_CHAT, names[i].more), STATUS_INVALID);
        assert_string_equal(status_note()->param, names[i].param);
        assert_non_null(strstr(status_note()->message, "NUL character (\\u0000)"));
    }
    static const struct {
        const char *body;
        const char *param;
    } bodies[] = {
        {"{\"model\":\"m\\u0000\",\"messages\":[]}", "model"},
        {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\\u0000\",\"content\":\"\"}]}",
         "messages[0].role"},
        {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":"
         "[{\"type\":\"text\\u0000\",\"text\":\"\"}]}]}",
         "messages[0].content[0].type"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        assert_int_equal(parse(&request, ASK_CHAT, bodies[i].body), STATUS_INVALID);
        assert_string_equal(status_note()->param, bodies[i].param);
    }
}

/* A list of so many prompts of one token, the number of the prompt. */
static enum status parse_list(struct ask *request, int prompts, int n)
{
    char body[1024] = "{\"model\":\"m\",\"prompt\":[";
    size_t length = strlen(body);
    for (int i = 0; i < prompts; i++)
        length +=
            (size_t)snprintf(body + length, sizeof body - length, "%s[%d]", i > 0 ? "," : "", i);
    snprintf(body + length, sizeof body - length, "],\"n\":%d}", n);
    return parse(request, ASK_TEXT, body);
}

/* What clients send that means nothing, or the least of something. */
static void test_empty_things(void **state)
{
    (void)state;
    struct ask request;
    assert_int_equal(
        parse(&request, ASK_CHAT,
              "{\"model\":\"m\",\"tools\":[],\"functions\":[],\"top_p\":0,\"messages\":["
              "{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[]},"
              "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[],\"refusal\":null,"
              "\"annotations\":[],\"audio\":null,\"function_call\":null},"
              "{\"role\":\"assistant\",\"tool_calls\":null},{\"role\":\"assistant\"}]}"),
        STATUS_OK);
    assert_int_equal(request.engine.message_count, 4);
    for (int i = 1; i < 4; i++)
        assert_true(slice_is(request.engine.messages[i].content, ""));
    assert_true(request.engine.sampling.top_p > 0 && request.engine.sampling.top_p <= 1e-6f);
    ask_deinit(&request);
    assert_int_equal(parse(&request, ASK_TEXT,
                           "{\"model\":\"m\",\"prompt\":\"x\",\"max_tokens\":0,\"echo\":true}"),
                     STATUS_OK);
    assert_true(request.engine.is_scored);
    ask_deinit(&request);
}

static void test_prompts(void **state)
{
    (void)state;
    struct ask request;
    struct engine_request one;
    assert_int_equal(parse(&request, ASK_TEXT, "{\"model\":\"m\",\"prompt\":[1,99]}"), STATUS_OK);
    assert_int_equal(request.prompt_count, 1);
    ask_of_prompt(&request, 0, &one);
    assert_int_equal(one.prompt_kind, ENGINE_PROMPT_TOKENS);
    assert_int_equal(one.token_count, 2);
    assert_int_equal(one.tokens[1], 99);
    ask_deinit(&request);
    assert_int_equal(parse(&request, ASK_TEXT, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"]}"),
                     STATUS_OK);
    assert_int_equal(request.prompt_count, 2);
    ask_of_prompt(&request, 1, &one);
    assert_true(slice_is(one.text, "b"));
    ask_deinit(&request);
    assert_int_equal(parse(&request, ASK_TEXT, "{\"model\":\"m\",\"prompt\":[[1],[2,3]],\"n\":8}"),
                     STATUS_OK);
    assert_int_equal(request.prompt_count * request.engine.choices, 2 * LIMIT_CHOICES);
    ask_deinit(&request);
    assert_int_equal(parse_list(&request, LIMIT_ANSWERS, 1), STATUS_OK);
    assert_int_equal(request.prompt_count, LIMIT_ANSWERS);
    ask_of_prompt(&request, LIMIT_ANSWERS - 1, &one);
    assert_int_equal(one.tokens[0], LIMIT_ANSWERS - 1);
    ask_deinit(&request);
    assert_int_equal(parse_list(&request, LIMIT_ANSWERS + 1, 1), STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "prompt");
    assert_int_equal(parse_list(&request, LIMIT_ANSWERS / 2, 2), STATUS_OK);
    ask_deinit(&request);
    assert_int_equal(parse_list(&request, LIMIT_ANSWERS / 2 + 1, 2), STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "n");
}

static const struct wrong {
    enum ask_dialect dialect;
    const char *fields;
    enum status status;
    const char *param;
} wrongs[] = {
    {ASK_CHAT, ",\"max_tokens\":-1", STATUS_OUT_OF_RANGE, "max_tokens"},
    {ASK_CHAT, ",\"max_tokens\":0", STATUS_OUT_OF_RANGE, "max_tokens"},
    {ASK_CHAT, ",\"max_tokens\":1,\"max_completion_tokens\":1", STATUS_INVALID, "max_tokens"},
    {ASK_CHAT, ",\"temperature\":2.01", STATUS_OUT_OF_RANGE, "temperature"},
    {ASK_CHAT, ",\"temperature\":-0.01", STATUS_OUT_OF_RANGE, "temperature"},
    {ASK_CHAT, ",\"temperature\":\"x\"", STATUS_INVALID, "temperature"},
    {ASK_CHAT, ",\"top_p\":-0.1", STATUS_OUT_OF_RANGE, "top_p"},
    {ASK_CHAT, ",\"tools\":[{}]", STATUS_INVALID, "tools[0].function"},
    {ASK_CHAT, ",\"tools\":[7]", STATUS_INVALID, "tools[0]"},
    {ASK_CHAT, ",\"tools\":[{\"function\":{}}]", STATUS_INVALID, "tools[0].function.name"},
    {ASK_CHAT, ",\"tools\":{}", STATUS_INVALID, "tools"},
    {ASK_CHAT, ",\"documents\":[1]", STATUS_INVALID, "documents[0]"},
    {ASK_CHAT, ",\"chat_template_kwargs\":[]", STATUS_INVALID, "chat_template_kwargs"},
    {ASK_CHAT, ",\"chat_template_kwargs\":{\"messages\":[]}", STATUS_INVALID,
     "chat_template_kwargs.messages"},
    {ASK_CHAT, ",\"chat_template_kwargs\":{\"raise_exception\":1}", STATUS_INVALID,
     "chat_template_kwargs.raise_exception"},
    {ASK_CHAT, ",\"functions\":[{}]", STATUS_UNSUPPORTED, "functions"},
    {ASK_TEXT, ",\"max_tokens\":0", STATUS_OUT_OF_RANGE, "max_tokens"},
    {ASK_TEXT, ",\"max_tokens\":0,\"echo\":false", STATUS_OUT_OF_RANGE, "max_tokens"},
    {ASK_TEXT, ",\"max_tokens\":-1,\"echo\":true", STATUS_OUT_OF_RANGE, "max_tokens"},
    {ASK_CHAT, ",\"top_p\":1.01", STATUS_OUT_OF_RANGE, "top_p"},
    {ASK_CHAT, ",\"top_k\":-2", STATUS_OUT_OF_RANGE, "top_k"},
    {ASK_CHAT, ",\"min_p\":1.01", STATUS_OUT_OF_RANGE, "min_p"},
    {ASK_CHAT, ",\"n\":0", STATUS_OUT_OF_RANGE, "n"},
    {ASK_CHAT, ",\"n\":9", STATUS_OUT_OF_RANGE, "n"},
    {ASK_CHAT, ",\"seed\":1.5", STATUS_INVALID, "seed"},
    {ASK_CHAT, ",\"presence_penalty\":2.01", STATUS_OUT_OF_RANGE, "presence_penalty"},
    {ASK_CHAT, ",\"frequency_penalty\":-2.01", STATUS_OUT_OF_RANGE, "frequency_penalty"},
    {ASK_CHAT, ",\"repetition_penalty\":0", STATUS_OUT_OF_RANGE, "repetition_penalty"},
    {ASK_TEXT, ",\"repetition_penalty\":2.01", STATUS_OUT_OF_RANGE, "repetition_penalty"},
    {ASK_CHAT, ",\"repetition_penalty\":\"1\"", STATUS_INVALID, "repetition_penalty"},
    {ASK_CHAT, ",\"min_tokens\":-1", STATUS_OUT_OF_RANGE, "min_tokens"},
    {ASK_CHAT, ",\"max_tokens\":5,\"min_tokens\":6", STATUS_OUT_OF_RANGE, "min_tokens"},
    {ASK_GENERATE, ",\"min_tokens\":17", STATUS_OUT_OF_RANGE, "min_tokens"},
    {ASK_TEXT, ",\"echo\":true,\"max_tokens\":0,\"min_tokens\":1", STATUS_OUT_OF_RANGE,
     "min_tokens"},
    {ASK_CHAT, ",\"thinking_token_budget\":-1", STATUS_OUT_OF_RANGE, "thinking_token_budget"},
    {ASK_CHAT, ",\"thinking_token_budget\":1.5", STATUS_INVALID, "thinking_token_budget"},
    {ASK_CHAT, ",\"logit_bias\":{\"100\":1}", STATUS_OUT_OF_RANGE, "logit_bias"},
    {ASK_CHAT, ",\"logit_bias\":{\"-1\":1}", STATUS_OUT_OF_RANGE, "logit_bias"},
    {ASK_CHAT, ",\"logit_bias\":{\"5\":1,\"05\":1}", STATUS_OUT_OF_RANGE, "logit_bias"},
    {ASK_CHAT, ",\"logit_bias\":{\"00\":1}", STATUS_OUT_OF_RANGE, "logit_bias"},
    {ASK_CHAT, ",\"response_format\":{\"type\":\"text\",\"x\":1}", STATUS_UNSUPPORTED,
     "response_format.x"},
    {ASK_CHAT, ",\"logit_bias\":{\"1x\":1}", STATUS_OUT_OF_RANGE, "logit_bias"},
    {ASK_CHAT, ",\"logit_bias\":{\"1\":101}", STATUS_OUT_OF_RANGE, "logit_bias.1"},
    {ASK_CHAT, ",\"logit_bias\":[]", STATUS_INVALID, "logit_bias"},
    {ASK_CHAT, ",\"stop\":\"\"", STATUS_OUT_OF_RANGE, "stop"},
    {ASK_CHAT, ",\"stop\":[\"a\",7]", STATUS_INVALID, "stop[1]"},
    {ASK_CHAT, ",\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]", STATUS_OUT_OF_RANGE, "stop"},
    {ASK_CHAT, ",\"logprobs\":3", STATUS_INVALID, "logprobs"},
    {ASK_CHAT, ",\"user\":7", STATUS_INVALID, "user"},
    {ASK_TEXT, ",\"safety_identifier\":{}", STATUS_INVALID, "safety_identifier"},
    {ASK_CHAT, ",\"metadata\":\"x\"", STATUS_INVALID, "metadata"},
    {ASK_CHAT, ",\"metadata\":{\"a\":1}", STATUS_INVALID, "metadata.a"},
    {ASK_CHAT, ",\"top_logprobs\":1", STATUS_INVALID, "top_logprobs"},
    {ASK_CHAT, ",\"logprobs\":true,\"top_logprobs\":21", STATUS_OUT_OF_RANGE, "top_logprobs"},
    {ASK_CHAT, ",\"stream\":1", STATUS_INVALID, "stream"},
    {ASK_CHAT, ",\"stream_options\":{}", STATUS_INVALID, "stream_options"},
    {ASK_CHAT, ",\"stream\":true,\"stream_options\":{\"x\":true}", STATUS_UNSUPPORTED,
     "stream_options.x"},
    {ASK_CHAT, ",\"response_format\":{\"type\":\"json_schema\"}", STATUS_INVALID,
     "response_format.json_schema"},
    {ASK_CHAT, ",\"response_format\":{\"type\":\"xml\"}", STATUS_UNSUPPORTED,
     "response_format.type"},
    {ASK_CHAT, ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":7}}",
     STATUS_INVALID, "response_format.json_schema.schema"},
    {ASK_TEXT, ",\"guided_regex\":\"\"", STATUS_INVALID, "guided_regex"},
    {ASK_TEXT, ",\"guided_choice\":[]", STATUS_INVALID, "guided_choice"},
    {ASK_TEXT, ",\"guided_choice\":[\"a\",1]", STATUS_INVALID, "guided_choice[1]"},
    {ASK_CHAT, ",\"guided_regex\":\"a\",\"guided_json\":{}", STATUS_INVALID, "guided_json"},
    {ASK_CHAT, ",\"structured_outputs\":{}", STATUS_INVALID, "structured_outputs"},
    {ASK_CHAT, ",\"structured_outputs\":{\"json_object\":1}", STATUS_INVALID,
     "structured_outputs.json_object"},
    {ASK_GENERATE, ",\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}", STATUS_INVALID,
     "structured_outputs.choice"},
    {ASK_CHAT, ",\"modalities\":[\"audio\"]", STATUS_UNSUPPORTED, "modalities"},
    {ASK_CHAT, ",\"service_tier\":\"scales\"", STATUS_UNSUPPORTED, "service_tier"},
    {ASK_GENERATE, ",\"service_tier\":1", STATUS_INVALID, "service_tier"},
    {ASK_CHAT, ",\"store\":true", STATUS_UNSUPPORTED, "store"},
    {ASK_CHAT, ",\"priority\":-1", STATUS_OUT_OF_RANGE, "priority"},
    {ASK_TEXT, ",\"priority\":1.5", STATUS_INVALID, "priority"},
    {ASK_CHAT, ",\"echo\":true", STATUS_UNSUPPORTED, "echo"},
    {ASK_CHAT, ",\"prompt\":\"x\"", STATUS_UNSUPPORTED, "prompt"},
    {ASK_TEXT, ",\"messages\":[]", STATUS_UNSUPPORTED, "messages"},
    {ASK_TEXT, ",\"suffix\":\"x\"", STATUS_UNSUPPORTED, "suffix"},
    {ASK_TEXT, ",\"best_of\":2", STATUS_UNSUPPORTED, "best_of"},
    {ASK_TEXT, ",\"logprobs\":21", STATUS_OUT_OF_RANGE, "logprobs"},
    {ASK_TEXT, ",\"logprobs\":true", STATUS_INVALID, "logprobs"},
};

static void test_classes(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        enum service_class service_class;
    } rows[] = {
        {"", SERVICE_CLASS_STANDARD},
        {",\"service_tier\":null,\"priority\":null", SERVICE_CLASS_STANDARD},
        {",\"service_tier\":\"auto\"", SERVICE_CLASS_STANDARD},
        {",\"service_tier\":\"default\"", SERVICE_CLASS_STANDARD},
        {",\"service_tier\":\"priority\"", SERVICE_CLASS_REALTIME},
        {",\"service_tier\":\"flex\"", SERVICE_CLASS_BATCH},
        {",\"priority\":1,\"service_tier\":\"priority\"", SERVICE_CLASS_STANDARD},
        {",\"priority\":7", SERVICE_CLASS_BATCH},
    };
    static const enum ask_dialect all[] = {ASK_CHAT, ASK_TEXT, ASK_GENERATE};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t kind = 0; kind < 3; kind++) {
            struct ask request;
            assert_int_equal(parse_with(&request, all[kind], rows[i].fields), STATUS_OK);
            assert_int_equal(request.engine.service_class, rows[i].service_class);
            ask_deinit(&request);
        }
    }
}

static void test_wrong_fields_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        struct ask request;
        enum status status = parse_with(&request, wrongs[i].dialect, wrongs[i].fields);
        if (status != wrongs[i].status || strcmp(status_note()->param, wrongs[i].param) != 0)
            fail_msg("%s: %s, param '%s'", wrongs[i].fields, status_name(status),
                     status_note()->param);
        assert_true(strlen(status_note()->message) > 15);
    }
}

static const struct wrong wrong_bodies[] = {
    {ASK_CHAT, "{\"messages\":[]}", STATUS_INVALID, "model"},
    {ASK_CHAT, "{\"model\":\"x\"}", STATUS_MODEL_NOT_FOUND, "model"},
    {ASK_CHAT, "{\"model\":7}", STATUS_INVALID, "model"},
    {ASK_CHAT, "{\"model\":\"m\"}", STATUS_INVALID, "messages"},
    {ASK_CHAT, "{\"model\":\"m\",\"messages\":[]}", STATUS_INVALID, "messages"},
    {ASK_CHAT, "{\"model\":\"m\",\"messages\":[7]}", STATUS_INVALID, "messages[0]"},
    {ASK_CHAT, "{\"model\":\"m\",\"messages\":[{\"content\":\"x\"}]}", STATUS_INVALID,
     "messages[0].role"},
    {ASK_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"critic\",\"content\":\"x\"}]}",
     STATUS_UNSUPPORTED, "messages[0].role"},
    {ASK_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":7}]}", STATUS_INVALID,
     "messages[0].content"},
    {ASK_CHAT,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
     STATUS_UNSUPPORTED, "messages[0].content[0].type"},
    {ASK_CHAT,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
     "\"text\":\"x\",\"cache_control\":{}}]}]}",
     STATUS_UNSUPPORTED, "messages[0].content[0].cache_control"},
    {ASK_CHAT,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[{}]}]}",
     STATUS_INVALID, "messages[0].tool_calls[0].function"},
    {ASK_CHAT,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":{}}]}",
     STATUS_INVALID, "messages[0].tool_calls"},
    {ASK_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":null}]}",
     STATUS_INVALID, "messages[0].content"},
    {ASK_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\"}]}", STATUS_INVALID,
     "messages[0].content"},
    {ASK_TEXT, "{\"model\":\"m\"}", STATUS_INVALID, "prompt"},
    {ASK_TEXT, "{\"model\":\"m\",\"prompt\":\"\"}", STATUS_INVALID, "prompt"},
    {ASK_TEXT, "{\"model\":\"m\",\"prompt\":[]}", STATUS_INVALID, "prompt"},
    {ASK_TEXT, "{\"model\":\"m\",\"prompt\":[100]}", STATUS_OUT_OF_RANGE, "prompt[0]"},
    {ASK_TEXT, "{\"model\":\"m\",\"prompt\":[1,-1]}", STATUS_OUT_OF_RANGE, "prompt[1]"},
    {ASK_TEXT, "{\"model\":\"m\",\"prompt\":[1,\"a\"]}", STATUS_INVALID, "prompt[1]"},
    {ASK_TEXT, "{\"model\":\"m\",\"prompt\":[\"a\",1]}", STATUS_INVALID, "prompt[1]"},
    {ASK_TEXT, "{\"model\":\"m\",\"prompt\":[[1],\"a\"]}", STATUS_INVALID, "prompt[1]"},
    {ASK_TEXT, "{\"model\":\"m\",\"prompt\":[[]]}", STATUS_INVALID, "prompt[0]"},
    {ASK_TEXT, "{\"model\":\"m\",\"prompt\":{}}", STATUS_INVALID, "prompt"},
};

static void test_wrong_bodies_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_bodies / sizeof wrong_bodies[0]; i++) {
        const struct wrong *wrong = &wrong_bodies[i];
        struct ask request;
        enum status status = parse(&request, wrong->dialect, wrong->fields);
        if (status != wrong->status || strcmp(status_note()->param, wrong->param) != 0)
            fail_msg("%s: %s, param '%s'", wrong->fields, status_name(status),
                     status_note()->param);
    }
}

/* /v1/generate: one text, few settings, no model needed; everything else is refused by name. */
static void test_generate(void **state)
{
    (void)state;
    struct ask request;
    assert_int_equal(parse(&request, ASK_GENERATE,
                           "{\"prompt\":\"Hi\",\"max_tokens\":5,\"temperature\":0,\"seed\":7,"
                           "\"top_p\":0.5,\"stop\":\"x\",\"stream\":true}"),
                     STATUS_OK);
    assert_int_equal(request.prompt_count, 1);
    assert_int_equal(request.engine.tokens_max, 5);
    assert_int_equal(request.engine.stop_count, 1);
    assert_true(request.is_stream);
    ask_deinit(&request);
    static const struct {
        const char *body;
        enum status status;
        const char *param;
    } rows[] = {
        {"{\"prompt\":\"Hi\"}", STATUS_OK, NULL},
        {"{\"prompt\":\"Hi\",\"model\":null}", STATUS_OK, NULL},
        {"{\"prompt\":\"Hi\",\"model\":\"m\"}", STATUS_OK, NULL},
        {"{\"prompt\":\"Hi\",\"model\":\"x\"}", STATUS_MODEL_NOT_FOUND, "model"},
        {"{\"prompt\":\"Hi\",\"model\":7}", STATUS_INVALID, "model"},
        {"{}", STATUS_INVALID, "prompt"},
        {"{\"prompt\":null}", STATUS_INVALID, "prompt"},
        {"{\"prompt\":\"\"}", STATUS_INVALID, "prompt"},
        {"{\"prompt\":[1]}", STATUS_INVALID, "prompt"},
        {"{\"prompt\":[\"Hi\"]}", STATUS_INVALID, "prompt"},
        {"{\"prompt\":\"Hi\",\"n\":1}", STATUS_UNSUPPORTED, "n"},
        {"{\"prompt\":\"Hi\",\"echo\":true}", STATUS_UNSUPPORTED, "echo"},
        {"{\"prompt\":\"Hi\",\"messages\":[]}", STATUS_UNSUPPORTED, "messages"},
        {"{\"prompt\":\"Hi\",\"stream_options\":{}}", STATUS_UNSUPPORTED, "stream_options"},
        {"{\"prompt\":\"Hi\",\"user\":\"u\"}", STATUS_UNSUPPORTED, "user"},
        {"[]", STATUS_INVALID, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum status status = parse(&request, ASK_GENERATE, rows[i].body);
        if (status != rows[i].status)
            fail_msg("%s: %s", rows[i].body, status_name(status));
        if (status == STATUS_OK) {
            assert_int_equal(request.engine.tokens_max, 16);
            ask_deinit(&request);
        } else if (rows[i].param != NULL) {
            assert_string_equal(status_note()->param, rows[i].param);
        }
    }
}

static enum status parse_embed(struct ask *request, uint32_t width, const char *body)
{
    const struct ask_model model = {
        .name = "m", .vocab = VOCAB, .pooling = ENGINE_POOLING_MEAN, .width = width};
    return ask_parse(request, ASK_EMBED, slice_of(body), &model);
}

static void test_embeddings(void **state)
{
    (void)state;
    struct ask request;
    struct engine_request one;
    assert_int_equal(parse_embed(&request, 8,
                                 "{\"model\":\"m\",\"input\":[\"Hi\",\"you\"],\"user\":\"u\","
                                 "\"encoding_format\":\"base64\",\"service_tier\":\"flex\"}"),
                     STATUS_OK);
    assert_int_equal(request.prompt_count, 2);
    assert_true(request.is_list && request.is_base64 && !request.is_stream);
    ask_of_prompt(&request, 1, &one);
    assert_int_equal(one.pooling, ENGINE_POOLING_MEAN);
    assert_int_equal(one.prompt_kind, ENGINE_PROMPT_TEXT);
    assert_true(slice_is(one.text, "you"));
    assert_int_equal(one.service_class, SERVICE_CLASS_BATCH);
    ask_deinit(&request);
    assert_int_equal(parse_embed(&request, 8, "{\"model\":\"m\",\"input\":[1,2,99]}"), STATUS_OK);
    assert_false(request.is_list || request.is_base64);
    ask_of_prompt(&request, 0, &one);
    assert_int_equal(one.token_count, 3);
    ask_deinit(&request);
    /* 2^22 numbers in all */
    assert_int_equal(parse_embed(&request, 1 << 21, "{\"model\":\"m\",\"input\":[\"a\",\"b\"]}"),
                     STATUS_OK);
    ask_deinit(&request);
    assert_int_equal(
        parse_embed(&request, 1 << 21, "{\"model\":\"m\",\"input\":[\"a\",\"b\",\"c\"]}"),
        STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "input");
    /* a model that gives none */
    assert_int_equal(parse(&request, ASK_EMBED, "{\"model\":\"m\",\"input\":\"Hi\"}"),
                     STATUS_UNSUPPORTED);
    assert_string_equal(status_note()->param, "model");
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void test_no_memory_at_any_point(void **state)
{
    (void)state;
    const char *body = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
                       "\"text\",\"text\":\"a\"}]}]}";
    bool is_through = false;
    for (int n = 0; !is_through && n < 100; n++) {
        int left = n;
        struct ask request;
        mem_hook_set(fail_at, &left);
        enum status status = parse(&request, ASK_CHAT, body);
        mem_hook_set(NULL, NULL);
        is_through = status == STATUS_OK;
        if (is_through)
            ask_deinit(&request);
        else
            assert_int_equal(status, STATUS_NO_MEMORY);
    }
    assert_true(is_through);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_honoured_field),

        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_inputs_of_the_template),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_empty_things),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_generate),
        cmocka_unit_test(test_wrong_fields_are_named),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_wrong_bodies_are_named),
        cmocka_unit_test(test_no_memory_at_any_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
