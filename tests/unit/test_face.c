#include "gateway/engine_http/face.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/source/source_fleet.h"
#include "tests/kit/engine_run.h"
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

/* As many as there may be on their way, in lists that stay whole. */
static void test_forgotten_ones_between_others(void **state)
{
    (void)state;
    struct face *face = calloc(1, sizeof *face);
    char text[32];
    for (uint32_t i = 0; i < 2 * FACE_RECENT_IDS; i++) {
        assert_true(face_remember_id(face, id_of(text, sizeof text, i)));
        if (i % 3 == 0)
            face_forget_id(face, id_of(text, sizeof text, i));
    }
    for (uint32_t i = 0; i < FACE_RECENT_IDS; i++) {
        const uint32_t number = FACE_RECENT_IDS + i;
        if (number % 3 != 0)
            assert_false(face_remember_id(face, id_of(text, sizeof text, number)));
    }
    for (uint32_t i = 0; i < FACE_RECENT_IDS / 3; i++) /* in the places of the oldest */
        assert_true(face_remember_id(face, id_of(text, sizeof text, 3 * i)));
    free(face);
}

struct pumped {
    struct face_sink sink;
    struct loop *loop;
    uint32_t events;
};

static void pumped_take(struct face_sink *sink, const struct source_event *event)
{
    (void)event;
    ((struct pumped *)sink)->events++;
}

static void pumped_stop(void *context)
{
    loop_stop(((struct pumped *)context)->loop);
}

/* More events than a pump takes wait: whoever asked the loop meanwhile has his turn between. */
static void test_events_leave_the_loop_to_others(void **state)
{
    (void)state;
    enum { REQUESTS = 16, TOKENS = LIMIT_UNDELIVERED_TOKENS, NAP_US = 1000, NAPS_MAX = 60000 };
    const uint32_t least = REQUESTS * TOKENS;
    struct engine_options options = engine_run_options();
    struct face *face = calloc(1, sizeof *face);
    struct pumped pumped = {.sink = {pumped_take}};
    struct engine_stats stats = {0};
    assert_true(least > FACE_PUMP_EVENTS);
    assert_int_equal(loop_create(&face->loop), STATUS_OK);
    pumped.loop = face->loop;
    options.model_path = engine_run_make_model();
    options.wake = face_wake;
    options.wake_context = face;
    options.sequences_max = REQUESTS;
    options.kv_bytes *= 4; /* nobody is paused for another */
    assert_int_equal(fleet_open(&face->fleet, &options, NULL, 1), STATUS_OK);
    assert_int_equal(source_fleet_open(&face->source, face->fleet), STATUS_OK);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const uint32_t tokens[] = {i + 1, 2, 3};
        const struct engine_request request = {.prompt_kind = ENGINE_PROMPT_TOKENS,
                                               .tokens = tokens,
                                               .token_count = 3,
                                               .choices = 1,
                                               .tokens_max = TOKENS + 1,
                                               .sampling = {.top_p = 1},
                                               .ignore_end = true,
                                               .context = &pumped.sink};
        engine_request_id id;
        assert_int_equal(fleet_submit(face->fleet, &request, &id), STATUS_OK);
    }
    for (uint32_t naps = 0; stats.sequences_throttled < REQUESTS; naps++) {
        assert_true(naps < NAPS_MAX);
        usleep(NAP_US);
        fleet_stats(face->fleet, &stats);
    }
    for (uint32_t turns = 1; pumped.events < least; turns++) {
        face_wake(face);
        loop_post(face->loop, pumped_stop, &pumped);
        loop_run(face->loop);
        assert_true(pumped.events <= turns * FACE_PUMP_EVENTS);
    }
    face->source->ops->close(face->source);
    fleet_close(face->fleet);
    loop_destroy(face->loop);
    engine_run_remove_model();
    free(face);
}

/* A tenant's bodies are bounded by its share, so that those of others find room, and nobody's at
 * all by the whole. A request counts until it ends, its body until it is parsed. */
static void test_bodies_are_bounded_by_tenant(void **state)
{
    (void)state;
    enum { BODY_BYTES = 4 << 20, MOST = 64 };
    struct face *face = calloc(1, sizeof *face);
    struct byte_shares_hold holds[MOST] = {0};
    struct byte_shares_hold other = {0};
    const uint8_t first[16] = {1};
    const uint8_t second[16] = {2};
    uint32_t count = 0;
    assert_int_equal(face_bodies_create(face), STATUS_OK);
    while (face_reserve_body(face, first, BODY_BYTES, &holds[count]) == STATUS_OK)
        count++;
    assert_in_range(count, LIMIT_REQUEST_BYTES_IN_ENGINE / 5 / BODY_BYTES,
                    LIMIT_REQUEST_BYTES_IN_ENGINE / 5 / BODY_BYTES + 1);
    assert_int_equal(status_note()->status, STATUS_ENGINE_SHARE);
    assert_int_equal(face_reserve_body(face, second, BODY_BYTES, &other), STATUS_OK);
    assert_int_equal(face->body_count, count + 1);
    face_give_back_body(face, &holds[0]);
    face_give_back_body(face, &holds[0]);
    assert_int_equal(face->body_count, count + 1);
    assert_int_equal(face_reserve_body(face, first, BODY_BYTES, &holds[count]), STATUS_OK);
    for (uint32_t i = 0; i <= count; i++)
        face_release_body(face, &holds[i]);
    face_release_body(face, &other);
    assert_int_equal(face->body_count, 0);
    assert_int_equal(byte_shares_total(face->bodies), 0);
    face_bodies_destroy(face);
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
        cmocka_unit_test(test_forgotten_ones_between_others),
        cmocka_unit_test(test_events_leave_the_loop_to_others),
        cmocka_unit_test(test_bodies_are_bounded_by_tenant),
        cmocka_unit_test(test_nobody_small_waits_behind_large_bodies),
        cmocka_unit_test(test_events_reach_their_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
