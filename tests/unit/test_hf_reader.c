#include "engine/models/hf_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_values_and_their_errors(void **state)
{
    static const char text[] = "{\"n\":7,\"r\":0.5,\"t\":true,\"s\":\"word\",\"z\":null,\"m\":-1}";
    const struct json_read_limits limits = {.depth = 4, .values = 64};
    struct json_read json;
    struct gguf_keys keys;
    uint32_t n = 3;
    double r = 3;
    bool t = false;
    bool has;
    struct slice s;
    (void)state;
    assert_int_equal(json_read(&json, SLICE(text), &limits), STATUS_OK);
    gguf_keys_init(&keys);
    const struct hf_reader reader = {&json, 0, "x.json", arch_at(0), &keys};
    assert_int_equal(hf_reader_count(&reader, "z", &n, &has), STATUS_OK);
    assert_false(has);
    assert_int_equal(n, 3);
    assert_int_equal(hf_reader_count(&reader, "n", &n, &has), STATUS_OK);
    assert_true(has);
    assert_int_equal(n, 7);
    assert_int_equal(hf_reader_count(&reader, "m", &n, &has), STATUS_CORRUPT);
    assert_int_equal(hf_reader_count(&reader, "z", &n, NULL), STATUS_CORRUPT);
    assert_string_equal(status_note()->message, "x.json: key 'z' is missing");
    assert_int_equal(hf_reader_real(&reader, "r", &r, NULL), STATUS_OK);
    assert_true(r == 0.5);
    assert_int_equal(hf_reader_real(&reader, "s", &r, NULL), STATUS_CORRUPT);
    assert_int_equal(hf_reader_bool(&reader, "t", &t, NULL), STATUS_OK);
    assert_true(t);
    assert_int_equal(hf_reader_bool(&reader, "n", &t, &has), STATUS_CORRUPT);
    assert_int_equal(hf_reader_text(&reader, "s", &s), STATUS_OK);
    assert_true(slice_is(s, "word"));
    assert_int_equal(hf_reader_text(&reader, "none", &s), STATUS_OK);
    assert_int_equal(s.length, 0);
    assert_int_equal(hf_reader_text(&reader, "n", &s), STATUS_CORRUPT);
    hf_reader_put_u32(&reader, "a", 1);
    hf_reader_put_f32(&reader, "b", 2);
    hf_reader_put_string(&reader, "c", "d");
    struct gguf *gguf;
    assert_int_equal(gguf_keys_finish(&keys, &gguf), STATUS_OK);
    assert_int_equal(gguf_get_u32(gguf, "llama.a", &n), STATUS_OK);
    assert_int_equal(gguf_get_string(gguf, "llama.c", &s), STATUS_OK);
    gguf_close(gguf);
    gguf_keys_deinit(&keys);
    json_read_free(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values_and_their_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
