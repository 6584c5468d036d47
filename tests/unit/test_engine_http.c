#include "gateway/engine_http/engine_http.h"

#include "tests/unit/face_kit.h"

#include <fcntl.h>
#include <string.h>

static void test_a_model_that_is_none(void **state)
{
    (void)state;
    struct face_kit kit;
    assert_false(face_kit_start(&kit, "/nowhere/model.gguf"));
    assert_true(kit.status == STATUS_IO || kit.status == STATUS_NOT_FOUND);
    face_kit_remove(&kit);
    assert_false(face_kit_start(&kit, "/proc/self/exe"));
    assert_int_equal(kit.status, STATUS_CORRUPT);
    face_kit_remove(&kit);
}

/* SIGTERM while a stream runs: it goes on to its end, then the process's work is done. */
static void test_sigterm_finishes_what_runs(void **state)
{
    (void)state;
    struct face_kit kit;
    struct buffer answer;
    assert_true(face_kit_start(&kit, face_kit_model()));
    int descriptor = face_kit_connect(&kit);
    face_kit_send(descriptor, "POST", "/v1/completions", "",
                  "{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":60,\"ignore_eos\":true}");
    char byte;
    assert_int_equal(read(descriptor, &byte, 1), 1);
    kill(getpid(), SIGTERM);
    char rest[65536];
    buffer_init(&answer, 16 * 1024 * 1024);
    for (ssize_t got; (got = read(descriptor, rest, sizeof rest)) > 0;)
        buffer_append(&answer, rest, (size_t)got);
    close(descriptor);
    json_t *final = face_kit_final(&answer);
    assert_non_null(final);
    assert_int_equal(face_kit_number(final, "completion_tokens"), 60);
    json_decref(final);
    buffer_deinit(&answer);
    pthread_join(kit.thread, NULL);
    assert_int_equal(kit.status, STATUS_OK);
    face_kit_remove(&kit);
}

static void test_it_can_start_again(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct face_kit kit;
        assert_true(face_kit_start(&kit, face_kit_model()));
        assert_int_equal(face_kit_stop(&kit), STATUS_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_model_that_is_none),
        cmocka_unit_test(test_sigterm_finishes_what_runs),
        cmocka_unit_test(test_it_can_start_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
