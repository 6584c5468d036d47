/* cli_api: the key file, refusals in words, trying again without doing twice, lists in pages. */
#include "gateway/cli/cli_api.h"

#include "tests/unit/cli_kit.h"

static enum status open_api(struct cli_api **out, const char *key, FILE *warnings)
{
    char key_file[128];
    char ca_file[128];
    cli_kit_path(key_file, key);
    cli_kit_path(ca_file, "tls/ca.crt");
    struct cli_api_options options = {.url = cli_kit_url(),
                                      .ca_file = ca_file,
                                      .key_file = key_file,
                                      .timeout_ms = 10000,
                                      .warnings = warnings};
    return cli_api_open(out, &options);
}

static enum status ask(struct cli_api *api, const char *method, const char *revision)
{
    struct https_client_answer answer;
    struct cli_api_request request = {.method = method, .path = "/p", .revision = revision};
    json_t *object = NULL;
    https_client_answer_init(&answer);
    enum status status = cli_api_ask_object(api, &request, &answer, &object);
    json_decref(object);
    https_client_answer_deinit(&answer);
    return status;
}

static void test_key_files(void **state)
{
    (void)state;
    char text[LIMIT_KEY_BYTES + 8];
    struct cli_api *api = NULL;
    char *warnings = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&warnings, &length);
    assert_int_equal(open_api(&api, "nothere.key", file), STATUS_IO);
    cli_kit_has(status_note()->message, "--key-file");
    assert_int_equal(open_api(&api, "tls", file), STATUS_IO);
    static const char *const wrong[] = {"", "\n", "two keys", "a\nb", "k\xc3\xb6y", "a\rb"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cli_kit_write("other.key", wrong[i], 0600);
        assert_int_equal(open_api(&api, "other.key", file), STATUS_INVALID);
        cli_kit_lacks(status_note()->message, "two keys");
    }
    memset(text, 'k', sizeof text);
    text[LIMIT_KEY_BYTES] = '\0';
    cli_kit_write("other.key", text, 0600);
    assert_int_equal(open_api(&api, "other.key", file), STATUS_INVALID);
    text[LIMIT_KEY_BYTES - 1] = '\0';
    cli_kit_write("other.key", text, 0600);
    assert_int_equal(open_api(&api, "other.key", file), STATUS_OK);
    cli_api_close(api);
    fflush(file);
    assert_int_equal(length, 0);
    cli_kit_write("other.key", "k \r\n", 0640);
    assert_int_equal(open_api(&api, "other.key", file), STATUS_OK);
    cli_api_close(api);
    fflush(file);
    cli_kit_has(warnings, "warning: other users can read");
    fclose(file);
    free(warnings);
}

static void test_refusals(void **state)
{
    (void)state;
    struct cli_api *api = NULL;
    assert_int_equal(open_api(&api, "admin.key", stderr), STATUS_OK);
    cli_kit_answer(409, "{\"error\":{\"message\":\"Taken.\",\"type\":\"x\",\"param\":\"name\","
                        "\"code\":\"already_exists\"}}");
    assert_int_equal(ask(api, "PATCH", NULL), STATUS_CONFLICT);
    assert_true(cli_api_is_refused(api));
    assert_string_equal(status_note()->message,
                        "Taken. (HTTP 409, already_exists, field name, request req_7)");
    cli_kit_answer(412, "{\"error\":{\"message\":\"Other.\",\"type\":\"x\",\"param\":null,"
                        "\"code\":null}}");
    assert_int_equal(ask(api, "PATCH", "3"), STATUS_CONFLICT);
    assert_string_equal(
        status_note()->message,
        "Other. (HTTP 412, request req_7)\n  somebody changed it meanwhile: show it "
        "again, then use its new revision");
    cli_kit_has(cli_kit.seen, "if-match: \"3\"\r\n");
    cli_kit_answer(500, "<html>");
    assert_int_equal(ask(api, "GET", NULL), STATUS_CONFLICT);
    cli_kit_has(status_note()->message, "without giving a reason (HTTP 500");
    cli_kit_answer(200, "[]");
    assert_int_equal(ask(api, "GET", NULL), STATUS_PROTOCOL);
    assert_false(cli_api_is_refused(api));
    cli_kit_answer(200, "{\"a\":1,\"a\":2}");
    assert_int_equal(ask(api, "GET", NULL), STATUS_PROTOCOL);
    cli_api_close(api);
}

