/* cli_print: values of every kind, wrong types too, and what --json leaves alone. */
#include "gateway/cli/cli_print.h"

#include "tests/unit/cli_kit.h"

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"N", "n", CLI_PRINT_NUMBER, false},
    {"AT", "at", CLI_PRINT_TIME, false},
    {"WORDS", "words", CLI_PRINT_WORDS, false},
    {"PEER", "actor.peer", CLI_PRINT_TEXT, false},
};

static void print(bool is_json, bool is_list, const char *text, const char *wanted)
{
    size_t length = 0;
    free(cli_kit.out);
    free(cli_kit.err);
    struct cli_options options = {.out = open_memstream(&cli_kit.out, &length),
                                  .err = open_memstream(&cli_kit.err, &length)};
    struct cli_call call = {.options = &options};
    call.values[CLI_FLAG_JSON] = is_json ? "" : NULL;
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    if (is_list)
        assert_int_equal(cli_print_list(&call, root, columns, 5), STATUS_OK);
    else
        assert_int_equal(cli_print_object(&call, slice_of(text), root, columns, 5), STATUS_OK);
    json_decref(root);
    fclose(options.out);
    fclose(options.err);
    assert_string_equal(cli_kit.out, wanted);
}

static void test_objects(void **state)
{
    (void)state;
    const char *text = "{\"id\":\"a\",\"n\":7,\"at\":0,\"words\":[\"x\",\"y\",1],"
                       "\"actor\":{\"peer\":\"p\\u001b\"},\"metadata\":{\"k\":\"v\"}}";
    print(false, false, text,
          "ID           a\nN            7\nAT           1970-01-01 00:00:00Z\n"
          "WORDS        x,y,\nPEER         p\xef\xbf\xbd\nMETA         k=v\n");
    print(true, false, text,
          "{\"id\":\"a\",\"n\":7,\"at\":0,\"words\":[\"x\",\"y\",1],"
          "\"actor\":{\"peer\":\"p\\u001b\"},\"metadata\":{\"k\":\"v\"}}\n");
    /* Members that are missing or of another type. */
    print(false, false, "{\"id\":null,\"n\":{\"a\":[1]},\"at\":\"x\",\"words\":7,\"actor\":8}",
          "ID           -\nN            {\"a\":[1]}\nAT           never\nWORDS        \n"
          "PEER         -\n");
}

static void test_lists(void **state)
{
    (void)state;
    print(false, true, "{\"data\":[{\"id\":\"a\",\"n\":10,\"at\":null},{\"id\":\"bb\",\"n\":7}]}",
          "ID   N  AT     WORDS  PEER\na   10  never         -\nbb   7  never         -\n");
    assert_string_equal(cli_kit.err, "");
    print(false, true, "{\"data\":[],\"has_more\":false}", "");
    assert_string_equal(cli_kit.err, "none\n");
    print(false, true, "{\"data\":[{\"id\":\"a\"}],\"has_more\":true}",
          "ID  N  AT     WORDS  PEER\na   -  never         -\n");
    assert_string_equal(cli_kit.err, "there are more rows: --limit N shows up to N\n");
    print(true, true, "{\"data\":[{\"id\":\"a\"}],\"has_more\":false}",
          "{\"data\":[{\"id\":\"a\"}],\"has_more\":false}\n");
}

static void state_is(const char *text, const char *wanted)
{
    static const struct cli_print_column column = {"STATE", "state", CLI_PRINT_STATE, false};
    json_t *row = json_loads(text, 0, NULL);
    struct buffer out;
    buffer_init(&out, 64);
    cli_print_value(row, &column, &out);
    assert_string_equal(out.bytes, wanted);
    buffer_deinit(&out);
    json_decref(row);
}

static void test_states_of_keys(void **state)
{
    (void)state;
    state_is("{\"expires_at\":null,\"revoked_at\":null}", "active");
    state_is("{\"expires_at\":99999999999,\"revoked_at\":null}", "active");
    state_is("{\"expires_at\":1,\"revoked_at\":null}", "expired");
    state_is("{\"expires_at\":1,\"revoked_at\":2}", "revoked");
}

/* A full disk behind standard output is told, not passed over. */
static void test_output_that_fails(void **state)
{
    (void)state;
    struct cli_options options = {.out = fopen("/dev/full", "w"), .err = stderr};
    struct cli_call call = {.options = &options};
    assert_non_null(options.out);
    assert_int_equal(cli_print_raw(&call, SLICE("text")), STATUS_IO);
    fclose(options.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_states_of_keys),
        cmocka_unit_test_teardown(test_output_that_fails, cli_kit_clear),
    };
    (void)cli_kit_setup; /* nobody is asked here */
    (void)cli_kit_teardown;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
