#include "engine/models/gguf.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "tests/kit/corpus.h"
#include "tests/kit/gguf_hostile.h"
#include "tests/kit/gguf_writer.h"

/* Parses a copy of exactly the right size: AddressSanitizer sees a read one byte past it. */
static enum status parse_exact(const struct buffer *buffer, size_t length)
{
    struct gguf *gguf = NULL;
    char *copy = malloc(length != 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, buffer->bytes, length);
    enum status status = gguf_parse(&gguf, copy, length);
    if (status == STATUS_OK)
        gguf_close(gguf);
    else
        assert_null(gguf);
    free(copy);
    return status;
}

struct fixture {
    struct buffer file;
    struct gguf *gguf;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    gguf_hostile_build_valid(&fixture->file);
    assert_int_equal(gguf_parse(&fixture->gguf, fixture->file.bytes, fixture->file.length),
                     STATUS_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    gguf_close(fixture->gguf);
    buffer_deinit(&fixture->file);
    free(fixture);
    return 0;
}

static void test_integers(void **state)
{
    const struct gguf *gguf = ((struct fixture *)*state)->gguf;
    uint32_t n = 0;
    assert_int_equal(gguf_get_u32(gguf, "u8", &n), STATUS_OK);
    assert_int_equal(n, 200);
    assert_int_equal(gguf_get_u32(gguf, "u16", &n), STATUS_OK);
    assert_int_equal(n, 60000);
    assert_int_equal(gguf_get_u32(gguf, "u32", &n), STATUS_OK);
    assert_true(n == 4000000000u);
    assert_int_equal(gguf_get_u32(gguf, "i32", &n), STATUS_OK);
    assert_int_equal(n, 70000);
    assert_int_equal(gguf_get_u32(gguf, "u64", &n), STATUS_OK);
    assert_true(n == UINT32_MAX);
    assert_int_equal(gguf_get_u32(gguf, "u64wide", &n), STATUS_CORRUPT);
    assert_int_equal(gguf_get_u32(gguf, "i8", &n), STATUS_CORRUPT);
    assert_non_null(strstr(status_note()->message, "-3"));
    assert_int_equal(gguf_get_u32(gguf, "i64", &n), STATUS_CORRUPT);
    assert_int_equal(gguf_get_u32(gguf, "f32", &n), STATUS_CORRUPT);
    assert_int_equal(gguf_get_u32(gguf, "absent", &n), STATUS_NOT_FOUND);
}

static void test_other_scalars(void **state)
{
    const struct gguf *gguf = ((struct fixture *)*state)->gguf;
    float f = 0;
    assert_int_equal(gguf_get_f32(gguf, "f32", &f), STATUS_OK);
    assert_float_equal(f, 0.5f, 0);
    assert_int_equal(gguf_get_f32(gguf, "f64", &f), STATUS_OK);
    assert_float_equal(f, 1e5f, 0);
    assert_int_equal(gguf_get_f32(gguf, "f32nan", &f), STATUS_CORRUPT);
    assert_int_equal(gguf_get_f32(gguf, "f64wide", &f), STATUS_CORRUPT);
    assert_int_equal(gguf_get_f32(gguf, "u32", &f), STATUS_CORRUPT);

    bool b = false;
    assert_int_equal(gguf_get_bool(gguf, "yes", &b), STATUS_OK);
    assert_true(b);
    assert_int_equal(gguf_get_bool(gguf, "no", &b), STATUS_OK);
    assert_false(b);
    assert_int_equal(gguf_get_bool(gguf, "u8", &b), STATUS_CORRUPT);

    struct slice text;
    assert_int_equal(gguf_get_string(gguf, "general.architecture", &text), STATUS_OK);
    assert_true(slice_is(text, "llama"));
    assert_int_equal(gguf_get_string(gguf, "empty", &text), STATUS_OK);
    assert_int_equal(text.length, 0);
    assert_int_equal(gguf_get_string(gguf, "words", &text), STATUS_CORRUPT);
    assert_true(gguf_has(gguf, "none"));
    assert_false(gguf_has(gguf, "non"));
}

static void test_arrays(void **state)
{
    const struct gguf *gguf = ((struct fixture *)*state)->gguf;
    struct gguf_array array;
    struct slice text;
    int32_t n = 0;
    float f = 0;
    const char *const words[] = {"one", "", "three"};
    assert_int_equal(gguf_get_array(gguf, "words", &array), STATUS_OK);
    assert_int_equal(array.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(gguf_array_next_string(&array, &text), STATUS_OK);
        assert_true(slice_is(text, words[i]));
    }
    assert_int_equal(gguf_array_next_string(&array, &text), STATUS_OUT_OF_RANGE);
    assert_int_equal(gguf_array_next_i32(&array, &n), STATUS_CORRUPT);

    assert_int_equal(gguf_get_array(gguf, "i32s", &array), STATUS_OK);
    assert_int_equal(gguf_array_next_f32(&array, &f), STATUS_CORRUPT);
    assert_int_equal(gguf_array_next_i32(&array, &n), STATUS_OK);
    assert_int_equal(n, -1);
    assert_int_equal(gguf_array_next_i32(&array, &n), STATUS_OK);
    assert_int_equal(n, INT32_MAX);
    assert_int_equal(gguf_array_next_i32(&array, &n), STATUS_OUT_OF_RANGE);

    assert_int_equal(gguf_get_array(gguf, "u64s", &array), STATUS_OK);
    assert_int_equal(gguf_array_next_i32(&array, &n), STATUS_CORRUPT);

    assert_int_equal(gguf_get_array(gguf, "f32s", &array), STATUS_OK);
    assert_int_equal(gguf_array_next_f32(&array, &f), STATUS_OK);
    assert_float_equal(f, 1.5f, 0);
    assert_int_equal(gguf_array_next_i32(&array, &n), STATUS_CORRUPT);

    assert_int_equal(gguf_get_array(gguf, "none", &array), STATUS_OK);
    assert_int_equal(array.count, 0);
    assert_int_equal(gguf_array_next_string(&array, &text), STATUS_OUT_OF_RANGE);
    assert_int_equal(gguf_get_array(gguf, "u32", &array), STATUS_CORRUPT);
    assert_int_equal(gguf_get_array(gguf, "absent", &array), STATUS_NOT_FOUND);
}

static void test_tensors(void **state)
{
    const struct fixture *fixture = *state;
    struct tensor tensor;
    struct slice name;
    float first[3];
    assert_int_equal(gguf_tensor_count(fixture->gguf), 2);
    assert_int_equal(gguf_get_tensor(fixture->gguf, "small", &tensor), STATUS_OK);
    assert_int_equal(tensor.dim_count, 1);
    assert_int_equal(tensor.dims[0], 3);
    assert_int_equal(tensor.dims[3], 1);
    assert_int_equal(tensor.bytes, 12);
    memcpy(first, tensor.data, sizeof first);
    assert_float_equal(first[2], 3, 0);
    gguf_tensor_at(fixture->gguf, 1, &name, &tensor);
    assert_true(slice_is(name, "blocks"));
    assert_int_equal(tensor.type->id, TENSOR_TYPE_q8_0);
    assert_int_equal(tensor.bytes, 136);
    assert_ptr_equal((const char *)tensor.data + 136, fixture->file.bytes + fixture->file.length);
    assert_int_equal(gguf_get_tensor(fixture->gguf, "smal", &tensor), STATUS_NOT_FOUND);
}

static void test_every_truncation_is_an_error(void **state)
{
    const struct fixture *fixture = *state;
    assert_int_equal(parse_exact(&fixture->file, fixture->file.length), STATUS_OK);
    for (size_t length = 0; length < fixture->file.length; length++)
        assert_int_equal(parse_exact(&fixture->file, length), STATUS_CORRUPT);
}

/* What a flipped bit means is open; that nothing is read outside (sanitizers) is not. */
static void test_every_flipped_bit_is_safe(void **state)
{
    const struct fixture *fixture = *state;
    struct buffer file = fixture->file;
    size_t refused = 0;
    for (size_t i = 0; i < file.length; i++) {
        char before = file.bytes[i];
        for (uint32_t bit = 0; bit < 8; bit++) {
            file.bytes[i] = (char)(before ^ (1 << bit));
            refused += parse_exact(&file, file.length) != STATUS_OK;
        }
        file.bytes[i] = before;
    }
    assert_true(refused > file.length);
}

static void test_hostile_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < gguf_hostile_count; i++) {
        struct buffer file;
        gguf_hostile_build(i, &file);
        enum status status = parse_exact(&file, file.length);
        if (status != gguf_hostile_cases[i].status ||
            strstr(status_note()->message, gguf_hostile_cases[i].says) == NULL)
            fail_msg("%s (%s): %s: %s", gguf_hostile_cases[i].name, gguf_hostile_cases[i].origin,
                     status_name(status), status_note()->message);
        buffer_deinit(&file);
    }
}

