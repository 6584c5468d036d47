#include "engine/models/model_source.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/gguf_writer.h"

static void build(struct buffer *out)
{
    static const int32_t whole[] = {3, 0, 7};
    static const int32_t below[] = {1, -1};
    static const uint8_t bools[] = {1, 1, 0};
    static const char *const words[] = {"a", "bc"};
    static const float values[] = {1, 2, 3, 4, 5, 6};
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "general.architecture", "example");
    gguf_writer_u32(&writer, "example.count", 12);
    gguf_writer_f32(&writer, "example.real", 0.5f);
    gguf_writer_array(&writer, "example.whole", GGUF_WRITER_I32, 3, whole, sizeof whole);
    gguf_writer_array(&writer, "example.below", GGUF_WRITER_I32, 2, below, sizeof below);
    gguf_writer_array(&writer, "example.bools", GGUF_WRITER_BOOL, 3, bools, sizeof bools);
    gguf_writer_strings(&writer, "example.words", words, 2);
    gguf_writer_tensor(&writer, "token_embd.weight", 2, (uint64_t[]){3, 2}, TENSOR_TYPE_f32, values,
                       sizeof values);
    gguf_writer_tensor(&writer, "blk.12.attn_norm.weight", 1, (uint64_t[]){3}, TENSOR_TYPE_f32,
                       values, 3 * sizeof *values);
    gguf_writer_finish(&writer, out);
    gguf_writer_deinit(&writer);
}

static void check_keys(const struct model_source *source)
{
    uint32_t count = 0;
    uint32_t list[3] = {0};
    uint64_t length = 0;
    float real = 0;
    struct slice text;
    assert_int_equal(model_source_key_count(source), 7);
    assert_true(slice_is(model_source_key_at(source, 1), "example.count"));
    assert_true(model_source_has(source, "example.count"));
    assert_false(model_source_has(source, "example.other"));
    assert_int_equal(model_source_get_u32(source, "example.count", &count), STATUS_OK);
    assert_int_equal(count, 12);
    assert_int_equal(model_source_get_u32(source, "example.other", &count), STATUS_NOT_FOUND);
    assert_int_equal(model_source_get_f32(source, "example.real", &real), STATUS_OK);
    assert_true(real == 0.5f);
    assert_int_equal(model_source_get_string(source, "general.architecture", &text), STATUS_OK);
    assert_true(slice_is(text, "example"));
    assert_true(model_source_is_list(source, "example.bools"));
    assert_false(model_source_is_list(source, "example.count"));
    assert_false(model_source_is_list(source, "example.other"));
    assert_int_equal(model_source_get_length(source, "example.words", &length), STATUS_OK);
    assert_int_equal(length, 2);
    assert_int_equal(model_source_get_list(source, "example.whole", 3, list, &count), STATUS_OK);
    assert_int_equal(count, 3);
    assert_int_equal(list[2], 7);
    assert_int_equal(model_source_get_list(source, "example.bools", 3, list, &count), STATUS_OK);
    assert_int_equal(list[1], 1);
    assert_int_equal(list[2], 0);
}

static void check_wrong_lists(const struct model_source *source)
{
    uint32_t count = 0;
    uint32_t list[3];
    assert_int_equal(model_source_get_list(source, "example.whole", 2, list, &count),
                     STATUS_CORRUPT);
    assert_non_null(strstr(status_note()->message, "'example.whole' has 3 elements"));
    assert_int_equal(model_source_get_list(source, "example.below", 3, list, &count),
                     STATUS_CORRUPT);
    assert_int_equal(model_source_get_list(source, "example.words", 3, list, &count),
                     STATUS_CORRUPT);
    assert_int_equal(model_source_get_list(source, "example.count", 3, list, &count),
                     STATUS_CORRUPT);
}

static void check_tensors(const struct model_source *source)
{
    char name[MODEL_SOURCE_NAME_BYTES];
    struct slice found;
    struct tensor tensor;
    uint32_t index = 0;
    const struct model_source_name norm = {"attn_norm.weight", "input_layernorm.weight"};
    const struct model_source_name table = {"token_embd.weight", "model.embed_tokens.weight"};
    model_source_tensor_name(source, norm, 12, name);
    assert_string_equal(name, "blk.12.attn_norm.weight");
    assert_int_equal(model_source_get_tensor(source, name, &tensor), STATUS_OK);
    assert_int_equal(tensor.dims[0], 3);
    model_source_tensor_name(source, table, MODEL_SOURCE_NO_LAYER, name);
    assert_string_equal(name, "token_embd.weight");
    assert_int_equal(model_source_get_tensor(source, "output.weight", &tensor), STATUS_NOT_FOUND);
    assert_int_equal(model_source_tensor_count(source), 2);
    assert_int_equal(model_source_find_tensor(source, "blk.12.attn_norm.weight", &index),
                     STATUS_OK);
    assert_int_equal(index, 1);
    assert_int_equal(model_source_find_tensor(source, "attn_norm.weight", &index),
                     STATUS_NOT_FOUND);
    model_source_tensor_at(source, 0, &found, &tensor);
    assert_true(slice_is(found, "token_embd.weight"));
    assert_int_equal(tensor.dims[1], 2);
    assert_true(((const float *)tensor.data)[5] == 6);
}

static void test_a_view_of_a_file(void **state)
{
    (void)state;
    struct buffer file;
    struct gguf *gguf;
    build(&file);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    struct model_source source = {.gguf = gguf};
    check_keys(&source);
    check_wrong_lists(&source);
    check_tensors(&source);
    model_source_close(&source); /* the file is the caller's */
    assert_int_equal(gguf_tensor_count(gguf), 2);
    gguf_close(gguf);
    buffer_deinit(&file);
}

static void test_files_are_opened_and_closed(void **state)
{
    (void)state;
    char path[] = "/tmp/banyan-source-XXXXXX";
    struct model_source source;
    struct buffer file;
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    build(&file);
    assert_int_equal(write(descriptor, file.bytes, file.length), file.length);
    assert_int_equal(model_source_open(&source, path), STATUS_OK);
    check_tensors(&source);
    model_source_forget(&source);
    check_tensors(&source);
    model_source_close(&source);
    model_source_close(&source);
    assert_int_equal(model_source_open_descriptor(&source, descriptor), STATUS_OK);
    check_keys(&source);
    model_source_close(&source);
    close(descriptor);
    unlink(path);
    assert_int_equal(model_source_open(&source, path), STATUS_IO);
    model_source_close(&source);
    buffer_deinit(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_view_of_a_file),
        cmocka_unit_test(test_files_are_opened_and_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
