#include "config/base/rng.h"
#include "radix/radix_tree.h"
#include "tests/unit/base_kit.h"

enum { PAGE = 2 };

static struct radix_tree *fresh(uint32_t values_max, uint32_t domains_max)
{
    struct radix_tree *tree = NULL;
    const struct radix_options options = {PAGE, values_max, values_max, domains_max, 11};
    assert_int_equal(radix_tree_create(&tree, &options), STATUS_OK);
    return tree;
}

static radix_domain weighted(struct radix_tree *tree, uint32_t id, uint32_t weight)
{
    uint8_t bytes[16] = {0};
    memcpy(bytes, &id, sizeof id);
    return radix_tree_open_domain(tree, bytes, weight);
}

/* A page of its own with a value, idle. */
static radix_node put(struct radix_tree *tree, radix_domain domain, uint32_t symbol)
{
    const uint32_t symbols[PAGE] = {symbol, 0};
    radix_node node = radix_tree_insert(tree, domain, RADIX_NONE, symbols, PAGE);
    assert_int_not_equal(node, RADIX_NONE);
    radix_tree_set(tree, node, RADIX_DEVICE, symbol);
    radix_evict_idle(tree, node);
    return node;
}

/* Shares are of memory: few nodes of many units have more of it than some nodes of one. */
static void test_shares_count_units(void **state)
{
    (void)state;
    enum { FEW = RADIX_EVICT_FLOOR + 1, MANY = 2 * FEW, UNITS = 6 };
    struct radix_tree *tree = fresh(FEW + MANY, 2);
    radix_domain few = weighted(tree, 1, 1);
    radix_domain many = weighted(tree, 2, 1);
    radix_node heavy = RADIX_NONE;
    for (uint32_t i = 0; i < MANY; i++)
        put(tree, many, i);
    for (uint32_t i = 0; i < FEW; i++)
        heavy = put(tree, few, MANY + i);
    assert_int_equal(radix_tree_domain_of(tree, radix_evict_next(tree, RADIX_DEVICE)), many);
    radix_tree_weigh(tree, heavy, UNITS); /* 5 nodes and 10 units; the others are older */
    assert_int_equal(radix_tree_domain_of(tree, radix_evict_next(tree, RADIX_DEVICE)), many);
    radix_tree_weigh(tree, heavy, UNITS + 1);
    assert_int_equal(radix_tree_units(tree, heavy), UNITS + 1);
    assert_int_equal(radix_tree_domain_of(tree, radix_evict_next(tree, RADIX_DEVICE)), few);
    (void)weighted(tree, 1, 2); /* twice the share */
    assert_int_equal(radix_tree_domain_of(tree, radix_evict_next(tree, RADIX_DEVICE)), many);
    (void)weighted(tree, 1, 1);
    assert_true(radix_check(tree));
    radix_tree_set(tree, heavy, RADIX_HOST, 99); /* another copy, whose units nobody has told */
    assert_int_equal(radix_tree_units(tree, heavy), 1);
    assert_int_equal(radix_tree_domain_of(tree, radix_evict_next(tree, RADIX_DEVICE)), many);
    assert_true(radix_check(tree));
    radix_tree_destroy(tree);
}

/* Domain of the next to go, which goes. */
static radix_domain evict(struct radix_tree *tree)
{
    radix_node node = radix_evict_next(tree, RADIX_DEVICE);
    assert_int_not_equal(node, RADIX_NONE);
    radix_domain domain = radix_tree_domain_of(tree, node);
    radix_tree_clear(tree, node);
    return domain;
}

/* With one domain it is the leaf that was released first, then its parent, and so on. */
static void test_one_domain_goes_leaf_first(void **state)
{
    (void)state;
    enum { PATHS = 5, PAGES = 6 };
    struct radix_tree *tree = fresh(PATHS * PAGES, 1);
    radix_domain a = weighted(tree, 1, 1);
    radix_node nodes[PATHS][PAGES];
    uint32_t symbols[PAGES * PAGE] = {0};
    for (uint32_t path = 0; path < PATHS; path++) {
        symbols[0] = path;
        for (uint32_t page = 0; page < PAGES; page++) {
            radix_node node = radix_tree_insert(tree, a, RADIX_NONE, symbols, (page + 1) * PAGE);
            radix_tree_set(tree, node, RADIX_DEVICE, path * PAGES + page);
            nodes[path][page] = node;
        }
        for (uint32_t page = PAGES; page-- > 0;)
            radix_evict_idle(tree, nodes[path][page]);
    }
    for (uint32_t page = PAGES; page-- > 0;) /* path 0 is used again */
        radix_evict_busy(tree, nodes[0][page]);
    assert_int_equal(radix_evict_idle_count(tree, RADIX_DEVICE), (PATHS - 1) * PAGES);
    for (uint32_t page = PAGES; page-- > 0;)
        radix_evict_idle(tree, nodes[0][page]);
    for (uint32_t path = 1; path <= PATHS; path++) {
        for (uint32_t page = PAGES; page-- > 0;) {
            radix_node next = radix_evict_next(tree, RADIX_DEVICE);
            assert_int_equal(next, nodes[path % PATHS][page]);
            radix_tree_clear(tree, next);
            assert_int_equal(radix_tree_count(tree, RADIX_GHOST), 0);
        }
    }
    assert_int_equal(radix_evict_next(tree, RADIX_DEVICE), RADIX_NONE);
    assert_true(radix_check(tree));
    radix_tree_destroy(tree);
}