/* How many requests a lost connection leads to, by method and revision. */
static void test_lost_connections(void **state)
{
    static const struct {
        const char *method;
        const char *revision;
        int requests;
    } rows[] = {{"GET", NULL, 2},    {"POST", NULL, 2}, {"POST", "3", 2},  {"PATCH", NULL, 2},
                {"DELETE", NULL, 2}, {"PATCH", "3", 1}, {"DELETE", "3", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cli_api *api = NULL;
        cli_kit_clear(state);
        cli_kit_say(CLI_KIT_DROP, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{");
        cli_kit_answer(200, "{}");
        assert_int_equal(open_api(&api, "admin.key", stderr), STATUS_OK);
        assert_int_equal(ask(api, rows[i].method, rows[i].revision),
                         rows[i].requests == 2 ? STATUS_OK : STATUS_IO);
        assert_int_equal(cli_kit.steps_done, rows[i].requests);
        cli_api_close(api);
    }
}

/* Both tries of a POST carry the same key; another POST carries another. */
static void test_idempotency(void **state)
{
    (void)state;
    struct cli_api *api = NULL;
    char keys[3][64];
    cli_kit_say(CLI_KIT_DROP, "");
    cli_kit_answer(200, "{}");
    cli_kit_answer(200, "{}");
    assert_int_equal(open_api(&api, "admin.key", stderr), STATUS_OK);
    assert_int_equal(ask(api, "POST", NULL), STATUS_OK);
    assert_int_equal(ask(api, "POST", NULL), STATUS_OK);
    const char *at = cli_kit.seen;
    for (size_t i = 0; i < 3; i++) {
        at = strstr(at, "idempotency-key: ");
        assert_non_null(at);
        at += 17;
        snprintf(keys[i], sizeof keys[i], "%.36s", at);
        assert_int_equal(strspn(keys[i] + 4, "0123456789abcdef"), 32);
    }
    assert_string_equal(keys[0], keys[1]);
    assert_string_not_equal(keys[0], keys[2]);
    cli_api_close(api);
}

static void test_busy_and_still_running(void **state)
{
    (void)state;
    struct cli_api *api = NULL;
    assert_int_equal(open_api(&api, "admin.key", stderr), STATUS_OK);
    for (int i = 0; i < 3; i++)
        cli_kit_say(CLI_KIT_KEEP,
                    "HTTP/1.1 503 No\r\nretry-after-ms: 1\r\ncontent-length: 2\r\n\r\n{}");
    assert_int_equal(ask(api, "GET", NULL), STATUS_CONFLICT);
    assert_int_equal(cli_kit.steps_done, 3);
    cli_kit_has(status_note()->message, "try again shortly");
    /* The first try is still at work when the second comes. */
    cli_kit_say(CLI_KIT_DROP, "");
    cli_kit_answer(409, "{}");
    cli_kit_answer(201, "{}");
    assert_int_equal(ask(api, "POST", NULL), STATUS_OK);
    assert_int_equal(cli_kit.steps_done, 6);
    cli_kit_answer(409, "{}"); /* a plain refusal is not asked again */
    assert_int_equal(ask(api, "POST", NULL), STATUS_CONFLICT);
    assert_int_equal(cli_kit.steps_done, 7);
    cli_api_close(api);
}

static void page(int first, int count, bool has_more)
{
    struct buffer body;
    buffer_init(&body, 65536);
    buffer_append_text(&body, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < count; i++)
        buffer_printf(&body, "%s{\"id\":\"r_%d\"}", i > 0 ? "," : "", first + i);
    buffer_printf(&body, "],\"first_id\":\"r_%d\",\"last_id\":\"r_%d\",\"has_more\":%s}", first,
                  first + count - 1, has_more ? "true" : "false");
    cli_kit_answer(200, body.bytes);
    buffer_deinit(&body);
}

static void test_lists(void **state)
{
    (void)state;
    struct cli_api *api = NULL;
    json_t *list = NULL;
    assert_int_equal(open_api(&api, "admin.key", stderr), STATUS_OK);
    page(0, 100, true);
    page(100, 50, true);
    assert_int_equal(cli_api_list(api, "/l", "desc", 150, &list), STATUS_OK);
    cli_kit_has(cli_kit.seen, "GET /l?limit=100&order=desc HTTP/1.1");
    cli_kit_has(cli_kit.seen, "GET /l?limit=50&order=desc&after=r_99 HTTP/1.1");
    assert_int_equal(json_array_size(json_object_get(list, "data")), 150);
    assert_string_equal(json_string_value(json_object_get(list, "first_id")), "r_0");
    assert_string_equal(json_string_value(json_object_get(list, "last_id")), "r_149");
    assert_true(json_is_true(json_object_get(list, "has_more")));
    json_decref(list);
    page(0, 2, false);
    assert_int_equal(cli_api_list(api, "/l", "asc", 1000, &list), STATUS_OK);
    assert_true(json_is_false(json_object_get(list, "has_more")));
    json_decref(list);
    cli_kit_answer(200, "{\"object\":\"list\",\"data\":[],\"first_id\":null,\"last_id\":null,"
                        "\"has_more\":false}");
    assert_int_equal(cli_api_list(api, "/l", "asc", 1000, &list), STATUS_OK);
    assert_true(json_is_null(json_object_get(list, "first_id")));
    json_decref(list);
    cli_api_close(api);
}

/* A server that would keep a client asking for ever, or gives no list, is not followed. */
static void test_lists_that_lie(void **state)
{
    (void)state;
    struct cli_api *api = NULL;
    json_t *list = NULL;
    assert_int_equal(open_api(&api, "admin.key", stderr), STATUS_OK);
    page(0, 1, true);
    page(0, 1, true);
    assert_int_equal(cli_api_list(api, "/l", "asc", 1000, &list), STATUS_PROTOCOL);
    static const char *const wrong[] = {
        "{}", "{\"data\":{}}", "{\"data\":[],\"has_more\":true}",
        "{\"data\":[{}],\"has_more\":false}",
        /* An id of LIMIT_ID_BYTES characters has no room for its end. */
        "{\"data\":[{}],\"last_id\":\"0123456789012345678901234567890123456789\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cli_kit_answer(200, wrong[i]);
        assert_int_equal(cli_api_list(api, "/l", "asc", 1000, &list), STATUS_PROTOCOL);
    }
    cli_api_close(api);
}

static void test_segments(void **state)
{
    (void)state;
    struct buffer path;
    buffer_init(&path, 256);
    cli_api_append_segment(&path, SLICE("key_aZ09-~/../?a=b&c#%\xc3\xb6 "));
    assert_string_equal(path.bytes, "key_aZ09-~%2F%2E%2E%2F%3Fa%3Db%26c%23%25%C3%B6%20");
    buffer_deinit(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_key_files, cli_kit_clear),
        cmocka_unit_test_setup(test_refusals, cli_kit_clear),
        cmocka_unit_test_setup(test_lost_connections, cli_kit_clear),
        cmocka_unit_test_setup(test_idempotency, cli_kit_clear),
        cmocka_unit_test_setup(test_busy_and_still_running, cli_kit_clear),
        cmocka_unit_test_setup(test_lists, cli_kit_clear),
        cmocka_unit_test_setup(test_lists_that_lie, cli_kit_clear),
        cmocka_unit_test_setup(test_segments, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
