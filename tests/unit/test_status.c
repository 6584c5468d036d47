#include "config/base/status.h"

#include "tests/unit/base_kit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static enum status fails_plainly(int number)
{
    FAIL(STATUS_BUSY, "number %d", number);
}

static enum status fails_with_param(void)
{
    FAIL_PARAM(STATUS_INVALID, "messages[0].role", "role must be a text");
}

static enum status forwards(enum status status, bool *went_on)
{
    TRY(status);
    *went_on = true;
    return STATUS_OK;
}

static enum status cleans_up(enum status inner, bool *cleaned)
{
    enum status status = STATUS_OK;
    TRY_OUT(inner);
    FAIL_OUT(STATUS_LIMIT, "own failure");
out:
    *cleaned = true;
    return status;
}

static void test_names(void **state)
{
    (void)state;
    assert_int_equal(STATUS_OK, 0);
    assert_string_equal(status_name(STATUS_NO_MEMORY), "NO_MEMORY");
    for (int i = 0; i < STATUS_COUNT; i++) {
        assert_true(strlen(status_name((enum status)i)) > 0);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(status_name((enum status)i), status_name((enum status)j));
    }
}

static void test_note(void **state)
{
    (void)state;
    assert_int_equal(fails_plainly(7), STATUS_BUSY);
    const struct error_note *note = status_note();
    assert_int_equal(note->status, STATUS_BUSY);
    assert_string_equal(note->message, "number 7");
    assert_string_equal(note->param, "");
    assert_string_equal(note->file, "tests/unit/test_status.c");
    assert_true(note->line > 0);
    status_note_retry(70);
    assert_int_equal(note->retry_after_ms, 70);
    assert_int_equal(fails_with_param(), STATUS_INVALID);
    assert_int_equal(status_note()->retry_after_ms, 0);
    assert_string_equal(note->param, "messages[0].role");

    struct error_note kept = *note;
    assert_int_equal(fails_plainly(8), STATUS_BUSY);
    status_note_set(&kept);
    assert_string_equal(status_note()->message, "role must be a text");
}

static void test_note_takes_its_own_text(void **state)
{
    (void)state;
    fails_plainly(1);
    status_fail(STATUS_IO, "f", 1, status_note()->message, "again: %s", status_note()->message);
    assert_string_equal(status_note()->message, "again: number 1");
    assert_string_equal(status_note()->param, "number 1");
}

static void test_note_is_cut(void **state)
{
    (void)state;
    char text[2 * STATUS_MESSAGE_BYTES];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    status_fail(STATUS_IO, "f", 1, text, "%s", text);
    assert_int_equal(strlen(status_note()->message), STATUS_MESSAGE_BYTES - 1);
    assert_int_equal(strlen(status_note()->param), STATUS_PARAM_BYTES - 1);
}

static void test_try(void **state)
{
    (void)state;
    bool flag = false;
    assert_int_equal(forwards(STATUS_IO, &flag), STATUS_IO);
    assert_false(flag);
    assert_int_equal(forwards(STATUS_OK, &flag), STATUS_OK);
    assert_true(flag);
    flag = false;
    assert_int_equal(cleans_up(STATUS_IO, &flag), STATUS_IO);
    assert_true(flag);
    flag = false;
    assert_int_equal(cleans_up(STATUS_OK, &flag), STATUS_LIMIT);
    assert_true(flag);
    assert_string_equal(status_note()->message, "own failure");
}

static void *other_thread(void *context)
{
    (void)context;
    fails_plainly(2);
    return NULL;
}

static void test_note_is_of_the_thread(void **state)
{
    (void)state;
    pthread_t thread;
    fails_plainly(1);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(status_note()->message, "number 1");
}

static void test_assert_aborts(void **state)
{
    (void)state;
    int how;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        ASSERT(child != 0);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(WTERMSIG(how), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_note),
        cmocka_unit_test(test_note_takes_its_own_text),
        cmocka_unit_test(test_note_is_cut),
        cmocka_unit_test(test_try),
        cmocka_unit_test(test_note_is_of_the_thread),
        cmocka_unit_test(test_assert_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
