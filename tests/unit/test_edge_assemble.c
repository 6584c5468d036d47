#include "gateway/edge/request/edge_assemble.h"

#include "config/base/limits.h"
#include "tests/unit/edge_text_kit.h"

static const struct edge_final FINAL = {.service_class = SERVICE_CLASS_BATCH,
                                        .prompt_tokens = 5,
                                        .cached_tokens = 2,
                                        .completion_tokens = 4};

static void add(struct edge_assemble *assemble, const char *rest)
{
    assert_int_equal(edge_assemble_add(assemble, slice_of(rest)), STATUS_OK);
}

static void check(struct edge_assemble *assemble, const char *expected)
{
    struct buffer out;
    buffer_init(&out, 1 << 20);
    assert_int_equal(edge_assemble_render(assemble, &FINAL, SLICE("\"id\":\"f\","), &out),
                     STATUS_OK);
    edge_text_same(buffer_slice(&out), expected);
    buffer_deinit(&out);
}

#define USAGE                                                                                      \
    "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":4,\"total_tokens\":9,"                   \
    "\"prompt_tokens_details\":{\"cached_tokens\":2},"                                             \
    "\"completion_tokens_details\":{\"reasoning_tokens\":0}}"

static void test_chat_of_two_choices(void **state)
{
    (void)state;
    struct edge_assemble *assemble;
    assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_CHAT), STATUS_OK);
    add(assemble, "\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":7,"
                  "\"model\":\"m\",\"system_fingerprint\":\"fp_1\",\"choices\":[{\"index\":1,"
                  "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}");
    add(assemble, "\"id\":\"chatcmpl-1\",\"choices\":[{\"delta\":{\"content\":\"a\\u00e9\\ud83d\"},"
                  "\"index\":0,\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-0.10,"
                  "\"top_logprobs\":[]}],\"refusal\":null}}]}");
    add(assemble, "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\ude00\\\"\"},\"token_ids\":"
                  "[1, 2],\"logprobs\":{\"content\":[{\"token\":\"b\",\"logprob\":-2}]}},"
                  "{\"index\":1,\"delta\":{\"content\":\"x\"}}]}");
    add(assemble, "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":"
                  "[3]},{\"index\":1,\"delta\":{},\"finish_reason\":\"length\"}]}");
    check(
        assemble,
        "{\"id\":\"chatcmpl-1\",\"created\":7,\"model\":\"m\",\"object\":\"chat.completion\","
        "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
        "\"a\\u00e9\\ud83d\\ude00\\\"\",\"refusal\":null},\"logprobs\":{\"content\":[{\"token\":"
        "\"a\",\"logprob\":-0.10,\"top_logprobs\":[]},{\"token\":\"b\",\"logprob\":-2}],"
        "\"refusal\":null},\"finish_reason\":\"stop\",\"token_ids\":[1, 2,3]},{\"index\":1,"
        "\"message\":{\"role\":\"assistant\",\"content\":\"x\",\"refusal\":null},\"logprobs\":null,"
        "\"finish_reason\":\"length\"}]," USAGE
        ",\"service_tier\":\"flex\",\"system_fingerprint\":\"fp_1\"}");
    edge_assemble_destroy(assemble);
}

/* The pieces of calls are joined by their index; an answer of calls alone has no content. */
static void test_calls_and_reasoning(void **state)
{
    (void)state;
    struct edge_assemble *assemble;
    assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_CHAT), STATUS_OK);
    add(assemble, "\"id\":\"chatcmpl-1\",\"created\":7,\"model\":\"m\",\"choices\":[{\"index\":0,"
                  "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}");
    add(assemble, "\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"h\\u006d\"}}]}");
    add(assemble,
        "\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"!\",\"tool_calls\":["
        "{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":"
        "\"f\",\"arguments\":\"{\\\"a\"}}]}}]}");
    add(assemble, "\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":"
                  "{\"arguments\":\"\\\":1}\"}},{\"index\":1,\"id\":\"call_2\",\"type\":"
                  "\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},"
                  "\"finish_reason\":\"tool_calls\"}]}");
    check(
        assemble,
        "{\"id\":\"chatcmpl-1\",\"created\":7,\"model\":\"m\",\"object\":\"chat.completion\","
        "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null,"
        "\"reasoning_content\":\"h\\u006d!\",\"refusal\":null,\"tool_calls\":[{\"id\":"
        "\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
        "\"{\\\"a\\\":1}\"}},{\"id\":\"call_2\",\"type\":\"function\",\"function\":{\"name\":"
        "\"g\",\"arguments\":\"{}\"}}]},\"logprobs\":null,\"finish_reason\":\"tool_calls\"}]," USAGE
        ",\"service_tier\":\"flex\",\"system_fingerprint\":null}");
    assert_int_equal(
        edge_assemble_add(assemble, SLICE("\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":["
                                          "{\"index\":3,\"id\":\"x\"}]}}]}")),
        STATUS_PROTOCOL);
    edge_assemble_destroy(assemble);
}