/* The corpus of the fuzz target holds each of them as a file. BANYAN_WRITE_CORPUS=1 writes it. */
static void test_hostile_files_are_in_the_corpus(void **state)
{
    (void)state;
    for (size_t i = 0; i <= gguf_hostile_count; i++) {
        struct buffer file;
        char path[256];
        bool is_valid_one = i == gguf_hostile_count;
        if (is_valid_one)
            gguf_hostile_build_valid(&file);
        else
            gguf_hostile_build(i, &file);
        snprintf(path, sizeof path, "tests/fuzz/corpus/gguf/%s.gguf",
                 is_valid_one ? "valid" : gguf_hostile_cases[i].name);
        if (!corpus_holds(path, buffer_slice(&file)))
            fail_msg("%s is missing or another", path);
        buffer_deinit(&file);
    }
}

static enum status parse_with(void (*fill)(struct gguf_writer *writer, uint64_t n), uint64_t n)
{
    struct gguf_writer writer;
    struct buffer file;
    gguf_writer_init(&writer);
    fill(&writer, n);
    gguf_writer_finish(&writer, &file);
    enum status status = parse_exact(&file, file.length);
    gguf_writer_deinit(&writer);
    buffer_deinit(&file);
    return status;
}

static void fill_name(struct gguf_writer *writer, uint64_t n)
{
    char name[LIMIT_GGUF_NAME_BYTES + 2] = {0};
    memset(name, 'k', n);
    gguf_writer_u32(writer, name, 1);
}

