#include "config/base/limits.h"
#include "config/base/rng.h"
#include "radix/radix_store.h"
#include "radix/radix_tree.h" /* the room's own: hashes to make equal */
#include "tests/kit/radix_model.h"
#include "tests/unit/base_kit.h"

enum { PAGE = 4, SYMBOLS_MAX = 64 };

static struct radix_tree *fresh(uint32_t values_max, uint32_t ghosts_max, uint32_t domains_max)
{
    struct radix_tree *tree = NULL;
    const struct radix_options options = {PAGE, values_max, ghosts_max, domains_max, 7};
    assert_int_equal(radix_tree_create(&tree, &options), STATUS_OK);
    assert_true(radix_check(tree));
    return tree;
}

static radix_domain domain(struct radix_tree *tree, uint8_t id)
{
    const uint8_t bytes[16] = {id, 0xd0};
    return radix_tree_open_domain(tree, bytes, 1);
}

/* Letters are symbols. */
static uint32_t spell(const char *text, uint32_t symbols[SYMBOLS_MAX])
{
    uint32_t count = (uint32_t)strlen(text);
    assert_true(count <= SYMBOLS_MAX);
    for (uint32_t i = 0; i < count; i++)
        symbols[i] = (uint32_t)text[i];
    return count;
}

static radix_node insert(struct radix_tree *tree, radix_domain in, const char *text)
{
    uint32_t symbols[SYMBOLS_MAX];
    uint32_t count = spell(text, symbols);
    radix_node node = radix_tree_insert(tree, in, RADIX_NONE, symbols, count);
    assert_true(radix_check(tree));
    return node;
}

/* Inserts a path that had no value and gives it one. */
static radix_node put(struct radix_tree *tree, radix_domain in, const char *text, uint32_t value)
{
    radix_node node = insert(tree, in, text);
    assert_int_not_equal(node, RADIX_NONE);
    assert_int_equal(radix_tree_tier(tree, node), RADIX_GHOST);
    radix_tree_set(tree, node, RADIX_DEVICE, value);
    assert_true(radix_check(tree));
    return node;
}

/* What a match finds, as text: "7 8 +3:2" is the values 7 and 8, then two symbols of the rest 3. */
static const char *match(const struct radix_tree *tree, const radix_domain *domains,
                         uint32_t domain_count, const char *text)
{
    static char out[256];
    uint32_t symbols[SYMBOLS_MAX];
    radix_node nodes[SYMBOLS_MAX];
    radix_node rest;
    uint32_t rest_symbols;
    uint32_t count = spell(text, symbols);
    uint32_t pages =
        radix_tree_match(tree, domains, domain_count, symbols, count, nodes, &rest, &rest_symbols);
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < pages; i++)
        used += (size_t)snprintf(out + used, sizeof out - used, "%s%u", i > 0 ? " " : "",
                                 radix_tree_value(tree, nodes[i]));
    assert_int_equal(rest == RADIX_NONE, rest_symbols == 0);
    if (rest != RADIX_NONE)
        snprintf(out + used, sizeof out - used, "%s+%u:%u", pages > 0 ? " " : "",
                 radix_tree_value(tree, rest), rest_symbols);
    return out;
}

