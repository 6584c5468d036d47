#include "gateway/engine_http/face_embed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static const float NUMBERS[] = {0, -0.5f, 1.0f / 3, 3.4028235e38f, 1e-45f, -0.123456789f};
enum { COUNT = sizeof NUMBERS / sizeof NUMBERS[0] };

static json_t *write(size_t count, bool is_base64)
{
    struct buffer out;
    /* The engine's events are not aligned. */
    char bytes[sizeof NUMBERS + 1];
    memcpy(bytes + 1, NUMBERS, sizeof NUMBERS);
    buffer_init(&out, 65536);
    face_embed_write("a \"model\"", 3, (struct slice){bytes + 1, count * sizeof(float)}, is_base64,
                     &out);
    assert_int_equal(out.status, STATUS_OK);
    assert_true(slice_starts_with(buffer_slice(&out), SLICE("{\"n\":0,")));
    buffer_append_char(&out, '\0');
    json_t *root = json_loads(out.bytes, JSON_ALLOW_NUL, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "model")), "a \"model\"");
    json_t *data = json_incref(json_array_get(json_object_get(root, "data"), 0));
    assert_int_equal(json_array_size(json_object_get(root, "data")), 1);
    assert_string_equal(json_string_value(json_object_get(data, "object")), "embedding");
    assert_int_equal(json_integer_value(json_object_get(data, "index")), 3);
    json_decref(root);
    buffer_deinit(&out);
    return data;
}

static void test_numbers_come_back_as_they_were(void **state)
{
    (void)state;
    json_t *data = write(COUNT, false);
    json_t *list = json_object_get(data, "embedding");
    assert_int_equal(json_array_size(list), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        float number = (float)json_number_value(json_array_get(list, i));
        assert_memory_equal(&number, &NUMBERS[i], sizeof number);
    }
    json_decref(data);
}

/* Lengths of every remainder by three, with what Python's base64 gives. */
static void test_base64(void **state)
{
    static const char *const right[] = {"AAAAAA==", "AAAAAAAAAL8=", "AAAAAAAAAL+rqqo+"};
    (void)state;
    for (size_t count = 1; count <= 3; count++) {
        json_t *data = write(count, true);
        assert_string_equal(json_string_value(json_object_get(data, "embedding")),
                            right[count - 1]);
        json_decref(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_come_back_as_they_were),
        cmocka_unit_test(test_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
