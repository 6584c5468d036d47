/* turns: order, shares and bounds, counted in turns and bytes; never in time. One lane's thread is
 * held by a turn that waits for the test, until everything that is to be ordered is pushed. */
#include "config/base/turns.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/mem.h"

enum { TURNS = 64, STEPS = 4096, STEP = 1024 };

struct job {
    struct turn turn; /* first */
    char name;
    bool is_gate;  /* waits for the test before it works */
    size_t amount; /* bytes that it spends; else its length */
    int nice;
    int policy;
    bool notes_status;
};

static struct world {
    struct clock clock;
    struct turns *turns;
    struct job jobs[TURNS];
    uint32_t job_count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open;
    uint32_t begun;
    uint32_t done;
    /* What was worked on, by steps of STEP bytes: the name of the job. */
    char steps[STEPS];
    uint32_t step_count;
    uint32_t depth;
    uint32_t depth_most;
} world;

static void step(char name)
{
    pthread_mutex_lock(&world.lock);
    if (world.step_count < STEPS)
        world.steps[world.step_count++] = name;
    pthread_mutex_unlock(&world.lock);
}

static void work(void *context, struct turn *turn)
{
    assert_ptr_equal(context, &world);
    struct job *job = (struct job *)(void *)turn;
    pthread_mutex_lock(&world.lock);
    world.begun++;
    world.depth++;
    if (world.depth > world.depth_most)
        world.depth_most = world.depth;
    pthread_cond_broadcast(&world.changed);
    while (job->is_gate && !world.is_open)
        pthread_cond_wait(&world.changed, &world.lock);
    pthread_mutex_unlock(&world.lock);
    job->nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    job->policy = sched_getscheduler(0);
    if (job->notes_status)
        (void)status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL, "mine");
    size_t amount = job->amount != 0 ? job->amount : job->turn.bytes;
    for (size_t spent = 0; spent < amount; spent += STEP) {
        step(job->name);
        turns_spend(STEP);
    }
    if (job->notes_status)
        assert_string_equal(status_note()->message, "mine");
    else
        (void)status_fail(STATUS_BUSY, __FILE__, __LINE__, NULL, "another's");
    pthread_mutex_lock(&world.lock);
    world.depth--;
    world.done++;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
}

static void begin(uint32_t waiting_max, uint32_t owner_max)
{
    memset(&world, 0, sizeof world);
    pthread_mutex_init(&world.lock, NULL);
    pthread_cond_init(&world.changed, NULL);
    clock_manual_init(&world.clock, 1000);
    const struct turns_options options = {.work = work,
                                          .context = &world,
                                          .clock = &world.clock,
                                          .waiting_max = waiting_max,
                                          .owner_max = owner_max};
    assert_int_equal(turns_create(&world.turns, &options), STATUS_OK);
}

static struct job *job_of(char owner, char name, size_t bytes)
{
    assert_in_range(world.job_count, 0, TURNS - 1);
    struct job *job = &world.jobs[world.job_count++];
    *job = (struct job){.turn.bytes = bytes, .name = name};
    job->turn.owner[3] = (uint8_t)owner;
    return job;
}

static enum status push(char owner, char name, size_t bytes)
{
    return turns_push(world.turns, &job_of(owner, name, bytes)->turn);
}

static void wait_for(const uint32_t *count, uint32_t most)
{
    pthread_mutex_lock(&world.lock);
    while (*count < most)
        pthread_cond_wait(&world.changed, &world.lock);
    pthread_mutex_unlock(&world.lock);
}

/* A turn that holds the long lane until `finish`. */
static struct job *hold_long(char owner, char name, size_t bytes)
{
    struct job *job = job_of(owner, name, bytes);
    job->is_gate = true;
    assert_int_equal(turns_push(world.turns, &job->turn), STATUS_OK);
    wait_for(&world.begun, 1);
    return job;
}

static void finish(void)
{
    pthread_mutex_lock(&world.lock);
    world.is_open = true;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
    wait_for(&world.done, world.job_count);
    turns_destroy(world.turns);
    pthread_cond_destroy(&world.changed);
    pthread_mutex_destroy(&world.lock);
}

static uint32_t steps_before(char name, char other)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world.step_count && world.steps[i] != name; i++)
        count += world.steps[i] == other;
    return count;
}