static void test_paths_are_found(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(16, 16, 2);
    radix_domain a = domain(tree, 1);
    assert_string_equal(match(tree, &a, 1, "abcdefgh"), "");
    radix_node abcd = put(tree, a, "abcd", 1);
    radix_node efgh = put(tree, a, "abcdefgh", 2);
    radix_node ij = put(tree, a, "abcdefghij", 3);
    assert_int_equal(radix_tree_symbol_count(tree, efgh), 4);
    assert_int_equal(radix_tree_symbol_count(tree, ij), 2);
    assert_int_equal(radix_tree_domain_of(tree, ij), a);
    assert_string_equal(match(tree, &a, 1, "abcdefgh"), "1 2");
    assert_string_equal(match(tree, &a, 1, "abcdefghijk"), "1 2 +3:2");
    assert_string_equal(match(tree, &a, 1, "abcdefghix"), "1 2 +3:1");
    assert_string_equal(match(tree, &a, 1, "abcdefghx"), "1 2");
    /* A part of a whole page is a rest too, and less than a page asks for no more than it has. */
    assert_string_equal(match(tree, &a, 1, "abcdefgx"), "1 +2:3");
    assert_string_equal(match(tree, &a, 1, "abcdef"), "1 +2:2");
    assert_string_equal(match(tree, &a, 1, "abx"), "+1:2");
    assert_string_equal(match(tree, &a, 1, ""), "");
    /* The same path again is the same node. */
    assert_int_equal(insert(tree, a, "abcdefgh"), efgh);
    assert_int_equal(radix_tree_value(tree, efgh), 2);
    /* One page below a node is the same as the whole path. */
    uint32_t symbols[SYMBOLS_MAX];
    uint32_t count = spell("efgh", symbols);
    assert_int_equal(radix_tree_insert(tree, a, abcd, symbols, count), efgh);
    assert_int_equal(radix_tree_count(tree, RADIX_DEVICE), 3);
    assert_int_equal(radix_tree_count(tree, RADIX_GHOST), 0);
    radix_tree_destroy(tree);
}

static void test_the_longest_rest_wins(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(16, 16, 3);
    radix_domain a = domain(tree, 1);
    radix_domain b = domain(tree, 2);
    const radix_domain both[] = {a, b};
    put(tree, a, "ab", 1);
    put(tree, a, "abc", 2);
    put(tree, b, "abcx", 3);
    assert_string_equal(match(tree, both, 2, "abcdefgh"), "+2:3"); /* the earlier domain */
    const radix_domain turned[] = {b, a};
    assert_string_equal(match(tree, turned, 2, "abcdefgh"), "+3:3");
    put(tree, a, "abce", 4);
    assert_string_equal(match(tree, both, 2, "abcdefgh"), "+4:3"); /* the later inserted */
    insert(tree, a, "abc");
    assert_string_equal(match(tree, both, 2, "abcdefgh"), "+2:3"); /* or inserted again */
    radix_tree_destroy(tree);
}

/* The look for rests is bounded: of many children the latest are seen. */
static void test_candidates_are_bounded(void **state)
{
    (void)state;
    enum { MANY = LIMIT_PARTIAL_CANDIDATES + 1 };
    struct radix_tree *tree = fresh(MANY, 1, 1);
    radix_domain a = domain(tree, 1);
    for (uint32_t i = 0; i < MANY; i++) {
        const uint32_t symbols[] = {5, i};
        radix_tree_set(tree, radix_tree_insert(tree, a, RADIX_NONE, symbols, 2), RADIX_DEVICE, i);
    }
    radix_node rest;
    uint32_t rest_symbols;
    const uint32_t first[] = {5, 0, 1};
    const uint32_t second[] = {5, 1, 1};
    assert_int_equal(radix_tree_match(tree, &a, 1, first, 3, NULL, &rest, &rest_symbols), 0);
    assert_int_equal(rest_symbols, 1);
    assert_int_equal(radix_tree_value(tree, rest), MANY - 1);
    assert_int_equal(radix_tree_match(tree, &a, 1, second, 3, NULL, &rest, &rest_symbols), 0);
    assert_int_equal(rest_symbols, 2);
    assert_int_equal(radix_tree_value(tree, rest), 1);
    radix_tree_destroy(tree);
}

