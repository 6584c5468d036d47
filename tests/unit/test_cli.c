/* cli: words, flags anywhere, help at every level, nearest names, exit codes, defaults. */
#include "gateway/cli/cli.h"

#include "gateway/cli/cli_call.h"
#include "tests/unit/cli_kit.h"

#define EMPTY "{\"object\":\"list\",\"data\":[],\"has_more\":false}"

static void test_help(void **state)
{
    (void)state;
    assert_int_equal(CLI_KIT_RUN("--help"), CLI_DONE);
    cli_kit_has(cli_kit.out, "usage: banyan admin [flags] RESOURCE VERB");
    cli_kit_has(cli_kit.out, "admin-key rotate KEY");
    cli_kit_has(cli_kit.out, "exit codes: 0 done; 1 refused");
    assert_int_equal(CLI_KIT_RUN("tenant", "-h"), CLI_DONE);
    cli_kit_has(cli_kit.out, "tenant archive TENANT");
    cli_kit_lacks(cli_kit.out, "admin-key");
    assert_int_equal(CLI_KIT_RUN("tenant", "create", "--help"), CLI_DONE);
    cli_kit_has(cli_kit.out, "usage: banyan admin tenant create NAME [flags]");
    cli_kit_has(cli_kit.out, "--weight N");
    cli_kit_lacks(cli_kit.out, "--overlap");
    assert_int_equal(CLI_KIT_RUN("nothing", "--help"), CLI_DONE);
    cli_kit_has(cli_kit.out, "RESOURCE VERB");
    assert_int_equal(
        cli_run(0, NULL, &(struct cli_options){.out = stdout, .err = fopen("/dev/null", "w")}),
        CLI_USAGE);
    assert_int_equal(cli_kit.connections, 0);
}

