#include "engine/answer/answer_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/json_read.h"

/* Whether the automaton takes a whole text. Names that stand twice and halves of surrogate pairs
 * are beyond it. */
static bool takes(const char *text, size_t length)
{
    struct answer_json json = {0};
    for (size_t i = 0; i < length; i++) {
        enum answer_json_step step = answer_json_push(&json, text[i]);
        bool is_blank = strchr(" \n\r\t", text[i]) != NULL;
        if (step == ANSWER_JSON_WRONG || (step == ANSWER_JSON_BEFORE && !is_blank))
            return false;
    }
    return answer_json_may_end(&json);
}

static bool is_json(const char *text, size_t length, bool *is_beyond)
{
    const struct json_read_limits limits = {.depth = 60, .values = 1000};
    struct json_read json;
    enum status status = json_read(&json, (struct slice){text, length}, &limits);
    if (status == STATUS_OK)
        json_read_free(&json);
    *is_beyond = status != STATUS_OK && (strstr(status_note()->message, "twice") != NULL ||
                                         strstr(status_note()->message, "surrogate") != NULL);
    return status == STATUS_OK;
}

static void test_against_the_reader(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "{\"a\":[1,2.5e-3,\"x\\u00e9\\n\"],\"b\":{},\"c\":null}",
        "[true,false,[],{\"\":-0}]",
        " \"text\" ",
        "-12.75E+2",
    };
    static const char letters[] = "{}[]\",:\\u0123456789abcdeftrnlsE.+- \n";
    uint32_t random = 1;
    uint32_t whole = 0;
    for (uint32_t round = 0; round < 40000; round++) {
        char text[96];
        const char *seed = seeds[round % 4];
        size_t length = strlen(seed);
        memcpy(text, seed, length);
        for (uint32_t edits = round / 4 % 4; edits > 0; edits--) {
            random = random * 1664525u + 1013904223u;
            size_t at = (random >> 8) % length;
            char letter = letters[(random >> 16) % (sizeof letters - 1)];
            if ((random >> 28 & 1) != 0) {
                text[at] = letter;
            } else {
                memmove(text + at, text + at + 1, length - at - 1);
                length--;
            }
        }
        bool is_beyond;
        bool wanted = is_json(text, length, &is_beyond);
        whole += wanted;
        if (!is_beyond && takes(text, length) != wanted)
            fail_msg("%.*s: %d", (int)length, text, wanted);
    }
    assert_in_range(whole, 10001, 39999);
}

static void test_where_a_value_ends(void **state)
{
    (void)state;
    struct answer_json json = {0};
    assert_int_equal(answer_json_push(&json, ' '), ANSWER_JSON_MORE);
    assert_false(answer_json_has_begun(&json));
    assert_int_equal(answer_json_push(&json, '7'), ANSWER_JSON_MORE);
    assert_true(answer_json_has_begun(&json));
    assert_int_equal(answer_json_push(&json, '}'), ANSWER_JSON_BEFORE);
    json = (struct answer_json){0};
    assert_int_equal(answer_json_push(&json, '{'), ANSWER_JSON_MORE);
    assert_int_equal(answer_json_push(&json, '}'), ANSWER_JSON_LAST);
    json = (struct answer_json){0};
    for (int i = 0; i < ANSWER_JSON_DEPTH; i++)
        assert_int_equal(answer_json_push(&json, '['), ANSWER_JSON_MORE);
    assert_int_equal(answer_json_push(&json, '['), ANSWER_JSON_WRONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_reader),
        cmocka_unit_test(test_where_a_value_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
