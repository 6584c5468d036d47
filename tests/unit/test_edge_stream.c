#include "gateway/edge/engines/edge_stream.h"

#include "config/base/limits.h"
#include "tests/unit/edge_text_kit.h"

#define FINAL                                                                                      \
    "event: banyan.final\ndata: {\"protocol\":1,\"request_id\":\"req_1\",\"record_seq\":42,"       \
    "\"prompt_tokens\":10,\"cached_tokens\":4,\"completion_tokens\":3,\"finish_reason\":\"stop\"," \
    "\"estimated\":false,\"queue_us\":1,\"prefill_us\":2,\"decode_us\":3,\"preemptions\":0,"       \
    "\"swapped_pages\":0,\"swap_us\":0}\n\n"

#define START                                                                                      \
    "event: banyan.start\ndata: {\"protocol\":1,\"request_id\":\"req_1\",\"prompt_tokens\":10,"    \
    "\"cached_tokens\":4,\"queue_us\":7}\n\n"

static const char STREAM[] =
    ": queued\n\n" START
    "data: {\"n\":0,\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":7,"
    "\"model\":\"a\\\"choices\\\":[\",\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n"
    "data: "
    "{\"n\":3,\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\u00e9"
    "\"},\"x\":1.50}]}\n\n" FINAL;

struct seen {
    struct buffer out;
    bool with_usage;
    int finals;
    int pauses;
    bool is_standing;
    enum status answer;
};

static enum status on_chunk(void *context, struct slice rest)
{
    struct seen *seen = context;
    edge_stream_append_chunk(&seen->out, rest, seen->with_usage);
    return seen->answer;
}

static void on_final(void *context)
{
    ((struct seen *)context)->finals++;
}

static void on_stand(void *context, bool is_standing)
{
    struct seen *seen = context;
    seen->pauses += is_standing ? 1 : 0;
    seen->is_standing = is_standing;
}

static const struct edge_stream_callbacks callbacks = {on_chunk, on_stand, on_final};

static void seen_init(struct seen *seen, struct edge_stream *stream)
{
    *seen = (struct seen){0};
    buffer_init(&seen->out, 1 << 20);
    edge_stream_init(stream, &callbacks, seen);
}

static void seen_deinit(struct seen *seen, struct edge_stream *stream)
{
    buffer_deinit(&seen->out);
    edge_stream_deinit(stream);
}

static void check_stream(const struct edge_stream *stream, const struct seen *seen)
{
    edge_text_same(
        buffer_slice(&seen->out),
        "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":7,"
        "\"model\":\"a\\\"choices\\\":[\",\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n"
        "data: "
        "{\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\u00e9\"},"
        "\"x\":1.50}]}\n\n");
    assert_int_equal(seen->finals, 1);
    assert_true(stream->has_final);
    assert_int_equal(stream->tokens_seen, 3);
    assert_int_equal(stream->final.record_seq, 42);
    assert_int_equal(stream->final.prompt_tokens, 10);
    assert_int_equal(stream->final.cached_tokens, 4);
    assert_int_equal(stream->final.completion_tokens, 3);
    assert_string_equal(stream->final.finish, "stop");
    assert_int_equal(stream->final.decode_us, 3);
    assert_false(stream->final.is_estimated);
}

static void test_every_split_gives_the_same(void **state)
{
    (void)state;
    size_t length = sizeof STREAM - 1;
    for (size_t split = 0; split <= length; split++) {
        struct edge_stream stream;
        struct seen seen;
        seen_init(&seen, &stream);
        char *first =
            mem_strndup(STREAM, split); /* exact pieces, so that a read beyond is caught */
        char *second = mem_strndup(STREAM + split, length - split);
        assert_int_equal(edge_stream_feed(&stream, (struct slice){first, split}), STATUS_OK);
        assert_int_equal(edge_stream_feed(&stream, (struct slice){second, length - split}),
                         STATUS_OK);
        check_stream(&stream, &seen);
        mem_free(first);
        mem_free(second);
        seen_deinit(&seen, &stream);
    }
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    struct edge_stream stream;
    struct seen seen;
    seen_init(&seen, &stream);
    for (size_t i = 0; i < sizeof STREAM - 1; i++)
        assert_int_equal(edge_stream_feed(&stream, (struct slice){STREAM + i, 1}), STATUS_OK);
    check_stream(&stream, &seen);
    seen_deinit(&seen, &stream);
}

