/* cli_config: options with their sources, what a file would change, a reload. */
#include "gateway/cli/cli_config.h"

#include "tests/unit/cli_kit.h"

static void test_show(void **state)
{
    (void)state;
    const char *text = "{\"object\":\"config\",\"revision\":1,\"options\":{\"model\":\"m.gguf\","
                       "\"drain_delay_s\":2},\"sources\":{\"model\":\"flag\",\"drain_delay_s\":"
                       "\"file\"},\"reloadable\":[\"drain_delay_s\"]}";
    cli_kit_answer(200, text);
    assert_int_equal(CLI_KIT_RUN("config", "show"), CLI_DONE);
    assert_string_equal(cli_kit.out, "OPTION         VALUE   FROM  RELOAD\n"
                                     "model          m.gguf  flag  \n"
                                     "drain_delay_s  2       file  yes\n");
    cli_kit_answer(200, text);
    assert_int_equal(CLI_KIT_RUN("config", "show", "--json"), CLI_DONE);
    assert_int_equal(strncmp(cli_kit.out, text, strlen(text)), 0);
}

static const char *file_of(const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/options.json", cli_kit.dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void test_validate(void **state)
{
    (void)state;
    const char *path = file_of("{\"drain_delay_s\":3}");
    cli_kit_answer(200, "{\"object\":\"config_validation\",\"valid\":true,\"errors\":[],"
                        "\"changes\":[{\"option\":\"drain_delay_s\",\"from\":0,\"to\":3,"
                        "\"takes\":\"reload\"}],\"overridden\":[]}");
    assert_int_equal(CLI_KIT_RUN("config", "validate", path), CLI_DONE);
    cli_kit_has(cli_kit.seen, "POST /admin/v1/config/validate HTTP");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"options\":{\"drain_delay_s\":3}}");
    cli_kit_has(cli_kit.out, "drain_delay_s  0     3   reload\n");
    cli_kit_answer(200, "{\"object\":\"config_validation\",\"valid\":false,\"errors\":[{\"param\":"
                        "\"drain\",\"message\":\"no such option\"}],\"changes\":[],"
                        "\"overridden\":[]}");
    assert_int_not_equal(CLI_KIT_RUN("config", "validate", path), CLI_DONE);
    cli_kit_has(cli_kit.out, "drain   no such option\n");
    assert_int_not_equal(CLI_KIT_RUN("config", "validate", "/nowhere"), CLI_DONE);
    assert_int_not_equal(CLI_KIT_RUN("config", "validate", file_of("{")), CLI_DONE);
}

static void test_reload(void **state)
{
    (void)state;
    cli_kit_answer(200, "{\"object\":\"config_reload\",\"revision\":2,\"changes\":[]}");
    assert_int_equal(CLI_KIT_RUN("config", "reload", "--dry-run", "--if-revision", "1"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "POST /admin/v1/config/reload?dry_run=true HTTP");
    cli_kit_has(cli_kit.seen, "if-match: \"1\"");
}

static void test_export(void **state)
{
    (void)state;
    char path[128];
    char read_back[64] = "";
    const char *text = "{\n  \"version\": 1\n}\n";
    cli_kit_answer(200, text);
    assert_int_equal(CLI_KIT_RUN("config", "export"), CLI_DONE);
    assert_string_equal(cli_kit.out, text);
    snprintf(path, sizeof path, "%s/out.json", cli_kit.dir);
    cli_kit_answer(200, text);
    assert_int_equal(CLI_KIT_RUN("config", "export", "--out", path), CLI_DONE);
    assert_string_equal(cli_kit.out, "");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(read_back, 1, sizeof read_back - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(read_back, text);
    cli_kit_answer(200, text);
    assert_int_not_equal(CLI_KIT_RUN("config", "export", "--out", "/nowhere/x"), CLI_DONE);
}

static void test_import(void **state)
{
    (void)state;
    const char *path = file_of("{\"version\":1}");
    cli_kit_answer(200, "{\"object\":\"config_import\",\"created\":0,\"updated\":1,\"deleted\":0,"
                        "\"changes\":[{\"action\":\"update\",\"resource\":\"tenants\",\"name\":"
                        "\"acme\",\"fields\":[\"weight\",\"group\"]}]}");
    assert_int_equal(CLI_KIT_RUN("config", "import", path, "--prune", "--dry-run"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "POST /admin/v1/config/import?dry_run=true HTTP");
    cli_kit_has(cli_kit.seen, "\r\n\r\n{\"version\":1,\"prune\":true}");
    cli_kit_has(cli_kit.out, "update  tenants   acme");
    assert_int_not_equal(CLI_KIT_RUN("config", "import", file_of("[")), CLI_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_show, cli_kit_clear),
        cmocka_unit_test_setup(test_validate, cli_kit_clear),
        cmocka_unit_test_setup(test_reload, cli_kit_clear),
        cmocka_unit_test_setup(test_export, cli_kit_clear),
        cmocka_unit_test_setup(test_import, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
