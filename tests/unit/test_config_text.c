/* config_text: every text option of options.def is either one with numbers inside, and then each of
 * them has its range, or named here as one without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/limits.h"
#include "config/config_option.h"
#include "config/config_text.h"

static const struct {
    const char *option;
    const char *before; /* the number */
    const char *behind;
    long long least, most;
} places[] = {
    {"listen", "127.0.0.1:", "", 0, 65535},
    {"listen", "0.0.0.0:", "", 0, 65535},
    {"listen", "[::1]:", "", 0, 65535},
    {"listen", ":", "", 0, 65535},
    {"admin_listen", "localhost:", "", 0, 65535},
    {"jwks_hosts", "issuer.example:", "", 1, 65535},
    {"jwks_hosts", "a.example, b.example:", ",[::1]:443", 1, 65535},
    {"jwks_hosts", "[fd00::1]:", "", 1, 65535},
    {"cors_origins", "https://app.example:", "", 1, 65535},
    {"cors_origins", "http://a.example,http://[::1]:", ", https://b.example", 1, 65535},
    {"redis", "redis://127.0.0.1:", "", 1, 65535},
    {"redis", "redis://user@[::1]:", "/3", 1, 65535},
    {"redis", "redis://127.0.0.1:6379/", "", 0, LIMIT_REDIS_DATABASES - 1},
    {"redis", "redis://127.0.0.1/", "", 0, LIMIT_REDIS_DATABASES - 1},
    {"redis", "unix:///run/redis.sock?db=", "", 0, LIMIT_REDIS_DATABASES - 1},
    {"upstream", "http://127.0.0.1:", "", 1, 65535},
    {"upstream", "http://[::1]:", "/v1", 1, 65535},
    {"upstream", "url=http://127.0.0.1:", "", 1, 65535},
    {"upstream", "url=http://127.0.0.1:", ",model=a:b,key_file=/k", 1, 65535},
    {"upstream", "kind=vllm,url=http://[::1]:", "/v1,weight=200", 1, 65535},
    {"upstream", "http://a:1 url=http://b:", ",requests=8 http://c:3", 1, 65535},
};
enum { PLACES = sizeof places / sizeof places[0] };

static const char *const plain[] = {
    "chat_template", "expert_split",       "model",       "model_name",  "weights",
    "kv_type",       "tls_cert",           "tls_key",     "client_cert", "client_ca",
    "client_crl",    "admin_client_cert",  "jwks_ca",     "sandbox",     "admin_client_ca",
    "edge_user",     "engine_user",        "isa",         "batching",    "preemption",
    "speculation",   "speculation_accept", "draft_model", "socket",      "config",
    "data_dir",      "log_level",          "access_log",  "ledger_sync", "redis_password_file",
    "upstream_kind", "upstream_key_file",  "embeddings",
};

static enum status parse(const char *name, const char *text)
{
    struct config_option_value value;
    const struct config_option *option = config_option_find(slice_of(name));
    assert_non_null(option);
    return config_option_parse(option, "--option", slice_of(text), &value);
}

static void check(size_t place, const char *number, enum status expected)
{
    if (config_option_find(slice_of(places[place].option)) == NULL)
        return; /* a build without that option */
    char text[256];
    int length =
        snprintf(text, sizeof text, "%s%s%s", places[place].before, number, places[place].behind);
    assert_true(length > 0 && length < (int)sizeof text);
    enum status status = parse(places[place].option, text);
    if (status != expected)
        fail_msg("%s %s: %d, not %d", places[place].option, text, (int)status, (int)expected);
    if (status == STATUS_OK)
        return;
    assert_string_equal(status_note()->param, places[place].option);
    assert_non_null(strstr(status_note()->message, "--option"));
    char range[64];
    snprintf(range, sizeof range, "%lld to %lld", places[place].least, places[place].most);
    assert_non_null(strstr(status_note()->message, range));
    if (status == STATUS_OUT_OF_RANGE)
        assert_non_null(strstr(status_note()->message, number));
}

