#include "engine/bench/bench_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char output[65536];

static struct model_config model = {.architecture = "llama",
                                    .layers = 2,
                                    .width = 100,
                                    .heads = 2,
                                    .kv_heads = 1,
                                    .head_dim = 50,
                                    .hidden = 200,
                                    .vocab = 1000,
                                    .weight_bytes = 1 << 20,
                                    .parameters = 280000};

/* A prefill of 100 tokens in 1,000 µs and 4 steps of 2 streams in 400. Ceilings of 1 to 4
 * operations or bytes a ns: fractions can be told by heart. */
static struct bench_result make_result(void)
{
    struct bench_result result = {
        .options = {.model = "/some/where/tiny.Q8.gguf",
                    .kv_type = KV_TYPE_I8,
                    .prompt = 100,
                    .gen = 4,
                    .repeat = 3,
                    .shared = 70,
                    .batches = {2},
                    .batch_count = 1},
        .model = &model,
        .isa = "ref_int8",
        .threads = 2,
        .processors = 3,
        .ready_seconds = 0.375,
        .load = 0.25,
        .others = 0.125,
        .mean_context = 12,
        .step_bytes = 1 << 20,
        .token_bytes = 4321,
        .is_int8 = true,
        .moments = 7,
        .ceilings = {4, 2, 1, 0.5},
        .prefill = {100000, 100500},
        .decode = {{20000, 20100}},
        .pass_count = 2,
        .passes = {{.streams = 0, .way = BENCH_WAYS, .tokens = 100, .us = 1000, .count = 3},
                   {.streams = 2, .way = BENCH_GROUPED, .tokens = 8, .us = 400, .count = 1}}};
    result.passes[0].times[0] = (struct kernels_time){.name = "linear",
                                                      .outputs = 300,
                                                      .inputs = 100,
                                                      .calls = 2,
                                                      .ns = 500000,
                                                      .wait_ns = 50000,
                                                      .int8_operations = 1000000,
                                                      .bytes = 60000};
    result.passes[0].times[1] =
        (struct kernels_time){.name = "rope", .calls = 4, .ns = 100000, .wait_ns = 0};
    result.passes[0].times[2] = (struct kernels_time){
        .name = "attention", .calls = 2, .ns = 200000, .f32_operations = 300000, .bytes = 1000};
    result.passes[1].times[0] = (struct kernels_time){.name = "linear",
                                                      .outputs = 300,
                                                      .inputs = 100,
                                                      .calls = 4,
                                                      .ns = 300000,
                                                      .wait_ns = 30000,
                                                      .int8_operations = 80000,
                                                      .f32_operations = 10000,
                                                      .bytes = 240000};
    return result;
}

static void print(const struct bench_result *result)
{
    FILE *out = fmemopen(output, sizeof output, "w");
    assert_non_null(out);
    memset(output, 0, sizeof output);
    assert_int_equal(bench_report_print(result, out), STATUS_OK);
    fclose(out);
}

static void assert_says(const char *text)
{
    if (strstr(output, text) == NULL)
        fail_msg("no '%s' in\n%s", text, output);
}

static void test_json_of_operations(void **state)
{
    (void)state;
    struct bench_result result = make_result();
    result.options.is_json = true;
    print(&result);
    assert_says("{\"model\": \"tiny.Q8\", \"kv_type\": \"i8\", \"kv_bytes_per_token\": 4321, "
                "\"weights\": \"file\", \"weight_bytes_per_step\": 1048576, "
                "\"threads\": 2, \"processors\": 3, "
                "\"load_average\": 0.25, \"others\": 0.125, \"isa\": \"ref_int8\"");
    assert_says("\"decode_tokens_per_second\": {\"2\": 20000.0}, \"best\": "
                "{\"prefill_tokens_per_second\": 100500.0, "
                "\"decode_tokens_per_second\": {\"2\": 20100.0}}, ");
    assert_says("\"operations\": [{\"phase\": \"prefill\", \"streams\": 1, \"tokens\": 100, "
                "\"us_per_token\": 10.000, \"between_us_per_token\": 2.000, \"times\": ["
                "{\"name\": \"linear\", \"outputs\": 300, \"inputs\": 100, \"calls\": 2, "
                "\"us_per_token\": 5.000, \"wait_us_per_token\": 0.500, \"share\": 0.5000, "
                "\"bound\": \"int8\", \"fraction_of_ceiling\": 0.500}, "
                "{\"name\": \"rope\", \"calls\": 4, \"us_per_token\": 1.000, "
                "\"wait_us_per_token\": 0.000, \"share\": 0.1000}, "
                "{\"name\": \"attention\", \"calls\": 2, \"us_per_token\": 2.000, "
                "\"wait_us_per_token\": 0.000, \"share\": 0.2000, \"bound\": \"f32\", "
                "\"fraction_of_ceiling\": 0.750}]}, "
                "{\"phase\": \"decode\", \"shared_prefix\": \"grouped\", \"streams\": 2, "
                "\"tokens\": 8, \"us_per_token\": 50.000, "
                "\"between_us_per_token\": 12.500, \"times\": ["
                "{\"name\": \"linear\", \"outputs\": 300, \"inputs\": 100, \"calls\": 4, "
                "\"us_per_token\": 37.500, \"wait_us_per_token\": 3.750, \"share\": 0.7500, "
                "\"bound\": \"reading\", \"fraction_of_ceiling\": 0.800}]}], \"ceilings\": "
                "{\"moments\": 7, ");
    assert_string_equal(output + strlen(output) - 4, "}}}\n");
}

