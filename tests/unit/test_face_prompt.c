/* face_prompt: publishing, listing and unpublishing on the engine's own socket, the small model. */
#include "gateway/engine_http/face_prompt.h"

#include "tests/unit/face_kit.h"

#define PROMPTS "/internal/v1/prompts"
#define DOMAIN  "0123456789abcdef0123456789abcdef"
#define SYSTEM  "{\"role\":\"system\",\"content\":\"You answer in one short sentence.\"}"

static struct face_kit kit;

static json_t *ask(const char *method, const char *path, const char *body, int expected)
{
    struct buffer answer;
    int code = face_kit_ask(&kit, method, path, "", body, &answer);
    if (code != expected)
        fail_msg("%s %s %s: %d\n%s", method, path, body, code, answer.bytes);
    json_t *json = face_kit_json(&answer);
    buffer_deinit(&answer);
    return json;
}

/* A domain that is still being unpublished is busy for a step. */
static json_t *publish(const char *body)
{
    struct buffer answer;
    int code = 503;
    for (int i = 0; i < 3000 && code == 503; i++) {
        if (i > 0) {
            buffer_deinit(&answer);
            usleep(10000);
        }
        code = face_kit_ask(&kit, "POST", PROMPTS, "", body, &answer);
    }
    if (code != 200)
        fail_msg("%s: %d\n%s", body, code, answer.bytes);
    json_t *json = face_kit_json(&answer);
    buffer_deinit(&answer);
    return json;
}

static size_t published(void)
{
    json_t *list = ask("GET", PROMPTS, NULL, 200);
    size_t count = json_array_size(json_object_get(list, "data"));
    json_decref(list);
    return count;
}

static void test_publish_list_unpublish(void **state)
{
    (void)state;
    static const char body[] = "{\"domain\":\"" DOMAIN "\",\"messages\":[" SYSTEM "]}";
    static const char plain[] = "{\"domain\":\"" DOMAIN "\",\"text\":\"Once upon a time there\"}";
    static const char dry[] =
        "{\"domain\":\"" DOMAIN "\",\"messages\":[" SYSTEM "],\"dry_run\":true}";
    json_t *asked = ask("POST", PROMPTS, dry, 200);
    long long tokens = face_kit_number(asked, "tokens");
    assert_true(tokens > 5);
    assert_int_equal(face_kit_number(asked, "pages"), (tokens + 15) / 16);
    json_decref(asked);
    assert_int_equal(published(), 0);
    for (int twice = 0; twice < 2; twice++) { /* the second time it is there already */
        json_t *made = publish(body);
        assert_int_equal(face_kit_number(made, "tokens"), tokens);
        assert_int_equal(face_kit_number(made, "pages"), (tokens + 15) / 16);
        json_decref(made);
        assert_int_equal(published(), 1);
    }
    json_t *list = ask("GET", PROMPTS, NULL, 200);
    const json_t *row = json_array_get(json_object_get(list, "data"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "domain")), DOMAIN);
    assert_int_equal(face_kit_number(row, "tokens"), tokens);
    json_decref(list);
    for (int twice = 0; twice < 2; twice++) {
        json_decref(ask("DELETE", PROMPTS "/" DOMAIN, NULL, 200));
        assert_int_equal(published(), 0);
    }
    json_decref(publish(plain)); /* another text, the same domain */
    assert_int_equal(published(), 1);
    json_decref(ask("DELETE", PROMPTS "/" DOMAIN, NULL, 200));
}

/* A tenant's chat that begins with the published messages begins with their tokens. */
static void test_is_a_prefix(void **state)
{
    (void)state;
    json_t *prefix = ask("POST", "/v1/tokenize",
                         "{\"model\":\"small\",\"add_generation_prompt\":false,"
                         "\"messages\":[" SYSTEM "]}",
                         200);
    json_t *whole = ask("POST", "/v1/tokenize",
                        "{\"model\":\"small\",\"messages\":[" SYSTEM
                        ",{\"role\":\"user\",\"content\":\"Why?\"}]}",
                        200);
    json_t *made = publish("{\"domain\":\"" DOMAIN "\",\"messages\":[" SYSTEM "]}");
    const json_t *short_ids = json_object_get(prefix, "tokens");
    const json_t *long_ids = json_object_get(whole, "tokens");
    assert_int_equal(face_kit_number(made, "tokens"), (long long)json_array_size(short_ids));
    assert_true(json_array_size(long_ids) > json_array_size(short_ids));
    for (size_t i = 0; i < json_array_size(short_ids); i++)
        assert_true(json_equal(json_array_get(short_ids, i), json_array_get(long_ids, i)));
    json_decref(prefix);
    json_decref(whole);
    json_decref(made);
    json_decref(ask("DELETE", PROMPTS "/" DOMAIN, NULL, 200));
}

