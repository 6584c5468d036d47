#include "gateway/edge/state/edge_json.h"

#include "config/base/limits.h"
#include "gateway/http/http_error.h"
#include "tests/unit/edge_text_kit.h"

#define VALUE(literal) ((struct json_value){(literal), sizeof(literal) - 1})

static void test_members_are_spans(void **state)
{
    (void)state;
    struct slice text = SLICE(" { \"a\" : 1.50 ,\"b\":\"x\\\"}\", \"c\":[1,{\"d\":2}],\"e\":null}");
    const char *keys[] = {"\"a\"", "\"b\"", "\"c\"", "\"e\""};
    const char *values[] = {"1.50", "\"x\\\"}\"", "[1,{\"d\":2}]", "null"};
    struct edge_json_walk walk;
    assert_int_equal(edge_json_object(&walk, text), STATUS_OK);
    struct json_value key, value;
    bool found;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(edge_json_member(&walk, &found, &key, &value), STATUS_OK);
        assert_true(found);
        edge_text_same(json_scan_text(key), keys[i]);
        edge_text_same(json_scan_text(value), values[i]);
    }
    assert_int_equal(edge_json_member(&walk, &found, &key, &value), STATUS_OK);
    assert_false(found);
}

static void test_elements_are_spans(void **state)
{
    (void)state;
    struct edge_json_walk walk;
    struct json_value value;
    bool found;
    assert_int_equal(edge_json_array(&walk, SLICE("[ ]")), STATUS_OK);
    assert_int_equal(edge_json_element(&walk, &found, &value), STATUS_OK);
    assert_false(found);
    assert_int_equal(edge_json_array(&walk, SLICE("[\"]\", {\"a\":[]} ,-1e5]")), STATUS_OK);
    const char *values[] = {"\"]\"", "{\"a\":[]}", "-1e5"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(edge_json_element(&walk, &found, &value), STATUS_OK);
        assert_true(found);
        edge_text_same(json_scan_text(value), values[i]);
    }
    assert_int_equal(edge_json_element(&walk, &found, &value), STATUS_OK);
    assert_false(found);
}

/* Walks everything; the first refusal is returned. */
static enum status walk_all(struct slice text)
{
    struct edge_json_walk walk;
    struct json_value key, value;
    bool found = true;
    TRY(edge_json_object(&walk, text));
    while (found)
        TRY(edge_json_member(&walk, &found, &key, &value));
    return STATUS_OK;
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    struct slice text = SLICE("{\"a\":{\"b\":[1,\"\\\\\"]},\"c\":true}");
    assert_int_equal(walk_all(text), STATUS_OK);
    for (size_t length = 0; length < text.length; length++) {
        char *copy = mem_strndup(text.bytes, length); /* exact, so that a read beyond is caught */
        assert_int_equal(walk_all((struct slice){copy, length}), STATUS_PROTOCOL);
        mem_free(copy);
    }
}

static void test_broken_texts_are_refused(void **state)
{
    (void)state;
    const char *texts[] = {"[]",        "{a:1}",      "{\"a\" 1}",  "{\"a\":}", "{\"a\":1 \"b\":2}",
                           "{\"a\":[}", "{\"a\":{]}", "{\"a\":1,}", "{,}",      "{\"a\":,\"b\":1}",
                           "\"x\"",     "1",          "{\"a\":\"x}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (walk_all(slice_of(texts[i])) != STATUS_PROTOCOL)
            fail_msg("accepted: %s", texts[i]);
    }
}

static void test_depth_at_the_limit(void **state)
{
    (void)state;
    for (size_t extra = 0; extra < 2; extra++) {
        struct buffer text;
        buffer_init(&text, 4096);
        size_t depth = LIMIT_JSON_DEPTH + extra;
        buffer_append_text(&text, "{\"a\":");
        for (size_t i = 0; i < depth; i++)
            buffer_append_char(&text, '[');
        for (size_t i = 0; i < depth; i++)
            buffer_append_char(&text, ']');
        buffer_append_char(&text, '}');
        assert_int_equal(walk_all(buffer_slice(&text)), extra == 0 ? STATUS_OK : STATUS_PROTOCOL);
        buffer_deinit(&text);
    }
}