/* Two domains with the same symbols: neither sees a value of the other, whole or rest. */
static void test_domains_never_cross(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(16, 16, 3);
    radix_domain a = domain(tree, 1);
    radix_domain b = domain(tree, 2);
    put(tree, a, "abcdefghij", 1);
    radix_node own = put(tree, b, "abcd", 2);
    assert_string_equal(match(tree, &b, 1, "abcdefghij"), "2");
    assert_string_equal(match(tree, &a, 1, "abcdefghij"), ""); /* it has ghosts there */
    put(tree, a, "abcd", 3);
    put(tree, a, "abcdefgh", 4);
    assert_string_equal(match(tree, &a, 1, "abcdefghij"), "3 4 +1:2");
    assert_string_equal(match(tree, &b, 1, "abcdefghij"), "2");
    radix_tree_clear(tree, own);
    assert_string_equal(match(tree, &b, 1, "abcdefghij"), "");
    assert_string_equal(match(tree, &b, 0, "abcdefghij"), "");
    const radix_domain none[] = {RADIX_NONE, b, RADIX_NONE};
    assert_string_equal(match(tree, none, 3, "abcdefghij"), "");
    radix_tree_destroy(tree);
}

/* A path through several domains: each repeats as ghosts what it reads of another. */
static void test_lockstep(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(16, 16, 3);
    radix_domain public = domain(tree, 1);
    radix_domain group = domain(tree, 2);
    radix_domain own = domain(tree, 3);
    const radix_domain all[] = {public, group, own};
    put(tree, public, "aaaa", 1);
    put(tree, public, "aaaabbbb", 2);
    put(tree, group, "aaaabbbbcccc", 3);
    put(tree, own, "aaaabbbbccccdddd", 4);
    put(tree, own, "aaaabbbbccccddddee", 5);
    assert_int_equal(radix_tree_resident(tree, own, RADIX_GHOST), 3);
    assert_string_equal(match(tree, all, 3, "aaaabbbbccccddddeee"), "1 2 3 4 +5:2");
    assert_string_equal(match(tree, all, 2, "aaaabbbbccccddddeee"), "1 2 3");
    const radix_domain outer[] = {public, own};
    assert_string_equal(match(tree, outer, 2, "aaaabbbbccccddddeee"), "1 2");
    assert_string_equal(match(tree, &own, 1, "aaaabbbbccccddddeee"), "");
    /* A rest behind the second page is not one behind the third. */
    assert_string_equal(match(tree, all, 3, "aaaabbbbee"), "1 2");
    assert_string_equal(match(tree, all, 3, "aaaabbbbcx"), "1 2 +3:1");
    /* The first domain that has a page gives it. */
    put(tree, own, "aaaa", 6);
    assert_string_equal(match(tree, all, 3, "aaaabbbb"), "1 2");
    assert_string_equal(match(tree, &own, 1, "aaaabbbb"), "6");
    radix_tree_destroy(tree);
}

static void test_ghosts_come_and_go(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(16, 16, 2);
    radix_domain a = domain(tree, 1);
    radix_node leaf = put(tree, a, "aaaabbbbcccc", 1);
    radix_node other = put(tree, a, "aaaadd", 2);
    assert_int_equal(radix_tree_count(tree, RADIX_GHOST), 2);
    radix_tree_clear(tree, leaf); /* bbbb goes with it, aaaa still leads to dd */
    assert_true(radix_check(tree));
    assert_int_equal(radix_tree_count(tree, RADIX_GHOST), 1);
    radix_node root = put(tree, a, "aaaa", 3);
    assert_int_equal(radix_tree_count(tree, RADIX_GHOST), 0);
    radix_tree_clear(tree, root); /* a value from the middle leaves a ghost */
    assert_int_equal(radix_tree_tier(tree, root), RADIX_GHOST);
    assert_string_equal(match(tree, &a, 1, "aaaadd"), "");
    radix_tree_clear(tree, root); /* which stays */
    assert_int_equal(radix_tree_count(tree, RADIX_GHOST), 1);
    radix_tree_clear(tree, other);
    assert_int_equal(radix_tree_count(tree, RADIX_GHOST), 0);
    assert_int_equal(radix_tree_count(tree, RADIX_DEVICE), 0);
    radix_tree_clear(tree, insert(tree, a, "aaaabbbbc")); /* made and not wanted */
    assert_int_equal(radix_tree_count(tree, RADIX_GHOST), 0);
    assert_true(radix_check(tree));
    radix_tree_destroy(tree);
}

