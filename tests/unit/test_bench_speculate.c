#include "engine/bench/bench_speculate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/engine_run.h"

static char output[4096];

static enum status run(struct bench_options *options)
{
    FILE *out = fmemopen(output, sizeof output, "w");
    assert_non_null(out);
    options->model = engine_run_make_model();
    options->isa = "ref_int8";
    options->kv_type = KV_TYPE_F16;
    options->threads = 1;
    options->repeat = 2;
    output[0] = '\0';
    enum status status = bench_speculate(options, out);
    fclose(out);
    engine_run_remove_model();
    return status;
}

/* What is right and how fast it is hangs on weights and machine; that answers are the same is
 * checked by the measurement itself. */
static void test_all_ways(void **state)
{
    (void)state;
    char draft[64];
    const struct llama_shape shape = engine_run_shape();
    engine_run_write_model(&shape, draft, sizeof draft);
    struct bench_options options = {.speculation = ENGINE_SPECULATION_LOOKUP, .gen = 24};
    assert_int_equal(run(&options), STATUS_OK);
    assert_non_null(strstr(output, "speculation by lookup, one stream, 24 tokens an answer\n"));
    assert_non_null(strstr(output, "  copy "));
    assert_non_null(strstr(output, "  fresh "));
    options.speculation = ENGINE_SPECULATION_EXIT;
    options.draft_layers = 1;
    options.is_json = true;
    assert_int_equal(run(&options), STATUS_OK);
    assert_non_null(
        strstr(output, "{\"speculation\": \"exit\", \"tokens\": 24, \"texts\": {\"copy\""));
    assert_non_null(strstr(output, "}, \"fresh\": {\"without\": "));
    assert_string_equal(output + strlen(output) - 4, "}}}\n");
    options.speculation = ENGINE_SPECULATION_MODEL;
    options.draft_model = draft;
    assert_int_equal(run(&options), STATUS_OK);
    unlink(draft);
    assert_non_null(strstr(output, "{\"speculation\": \"model\", \"tokens\": 24, "));
    assert_non_null(strstr(output, "\"tokens_a_step\": "));
}

static void test_wrong(void **state)
{
    (void)state;
    struct bench_options options = {.speculation = ENGINE_SPECULATION_LOOKUP, .gen = 273};
    assert_int_equal(run(&options), STATUS_OUT_OF_RANGE);
    assert_non_null(strstr(status_note()->message, "the model's context is 512"));
    options.gen = 1;
    assert_int_equal(run(&options), STATUS_OUT_OF_RANGE);
    assert_non_null(strstr(status_note()->message, "at least 2"));
    options.speculation = ENGINE_SPECULATION_EXIT;
    options.gen = 8;
    assert_int_equal(run(&options), STATUS_OUT_OF_RANGE);
    assert_non_null(strstr(status_note()->message, "--draft-layers"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ways),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
