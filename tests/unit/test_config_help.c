#include "config/config.h"

#include "tests/unit/base_kit.h"

#include <jansson.h>

#include "config/config_option.h"

static const enum config_role roles[] = {CONFIG_SERVE, CONFIG_EDGE, CONFIG_ENGINE, CONFIG_BENCH};

static char *text_of_help(enum config_role role)
{
    struct buffer out;
    buffer_init(&out, 100000);
    config_help(role, &out);
    assert_int_equal(out.status, STATUS_OK);
    return out.bytes;
}

/* Each line fits a terminal, each option of the role is there once and no other. */
static void test_help(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char *text = text_of_help(roles[i]);
        size_t column = 0;
        for (const char *c = text; *c != '\0'; c++) {
            if (((unsigned char)*c & 0xc0) != 0x80) /* characters, not bytes */
                column = *c == '\n' ? 0 : column + 1;
            assert_true(column <= 80);
        }
        for (size_t j = 0; j < config_option_count; j++) {
            const struct config_option *option = &config_option_table[j];
            char flag[CONFIG_OPTION_NAME_BYTES];
            char line[CONFIG_OPTION_NAME_BYTES + 4];
            if (option->kind == CONFIG_OPTION_GROUP)
                continue;
            config_option_flag(option, flag);
            snprintf(line, sizeof line, "\n  %s ", flag);
            const char *found = strstr(text, line);
            assert_int_equal(found != NULL, (option->roles & roles[i]) != 0);
            assert_true(found == NULL || strstr(found + 1, line) == NULL);
        }
        mem_free(text);
    }
    char *text = text_of_help(CONFIG_SERVE);
    assert_ptr_equal(strstr(text, "Model\n  --model TEXT "), text);
    assert_non_null(strstr(text, "\n\nNetwork\n"));
    assert_non_null(strstr(text, "(default 1G; 1M to 1T)"));
    mem_free(text);
    text = text_of_help(CONFIG_BENCH);
    assert_null(strstr(text, "Network")); /* a group without options is not shown */
    mem_free(text);
}

static void test_schema(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, 100000);
    config_schema(&out);
    json_t *schema = json_loads(out.bytes, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(schema);
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
    json_t *properties = json_object_get(schema, "properties");
    size_t options = 0;
    for (size_t i = 0; i < config_option_count; i++)
        options += config_option_table[i].kind != CONFIG_OPTION_GROUP;
    assert_int_equal(json_object_size(properties), options - 1); /* --config itself */
    json_t *threads = json_object_get(properties, "threads");
    assert_string_equal(json_string_value(json_object_get(threads, "type")), "integer");
    assert_int_equal(json_integer_value(json_object_get(threads, "maximum")), 256);
    json_t *memory = json_object_get(properties, "kv_memory");
    assert_int_equal(json_array_size(json_object_get(memory, "type")), 2);
    assert_int_equal(json_integer_value(json_object_get(memory, "default")), 1 << 30);
    json_decref(schema);
    buffer_deinit(&out);
}

static void test_markdown(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, 100000);
    config_markdown(&out);
    assert_int_equal(out.status, STATUS_OK);
    assert_non_null(strstr(out.bytes,
                           "| `--kv-memory BYTES` | memory for KV pages | 1G | 1M to 1T | "
                           "serve, engine |\n"));
    for (const char *line = out.bytes; *line != '\0'; line = strchr(line, '\n') + 1)
        assert_int_equal(line[0], '|');
    buffer_deinit(&out);
}

/* What is rendered is a file that gives the same values again. */
static void test_render_round_trip(void **state)
{
    (void)state;
    char folder[64];
    char path[96];
    kit_folder_make(folder);
    snprintf(path, sizeof path, "%s/config.json", folder);
    const struct config *first;
    const char *const arguments[] = {"--model",   "a \"b\" \\ \xc3\xa9", "--threads",
                                     "7",         "--kv-memory",         "5G",
                                     "--tls-key", "/keys/key.pem"};
    assert_int_equal(config_load(&first, CONFIG_SERVE, 8, arguments, NULL), STATUS_OK);
    struct buffer text;
    buffer_init(&text, 100000);
    config_render(first, &text);
    assert_int_equal(text.status, STATUS_OK);
    assert_non_null(strstr(text.bytes, "\"kv_memory\": 5368709120"));
    assert_null(strstr(text.bytes, "\"config\""));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text.bytes, file);
    fclose(file);
    const struct config *second;
    assert_int_equal(
        config_load(&second, CONFIG_SERVE, 2, (const char *const[]){"--config", path}, NULL),
        STATUS_OK);
    struct buffer again;
    buffer_init(&again, 100000);
    config_render(second, &again);
    assert_string_equal(again.bytes, text.bytes);
    assert_string_equal(second->model, first->model);
    config_release(first);
    config_release(second);
    buffer_deinit(&text);
    buffer_deinit(&again);
    kit_folder_remove(folder);
}

static void test_no_memory_shows_in_the_buffer(void **state)
{
    (void)state;
    for (int n = 1; n < 4; n++) {
        struct buffer out;
        int left = n;
        buffer_init(&out, 100000);
        mem_hook_set(kit_fail_at, &left);
        config_help(CONFIG_SERVE, &out);
        mem_hook_set(NULL, NULL);
        assert_int_equal(out.status, STATUS_NO_MEMORY);
        buffer_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_markdown),
        cmocka_unit_test(test_render_round_trip),
        cmocka_unit_test(test_no_memory_shows_in_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
