#include "engine/models/safetensors.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/limits_files.h"
#include "config/base/mem.h"
#include "tests/kit/corpus.h"
#include "tests/kit/safetensors_hostile.h"

/* Parses a copy of exactly the right size: AddressSanitizer sees a read one byte past it. */
static enum status parse_exact(const struct buffer *buffer, size_t length)
{
    struct safetensors *file = NULL;
    char *copy = malloc(length != 0 ? length : 1);
    assert_non_null(copy);
    if (length != 0)
        memcpy(copy, buffer->bytes, length);
    enum status status = safetensors_parse(&file, copy, length, "x.safetensors");
    if (status != STATUS_OK)
        assert_null(file);
    safetensors_close(file);
    free(copy);
    return status;
}

static void test_tensors_are_found_by_name(void **state)
{
    struct safetensors *file;
    struct buffer bytes;
    (void)state;
    safetensors_hostile_build_valid(&bytes);
    assert_int_equal(safetensors_parse(&file, bytes.bytes, bytes.length, "x"), STATUS_OK);
    assert_int_equal(safetensors_count(file), 3);
    const struct safetensors_tensor *a = safetensors_find(file, SLICE("a"));
    assert_non_null(a);
    assert_int_equal(a->dtype, SAFETENSORS_F32);
    assert_int_equal(a->dim_count, 2);
    assert_int_equal(a->shape[0], 2);
    assert_int_equal(a->shape[1], 3);
    assert_int_equal(a->shape[2], 1);
    assert_int_equal(a->bytes, 24);
    assert_int_equal(a->data[0], 0);
    const struct safetensors_tensor *b = safetensors_find(file, SLICE("b"));
    assert_int_equal(b->dtype, SAFETENSORS_BF16);
    assert_int_equal(b->data[0], 24);
    const struct safetensors_tensor *scalar = safetensors_find(file, SLICE("scalar"));
    assert_int_equal(scalar->dim_count, 0);
    assert_int_equal(scalar->bytes, 8);
    assert_string_equal(safetensors_dtype_name(scalar->dtype), "I64");
    assert_null(safetensors_find(file, SLICE("")));
    assert_null(safetensors_find(file, SLICE("aa")));
    assert_null(safetensors_find(file, SLICE("__metadata__")));
    assert_ptr_equal(safetensors_at(file, 0), a);
    assert_ptr_equal(safetensors_at(file, 2), scalar);
    safetensors_close(file);
    buffer_deinit(&bytes);
}

static void test_a_file_without_tensors_is_read(void **state)
{
    struct buffer bytes;
    (void)state;
    safetensors_hostile_write(&bytes, SLICE("{}"), 0, 0);
    assert_int_equal(parse_exact(&bytes, bytes.length), STATUS_OK);
    buffer_deinit(&bytes);
}

static void test_hostile_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < safetensors_hostile_count; i++) {
        const struct safetensors_hostile *hostile = &safetensors_hostile_cases[i];
        struct buffer file;
        safetensors_hostile_build(i, &file);
        enum status status = parse_exact(&file, file.length);
        if (status != hostile->status || strstr(status_note()->message, hostile->says) == NULL ||
            strstr(status_note()->message, "x.safetensors") == NULL)
            fail_msg("%s: %s: %s", hostile->name, status_name(status), status_note()->message);
        buffer_deinit(&file);
    }
}

static void test_hostile_files_are_in_the_corpus(void **state)
{
    (void)state;
    for (size_t i = 0; i <= safetensors_hostile_count; i++) {
        struct buffer file;
        char path[128];
        const bool is_valid_one = i == safetensors_hostile_count;
        if (is_valid_one)
            safetensors_hostile_build_valid(&file);
        else
            safetensors_hostile_build(i, &file);
        snprintf(path, sizeof path, "tests/fuzz/corpus/safetensors/%s.safetensors",
                 is_valid_one ? "valid" : safetensors_hostile_cases[i].name);
        if (!corpus_holds(path, buffer_slice(&file)))
            fail_msg("%s differs: run with BANYAN_WRITE_CORPUS=1", path);
        buffer_deinit(&file);
    }
}

static void test_every_cut_is_refused(void **state)
{
    struct buffer file;
    (void)state;
    safetensors_hostile_build_valid(&file);
    for (size_t length = 0; length < file.length; length++)
        assert_int_equal(parse_exact(&file, length), STATUS_CORRUPT);
    assert_int_equal(parse_exact(&file, file.length), STATUS_OK);
    buffer_deinit(&file);
}

static void test_too_many_tensors_are_refused(void **state)
{
    struct buffer header;
    struct buffer file;
    (void)state;
    buffer_init(&header, 1 << 24);
    buffer_append_text(&header, "{\"0\":0");
    for (uint32_t i = 1; i <= LIMIT_SAFETENSORS_TENSORS; i++)
        buffer_printf(&header, ",\"%u\":0", i);
    buffer_append_char(&header, '}');
    safetensors_hostile_write(&file, buffer_slice(&header), 0, 0);
    assert_int_equal(parse_exact(&file, file.length), STATUS_LIMIT);
    buffer_deinit(&file);
    buffer_deinit(&header);
}

static int fail_after(void *context, size_t bytes)
{
    int *left = context;
    (void)bytes;
    return (*left)-- > 0 ? 0 : 1;
}

static void test_no_memory_at_any_point_leaks_nothing(void **state)
{
    struct buffer bytes;
    enum status status = STATUS_NO_MEMORY;
    int tries = 0;
    (void)state;
    safetensors_hostile_build_valid(&bytes);
    for (; status == STATUS_NO_MEMORY; tries++) {
        struct safetensors *file;
        int left = tries;
        mem_hook_set(fail_after, &left);
        status = safetensors_parse(&file, bytes.bytes, bytes.length, "x");
        mem_hook_set(NULL, NULL);
        if (status == STATUS_OK)
            safetensors_close(file);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(tries > 3);
    buffer_deinit(&bytes);
}

static void test_a_file_is_mapped_and_forgotten(void **state)
{
    struct safetensors *file;
    struct buffer bytes;
    int descriptor = memfd_create("model", MFD_CLOEXEC);
    (void)state;
    assert_true(descriptor >= 0);
    assert_int_equal(safetensors_open_descriptor(&file, descriptor, "x"), STATUS_CORRUPT);
    assert_non_null(strstr(status_note()->message, "empty"));
    safetensors_hostile_build_valid(&bytes);
    assert_int_equal(write(descriptor, bytes.bytes, bytes.length), (ssize_t)bytes.length);
    assert_int_equal(safetensors_open_descriptor(&file, descriptor, "x"), STATUS_OK);
    close(descriptor);
    safetensors_forget(file);
    assert_int_equal(safetensors_find(file, SLICE("b"))->data[7], 31);
    safetensors_close(file);
    buffer_deinit(&bytes);
    descriptor = open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(safetensors_open_descriptor(&file, descriptor, "x"), STATUS_IO);
    close(descriptor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_found_by_name),
        cmocka_unit_test(test_a_file_without_tensors_is_read),
        cmocka_unit_test(test_hostile_files_are_refused),
        cmocka_unit_test(test_hostile_files_are_in_the_corpus),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_too_many_tensors_are_refused),
        cmocka_unit_test(test_no_memory_at_any_point_leaks_nothing),
        cmocka_unit_test(test_a_file_is_mapped_and_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