/* Whatever comes, a domain within its share loses nothing while one above it has idle pages: shares
 * of a full cache by weight, of the domains that have pages, and a floor for the small. */
static void test_floods_stay_within_their_share(void **state)
{
    (void)state;
    enum { PAGES = 120, DOMAINS = 6, STEPS = 3000 };
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct rng rng = {.seed = seed};
        struct radix_tree *tree = fresh(PAGES, DOMAINS);
        uint32_t weights[DOMAINS];
        uint32_t symbol = 0;
        radix_domain domains[DOMAINS];
        for (uint32_t i = 0; i < DOMAINS; i++) {
            weights[i] = 1 + (uint32_t)rng_below(&rng, 5);
            domains[i] = weighted(tree, i, weights[i]);
            put(tree, domains[i], symbol++);
        }
        for (int step = 0; step < STEPS; step++) {
            if (radix_tree_count(tree, RADIX_DEVICE) == PAGES) {
                uint32_t before[DOMAINS];
                uint32_t weight = 0;
                for (uint32_t i = 0; i < DOMAINS; i++) {
                    before[i] = radix_tree_resident(tree, domains[i], RADIX_DEVICE);
                    weight += before[i] > 0 ? weights[i] : 0;
                }
                radix_domain gave = evict(tree);
                for (uint32_t i = 0; i < DOMAINS; i++) {
                    if (domains[i] != gave)
                        continue;
                    if (before[i] * weight < PAGES * weights[i] || before[i] <= RADIX_EVICT_FLOOR)
                        fail_msg("seed %u step %d: domain %u gave one of %u", (unsigned)seed, step,
                                 i, before[i]);
                }
            }
            /* Domain 0 floods, others come now and then. */
            uint64_t who = rng_below(&rng, 4) > 0 ? 0 : rng_below(&rng, DOMAINS);
            put(tree, domains[who], symbol++);
        }
        assert_true(radix_check(tree));
        radix_tree_destroy(tree);
    }
}

static void test_floor(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(64, 4);
    radix_domain small = weighted(tree, 1, 1);
    radix_domain heavy = weighted(tree, 2, 1000);
    radix_domain other = weighted(tree, 3, 1);
    uint32_t symbol = 0;
    for (int i = 0; i < RADIX_EVICT_FLOOR; i++)
        put(tree, small, symbol++);
    for (int i = 0; i < 8; i++)
        put(tree, heavy, symbol++);
    put(tree, other, symbol++);
    /* The heavy one is far below its share by weight, but the others are within the floor. */
    for (int i = 0; i < 8 - RADIX_EVICT_FLOOR; i++)
        assert_int_equal(evict(tree), heavy);
    /* Now all are: least recently idle first, whoever's. */
    for (int i = 0; i < RADIX_EVICT_FLOOR; i++)
        assert_int_equal(evict(tree), small);
    for (int i = 0; i < RADIX_EVICT_FLOOR; i++)
        assert_int_equal(evict(tree), heavy);
    assert_int_equal(evict(tree), other);
    assert_true(radix_check(tree));
    radix_tree_destroy(tree);
}

/* Pages that run count for their domain; what cannot go is not offered. */
static void test_busy_pages_count(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(64, 4);
    radix_domain a = weighted(tree, 1, 1);
    radix_domain b = weighted(tree, 2, 1);
    uint32_t symbol = 0;
    for (int i = 0; i < 10; i++)
        radix_evict_busy(tree, put(tree, a, symbol++));
    radix_node last = put(tree, a, symbol++);
    for (int i = 0; i < 8; i++)
        put(tree, b, symbol++);
    assert_int_equal(radix_evict_next(tree, RADIX_DEVICE), last);
    radix_evict_busy(tree, last);
    radix_evict_busy(tree, last); /* twice is once */
    for (int i = 0; i < 8; i++)
        assert_int_equal(evict(tree), b);
    assert_int_equal(radix_evict_next(tree, RADIX_DEVICE), RADIX_NONE);
    assert_true(radix_check(tree));
    radix_tree_destroy(tree);
}

