#include "config/config.h"

#include "tests/unit/base_kit.h"

#include <jansson.h>

#include "config/base/limits.h"

struct fixture {
    char folder[64];
    char path[96];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    kit_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof fixture->path, "%s/config.json", fixture->folder);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

static void write_file(const struct fixture *fixture, const char *text)
{
    FILE *file = fopen(fixture->path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    fclose(file);
}

/* Arguments up to a NULL. */
static enum status load(const struct config **out, enum config_role role,
                        const char *const *arguments, const char *const *environment)
{
    int count = 0;
    while (arguments[count] != NULL)
        count++;
    return config_load(out, role, count, arguments, environment);
}
#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING        ((const char *const[]){NULL})

static void expect_failure(enum config_role role, const char *const *arguments,
                           const char *const *environment, enum status wanted, const char *message)
{
    const struct config *config;
    enum status status = load(&config, role, arguments, environment);
    assert_null(config);
    assert_string_equal(status_name(status), status_name(wanted));
    if (strstr(status_note()->message, message) == NULL)
        fail_msg("'%s' is not in '%s'", message, status_note()->message);
}

static void test_defaults(void **state)
{
    (void)state;
    const struct config *config;
    assert_int_equal(load(&config, CONFIG_SERVE, NOTHING, NULL), STATUS_OK);
    assert_string_equal(config->listen, "127.0.0.1:8443");
    assert_string_equal(config->model, "");
    assert_int_equal(config->kv_memory, 1 << 30);
    assert_int_equal(config->threads, 0);
    assert_true(config->revision > 0);
    config_release(config);
}

static void test_precedence(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "{\"listen\":\"file:1\",\"threads\":1,\"kv_memory\":\"2M\","
                        "\"body_limit\":2048,\"sequences\":9}");
    const char *const environment[] = {"PATH=/bin", "BANYAN_LISTEN=environment:2",
                                       "BANYAN_THREADS=2", "BANYAN_KV_MEMORY=3M", NULL};
    const struct config *config;
    assert_int_equal(load(&config, CONFIG_SERVE,
                          ARGUMENTS("--listen", "flag:3", "--config", fixture->path, "--threads=3"),
                          environment),
                     STATUS_OK);
    assert_string_equal(config->listen, "flag:3");
    assert_int_equal(config->threads, 3);
    assert_int_equal(config->kv_memory, 3 << 20);
    assert_int_equal(config->body_limit, 2048);
    assert_int_equal(config->sequences, 9);
    assert_int_equal(config->batch_rows, 512);
    assert_string_equal(config->config, fixture->path);
    config_release(config);

    /* The file named by the environment; a flag said twice. */
    char variable[128];
    snprintf(variable, sizeof variable, "BANYAN_CONFIG=%s", fixture->path);
    assert_int_equal(load(&config, CONFIG_SERVE, ARGUMENTS("--threads", "4", "--threads", "5"),
                          ARGUMENTS(variable)),
                     STATUS_OK);
    assert_string_equal(config->listen, "file:1");
    assert_int_equal(config->threads, 5);
    config_release(config);
}

static void test_flags_refused(void **state)
{
    (void)state;
    expect_failure(CONFIG_SERVE, ARGUMENTS("--lisen", "x"), NULL, STATUS_INVALID,
                   "did you mean --listen?");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--kv_memory", "1G"), NULL, STATUS_INVALID,
                   "did you mean --kv-memory?");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--KV-memory=1G"), NULL, STATUS_INVALID,
                   "did you mean --kv-memory?");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--completely-different"), NULL, STATUS_INVALID,
                   "--help lists them");
    expect_failure(CONFIG_SERVE, ARGUMENTS("model.gguf"), NULL, STATUS_INVALID,
                   "options begin with --");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--", "--threads=1"), NULL, STATUS_INVALID,
                   "'--threads=1' is not an option; this command takes options only");
    expect_failure(CONFIG_SERVE, ARGUMENTS("-lisen", "x"), NULL, STATUS_INVALID,
                   "-lisen: no such option; did you mean --listen?");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--model", "--threads"), NULL, STATUS_INVALID,
                   "--model needs a value; write one that begins with a dash as --model=--threads");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--threads", "-5"), NULL, STATUS_OUT_OF_RANGE,
                   "--threads is -5");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--="), NULL, STATUS_INVALID, "no such option");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--listen"), NULL, STATUS_INVALID, "needs a value");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--threads", "x"), NULL, STATUS_INVALID,
                   "--threads must be a whole number, not 'x'");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--threads", "257"), NULL, STATUS_OUT_OF_RANGE,
                   "0 to 256");
    expect_failure(CONFIG_EDGE, ARGUMENTS("--threads", "2"), NULL, STATUS_INVALID,
                   "is an option of serve, engine, bench, not of edge");
    /* A weaker source is checked too, though a stronger one overrides it. */
    expect_failure(CONFIG_SERVE, ARGUMENTS("--threads", "2"), ARGUMENTS("BANYAN_THREADS=x"),
                   STATUS_INVALID, "BANYAN_THREADS must be");
}

