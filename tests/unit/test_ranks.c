#include "kernels/ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/rank_group.h"

enum { MEETINGS = 2000, WORDS = 64, LONG_BYTES = 1 << 20 };

/* Every rank lays out what its own number and the meeting make, and finds that of all others. */
static int meet_often(struct ranks *ranks, void *context)
{
    (void)context;
    for (uint32_t turn = 0; turn < MEETINGS; turn++) {
        const uint32_t *slots[LIMIT_RANKS];
        uint32_t *own = ranks_slot(ranks, ranks_own(ranks));
        for (uint32_t i = 0; i < WORDS; i++)
            own[i] = turn * 1000 + ranks_own(ranks) * WORDS + i;
        for (uint32_t rank = 0; rank < ranks_count(ranks); rank++)
            slots[rank] = ranks_slot(ranks, rank);
        if (ranks_meet(ranks) != STATUS_OK)
            return 1;
        for (uint32_t rank = 0; rank < ranks_count(ranks); rank++)
            for (uint32_t i = 0; i < WORDS; i++)
                if (slots[rank][i] != turn * 1000 + rank * WORDS + i)
                    return 2;
    }
    return 0;
}

static void test_all_see_what_each_lays_out(void **state)
{
    (void)state;
    static const uint32_t counts[] = {2, 3, LIMIT_RANKS};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct rank_group group;
        rank_group_fork(&group, counts[i], meet_often, NULL);
        assert_int_equal(ranks_count(group.ranks), counts[i]);
        assert_int_equal(ranks_own(group.ranks), 0);
        assert_int_equal(meet_often(group.ranks, NULL), 0);
        assert_int_equal(rank_group_end(&group), 0);
    }
}

/* More than a socket holds: both sides work on it at the same time. */
static int echo(struct ranks *ranks, void *context)
{
    static unsigned char bytes[LONG_BYTES];
    (void)context;
    for (size_t length = 1; length <= sizeof bytes; length *= 4)
        if (ranks_read(ranks, 0, bytes, length) != STATUS_OK ||
            ranks_write(ranks, 0, bytes, length) != STATUS_OK)
            return 1;
    return ranks_read(ranks, 0, bytes, 1) == STATUS_UNAVAILABLE ? 0 : 2; /* rank 0 ends */
}

static void test_bytes_in_order(void **state)
{
    (void)state;
    static unsigned char bytes[LONG_BYTES];
    static unsigned char back[LONG_BYTES];
    struct rank_group group;
    rank_group_fork(&group, 3, echo, NULL);
    for (size_t length = 1; length <= sizeof bytes; length *= 4)
        for (uint32_t rank = 1; rank < 3; rank++) {
            for (size_t i = 0; i < length; i++)
                bytes[i] = (unsigned char)(i * 7 + length + rank);
            assert_int_equal(ranks_write(group.ranks, rank, bytes, length), STATUS_OK);
            assert_int_equal(ranks_read(group.ranks, rank, back, length), STATUS_OK);
            assert_memory_equal(bytes, back, length);
        }
    assert_int_equal(rank_group_end(&group), 0);
}

/* Rank 1 ends after some meetings; rank 2 goes on until it is told. */
static int end_early(struct ranks *ranks, void *context)
{
    (void)context;
    for (uint32_t turn = 0; turn < 100; turn++) {
        if (ranks_own(ranks) == 1 && turn == 10)
            raise(SIGKILL);
        if (ranks_meet(ranks) != STATUS_OK)
            return turn == 10 ? 0 : 1;
    }
    return 2;
}

