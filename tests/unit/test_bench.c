#include "engine/bench/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/llama_file.h"

enum { ARGUMENTS_MAX = 32, OUTPUT_BYTES = 65536 };

static char model_path[] = "/tmp/test_bench_XXXXXX";
static char output[OUTPUT_BYTES];

static int setup(void **state)
{
    (void)state;
    struct llama_shape shape = llama_file_shape();
    struct buffer file;
    int descriptor = mkstemp(model_path);
    assert_true(descriptor >= 0);
    shape.type = 8;
    llama_file_build(&shape, &file);
    assert_int_equal(write(descriptor, file.bytes, file.length), file.length);
    close(descriptor);
    buffer_deinit(&file);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(model_path);
    return 0;
}

/* Words separated by one space; what is printed is in `output`. */
static enum status run(const char *line)
{
    static char words[1024];
    char *arguments[ARGUMENTS_MAX];
    int count = 0;
    FILE *out = fmemopen(output, sizeof output, "w");
    assert_non_null(out);
    assert_true(strlen(line) < sizeof words);
    memcpy(words, line, strlen(line) + 1);
    for (char *word = words; *word != '\0' && count < ARGUMENTS_MAX;) {
        char *space = strchr(word, ' ');
        arguments[count++] = word;
        if (space == NULL)
            break;
        *space = '\0';
        word = space + 1;
    }
    output[0] = '\0';
    enum status status = bench_run(count, arguments, out);
    fclose(out);
    return status;
}

static double number_after(const char *key)
{
    const char *found = strstr(output, key);
    if (found == NULL)
        fail_msg("no %s in %s", key, output);
    return strtod(found + strlen(key), NULL);
}

static void test_json(void **state)
{
    (void)state;
    char line[256];
    snprintf(
        line, sizeof line,
        "--model %s --prompt 32 --chunk 13 --gen 4 --batch=1,3 --context 20 --repeat 2 --threads 2 "
        "--shared 70 --prefill-at 40 --isa ref_int8 --kv-type i8 --json",
        model_path);
    if (run(line) != STATUS_OK)
        fail_msg("%s", status_note()->message);
    assert_int_equal(output[0], '{');
    assert_true(number_after("\"model_ready_seconds\": ") >= 0);
    assert_true(number_after("\"prefill_tokens_per_second\": ") > 0);
    assert_true(number_after("\"decode_tokens_per_second\": {\"1\": ") > 0);
    assert_true(number_after(", \"3\": ") > 0);
    assert_int_equal(number_after("\"shared_prefix\": {\"tokens\": "), 70);
    assert_true(number_after("\"private\": {\"1\": ") > 0);
    assert_true(number_after("\"plain\": {\"1\": ") > 0);
    assert_true(number_after("\"grouped\": {\"1\": ") > 0);
    assert_true(number_after("\"int8_gops\": ") > 0);
    assert_true(number_after("\"read_gbps_model\": ") > 0);
    assert_true(number_after("\"read_gbps_dram\": ") > 0);
    /* Before all, behind both runs of three measurements, thrice for each batch that shares. */
    assert_int_equal(number_after("\"moments\": "), 1 + 3 * 2 + 2 * 3);
    assert_true(number_after("\"best\": {\"prefill_tokens_per_second\": ") >=
                number_after("\"prefill_tokens_per_second\": "));
    assert_true(number_after("\"fraction_of_ceiling\": {\"prefill_tokens_per_second\": ") > 0);
    assert_int_equal(number_after("\"threads\": "), 2);
    assert_int_equal(number_after("\"chunk\": "), 13);
    assert_int_equal(number_after("\"prefill_at\": "), 40);
    assert_int_equal(number_after("\"mean_context\": "), 20);
    assert_non_null(strstr(output, "\"isa\": \"ref_int8\""));
    assert_non_null(strstr(output, "\"backend\": \"cpu\", \"deterministic\": true, "));
    assert_non_null(strstr(output, "\"kv_type\": \"i8\""));
    /* K and V of 2 heads of 32 in 2 layers, each with a scale. */
    assert_int_equal(number_after("\"kv_bytes_per_token\": "), 2 * 2 * 2 * (32 + 4));
    char name[64];
    snprintf(name, sizeof name, "\"model\": \"%s\"", model_path + strlen("/tmp/"));
    assert_non_null(strstr(output, name));
    assert_string_equal(output + strlen(output) - 4, "}}}\n");

    snprintf(line, sizeof line,
             "--model %s --prompt 8 --prefill-at 9 --gen 1 --batch 2 --repeat 1 --threads 1",
             model_path);
    assert_int_equal(run(line), STATUS_OK);
    assert_null(strstr(output, "shared"));
    assert_null(strstr(output, "by operation"));
    assert_non_null(strstr(output, "1 threads, cpu; KV f16, 512 bytes a token"));
    assert_non_null(strstr(output, "processors for this process"));
    assert_non_null(strstr(output, "prefill   8 tokens after 9 "));
    assert_non_null(strstr(output, "decode    2 streams, mean context 128"));
}

