#include "gateway/engine_http/final_ring.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/final_ring.XXXXXX");
    int descriptor = mkstemp(path);
    close(descriptor);
    return 0;
}

static int drop_path(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static uint64_t append(struct final_ring *ring, uint32_t tokens)
{
    struct final_record record = {.report = {.completion_tokens = tokens}};
    snprintf(record.request_id, sizeof record.request_id, "req_%u", tokens);
    final_ring_append(ring, &record);
    return record.sequence;
}

static void test_records_come_back_after_a_restart(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8), STATUS_OK);
    assert_false(final_ring_next(ring, 0, &record));
    assert_int_equal(append(ring, 10), 1);
    assert_int_equal(append(ring, 20), 2);
    assert_int_equal(append(ring, 30), 3);
    assert_int_equal(final_ring_acknowledge(ring, 1), STATUS_OK);
    final_ring_close(ring);

    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8), STATUS_OK);
    assert_int_equal(final_ring_unacknowledged(ring), 2);
    assert_true(final_ring_next(ring, 0, &record));
    assert_int_equal(record.sequence, 2);
    assert_string_equal(record.request_id, "req_20");
    assert_int_equal(record.report.completion_tokens, 20);
    assert_true(final_ring_next(ring, record.sequence, &record));
    assert_int_equal(record.sequence, 3);
    assert_false(final_ring_next(ring, record.sequence, &record));
    assert_int_equal(append(ring, 40), 4);
    final_ring_close(ring);
}

static void test_the_oldest_goes_when_the_ring_is_full(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4), STATUS_OK);
    for (uint32_t i = 1; i <= 4; i++)
        append(ring, i);
    assert_int_equal(final_ring_lost(ring), 0);
    append(ring, 5);
    assert_int_equal(final_ring_lost(ring), 1);
    assert_true(final_ring_next(ring, 0, &record));
    assert_int_equal(record.sequence, 2);
    for (uint32_t i = 6; i <= 100; i++)
        append(ring, i);
    assert_int_equal(final_ring_lost(ring), 96);
    for (uint64_t expected = 97, after = 0; expected <= 100; expected++) {
        assert_true(final_ring_next(ring, after, &record));
        assert_int_equal(record.sequence, expected);
        after = record.sequence;
    }
    final_ring_close(ring);
}

static void test_acknowledging_what_never_was_is_refused(void **state)
{
    (void)state;
    struct final_ring *ring;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4), STATUS_OK);
    assert_int_equal(final_ring_acknowledge(ring, 0), STATUS_OK);
    assert_int_equal(final_ring_acknowledge(ring, 1), STATUS_OUT_OF_RANGE);
    append(ring, 1);
    append(ring, 2);
    assert_int_equal(final_ring_acknowledge(ring, 2), STATUS_OK);
    assert_int_equal(final_ring_acknowledge(ring, 1), STATUS_OK);
    assert_int_equal(final_ring_unacknowledged(ring), 0);
    final_ring_close(ring);
}

static void test_a_file_that_is_no_ring_is_left_alone(void **state)
{
    (void)state;
    struct final_ring *ring;
    int descriptor = open(path, O_WRONLY);
    assert_int_equal(write(descriptor, "something else", 14), 14);
    close(descriptor);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4), STATUS_CORRUPT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4), STATUS_OK);
    final_ring_close(ring);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8), STATUS_CORRUPT);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, "/tmp/no/such/folder/x", 8), STATUS_IO);
}

/* Nothing is left to be allocated under the map: a full disk would end the process there. */
static void test_the_file_has_no_holes(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct stat info;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4096), STATUS_OK);
        final_ring_close(ring);
        assert_int_equal(stat(path, &info), 0);
        assert_true(info.st_size >= 4096 * (off_t)sizeof(struct final_record));
        assert_true(info.st_blocks * 512 >= info.st_size);
    }
}

/* Files larger than the process may write stand for a disk that is full. */
static void test_a_full_disk_leaves_no_file_behind(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct stat info;
    struct rlimit before;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 4096, .rlim_max = before.rlim_max}),
        0);
    enum status status = final_ring_open(&ring, AT_FDCWD, path, 4096);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, STATUS_IO);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4096), STATUS_OK);
    final_ring_close(ring);
}

static void test_a_damaged_record_stays_in_its_types(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4), STATUS_OK);
    memset(&record, 'x', sizeof record);
    final_ring_append(ring, &record);
    assert_true(final_ring_next(ring, 0, &record));
    assert_int_equal(strlen(record.request_id), sizeof record.request_id - 1);
    assert_int_equal(record.report.finish, ENGINE_FINISH_ERROR);
    final_ring_close(ring);
}

static void test_the_frame_has_every_member(void **state)
{
    (void)state;
    const struct final_record record = {
        .sequence = 7,
        .request_id = "req_a\"b",
        .report = {.prompt_tokens = 1,
                   .cached_tokens = 2,
                   .completion_tokens = 3,
                   .queue_us = 4,
                   .prefill_us = 5,
                   .decode_us = 6,
                   .finish = ENGINE_FINISH_STOP},
    };
    struct buffer out;
    buffer_init(&out, 4096);
    final_ring_render(&record, &out);
    assert_string_equal(out.bytes,
                        "{\"protocol\":1,\"request_id\":\"req_a\\\"b\",\"record_seq\":7,"
                        "\"prompt_tokens\":1,\"cached_tokens\":2,\"completion_tokens\":3,"
                        "\"finish_reason\":\"stop\",\"estimated\":false,\"queue_us\":4,"
                        "\"prefill_us\":5,\"decode_us\":6,\"preemptions\":0,\"swapped_pages\":0,"
                        "\"swap_us\":0}");
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_records_come_back_after_a_restart, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_the_oldest_goes_when_the_ring_is_full, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_acknowledging_what_never_was_is_refused, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_no_ring_is_left_alone, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_the_file_has_no_holes, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_a_full_disk_leaves_no_file_behind, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_a_damaged_record_stays_in_its_types, make_path,
                                        drop_path),
        cmocka_unit_test(test_the_frame_has_every_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
