/* Batches of page copies: the right bytes in the right pages and nowhere else, by every table and
 * number of threads, on both sides of the size from which stores are streamed. */
#include "kernels/cpu/ops/ops.h"

#include "kernels/cpu/avx512/avx512.h"
#include "tests/unit/kernels_kit.h"

enum { PAGES = 13 };

static void shuffle(struct rng *rng, uint32_t pages[PAGES])
{
    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = i;
    for (uint32_t i = PAGES; i > 1; i--) {
        uint32_t other = (uint32_t)rng_below(rng, i);
        uint32_t page = pages[i - 1];
        pages[i - 1] = pages[other];
        pages[other] = page;
    }
}

static void check(struct kernels *kernels, struct rng *rng, size_t page_bytes, uint32_t count)
{
    const size_t bytes = page_bytes * PAGES;
    unsigned char *from = kernels_buffer_create(kernels, bytes);
    unsigned char *to = kernels_buffer_create(kernels, bytes);
    unsigned char *expected = malloc(bytes);
    uint32_t from_pages[PAGES];
    uint32_t to_pages[PAGES];
    assert_true(from != NULL && to != NULL && expected != NULL);
    for (size_t i = 0; i < bytes; i++)
        from[i] = (unsigned char)(i * 0x9e3779b1u >> 13);
    memset(to, 0x77, bytes);
    memset(expected, 0x77, bytes);
    shuffle(rng, from_pages);
    shuffle(rng, to_pages);
    for (uint32_t i = 0; i < count; i++)
        memcpy(expected + to_pages[i] * page_bytes, from + from_pages[i] * page_bytes, page_bytes);
    const struct pages_copy_args args = {to, from, to_pages, from_pages, count, page_bytes};
    kernels_pages_copy(kernels, &args);
    assert_memory_equal(to, expected, bytes);
    kernels_buffer_destroy(kernels, from);
    kernels_buffer_destroy(kernels, to);
    free(expected);
}

static void test_copies(void **state)
{
    (void)state;
    static const size_t sizes[] = {64, 192, 368640};
    struct rng rng = {.seed = 11};
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++)
        for (uint32_t threads = 1; threads <= 5; threads += 2) {
            struct kernels *kernels = kit_kernels(*isa, threads, 1, 1);
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (uint32_t count = 0; count <= PAGES; count += count < 4 ? 1 : 9)
                    check(kernels, &rng, sizes[i], count);
            kernels_destroy(kernels);
        }
}

static void test_streamed_leaf(void **state)
{
    (void)state;
    struct kernels *kernels = kit_kernels("ref", 1, 1, 1);
    for (size_t bytes = 0; bytes <= 640 && kernels_can_run("avx512"); bytes += 64) {
        unsigned char *from = kernels_buffer_create(kernels, 704);
        unsigned char *to = kernels_buffer_create(kernels, 704);
        memset(from, 0x11, 704);
        memset(to, 0x77, 704);
        k_copy_avx512(to, from, bytes);
        for (size_t i = 0; i < 704; i++)
            assert_int_equal(to[i], i < bytes ? 0x11 : 0x77);
        kernels_buffer_destroy(kernels, from);
        kernels_buffer_destroy(kernels, to);
    }
    kernels_destroy(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_streamed_leaf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
