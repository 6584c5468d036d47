/* adapter_stream: streams of each kind, in any pieces. Those in files are of tests/adapter. Those
 * of llama.cpp were recorded from a server (0c1e570, SmolLM2-135M) and shortened; those of vLLM are
 * written in the form of its version 0.32. */
#include "gateway/adapter/adapter_stream.h"

#include "config/base/limits_upstream.h"
#include "tests/unit/http_kit.h"

struct heard {
    struct buffer text; /* "c:…|r:…|n0:…|a0:…|" */
    uint32_t frames;
};

static void on_part(void *context, const struct adapter_part *part)
{
    static const char letters[] = {[SOURCE_CONTENT] = 'c',
                                   [SOURCE_REASONING] = 'r',
                                   [SOURCE_CALL_NAME] = 'n',
                                   [SOURCE_CALL_ARGUMENTS] = 'a'};
    struct heard *heard = context;
    buffer_append_char(&heard->text, letters[part->channel]);
    if (part->channel >= SOURCE_CALL_NAME)
        buffer_printf(&heard->text, "%u", part->call);
    buffer_append_char(&heard->text, ':');
    buffer_append_slice(&heard->text, part->text);
    buffer_append_char(&heard->text, '|');
}

static void on_frame(void *context)
{
    ((struct heard *)context)->frames++;
}

static const struct adapter_stream_callbacks callbacks = {on_part, on_frame};

static const struct {
    const char *kind, *stream, *heard; /* a stream without a space is the name of a file */
    enum engine_finish finish;
    int64_t prompt, cached, completion;
} streams[] = {
    {"llama",
     "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"role\":\"assistant\","
     "\"content\":null}}],\"model\":\"/m.gguf\",\"timings\":{\"cache_n\":0,\"prompt_n\":31,"
     "\"predicted_n\":1}}\n\n"
     "data: "
     "{\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\"H\\u00e9\"}}],"
     "\"timings\":{\"cache_n\":0,\"prompt_n\":31,\"predicted_n\":1}}\n\n"
     "data: {\"choices\":[{\"finish_reason\":\"length\",\"index\":0,\"delta\":{}}],"
     "\"timings\":{\"cache_n\":0,\"prompt_n\":31,\"predicted_n\":2}}\n\n"
     "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2,\"prompt_tokens\":31,"
     "\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\ndata: [DONE]\n\n",
     "c:H\xc3\xa9|", ENGINE_FINISH_LENGTH, 31, 0, 2},
    {"vllm",
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
     "\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":0}}\n\n"
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"hm\"},\"finish_reason\":null}],"
     "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\n"
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\","
     "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]},"
     "\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\n"
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":"
     "{\"arguments\":\"{\\\"a\\\":1}\"}},{\"index\":1,\"function\":{\"name\":\"g\",\"arguments\":"
     "\"{}\"}}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":9,"
     "\"completion_tokens\":8}}\n\n"
     "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":8,"
     "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n",
     "r:hm|n0:f|a0:{\"a\":1}|n1:g|a1:{}|", ENGINE_FINISH_STOP, 9, 4, 8},
    {"openai",
     ": a comment\n\ndata: {\"choices\":[{\"text\":\" Paris\",\"finish_reason\":null}]}\n\n"
     "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}],\"usage\":null}\n\n"
     "data: [DONE]\n\ndata: ignored\n\n",
     "c: Paris|", ENGINE_FINISH_STOP, -1, -1, -1},
    {"vllm", "vllm_chat", "r:Hm|c:One|c: two|", ENGINE_FINISH_STOP, 9, 0, 4},
    {"sglang", "sglang_chat", "r:Hm,|r: so|c:Caf\xc3\xa9|", ENGINE_FINISH_STOP, 14, 8, 6},
    {"sglang", "sglang_tools", "n0:weather|a0:{\"city\": |a0:\"Oslo\"}|", ENGINE_FINISH_STOP, 14, 8,
     6},
    {"trtllm", "trtllm_chat", "r:Hm|c:New York|c: is|c:.|", ENGINE_FINISH_LENGTH, 21, 0, 5},
    {"trtllm", "trtllm_tools", "n0:weather|a0:{\"city\":|a0:\"Oslo\"}|", ENGINE_FINISH_STOP, 21, 0,
     5},
    {"tgi", "tgi_chat", "c:Deep|c: learning|c: n\xc3\xa9|", ENGINE_FINISH_STOP, 17, -1, 4},
    {"tgi", "tgi_tools", "n0:weather|a0:{|a0:\"city\":|a0:\"Oslo\"}|", ENGINE_FINISH_STOP, 17, -1,
     4},
    {"tgi", "tgi_text", "c: two|c:,|c: three|", ENGINE_FINISH_LENGTH, -1, -1, 3},
    {"ollama", "ollama_chat", "r:Hm|r:.|c:Hel|c:lo|", ENGINE_FINISH_STOP, 11, -1, 9},
    {"ollama", "ollama_tools", "n0:weather|a0:{\"city\":\"Oslo\"}|", ENGINE_FINISH_STOP, 11, -1, 9},
};