static void fill_dims(struct gguf_writer *writer, uint64_t n)
{
    uint64_t dims[5] = {1, 1, 1, 1, 1};
    float one = 1;
    gguf_writer_tensor(writer, "t", (uint32_t)n, dims, 0, &one, sizeof one);
}

static void fill_alignment(struct gguf_writer *writer, uint64_t n)
{
    float one = 1;
    writer->alignment = (uint32_t)n;
    gguf_writer_u32(writer, "general.alignment", (uint32_t)n);
    gguf_writer_tensor(writer, "t", 1, &(uint64_t){1}, 0, &one, sizeof one);
}

static void fill_keys(struct gguf_writer *writer, uint64_t n)
{
    char name[32];
    for (uint64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "k%llu", (unsigned long long)i);
        gguf_writer_bool(writer, name, 1);
    }
}

static void fill_version(struct gguf_writer *writer, uint64_t n)
{
    writer->version = (uint32_t)n;
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(parse_with(fill_name, LIMIT_GGUF_NAME_BYTES), STATUS_OK);
    assert_int_equal(parse_with(fill_name, LIMIT_GGUF_NAME_BYTES + 1), STATUS_CORRUPT);
    assert_int_equal(parse_with(fill_dims, 4), STATUS_OK);
    assert_int_equal(parse_with(fill_dims, 5), STATUS_CORRUPT);
    assert_int_equal(parse_with(fill_alignment, 8), STATUS_OK);
    assert_int_equal(parse_with(fill_alignment, 4), STATUS_CORRUPT);
    assert_int_equal(parse_with(fill_alignment, 65536), STATUS_OK);
    assert_int_equal(parse_with(fill_alignment, 131072), STATUS_CORRUPT);
    assert_int_equal(parse_with(fill_keys, LIMIT_GGUF_KEYS), STATUS_OK);
    assert_int_equal(parse_with(fill_keys, LIMIT_GGUF_KEYS + 1), STATUS_CORRUPT);
    assert_int_equal(parse_with(fill_keys, 0), STATUS_OK);
    assert_int_equal(parse_with(fill_version, 2), STATUS_OK);
    assert_int_equal(parse_with(fill_version, 0), STATUS_UNSUPPORTED);
}

static int refuse_nth(void *context, size_t bytes)
{
    (void)bytes;
    uint32_t *left = context;
    return (*left)-- == 0;
}

static void test_every_failing_allocation(void **state)
{
    const struct fixture *fixture = *state;
    enum status status = STATUS_NO_MEMORY;
    uint32_t n = 0;
    for (; status != STATUS_OK; n++) {
        uint32_t left = n;
        mem_hook_set(refuse_nth, &left);
        status = parse_exact(&fixture->file, fixture->file.length);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        assert_true(n < 100);
    }
    assert_true(n > 5); /* each allocation failed once, then none */
}

