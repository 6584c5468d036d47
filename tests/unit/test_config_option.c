#include "config/config_option.h"

#include "tests/unit/base_kit.h"

#include "config/base/limits.h"

static const struct config_option *option(const char *name)
{
    const struct config_option *found = config_option_find(slice_of(name));
    assert_non_null(found);
    return found;
}

/* Each row can be found, has a role, a help, a fallback inside its bounds, and its own name. */
static void test_table(void **state)
{
    (void)state;
    size_t options = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *row = &config_option_table[i];
        assert_true(strlen(row->help) > 0);
        if (row->kind == CONFIG_OPTION_GROUP)
            continue;
        options++;
        assert_ptr_equal(config_option_find(slice_of(row->name)), row);
        assert_true(row->roles != 0);
        assert_true(strlen(row->name) + 8 < CONFIG_OPTION_NAME_BYTES);
        if (row->kind != CONFIG_OPTION_TEXT && row->kind != CONFIG_OPTION_LIST) {
            assert_true(row->least <= row->most);
            assert_int_equal(config_option_check(row, "default", row->fallback), STATUS_OK);
        }
    }
    assert_true(options >= 20);
    assert_int_equal(config_option_table[0].kind, CONFIG_OPTION_GROUP);
}

static void test_find(void **state)
{
    (void)state;
    assert_ptr_equal(option("kv-memory"), option("KV_MEMORY"));
    assert_null(config_option_find(SLICE("kv")));
    assert_null(config_option_find(SLICE("kv_memoryy")));
    assert_null(config_option_find(SLICE("")));
}