/* Reads the stream of a row. The caller frees it. */
static char *stream_of(size_t row)
{
    char path[128];
    const char *stream = streams[row].stream;
    if (strchr(stream, ' ') != NULL)
        return strdup(stream);
    snprintf(path, sizeof path, "tests/adapter/%s.sse", stream);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s: run the test in the root of the source", path);
    char *bytes = calloc(1, 1 << 16);
    assert_true(fread(bytes, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return bytes;
}

/* Feeds a stream in pieces that end at the two places. */
static void feed(size_t row, const char *bytes, size_t first, size_t second)
{
    const struct slice whole = slice_of(bytes);
    const size_t ends[] = {first, second, whole.length};
    struct heard heard = {.frames = 0};
    struct adapter_stream stream;
    buffer_init(&heard.text, 1 << 16);
    adapter_stream_init(&stream, adapter_kind_named(streams[row].kind), &callbacks, &heard);
    for (size_t i = 0, at = 0; i < 3; at = ends[i++]) {
        const struct slice piece = {whole.bytes + at, ends[i] - at};
        assert_int_equal(adapter_stream_feed(&stream, piece), STATUS_OK);
    }
    buffer_append_char(&heard.text, '\0');
    assert_string_equal(heard.text.bytes, streams[row].heard);
    assert_int_equal(stream.finish, streams[row].finish);
    assert_int_equal(stream.counts.prompt, streams[row].prompt);
    assert_int_equal(stream.counts.cached, streams[row].cached);
    assert_int_equal(stream.counts.completion, streams[row].completion);
    assert_true(stream.is_done);
    adapter_stream_deinit(&stream);
    buffer_deinit(&heard.text);
}

static void test_streams_in_any_pieces(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof streams / sizeof streams[0]; row++) {
        char *bytes = stream_of(row);
        const size_t length = strlen(bytes);
        for (size_t first = 0; first <= length; first++) {
            feed(row, bytes, first, first);
            feed(row, bytes, first, first + (length - first) / 2);
        }
        free(bytes);
    }
}

/* Bytes of a stranger that are no answer: named, and nothing is told twice. */
static void test_broken(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        enum status status;
    } rows[] = {
        {"data: {\n\n", STATUS_PROTOCOL},
        {"data: []\n\n", STATUS_PROTOCOL},
        {"data: <html>\n\n", STATUS_PROTOCOL},
        {"data: {\"choices\":[1]}\n\n", STATUS_PROTOCOL},
        {"data: {\"choices\":[{},{}]}\n\n", STATUS_PROTOCOL},
        {"data: {\"error\":{\"message\":\"secret prompt\"}}\n\n", STATUS_UNAVAILABLE},
        {"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"name\":"
         "\"f\"}}]}}]}\n\n",
         STATUS_PROTOCOL},
        {"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{}}]}}]}\n\n",
         STATUS_PROTOCOL},
        {"data: {\"choices\":[{\"delta\":{\"content\":7}}]}\n\n", STATUS_OK},
        {"data: {\"a\":1,\"a\":2}\n\n", STATUS_PROTOCOL},
        {"data: "
         "{\"choices\":[{\"delta\":{\"tool_calls\":{\"index\":0,\"function\":{\"name\":\"f\"}}}}"
         "]}\n\n",
         STATUS_PROTOCOL},
        {"data: {\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1}]},"
         "\"token_ids\":[1,2]}]}\n\n",
         STATUS_PROTOCOL},
        {"data: {\"choices\":[{\"logprobs\":{\"content\":[{\"token\":7,\"logprob\":-1}]}}]}\n\n",
         STATUS_PROTOCOL},
        {"data: "
         "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":\"x\"}]}}]}\n\n",
         STATUS_PROTOCOL},
        {"data: "
         "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1,\"bytes\":"
         "[256]}]}}]}\n\n",
         STATUS_PROTOCOL},
        {"data: {\"choices\":[{\"token_ids\":[-1]}]}\n\n", STATUS_PROTOCOL},
        {"data: {\"choices\":[{\"delta\":{\"content\":\"\xc3\"}}]}\n\n", STATUS_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct heard heard = {.frames = 0};
        struct adapter_stream stream;
        buffer_init(&heard.text, 1 << 16);
        adapter_stream_init(&stream, adapter_kind_named("vllm"), &callbacks, &heard);
        assert_int_equal(adapter_stream_feed(&stream, slice_of(rows[i].bytes)), rows[i].status);
        if (rows[i].status != STATUS_OK)
            assert_null(strstr(status_note()->message, "secret"));
        assert_int_equal(heard.text.length, 0);
        adapter_stream_deinit(&stream);
        buffer_deinit(&heard.text);
    }
}

static void test_an_event_without_end(void **state)
{
    (void)state;
    struct heard heard = {.frames = 0};
    struct adapter_stream stream;
    char piece[65536];
    enum status status = STATUS_OK;
    size_t bytes = 0;
    memset(piece, 'x', sizeof piece);
    adapter_stream_init(&stream, adapter_kind_named("vllm"), &callbacks, &heard);
    while (status == STATUS_OK && bytes < 4 * LIMIT_UPSTREAM_EVENT_BYTES) {
        status = adapter_stream_feed(&stream, (struct slice){piece, sizeof piece});
        bytes += sizeof piece;
    }
    assert_int_equal(status, STATUS_LIMIT);
    assert_true(bytes <= LIMIT_UPSTREAM_EVENT_BYTES + 2 * sizeof piece);
    adapter_stream_deinit(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_streams_in_any_pieces),
                                       cmocka_unit_test(test_broken),
                                       cmocka_unit_test(test_an_event_without_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