static void test_wrong_words(void **state)
{
    static const struct {
        const char *words[8];
        const char *told;
    } rows[] = {
        {{"tenat", "list"}, "there is no resource 'tenat'; did you mean 'tenant'?"},
        {{"adminkey", "list"}, "did you mean 'admin-key'?"},
        {{"something", "list"}, "there is no resource 'something'; see --help"},
        {{"tenant"}, "a verb is missing; see banyan admin tenant --help"},
        {{"tenant", "lits"}, "did you mean 'list'?"},
        {{"tenant", "rotate", "x"}, "this resource has no verb 'rotate'; see --help"},
        {{"tenant", "list", "--jsno"}, "there is no flag 'jsno'; did you mean 'json'?"},
        {{"tenant", "list", "--everything"}, "there is no flag 'everything'; see --help"},
        {{"tenant", "list", "--json=yes"}, "--json takes no value"},
        {{"tenant", "list", "--limit"}, "--limit needs a value: N"},
        {{"tenant", "list", "--weight", "3"}, "'tenant list' does not take --weight"},
        {{"tenant", "list", "extra"}, "'extra' is one word too many"},
        {{"tenant", "show", "a", "b"}, "'b' is one word too many"},
        {{"tenant", "show"}, "TENANT is missing: banyan admin tenant show TENANT"},
        {{"tenant", "show", ""}, "TENANT must not be empty"},
        {{"tenant", "list", "--timeout", "0"}, "--timeout must be from 1 to 3600"},
        {{"tenant", "list", "--timeout", "3601"}, "--timeout must be from 1 to 3600"},
        {{"tenant", "archive", "tnt_1", "--if-revision", "0"}, "--if-revision must be from 1"},
        {{"tenant", "list", "--url", "http://x"}, "the URL must begin with https://"},
        {{"tenant", "list", "--ca", "/nowhere"}, "/nowhere holds no certificates"},
        {{"tenant", "list", "--key-file", "/nowhere"}, "the key file /nowhere: No such file"},
        {{"tenant", "\x1b[2J"}, "this resource has no verb '\xef\xbf\xbd[2J'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(cli_kit_run(0, rows[i].words), CLI_USAGE);
        cli_kit_has(cli_kit.err, rows[i].told);
        assert_string_equal(cli_kit.out, "");
    }
    assert_int_equal(cli_kit.connections, 0);
}

#define WITH(name) (UINT64_C(1) << CLI_FLAG_##name)
static const struct {
    const char *resource, *verb, *argument;
} all_commands[] = {
#define CLI_COMMAND(resource, verb, argument, flags, function, help) {resource, verb, argument},
#include "gateway/cli/cli_commands.def"
#undef CLI_COMMAND
};
static const struct {
    const char *name, *value;
} all_flags[] = {
#define CLI_FLAG(name, flag, value, help) {flag, value},
#include "gateway/cli/cli_flags.def"
#undef CLI_FLAG
};

/* Where a name is wanted, and where nothing is: nothing is sent, and the right flag is named. */
static void test_one_dash_is_no_name(void **state)
{
    (void)state;
    char word[64], told[192];
    for (size_t i = 0; i < sizeof all_commands / sizeof all_commands[0]; i++) {
        for (size_t k = 0; k < sizeof all_flags / sizeof all_flags[0]; k++) {
            snprintf(word, sizeof word, "-%s", all_flags[k].name);
            snprintf(told, sizeof told, "there is no flag '%s'; did you mean '--%s'?", word,
                     all_flags[k].name);
            assert_int_equal(CLI_KIT_RUN(all_commands[i].resource, all_commands[i].verb, word),
                             CLI_USAGE);
            cli_kit_has(cli_kit.err, told);
        }
    }
    assert_int_equal(CLI_KIT_RUN("tenant", "create", "-zzzzzzzz"), CLI_USAGE);
    cli_kit_has(cli_kit.err, "there is no flag '-zzzzzzzz'; see --help");
    assert_int_equal(cli_kit.connections, 0);
}

/* A flag whose value was forgotten does not take the next flag for it. */
static void test_a_flag_is_no_value(void **state)
{
    (void)state;
    char word[64], told[320];
    for (size_t k = 0; k < sizeof all_flags / sizeof all_flags[0]; k++) {
        if (all_flags[k].value == NULL)
            continue;
        snprintf(word, sizeof word, "--%s", all_flags[k].name);
        snprintf(told, sizeof told,
                 "%s needs a value: %s; write one that begins with a dash as %s=--json", word,
                 all_flags[k].value, word);
        assert_int_equal(CLI_KIT_RUN("tenant", "create", "x", word, "--json"), CLI_USAGE);
        cli_kit_has(cli_kit.err, told);
    }
    assert_int_equal(CLI_KIT_RUN("tenant", "list", "--timeout", "-5"), CLI_USAGE);
    cli_kit_has(cli_kit.err, "--timeout must be from 1 to 3600");
    assert_int_equal(cli_kit.connections, 0);
}

/* Every command that takes a name takes one that begins with a dash, behind "--". */
static void test_names_behind_the_flags(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all_commands / sizeof all_commands[0]; i++) {
        const char *resource = all_commands[i].resource;
        const char *verb = all_commands[i].verb;
        if (all_commands[i].argument[0] != '\0')
            continue;
        assert_int_equal(CLI_KIT_RUN(resource, verb, "--", "--dry-run"), CLI_USAGE);
        cli_kit_has(cli_kit.err, "'--dry-run' is one word too many");
    }
    assert_int_equal(cli_kit.connections, 0);
    cli_kit_answer(201, "{\"object\":\"tenant\",\"id\":\"tnt_1\",\"name\":\"-dry-run\"}");
    (void)CLI_KIT_RUN("tenant", "create", "--json", "--", "-dry-run");
    cli_kit_has(cli_kit.seen, "\"name\":\"-dry-run\"");
}

static void test_most_metadata(void **state)
{
    (void)state;
    char pairs[CLI_METADATA_MAX + 1][16];
    for (int count = CLI_METADATA_MAX; count <= CLI_METADATA_MAX + 1; count++) {
        const char *argv[64] = {"--url",  cli_kit_url(), "--data-dir", cli_kit.dir,
                                "tenant", "create",      "x"};
        int argc = 7;
        for (int i = 0; i < count; i++) {
            snprintf(pairs[i], sizeof pairs[i], "k%d=v", i);
            argv[argc++] = "--meta";
            argv[argc++] = pairs[i];
        }
        FILE *nowhere = fopen("/dev/null", "w");
        struct cli_options options = {.out = nowhere, .err = nowhere};
        cli_kit_answer(201, "{}");
        assert_int_equal(cli_run(argc, argv, &options),
                         count == CLI_METADATA_MAX ? CLI_DONE : CLI_USAGE);
        fclose(nowhere);
    }
}