/* Cut before its record, a stream has its prompt's count from its start; a start that cannot be
 * understood is no start. */
static void test_start(void **state)
{
    (void)state;
    const struct {
        const char *text;
        enum status status;
    } rows[] = {
        {START, STATUS_OK},
        {"event: banyan.start\ndata: {\"protocol\":2,\"prompt_tokens\":1,\"cached_tokens\":0,"
         "\"queue_us\":0}\n\n",
         STATUS_PROTOCOL},
        {"event: banyan.start\ndata: {\"protocol\":1,\"prompt_tokens\":1,\"cached_tokens\":2,"
         "\"queue_us\":0}\n\n",
         STATUS_PROTOCOL},
        {"event: banyan.start\ndata: {\"protocol\":1,\"prompt_tokens\":-1,\"cached_tokens\":0,"
         "\"queue_us\":0}\n\n",
         STATUS_PROTOCOL},
        {"event: banyan.start\ndata: []\n\n", STATUS_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct edge_stream stream;
        struct seen seen;
        seen_init(&seen, &stream);
        assert_int_equal(edge_stream_feed(&stream, slice_of(rows[i].text)), rows[i].status);
        assert_int_equal(seen.out.length, 0);
        assert_false(stream.has_final);
        if (rows[i].status == STATUS_OK) {
            assert_int_equal(stream.final.prompt_tokens, 10);
            assert_int_equal(stream.final.cached_tokens, 4);
            assert_int_equal(stream.final.queue_us, 7);
        }
        seen_deinit(&seen, &stream);
    }
}

static void test_usage_chunk(void **state)
{
    (void)state;
    struct edge_stream stream;
    struct seen seen;
    seen_init(&seen, &stream);
    seen.with_usage = true;
    assert_int_equal(edge_stream_feed(&stream, slice_of(STREAM)), STATUS_OK);
    edge_text_has(seen.out.bytes, "\"delta\":{}}],\"usage\":null}\n\n");
    buffer_clear(&seen.out);
    edge_stream_append_usage_chunk(&seen.out, &stream, EDGE_STREAM_CHAT, SLICE("unused"));
    edge_text_same(
        buffer_slice(&seen.out),
        "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":7,"
        "\"model\":\"a\\\"choices\\\":[\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,"
        "\"completion_tokens\":3,\"total_tokens\":13,\"prompt_tokens_details\":{\"cached_tokens\":"
        "4},"
        "\"completion_tokens_details\":{\"reasoning_tokens\":0}}}\n\n");
    assert_null(strstr(seen.out.bytes, "banyan"));
    seen_deinit(&seen, &stream);
    seen_init(&seen, &stream);
    edge_stream_append_usage_chunk(&seen.out, &stream, EDGE_STREAM_CHAT, SLICE("\"id\":\"f\","));
    edge_text_has(seen.out.bytes, "data: {\"id\":\"f\",\"choices\":[],\"usage\":{");
    seen_deinit(&seen, &stream);
}

/* Only what is asked for; a record of an engine that says nothing of it explains with zeros. */
static void test_pauses_are_told_and_not_passed_on(void **state)
{
    (void)state;
    struct edge_stream stream;
    struct seen seen;
    seen_init(&seen, &stream);
    assert_int_equal(edge_stream_feed(&stream, SLICE("event: banyan.paused\ndata: {}\n\n")),
                     STATUS_OK);
    assert_true(seen.is_standing);
    assert_int_equal(edge_stream_feed(&stream, SLICE("event: banyan.resumed\ndata: {}\n\n")),
                     STATUS_OK);
    assert_false(seen.is_standing);
    assert_int_equal(seen.pauses, 1);
    assert_int_equal(seen.out.length, 0);
    assert_int_equal(edge_stream_feed(&stream, SLICE("event: banyan.odd\ndata: {}\n\n")),
                     STATUS_PROTOCOL);
    seen_deinit(&seen, &stream);
}

static void test_explained_usage(void **state)
{
    (void)state;
    static const char record[] =
        "event: banyan.final\ndata: {\"protocol\":1,\"record_seq\":1,\"prompt_tokens\":100,"
        "\"cached_tokens\":96,\"completion_tokens\":3,\"finish_reason\":\"stop\",\"queue_us\":1500,"
        "\"prefill_us\":2000001,\"decode_us\":7,\"preemptions\":2,\"swap_us\":30,"
        "\"swapped_pages\":9,\"paused_us\":4000,\"recomputed_tokens\":17,"
        "\"drafts_accepted\":21,\"drafts_rejected\":5,"
        "\"cached_published\":48,\"cached_group\":32,\"cached_own\":16,\"cached_host\":10}\n\n";
    struct edge_stream stream;
    struct seen seen;
    for (int is_told = 0; is_told < 2; is_told++) {
        seen_init(&seen, &stream);
        stream.final.is_explained = true;
        stream.final.service_class = SERVICE_CLASS_BATCH;
        assert_int_equal(edge_stream_feed(&stream, slice_of(is_told ? record : FINAL)), STATUS_OK);
        edge_stream_append_usage(&seen.out, &stream.final);
        edge_text_has(
            seen.out.bytes,
            is_told ? "\"completion_tokens_details\":{\"reasoning_tokens\":0},"
                      "\"banyan\":{\"service_tier\":\"flex\",\"queue_ms\":1.500,\"prefill_ms\":"
                      "2000.001,"
                      "\"decode_ms\":0.007,\"swap_ms\":0.030,\"paused_ms\":4.000,"
                      "\"preemptions\":2,\"swapped_pages\":9,\"recomputed_tokens\":17,"
                      "\"drafts\":{\"accepted\":21,\"rejected\":5},"
                      "\"cached_tokens\":{\"published\":48,\"group\":32,\"own\":16,"
                      "\"device\":86,\"host\":10}}}"
                    : "\"preemptions\":0,\"swapped_pages\":0,"
                      "\"recomputed_tokens\":0,\"drafts\":{\"accepted\":0,\"rejected\":0},"
                      "\"cached_tokens\":{\"published\":0,\"group\":0,"
                      "\"own\":0,\"device\":4,\"host\":0}}}");
        seen_deinit(&seen, &stream);
    }
}

static void test_last_frame_of_a_generation(void **state)
{
    (void)state;
    struct edge_stream stream;
    struct seen seen;
    seen_init(&seen, &stream);
    assert_int_equal(
        edge_stream_feed(
            &stream, SLICE("data: {\"n\":3,\"id\":\"gen-1\",\"object\":\"generation\",\"created\":"
                           "7,\"model\":\"m\\\"x\",\"text\":\"\\\"choices\\\":\","
                           "\"finish_reason\":null}\n\n" FINAL)),
        STATUS_OK);
    buffer_clear(&seen.out);
    edge_stream_append_usage_chunk(&seen.out, &stream, EDGE_STREAM_GENERATION, SLICE("unused"));
    edge_text_has(seen.out.bytes,
                  "data: {\"id\":\"gen-1\",\"object\":\"generation\",\"created\":7,\"model\":"
                  "\"m\\\"x\",\"text\":\"\",\"finish_reason\":\"stop\",\"usage\":{");
    seen_deinit(&seen, &stream);
}

/* Both records name the model; what is kept is the string, not its JSON text. */
static void test_the_model_is_what_the_records_say(void **state)
{
    (void)state;
    struct edge_stream stream;
    struct seen seen;
    seen_init(&seen, &stream);
    assert_string_equal(stream.final.model, "");
    assert_int_equal(edge_stream_feed(&stream, SLICE("event: banyan.start\ndata: {\"protocol\":1,"
                                                     "\"model\":\"say \\\"hi\\\" \\\\ \\u00e9\","
                                                     "\"prompt_tokens\":1,\"cached_tokens\":0,"
                                                     "\"queue_us\":0}\n\n")),
                     STATUS_OK);
    assert_string_equal(stream.final.model, "say \"hi\" \\ \xc3\xa9");
    assert_int_equal(
        edge_stream_feed(&stream,
                         SLICE("event: banyan.final\ndata: {\"protocol\":1,\"record_seq\":1,"
                               "\"model\":\"\\u0073ay\",\"prompt_tokens\":1,\"cached_tokens\":0,"
                               "\"completion_tokens\":1,\"queue_us\":0,\"prefill_us\":0,"
                               "\"decode_us\":0,\"finish_reason\":\"\\u0073top\"}\n\n")),
        STATUS_OK);
    assert_string_equal(stream.final.model, "say");
    assert_string_equal(stream.final.finish, "stop");
    seen_deinit(&seen, &stream);
}

static void test_error_frame_is_kept(void **state)
{
    (void)state;
    struct edge_stream stream;
    struct seen seen;
    seen_init(&seen, &stream);
    assert_int_equal(edge_stream_feed(&stream, SLICE("data: {\"n\":2,\"error\":{\"message\":\"m\"}}"
                                                     "\n\n" FINAL)),
                     STATUS_OK);
    edge_text_same(buffer_slice(&stream.error), "{\"message\":\"m\"}");
    assert_int_equal(seen.out.length, 0);
    assert_int_equal(stream.tokens_seen, 2);
    assert_int_equal(seen.finals, 1);
    seen_deinit(&seen, &stream);
}

static void test_broken_frames(void **state)
{
    (void)state;
    const char *frames[] = {
        "data: {\"id\":1}\n\n",
        "data: {\"n\":,\"id\":1}\n\n",
        "data: {\"n\":1}\n\n",
        "data: {\"n\":1,\n\n",
        "data: {\"n\":4294967296,\"id\":1}\n\n",
        "data: {\"n\":-1,\"id\":1}\n\n",
        "data: [DONE]\n\n",
        "data: {\"n\":5,\"a\":1}\n\ndata: {\"n\":4,\"a\":1}\n\n",
        "data: {\"n\":1,\"a\":\ndata: 1}\n\n",
        "event: other\ndata: {\"n\":1,\"a\":1}\n\n",
        "event: banyan.final\ndata: {\n\n",
        "event: banyan.final\ndata: []\n\n",
        "event: banyan.final\ndata: {\"protocol\":1}\n\n",
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        struct edge_stream stream;
        struct seen seen;
        seen_init(&seen, &stream);
        if (edge_stream_feed(&stream, slice_of(frames[i])) != STATUS_PROTOCOL)
            fail_msg("accepted: %s", frames[i]);
        assert_false(stream.has_final);
        seen_deinit(&seen, &stream);
    }
}

/* Each number of the record in turn is missing, negative, and of a wrong type. */
static void test_broken_records(void **state)
{
    (void)state;
    const char *names[] = {"protocol",          "record_seq", "prompt_tokens", "cached_tokens",
                           "completion_tokens", "queue_us",   "prefill_us",    "decode_us"};
    const char *values[] = {"-1", "\"1\"", "1.5", "null", "9223372036854775808"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            struct edge_stream stream;
            struct seen seen;
            seen_init(&seen, &stream);
            struct buffer text;
            buffer_init(&text, 4096);
            buffer_append_text(&text, "event: banyan.final\ndata: {\"finish_reason\":\"stop\"");
            for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
                buffer_printf(&text, ",\"%s\":%s", names[j], j == i ? values[k] : "1");
            buffer_append_text(&text, "}\n\n");
            assert_int_equal(edge_stream_feed(&stream, buffer_slice(&text)), STATUS_PROTOCOL);
            buffer_deinit(&text);
            seen_deinit(&seen, &stream);
        }
    }
}

