#include "gateway/adapter/adapter_kind.h"

#include "tests/unit/http_kit.h"

static void test_rows(void **state)
{
    (void)state;
    struct buffer names;
    buffer_init(&names, 256);
    size_t count = 0;
    for (; adapter_kind_at(count) != NULL; count++) {
        const struct adapter_kind *kind = adapter_kind_at(count);
        assert_ptr_equal(adapter_kind_named(kind->name), kind);
        assert_true(kind->isolation != ADAPTER_SALTED || kind->salts[0] != NULL);
        assert_true(kind->honours[ADAPTER_FIELD_temperature]);
        assert_non_null(kind->counts);
        for (const struct adapter_member *fixed = kind->fixed; fixed->name != NULL; fixed++) {
            json_t *value = json_loads(fixed->json, JSON_DECODE_ANY, NULL);
            assert_non_null(value);
            json_decref(value);
        }
        buffer_printf(&names, "%s%s", count > 0 ? ", " : "", kind->name);
        /* Only the last is taken without an answer of its own. */
        assert_true((kind->path[0] == '\0') == (adapter_kind_at(count + 1) == NULL));
    }
    assert_true(slice_is(buffer_slice(&names), adapter_kind_names()));
    buffer_deinit(&names);
    assert_null(adapter_kind_named("none"));
}

static struct adapter_counts counts_of(const struct adapter_kind *kind, const char *text)
{
    struct adapter_counts counts = {-1, -1, -1, -1};
    json_t *frame = json_loads(text, 0, NULL);
    assert_non_null(frame);
    kind->counts(frame, &counts);
    json_decref(frame);
    return counts;
}

static void test_counts(void **state)
{
    (void)state;
    const struct adapter_kind *openai = adapter_kind_named("openai");
    const struct adapter_kind *llama = adapter_kind_named("llama");
    struct adapter_counts counts =
        counts_of(openai, "{\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3,"
                          "\"prompt_tokens_details\":{\"cached_tokens\":8},"
                          "\"completion_tokens_details\":{\"reasoning_tokens\":2}}}");
    assert_int_equal(counts.prompt, 12);
    assert_int_equal(counts.completion, 3);
    assert_int_equal(counts.cached, 8);
    assert_int_equal(counts.reasoning, 2);
    /* What is absent, or no count, stays unknown. */
    static const char *const broken[] = {"{}",
                                         "{\"usage\":null}",
                                         "{\"usage\":{\"prompt_tokens\":-1}}",
                                         "{\"usage\":{\"prompt_tokens\":1e99}}",
                                         "{\"usage\":{\"prompt_tokens\":4294967296}}",
                                         "{\"usage\":{\"prompt_tokens\":\"12\"}}",
                                         "{\"usage\":[1]}"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        assert_int_equal(counts_of(openai, broken[i]).prompt, -1);
    counts = counts_of(llama, "{\"timings\":{\"cache_n\":5,\"prompt_n\":7,\"predicted_n\":2}}");
    assert_int_equal(counts.prompt, 12);
    assert_int_equal(counts.cached, 5);
    assert_int_equal(counts.completion, 2);
    assert_int_equal(counts_of(llama, "{\"timings\":{}}").prompt, -1);
    assert_int_equal(
        counts_of(llama, "{\"timings\":{\"cache_n\":-5,\"prompt_n\":7,\"predicted_n\":2}}").prompt,
        -1);
}

static void test_facts(void **state)
{
    (void)state;
    struct adapter_facts facts = {.context = 7};
    json_t *answer =
        json_loads("{\"total_slots\":4,\"default_generation_settings\":{\"n_ctx\":8192}}", 0, NULL);
    adapter_kind_named("llama")->facts(answer, &facts);
    assert_int_equal(facts.context, 8192);
    assert_int_equal(facts.requests, 4);
    json_decref(answer);
    answer = json_loads("{\"total_slots\":-4}", 0, NULL);
    facts = (struct adapter_facts){.context = 7};
    adapter_kind_named("llama")->facts(answer, &facts);
    assert_int_equal(facts.context, 7);
    assert_int_equal(facts.requests, 0);
    json_decref(answer);
}

static void test_gauges(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *answer;
        bool is_told;
        uint32_t count;
    } rows[] = {
        {"llama", "[{\"is_processing\":true},{\"is_processing\":false},{}]", true, 1},
        {"llama", "{\"error\":1}", false, 0},
        {"vllm",
         "# HELP vllm:num_requests_running x\nvllm:num_requests_running{engine=\"0\",m=\"a} b\"} "
         "3.0\n"
         "vllm:num_requests_running{engine=\"1\"} 2.0\nvllm:num_requests_waiting{engine=\"0\"} "
         "1.0\n"
         "vllm:num_requests_running_total 99\n",
         true, 6},
        {"vllm", "vllm:num_requests_running 3.0\n", false, 0},
        {"vllm", "vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\n", false, 0},
        {"sglang", "{\"aggregate\":{\"total_running_reqs\":3,\"total_waiting_reqs\":2}}", true, 5},
        {"sglang", "{\"aggregate\":{\"total_running_reqs\":-3,\"total_waiting_reqs\":2}}", false,
         0},
        {"sglang", "<html>", false, 0},
        {"trtllm", "trtllm_num_requests_running 3.0\ntrtllm_num_requests_waiting 0\n", true, 3},
        {"tgi", "tgi_batch_current_size 4\ntgi_queue_size 1", true, 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t count = 0;
        const struct adapter_kind *kind = adapter_kind_named(rows[i].kind);
        assert_int_equal(kind->gauge(slice_of(rows[i].answer), &count), rows[i].is_told);
        if (rows[i].is_told)
            assert_int_equal(count, rows[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_counts),
                                       cmocka_unit_test(test_facts), cmocka_unit_test(test_gauges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
