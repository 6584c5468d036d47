#include "engine/models/hf_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/hf_writer.h"

static void test_names_of_files(void **state)
{
    char longest[256];
    (void)state;
    memset(longest, 'a', sizeof longest);
    assert_true(hf_folder_is_name(SLICE("model-00001-of-00002.safetensors")));
    assert_true(hf_folder_is_name(SLICE("..a")));
    assert_true(hf_folder_is_name((struct slice){longest, 255}));
    assert_false(hf_folder_is_name((struct slice){longest, 256}));
    assert_false(hf_folder_is_name(SLICE("")));
    assert_false(hf_folder_is_name(SLICE(".")));
    assert_false(hf_folder_is_name(SLICE("..")));
    assert_false(hf_folder_is_name(SLICE("../x")));
    assert_false(hf_folder_is_name(SLICE("/etc/passwd")));
    assert_false(hf_folder_is_name(SLICE("a/b")));
    assert_false(hf_folder_is_name(SLICE("a\0b")));
    assert_false(hf_folder_is_name(SLICE("a\n")));
}

static void test_files_are_read_within_a_limit(void **state)
{
    struct hf_writer folder;
    struct buffer text;
    (void)state;
    hf_writer_init(&folder);
    hf_writer_file(&folder, "a.json", SLICE("12345"));
    assert_int_equal(hf_folder_read(folder.descriptor, "a.json", 5, &text), STATUS_OK);
    assert_true(slice_is(buffer_slice(&text), "12345"));
    buffer_deinit(&text);
    assert_int_equal(hf_folder_read(folder.descriptor, "a.json", 4, &text), STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, "a.json"));
    buffer_deinit(&text);
    assert_int_equal(hf_folder_read(folder.descriptor, "b.json", 4, &text), STATUS_NOT_FOUND);
    buffer_deinit(&text);
    hf_writer_deinit(&folder);
}

static void test_only_regular_files_are_opened(void **state)
{
    struct hf_writer folder;
    int descriptor;
    (void)state;
    hf_writer_init(&folder);
    assert_int_equal(symlinkat("/etc/passwd", folder.descriptor, "link"), 0);
    assert_int_equal(mkdirat(folder.descriptor, "folder", 0700), 0);
    assert_int_equal(mkfifoat(folder.descriptor, "pipe", 0600), 0);
    static const char *const names[] = {"link", "folder", "pipe"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(hf_folder_open(folder.descriptor, names[i], &descriptor), STATUS_CORRUPT);
        assert_non_null(strstr(status_note()->message, names[i]));
        assert_int_equal(descriptor, -1);
    }
    hf_writer_deinit(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_files),
        cmocka_unit_test(test_files_are_read_within_a_limit),
        cmocka_unit_test(test_only_regular_files_are_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