static void test_environment(void **state)
{
    (void)state;
    const struct config *config;
    expect_failure(CONFIG_SERVE, NOTHING, ARGUMENTS("BANYAN_LISTN=x"), STATUS_INVALID,
                   "did you mean BANYAN_LISTEN?");
    expect_failure(CONFIG_SERVE, NOTHING, ARGUMENTS("BANYAN_listen=x"), STATUS_INVALID,
                   "did you mean BANYAN_LISTEN?");
    /* Another half's, no option at all, no name, no value. */
    assert_int_equal(load(&config, CONFIG_EDGE, NOTHING,
                          ARGUMENTS("BANYAN_THREADS=77777", "BANYAN_CACHE=/x", "BANYAN_=",
                                    "BANYAN_LISTEN", "BANYAN_TEST_MODEL=1", "BANYAN_MODEL=m")),
                     STATUS_OK);
    assert_int_equal(config->threads, 0);
    assert_string_equal(config->listen, "127.0.0.1:8443");
    config_release(config);
}

static void test_file_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *text;
        enum status status;
        const char *message;
    } cases[] = {
        {"", STATUS_INVALID, "line 1"},
        {"[]", STATUS_INVALID, "one JSON object"},
        {"{\"listen\":1}", STATUS_INVALID, "must be a text"},
        {"{\"threads\":\"2\"}", STATUS_INVALID, "must be a whole number"},
        {"{\"threads\":2.0}", STATUS_INVALID, "must be a whole number"},
        {"{\"threads\":null}", STATUS_INVALID, "must be a whole number"},
        {"{\"threads\":-1}", STATUS_OUT_OF_RANGE, "0 to 256"},
        {"{\"kv_memory\":true}", STATUS_INVALID, "number of bytes"},
        {"{\"kv_memory\":\"1Q\"}", STATUS_INVALID, "number of bytes"},
        {"{\"kv_memory\":\"1K\"}", STATUS_OUT_OF_RANGE, "1M to 1T"},
        {"{\"threads\":1,\"threads\":2}", STATUS_INVALID, "duplicate"},
        {"{\"kv-memory\":1}", STATUS_INVALID, "did you mean kv_memory?"},
        {"{\"treads\":1}", STATUS_INVALID, "did you mean threads?"},
        {"{\"config\":\"x\"}", STATUS_INVALID, "cannot name another file"},
        {"{\"model\":\"a\\u0000b\"}", STATUS_INVALID, "u0000"},
        {"{\"model\":\"a\\nb\"}", STATUS_INVALID, "control character"},
        {"{} x", STATUS_INVALID, "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(fixture, cases[i].text);
        expect_failure(CONFIG_SERVE, ARGUMENTS("--config", fixture->path), NULL, cases[i].status,
                       cases[i].message);
        assert_null(strstr(status_note()->message, fixture->folder));
    }
    unlink(fixture->path);
    expect_failure(CONFIG_SERVE, ARGUMENTS("--config", fixture->path), NULL, STATUS_IO,
                   "cannot be opened");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--config", fixture->folder), NULL, STATUS_IO,
                   "cannot be read");
}

