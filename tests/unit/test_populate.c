#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/populate.h"

enum { SIZE = 24 * 1024 * 1024 };

static char *map(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

/* Pages of the range that the kernel has given. */
static size_t resident(char *memory, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t count = (bytes + page - 1) / page;
    unsigned char *in_core = mem_alloc(count);
    assert_non_null(in_core);
    assert_int_equal(mincore(memory, bytes, in_core), 0);
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += in_core[i] & 1;
    mem_free(in_core);
    return found;
}

/* The same of the whole process, written ones alone; the kernel counts in batches. */
static size_t resident_all(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all = 0;
    unsigned long found = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &found), 2);
    fclose(file);
    return found;
}

static void wait_done(struct populate *populate)
{
    for (int i = 0; i < 60000 && !atomic_load(&populate->is_done); i++)
        usleep(1000);
    assert_true(atomic_load(&populate->is_done));
}

static void test_all_pages_are_there(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *first = map(SIZE);
    char *second = map(SIZE);
    assert_int_equal(resident(first, SIZE), 0);
    /* The second neither begins nor ends with a page of the system. */
    const struct populate_range ranges[] = {
        {first, SIZE}, {NULL, 0}, {second + page - 1, SIZE - 2 * page + 2}};
    struct populate populate;
    assert_int_equal(populate_start(&populate, ranges, 3), STATUS_OK);
    wait_done(&populate);
    populate_stop(&populate);
    populate_stop(&populate);
    assert_int_equal(atomic_load(&populate.bytes_done), 2 * (size_t)SIZE - 2 * page + 2);
    assert_int_equal(resident(first, SIZE), SIZE / page);
    assert_int_equal(resident(second, SIZE), SIZE / page);
    munmap(first, SIZE);
    munmap(second, SIZE);
}

/* The owner writes while the thread touches: no write is lost, none is added. */
static void write_beside(void (*touch)(char *memory))
{
    char *memory = map(SIZE);
    char *expected = mem_zalloc(SIZE, 1);
    assert_non_null(expected);
    for (size_t i = 0; i < SIZE; i += 97)
        memory[i] = expected[i] = (char)(i * 31 + 1);
    touch(memory);
    assert_memory_equal(memory, expected, SIZE);
    mem_free(expected);
    munmap(memory, SIZE);
}

static void touch_by_thread(char *memory)
{
    const struct populate_range range = {memory, SIZE};
    struct populate populate;
    assert_int_equal(populate_start(&populate, &range, 1), STATUS_OK);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < SIZE; i += 97)
            ((volatile char *)memory)[i] = (char)(i * 31 + 1);
    wait_done(&populate);
    populate_stop(&populate);
}

static void touch_at_once(char *memory)
{
    populate_touch(memory + 1, SIZE - 1);
}

static void test_contents_stay(void **state)
{
    (void)state;
    write_beside(touch_by_thread);
    write_beside(touch_at_once);
}

static void test_touch_works_on_any_kernel(void **state)
{
    (void)state;
    char *memory = map(SIZE);
    populate_touch(memory, 0);
    assert_int_equal(resident(memory, SIZE), 0);
    size_t before = resident_all();
    populate_touch(memory, SIZE);
    /* A mere read maps the page of zeros, which belongs to nobody. */
    assert_true(resident_all() > before + SIZE / (size_t)sysconf(_SC_PAGESIZE) / 2);
    assert_int_equal(resident(memory, SIZE), SIZE / (size_t)sysconf(_SC_PAGESIZE));
    munmap(memory, SIZE);
}

/* Stopped at whatever point it has reached, the thread is gone: its memory may be unmapped. */
static void test_stop_at_any_point(void **state)
{
    (void)state;
    struct populate never = {.range_count = 0};
    populate_stop(&never);
    for (int i = 0; i < 50; i++) {
        char *memory = map(SIZE);
        const struct populate_range range = {memory, SIZE};
        struct populate populate;
        assert_int_equal(populate_start(&populate, &range, 1), STATUS_OK);
        for (int spin = 0; spin < i * 2000; spin++)
            __asm__ volatile("");
        populate_stop(&populate);
        assert_true(atomic_load(&populate.is_done));
        assert_true(atomic_load(&populate.bytes_done) <= SIZE);
        munmap(memory, SIZE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_pages_are_there),
        cmocka_unit_test(test_contents_stay),
        cmocka_unit_test(test_touch_works_on_any_kernel),
        cmocka_unit_test(test_stop_at_any_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
