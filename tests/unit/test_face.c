#include "gateway/engine_http/face.h"

#include <poll.h>
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

static void test_bodies_are_bounded_in_all(void **state)
{
    (void)state;
    struct face *face = calloc(1, sizeof *face);
    const struct slice half = {NULL, LIMIT_REQUEST_BYTES_IN_ENGINE / 2};
    assert_int_equal(face_reserve_body(face, half), STATUS_OK);
    assert_int_equal(face_reserve_body(face, half), STATUS_OK);
    assert_int_equal(face_reserve_body(face, (struct slice){NULL, 1}), STATUS_BUSY);
    assert_int_equal(face_reserve_body(face, (struct slice){NULL, 0}), STATUS_OK);
    assert_int_equal(face->body_count, 3);
    face_release_body(face, half.length);
    assert_int_equal(face_reserve_body(face, (struct slice){NULL, 1}), STATUS_OK);
    face_release_body(face, 1);
    face_release_body(face, 0);
    face_release_body(face, half.length);
    assert_int_equal(face->body_bytes, 0);
    assert_int_equal(face->body_count, 0);
    free(face);
}

/* Bodies of 3 MiB are read one after the other, apart: a small request is done before them. */
static void test_nobody_small_waits_behind_large_bodies(void **state)
{
    (void)state;
    enum { LARGE = 6 };
    struct face_kit kit;
    struct buffer answer;
    struct buffer body;
    int large[LARGE];
    assert_true(face_kit_start(&kit, face_kit_model()));
    buffer_init(&body, 8 * 1024 * 1024);
    buffer_append_text(&body, "{\"model\":\"small\",\"prompt\":\"");
    while (body.length < 3000000)
        buffer_append_text(&body, "\\u0041 word ");
    buffer_append_text(&body, "\"}");
    for (int i = 0; i < LARGE; i++) {
        large[i] = face_kit_connect(&kit);
        face_kit_send(large[i], "POST", "/v1/completions", "", body.bytes);
    }
    assert_int_equal(face_kit_ask(&kit, "POST", "/v1/completions", "",
                                  "{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":1}",
                                  &answer),
                     200);
    buffer_deinit(&answer);
    struct pollfd last = {.fd = large[LARGE - 1], .events = POLLIN};
    assert_int_equal(poll(&last, 1, 0), 0);
    for (int i = 0; i < LARGE; i++) {
        assert_int_equal(face_kit_receive(large[i], &answer), 400); /* longer than the context */
        buffer_deinit(&answer);
    }
    buffer_deinit(&body);
    assert_int_equal(face_kit_stop(&kit), STATUS_OK);
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
        cmocka_unit_test(test_bodies_are_bounded_in_all),
        cmocka_unit_test(test_nobody_small_waits_behind_large_bodies),
        cmocka_unit_test(test_events_reach_their_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