static void test_nearest(void **state)
{
    static const struct {
        const char *name;
        const char *nearest;
    } cases[] = {{"modle", "model"},         {"lisen", "listen"},
                 {"kv-mem0ry", "kv_memory"}, {"max_conections", "max_connections"},
                 {"data-dri", "data_dir"},   {"thread", "threads"},
                 {"listen", "listen"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct config_option *near =
            config_option_nearest(slice_of(cases[i].name), CONFIG_SERVE, 3);
        assert_non_null(near);
        assert_string_equal(near->name, cases[i].nearest);
    }
    assert_null(config_option_nearest(SLICE("completely-else"), CONFIG_SERVE, 3));
    assert_null(config_option_nearest(SLICE("modle"), CONFIG_EDGE, 2)); /* not of that role */
    assert_null(config_option_nearest(SLICE("modle"), CONFIG_SERVE, 1));
    char longest[CONFIG_OPTION_NAME_BYTES + 1];
    memset(longest, 'x', sizeof longest);
    assert_null(config_option_nearest((struct slice){longest, sizeof longest}, CONFIG_SERVE, 99));
}

static void test_numbers(void **state)
{
    static const struct {
        const char *text;
        enum status status;
        int64_t number;
    } cases[] = {{"0", STATUS_OK, 0},
                 {"7", STATUS_OK, 7},
                 {"007", STATUS_OK, 7},
                 {"256", STATUS_OK, 256},
                 {"257", STATUS_OUT_OF_RANGE, 0},
                 {"-1", STATUS_OUT_OF_RANGE, 0},
                 {"9223372036854775807", STATUS_OUT_OF_RANGE, 0},
                 {"-9223372036854775808", STATUS_OUT_OF_RANGE, 0},
                 {"9223372036854775808", STATUS_INVALID, 0},
                 {"-9223372036854775809", STATUS_INVALID, 0},
                 {"", STATUS_INVALID, 0},
                 {"-", STATUS_INVALID, 0},
                 {"+1", STATUS_INVALID, 0},
                 {" 1", STATUS_INVALID, 0},
                 {"1 ", STATUS_INVALID, 0},
                 {"1.0", STATUS_INVALID, 0},
                 {"0x10", STATUS_INVALID, 0},
                 {"1K", STATUS_INVALID, 0},
                 {"1\n", STATUS_INVALID, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config_option_value value;
        enum status status =
            config_option_parse(option("threads"), "--threads", slice_of(cases[i].text), &value);
        if (status != cases[i].status)
            fail_msg("'%s': %s", cases[i].text, status_name(status));
        if (status == STATUS_OK)
            assert_int_equal(value.number, cases[i].number);
        else
            assert_string_equal(status_note()->param, "threads");
    }
}

static void test_bytes(void **state)
{
    static const struct {
        const char *text;
        enum status status;
        int64_t number;
    } cases[] = {{"1048576", STATUS_OK, 1 << 20},
                 {"1M", STATUS_OK, 1 << 20},
                 {"1024k", STATUS_OK, 1 << 20},
                 {"3G", STATUS_OK, INT64_C(3) << 30},
                 {"1T", STATUS_OK, INT64_C(1) << 40},
                 {"1048575", STATUS_OUT_OF_RANGE, 0},
                 {"1099511627777", STATUS_OUT_OF_RANGE, 0},
                 {"8388608T", STATUS_INVALID, 0}, /* 2^63 */
                 {"1KB", STATUS_INVALID, 0},
                 {"1 M", STATUS_INVALID, 0},
                 {"M", STATUS_INVALID, 0},
                 {"", STATUS_INVALID, 0},
                 {"1.5G", STATUS_INVALID, 0},
                 {"1P", STATUS_INVALID, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config_option_value value;
        enum status status = config_option_parse(option("kv_memory"), "--kv-memory",
                                                 slice_of(cases[i].text), &value);
        if (status != cases[i].status)
            fail_msg("'%s': %s", cases[i].text, status_name(status));
        if (status == STATUS_OK)
            assert_true(value.number == cases[i].number);
    }
    struct config_option_value value;
    config_option_parse(option("kv_memory"), "--kv-memory", SLICE("1K"), &value);
    assert_string_equal(status_note()->message, "--kv-memory is 1024, but must be from 1M to 1T");
}

static void test_bool(void **state)
{
    static const struct config_option flag = {
        .kind = CONFIG_OPTION_BOOL, .name = "flag", .most = 1};
    (void)state;
    struct config_option_value value;
    assert_int_equal(config_option_parse(&flag, "--flag", SLICE("true"), &value), STATUS_OK);
    assert_int_equal(value.number, 1);
    assert_int_equal(config_option_parse(&flag, "--flag", SLICE("false"), &value), STATUS_OK);
    assert_int_equal(value.number, 0);
    assert_int_equal(config_option_parse(&flag, "--flag", SLICE("yes"), &value), STATUS_INVALID);
}

static void test_text(void **state)
{
    static char text[LIMIT_OPTION_BYTES + 1];
    (void)state;
    memset(text, 'x', sizeof text);
    struct config_option_value value;
    const struct config_option *model = option("model");
    struct slice most = {text, LIMIT_OPTION_BYTES};
    struct slice more = {text, LIMIT_OPTION_BYTES + 1};
    assert_int_equal(config_option_parse(model, "--model", most, &value), STATUS_OK);
    assert_int_equal(value.text.length, LIMIT_OPTION_BYTES);
    assert_int_equal(config_option_parse(model, "--model", more, &value), STATUS_INVALID);
    assert_int_equal(config_option_parse(model, "--model", SLICE(""), &value), STATUS_OK);
    assert_int_equal(config_option_parse(model, "--model", SLICE("a\nb"), &value), STATUS_INVALID);
    assert_int_equal(config_option_parse(model, "--model", SLICE("\xff"), &value), STATUS_INVALID);
    struct slice nul = {"a\0b", 3};
    assert_int_equal(config_option_parse(model, "--model", nul, &value), STATUS_INVALID);
}

/* The limit of a text is each element's; all together have one of their own. */
static void test_long_lists(void **state)
{
    static char list[CONFIG_OPTION_LIST_BYTES + 1];
    (void)state;
    struct config_option_value value;
    const struct config_option *upstream = option("upstream");
    memset(list, 'x', sizeof list);
    for (size_t i = 1; i < 16; i++)
        list[i * LIMIT_OPTION_BYTES] = ' ';
    struct slice text = {list, CONFIG_OPTION_LIST_BYTES};
    assert_int_equal(config_option_parse(upstream, "--upstream", text, &value), STATUS_OK);
    text.length++;
    assert_int_equal(config_option_parse(upstream, "--upstream", text, &value), STATUS_INVALID);
    assert_non_null(strstr(status_note()->message, "longer than 16384 bytes"));
    list[2 * LIMIT_OPTION_BYTES] = 'x';
    text.length--;
    assert_int_equal(config_option_parse(upstream, "--upstream", text, &value), STATUS_INVALID);
    assert_non_null(strstr(status_note()->message, "longer than 1024 bytes"));
}

static void test_spellings(void **state)
{
    (void)state;
    char text[CONFIG_OPTION_NAME_BYTES];
    config_option_flag(option("kv_memory"), text);
    assert_string_equal(text, "--kv-memory");
    config_option_variable(option("kv_memory"), text);
    assert_string_equal(text, "BANYAN_KV_MEMORY");
    config_option_roles_text(CONFIG_SERVE | CONFIG_ENGINE, text);
    assert_string_equal(text, "serve, engine");
    config_option_roles_text(~0u, text);
    assert_string_equal(text, "serve, edge, engine, bench");
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0"},       {1, "1"},           {1023, "1023"},           {1024, "1K"},
        {1536, "1536"}, {1572864, "1536K"}, {INT64_C(1) << 30, "1G"}, {INT64_C(4) << 50, "4096T"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char bytes[24];
        config_option_bytes_text(cases[i].bytes, bytes);
        assert_string_equal(bytes, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),     cmocka_unit_test(test_find),
        cmocka_unit_test(test_nearest),   cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_bool),
        cmocka_unit_test(test_text),      cmocka_unit_test(test_long_lists),
        cmocka_unit_test(test_spellings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
