#include "gateway/adapter/adapter_body.h"

#include "tests/unit/http_kit.h"

static struct engine_request plain(void)
{
    static const struct engine_message messages[] = {
        {.role = {"system", 6}, .content = {"Be \"brief\".", 11}},
        {.role = {"user", 4}, .json = {"{\"role\":\"user\",\"content\":[1]}", 29}}};
    return (struct engine_request){.prompt_kind = ENGINE_PROMPT_CHAT,
                                   .messages = messages,
                                   .message_count = 2,
                                   .choices = 2,
                                   .sampling = {.temperature = 1, .top_p = 1, .seed = 41}};
}

static json_t *written(const char *kind, const struct engine_request *request, uint32_t choice)
{
    struct buffer out;
    buffer_init(&out, 1 << 20);
    assert_int_equal(adapter_body_check(adapter_kind_named(kind), request, false), STATUS_OK);
    adapter_body_write(adapter_kind_named(kind), request, choice, "m\"x", &out);
    assert_int_equal(out.status, STATUS_OK);
    json_t *body = json_loadb(out.bytes, out.length, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(body);
    buffer_deinit(&out);
    return body;
}

static void assert_member(const json_t *body, const char *name, const char *want)
{
    char *text = json_dumps(json_object_get(body, name), JSON_COMPACT | JSON_ENCODE_ANY);
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

static void test_a_chat(void **state)
{
    (void)state;
    struct engine_request request = plain();
    for (uint32_t choice = 0; choice < 2; choice++) {
        json_t *body = written("llama", &request, choice);
        assert_member(body, "model", "\"m\\\"x\"");
        assert_member(body, "messages",
                      "[{\"role\":\"system\",\"content\":\"Be \\\"brief\\\".\"},"
                      "{\"role\":\"user\",\"content\":[1]}]");
        assert_member(body, "seed", choice == 0 ? "41" : "42"); /* choices are not twins */
        assert_member(body, "temperature", "1"); /* no default of the server applies */
        assert_member(body, "top_k", "0");
        assert_member(body, "min_p", "0");
        assert_member(body, "cache_prompt", "false");
        assert_member(body, "stream", "true");
        assert_null(json_object_get(body, "n"));
        assert_null(json_object_get(body, "max_tokens"));
        assert_null(json_object_get(body, "tools"));
        json_decref(body);
    }
}

static void test_fields(void **state)
{
    (void)state;
    struct engine_request request = plain();
    request.tokens_max = 9;
    request.stop[0] = slice_of("\n");
    request.stop_count = 1;
    request.sampling.bias[0] = (struct engine_bias){7, -100};
    request.sampling.bias_count = 1;
    request.inputs.tools = slice_of("[{\"a\":1}]");
    request.inputs.tool_choice = slice_of("\"required\"");
    request.inputs.is_single_call = true;
    request.inputs.effort = slice_of("low");
    request.constraint = (struct engine_constraint){.is_set = true,
                                                    .kind = CONSTRAINT_JSON_SCHEMA,
                                                    .source = slice_of("{\"type\":\"object\"}")};
    json_t *body = written("openai", &request, 0);
    assert_member(body, "max_tokens", "9");
    assert_member(body, "stop", "[\"\\n\"]");
    assert_member(body, "logit_bias", "{\"7\":-100}");
    assert_member(body, "tools", "[{\"a\":1}]");
    assert_member(body, "tool_choice", "\"required\"");
    assert_member(body, "parallel_tool_calls", "false");
    assert_member(body, "reasoning_effort", "\"low\"");
    json_t *schema = json_object_get(json_object_get(body, "response_format"), "json_schema");
    assert_member(schema, "schema", "{\"type\":\"object\"}");
    json_decref(body);
    request.constraint.kind = CONSTRAINT_JSON_OBJECT;
    body = written("openai", &request, 0);
    assert_member(body, "response_format", "{\"type\":\"json_object\"}");
    json_decref(body);
    request.constraint = (struct engine_constraint){
        .is_set = true, .kind = CONSTRAINT_REGEX, .source = slice_of("a\"b")};
    body = written("vllm", &request, 0);
    assert_member(body, "structured_outputs", "{\"regex\":\"a\\\"b\"}");
    json_decref(body);
}

/* Chats and completions ask for log-probabilities in different words. */
static void test_log_probabilities(void **state)
{
    (void)state;
    struct engine_request request = plain();
    request.want_logprobs = request.wants_ids = request.shows_control = true;
    json_t *body = written("vllm", &request, 0);
    assert_member(body, "logprobs", "true");
    assert_member(body, "top_logprobs", "0");
    assert_member(body, "return_token_ids", "true");
    assert_member(body, "skip_special_tokens", "false");
    json_decref(body);
    request = plain();
    request.want_logprobs = true;
    body = written("llama", &request, 0);
    assert_member(body, "top_logprobs", "1"); /* with none it tells nothing at all */
    json_decref(body);
    request.prompt_kind = ENGINE_PROMPT_TEXT;
    request.top_logprobs = 4;
    body = written("llama", &request, 0);
    assert_member(body, "logprobs", "4");
    assert_null(json_object_get(body, "top_logprobs"));
    json_decref(body);
}

/* vLLM has them as we do; llama.cpp's penalty looks at the last tokens alone. */
static void test_vllms_knobs(void **state)
{
    (void)state;
    struct engine_request request = plain();
    json_t *body = written("vllm", &request, 0);
    assert_member(body, "repetition_penalty", "1"); /* no default of the server applies */
    assert_null(json_object_get(body, "min_tokens"));
    assert_null(json_object_get(body, "thinking_token_budget"));
    json_decref(body);
    request.sampling.repetition_penalty = 1.25f;
    request.tokens_min = 7;
    request.limits_reasoning = true;
    request.reasoning_max = 0;
    body = written("vllm", &request, 0);
    assert_member(body, "repetition_penalty", "1.25");
    assert_member(body, "min_tokens", "7");
    assert_member(body, "thinking_token_budget", "0");
    json_decref(body);
}

/* The salt is the domain's; a request without one shares with nobody. */
static void test_salts(void **state)
{
    (void)state;
    struct engine_request request = plain();
    memset(request.domain.bytes, 0xab, sizeof request.domain.bytes);
    json_t *body = written("vllm", &request, 0);
    assert_member(body, "cache_salt", "\"abababababababababababababababab\"");
    json_decref(body);
    request.domain = (struct engine_domain){0};
    json_t *one = written("vllm", &request, 0);
    json_t *other = written("vllm", &request, 0);
    const char *salt = json_string_value(json_object_get(one, "cache_salt"));
    assert_int_equal(strlen(salt), 32);
    assert_string_not_equal(salt, json_string_value(json_object_get(other, "cache_salt")));
    json_decref(one);
    json_decref(other);
    body = written("openai", &request, 0);
    assert_null(json_object_get(body, "cache_salt"));
    json_decref(body);
}

static void assert_refused(const char *kind, const struct engine_request *request,
                           const char *param)
{
    assert_int_equal(adapter_body_check(adapter_kind_named(kind), request, false),
                     STATUS_UNSUPPORTED);
    assert_string_equal(status_note()->param, param);
    assert_non_null(strstr(status_note()->message, param));
}

static void test_refusals(void **state)
{
    (void)state;
    struct engine_request request = plain();
    request.sampling.top_k = 5;
    assert_refused("openai", &request, "top_k");
    request = plain();
    request.shows_control = true;
    assert_refused("llama", &request, "skip_special_tokens");
    request = plain();
    request.wants_ids = true;
    assert_refused("llama", &request, "return_token_ids");
    request = plain();
    request.prompt_kind = ENGINE_PROMPT_TEXT;
    request.echo = request.is_scored = true;
    assert_refused("vllm", &request, "max_tokens");
    request = plain();
    request.sampling.repetition_penalty = 1.25f;
    assert_refused("llama", &request, "repetition_penalty");
    request = plain();
    request.tokens_min = 1;
    assert_refused("openai", &request, "min_tokens");
    request = plain();
    request.limits_reasoning = true;
    assert_refused("llama", &request, "thinking_token_budget");
    request = plain();
    request.prompt_kind = ENGINE_PROMPT_TEXT;
    request.echo = true;
    request.want_logprobs = true;
    assert_refused("vllm", &request, "logprobs");
    request = plain();
    request.constraint =
        (struct engine_constraint){.is_set = true, .kind = CONSTRAINT_LARK, .source = {"x", 1}};
    assert_refused("llama", &request, "structured_outputs");
    request = plain();
    request.shows_stop = true;
    assert_refused("llama", &request, "include_stop_str_in_output");
    request = plain();
    request.prompt_kind = ENGINE_PROMPT_TOKENS;
    assert_refused("vllm", &request, "prompt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_chat),
                                       cmocka_unit_test(test_fields),
                                       cmocka_unit_test(test_log_probabilities),
                                       cmocka_unit_test(test_vllms_knobs),
                                       cmocka_unit_test(test_salts),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