/* Prefill: a layer of 90,000 products, and 10,000 of the last one's K and V, at 2 of them a ns.
 * Decode: 1 MiB a step at 1 byte a ns takes longer than its 280,000 products for 2 streams. */
static void test_ceilings_of_the_rates(void **state)
{
    (void)state;
    struct bench_result result = make_result();
    result.options.is_json = true;
    print(&result);
    assert_says("\"fraction_of_ceiling\": {\"prefill_tokens_per_second\": 5.000, "
                "\"decode_tokens_per_second\": {\"2\": 10.486}}}\n");
    result.is_int8 = false; /* at 1 product a ns */
    print(&result);
    assert_says("\"fraction_of_ceiling\": {\"prefill_tokens_per_second\": 10.000, ");
}

/* Two of four experts: the same products as one of twice the size. A step of two rows reads three
 * experts on average, one more than a step of one row. */
static void test_ceilings_with_experts(void **state)
{
    (void)state;
    struct bench_result result = make_result();
    struct model_config config = model;
    config.experts = 4;
    config.experts_used = 2;
    config.hidden /= 2;
    result.model = &config;
    result.step_bytes = (1 << 20) - (1 << 18);
    result.experts_bytes = 1 << 20;
    result.options.is_json = true;
    print(&result);
    assert_says("\"fraction_of_ceiling\": {\"prefill_tokens_per_second\": 5.000, "
                "\"decode_tokens_per_second\": {\"2\": 10.486}}}\n");
}

/* 100,000 operations of bytes at 4 a ns and 50,000 of floats at 2 want the same ports in turn. */
static void test_both_kinds_of_products(void **state)
{
    (void)state;
    struct bench_result result = make_result();
    result.passes[0].times[2] = (struct kernels_time){.name = "attention",
                                                      .calls = 2,
                                                      .ns = 100000,
                                                      .int8_operations = 100000,
                                                      .f32_operations = 50000,
                                                      .bytes = 49000};
    print(&result);
    assert_says("waiting   0.0 %,  50.0 % of int8 and f32\n");
}

/* Where the system does not tell, the report does not either. */
static void test_others_unknown(void **state)
{
    (void)state;
    struct bench_result result = make_result();
    result.others = -1;
    print(&result);
    assert_says("load 0.25 before\nceilings ");
}

static void test_table_of_operations(void **state)
{
    (void)state;
    struct bench_result result = make_result();
    print(&result);
    assert_says(
        "machine   3 processors for this process, load 0.25 before, others used 0.12 processors "
        "meanwhile\n");
    assert_says(", 0.5 GB/s (256 MiB); the highest of 7 moments\n"
                "rates     medians of 3 runs, against the highest ceilings\n");
    assert_says("prefill   100 tokens                          100000.0 tok/s  500.0 % of 20000, "
                "best 100500.0\n");
    assert_says("\nprefill, by operation: 10.0 µs a token\n");
    assert_says(
        "  linear 300 x 100             5.00 µs   50.0 %, waiting   5.0 %,  50.0 % of int8\n");
    assert_says("  rope                         1.00 µs   10.0 %, waiting   0.0 %\n");
    assert_says("  between operations           2.00 µs   20.0 %\n");
    assert_says("\ndecode of 2, 70 shared, grouped, by operation: 50.0 µs a token\n");
    assert_says(",  80.0 % of reading\n");
}

/* Graphs are a device's alone. */
static void test_captures_of_a_device(void **state)
{
    (void)state;
    struct bench_result result = make_result();
    print(&result);
    assert_null(strstr(output, "captured"));
    result.is_device = true;
    result.captures = (struct kernels_captures){.count = 4, .us = 5000, .bytes = 8192};
    result.captures_measured = 1;
    print(&result);
    assert_says("graphs    4 captured, 1 of them inside measured runs; each 1.250 ms and 2 KiB\n");
    result.options.is_json = true;
    print(&result);
    assert_says("\"captures\": {\"count\": 4, \"in_measured_runs\": 1, \"ms_each\": 1.250, "
                "\"bytes_each\": 2048}, \"ceilings\": ");
}

/* Without --ops nothing of it is there. */
static void test_not_asked_for(void **state)
{
    (void)state;
    struct bench_result result = make_result();
    result.pass_count = 0;
    print(&result);
    assert_null(strstr(output, "operation"));
    result.options.is_json = true;
    print(&result);
    assert_null(strstr(output, "operations"));
}

static void test_full_disk(void **state)
{
    (void)state;
    struct bench_result result = make_result();
    char small[16];
    FILE *out = fmemopen(small, sizeof small, "w");
    assert_non_null(out);
    setvbuf(out, NULL, _IONBF, 0);
    assert_int_equal(bench_report_print(&result, out), STATUS_IO);
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_of_operations),
        cmocka_unit_test(test_ceilings_of_the_rates),
        cmocka_unit_test(test_ceilings_with_experts),
        cmocka_unit_test(test_table_of_operations),
        cmocka_unit_test(test_both_kinds_of_products),
        cmocka_unit_test(test_others_unknown),
        cmocka_unit_test(test_captures_of_a_device),
        cmocka_unit_test(test_not_asked_for),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
