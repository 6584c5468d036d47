/* bench_radix: what matching and inserting long paths in a full prefix tree costs.
 *
 * usage: bench_radix      prints one JSON line for each figure: what, value, unit
 *
 * 1,000 domains, 131,072 values, pages of 16 symbols, paths of 512 pages. */
#include <stdio.h>
#include <stdlib.h>

#include "config/base/clock.h"
#include "config/base/rng.h"
#include "radix/radix_tree.h"

enum { PAGE = 16, PAGES = 512, DOMAINS = 1000, VALUES = 131072, ROUNDS = 200 };

static uint32_t symbols[PAGES * PAGE];

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

static void print(const char *what, int64_t us, int64_t count, const char *unit)
{
    printf("{\"what\": \"%s\", \"value\": %.2f, \"unit\": \"%s\"}\n", what,
           (double)us / (double)count, unit);
}

static void fill(struct rng *rng)
{
    for (int i = 0; i < PAGES * PAGE; i++)
        symbols[i] = (uint32_t)rng_below(rng, 50000);
}

static radix_domain open_domain(struct radix_tree *tree, uint32_t i)
{
    const uint8_t id[16] = {(uint8_t)i, (uint8_t)(i >> 8), 1};
    return radix_tree_open_domain(tree, id, 1);
}

/* Inserts a whole path with values in one walk, and makes all its nodes idle, the last page first.
 */
static void insert_path(struct radix_tree *tree, radix_domain domain, uint32_t pages)
{
    radix_node nodes[PAGES];
    radix_node below = RADIX_NONE;
    for (uint32_t i = 0; i < pages; i++) {
        while (radix_tree_count(tree, RADIX_DEVICE) == VALUES)
            radix_tree_clear(tree, radix_evict_next(tree, RADIX_DEVICE));
        nodes[i] = radix_tree_insert(tree, domain, below, symbols + (size_t)i * PAGE, PAGE);
        if (nodes[i] == RADIX_NONE)
            abort();
        radix_tree_set(tree, nodes[i], RADIX_DEVICE, i);
        below = nodes[i];
    }
    while (pages-- > 0)
        radix_evict_idle(tree, nodes[pages]);
}

int main(void)
{
    struct radix_tree *tree = NULL;
    struct rng rng = {.seed = 1};
    const struct radix_options options = {PAGE, VALUES, VALUES, DOMAINS, 5};
    if (radix_tree_create(&tree, &options) != STATUS_OK)
        return 1;
    for (uint32_t i = 0; i < DOMAINS; i++) {
        fill(&rng);
        insert_path(tree, open_domain(tree, i), VALUES / DOMAINS);
    }
    int64_t begin = now_us();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        fill(&rng);
        insert_path(tree, open_domain(tree, i % 4), PAGES);
    }
    print("insert, give a value, make idle; one evicted for each", now_us() - begin,
          (int64_t)ROUNDS * PAGES, "us a page");

    radix_domain domains[64];
    radix_node nodes[PAGES];
    radix_node partial;
    uint32_t partial_symbols;
    /* each repeats the first half; the last one inserted has all pages */
    for (uint32_t i = 64; i-- > 0;) {
        domains[i] = open_domain(tree, i);
        insert_path(tree, domains[i], i == 0 ? PAGES : PAGES / 2);
    }
    for (uint32_t count = 1; count <= 64; count *= 8) {
        begin = now_us();
        for (uint32_t i = 0; i < ROUNDS; i++)
            if (radix_tree_match(tree, domains, count, symbols, PAGES * PAGE, nodes, &partial,
                                 &partial_symbols) != PAGES)
                abort();
        char what[64];
        snprintf(what, sizeof what, "match %d pages in %u domains", PAGES, count);
        print(what, now_us() - begin, ROUNDS, "us");
    }
    radix_tree_destroy(tree);
    return 0;
}