static void refuse(const char *body, int code, const char *param, const char *part)
{
    json_t *json = ask("POST", PROMPTS, body, code);
    const json_t *error = json_object_get(json, "error");
    const char *its = json_string_value(json_object_get(error, "param"));
    assert_string_equal(its != NULL ? its : "", param);
    assert_non_null(strstr(json_string_value(json_object_get(error, "message")), part));
    json_decref(json);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("{\"text\":\"a\"}", 400, "domain", "32");
    refuse("{\"domain\":\"0123456789ABCDEF0123456789ABCDEF\",\"text\":\"a\"}", 400, "domain", "32");
    refuse("{\"domain\":\"" DOMAIN "\"}", 400, "messages", "either");
    refuse("{\"domain\":\"" DOMAIN "\",\"text\":\"a\",\"messages\":[" SYSTEM "]}", 400, "messages",
           "either");
    refuse("{\"domain\":\"" DOMAIN "\",\"text\":7}", 400, "text", "string");
    refuse("{\"domain\":\"" DOMAIN "\",\"text\":\"\"}", 400, "text", "no tokens");
    refuse("{\"domain\":\"" DOMAIN "\",\"text\":\"a\",\"colour\":1}", 400, "body.colour", "colour");
    refuse("nothing", 400, "", "JSON");
    json_decref(ask("DELETE", PROMPTS "/0123", NULL, 400));
    /* One more than fits before a first token, with the numbers. */
    struct buffer body;
    for (int words = 511; words <= 512; words++) {
        buffer_init(&body, 16384);
        buffer_append_text(&body, "{\"domain\":\"" DOMAIN "\",\"text\":\"");
        for (int i = 0; i < words; i++)
            buffer_append_text(&body, " the");
        buffer_append_text(&body, "\",\"dry_run\":true}");
        if (words == 511)
            json_decref(ask("POST", PROMPTS, body.bytes, 200));
        else
            refuse(body.bytes, 400, "text", "512 tokens; with the model's context of 512");
        buffer_deinit(&body);
    }
    assert_int_equal(published(), 0);
}

/* Whoever leaves while it is computed takes it back. */
static void test_left_alone(void **state)
{
    (void)state;
    struct buffer body;
    buffer_init(&body, 16384);
    buffer_append_text(&body, "{\"domain\":\"" DOMAIN "\",\"text\":\"");
    for (int i = 0; i < 500; i++)
        buffer_append_text(&body, " the");
    buffer_append_text(&body, "\"}");
    for (int i = 0; i < 4; i++) {
        int descriptor = face_kit_connect(&kit);
        face_kit_send(descriptor, "POST", PROMPTS, "", body.bytes);
        close(descriptor);
    }
    buffer_deinit(&body);
    /* Taken back, or done before that was seen: then it is unpublished as any other. */
    size_t count = 1;
    for (int i = 0; i < 3000 && count != 0; i++) {
        json_decref(ask("DELETE", PROMPTS "/" DOMAIN, NULL, 200));
        json_t *stats = ask("GET", "/internal/v1/stats", NULL, 200);
        count = published() + (size_t)face_kit_number(stats, "requests");
        json_decref(stats);
        if (count != 0)
            usleep(10000);
    }
    assert_int_equal(count, 0);
}

static int setup(void **state)
{
    (void)state;
    return face_kit_start(&kit, face_kit_model()) ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    return face_kit_stop(&kit) == STATUS_OK ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_publish_list_unpublish),
        cmocka_unit_test(test_is_a_prefix),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_left_alone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
