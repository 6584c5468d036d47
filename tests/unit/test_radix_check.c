#include "radix/radix_store.h"
#include "radix/radix_tree.h" /* the room's own, so as to break it */
#include "tests/unit/base_kit.h"

static struct radix_tree *tree;
static radix_node root, middle, rest, host;
static radix_domain one, two;

static radix_node put(radix_domain domain, uint32_t first, uint32_t count, enum radix_tier tier)
{
    uint32_t symbols[8] = {first, 1, 2, 3, 4, 5, 6, 7};
    radix_node node = radix_tree_insert(tree, domain, RADIX_NONE, symbols, count);
    if (tier != RADIX_GHOST)
        radix_tree_set(tree, node, tier, first);
    return node;
}

/* Two domains: a path of a value, a ghost and a rest, idle and busy ones of both tiers. */
static int setup(void **state)
{
    (void)state;
    const struct radix_options options = {2, 8, 8, 4, 3};
    const uint8_t ids[2][16] = {{1}, {2}};
    if (radix_tree_create(&tree, &options) != STATUS_OK)
        return -1;
    one = radix_tree_open_domain(tree, ids[0], 1);
    two = radix_tree_open_domain(tree, ids[1], 2);
    root = put(one, 0, 2, RADIX_DEVICE);
    rest = put(one, 0, 5, RADIX_DEVICE);
    middle = tree->nodes[rest].parent;
    host = put(two, 0, 2, RADIX_HOST);
    radix_evict_idle(tree, put(two, 9, 2, RADIX_DEVICE));
    radix_evict_idle(tree, rest);
    radix_evict_idle(tree, root);
    radix_evict_idle(tree, host);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    radix_tree_destroy(tree);
    return 0;
}

/* That the check sees one number changed, and is content when it is put back. */
#define BREAKS(place, with)                                                                        \
    do {                                                                                           \
        const __typeof__(place) kept = (place);                                                    \
        assert_true(radix_check(tree));                                                            \
        (place) = (with);                                                                          \
        assert_false(radix_check(tree));                                                           \
        (place) = kept;                                                                            \
    } while (0)

static void test_nodes(void **state)
{
    (void)state;
    struct radix_record *nodes = tree->nodes;
    assert_int_equal(nodes[middle].tier, RADIX_GHOST);
    BREAKS(nodes[rest].parent, root);
    BREAKS(nodes[rest].parent, RADIX_ROOT | two);
    BREAKS(nodes[rest].parent, RADIX_NONE - RADIX_ROOT);
    BREAKS(nodes[rest].domain, two);
    BREAKS(nodes[rest].domain, 3); /* never opened */
    BREAKS(nodes[rest].domain, RADIX_NONE);
    BREAKS(nodes[rest].hash, nodes[rest].hash + 1);
    BREAKS(nodes[rest].symbol_count, 2);
    BREAKS(nodes[rest].symbol_count, 0);
    BREAKS(nodes[rest].tier, RADIX_GHOST);
    BREAKS(nodes[rest].tier, RADIX_HOST);
    BREAKS(nodes[rest].tier, RADIX_TIERS);
    BREAKS(nodes[middle].first_child, RADIX_NONE); /* a ghost that leads nowhere */
    BREAKS(nodes[middle].first_child, root);
    BREAKS(nodes[root].sibling_next, host);
    BREAKS(nodes[root].sibling_previous, middle);
    BREAKS(*radix_store_symbols(tree, rest), 77);
    BREAKS(tree->buckets[nodes[rest].hash & tree->bucket_mask], RADIX_NONE);
    assert_true(radix_check(tree));
}

static void test_lists(void **state)
{
    (void)state;
    struct radix_record *nodes = tree->nodes;
    struct radix_domain_record *domains = tree->domains;
    BREAKS(nodes[rest].idle_next, RADIX_NONE);
    BREAKS(nodes[root].idle_previous, RADIX_NONE);
    BREAKS(nodes[rest].idle_since, 0);
    BREAKS(nodes[rest].idle_since, nodes[root].idle_since + 1); /* out of order */
    BREAKS(nodes[host].idle_since, tree->clock + 1);
    BREAKS(nodes[middle].idle_since, 1); /* a ghost is never idle */
    BREAKS(domains[one].idle[RADIX_DEVICE].first, root);
    BREAKS(domains[one].idle[RADIX_DEVICE].last, rest);
    BREAKS(domains[one].idle[RADIX_DEVICE].position, RADIX_NONE);
    BREAKS(domains[one].idle[RADIX_HOST].position, 0);
    BREAKS(tree->heap_counts[RADIX_DEVICE], 1);
    BREAKS(tree->idle_counts[RADIX_HOST], 0);
    assert_int_equal(tree->heap_counts[RADIX_DEVICE], 2);
    radix_domain *heap = tree->heaps[RADIX_DEVICE]; /* both below the floor: the older first */
    assert_int_equal(heap[0], two);
    heap[0] = one;
    heap[1] = two;
    domains[one].idle[RADIX_DEVICE].position = 0;
    domains[two].idle[RADIX_DEVICE].position = 1;
    assert_false(radix_check(tree));
    heap[0] = two;
    heap[1] = one;
    domains[one].idle[RADIX_DEVICE].position = 1;
    domains[two].idle[RADIX_DEVICE].position = 0;
    assert_true(radix_check(tree));
}

static void test_counts_and_domains(void **state)
{
    (void)state;
    struct radix_domain_record *domains = tree->domains;
    BREAKS(tree->counts[RADIX_GHOST], 0);
    BREAKS(domains[one].counts[RADIX_DEVICE], 1);
    BREAKS(domains[one].first_child, RADIX_NONE);
    BREAKS(domains[two].id[0], 1);
    BREAKS(domains[two].weight, 0);
    BREAKS(domains[two].is_named, false);
    BREAKS(tree->free_first, RADIX_NONE);
    BREAKS(tree->empty_first, RADIX_NONE);
    BREAKS(tree->empty_first, one);
    BREAKS(tree->empty_last, one);
    BREAKS(tree->options.values_max, 3);
    assert_true(radix_check(tree));
}

/* A node between insert and set is the one ghost that may lead nowhere. */
static void test_fresh(void **state)
{
    (void)state;
    radix_node node = put(one, 5, 2, RADIX_GHOST);
    assert_int_equal(tree->fresh, node);
    BREAKS(tree->fresh, RADIX_NONE);
    radix_tree_clear(tree, node);
    assert_int_equal(tree->fresh, RADIX_NONE);
    assert_true(radix_check(tree));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counts_and_domains, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fresh, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
