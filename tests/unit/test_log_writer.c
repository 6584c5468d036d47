/* log_writer: lines that wait, are written in order, are dropped and told of; files that move. */
#include "config/base/log_writer.h"

#include "tests/unit/base_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

static struct log_writer writer = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t report(char out[LOG_WRITER_REPORT_MAX], uint64_t lines)
{
    return (size_t)snprintf(out, LOG_WRITER_REPORT_MAX, "dropped %llu\n",
                            (unsigned long long)lines);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static bool put_number(uint64_t number, bool is_urgent)
{
    char line[128];
    int length = snprintf(line, sizeof line, "line %08llu %080d\n", (unsigned long long)number, 0);
    return log_writer_put(&writer, line, (size_t)length, is_urgent);
}

/* Reads lines to the end: numbers rise, and each gap is as large as the report before it says.
 * Returns how many lines came. */
static uint64_t read_lines(FILE *file, uint64_t first, uint64_t *dropped)
{
    char line[LOG_WRITER_REPORT_MAX];
    uint64_t lines = 0;
    uint64_t next = first;
    *dropped = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long long number;
        if (sscanf(line, "dropped %llu", &number) == 1) {
            *dropped += number;
        } else {
            assert_int_equal(sscanf(line, "line %llu", &number), 1);
            assert_int_equal(strlen(line), 95);
            assert_true(number >= next);
            next = number + 1;
            lines++;
        }
    }
    return lines;
}

static void test_lines_arrive_in_order(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_int_equal(log_writer_open(&writer, fileno(file), NULL, report), STATUS_OK);
    assert_int_equal(log_writer_open(&writer, fileno(file), NULL, report), STATUS_CONFLICT);
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(put_number(i, i % 10 == 0));
    log_writer_close(&writer);
    assert_false(put_number(1000, true)); /* the caller's to write now */
    rewind(file);
    uint64_t dropped;
    assert_int_equal(read_lines(file, 0, &dropped), 1000);
    assert_int_equal(dropped, 0);
    fclose(file);
}

static off_t size_of(int descriptor)
{
    struct stat about;
    assert_int_equal(fstat(descriptor, &about), 0);
    return about.st_size;
}

/* A single line comes without another one or the end behind it. */
static void test_a_lonely_line_is_written(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_int_equal(log_writer_open(&writer, fileno(file), NULL, report), STATUS_OK);
    for (int round = 1; round <= 3; round++) {
        put_number((uint64_t)round, round == 2);
        for (int i = 0; i < 2000 && size_of(fileno(file)) < 95 * round; i++)
            sleep_ms(1);
        assert_int_equal(size_of(fileno(file)), 95 * round);
    }
    log_writer_close(&writer);
    fclose(file);
}

/* A pipe that nobody reads: the caller goes on, what finds no room is counted, urgent lines have
 * room of their own, and a reader who comes back gets all that was not dropped. */
static void test_a_reader_that_does_not_read(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    uint64_t before = log_writer_dropped(&writer);
    assert_int_equal(log_writer_open(&writer, ends[1], NULL, report), STATUS_OK);
    uint64_t total = 3 * (uint64_t)LIMIT_LOG_RING_BYTES / 95;
    for (uint64_t i = 0; i < total; i++)
        assert_true(put_number(i, false));
    uint64_t dropped = log_writer_dropped(&writer) - before;
    assert_true(dropped > 0);
    assert_true(put_number(total, true)); /* fits where the others do not */
    assert_int_equal(log_writer_dropped(&writer) - before, dropped);

    FILE *file = fdopen(ends[0], "r");
    char line[LOG_WRITER_REPORT_MAX];
    uint64_t lines = 0;
    uint64_t told = 0;
    bool has_urgent = false;
    while (!has_urgent || told < dropped) {
        assert_non_null(fgets(line, sizeof line, file));
        unsigned long long number;
        if (sscanf(line, "dropped %llu", &number) == 1) {
            told += number;
            continue;
        }
        assert_int_equal(sscanf(line, "line %llu", &number), 1);
        has_urgent = has_urgent || number == total;
        lines++;
        if (has_urgent && told < dropped)
            put_number(total + 1, true); /* so that there is a next batch that tells */
    }
    assert_int_equal(told, dropped);
    assert_true(lines >= total + 1 - dropped);
    log_writer_close(&writer);
    fclose(file);
    close(ends[1]);
}

