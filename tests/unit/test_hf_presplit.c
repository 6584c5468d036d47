#include "engine/models/hf_presplit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPLIT(pattern) "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},"
#define ISOLATED       "\"behavior\":\"Isolated\",\"invert\":false}"
#define BYTES          "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"

static void test_steps_in_words(void **state)
{
    static const struct {
        const char *json;
        const char *words;
    } cases[] = {
        {"null", ""},
        {"{\"type\":\"NFC\"}", "NFC"},
        {BYTES, "ByteLevel"},
        {"{\"type\":\"ByteLevel\"}", "ByteLevel words with a blank before"},
        {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"x\"},"
         "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"y\"}]}",
         "Prepend 'x'; Replace ' ' by 'y'"},
        {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" \"},\"content\":\"y\"}",
         "Replace '' expression by 'y'"},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT("a+") ISOLATED "," BYTES "]}",
         "Split a+; ByteLevel"},
        {SPLIT("a+") "\"behavior\":\"Removed\",\"invert\":true}", "Split a+ Removed inverted"},
        {"{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\"}",
         "Split String ' ' MergedWithPrevious"},
        {"{\"type\":\"Digits\",\"individual_digits\":false}", "Digits together"},
        {"{\"type\":\"Whitespace\"}", "Whitespace"},
        {"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Sequence\",\"pretokenizers\":"
         "[" BYTES "]}]}",
         "Sequence"},
        {"{}", "a step without a type"},
        {"[]", "a step without a type"},
        {"{\"type\":\"Split\"}", "Split "},
    };
    const struct json_read_limits limits = {.depth = 16, .values = 256};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_read json;
        struct buffer out;
        buffer_init(&out, 4096);
        assert_int_equal(json_read(&json, slice_of(cases[i].json), &limits), STATUS_OK);
        hf_presplit_describe(&json, 0, &out);
        if (!slice_is(buffer_slice(&out), cases[i].words))
            fail_msg("%s: '%.*s'", cases[i].json, (int)out.length,
                     out.bytes != NULL ? out.bytes : "");
        json_read_free(&json);
        buffer_deinit(&out);
    }
}

static void test_rows_need_the_same_normaliser_and_merges(void **state)
{
    (void)state;
    assert_string_equal(hf_presplit_find(SLICE("ByteLevel words"), false, false), "gpt-2");
    assert_string_equal(hf_presplit_find(SLICE("ByteLevel words"), true, false), "olmo");
    assert_null(hf_presplit_find(SLICE("ByteLevel words"), false, true));
    assert_string_equal(hf_presplit_find(SLICE("Digits; ByteLevel words"), false, false), "smollm");
    assert_null(hf_presplit_find(SLICE("ByteLevel"), false, false));
    assert_null(hf_presplit_find(SLICE(""), false, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_in_words),
        cmocka_unit_test(test_rows_need_the_same_normaliser_and_merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
