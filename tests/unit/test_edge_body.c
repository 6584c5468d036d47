#include "gateway/edge/request/edge_body.h"

#include "config/base/limits.h"
#include "tests/unit/edge_text_kit.h"

static void test_fields(void **state)
{
    (void)state;
    struct edge_body body;
    assert_int_equal(edge_body_read(SLICE("{\"model\":\"m\",\"stream\":true,"
                                          "\"stream_options\":{\"include_usage\":true}}"),
                                    &body),
                     STATUS_OK);
    assert_true(body.is_stream);
    assert_true(body.includes_usage);
    assert_string_equal(body.model, "m");
    assert_int_equal(edge_body_read(SLICE("{\"stream\":null,\"model\":7}"), &body), STATUS_OK);
    assert_false(body.is_stream);
    assert_false(body.includes_usage);
    assert_string_equal(body.model, "");
}

static void refuse(const char *text, const char *param, const char *message)
{
    struct edge_body body;
    assert_int_equal(edge_body_read(slice_of(text), &body), STATUS_INVALID);
    assert_string_equal(status_note()->param, param);
    edge_text_has(status_note()->message, message);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("", "", "empty");
    refuse("{", "", "JSON");
    refuse("[]", "", "object");
    refuse("null", "", "object");
    refuse("\"x\"", "", "object");
    refuse("{} {}", "", "after its end");
    refuse("{\"model\":\"a\",\"model\":\"b\"}", "", "twice");
    refuse("{\"stream_options\":{\"include_usage\":true,\"include_usage\":false}}", "", "twice");
    refuse("\xff\xfe{}", "", "UTF-8");
    refuse("{\"model\":1e999}", "", "too large");
    refuse("{\"stream\":\"yes\"}", "stream", "true or false");
    refuse("{\"stream_options\":{\"include_usage\":1}}", "stream_options.include_usage", "true");
    refuse("{\"a\":\"\xed\xa0\x80\"}", "", "UTF-8");
    refuse("{\"model\":\"m\\u0000x\"}", "model", "NUL");
    refuse("{\"service_tier\":\"flex\\u0000\"}", "service_tier", "NUL");
}

static void test_what_only_the_edge_may_say(void **state)
{
    (void)state;
    struct edge_body body;
    assert_int_equal(edge_body_read(SLICE("{\"cache_salt\":1}"), &body), STATUS_UNSUPPORTED);
    assert_string_equal(status_note()->param, "cache_salt");
    assert_int_equal(
        edge_body_read(SLICE("{\"cache_salt\":null,\"metadata\":{\"cache_salt\":1}}"), &body),
        STATUS_OK);
    assert_int_equal(edge_body_read(SLICE("{\"\\u0063ache_salt\":0}"), &body), STATUS_UNSUPPORTED);
}

