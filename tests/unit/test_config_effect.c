#include "config/config_effect.h"

#include "config/config.h"
#include "tests/unit/base_kit.h"

static enum status check(const char *const *arguments, const char *const *environment,
                         char *without, size_t capacity)
{
    const struct config *config;
    int count = 0;
    while (arguments[count] != NULL)
        count++;
    assert_int_equal(config_load(&config, CONFIG_SERVE, count, arguments, environment), STATUS_OK);
    enum status status = config_effect_check(config, without, capacity);
    config_release(config);
    return status;
}
#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING        ((const char *const[]){NULL})

static void test_flags_are_refused(void **state)
{
    (void)state;
    char without[256];
    static const char *const own[][2] = {{"--kv-memory", "1G"},
                                         {"--threads", "2"},
                                         {"--chat-template", "none"},
                                         {"--speculation", "lookup"},
                                         {"--engines", "2"}};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const char *const *both =
            ARGUMENTS("--upstream", "http://127.0.0.1:1", own[i][0], own[i][1]);
        assert_int_equal(check(both, NOTHING, without, sizeof without), STATUS_INVALID);
        assert_non_null(strstr(status_note()->message, own[i][0]));
        const char *const *model = ARGUMENTS("--model", "m.gguf", own[i][0], own[i][1]);
        assert_int_equal(check(model, NOTHING, without, sizeof without), STATUS_OK);
        assert_string_equal(without, "");
    }
    assert_int_equal(check(ARGUMENTS("--model", "m.gguf", "--upstream-kind", "vllm"), NOTHING,
                           without, sizeof without),
                     STATUS_INVALID);
    assert_non_null(strstr(status_note()->message, "--upstream-kind has no effect without"));
    assert_int_equal(
        check(ARGUMENTS("--upstream", "http://127.0.0.1:1", "--upstream-kind", "vllm",
                        "--model-name", "m", "--socket", "s", "--data-dir", "d", "--hang-timeout-s",
                        "60", "--engine-idle-timeout-s", "60", "--replay-wait-s", "1"),
              NOTHING, without, sizeof without),
        STATUS_OK);
}

/* A file and an environment may be shared by several servers. */
static void test_other_sources_are_told(void **state)
{
    (void)state;
    char without[256];
    const char *const environment[] = {"BANYAN_KV_MEMORY=1G", "BANYAN_THREADS=2",
                                       "BANYAN_LISTEN=127.0.0.1:1", NULL};
    assert_int_equal(
        check(ARGUMENTS("--upstream", "http://127.0.0.1:1"), environment, without, sizeof without),
        STATUS_OK);
    assert_string_equal(without, "kv_memory, threads");
    assert_int_equal(check(ARGUMENTS("--upstream", "http://127.0.0.1:1"), environment, without, 12),
                     STATUS_OK);
    assert_string_equal(without, "kv_memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flags_are_refused),
                                       cmocka_unit_test(test_other_sources_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