static void test_file_limit(void **state)
{
    struct fixture *fixture = *state;
    char *text = malloc(LIMIT_CONFIG_FILE_BYTES + 2);
    memset(text, ' ', LIMIT_CONFIG_FILE_BYTES + 2);
    text[0] = '{';
    text[1] = '}';
    text[LIMIT_CONFIG_FILE_BYTES] = '\0';
    write_file(fixture, text);
    const struct config *config;
    assert_int_equal(load(&config, CONFIG_SERVE, ARGUMENTS("--config", fixture->path), NULL),
                     STATUS_OK);
    config_release(config);
    text[LIMIT_CONFIG_FILE_BYTES] = ' ';
    text[LIMIT_CONFIG_FILE_BYTES + 1] = '\0';
    write_file(fixture, text);
    expect_failure(CONFIG_SERVE, ARGUMENTS("--config", fixture->path), NULL, STATUS_LIMIT,
                   "longer than");
    free(text);
}

/* Options of another half are passed over in the file, but not unchecked. */
static void test_file_of_both_halves(void **state)
{
    struct fixture *fixture = *state;
    const struct config *config;
    write_file(fixture, "{\"threads\":3,\"listen\":\"x:1\"}");
    assert_int_equal(load(&config, CONFIG_EDGE, ARGUMENTS("--config", fixture->path), NULL),
                     STATUS_OK);
    assert_string_equal(config->listen, "x:1");
    config_release(config);
}

static void test_texts_are_copies(void **state)
{
    (void)state;
    char value[] = "first";
    const struct config *config;
    assert_int_equal(load(&config, CONFIG_SERVE, ARGUMENTS("--model", value), NULL), STATUS_OK);
    value[0] = 'F';
    assert_string_equal(config->model, "first");
    config_release(config);
}

static void test_revision(void **state)
{
    (void)state;
    const struct config *first;
    const struct config *second;
    assert_int_equal(load(&first, CONFIG_SERVE, NOTHING, NULL), STATUS_OK);
    assert_int_equal(load(&second, CONFIG_SERVE, NOTHING, NULL), STATUS_OK);
    assert_true(second->revision > first->revision);
    config_release(second);
    assert_string_equal(first->listen, "127.0.0.1:8443");
    config_release(first);
    config_release(NULL);
}

static void expect_validation(const struct config *config, const struct config_sources *sources,
                              const char *file, const char *wanted)
{
    struct buffer out;
    buffer_init(&out, 64 * 1024);
    assert_int_equal(config_validate(config, sources, slice_of(file), &out), STATUS_OK);
    assert_string_equal(out.bytes, wanted);
    buffer_deinit(&out);
}

static void test_a_file_that_is_not_there_yet(void **state)
{
    (void)state;
    const struct config *config;
    struct buffer out;
    const char *const flags[] = {"--queue-requests", "5"};
    const char *const environment[] = {"BANYAN_FAIR_QUANTUM=7", NULL};
    const struct config_sources sources = {CONFIG_SERVE, 2, flags, environment};
    assert_int_equal(config_load(&config, CONFIG_SERVE, 2, flags, environment), STATUS_OK);
    expect_validation(config, &sources, "{}",
                      "\"valid\":true,\"errors\":[],\"changes\":[],\"overridden\":[]");
    expect_validation(config, &sources,
                      "{\"drain_delay_s\":1,\"sandbox\":\"off\",\"queue_requests\":9,"
                      "\"fair_quantum\":9}",
                      "\"valid\":true,\"errors\":[],\"changes\":[{\"option\":\"drain_delay_s\","
                      "\"from\":0,\"to\":1,\"takes\":\"reload\"},{\"option\":\"sandbox\","
                      "\"from\":\"auto\",\"to\":\"off\",\"takes\":\"restart\"}],"
                      "\"overridden\":[\"queue_requests\",\"fair_quantum\"]");
    expect_validation(
        config, &sources, "{\"drain_delay\":1,\"pin_percent\":91,\"drain_delay_s\":1}",
        "\"valid\":false,\"errors\":[{\"param\":\"drain_delay\",\"message\":\"\\\"drain_delay"
        "\\\" in the options: no such option; did you mean drain_delay_s?\"},{\"param\":"
        "\"pin_percent\",\"message\":\"\\\"pin_percent\\\" in the options is 91, but must be from "
        "0 to "
        "90\"}],\"changes\":[],\"overridden\":[]");
    buffer_init(&out, 4096);
    assert_int_equal(config_validate(config, &sources, SLICE("[]"), &out), STATUS_INVALID);
    assert_int_equal(config_validate(config, &sources, SLICE("{"), &out), STATUS_INVALID);
    buffer_deinit(&out);
    buffer_init(&out, 64 * 1024);
    config_describe(config, &out);
    assert_non_null(strstr(out.bytes, "\"queue_requests\":\"flag\""));
    assert_non_null(strstr(out.bytes, "\"fair_quantum\":\"environment\""));
    assert_non_null(strstr(out.bytes, "\"sandbox\":\"default\""));
    buffer_deinit(&out);
    config_release(config);
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "{\"threads\":1,\"kv_memory\":\"2M\",\"listen\":\"here:1\"}");
    json_set_alloc_funcs(mem_alloc, mem_free);
    int failures = 0;
    for (int n = 1;; n++) {
        int left = n;
        const struct config *config;
        mem_hook_set(kit_fail_at, &left);
        enum status status =
            load(&config, CONFIG_SERVE, ARGUMENTS("--config", fixture->path), NULL);
        mem_hook_set(NULL, NULL);
        config_release(config);
        if (left > 0) {
            assert_int_equal(status, STATUS_OK);
            break;
        }
        /* jansson takes some of its failed allocations for a wrong token. */
        assert_true(status == STATUS_NO_MEMORY || status == STATUS_INVALID);
        failures += status == STATUS_NO_MEMORY;
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(failures > 8);
}

