#include "gateway/engine_http/face_routes.h"

#include "tests/unit/face_kit.h"

static struct face_kit kit;

static json_t *ask(const char *method, const char *path, const char *body, int expected)
{
    struct buffer answer;
    int code = face_kit_ask(&kit, method, path, "", body, &answer);
    if (code != expected)
        fail_msg("%s %s: %d\n%s", method, path, code, answer.bytes);
    json_t *json = face_kit_json(&answer);
    buffer_deinit(&answer);
    return json;
}

static void test_models(void **state)
{
    (void)state;
    json_t *list = ask("GET", "/v1/models", NULL, 200);
    const json_t *one = json_array_get(json_object_get(list, "data"), 0);
    assert_string_equal(json_string_value(json_object_get(one, "id")), "small");
    assert_int_equal(face_kit_number(one, "max_model_len"), 512);
    json_decref(list);
    json_decref(ask("GET", "/v1/models/small", NULL, 200));
    json_t *missing = ask("GET", "/v1/models/large", NULL, 404);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(missing, "error"), "code")),
        "model_not_found");
    json_decref(missing);
}

static void test_health_and_stats(void **state)
{
    (void)state;
    json_t *health = ask("GET", "/health", NULL, 200);
    assert_int_equal(face_kit_number(health, "protocol"), 1);
    json_decref(health);
    json_t *stats = ask("GET", "/internal/v1/stats", NULL, 200);
    assert_int_equal(face_kit_number(stats, "requests"), 0);
    assert_int_equal(face_kit_number(stats, "protocol"), 1);
    assert_string_equal(json_string_value(json_object_get(stats, "model")), "small");
    assert_int_equal(strlen(json_string_value(json_object_get(stats, "instance"))), 16);
    assert_int_equal(face_kit_number(stats, "finals_live"), 0);
    json_t *classes = json_object_get(stats, "by_class");
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        json_t *one = json_object_get(classes, service_class_name((enum service_class)i));
        assert_int_equal(face_kit_number(one, "waiting"), 0);
        assert_int_equal(face_kit_number(one, "paused"), 0);
    }
    assert_int_equal(face_kit_number(stats, "preemptions_swap"), 0);
    assert_int_equal(face_kit_number(stats, "pages_free"), face_kit_number(stats, "pages_total"));
    assert_true(face_kit_number(stats, "heap_bytes") >= 0); /* 0 under a sanitizer */
    json_decref(stats);
    json_t *requests = ask("GET", "/internal/v1/requests", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(requests, "data")), 0);
    json_decref(requests);
    struct buffer metrics;
    assert_int_equal(face_kit_ask(&kit, "GET", "/metrics", "", NULL, &metrics), 200);
    assert_true(face_kit_count(&metrics, "banyan_kernel_info{") >= 1);
    assert_int_equal(face_kit_count(&metrics, "banyan_final_records 0\n"), 1);
    assert_int_equal(face_kit_count(&metrics, "banyan_final_records_lost 0\n"), 1);
    assert_int_equal(face_kit_count(&metrics, "banyan_engine_jobs 0\n"), 1);
    buffer_deinit(&metrics);
}

/* Every route looks at the protocol, and every answer says which one is spoken here. */
static void test_another_protocol(void **state)
{
    (void)state;
    static const char *const paths[] = {"/health", "/internal/v1/finals", "/v1/models"};
    struct buffer answer;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(
            face_kit_ask(&kit, "GET", paths[i], "x-banyan-protocol: 2\r\n", NULL, &answer), 400);
        assert_int_equal(face_kit_count(&answer, "\"code\":\"protocol_mismatch\""), 1);
        buffer_deinit(&answer);
        assert_int_equal(
            face_kit_ask(&kit, "GET", paths[i], "x-banyan-protocol: 1\r\n", NULL, &answer), 200);
        assert_int_equal(face_kit_count(&answer, "x-banyan-protocol: 1\r\n"), 1);
        buffer_deinit(&answer);
    }
}