static void test_a_rank_that_dies_is_an_error(void **state)
{
    (void)state;
    struct rank_group group;
    int status = 0;
    rank_group_fork(&group, 3, end_early, NULL);
    for (uint32_t turn = 0; turn < 10; turn++) {
        assert_true(ranks_live(group.ranks)); /* all wait for this one */
        assert_int_equal(ranks_meet(group.ranks), STATUS_OK);
    }
    while (ranks_live(group.ranks)) /* seen though nobody meets */
        usleep(1000);
    assert_int_equal(ranks_meet(group.ranks), STATUS_UNAVAILABLE);
    assert_string_equal(status_note()->message, "tensor parallel: the process of rank 1 has ended");
    assert_int_equal(ranks_meet(group.ranks), STATUS_UNAVAILABLE); /* and nobody is waited for */
    assert_int_equal(waitpid(group.pids[2], &status, 0), group.pids[2]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(waitpid(group.pids[1], &status, 0), group.pids[1]);
    assert_true(WIFSIGNALED(status));
    char byte = 0;
    assert_int_equal(ranks_write(group.ranks, 1, &byte, 1), STATUS_UNAVAILABLE);
    ranks_destroy(group.ranks);
}

/* The first ends, the second has no socket to it: rank 0, which lives on, says so. */
static int live_until_told(struct ranks *ranks, void *context)
{
    (void)context;
    while (ranks_own(ranks) == 2 && ranks_live(ranks))
        usleep(1000);
    return 0;
}

static void test_a_rank_that_ends_is_told_to_others(void **state)
{
    (void)state;
    struct rank_group group;
    int status = 1;
    rank_group_fork(&group, 3, live_until_told, NULL);
    while (ranks_live(group.ranks))
        usleep(1000);
    assert_int_equal(waitpid(group.pids[2], &status, 0), group.pids[2]);
    assert_int_equal(status, 0);
    assert_int_equal(waitpid(group.pids[1], &status, 0), group.pids[1]);
    ranks_destroy(group.ranks);
}

static int meet_until_alone(struct ranks *ranks, void *context)
{
    (void)context;
    while (ranks_meet(ranks) == STATUS_OK)
        ;
    return status_note()->status == STATUS_UNAVAILABLE ? 0 : 1;
}

static void test_the_first_rank_may_die_too(void **state)
{
    (void)state;
    struct rank_group group;
    rank_group_fork(&group, 4, meet_until_alone, NULL);
    for (uint32_t turn = 0; turn < 10; turn++)
        assert_int_equal(ranks_meet(group.ranks), STATUS_OK);
    assert_int_equal(rank_group_end(&group), 0);
}

static void stop(pid_t pid)
{
    int status = 0;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
}

static void test_a_rank_that_stands_still_is_as_dead(void **state)
{
    (void)state;
    struct rank_group group;
    rank_group_fork(&group, 3, meet_until_alone, NULL);
    for (uint32_t turn = 0; turn < 10; turn++)
        assert_int_equal(ranks_meet(group.ranks), STATUS_OK);
    stop(group.pids[1]);
    ranks_set_wait(group.ranks, 200);
    assert_true(ranks_live(group.ranks));
    while (ranks_meet(group.ranks) == STATUS_OK) /* it may have come to one more */
        ;
    assert_non_null(strstr(status_note()->message, "process has not responded for"));
    assert_false(ranks_live(group.ranks));
    assert_int_equal(ranks_write(group.ranks, 1, "x", 1), STATUS_UNAVAILABLE); /* not held */
    assert_int_equal(kill(group.pids[1], SIGCONT),
                     0); /* it hears that nobody waits for it any more */
    assert_int_equal(rank_group_end(&group), 0);
}

/* Reads nothing. */
static int stand_still(struct ranks *ranks, void *context)
{
    (void)ranks;
    (void)context;
    while (pause() < 0)
        ;
    return 0;
}

static void test_a_rank_that_reads_nothing_is_as_dead(void **state)
{
    (void)state;
    static unsigned char bytes[LONG_BYTES];
    struct rank_group group;
    rank_group_fork(&group, 2, stand_still, NULL);
    ranks_set_wait(group.ranks, 200);
    while (ranks_write(group.ranks, 1, bytes, sizeof bytes) == STATUS_OK)
        ;
    assert_non_null(strstr(status_note()->message, "process has not responded for"));
    assert_int_equal(ranks_meet(group.ranks), STATUS_UNAVAILABLE);
    assert_int_equal(kill(group.pids[1], SIGKILL), 0);
    assert_int_equal(rank_group_end(&group), 128);
}

/* Nor says anything: so it is where weights are waited for, after more patience. */
static void test_a_rank_that_says_nothing_is_as_dead(void **state)
{
    (void)state;
    char byte;
    struct rank_group group;
    rank_group_fork(&group, 2, stand_still, NULL);
    ranks_set_wait(group.ranks, 50);
    assert_int_equal(ranks_read(group.ranks, 1, &byte, 1), STATUS_UNAVAILABLE);
    assert_non_null(strstr(status_note()->message, "process has not responded for"));
    assert_int_equal(kill(group.pids[1], SIGKILL), 0);
    assert_int_equal(rank_group_end(&group), 128);
}

static int last_words[2]; /* a pipe: open while the rank that has them is */

/* The last rank says a byte and ends, those before it a while later. */
static int say_and_end(struct ranks *ranks, void *context)
{
    char byte = 0;
    (void)context;
    close(last_words[ranks_own(ranks) == 2 ? 0 : 1]);
    if (ranks_own(ranks) == 2)
        return ranks_write(ranks, 0, "2", 1) == STATUS_OK ? 0 : 1;
    if (read(last_words[0], &byte, 1) != 0)
        return 2;
    usleep(200000); /* rank 0 looks around meanwhile */
    return ranks_write(ranks, 0, "1", 1) == STATUS_OK ? 0 : 3;
}

/* Why it has ended, that is: behind weights that others still read. */
static void test_what_a_rank_said_before_it_ended_is_heard(void **state)
{
    (void)state;
    char said[2] = "";
    struct rank_group group;
    assert_int_equal(pipe(last_words), 0);
    rank_group_fork(&group, 3, say_and_end, NULL);
    close(last_words[0]);
    close(last_words[1]);
    assert_int_equal(ranks_read(group.ranks, 1, &said[0], 1), STATUS_OK);
    assert_int_equal(ranks_read(group.ranks, 2, &said[1], 1), STATUS_OK);
    assert_memory_equal(said, "12", 2);
    assert_int_equal(ranks_read(group.ranks, 2, &said[1], 1), STATUS_UNAVAILABLE);
    assert_int_equal(rank_group_end(&group), 0);
}

/* However long this process itself was away between two looks: that is a tenth of a second. */
static void test_time_away_is_no_wait(void **state)
{
    (void)state;
    struct rank_group group;
    struct ranks_wait wait = {0};
    uint32_t looks = 0;
    rank_group_fork(&group, 2, stand_still, NULL);
    ranks_set_wait(group.ranks, 450);
    for (; looks < 5; looks++) {
        assert_int_equal(ranks_wait_more(group.ranks, &wait), STATUS_OK);
        usleep(200000);
    }
    while (ranks_wait_more(group.ranks, &wait) == STATUS_OK)
        usleep(200000);
    assert_int_equal(status_note()->status, STATUS_UNAVAILABLE);
    assert_int_equal(kill(group.pids[1], SIGKILL), 0);
    assert_int_equal(rank_group_end(&group), 128);
}

static void test_limits(void **state)
{
    (void)state;
    struct ranks *ranks = NULL;
    assert_int_equal(ranks_create(&ranks, 1), STATUS_OUT_OF_RANGE);
    assert_int_equal(ranks_create(&ranks, LIMIT_RANKS + 1), STATUS_OUT_OF_RANGE);
    assert_null(ranks);
    assert_int_equal(ranks_count(NULL), 1);
    assert_int_equal(ranks_own(NULL), 0);
    ranks_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_see_what_each_lays_out),
        cmocka_unit_test(test_bytes_in_order),
        cmocka_unit_test(test_a_rank_that_dies_is_an_error),
        cmocka_unit_test(test_a_rank_that_ends_is_told_to_others),
        cmocka_unit_test(test_the_first_rank_may_die_too),
        cmocka_unit_test(test_a_rank_that_stands_still_is_as_dead),
        cmocka_unit_test(test_a_rank_that_reads_nothing_is_as_dead),
        cmocka_unit_test(test_a_rank_that_says_nothing_is_as_dead),
        cmocka_unit_test(test_what_a_rank_said_before_it_ended_is_heard),
        cmocka_unit_test(test_time_away_is_no_wait),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