/* Values have their places whatever ghosts there are, and no domain's ghosts shut others out. */
static void test_ghosts_leave_room(void **state)
{
    (void)state;
    enum { GHOSTS = 30, VALUES = 8 };
    struct radix_tree *tree = fresh(VALUES, GHOSTS, 4);
    radix_domain greedy = domain(tree, 1);
    uint32_t symbols[PAGE * 32] = {0};
    assert_int_equal(radix_tree_insert(tree, greedy, RADIX_NONE, symbols, PAGE * 17), RADIX_NONE);
    assert_int_equal(radix_tree_count(tree, RADIX_GHOST), 0); /* nothing of it stays */
    radix_node deep = radix_tree_insert(tree, greedy, RADIX_NONE, symbols, PAGE * 16);
    assert_int_not_equal(deep, RADIX_NONE); /* 15 ghosts, and as many are left */
    radix_tree_set(tree, deep, RADIX_DEVICE, 1);
    symbols[0] = 1;
    assert_int_equal(radix_tree_insert(tree, greedy, RADIX_NONE, symbols, PAGE * 2), RADIX_NONE);
    assert_int_equal(radix_tree_insert(tree, domain(tree, 2), RADIX_NONE, symbols, PAGE * 9),
                     RADIX_NONE);
    radix_node second = radix_tree_insert(tree, domain(tree, 2), RADIX_NONE, symbols, PAGE * 8);
    assert_int_not_equal(second, RADIX_NONE);
    radix_tree_set(tree, second, RADIX_DEVICE, 2);
    radix_node third = radix_tree_insert(tree, domain(tree, 3), RADIX_NONE, symbols, PAGE * 5);
    assert_int_not_equal(third, RADIX_NONE);
    radix_tree_set(tree, third, RADIX_HOST, 3);
    /* Whoever may have no ghost may still have values. */
    for (uint32_t i = 3; i < VALUES; i++) {
        symbols[0] = i;
        radix_node node = radix_tree_insert(tree, greedy, RADIX_NONE, symbols, PAGE);
        assert_int_not_equal(node, RADIX_NONE);
        radix_tree_set(tree, node, RADIX_DEVICE, i);
    }
    symbols[0] = 100;
    assert_int_equal(radix_tree_insert(tree, greedy, RADIX_NONE, symbols, PAGE), RADIX_NONE);
    assert_true(radix_check(tree));
    radix_tree_destroy(tree);
}

/* A table so small that most nodes share a chain: they are told apart in full. */
static void test_chains_are_compared_in_full(void **state)
{
    (void)state;
    enum { NODES = 64 };
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct radix_tree *tree = NULL;
        const struct radix_options options = {1, NODES, 1, 2, seed};
        assert_int_equal(radix_tree_create(&tree, &options), STATUS_OK);
        radix_domain a = domain(tree, 1);
        for (uint32_t i = 0; i < NODES; i++)
            radix_tree_set(tree, radix_tree_insert(tree, a, RADIX_NONE, &i, 1), RADIX_DEVICE, i);
        assert_true(radix_check(tree));
        for (uint32_t i = 0; i < 2 * NODES; i++) {
            radix_node node;
            radix_node rest;
            uint32_t rest_symbols;
            uint32_t pages = radix_tree_match(tree, &a, 1, &i, 1, &node, &rest, &rest_symbols);
            assert_int_equal(pages, i < NODES);
            assert_int_equal(rest, RADIX_NONE);
            if (pages == 1)
                assert_int_equal(radix_tree_value(tree, node), i);
        }
        radix_tree_destroy(tree);
    }
}

struct hashed {
    uint32_t hash;
    uint32_t number;
};

static int by_hash(const void *a, const void *b)
{
    const struct hashed *left = a;
    const struct hashed *right = b;
    return left->hash < right->hash ? -1 : left->hash > right->hash;
}

