#include "gateway/engine_http/face_frame.h"

#include <math.h>

#include "tests/unit/face_kit.h"

static struct buffer out;

/* What tokens of a small model are: whole characters, or a part of one. */
static struct slice bytes_of(uint32_t token)
{
    switch (token) {
    case 504:
        return slice_of("The");
    case 3575:
        return slice_of(" capital");
    case 28120:
        return slice_of("hello");
    default:
        return slice_of("\xe5");
    }
}

static struct source_event token_event(uint32_t token, const char *text)
{
    struct source_event event = {.engine = {.kind = ENGINE_EVENT_TOKEN,
                                            .token = token,
                                            .logprob = -0.5f,
                                            .text = slice_of(text)},
                                 .has_id = true,
                                 .has_logprob = true,
                                 .bytes = bytes_of(token)};
    event.engine.top_count = 2;
    event.engine.top[0] = (struct engine_logprob){token, -0.5f};
    event.engine.top[1] = (struct engine_logprob){155, -INFINITY};
    event.top_bytes[0] = bytes_of(token);
    event.top_bytes[1] = bytes_of(155);
    return event;
}

static const char *write_frame(struct face_frame_choice *choice, const struct face_frame_head *head,
                               uint32_t n, enum engine_finish finish)
{
    buffer_clear(&out);
    face_frame_write(choice, head, n, finish, &out);
    json_t *json = json_loads(out.bytes, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    json_decref(json);
    return out.bytes;
}

static void test_chat(void **state)
{
    (void)state;
    const struct face_frame_head head = {
        .dialect = ASK_CHAT, .id = "chatcmpl-1", .model = "m\"x", .tier = "flex", .created_s = 9};
    struct face_frame_choice choice;
    face_frame_choice_init(&choice, 1);
    buffer_clear(&out);
    face_frame_write_role(&choice, &head, &out);
    assert_string_equal(out.bytes,
                        "{\"n\":0,\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
                        "\"created\":9,\"service_tier\":\"flex\",\"model\":\"m\\\"x\",\"choices\":["
                        "{\"index\":1,\"delta\":"
                        "{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                        "\"finish_reason\":null}]}");
    struct source_event event = token_event(504, "The");
    assert_false(face_frame_is_due(&choice, &head));
    face_frame_add(&choice, &head, &event);
    assert_true(face_frame_is_due(&choice, &head));
    assert_string_equal(write_frame(&choice, &head, 3, ENGINE_FINISH_NONE),
                        "{\"n\":3,\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
                        "\"created\":9,\"service_tier\":\"flex\",\"model\":\"m\\\"x\",\"choices\":["
                        "{\"index\":1,\"delta\":"
                        "{\"content\":\"The\"},\"logprobs\":null,\"finish_reason\":null}]}");
    assert_false(face_frame_is_due(&choice, &head));
    assert_non_null(strstr(write_frame(&choice, &head, 3, ENGINE_FINISH_STOP),
                           "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}"));
    face_frame_choice_deinit(&choice);
}

/* Text of a call, in the pieces that tokens have. */
static void add_texts(struct face_frame_choice *choice, const struct face_frame_head *head,
                      const char *const *texts)
{
    for (; *texts != NULL; texts++) {
        struct source_event event = token_event(504, *texts);
        face_frame_add(choice, head, &event);
    }
}

static void test_calls(void **state)
{
    (void)state;
    struct answer_model answer = {.format = answer_format_named("hermes"), .has_reasoning = true};
    for (size_t i = 0; i < ANSWER_MARKS; i++)
        answer.tokens[i] = VOCAB_NONE;
    const struct face_frame_head head = {.dialect = ASK_CHAT,
                                         .id = "chatcmpl-1",
                                         .model = "m",
                                         .tier = "flex",
                                         .answer = &answer,
                                         .has_calls = true};
    static const char *const first[] = {"<think>", "hm", "</think>", "\n", "Yes", " <tool", NULL};
    static const char *const second[] = {"_call>{\"name\":\"f\",", "\"arguments\":{\"q\"", NULL};
    static const char *const third[] = {":\"x\\\"\"}}</tool_call>", NULL};
    struct face_frame_choice choice;
    face_frame_choice_init(&choice, 0);
    assert_int_equal(face_frame_choice_split(&choice, &head, false), STATUS_OK);
    add_texts(&choice, &head, first);
    assert_int_equal(choice.reasoning_tokens, 3);
    assert_non_null(strstr(write_frame(&choice, &head, 6, ENGINE_FINISH_NONE),
                           "\"delta\":{\"reasoning_content\":\"hm\",\"content\":\"Yes \"},"));
    add_texts(&choice, &head, second);
    const char *frame = write_frame(&choice, &head, 8, ENGINE_FINISH_NONE);
    const char *id = strstr(frame, "\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_");
    assert_non_null(id);
    assert_non_null(strstr(id, "\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                               "\"arguments\":\"{\\\"q\\\"\"}}]},"));
    add_texts(&choice, &head, third);
    assert_non_null(strstr(write_frame(&choice, &head, 9, ENGINE_FINISH_NONE),
                           "\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
                           "\":\\\"x\\\\\\\"\\\"}\"}}]},"));
    struct source_event end = {.engine = {.kind = ENGINE_EVENT_CHOICE_END}};
    face_frame_add(&choice, &head, &end);
    assert_false(face_frame_is_due(&choice, &head));
    assert_non_null(strstr(write_frame(&choice, &head, 9, ENGINE_FINISH_STOP),
                           "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"tool_calls\""));
    assert_non_null(strstr(write_frame(&choice, &head, 9, ENGINE_FINISH_LENGTH),
                           "\"finish_reason\":\"length\""));
    face_frame_choice_deinit(&choice);
}

static void test_chat_logprobs(void **state)
{
    (void)state;
    const struct face_frame_head head = {.dialect = ASK_CHAT,
                                         .id = "c",
                                         .model = "m",
                                         .tier = "default",
                                         .want_logprobs = true,
                                         .want_token_ids = true};
    struct face_frame_choice choice;
    face_frame_choice_init(&choice, 0);
    struct source_event event = token_event(504, "");
    face_frame_add(&choice, &head, &event);
    assert_true(face_frame_is_due(&choice, &head)); /* held-back text, but a token to report */
    assert_non_null(
        strstr(write_frame(&choice, &head, 1, ENGINE_FINISH_NONE),
               "\"logprobs\":{\"content\":[{\"token\":\"The\",\"logprob\":-0.5,\"bytes\":"
               "[84,104,101],\"top_logprobs\":[{\"token\":\"The\",\"logprob\":-0.5,\"bytes\":"
               "[84,104,101]},{\"token\":\"bytes:\\\\x"));
    assert_non_null(strstr(out.bytes, "\"logprob\":-9999,"));
    assert_non_null(strstr(out.bytes, "\"token_ids\":[504]"));
    face_frame_choice_deinit(&choice);
}

static void event_is_told(struct face_frame_choice *choice, const struct face_frame_head *head,
                          uint32_t top_count, const char *want)
{
    struct source_event event = token_event(504, "The");
    event.engine.top_count = top_count;
    if (top_count == 1) {
        event.engine.top[0] = (struct engine_logprob){28120, -0.25f};
        event.top_bytes[0] = bytes_of(28120);
    }
    face_frame_add(choice, head, &event);
    assert_non_null(strstr(write_frame(choice, head, 1, ENGINE_FINISH_NONE), want));
}

static void test_text_with_an_echoed_prompt(void **state)
{
    (void)state;
    const struct face_frame_head head = {.dialect = ASK_TEXT,
                                         .id = "cmpl-1",
                                         .model = "m",
                                         .tier = "default",
                                         .want_logprobs = true};
    struct face_frame_choice choice;
    face_frame_choice_init(&choice, 0);
    struct source_event prompt = token_event(504, "The");
    prompt.engine.kind = ENGINE_EVENT_PROMPT;
    face_frame_add(&choice, &head, &prompt);
    struct source_event second = token_event(3575, " capital");
    second.engine.kind = ENGINE_EVENT_PROMPT;
    second.engine.text_offset = 3;
    face_frame_add(&choice, &head, &second);
    struct source_event made = token_event(28120, "hello");
    face_frame_add(&choice, &head, &made);
    made.engine.text_offset = 5; /* the answer's begin behind the echo */
    made.engine.text = slice_of("");
    face_frame_add(&choice, &head, &made);
    write_frame(&choice, &head, 1, ENGINE_FINISH_NONE);
    assert_non_null(strstr(out.bytes, "\"object\":\"text_completion\""));
    assert_non_null(strstr(out.bytes, "\"text\":\"The capitalhello\""));
    assert_non_null(strstr(out.bytes, "\"tokens\":[\"The\",\" capital\",\"hello\",\"hello\"]"));
    assert_non_null(strstr(out.bytes, "\"token_logprobs\":[null,-0.5,-0.5,-0.5]"));
    assert_non_null(strstr(out.bytes, "\"top_logprobs\":[null,{"));
    assert_non_null(strstr(out.bytes, "\"text_offset\":[0,3,11,16]"));
    /* The token itself is there, of the most likely or not. */
    event_is_told(&choice, &head, 2, "\"top_logprobs\":[{\"The\":-0.5,\"bytes:\\\\x");
    event_is_told(&choice, &head, 0, "\"top_logprobs\":[{\"The\":-0.5}]");
    event_is_told(&choice, &head, 1, "\"top_logprobs\":[{\"hello\":-0.25,\"The\":-0.5}]");
    face_frame_choice_deinit(&choice);
}

static void test_generation(void **state)
{
    (void)state;
    const struct face_frame_head head = {
        .dialect = ASK_GENERATE, .id = "gen-1", .model = "m", .tier = "default", .created_s = 9};
    struct face_frame_choice choice;
    face_frame_choice_init(&choice, 0);
    struct source_event event = token_event(504, "The");
    face_frame_add(&choice, &head, &event);
    assert_string_equal(
        write_frame(&choice, &head, 1, ENGINE_FINISH_NONE),
        "{\"n\":1,\"id\":\"gen-1\",\"object\":\"generation\",\"created\":9,"
        "\"service_tier\":\"default\",\"model\":\"m\",\"text\":\"The\",\"finish_reason\":null}");
    assert_string_equal(
        write_frame(&choice, &head, 1, ENGINE_FINISH_LENGTH),
        "{\"n\":1,\"id\":\"gen-1\",\"object\":\"generation\",\"created\":9,"
        "\"service_tier\":\"default\",\"model\":\"m\",\"text\":\"\",\"finish_reason\":\"length\"}");
    face_frame_choice_deinit(&choice);
}

static void test_an_error_after_the_start(void **state)
{
    (void)state;
    struct error_note note = {.status = STATUS_DEADLINE};
    snprintf(note.message, sizeof note.message, "too late");
    buffer_clear(&out);
    face_frame_write_error(12, &note, &out);
    json_t *json = json_loads(out.bytes, 0, NULL);
    assert_non_null(json);
    assert_int_equal(face_kit_number(json, "n"), 12);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(json, "error"), "message")), "too late");
    json_decref(json);
}

static int start(void **state)
{
    (void)state;
    buffer_init(&out, 1024 * 1024);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    buffer_deinit(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),         cmocka_unit_test(test_chat),
        cmocka_unit_test(test_chat_logprobs), cmocka_unit_test(test_text_with_an_echoed_prompt),
        cmocka_unit_test(test_generation),    cmocka_unit_test(test_an_error_after_the_start),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
