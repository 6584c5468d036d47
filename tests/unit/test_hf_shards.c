#include "engine/models/hf_shards.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/limits_files.h"
#include "config/base/mem.h"
#include "tests/kit/hf_writer.h"

#define INDEX  "model.safetensors.index.json"
#define FIRST  "model-00001-of-00003.safetensors"
#define SECOND "model-00002-of-00003.safetensors"
#define THIRD  "model-00003-of-00003.safetensors"

enum { TENSORS = 7 };

static void begin(struct hf_writer *folder)
{
    hf_writer_init(folder);
    for (uint32_t i = 0; i < TENSORS; i++) {
        const uint64_t shape[] = {2, i + 1};
        float values[2 * TENSORS];
        char name[16];
        snprintf(name, sizeof name, "t%u", i);
        for (uint32_t v = 0; v < 2 * TENSORS; v++)
            values[v] = (float)(100 * i + v);
        hf_writer_tensor(folder, name, "F32", 2, shape, values, 8 * (i + 1));
    }
}

static void check(const struct hf_shards *shards)
{
    assert_int_equal(hf_shards_count(shards), TENSORS);
    for (uint32_t i = 0; i < TENSORS; i++) {
        char name[16];
        float first;
        snprintf(name, sizeof name, "t%u", i);
        const struct safetensors_tensor *tensor = hf_shards_find(shards, slice_of(name));
        assert_non_null(tensor);
        assert_int_equal(tensor->shape[1], i + 1);
        memcpy(&first, tensor->data, sizeof first);
        assert_true(first == (float)(100 * i));
        assert_ptr_equal(hf_shards_find(shards, hf_shards_at(shards, i)->name),
                         hf_shards_at(shards, i));
    }
    assert_null(hf_shards_find(shards, SLICE("t7")));
}

static void test_one_file_and_three(void **state)
{
    (void)state;
    for (uint32_t files = 1; files <= 3; files += 2) {
        struct hf_writer folder;
        struct hf_shards *shards;
        begin(&folder);
        hf_writer_finish(&folder, files);
        assert_int_equal(hf_shards_open(&shards, folder.descriptor), STATUS_OK);
        assert_int_equal(hf_shards_files(shards), files);
        hf_shards_forget(shards);
        check(shards);
        hf_shards_close(shards);
        hf_writer_deinit(&folder);
    }
}

static uint32_t open_files(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Opens the directory, which must fail with these words and leave no file open. */
static void refused(const struct hf_writer *folder, enum status status, const char *says)
{
    struct hf_shards *shards;
    const uint32_t before = open_files();
    const enum status found = hf_shards_open(&shards, folder->descriptor);
    assert_null(shards);
    if (found != status || strstr(status_note()->message, says) == NULL)
        fail_msg("'%s' wanted: %s", says, status_note()->message);
    assert_int_equal(open_files(), before);
}

#define MAP(text) SLICE("{\"weight_map\":{" text "}}")
#define ALL                                                                                        \
    "\"t0\":\"" FIRST "\",\"t3\":\"" FIRST "\",\"t6\":\"" FIRST "\",\"t1\":\"" SECOND              \
    "\",\"t4\":\"" SECOND "\",\"t2\":\"" THIRD "\""

static void test_hostile_indexes_are_refused(void **state)
{
    static const struct {
        struct slice index;
        const char *says;
    } cases[] = {
        {MAP(ALL ",\"t5\":\"../" THIRD "\""), "plain name"},
        {MAP(ALL ",\"t5\":\"/etc/passwd\""), "plain name"},
        {MAP(ALL ",\"t5\":\"..\""), "plain name"},
        {MAP(ALL ",\"t5\":7"), "plain name"},
        {MAP(ALL ",\"t5\":\"\\u0000\""), "plain name"},
        {MAP(ALL ",\"t5\":\"link.safetensors\""), "symbolic link"},
        {MAP(ALL ",\"t5\":\"twin.safetensors\""), "are one file"},
        {MAP(ALL ",\"t5\":\"" FIRST "\""), "tensor 't5' is not in " FIRST},
        {MAP(ALL ",\"t5\":\"" THIRD "\",\"t7\":\"" THIRD "\""), "tensor 't7' is not in"},
        {MAP(ALL), "lists 6 tensors, but its files have 7"},
        {MAP(ALL ",\"t5\":\"" THIRD "\",\"t5\":\"" THIRD "\""), "JSON"},
        {SLICE("{\"weight_map\":[]}"), "no object weight_map"},
        {SLICE("[]"), "no object weight_map"},
        {SLICE("{\"weight_map\":{}"), "JSON"},
        {SLICE("[[[[[[[[[[[[[[[["), "JSON"},
    };
    struct hf_writer folder;
    char path[512];
    char twin[512];
    (void)state;
    begin(&folder);
    hf_writer_finish(&folder, 3);
    assert_int_equal(symlinkat(THIRD, folder.descriptor, "link.safetensors"), 0);
    snprintf(path, sizeof path, "%s/" FIRST, folder.path);
    snprintf(twin, sizeof twin, "%s/twin.safetensors", folder.path);
    assert_int_equal(link(path, twin), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hf_writer_file(&folder, INDEX, cases[i].index);
        refused(&folder, STATUS_CORRUPT, cases[i].says);
    }
    hf_writer_file(&folder, INDEX, MAP(ALL ",\"t5\":\"none.safetensors\""));
    refused(&folder, STATUS_NOT_FOUND, "none.safetensors");
    hf_writer_deinit(&folder);
}

static void test_a_folder_without_weights(void **state)
{
    struct hf_writer folder;
    (void)state;
    hf_writer_init(&folder);
    refused(&folder, STATUS_NOT_FOUND, "neither");
    hf_writer_deinit(&folder);
}

static void test_more_files_than_the_limit(void **state)
{
    enum { FILES = LIMIT_SHARDS + 1 };
    const uint64_t shape = 1;
    struct hf_writer folder;
    char name[16];
    (void)state;
    hf_writer_init(&folder);
    for (uint32_t i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "t%u", i);
        hf_writer_tensor(&folder, name, "F32", 1, &shape, &(float){1}, sizeof(float));
    }
    hf_writer_finish(&folder, FILES);
    refused(&folder, STATUS_LIMIT, "more than 256 files");
    hf_writer_deinit(&folder);
}

static int fail_after(void *context, size_t bytes)
{
    int *left = context;
    (void)bytes;
    return (*left)-- > 0 ? 0 : 1;
}

static void test_no_memory_at_any_point_leaks_nothing(void **state)
{
    struct hf_writer folder;
    enum status status = STATUS_NO_MEMORY;
    int tries = 0;
    (void)state;
    begin(&folder);
    hf_writer_finish(&folder, 3);
    const uint32_t before = open_files();
    for (; status == STATUS_NO_MEMORY; tries++) {
        struct hf_shards *shards;
        int left = tries;
        mem_hook_set(fail_after, &left);
        status = hf_shards_open(&shards, folder.descriptor);
        mem_hook_set(NULL, NULL);
        hf_shards_close(shards);
        assert_int_equal(open_files(), before);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(tries > 6);
    hf_writer_deinit(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_file_and_three),
        cmocka_unit_test(test_hostile_indexes_are_refused),
        cmocka_unit_test(test_a_folder_without_weights),
        cmocka_unit_test(test_more_files_than_the_limit),
        cmocka_unit_test(test_no_memory_at_any_point_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