static void test_scalars(void **state)
{
    (void)state;
    uint64_t number;
    assert_int_equal(edge_json_digits(SLICE("0"), 9, &number), STATUS_OK);
    assert_int_equal(number, 0);
    assert_int_equal(edge_json_digits(SLICE("9"), 9, &number), STATUS_OK);
    assert_int_equal(number, 9);
    const char *wrong[] = {"", "10", "-1", "1.0", "1e0", "x", "18446744073709551616", "\"1\""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(edge_json_digits(slice_of(wrong[i]), 9, &number), STATUS_PROTOCOL);
    assert_int_equal(edge_json_digits(SLICE("18446744073709551615"), UINT64_MAX, &number),
                     STATUS_OK);
    struct slice inside;
    struct buffer out;
    buffer_init(&out, 64);
    assert_int_equal(edge_json_append_inside(&out, VALUE("\"a\\n\"")), STATUS_OK);
    assert_int_equal(edge_json_append_inside(&out, VALUE("\"b\"")), STATUS_OK);
    edge_text_same(buffer_slice(&out), "a\\nb");
    assert_int_equal(edge_json_append_inside(&out, VALUE("\"")), STATUS_PROTOCOL);
    assert_int_equal(edge_json_append_inside(&out, VALUE("12")), STATUS_PROTOCOL);
    buffer_deinit(&out);
    assert_int_equal(edge_json_inside(VALUE("[ 1, 2 ]"), &inside), STATUS_OK);
    edge_text_same(inside, "1, 2");
    assert_int_equal(edge_json_inside(VALUE("[ ]"), &inside), STATUS_OK);
    assert_int_equal(inside.length, 0);
    assert_int_equal(edge_json_inside(VALUE("["), &inside), STATUS_PROTOCOL);
    assert_int_equal(edge_json_inside(VALUE("{}"), &inside), STATUS_PROTOCOL);
}

static void test_errors_are_told_by_their_code(void **state)
{
    (void)state;
    char message[8] = "";
    struct slice text = SLICE("{\"error\":{\"message\":\"a\\\"b\",\"type\":\"t\",\"param\":null,"
                              "\"code\":\"late\"}}");
    assert_true(edge_json_is_error(text, "late", message, sizeof message));
    assert_string_equal(message, "a\"b");
    assert_false(edge_json_is_error(text, "lat", message, sizeof message));
    const char *others[] = {"",
                            "{}",
                            "{\"error\":7}",
                            "{\"error\":{\"code\":\"late\"}}",
                            "{\"error\":{\"message\":\"m\",\"code\":null}}",
                            "{\"error\":{"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(edge_json_is_error(slice_of(others[i]), "late", message, sizeof message));
}

/* The names are those of http_error; an engine renders its errors with the same table. */
static void test_code_of_an_engine_s_error(void **state)
{
    (void)state;
    for (enum status status = 0; status < STATUS_COUNT; status++) {
        const struct http_error *row = http_error_of(status);
        bool is_again = status == STATUS_DEADLINE || status == STATUS_BUSY ||
                        status == STATUS_ENGINE_SHARE || status == STATUS_UNAVAILABLE;
        int expected = strcmp(row->type, "invalid_request_error") == 0 ? 400 : is_again ? 503 : 500;
        struct error_note note = {.status = status, .message = "m"};
        struct json_scan_field error = {.name = "error"};
        struct buffer text;
        buffer_init(&text, 1024);
        http_error_render(&note, &text);
        assert_int_equal(json_scan(buffer_slice(&text), &error, 1), STATUS_OK);
        assert_int_equal(edge_json_error_code(json_scan_text(error.value)), expected);
        assert_int_equal(edge_json_is_own_share(buffer_slice(&text)),
                         status == STATUS_ENGINE_SHARE);
        buffer_deinit(&text);
    }
    assert_int_equal(edge_json_error_code(SLICE("{\"code\":")), 500);
    assert_int_equal(edge_json_error_code(SLICE("{}")), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_are_spans),
        cmocka_unit_test(test_elements_are_spans),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_broken_texts_are_refused),
        cmocka_unit_test(test_depth_at_the_limit),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_errors_are_told_by_their_code),
        cmocka_unit_test(test_code_of_an_engine_s_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