/* What is asked for, what the tenant may have, what comes of it. */
static void test_classes(void **state)
{
    (void)state;
    enum { R = SERVICE_CLASS_REALTIME, S = SERVICE_CLASS_STANDARD, B = SERVICE_CLASS_BATCH };
    static const struct {
        const char *text;
        int usual, best, served;
        bool is_downgraded;
    } rows[] = {
        {"{}", S, R, S, false},
        {"{}", B, R, B, false},
        {"{\"service_tier\":null,\"priority\":null}", S, R, S, false},
        {"{\"service_tier\":\"auto\"}", B, S, B, false},
        {"{\"service_tier\":\"default\"}", R, R, R, false},
        {"{\"service_tier\":\"priority\"}", S, R, R, false},
        {"{\"service_tier\":\"pri\\u006frity\"}", S, R, R, false},
        {"{\"service_tier\":\"priority\"}", S, S, S, true},
        {"{\"service_tier\":\"priority\"}", B, B, B, true},
        {"{\"service_tier\":\"flex\"}", R, R, B, false},
        {"{\"service_tier\":\"scale\"}", S, R, S, false}, /* the engine's to refuse */
        {"{\"service_tier\":7}", S, R, S, false},
        {"{\"priority\":0}", S, R, S, false},
        {"{\"\\u0070riority\":1}", S, R, B, false},
        {"{\"priority\":1,\"service_tier\":\"priority\"}", S, R, S, false},
        {"{\"priority\":1,\"service_tier\":\"priority\"}", S, S, B, true},
        {"{\"priority\":2147483647}", R, R, B, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct edge_body body;
        struct edge_class found;
        const struct principal principal = {.scopes = AUTH_SCOPES_TENANT_ALL,
                                            .default_class = (enum service_class)rows[i].usual,
                                            .best_class = (enum service_class)rows[i].best};
        assert_int_equal(edge_body_read(slice_of(rows[i].text), &body), STATUS_OK);
        assert_int_equal(edge_body_class(&body, &principal, &found), STATUS_OK);
        assert_int_equal(found.service_class, rows[i].served);
        assert_int_equal(found.is_downgraded, rows[i].is_downgraded);
    }
}

static void test_priority_needs_its_scope_and_a_number(void **state)
{
    (void)state;
    struct edge_body body;
    struct edge_class found;
    const struct principal principal = {.scopes = AUTH_SCOPES_TENANT};
    assert_int_equal(edge_body_read(SLICE("{\"priority\":0}"), &body), STATUS_OK);
    assert_int_equal(edge_body_class(&body, &principal, &found), STATUS_UNSUPPORTED);
    assert_string_equal(status_note()->param, "priority");
    refuse("{\"priority\":-1}", "priority", "whole number");
    refuse("{\"priority\":1.5}", "priority", "whole number");
    refuse("{\"priority\":2147483648}", "priority", "whole number");
    refuse("{\"priority\":\"1\"}", "priority", "whole number");
    refuse("{\"priority\":true}", "priority", "whole number");
}

static void test_a_refusal_never_quotes_the_body(void **state)
{
    (void)state;
    struct edge_body body;
    const char *texts[] = {"{\"messages\": secretsecret}", "{\"a\":\"secretsecret\n\"}",
                           "{\"secretsecret\":1,\"secretsecret\":2}", "{} secretsecret"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(edge_body_read(slice_of(texts[i]), &body), STATUS_INVALID);
        assert_null(strstr(status_note()->message, "secretsecret"));
    }
}

static void repeat(struct buffer *out, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buffer_append_text(out, text);
}

static void test_depth_and_elements_at_the_limit(void **state)
{
    (void)state;
    struct edge_body body;
    for (size_t extra = 0; extra < 2; extra++) {
        struct buffer text;
        buffer_init(&text, LIMIT_BODY_BYTES);
        repeat(&text, "{\"a\":", LIMIT_JSON_DEPTH + extra);
        buffer_append_text(&text, "1");
        repeat(&text, "}", LIMIT_JSON_DEPTH + extra);
        assert_int_equal(edge_body_read(buffer_slice(&text), &body),
                         extra == 0 ? STATUS_OK : STATUS_INVALID);
        buffer_clear(&text);
        /* One for the object, one for the array, one for each comma. */
        buffer_append_text(&text, "{\"a\":[1");
        repeat(&text, ",1", LIMIT_JSON_ELEMENTS - 2 + extra);
        buffer_append_text(&text, "]}");
        assert_int_equal(edge_body_read(buffer_slice(&text), &body),
                         extra == 0 ? STATUS_OK : STATUS_INVALID);
        buffer_deinit(&text);
    }
}

static void test_brackets_in_strings_do_not_count(void **state)
{
    (void)state;
    struct edge_body body;
    struct buffer text;
    buffer_init(&text, LIMIT_BODY_BYTES);
    buffer_append_text(&text, "{\"a\":\"\\\"");
    repeat(&text, "[,{", LIMIT_JSON_ELEMENTS);
    buffer_append_text(&text, "\"}");
    assert_int_equal(edge_body_read(buffer_slice(&text), &body), STATUS_OK);
    buffer_deinit(&text);
}

static void test_a_long_model_is_cut_at_a_character(void **state)
{
    (void)state;
    struct edge_body body;
    struct buffer text;
    buffer_init(&text, 4096);
    buffer_append_text(&text, "{\"model\":\"");
    repeat(&text, "é", EDGE_BODY_MODEL_BYTES); /* two bytes each: 127 is odd */
    buffer_append_text(&text, "\"}");
    assert_int_equal(edge_body_read(buffer_slice(&text), &body), STATUS_OK);
    assert_int_equal(strlen(body.model), EDGE_BODY_MODEL_BYTES - 2);
    buffer_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_what_only_the_edge_may_say),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_priority_needs_its_scope_and_a_number),
        cmocka_unit_test(test_a_refusal_never_quotes_the_body),
        cmocka_unit_test(test_depth_and_elements_at_the_limit),
        cmocka_unit_test(test_brackets_in_strings_do_not_count),
        cmocka_unit_test(test_a_long_model_is_cut_at_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