static void test_text_with_logprobs(void **state)
{
    (void)state;
    struct edge_assemble *assemble;
    assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_TEXT), STATUS_OK);
    add(assemble, "\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\","
                  "\"choices\":[{\"index\":0,\"text\":\"One\",\"logprobs\":{\"tokens\":[\"One\"],"
                  "\"token_logprobs\":[null],\"top_logprobs\":[null],\"text_offset\":[0]},"
                  "\"finish_reason\":null}]}");
    add(assemble, "\"choices\":[{\"index\":0,\"text\":\"\",\"logprobs\":{\"tokens\":[],"
                  "\"token_logprobs\":[],\"top_logprobs\":[],\"text_offset\":[]}}]}");
    add(assemble, "\"choices\":[{\"index\":0,\"text\":\" two\",\"logprobs\":{\"tokens\":[\" two\"],"
                  "\"token_logprobs\":[-1.25],\"top_logprobs\":[{\" two\":-1.25}],\"text_offset\":"
                  "[3]},\"finish_reason\":\"length\"}]}");
    check(assemble,
          "{\"id\":\"cmpl-1\",\"created\":7,\"model\":\"m\",\"object\":\"text_completion\","
          "\"choices\":[{\"index\":0,\"text\":\"One two\",\"logprobs\":{\"tokens\":[\"One\","
          "\" two\"],\"token_logprobs\":[null,-1.25],\"top_logprobs\":[null,{\" two\":-1.25}],"
          "\"text_offset\":[0,3]},\"finish_reason\":\"length\"}]," USAGE
          ",\"service_tier\":\"flex\",\"system_fingerprint\":null}");
    edge_assemble_destroy(assemble);
}

static void test_generation(void **state)
{
    (void)state;
    struct edge_assemble *assemble;
    assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_GENERATION), STATUS_OK);
    add(assemble, "\"id\":\"gen-1\",\"object\":\"generation\",\"created\":7,\"model\":\"m\","
                  "\"text\":\"a\\u00e9\",\"finish_reason\":null}");
    add(assemble, "\"id\":\"gen-1\",\"text\":\" b\",\"finish_reason\":null}");
    add(assemble, "\"id\":\"gen-1\",\"text\":\"\",\"finish_reason\":\"length\"}");
    check(assemble, "{\"id\":\"gen-1\",\"created\":7,\"model\":\"m\",\"object\":\"generation\","
                    "\"text\":\"a\\u00e9 b\",\"finish_reason\":\"length\"," USAGE
                    ",\"service_tier\":\"flex\"}");
    edge_assemble_destroy(assemble);
    assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_GENERATION), STATUS_OK);
    check(assemble, "{\"id\":\"f\",\"object\":\"generation\",\"text\":\"\","
                    "\"finish_reason\":null," USAGE ",\"service_tier\":\"flex\"}");
    edge_assemble_destroy(assemble);
}

static void test_embeddings(void **state)
{
    (void)state;
    struct edge_assemble *assemble;
    struct buffer out;
    assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_EMBEDDINGS), STATUS_OK);
    add(assemble, "\"model\":\"m\",\"data\":[{\"object\":\"embedding\",\"index\":1,"
                  "\"embedding\":[0.5,-1e-05]}]}");
    buffer_init(&out, 4096);
    assert_int_equal(edge_assemble_render(assemble, &FINAL, SLICE(""), &out), STATUS_PROTOCOL);
    buffer_deinit(&out);
    add(assemble, "\"model\":\"m\",\"data\":[{\"object\":\"embedding\",\"index\":0,"
                  "\"embedding\":\"AAAA\"}]}");
    check(assemble, "{\"object\":\"list\",\"model\":\"m\",\"data\":[{\"object\":\"embedding\","
                    "\"index\":0,\"embedding\":\"AAAA\"},{\"object\":\"embedding\",\"index\":1,"
                    "\"embedding\":[0.5,-1e-05]}]," USAGE ",\"service_tier\":\"flex\"}");
    static const char *const wrong[] = {
        "\"data\":[{\"index\":1,\"embedding\":[]}]}",    /* twice */
        "\"data\":[{\"index\":2048,\"embedding\":[]}]}", /* beyond the last text */
        "\"data\":[{\"embedding\":[]}]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(edge_assemble_add(assemble, slice_of(wrong[i])), STATUS_PROTOCOL);
    edge_assemble_destroy(assemble);
}

static void test_no_frame_at_all(void **state)
{
    (void)state;
    struct edge_assemble *assemble;
    assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_TEXT), STATUS_OK);
    check(assemble, "{\"id\":\"f\",\"object\":\"text_completion\",\"choices\":[]," USAGE
                    ",\"service_tier\":\"flex\",\"system_fingerprint\":null}");
    edge_assemble_destroy(assemble);
}