static void test_files(void **state)
{
    const struct fixture *fixture = *state;
    struct gguf *gguf = NULL;
    char path[] = "/tmp/test_gguf_XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(gguf_open(&gguf, path), STATUS_CORRUPT); /* empty */
    assert_int_equal(write(descriptor, fixture->file.bytes, fixture->file.length),
                     fixture->file.length);
    assert_int_equal(gguf_open(&gguf, path), STATUS_OK);
    assert_true(gguf_has(gguf, "words"));
    gguf_close(gguf);
    assert_int_equal(gguf_open_descriptor(&gguf, descriptor), STATUS_OK);
    gguf_close(gguf);
    gguf = NULL;
    mem_hook_set(refuse_nth, &(uint32_t){0});
    assert_int_equal(gguf_open(&gguf, path), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    close(descriptor);
    unlink(path);
    assert_int_equal(gguf_open(&gguf, path), STATUS_IO);
    assert_null(strstr(status_note()->message, path)); /* no file name in a message */
    assert_int_equal(gguf_open(&gguf, "/tmp"), STATUS_INVALID);
    assert_int_equal(gguf_open_descriptor(&gguf, -1), STATUS_IO);
    gguf_close(NULL);
}

/* KiB of the mapping around `at` that are in this process's memory. */
static long resident_kib(const void *at)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    char line[512];
    bool is_it = false;
    long kib = -1;
    while (maps != NULL && kib < 0 && fgets(line, sizeof line, maps) != NULL) {
        uintptr_t begin;
        uintptr_t end;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
            is_it = (uintptr_t)at >= begin && (uintptr_t)at < end;
        else if (is_it && strncmp(line, "Rss:", 4) == 0)
            kib = strtol(line + 4, NULL, 10);
    }
    if (maps != NULL)
        fclose(maps);
    return kib;
}

static uint64_t sum_bytes(const struct tensor *tensor)
{
    const unsigned char *bytes = tensor->data;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < tensor->bytes; i++)
        sum += bytes[i] * (i + 1);
    return sum;
}

/* The data's pages leave, nothing else does, and the same bytes come back when they are asked. */
static void test_data_is_forgotten(void **state)
{
    (void)state;
    enum { FLOATS = 1 << 20, KIB = FLOATS / 256 };
    const uint64_t dims[] = {FLOATS};
    float *data = malloc(FLOATS * sizeof *data);
    struct gguf_writer writer;
    struct buffer file;
    struct gguf *gguf;
    struct tensor tensor;
    struct slice text;
    char path[] = "/tmp/test_gguf_XXXXXX";
    assert_non_null(data);
    for (uint32_t i = 0; i < FLOATS; i++)
        data[i] = (float)i;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "text", "stays");
    gguf_writer_tensor(&writer, "long", 1, dims, TENSOR_TYPE_f32, data, FLOATS * sizeof *data);
    gguf_writer_finish(&writer, &file);
    gguf_writer_deinit(&writer);
    free(data);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    gguf_forget_data(gguf); /* borrowed: not ours to drop */
    assert_int_equal(gguf_get_tensor(gguf, "long", &tensor), STATUS_OK);
    const uint64_t sum = sum_bytes(&tensor);
    gguf_close(gguf);
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    unlink(path);
    assert_int_equal(write(descriptor, file.bytes, file.length), file.length);
    buffer_deinit(&file);
    assert_int_equal(gguf_open_descriptor(&gguf, descriptor), STATUS_OK);
    close(descriptor);
    assert_int_equal(gguf_get_tensor(gguf, "long", &tensor), STATUS_OK);
    assert_true(sum_bytes(&tensor) == sum);
    long before = resident_kib(tensor.data);
    gguf_forget_data(gguf);
    long after = resident_kib(tensor.data);
    if (before >= KIB)                 /* else this system does not tell */
        assert_in_range(after, 0, 64); /* the head, and at most the pages around it */
    assert_int_equal(gguf_get_string(gguf, "text", &text), STATUS_OK);
    assert_true(slice_is(text, "stays"));
    assert_true(sum_bytes(&tensor) == sum);
    gguf_close(gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_integers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_scalars, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arrays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_truncation_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_flipped_bit_is_safe, setup, teardown),
        cmocka_unit_test(test_hostile_files_are_refused),
        cmocka_unit_test(test_hostile_files_are_in_the_corpus),
        cmocka_unit_test(test_limits),
        cmocka_unit_test_setup_teardown(test_every_failing_allocation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files, setup, teardown),
        cmocka_unit_test(test_data_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
