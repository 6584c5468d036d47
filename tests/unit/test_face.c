#include "gateway/engine_http/face.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/face_kit.h"

static struct slice id_of(char *text, size_t capacity, uint32_t number)
{
    snprintf(text, capacity, "req_%08x", number);
    return slice_of(text);
}

static void test_an_id_is_new_once(void **state)
{
    (void)state;
    struct face *face = calloc(1, sizeof *face);
    char text[32];
    assert_true(face_remember_id(face, id_of(text, sizeof text, 1)));
    assert_false(face_remember_id(face, id_of(text, sizeof text, 1)));
    assert_true(face_remember_id(face, id_of(text, sizeof text, 2)));
    free(face);
}

static void test_a_forgotten_id_is_new_again(void **state)
{
    (void)state;
    struct face *face = calloc(1, sizeof *face);
    char text[32];
    for (uint32_t i = 0; i < 3; i++)
        assert_true(face_remember_id(face, id_of(text, sizeof text, i)));
    face_forget_id(face, id_of(text, sizeof text, 1));
    face_forget_id(face, id_of(text, sizeof text, 9));
    assert_false(face_remember_id(face, id_of(text, sizeof text, 0)));
    assert_false(face_remember_id(face, id_of(text, sizeof text, 2)));
    assert_true(face_remember_id(face, id_of(text, sizeof text, 1)));
    assert_false(face_remember_id(face, id_of(text, sizeof text, 1)));
    free(face);
}

static void test_ids_are_kept_as_far_back_as_said(void **state)
{
    (void)state;
    struct face *face = calloc(1, sizeof *face);
    char text[32];
    for (uint32_t i = 0; i < FACE_RECENT_IDS; i++)
        assert_true(face_remember_id(face, id_of(text, sizeof text, i)));
    assert_false(face_remember_id(face, id_of(text, sizeof text, 0)));
    assert_true(face_remember_id(face, id_of(text, sizeof text, FACE_RECENT_IDS)));
    assert_true(face_remember_id(face, id_of(text, sizeof text, 0)));
    assert_false(face_remember_id(face, id_of(text, sizeof text, FACE_RECENT_IDS)));
    free(face);
}

/* face_wake, the pump behind it and face_accepts: a request that streams needs all three. */
static void test_events_reach_their_requests(void **state)
{
    (void)state;
    struct face_kit kit;
    struct buffer answer;
    assert_true(face_kit_start(&kit, face_kit_model()));
    assert_int_equal(face_kit_ask(&kit, "POST", "/v1/completions", "",
                                  "{\"model\":\"small\",\"prompt\":\"One\",\"max_tokens\":3}",
                                  &answer),
                     200);
    json_t *final = face_kit_final(&answer);
    assert_non_null(final);
    json_decref(final);
    buffer_deinit(&answer);
    assert_int_equal(face_kit_ask(&kit, "POST", "/internal/v1/drain", "", "{}", &answer), 200);
    buffer_deinit(&answer);
    assert_int_equal(face_kit_ask(&kit, "POST", "/v1/completions", "",
                                  "{\"model\":\"small\",\"prompt\":\"One\"}", &answer),
                     503);
    assert_int_equal(face_kit_count(&answer, "shutting down"), 1);
    buffer_deinit(&answer);
    assert_int_equal(face_kit_stop(&kit), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_is_new_once),
        cmocka_unit_test(test_a_forgotten_id_is_new_again),
        cmocka_unit_test(test_ids_are_kept_as_far_back_as_said),
        cmocka_unit_test(test_events_reach_their_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