/* One pass of the prefill and one of each batch, each with the model's operations; as many linear
 * calls as layers and the output layer make. */
static void test_operations(void **state)
{
    (void)state;
    char line[256];
    snprintf(line, sizeof line,
             "--model %s --prompt 32 --gen 4 --batch 1,3 --repeat 1 --threads 2 --isa ref_int8 "
             "--ops --json",
             model_path);
    if (run(line) != STATUS_OK)
        fail_msg("%s", status_note()->message);
    assert_true(number_after("\"processors\": ") >= 1);
    assert_int_equal(number_after("\"operations\": [{\"phase\": \"prefill\", \"streams\": 1, "
                                  "\"tokens\": "),
                     32);
    assert_int_equal(number_after("{\"phase\": \"decode\", \"streams\": 1, \"tokens\": "), 4);
    assert_int_equal(number_after("{\"phase\": \"decode\", \"streams\": 3, \"tokens\": "), 12);
    /* q, k and v over a width of 64: 4 and twice 2 heads of 32, in 2 layers and 4 steps. */
    const char *decode = strstr(output, "\"phase\": \"decode\"");
    const char *qkv = strstr(decode, "\"outputs\": 256, \"inputs\": 64, \"calls\": 8, ");
    if (qkv == NULL)
        fail_msg("no q, k and v in %s", decode);
    assert_true(number_after("{\"name\": \"attention\", \"calls\": ") >= 2);
    assert_non_null(strstr(output, "\"bound\": \"")); /* by what hangs on the machine */
    for (size_t i = 0; i < 4; i++) {
        const char *const names[] = {"embed", "rope_table", "kv_write", "attention"};
        char name[64];
        snprintf(name, sizeof name, "{\"name\": \"%s\", \"calls\": ", names[i]);
        assert_true(number_after(name) >= 1);
    }

    snprintf(line, sizeof line,
             "--model %s --prompt 8 --gen 1 --batch 2 --repeat 1 --threads 1 --shared 64 --ops",
             model_path);
    assert_int_equal(run(line), STATUS_OK);
    assert_non_null(strstr(output, "prefill, by operation: "));
    assert_non_null(strstr(output, "decode of 2, by operation: "));
    assert_non_null(strstr(output, "decode of 2, 64 shared, private, by operation: "));
    assert_non_null(strstr(output, "decode of 2, 64 shared, plain, by operation: "));
    assert_non_null(strstr(output, "decode of 2, 64 shared, grouped, by operation: "));
    assert_non_null(strstr(output, "between operations"));
}

/* 14 matrices of a Q8_0 file become codes; a step reads fewer bytes by what they have saved. */
static void test_weights_int4(void **state)
{
    (void)state;
    static const char *const names[] = {"file", "int4"};
    double bytes[2];
    char line[256];
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line,
                 "--model %s --prompt 8 --gen 1 --batch 1 --repeat 1 --threads 2 --isa auto "
                 "--weights %s --json",
                 model_path, names[i]);
        if (run(line) != STATUS_OK)
            fail_msg("%s", status_note()->message);
        bytes[i] = number_after("\"weight_bytes_per_step\": ");
        assert_true(number_after("\"prefill_tokens_per_second\": ") > 0);
    }
    assert_non_null(strstr(output, "\"weights\": \"int4\""));
    print_message("a step reads %.0f bytes of weights, %.0f as int4\n", bytes[0], bytes[1]);
    assert_true(bytes[1] != bytes[0]);
    *strstr(line, " --json") = '\0';
    assert_int_equal(run(line), STATUS_OK);
    assert_non_null(strstr(output, "weights   int4: 14 matrices of "));
    assert_non_null(strstr(output, "; 0 of 0.0 MiB as in the file"));
}