static void test_choices_at_the_limit(void **state)
{
    (void)state;
    struct edge_assemble *assemble;
    assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_TEXT), STATUS_OK);
    char rest[128];
    snprintf(rest, sizeof rest, "\"choices\":[{\"index\":%d,\"text\":\"x\"}]}", LIMIT_ANSWERS - 1);
    add(assemble, rest);
    snprintf(rest, sizeof rest, "\"choices\":[{\"index\":%d,\"text\":\"x\"}]}", LIMIT_ANSWERS);
    assert_int_equal(edge_assemble_add(assemble, slice_of(rest)), STATUS_PROTOCOL);
    edge_assemble_destroy(assemble);
}

static void test_broken_frames(void **state)
{
    (void)state;
    const char *frames[] = {
        "\"choices\":[{\"text\":\"x\"}]}",
        "\"choices\":{}}",
        "\"choices\":[{\"index\":-1}]}",
        "\"choices\":[{\"index\":0,\"delta\":[]}]}",
        "\"choices\":[{\"index\":0,\"text\":7}]}",
        "\"choices\":[{\"index\":0,\"delta\":{\"content\":{}}}]}",
        "\"choices\":[{\"index\":0,\"logprobs\":[]}]}",
        "\"choices\":[{\"index\":0,\"logprobs\":{\"tokens\":7}}]}",
        "\"choices\":[{\"index\":0,\"token_ids\":7}]}",
        "\"choices\":[{\"index\":0}",
        "",
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        struct edge_assemble *assemble;
        assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_CHAT), STATUS_OK);
        if (edge_assemble_add(assemble, slice_of(frames[i])) != STATUS_PROTOCOL)
            fail_msg("accepted: %s", frames[i]);
        edge_assemble_destroy(assemble);
    }
}

static void test_bytes_at_the_limit(void **state)
{
    (void)state;
    struct edge_assemble *assemble;
    assert_int_equal(edge_assemble_create(&assemble, EDGE_STREAM_TEXT), STATUS_OK);
    struct buffer rest;
    size_t frame = 1024 * 1024;
    buffer_init(&rest, 2 * frame);
    buffer_append_text(&rest, "\"choices\":[{\"index\":0,\"text\":\"");
    while (rest.length < frame - 4)
        buffer_append_char(&rest, 'x');
    buffer_append_text(&rest, "\"}]}");
    assert_int_equal(rest.length, frame);
    for (size_t i = 0; i < LIMIT_ASSEMBLED_BYTES / frame; i++)
        assert_int_equal(edge_assemble_add(assemble, buffer_slice(&rest)), STATUS_OK);
    assert_in_range(edge_assemble_bytes(assemble), LIMIT_ASSEMBLED_BYTES - 1024,
                    LIMIT_ASSEMBLED_BYTES); /* the texts, without the frames around them */
    assert_int_equal(edge_assemble_add(assemble, SLICE("}")), STATUS_LIMIT);
    edge_text_has(status_note()->message, "stream");
    buffer_deinit(&rest);
    edge_assemble_destroy(assemble);
}

static void test_without_memory(void **state)
{
    (void)state;
    static const char rest[] = "\"id\":\"1\",\"system_fingerprint\":\"f\",\"service_tier\":\"x\","
                               "\"choices\":[{\"index\":0,\"text\":\"t\",\"token_ids\":[1],"
                               "\"logprobs\":{\"tokens\":[\"t\"]},\"finish_reason\":\"stop\"}]}";
    bool is_through = false;
    for (int n = 0; n < 100 && !is_through; n++) {
        struct edge_text_failing failing = {.fails_at = n};
        struct edge_assemble *assemble = NULL;
        mem_hook_set(edge_text_hook, &failing);
        enum status status = edge_assemble_create(&assemble, EDGE_STREAM_TEXT);
        if (status == STATUS_OK)
            status = edge_assemble_add(assemble, slice_of(rest));
        mem_hook_set(NULL, NULL);
        is_through = failing.count <= n;
        assert_int_equal(status, is_through ? STATUS_OK : STATUS_NO_MEMORY);
        edge_assemble_destroy(assemble);
    }
    assert_true(is_through);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_and_reasoning),  cmocka_unit_test(test_chat_of_two_choices),
        cmocka_unit_test(test_text_with_logprobs),   cmocka_unit_test(test_generation),
        cmocka_unit_test(test_embeddings),           cmocka_unit_test(test_no_frame_at_all),
        cmocka_unit_test(test_choices_at_the_limit), cmocka_unit_test(test_broken_frames),
        cmocka_unit_test(test_bytes_at_the_limit),   cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
