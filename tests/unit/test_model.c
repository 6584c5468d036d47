#include "engine/models/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "engine/models/model_arch.h"
#include "tests/kit/corpus.h"
#include "tests/kit/llama_file.h"

/* Opens a model over the bytes with the plainest kernels. */
static enum status open_bytes(const struct buffer *file)
{
    struct kernels *kernels;
    struct gguf *gguf;
    struct model *model = NULL;
    assert_int_equal(gguf_parse(&gguf, file->bytes, file->length), STATUS_OK);
    assert_int_equal(
        kernels_create(
            &kernels,
            &(struct kernels_options){.isa = "ref", .threads = 1, .rows_max = 4, .cols_max = 256}),
        STATUS_OK);
    enum status status = model_open(&model, kernels, &(struct model_source){.gguf = gguf}, 4, 2);
    if (status == STATUS_OK)
        assert_int_equal(model_config(model)->layers, 2);
    model_close(model);
    kernels_destroy(kernels);
    gguf_close(gguf);
    return status;
}

static void test_open_and_close(void **state)
{
    (void)state;
    struct llama_shape shape = llama_file_shape();
    struct buffer file;
    llama_file_build(&shape, &file);
    assert_int_equal(open_bytes(&file), STATUS_OK);
    buffer_deinit(&file);
    model_close(NULL);
}

/* A line a second at most, and its bytes whether told or not. */
static void test_progress(void **state)
{
    (void)state;
    struct model model = {.told_us = 5, .config.weight_bytes = 400 << 20};
    assert_false(model_arch_progress(&model, 100 << 20, 5));
    assert_false(model_arch_progress(&model, 100 << 20, 1000004));
    assert_true(model_arch_progress(&model, 100 << 20, 1000005));
    assert_false(model_arch_progress(&model, 1, 2000004));
    assert_true(model_arch_progress(&model, 1, 9000000));
    assert_int_equal(model.told_us, 9000000);
    assert_int_equal(model.packed_bytes, (300 << 20) + 2);
}

/* model_open gives everything back, whichever allocation fails (AddressSanitizer looks). */
static int refuse_nth(void *context, size_t bytes)
{
    (void)bytes;
    uint32_t *left = context;
    return (*left)-- == 0;
}

static void test_every_failing_allocation(void **state)
{
    (void)state;
    struct llama_shape shape = llama_file_shape();
    struct buffer file;
    struct kernels *kernels;
    struct gguf *gguf;
    llama_file_build(&shape, &file);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    assert_int_equal(
        kernels_create(
            &kernels,
            &(struct kernels_options){.isa = "ref", .threads = 1, .rows_max = 4, .cols_max = 256}),
        STATUS_OK);
    enum status status = STATUS_NO_MEMORY;
    uint32_t n = 0;
    for (; status != STATUS_OK; n++) {
        uint32_t left = n;
        struct model *model = NULL;
        mem_hook_set(refuse_nth, &left);
        status = model_open(&model, kernels, &(struct model_source){.gguf = gguf}, 4, 2);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        assert_true((model != NULL) == (status == STATUS_OK));
        model_close(model);
        assert_true(n < 1000);
    }
    assert_true(n > 20);
    kernels_destroy(kernels);
    gguf_close(gguf);
    buffer_deinit(&file);
}

/* The smallest models: the corpus of fuzz_model. BANYAN_WRITE_CORPUS=1 writes it. */
static void test_small_models_are_in_the_corpus(void **state)
{
    (void)state;
    const struct {
        const char *path;
        struct llama_shape shape;
    } files[] = {
        {"tests/fuzz/corpus/model/tied.gguf",
         {1, 4, 2, 1, 2, 4, 5, 16, 0, false, false, 0, 1, NULL}},
        {"tests/fuzz/corpus/model/own-output-factors.gguf",
         {1, 4, 1, 1, 4, 6, 3, 16, 1, true, true, 2, 2, NULL}},
        {"tests/fuzz/corpus/model/blocks.gguf",
         {1, 32, 2, 2, 16, 32, 3, 16, 2, false, false, 0, 3, NULL}},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct buffer file;
        llama_file_build(&files[i].shape, &file);
        if (!corpus_holds(files[i].path, buffer_slice(&file)))
            fail_msg("%s is missing or another", files[i].path);
        buffer_deinit(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_models_are_in_the_corpus),
        cmocka_unit_test(test_open_and_close),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