/* The attack: one tenant's long texts, many of them, and a neighbour's short one. */
static void test_a_short_text_waits_for_no_long_one(void **state)
{
    (void)state;
    begin(TURNS, TURNS);
    (void)hold_long('a', 'A', 4 << 20);
    for (int i = 0; i < 20; i++)
        assert_int_equal(push('a', 'A', 4 << 20), STATUS_OK);
    assert_int_equal(push('n', 'N', 2000), STATUS_OK);
    wait_for(&world.done, 1); /* while the long lane stands still */
    assert_int_equal(steps_before('N', 'A'), 0);
    for (uint32_t i = 0; i < world.job_count; i++)
        world.jobs[i].amount = 4 * STEP; /* the rest is not what this looks at */
    finish();
}

/* A text of a quarter or less waits for one quantum of a longer one, however long that is. */
static void test_a_long_text_gives_way_after_each_quantum(void **state)
{
    (void)state;
    begin(TURNS, TURNS);
    (void)hold_long('a', 'A', 1 << 20);
    assert_int_equal(push('a', 'B', 1 << 20), STATUS_OK);
    assert_int_equal(push('n', 'N', 100 * 1024), STATUS_OK);
    assert_int_equal(push('n', 'M', 20 * 1024), STATUS_OK);
    assert_int_equal(push('o', 'O', 200 * 1024), STATUS_OK);
    finish();
    assert_int_equal(steps_before('N', 'A'), TURNS_QUANTUM / STEP);
    assert_int_equal(steps_before('N', 'B'), 0);
    assert_int_equal(steps_before('O', 'B'), 0);
    assert_in_range(steps_before('M', 'A'), TURNS_QUANTUM / STEP, 3 * TURNS_QUANTUM / STEP);
    assert_in_range(world.depth_most, 2, TURNS_DEPTH);
    assert_int_equal(steps_before('B', 'A'), (1 << 20) / STEP); /* of one owner: in order */
}

/* What gives way goes on as well: of two quanta one is its own. */
static void test_a_long_text_is_not_starved(void **state)
{
    (void)state;
    begin(TURNS, TURNS);
    (void)hold_long('a', 'A', 1 << 20);
    for (int i = 0; i < 40; i++)
        assert_int_equal(push('n', 'N', TURNS_QUANTUM), STATUS_OK);
    finish();
    uint32_t own = 0;
    uint32_t others = 0;
    for (uint32_t i = 0; i < world.step_count && own < (1 << 20) / STEP; i++) {
        own += world.steps[i] == 'A';
        others += world.steps[i] == 'N';
        assert_true(others <= own + TURNS_QUANTUM / STEP);
    }
    assert_int_equal(own, (1 << 20) / STEP);
}

/* Owners of texts of one length have had as much at any time, but for one text. */
static void test_owners_have_equal_shares(void **state)
{
    (void)state;
    begin(TURNS, TURNS);
    (void)hold_long('g', 'G', TURNS_QUANTUM);
    for (int i = 0; i < 20; i++)
        assert_int_equal(push('a', 'A', 64 * 1024), STATUS_OK);
    for (int i = 0; i < 10; i++)
        assert_int_equal(push('b', 'B', 128 * 1024), STATUS_OK);
    finish();
    uint32_t a = 0;
    uint32_t b = 0;
    for (uint32_t i = 0; i < world.step_count; i++) {
        a += world.steps[i] == 'A';
        b += world.steps[i] == 'B';
        assert_true(a <= b + 128 && b <= a + 128);
    }
    assert_int_equal(a, 20 * 64);
    assert_int_equal(b, 10 * 128);
}