/* A heavier weight is a larger share at once. */
static void test_weights_change(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(64, 4);
    radix_domain a = weighted(tree, 1, 1);
    radix_domain b = weighted(tree, 2, 1);
    uint32_t symbol = 0;
    for (int i = 0; i < 12; i++)
        put(tree, a, symbol++);
    for (int i = 0; i < 10; i++)
        put(tree, b, symbol++);
    assert_int_equal(evict(tree), a);
    assert_int_equal(weighted(tree, 1, 2), a);
    assert_true(radix_check(tree));
    for (int i = 0; i < 4; i++) /* 11 of weight 2 allow 5.5 of weight 1 */
        assert_int_equal(evict(tree), b);
    assert_int_equal(evict(tree), b);
    assert_int_equal(evict(tree), a);
    radix_tree_destroy(tree);
}

/* Tiers are apart: moving a page leaves the one list, busy until it is said to be idle. */
static void test_tiers(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(64, 2);
    radix_domain a = weighted(tree, 1, 1);
    radix_node first = put(tree, a, 1);
    radix_node second = put(tree, a, 2);
    radix_tree_set(tree, first, RADIX_HOST, 70);
    assert_int_equal(radix_tree_value(tree, first), 70);
    assert_int_equal(radix_tree_tier(tree, first), RADIX_HOST);
    assert_int_equal(radix_evict_next(tree, RADIX_DEVICE), second);
    assert_int_equal(radix_evict_next(tree, RADIX_HOST), RADIX_NONE);
    radix_evict_idle(tree, first);
    assert_int_equal(radix_evict_next(tree, RADIX_HOST), first);
    assert_int_equal(radix_evict_idle_count(tree, RADIX_DEVICE), 1);
    assert_int_equal(radix_evict_idle_count(tree, RADIX_HOST), 1);
    assert_int_equal(radix_tree_resident(tree, a, RADIX_HOST), 1);
    radix_tree_set(tree, first, RADIX_DEVICE, 71);
    radix_evict_idle(tree, first);
    radix_evict_idle(tree, second); /* again: it was used, and goes to the end */
    assert_int_equal(radix_evict_next(tree, RADIX_DEVICE), first);
    assert_int_equal(radix_evict_next(tree, RADIX_HOST), RADIX_NONE);
    assert_true(radix_check(tree));
    radix_tree_destroy(tree);
}

/* 10,000 domains: every one is asked in turn, in the right order, and it stays a heap. */
static void test_many_domains(void **state)
{
    (void)state;
    enum { DOMAINS = 10000, EACH_MAX = 8 };
    struct rng rng = {.seed = 5};
    struct radix_tree *tree = fresh(DOMAINS * EACH_MAX, DOMAINS);
    uint32_t symbol = 0;
    for (uint32_t i = 0; i < DOMAINS; i++) {
        radix_domain domain = weighted(tree, i, 1);
        uint64_t pages = 1 + rng_below(&rng, EACH_MAX);
        for (uint64_t k = 0; k < pages; k++)
            put(tree, domain, symbol++);
    }
    assert_true(radix_check(tree));
    uint32_t largest = EACH_MAX;
    uint32_t evictions = 0;
    uint32_t last = 0;
    while (radix_evict_idle_count(tree, RADIX_DEVICE) > 0) {
        radix_node node = radix_evict_next(tree, RADIX_DEVICE);
        uint32_t count = radix_tree_resident(tree, radix_tree_domain_of(tree, node), RADIX_DEVICE);
        if (largest > RADIX_EVICT_FLOOR) { /* never more than the one before had */
            assert_true(count <= largest);
            largest = count;
        } else {
            assert_true(evictions == 0 || radix_tree_value(tree, node) > last);
        }
        if (largest <= RADIX_EVICT_FLOOR) {
            last = radix_tree_value(tree, node);
            evictions++;
        }
        radix_tree_clear(tree, node);
    }
    assert_int_equal(radix_tree_count(tree, RADIX_DEVICE), 0);
    assert_true(radix_check(tree));
    radix_tree_destroy(tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_count_units),
        cmocka_unit_test(test_one_domain_goes_leaf_first),
        cmocka_unit_test(test_floods_stay_within_their_share),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_busy_pages_count),
        cmocka_unit_test(test_weights_change),
        cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_many_domains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