/* Two numbers of equal hash among many; false when there are none. */
static bool same_hash(struct hashed *all, size_t count, uint32_t pair[2])
{
    qsort(all, count, sizeof *all, by_hash);
    for (size_t i = 1; i < count; i++) {
        if (all[i].hash == all[i - 1].hash) {
            pair[0] = all[i - 1].number;
            pair[1] = all[i].number;
            return true;
        }
    }
    return false;
}

/* Pages whose whole hashes are equal: other symbols below one parent, the same below two. */
static void test_equal_hashes_are_compared_in_full(void **state)
{
    (void)state;
    enum { MANY = 200000 };
    struct radix_tree *tree = NULL;
    const struct radix_options options = {1, 8, 1, MANY, 3};
    assert_int_equal(radix_tree_create(&tree, &options), STATUS_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        uint8_t id[16] = {0};
        memcpy(id, &i, sizeof i);
        assert_int_equal(radix_tree_open_domain(tree, id, 1), i);
    }
    struct hashed *all = calloc(MANY, sizeof *all);
    assert_non_null(all);
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t half = radix_store_hash_symbols(tree, &i, 1);
        all[i] = (struct hashed){radix_store_hash(half, RADIX_ROOT | 0), i};
    }
    uint32_t symbols[2];
    assert_true(same_hash(all, MANY, symbols));
    for (uint32_t i = 0; i < 2; i++)
        radix_tree_set(tree, radix_tree_insert(tree, 0, RADIX_NONE, &symbols[i], 1), RADIX_DEVICE,
                       i);
    uint32_t pair[2];
    uint32_t symbol = 0;
    for (;; symbol++) {
        uint64_t half = radix_store_hash_symbols(tree, &symbol, 1);
        for (uint32_t i = 0; i < MANY; i++)
            all[i] = (struct hashed){radix_store_hash(half, RADIX_ROOT | i), i};
        if (same_hash(all, MANY, pair))
            break;
    }
    radix_tree_set(tree, radix_tree_insert(tree, pair[0], RADIX_NONE, &symbol, 1), RADIX_HOST, 2);
    const uint32_t other = symbol + 1; /* a tree without nodes is not looked into */
    radix_tree_set(tree, radix_tree_insert(tree, pair[1], RADIX_NONE, &other, 1), RADIX_HOST, 3);
    radix_node node;
    radix_node rest;
    uint32_t rest_symbols;
    for (uint32_t i = 0; i < 2; i++) {
        const radix_domain first = 0;
        assert_int_equal(
            radix_tree_match(tree, &first, 1, &symbols[i], 1, &node, &rest, &rest_symbols), 1);
        assert_int_equal(radix_tree_value(tree, node), i);
        assert_int_equal(
            radix_tree_match(tree, &pair[i], 1, &symbol, 1, &node, &rest, &rest_symbols), i == 0);
    }
    assert_true(radix_check(tree));
    free(all);
    radix_tree_destroy(tree);
}

struct gone {
    uint32_t values;
    uint32_t sum;
    uint32_t host;
};

static void count_gone(void *context, enum radix_tier tier, uint32_t value)
{
    struct gone *gone = context;
    gone->values++;
    gone->sum += value;
    gone->host += tier == RADIX_HOST;
}

static void test_a_domain_is_dropped(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(16, 16, 2);
    radix_domain a = domain(tree, 1);
    radix_domain b = domain(tree, 2);
    put(tree, b, "aaaabbbb", 100);
    radix_evict_idle(tree, put(tree, a, "aaaa", 1));
    put(tree, a, "aaaabbbb", 2); /* busy: somebody reads it and goes on */
    put(tree, a, "aaaabbbbccccdddd", 4);
    radix_node host = put(tree, a, "aaaax", 8);
    radix_tree_set(tree, host, RADIX_HOST, 16);
    radix_evict_idle(tree, host);
    struct gone gone = {0};
    radix_tree_drop_domain(tree, a, count_gone, &gone);
    assert_int_equal(gone.values, 4);
    assert_int_equal(gone.sum, 1 + 2 + 4 + 16);
    assert_int_equal(gone.host, 1);
    assert_true(radix_check(tree));
    assert_int_equal(radix_evict_idle_count(tree, RADIX_DEVICE), 0);
    assert_int_equal(radix_evict_idle_count(tree, RADIX_HOST), 0);
    assert_string_equal(match(tree, &a, 1, "aaaabbbb"), "");
    radix_tree_drop_domain(tree, a, count_gone, &gone); /* empty: nothing */
    assert_int_equal(gone.values, 4);
    const radix_domain both[] = {a, b};
    put(tree, b, "aaaa", 50);
    assert_string_equal(match(tree, both, 2, "aaaabbbbcccc"), "50 100");
    put(tree, a, "aaaa", 5); /* it may come again */
    assert_string_equal(match(tree, both, 2, "aaaabbbbcccc"), "5 100");
    radix_tree_destroy(tree);
}