/* Who was away is owed nothing: it does not keep out those who worked meanwhile. */
static void test_nothing_is_saved_up(void **state)
{
    (void)state;
    begin(TURNS, TURNS);
    for (uint32_t i = 1; i <= 10; i++) {
        assert_int_equal(push('a', 'x', 64 * 1024), STATUS_OK);
        wait_for(&world.done, i);
    }
    world.begun = world.step_count = 0;
    (void)hold_long('g', 'G', TURNS_QUANTUM);
    for (int i = 0; i < 4; i++)
        assert_int_equal(push('b', 'B', 64 * 1024), STATUS_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(push('a', 'A', 64 * 1024), STATUS_OK);
    finish();
    assert_in_range(steps_before('A', 'B'), 0, 2 * 64);
}

/* The long lane gives its processor to whatever wakes up, at once. */
static void check_lane(const struct job *job, bool is_long)
{
    assert_int_equal(job->nice, is_long ? TURNS_NICE_LONG : TURNS_NICE_QUICK);
    assert_int_equal(job->policy, is_long ? SCHED_IDLE : SCHED_OTHER);
}

/* A flood of short texts goes to the long lane beyond its owner's rate, and comes back. */
static void test_the_quick_lane_has_a_rate(void **state)
{
    (void)state;
    begin(TURNS, TURNS);
    for (uint32_t i = 1; i <= TURNS_RATE / TURNS_SHORT; i++) {
        assert_int_equal(push('a', 'A', TURNS_SHORT), STATUS_OK);
        wait_for(&world.done, i);
        check_lane(&world.jobs[i - 1], false);
    }
    uint32_t count = world.job_count;
    assert_int_equal(push('a', 'A', 1), STATUS_OK); /* the rate is used up */
    assert_int_equal(push('n', 'N', 1), STATUS_OK); /* another's is not */
    assert_int_equal(push('o', 'O', TURNS_SHORT + 1), STATUS_OK);
    wait_for(&world.done, count + 3);
    check_lane(&world.jobs[count], true);
    check_lane(&world.jobs[count + 1], false);
    check_lane(&world.jobs[count + 2], true);
    clock_manual_advance(&world.clock, 1000000);
    assert_int_equal(push('a', 'A', TURNS_SHORT), STATUS_OK);
    /* A short text that turns out as much work (a template may repeat it) is paid for. */
    struct job *swollen = job_of('n', 'S', TURNS_SHORT);
    swollen->amount = 2 * TURNS_RATE;
    assert_int_equal(turns_push(world.turns, &swollen->turn), STATUS_OK);
    wait_for(&world.done, count + 5);
    check_lane(&world.jobs[count + 3], false);
    assert_int_equal(push('n', 'N', 1), STATUS_OK);
    wait_for(&world.done, count + 6);
    check_lane(&world.jobs[count + 5], true);
    finish();
}

static void test_bounds_of_the_queues(void **state)
{
    (void)state;
    begin(10, 6);
    (void)hold_long('a', 'A', STEP * 32);
    for (int i = 0; i < 6; i++)
        assert_int_equal(push('a', 'A', STEP * 32), STATUS_OK);
    struct job *refused = job_of('a', 'A', STEP * 32);
    assert_int_equal(turns_push(world.turns, &refused->turn), STATUS_QUEUE_FULL);
    world.job_count--;
    for (char owner = 'b'; owner < 'f'; owner++)
        assert_int_equal(push(owner, owner, STEP * 32), STATUS_OK);
    refused = job_of('z', 'Z', STEP * 32);
    assert_int_equal(turns_push(world.turns, &refused->turn), STATUS_BUSY);
    world.job_count--;
    finish();
    turns_spend(1 << 20); /* of no lane: nothing */
    turns_destroy(NULL);
}

/* More owners than there are places for: those that are idle are forgotten. */
static void test_many_owners(void **state)
{
    (void)state;
    begin(4, 4);
    for (uint32_t i = 0; i < 500; i++) {
        world.job_count = 0;
        struct job *job = job_of(0, 'A', i % 2 == 0 ? 10 : TURNS_QUANTUM);
        memcpy(job->turn.owner, &i, sizeof i);
        assert_int_equal(turns_push(world.turns, &job->turn), STATUS_OK);
        wait_for(&world.done, i + 1);
    }
    finish();
}

/* What runs inside turns_spend has failures of its own. */
static void test_the_note_of_a_failure_is_kept(void **state)
{
    (void)state;
    begin(TURNS, TURNS);
    hold_long('a', 'A', 1 << 20)->notes_status = true;
    assert_int_equal(push('n', 'N', TURNS_QUANTUM), STATUS_OK);
    finish();
    assert_int_equal(world.depth_most, 2);
}

static int refuse_after(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- <= 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct turns *turns = NULL;
    const struct turns_options options = {
        .work = work, .clock = clock_system(), .waiting_max = 4, .owner_max = 4};
    for (int allowed = 0; allowed < 2; allowed++) {
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        assert_int_equal(turns_create(&turns, &options), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_short_text_waits_for_no_long_one),
        cmocka_unit_test(test_a_long_text_gives_way_after_each_quantum),
        cmocka_unit_test(test_a_long_text_is_not_starved),
        cmocka_unit_test(test_owners_have_equal_shares),
        cmocka_unit_test(test_nothing_is_saved_up),
        cmocka_unit_test(test_the_quick_lane_has_a_rate),
        cmocka_unit_test(test_bounds_of_the_queues),
        cmocka_unit_test(test_many_owners),
        cmocka_unit_test(test_the_note_of_a_failure_is_kept),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