/* Also those that 16, 32 and 64 bits would cut to a right one. */
static void test_numbers_at_their_bounds(void **state)
{
    (void)state;
    static const char *const far[] = {"65616", "99999", "4294967376", "18446744073709551696",
                                      "340282366920938463463374607431768211536"};
    for (size_t i = 0; i < PLACES; i++) {
        char number[32];
        for (long long at = places[i].least - 1; at <= places[i].least + 1; at++) {
            snprintf(number, sizeof number, "%lld", at);
            check(i, number,
                  at >= places[i].least ? STATUS_OK
                  : at < 0              ? STATUS_INVALID
                                        : STATUS_OUT_OF_RANGE);
        }
        for (long long at = places[i].most - 1; at <= places[i].most + 1; at++) {
            snprintf(number, sizeof number, "%lld", at);
            check(i, number, at <= places[i].most ? STATUS_OK : STATUS_OUT_OF_RANGE);
        }
        for (size_t k = 0; k < sizeof far / sizeof far[0]; k++)
            check(i, far[k], STATUS_OUT_OF_RANGE);
    }
}

static void test_what_is_no_number(void **state)
{
    (void)state;
    static const char *const words[] = {"-1", "+80", "80x", "0x50", "8_0", "http", "8.0"};
    for (size_t i = 0; i < PLACES; i++) {
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
            check(i, words[k], STATUS_INVALID);
    }
    assert_int_equal(parse("listen", "127.0.0.1"), STATUS_INVALID);
    assert_int_equal(parse("listen", "127.0.0.1:"), STATUS_INVALID);
    assert_int_equal(parse("listen", "127.0.0.1: 80"), STATUS_INVALID);
}

/* Only digits are ever repeated. */
static void test_no_secret_is_told(void **state)
{
    (void)state;
    static const char *const texts[] = {"redis://:hunter2/x@127.0.0.1", "redis://127.0.0.1:hunter2",
                                        "redis://127.0.0.1/hunter2"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_not_equal(parse("redis", texts[i]), STATUS_OK);
        assert_null(strstr(status_note()->message, "hunter2"));
    }
    assert_int_equal(parse("redis", "redis://user:hunter2@127.0.0.1:6379"), STATUS_OK);
}

/* Forms without a number in them. */
static void test_numbers_may_be_left_out(void **state)
{
    (void)state;
    static const char *const texts[] = {"",           "redis://127.0.0.1",      "redis://[::1]",
                                        "redis://a/", "unix:///run/redis.sock", "nonsense"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(parse("redis", texts[i]), STATUS_OK);
    assert_int_equal(parse("jwks_hosts", ""), STATUS_OK);
    assert_int_equal(parse("jwks_hosts", "a.example,, [::1] b.example"), STATUS_OK);
}

static void test_every_text_option_is_known_here(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        bool is_plain = false;
        bool is_place = false;
        if (option->kind != CONFIG_OPTION_TEXT && option->kind != CONFIG_OPTION_LIST)
            continue;
        for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
            is_plain = is_plain || strcmp(option->name, plain[k]) == 0;
        for (size_t k = 0; k < PLACES; k++)
            is_place = is_place || strcmp(option->name, places[k].option) == 0;
        bool is_checked = parse(option->name, "redis://a:80x") != STATUS_OK;
        if (is_plain == is_place || is_place != is_checked)
            fail_msg("%s: say whether it has numbers inside", option->name);
        assert_int_equal(parse(option->name, option->fallback_text), STATUS_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_at_their_bounds),
        cmocka_unit_test(test_what_is_no_number),
        cmocka_unit_test(test_no_secret_is_told),
        cmocka_unit_test(test_numbers_may_be_left_out),
        cmocka_unit_test(test_every_text_option_is_known_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
