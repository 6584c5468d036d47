#include "engine/kv/kv_open.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/kernels_kit.h"

enum { PLACES = 3, ROWS = 64 };

static struct kernels *kernels;
static struct kv_layout layout;

static int setup(void **state)
{
    (void)state;
    kernels = kit_kernels("ref", 1, ROWS, 64);
    return kernels_kv_layout(kernels, KV_TYPE_K4V8, 16, 1, 1, 4, &layout) != STATUS_OK;
}

static int teardown(void **state)
{
    (void)state;
    kernels_destroy(kernels);
    return 0;
}

/* What each group's place was last written for: sequence and group, told by rows. */
struct bed {
    struct kv_open open;
    uint32_t serial[PLACES];
    uint32_t owner[2 * PLACES + ROWS / 16];
};

static uint32_t owner_of(const struct bed *bed, uint32_t place, uint32_t position)
{
    return bed->serial[place] * 1000 + position / 16;
}

static void bed_step(struct bed *bed, uint32_t place, uint32_t first, uint32_t rows)
{
    uint32_t open_of[ROWS];
    kv_open_find(&bed->open, place, bed->serial[place], first, rows, open_of);
    for (uint32_t i = 0; i < rows; i++) {
        const uint32_t owner = owner_of(bed, place, first + i);
        assert_true(open_of[i] < 2 * PLACES + ROWS / 16);
        /* A row that goes on with a group finds what the rows before it wrote. */
        if ((first + i) % 16 > 0)
            assert_int_equal(bed->owner[open_of[i]], owner);
        bed->owner[open_of[i]] = owner;
    }
    for (uint32_t i = 0; i < rows; i++) /* and no later row of the step took its place */
        assert_int_equal(bed->owner[open_of[i]], owner_of(bed, place, first + i));
}

/* Chunks, single rows and guesses that are half true, of several sequences in one step; pauses and
 * new sequences, which find nothing of those before them, begin at any group. */
static void test_each_row_finds_its_group(void **state)
{
    (void)state;
    struct rng rng = {.seed = 41};
    struct bed bed;
    uint32_t computed[PLACES] = {0};
    uint32_t serial = 0;
    memset(&bed, 0, sizeof bed);
    for (uint32_t place = 0; place < PLACES; place++)
        bed.serial[place] = ++serial;
    assert_int_equal(kv_open_init(&bed.open, kernels, &layout, PLACES, ROWS), STATUS_OK);
    for (int step = 0; step < 20000; step++) {
        uint32_t left = ROWS;
        kv_open_begin(&bed.open);
        for (uint32_t place = 0; place < PLACES && left >= 4; place++) {
            const uint32_t kind = (uint32_t)rng_below(&rng, 8);
            if (kind == 0) {
                computed[place] = (uint32_t)rng_below(&rng, 8) * 16;
                bed.serial[place] = ++serial;
            }
            if (kind == 1)
                computed[place] -= computed[place] % 16;
            const bool is_chunk = kind < 4;
            const uint32_t rows = 1 + (uint32_t)rng_below(&rng, is_chunk ? left : 4);
            if (!is_chunk && rng_below(&rng, 3) == 0) /* a model that guesses writes row by row */
                for (uint32_t i = 0; i < rows; i++)
                    bed_step(&bed, place, computed[place] + i, 1);
            bed_step(&bed, place, computed[place], rows);
            computed[place] += is_chunk ? rows : 1 + (uint32_t)rng_below(&rng, rows);
            left -= rows;
        }
    }
    kv_open_deinit(&bed.open);
}

/* Whether a row of sequence `serial` at place 0 ends the process by abort(): found in a child. */
static bool dies(struct kv_open *open, uint64_t serial, uint32_t first)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint32_t open_of;
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        kv_open_find(open, 0, serial, first, 1, &open_of);
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

/* What a sequence leaves at its place is for no other. */
static void test_gates(void **state)
{
    (void)state;
    struct kv_open open;
    uint32_t open_of[20];
    assert_int_equal(kv_open_init(&open, kernels, &layout, PLACES, ROWS), STATUS_OK);
    kv_open_begin(&open);
    kv_open_find(&open, 0, 7, 0, 20, open_of);
    assert_false(dies(&open, 7, 20));
    assert_true(dies(&open, 7, 33)); /* nobody has begun that group */
    assert_true(dies(&open, 8, 20));
    assert_false(dies(&open, 8, 16));
    kv_open_find(&open, 0, 8, 0, 1, open_of);
    assert_true(dies(&open, 8, 20));
    kv_open_deinit(&open);
}

static void test_a_type_without_open_groups(void **state)
{
    (void)state;
    struct kv_open open;
    struct kv_layout other;
    assert_int_equal(kernels_kv_layout(kernels, KV_TYPE_I8, 16, 1, 1, 4, &other), STATUS_OK);
    assert_int_equal(kv_open_init(&open, kernels, &other, PLACES, ROWS), STATUS_OK);
    assert_null(open.memory);
    kv_open_deinit(&open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_finds_its_group),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_a_type_without_open_groups),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