static void test_flags_stand_anywhere(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        cli_kit_answer(200, EMPTY);
    assert_int_equal(CLI_KIT_RUN("--limit=5", "tenant", "list"), CLI_DONE);
    assert_int_equal(CLI_KIT_RUN("tenant", "--limit", "5", "list"), CLI_DONE);
    assert_int_equal(CLI_KIT_RUN("tenant", "list", "--limit", "9", "--limit", "5"), CLI_DONE);
    const char *at = cli_kit.seen;
    for (int i = 0; i < 3; i++) {
        at = strstr(at, "?limit=5&");
        assert_non_null(at);
        at++;
    }
}

static void test_exit_codes(void **state)
{
    (void)state;
    cli_kit_answer(200, EMPTY);
    assert_int_equal(CLI_KIT_RUN("tenant", "list"), CLI_DONE);
    cli_kit_answer(401,
                   "{\"error\":{\"message\":\"No \\u001b[2Jkey.\",\"type\":\"x\",\"param\":null,"
                   "\"code\":\"invalid_api_key\"}}");
    assert_int_equal(CLI_KIT_RUN("tenant", "list"), CLI_REFUSED);
    assert_string_equal(cli_kit.err,
                        "banyan admin tenant list: No \xef\xbf\xbd[2Jkey. (HTTP 401, "
                        "invalid_api_key, request req_7)\n  the server does not accept this key: "
                        "give another with --key-file\n");
    cli_kit_answer(200, "nonsense");
    assert_int_equal(CLI_KIT_RUN("tenant", "list"), CLI_UNREACHED);
    assert_int_equal(CLI_KIT_RUN("tenant", "list", "--url", "https://127.0.0.1:1"), CLI_UNREACHED);
    cli_kit_has(cli_kit.err, "nobody answers at 127.0.0.1 port 1");
    cli_kit_has(cli_kit.err, "with --url");
    assert_string_equal(cli_kit.out, "");
}

/* Without flags the environment says where the server and its files are. */
static void test_defaults(void **state)
{
    (void)state;
    char listen[64];
    const char *argv[] = {"tenant", "list"};
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    snprintf(listen, sizeof listen, "127.0.0.1:%d", cli_kit.port);
    struct cli_options options = {
        .data_dir = cli_kit.dir, .admin_listen = listen, .out = file, .err = file};
    cli_kit_answer(200, EMPTY);
    assert_int_equal(cli_run(2, argv, &options), CLI_DONE);
    cli_kit_has(cli_kit.seen, "authorization: Bearer " CLI_KIT_KEY "\r\n");
    options.data_dir = NULL;
    assert_int_equal(cli_run(2, argv, &options), CLI_USAGE);
    fflush(file);
    cli_kit_has(text, "banyan-data/admin.key");
    fclose(file);
    free(text);
}

/* A folder of the default name that others may write is not believed; named, it is. */
static void test_a_folder_of_others(void **state)
{
    (void)state;
    char here[512];
    char link[160];
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    struct cli_options options = {.out = file, .err = file};
    const char *argv[] = {"--url", cli_kit_url(), "tenant", "list", "--data-dir", "banyan-data"};
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(cli_kit.dir), 0);
    snprintf(link, sizeof link, "%s/banyan-data", cli_kit.dir);
    assert_int_equal(symlink(cli_kit.dir, link), 0);
    assert_int_equal(cli_run(4, argv, &options), CLI_USAGE); /* a link may lead anywhere */
    fflush(file);
    cli_kit_has(text, "other users can write to the folder");
    assert_int_equal(cli_kit.connections, 0);
    cli_kit_answer(200, EMPTY);
    assert_int_equal(cli_run(6, argv, &options), CLI_DONE);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(chdir(here), 0);
    fclose(file);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_help, cli_kit_clear),
        cmocka_unit_test_setup(test_wrong_words, cli_kit_clear),
        cmocka_unit_test_setup(test_one_dash_is_no_name, cli_kit_clear),
        cmocka_unit_test_setup(test_a_flag_is_no_value, cli_kit_clear),
        cmocka_unit_test_setup(test_names_behind_the_flags, cli_kit_clear),
        cmocka_unit_test_setup(test_most_metadata, cli_kit_clear),
        cmocka_unit_test_setup(test_flags_stand_anywhere, cli_kit_clear),
        cmocka_unit_test_setup(test_exit_codes, cli_kit_clear),
        cmocka_unit_test_setup(test_defaults, cli_kit_clear),
        cmocka_unit_test_setup(test_a_folder_of_others, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