static void test_domains_take_turns(void **state)
{
    (void)state;
    struct radix_tree *tree = fresh(16, 16, 2);
    const uint8_t id[16] = {9, 0xd0};
    assert_int_equal(radix_tree_find_domain(tree, id), RADIX_NONE);
    radix_domain a = domain(tree, 1);
    assert_int_equal(domain(tree, 1), a);
    radix_node kept = put(tree, a, "aaaa", 1);
    radix_domain b = domain(tree, 2);
    assert_int_not_equal(a, b);
    assert_int_equal(domain(tree, 3), b); /* the second never had a node */
    const uint8_t second[16] = {2, 0xd0};
    assert_int_equal(radix_tree_find_domain(tree, second), RADIX_NONE);
    put(tree, b, "aaaa", 2);
    assert_int_equal(domain(tree, 4), RADIX_NONE);
    assert_int_equal(domain(tree, 1), a); /* found all the same */
    radix_tree_clear(tree, kept);
    assert_int_equal(domain(tree, 4), a);
    assert_string_equal(match(tree, &a, 1, "aaaa"), "");
    assert_true(radix_check(tree));
    radix_tree_destroy(tree);
}

/* LeakSanitizer sees what is left. */
static void test_no_memory(void **state)
{
    (void)state;
    const struct radix_options options = {PAGE, 100, 100, 10, 1};
    int failures = 0;
    for (int n = 1;; n++) {
        struct radix_tree *tree = NULL;
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status = radix_tree_create(&tree, &options);
        mem_hook_set(NULL, NULL);
        if (status == STATUS_OK) {
            radix_tree_destroy(tree);
            break;
        }
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_null(tree);
        failures++;
    }
    assert_int_equal(failures, 8);
    radix_tree_destroy(NULL);
}

static uint32_t draw_random(void *context, uint32_t bound)
{
    return (uint32_t)rng_below(context, bound);
}

/* Small trees of every shape beside a list of paths. */
static void test_model(void **state)
{
    (void)state;
    enum { TREES = 2500, OPERATIONS = 480 };
    uint32_t total = 0;
    for (uint64_t seed = 0; seed < TREES; seed++) {
        struct rng rng = {.seed = seed};
        uint32_t done = 0;
        const char *wrong = radix_model_run(draw_random, &rng, OPERATIONS, &done);
        if (wrong != NULL)
            fail_msg("%s: seed %u, operation %u", wrong, (unsigned)seed, done);
        total += done;
    }
    assert_int_equal(total, TREES * OPERATIONS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_are_found),
        cmocka_unit_test(test_the_longest_rest_wins),
        cmocka_unit_test(test_candidates_are_bounded),
        cmocka_unit_test(test_domains_never_cross),
        cmocka_unit_test(test_lockstep),
        cmocka_unit_test(test_ghosts_come_and_go),
        cmocka_unit_test(test_ghosts_leave_room),
        cmocka_unit_test(test_chains_are_compared_in_full),
        cmocka_unit_test(test_equal_hashes_are_compared_in_full),
        cmocka_unit_test(test_a_domain_is_dropped),
        cmocka_unit_test(test_domains_take_turns),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