static void test_what_a_chunk_answers_stops_the_reading(void **state)
{
    (void)state;
    struct edge_stream stream;
    struct seen seen;
    seen_init(&seen, &stream);
    seen.answer = STATUS_LIMIT;
    assert_int_equal(edge_stream_feed(&stream, slice_of(STREAM)), STATUS_LIMIT);
    assert_false(stream.has_final);
    seen_deinit(&seen, &stream);
}

static void test_frame_at_the_limit(void **state)
{
    (void)state;
    for (size_t extra = 0; extra < 2; extra++) {
        struct edge_stream stream;
        struct seen seen;
        seen_init(&seen, &stream);
        seen.out.limit_bytes = 2 * LIMIT_ENGINE_FRAME_BYTES;
        struct buffer text;
        buffer_init(&text, 2 * LIMIT_ENGINE_FRAME_BYTES);
        buffer_append_text(&text, "data: {\"n\":1,\"a\":\"");
        while (text.length < LIMIT_ENGINE_FRAME_BYTES + 3 + extra)
            buffer_append_char(&text, 'x');
        buffer_append_text(&text, "\"}\n\n");
        assert_int_equal(edge_stream_feed(&stream, buffer_slice(&text)),
                         extra == 0 ? STATUS_OK : STATUS_LIMIT);
        buffer_deinit(&text);
        seen_deinit(&seen, &stream);
    }
}