/* The end of the process does not wait for ever for a reader that is stuck. */
static void test_close_against_a_full_pipe(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    uint64_t before = log_writer_dropped(&writer);
    assert_int_equal(log_writer_open(&writer, ends[1], NULL, report), STATUS_OK);
    uint64_t total = 200000 / 95;
    for (uint64_t i = 0; i < total; i++)
        put_number(i, false);
    struct timespec start;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    log_writer_close(&writer);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - start.tv_sec < 20);
    uint64_t unread = log_writer_dropped(&writer) - before;
    assert_true(unread > 0);
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    uint64_t told;
    assert_int_equal(read_lines(file, 0, &told), total - unread);
    fclose(file);
}

/* An output that fails loses lines, counts them, and never more than they were. */
static void test_a_reader_that_is_gone(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    uint64_t before = log_writer_dropped(&writer);
    assert_int_equal(log_writer_open(&writer, ends[1], NULL, report), STATUS_OK);
    for (uint64_t i = 0; i < 10; i++)
        put_number(i, false);
    log_writer_close(&writer);
    assert_int_equal(log_writer_dropped(&writer) - before, 10);
    close(ends[1]);
}

static uint64_t lines_of(const char *path)
{
    uint64_t dropped;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    uint64_t lines = read_lines(file, 0, &dropped);
    fclose(file);
    return lines;
}

static void wait_lines(const char *path, uint64_t wanted)
{
    for (int i = 0; i < 5000 && lines_of(path) < wanted; i++)
        sleep_ms(1);
    assert_int_equal(lines_of(path), wanted);
}

/* As logrotate does it: the file is renamed, then the server is told. */
static void test_a_file_that_is_rotated(void **state)
{
    (void)state;
    char folder[64];
    char path[96];
    char old[96];
    kit_folder_make(folder);
    snprintf(path, sizeof path, "%s/access.log", folder);
    snprintf(old, sizeof old, "%s/access.log.1", folder);
    assert_int_equal(log_writer_open(&writer, -1, path, report), STATUS_OK);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    put_number(1, false);
    wait_lines(path, 1);
    assert_int_equal(rename(path, old), 0);
    put_number(2, false);
    wait_lines(old, 2); /* not told yet */
    log_writer_reopen(&writer);
    for (int i = 0; i < 5000 && access(path, F_OK) != 0; i++)
        sleep_ms(1);
    put_number(3, false);
    wait_lines(path, 1);
    wait_lines(old, 2);
    log_writer_close(&writer);
    /* The next run goes on behind what is there. */
    assert_int_equal(log_writer_open(&writer, -1, path, report), STATUS_OK);
    put_number(4, false);
    log_writer_close(&writer);
    wait_lines(path, 2);
    kit_folder_remove(folder);
}

static void test_what_cannot_be_opened(void **state)
{
    (void)state;
    char path[LIMIT_OPTION_BYTES + 8];
    assert_int_equal(log_writer_open(&writer, -1, "/nonexistent/folder/log", report), STATUS_IO);
    assert_false(put_number(1, true));
    memset(path, 'x', sizeof path);
    path[LIMIT_OPTION_BYTES + 1] = '\0';
    assert_int_equal(log_writer_open(&writer, -1, path, report), STATUS_LIMIT);
    for (int n = 1; n <= 2; n++) {
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status = log_writer_open(&writer, STDERR_FILENO, NULL, report);
        mem_hook_set(NULL, NULL);
        assert_int_equal(status, STATUS_NO_MEMORY);
    }
    assert_int_equal(log_writer_open(&writer, STDERR_FILENO, NULL, report), STATUS_OK);
    log_writer_reopen(&writer); /* no path: nothing */
    log_writer_close(&writer);
    log_writer_close(&writer); /* closed already: nothing */
}

static void test_one_line_at_once(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(log_writer_now(ends[1], "hello\n", 6));
    char got[8] = "";
    assert_int_equal(read(ends[0], got, sizeof got), 6);
    assert_string_equal(got, "hello\n");
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    char filler[4096] = "";
    while (write(ends[1], filler, sizeof filler) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    assert_false(log_writer_now(ends[1], "hello\n", 6)); /* full: it gives up */
    close(ends[0]);
    assert_false(log_writer_now(ends[1], "hello\n", 6));
    close(ends[1]);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_arrive_in_order),
        cmocka_unit_test(test_a_lonely_line_is_written),
        cmocka_unit_test(test_a_reader_that_does_not_read),
        cmocka_unit_test(test_close_against_a_full_pipe),
        cmocka_unit_test(test_a_reader_that_is_gone),
        cmocka_unit_test(test_a_file_that_is_rotated),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_one_line_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
