/* schema_path: paths of values in objects and arrays, cut to their room. */
#include "engine/schema/schema_path.h"

#include "tests/unit/base_kit.h"

static void paths_name_members_and_places(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":{\"b\":[1,{\"c\":2}]},\"d\":3}";
    /* 0 {, 1 a, 2 {, 3 b, 4 [, 5 1, 6 {, 7 c, 8 2, 9 d, 10 3 */
    static const char *const paths[] = {
        "", ".a", ".a", ".a.b", ".a.b", ".a.b[0]", ".a.b[1]", ".a.b[1].c", ".a.b[1].c", ".d", ".d"};
    static const char *const keywords[] = {"", "a", "a", "b", "b", "b", "b", "c", "c", "d", "d"};
    const struct json_read_limits limits = {.depth = 8, .values = 64};
    struct json_read json;
    assert_int_equal(json_read(&json, slice_of(text), &limits), STATUS_OK);
    assert_int_equal(json.count, 11);
    for (uint32_t i = 0; i < json.count; i++) {
        char path[CONSTRAINT_PATH_BYTES], keyword[CONSTRAINT_KEYWORD_BYTES];
        schema_path_write(&json, i, path, keyword);
        assert_string_equal(path, paths[i]);
        assert_string_equal(keyword, keywords[i]);
    }
    json_read_free(&json);
}

static void long_names_are_cut_at_a_character(void **state)
{
    (void)state;
    struct buffer text;
    buffer_init(&text, 1024);
    buffer_append_text(&text, "{\"");
    for (int i = 0; i < 150; i++)
        buffer_append_text(&text, "\xc3\xa9\xe2\x82\xac");
    buffer_append_text(&text, "\":1}");
    const struct json_read_limits limits = {.depth = 8, .values = 64};
    struct json_read json;
    char path[CONSTRAINT_PATH_BYTES], keyword[CONSTRAINT_KEYWORD_BYTES];
    assert_int_equal(json_read(&json, buffer_slice(&text), &limits), STATUS_OK);
    schema_path_write(&json, 2, path, keyword);
    assert_true(strlen(path) > CONSTRAINT_PATH_BYTES - 5);
    assert_true(strlen(keyword) > CONSTRAINT_KEYWORD_BYTES - 5);
    unsigned char last = (unsigned char)keyword[strlen(keyword) - 1];
    assert_true(last == 0xa9 || last == 0xac);
    json_read_free(&json);
    buffer_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_name_members_and_places),
        cmocka_unit_test(long_names_are_cut_at_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
