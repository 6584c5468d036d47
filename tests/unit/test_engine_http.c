#include "gateway/engine_http/engine_http.h"

#include "tests/unit/face_kit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "gateway/http/listener.h"

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

/* What the engine's process says of a draft that --speculation does not use. */
static void assert_is_not_used(const char *folder, const char *option, const char *value,
                               const char *speculation)
{
    struct engine_http_options options = face_kit_options();
    const struct config *config;
    const char *const arguments[] = {"--model",       "/nowhere/model.gguf", "--data-dir", folder,
                                     "--speculation", speculation,           option,       value};
    assert_int_equal(config_load(&config, CONFIG_ENGINE, 8, arguments, NULL), STATUS_OK);
    options.config = config;
    options.ready_descriptor = -1;
    assert_int_equal(engine_http_run(&options), STATUS_INVALID); /* before the model is read */
    assert_non_null(strstr(status_note()->message, option));
    assert_non_null(strstr(status_note()->message, speculation));
    config_release(config);
}

static void test_drafts_that_nobody_uses(void **state)
{
    (void)state;
    char folder[64] = "/tmp/engine_http.XXXXXX";
    char path[96];
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM); /* as face_kit_start_with */
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &signals, NULL), 0);
    assert_non_null(mkdtemp(folder));
    assert_is_not_used(folder, "--draft-model", "/nowhere/small.gguf", "off");
    assert_is_not_used(folder, "--draft-model", "/nowhere/small.gguf", "lookup");
    assert_is_not_used(folder, "--draft-layers", "4", "model");
    assert_is_not_used(folder, "--draft-layers", "4", "off");
    snprintf(path, sizeof path, "%s/finals.ring", folder);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
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

/* Opened by somebody with more rights: socket, state directory and model come as descriptors. */
static void test_it_runs_on_descriptors(void **state)
{
    (void)state;
    struct face_kit kit;
    struct buffer answer;
    char folder[64] = "/tmp/engine_http.XXXXXX";
    char path[96];
    struct stat info;
    struct engine_http_options options = face_kit_options();
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/other.sock", folder);
    assert_int_equal(listener_bind_unix(&options.descriptor, path), STATUS_OK);
    options.state_descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    options.model_descriptor = open(face_kit_model(), O_RDONLY | O_CLOEXEC);
    assert_true(face_kit_start_with(&kit, "/nowhere/tiny.gguf", &options));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    face_kit_send(descriptor, "GET", "/health", "", NULL);
    assert_int_equal(face_kit_receive(descriptor, &answer), 200);
    buffer_deinit(&answer);
    assert_int_equal(face_kit_stop(&kit), STATUS_OK);
    unlink(path);
    snprintf(path, sizeof path, "%s/finals.ring", folder);
    assert_int_equal(stat(path, &info), 0);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

/* Whoever runs as another user is closed at once, unread; a listed user is served. */
static void test_a_stranger_on_this_machine(void **state)
{
    (void)state;
    struct face_kit kit;
    struct buffer answer;
    struct engine_http_options options = face_kit_options();
    options.peers[0] = geteuid() + 1;
    options.peer_count = 1;
    assert_true(face_kit_start_with(&kit, face_kit_model(), &options));
    int descriptor = face_kit_connect(&kit);
    char byte;
    assert_true(read(descriptor, &byte, 1) <= 0);
    close(descriptor);
    assert_int_equal(face_kit_stop(&kit), STATUS_OK);

    options.peers[1] = geteuid();
    options.peer_count = 2;
    assert_true(face_kit_start_with(&kit, face_kit_model(), &options));
    assert_int_equal(face_kit_ask(&kit, "GET", "/metrics", "", NULL, &answer), 200);
    assert_int_equal(face_kit_count(&answer, "banyan_engine_peers_refused_total 0"), 1);
    buffer_deinit(&answer);
    assert_int_equal(face_kit_stop(&kit), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_model_that_is_none),
        cmocka_unit_test(test_drafts_that_nobody_uses),
        cmocka_unit_test(test_sigterm_finishes_what_runs),
        cmocka_unit_test(test_it_can_start_again),
        cmocka_unit_test(test_it_runs_on_descriptors),
        cmocka_unit_test(test_a_stranger_on_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
