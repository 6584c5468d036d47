/* stderr_lines: lines of libraries become lines of the log, few a second; last words are not. */
#include "gateway/http/stderr_lines.h"

#include <fcntl.h>

#include "base_kit.h"
#include "config/base/log.h"

static char path[64];
static int log_descriptor;

static const char *log_text(void)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

static int start(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/stderr_lines.%d", (int)getpid());
    log_descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    assert_true(log_descriptor >= 0);
    log_open(log_descriptor, LOG_DEBUG, "test");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    log_open(STDERR_FILENO, LOG_INFO, "test");
    close(log_descriptor);
    unlink(path);
    return 0;
}

static void test_lines(void **state)
{
    (void)state;
    FILE *before = stderr;
    assert_int_equal(stderr_lines_begin(), STATUS_OK);
    fprintf(stderr, "skipping frame (type:%d)\n", 77);
    fprintf(stderr, "half ");
    assert_int_equal(count_of(log_text(), "library_said"), 1);
    fprintf(stderr, "and half\n\nbegun");
    char longest[2000];
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(count_of(log_text(), "library_said"), 2);
    assert_int_equal(stderr_lines_begin(), STATUS_OK); /* two halves in one process */
    stderr_lines_end();
    assert_ptr_not_equal(stderr, before);
    stderr_lines_end();
    assert_ptr_equal(stderr, before);
    const char *text = log_text();
    assert_non_null(
        strstr(text, "\"event\":\"library_said\",\"text\":\"skipping frame (type:77)\""));
    assert_non_null(strstr(text, "\"text\":\"half and half\""));
    assert_non_null(strstr(text, "\"text\":\"begun\""));
    assert_int_equal(stderr_lines_begin(), STATUS_OK);
    fwrite(longest, 1, sizeof(longest), stderr);
    stderr_lines_end();
    assert_int_equal(count_of(log_text(), "xxxxx"), 255 / 5);
}

static void test_flood(void **state)
{
    (void)state;
    enum { FLOOD = 100000 };
    assert_int_equal(stderr_lines_begin(), STATUS_OK);
    for (int i = 0; i < FLOOD; i++)
        fprintf(stderr, "skipping frame (type:%d)\n", i);
    size_t said = count_of(log_text(), "library_said");
    assert_in_range(said, LOG_SHARE_A_SECOND, 30 * LOG_SHARE_A_SECOND);
    usleep(1100000);
    fprintf(stderr, "after\n");
    stderr_lines_end();
    char unsaid[64];
    snprintf(unsaid, sizeof(unsaid), "\"text\":\"after\",\"unsaid\":");
    const char *at = strstr(log_text(), unsaid);
    assert_non_null(at);
    assert_in_range(strtol(at + strlen(unsaid), NULL, 10), 1, FLOOD);
}

/* What is said before an abort reaches descriptor 2 at once, not the log. */
static void test_last_words(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    assert_int_equal(stderr_lines_begin(), STATUS_OK);
    fprintf(stderr, "fatal:no memory\n");
    stderr_lines_end();
    dup2(kept, STDERR_FILENO);
    close(kept);
    char got[64] = "";
    assert_int_equal(read(ends[0], got, sizeof(got) - 1), 16);
    assert_true(strlen("fatal:no memory\n") == 16);
    assert_string_equal(got, "fatal:no memory\n");
    assert_int_equal(count_of(log_text(), "library_said"), 0);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, start, stop),
        cmocka_unit_test_setup_teardown(test_flood, start, stop),
        cmocka_unit_test_setup_teardown(test_last_words, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
