#include "gateway/engine_http/face_text.h"

#include "tests/unit/face_kit.h"

static struct face_kit kit;

static json_t *ask(const char *path, const char *body, int expected)
{
    struct buffer answer;
    int code = face_kit_ask(&kit, "POST", path, "", body, &answer);
    if (code != expected)
        fail_msg("%s %s: %d\n%s", path, body, code, answer.bytes);
    json_t *json = face_kit_json(&answer);
    buffer_deinit(&answer);
    return json;
}

static void test_there_and_back(void **state)
{
    (void)state;
    json_t *ids =
        ask("/v1/tokenize", "{\"model\":\"small\",\"prompt\":\"The capital of France is\"}", 200);
    assert_int_equal(face_kit_number(ids, "count"), 5);
    assert_int_equal(face_kit_number(ids, "max_model_len"), 512);
    json_t *request =
        json_pack("{s:s, s:O}", "model", "small", "tokens", json_object_get(ids, "tokens"));
    char *body = json_dumps(request, 0);
    json_t *text = ask("/v1/detokenize", body, 200);
    assert_string_equal(json_string_value(json_object_get(text, "prompt")),
                        "The capital of France is");
    free(body);
    json_decref(request);
    json_decref(text);
    json_decref(ids);
}

static void test_messages_become_a_prompt(void **state)
{
    (void)state;
    const char *body = "{\"model\":\"small\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
                       "\"add_generation_prompt\":false}";
    json_t *without = ask("/v1/tokenize", body, 200);
    json_t *with =
        ask("/v1/tokenize",
            "{\"model\":\"small\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", 200);
    assert_true(face_kit_number(with, "count") > face_kit_number(without, "count"));
    json_decref(without);
    json_decref(with);
}

static void refuse(const char *path, const char *body, int code, const char *param)
{
    json_t *json = ask(path, body, code);
    const json_t *error = json_object_get(json, "error");
    assert_string_equal(json_string_value(json_object_get(error, "param")), param);
    json_decref(json);
}

static void test_wrong_bodies(void **state)
{
    (void)state;
    refuse("/v1/tokenize", "{\"model\":\"small\"}", 400, "prompt");
    refuse("/v1/tokenize", "{\"model\":\"small\",\"prompt\":\"a\",\"messages\":[]}", 400, "prompt");
    refuse("/v1/tokenize", "{\"model\":\"small\",\"prompt\":7}", 400, "prompt");
    refuse("/v1/tokenize", "{\"model\":\"small\",\"prompt\":\"a\",\"x\":1}", 400, "x");
    refuse("/v1/tokenize", "{\"model\":\"large\",\"prompt\":\"a\"}", 404, "model");
    refuse("/v1/tokenize", "{\"model\":\"small\",\"prompt\":\"a\",\"add_special_tokens\":1}", 400,
           "add_special_tokens");
    refuse("/v1/detokenize", "{\"model\":\"small\"}", 400, "tokens");
    refuse("/v1/detokenize", "{\"model\":\"small\",\"tokens\":[1,49152]}", 400, "tokens[1]");
    refuse("/v1/detokenize", "{\"model\":\"small\",\"tokens\":[-1]}", 400, "tokens[0]");
    refuse("/v1/detokenize", "{\"model\":\"small\",\"tokens\":\"x\"}", 400, "tokens");
}

/* Requests that leave while the worker is at them must not be touched afterwards. */
static void test_clients_that_leave(void **state)
{
    (void)state;
    struct buffer body;
    buffer_init(&body, 1024 * 1024);
    buffer_append_text(&body, "{\"model\":\"small\",\"prompt\":\"");
    for (int i = 0; i < 20000; i++)
        buffer_append_text(&body, "some words ");
    buffer_append_text(&body, "\"}");
    for (int i = 0; i < 8; i++) {
        int descriptor = face_kit_connect(&kit);
        face_kit_send(descriptor, "POST", "/v1/tokenize", "", body.bytes);
        close(descriptor);
    }
    buffer_deinit(&body);
    json_t *json = ask("/v1/tokenize", "{\"model\":\"small\",\"prompt\":\"still here\"}", 200);
    assert_int_equal(face_kit_number(json, "count"), 2);
    json_decref(json);
}

static int start(void **state)
{
    (void)state;
    return face_kit_start(&kit, face_kit_model()) ? 0 : 1;
}

static int stop(void **state)
{
    (void)state;
    return face_kit_stop(&kit) == STATUS_OK ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_messages_become_a_prompt),
        cmocka_unit_test(test_wrong_bodies),
        cmocka_unit_test(test_clients_that_leave),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