/* A list has a flag for each element; a stronger source replaces it as a whole. */
static void test_lists(void **state)
{
    struct fixture *fixture = *state;
    const struct config *config;
    write_file(fixture, "{\"upstream\":[\"http://a:1\",\"http://b:2\"]}");
    const char *const environment[] = {"BANYAN_UPSTREAM=http://c:3 http://d:4", NULL};
    assert_int_equal(load(&config, CONFIG_SERVE, ARGUMENTS("--config", fixture->path), NOTHING),
                     STATUS_OK);
    assert_string_equal(config->upstream, "http://a:1 http://b:2");
    struct buffer text;
    buffer_init(&text, 1 << 20);
    config_render(config, &text);
    buffer_append_char(&text, '\0');
    assert_non_null(strstr(text.bytes, "\"upstream\": [\"http://a:1\",\"http://b:2\"]"));
    buffer_deinit(&text);
    config_release(config);
    assert_int_equal(load(&config, CONFIG_SERVE, ARGUMENTS("--config", fixture->path), environment),
                     STATUS_OK);
    assert_string_equal(config->upstream, "http://c:3 http://d:4");
    config_release(config);
    assert_int_equal(load(&config, CONFIG_SERVE,
                          ARGUMENTS("--config", fixture->path, "--upstream", "http://e:5",
                                    "--upstream=http://f:6", "--upstream", "http://g:7"),
                          environment),
                     STATUS_OK);
    assert_string_equal(config->upstream, "http://e:5 http://f:6 http://g:7");
    config_release(config);
    expect_failure(CONFIG_SERVE, ARGUMENTS("--upstream", "http://a:1 http://b:2"), NOTHING,
                   STATUS_INVALID, "holds a space");
    assert_int_equal(load(&config, CONFIG_SERVE, ARGUMENTS("--upstream", ""), environment),
                     STATUS_OK);
    assert_string_equal(config->upstream, "");
    config_release(config);
    write_file(fixture, "{\"upstream\":[\"\"]}");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--config", fixture->path), NOTHING, STATUS_INVALID,
                   "is empty");
    write_file(fixture, "{\"upstream\":[7]}");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--config", fixture->path), NOTHING, STATUS_INVALID,
                   "a list of texts");
    write_file(fixture, "{\"upstream\":\"http://a:1\"}");
    expect_failure(CONFIG_SERVE, ARGUMENTS("--config", fixture->path), NOTHING, STATUS_INVALID,
                   "a list of texts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_a_file_that_is_not_there_yet),
        cmocka_unit_test_setup_teardown(test_precedence, setup, teardown),
        cmocka_unit_test(test_flags_refused),
        cmocka_unit_test(test_environment),
        cmocka_unit_test_setup_teardown(test_file_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_of_both_halves, setup, teardown),
        cmocka_unit_test(test_texts_are_copies),
        cmocka_unit_test(test_revision),
        cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails_at_each_allocation, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