static void test_paths_and_methods(void **state)
{
    (void)state;
    json_decref(ask("GET", "/nowhere", NULL, 404));
    json_decref(ask("GET", "/v1/completions", NULL, 405));
    json_decref(ask("DELETE", "/internal/v1/requests/req_none", NULL, 404));
    json_decref(ask("PATCH", "/internal/v1/requests/req_none", "{\"class\":\"batch\"}", 404));
    json_decref(ask("PATCH", "/internal/v1/requests/req_none", "{\"class\":\"realtime\"}", 400));
    json_decref(ask("PATCH", "/internal/v1/requests/req_none", "{\"class\":1}", 400));
    json_decref(ask("PATCH", "/internal/v1/requests/req_none", "{\"weight\":1}", 400));
}

/* Final records wait until they are acknowledged. */
static void test_finals_and_their_acknowledgement(void **state)
{
    (void)state;
    struct buffer answer;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(face_kit_ask(&kit, "POST", "/v1/completions", "",
                                      "{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":2,"
                                      "\"ignore_eos\":true}",
                                      &answer),
                         200);
        buffer_deinit(&answer);
    }
    json_t *finals = ask("GET", "/internal/v1/finals", NULL, 200);
    const json_t *data = json_object_get(finals, "data");
    assert_int_equal(json_array_size(data), 2);
    assert_int_equal(face_kit_number(json_array_get(data, 1), "completion_tokens"), 2);
    long long last = face_kit_number(json_array_get(data, 1), "record_seq");
    json_decref(finals);
    char path[64];
    snprintf(path, sizeof path, "/internal/v1/finals?after=%lld", last - 1);
    finals = ask("GET", path, NULL, 200);
    assert_int_equal(json_array_size(json_object_get(finals, "data")), 1);
    assert_int_equal(face_kit_number(finals, "last"), last);
    assert_int_equal(face_kit_number(finals, "acked"), 0);
    assert_int_equal(face_kit_number(finals, "lost"), 0);
    assert_true(json_is_false(json_object_get(finals, "has_more")));
    json_decref(finals);
    finals = ask("GET", "/internal/v1/finals?limit=1&after=0", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(finals, "data")), 1);
    assert_int_equal(face_kit_number(finals, "last"), last - 1);
    assert_true(json_is_true(json_object_get(finals, "has_more")));
    json_decref(finals);
    static const char *const wrong[] = {
        "after=",          "after=-1", "after=x",  "limit=0", "limit=1001",
        "after=1&after=2", "before=1", "after=1&", "limit=",  "after=1234567890123456789"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(path, sizeof path, "/internal/v1/finals?%s", wrong[i]);
        json_decref(ask("GET", path, NULL, i == 7 ? 200 : 400));
    }
    char body[64];
    snprintf(body, sizeof body, "{\"record_seq\":%lld}", last);
    json_decref(ask("POST", "/internal/v1/ack", body, 200));
    finals = ask("GET", "/internal/v1/finals", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(finals, "data")), 0);
    json_decref(finals);
    snprintf(body, sizeof body, "{\"record_seq\":%lld}", last + 1);
    json_decref(ask("POST", "/internal/v1/ack", body, 400));
    json_decref(ask("POST", "/internal/v1/ack", "{\"record_seq\":-1}", 400));
    json_decref(ask("POST", "/internal/v1/ack", "{}", 400));
    json_decref(ask("POST", "/internal/v1/ack", "{\"record_seq\":1,\"more\":1}", 400));
    json_decref(ask("POST", "/internal/v1/ack", "{\"record_seq\":1.5}", 400));
    json_decref(ask("POST", "/internal/v1/ack", "[", 400));
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
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_health_and_stats),
        cmocka_unit_test(test_another_protocol),
        cmocka_unit_test(test_paths_and_methods),
        cmocka_unit_test(test_finals_and_their_acknowledgement),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