static void test_help(void **state)
{
    (void)state;
    assert_int_equal(run("--help"), STATUS_OK);
    assert_non_null(strstr(output, "usage: banyan bench"));
}

static void test_wrong_options(void **state)
{
    (void)state;
    const struct {
        const char *line;
        enum status status;
        const char *says;
    } cases[] = {
        {"", STATUS_INVALID, "--model"},
        {"--json", STATUS_INVALID, "--model"},
        {"--model", STATUS_INVALID, "--model"},
        {"--ops", STATUS_INVALID, "--model"},
        {"--model /nowhere/x.gguf", STATUS_IO, "model file"},
        {"--model x --what 3", STATUS_INVALID, "--what"},
        {"--model x what", STATUS_INVALID, "what"},
        {"--model x --shared 63", STATUS_OUT_OF_RANGE, "--shared"},
        {"--model x --prompt 0", STATUS_OUT_OF_RANGE, "--prompt"},
        {"--model x --prompt 1048577", STATUS_OUT_OF_RANGE, "--prompt"},
        {"--model x --prompt -1", STATUS_INVALID, "--prompt"},
        {"--model x --prompt 99999999999999999999", STATUS_OUT_OF_RANGE, "--prompt"},
        {"--model x --gen 1x", STATUS_INVALID, "--gen"},
        {"--model x --batch 0", STATUS_OUT_OF_RANGE, "--batch"},
        {"--model x --batch 1024,1025", STATUS_OUT_OF_RANGE, "--batch"},
        {"--model x --batch 1,,2", STATUS_INVALID, "--batch"},
        {"--model x --batch 4,4", STATUS_INVALID, "twice"},
        {"--model x --batch 1,2,3,4,5,6,7,8,9", STATUS_OUT_OF_RANGE, "--batch"},
        {"--model x --threads 257", STATUS_OUT_OF_RANGE, "--threads"},
        {"--model x --speculate fast", STATUS_INVALID, "--speculate"},
        {"--model x --speculate exit --draft-layers 0", STATUS_OUT_OF_RANGE, "--draft-layers"},
        {"--model /nowhere/x.gguf --speculate lookup", STATUS_IO, "model file"},
        {"--model x --deterministic no", STATUS_INVALID, "--deterministic"},
        {"--model x --repeat 101", STATUS_OUT_OF_RANGE, "--repeat"},
        {"--model x --weights int3", STATUS_INVALID, "file, int4 or q8"},
        {"--model x --no-late", STATUS_INVALID, "--no-late"},
        {"--model x --speculate lookup --no-early", STATUS_UNSUPPORTED, "--speculate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum status status = run(cases[i].line);
        if (status != cases[i].status || strstr(status_note()->message, cases[i].says) == NULL)
            fail_msg("%s: %s: %s", cases[i].line, status_name(status), status_note()->message);
    }
}

static void test_wrong_sizes_for_the_model(void **state)
{
    (void)state;
    char line[256];
    snprintf(line, sizeof line, "--model %s --prompt 513", model_path);
    assert_int_equal(run(line), STATUS_OUT_OF_RANGE); /* its context is 512 */
    assert_non_null(strstr(status_note()->message, "512"));
    snprintf(line, sizeof line, "--model %s --prompt 8 --prefill-at 505", model_path);
    assert_int_equal(run(line), STATUS_OUT_OF_RANGE);
    assert_non_null(strstr(status_note()->message, "--prefill-at"));
    snprintf(line, sizeof line, "--model %s --isa mmx", model_path);
    assert_int_equal(run(line), STATUS_UNSUPPORTED);
    snprintf(line, sizeof line, "--model %s --isa ref --no-graphs", model_path);
    assert_int_equal(run(line), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "kernels of a device"));
    assert_int_equal(run("--model /dev/null"), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),          cmocka_unit_test(test_operations),
        cmocka_unit_test(test_weights_int4),  cmocka_unit_test(test_help),
        cmocka_unit_test(test_wrong_options), cmocka_unit_test(test_wrong_sizes_for_the_model),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