static void test_without_memory(void **state)
{
    (void)state;
    int failures = 0;
    for (int n = 0; n < 100; n++) {
        struct edge_stream stream;
        struct seen seen;
        seen_init(&seen, &stream);
        struct edge_text_failing failing = {.fails_at = n};
        mem_hook_set(edge_text_hook, &failing);
        enum status status = edge_stream_feed(&stream, slice_of(STREAM));
        mem_hook_set(NULL, NULL);
        bool is_through = failing.count <= n;
        failures += status != STATUS_OK || seen.out.status != STATUS_OK || stream.first.length == 0;
        seen_deinit(&seen, &stream);
        if (is_through)
            break;
        assert_true(n < 99);
    }
    assert_true(failures > 0);
}

static void test_another_tier(void **state)
{
    (void)state;
    struct buffer head;
    buffer_init(&head, 4096);
    edge_stream_set_tier(&head, SERVICE_CLASS_BATCH); /* no frame has come */
    assert_int_equal(head.length, 0);
    buffer_append_text(&head, "\"id\":\"x\",\"service_tier\":\"default\",\"model\":\"m\",");
    edge_stream_set_tier(&head, SERVICE_CLASS_BATCH);
    assert_string_equal(head.bytes, "\"id\":\"x\",\"service_tier\":\"flex\",\"model\":\"m\",");
    edge_stream_set_tier(&head, SERVICE_CLASS_REALTIME);
    assert_string_equal(head.bytes, "\"id\":\"x\",\"service_tier\":\"priority\",\"model\":\"m\",");
    buffer_deinit(&head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_tier),
        cmocka_unit_test(test_every_split_gives_the_same),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_usage_chunk),
        cmocka_unit_test(test_pauses_are_told_and_not_passed_on),
        cmocka_unit_test(test_explained_usage),
        cmocka_unit_test(test_last_frame_of_a_generation),
        cmocka_unit_test(test_the_model_is_what_the_records_say),
        cmocka_unit_test(test_error_frame_is_kept),
        cmocka_unit_test(test_broken_frames),
        cmocka_unit_test(test_broken_records),
        cmocka_unit_test(test_what_a_chunk_answers_stops_the_reading),
        cmocka_unit_test(test_frame_at_the_limit),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
