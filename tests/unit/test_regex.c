#include "engine/grammar/regex.h"

#include "config/base/limits_grammar.h"
#include "config/base/rng.h"
#include "engine/grammar/grammar_fuel.h"
#include "tests/kit/rounds.h"
#include "tests/unit/base_kit.h"

static struct regex_pool *new_pool(struct grammar_fuel *fuel)
{
    struct regex_pool *pool;
    assert_int_equal(regex_pool_new(fuel, &pool), STATUS_OK);
    return pool;
}

static regex_node_id set_of(struct regex_pool *pool, const char *bytes)
{
    struct byte_set set = {{0}};
    for (; *bytes != '\0'; bytes++)
        byte_set_add(&set, (uint8_t)*bytes);
    return regex_bytes(pool, &set);
}

static regex_node_id text_of(struct regex_pool *pool, const char *text)
{
    return regex_text(pool, slice_of(text));
}

static bool is_match(struct regex_pool *pool, regex_node_id node, const char *text)
{
    return regex_matches(pool, node, slice_of(text));
}

/* --- a stupid matcher: for a start, the set of ends as bits --- */

enum { TEXT_BYTES = 8, TERMS = 64 };

enum kind { SET, CAT, OR, AND, NOT, REP, MOD, KINDS };

struct term {
    enum kind kind;
    uint32_t a;
    uint32_t b;
    uint32_t min;
    uint32_t max;
    char bytes[8];
};

struct terms {
    struct term at[TERMS];
    uint32_t count;
};

static uint32_t ends(const struct terms *terms, uint32_t at, struct slice text, uint32_t start)
{
    const struct term *term = &terms->at[at];
    uint32_t found = 0, round, from;
    uint32_t all = ((2u << text.length) - 1) & ~((1u << start) - 1);
    uint64_t value = 0;
    switch (term->kind) {
    case SET:
        return start < text.length && strchr(term->bytes, text.bytes[start]) != NULL ? 2u << start
                                                                                     : 0;
    case CAT:
        for (round = ends(terms, term->a, text, start); round != 0; round &= round - 1)
            found |= ends(terms, term->b, text, (uint32_t)__builtin_ctz(round));
        return found;
    case OR:
        return ends(terms, term->a, text, start) | ends(terms, term->b, text, start);
    case AND:
        return ends(terms, term->a, text, start) & ends(terms, term->b, text, start);
    case NOT:
        return all & ~ends(terms, term->a, text, start);
    case REP:
        round = 1u << start;
        found = term->min == 0 ? round : 0;
        for (uint32_t i = 1; i <= term->max && i <= 2 * TEXT_BYTES; i++) {
            uint32_t next = 0;
            for (; round != 0; round &= round - 1)
                next |= ends(terms, term->a, text, (uint32_t)__builtin_ctz(round));
            round = next;
            found |= i >= term->min ? round : 0;
        }
        return found;
    case MOD:
        for (from = start;; from++) {
            found |= value % term->min == term->max ? 1u << from : 0;
            if (from == text.length || text.bytes[from] < '0' || text.bytes[from] > '9')
                return found;
            value = value * 10 + (uint64_t)(text.bytes[from] - '0');
        }
    case KINDS:
        break;
    }
    return 0;
}

static uint32_t make_term(struct rng *rng, struct terms *terms, uint32_t depth)
{
    static const char *const sets[] = {"a", "b", "ab", "c", "bc1", "012", "1", "abc"};
    uint32_t at = terms->count++;
    struct term *term = &terms->at[at];
    bool is_leaf = depth == 0 || terms->count > TERMS - 8;
    term->kind = is_leaf ? SET : (enum kind)rng_below(rng, KINDS);
    snprintf(term->bytes, sizeof term->bytes, "%s", sets[rng_below(rng, 8)]);
    term->min = (uint32_t)rng_below(rng, 3);
    term->max = term->min + (uint32_t)rng_below(rng, 4);
    if (rng_below(rng, 4) == 0)
        term->max = REGEX_UNBOUNDED;
    if (term->kind == MOD) {
        term->min = 1 + (uint32_t)rng_below(rng, 7);
        term->max = (uint32_t)rng_below(rng, term->min);
    }
    if (term->kind != SET && term->kind != MOD)
        term->a = make_term(rng, terms, depth - 1);
    if (term->kind == CAT || term->kind == OR || term->kind == AND)
        terms->at[at].b = make_term(rng, terms, depth - 1);
    return at;
}

static regex_node_id build(struct regex_pool *pool, const struct terms *terms, uint32_t at)
{
    const struct term *term = &terms->at[at];
    switch (term->kind) {
    case SET:
        return set_of(pool, term->bytes);
    case CAT:
        return regex_cat(pool, build(pool, terms, term->a), build(pool, terms, term->b));
    case OR:
        return regex_or(pool, build(pool, terms, term->a), build(pool, terms, term->b));
    case AND:
        return regex_and(pool, build(pool, terms, term->a), build(pool, terms, term->b));
    case NOT:
        return regex_not(pool, build(pool, terms, term->a));
    case REP:
        return regex_repeat(pool, build(pool, terms, term->a), term->min, term->max);
    case MOD:
        return regex_mod(pool, term->min, term->max);
    case KINDS:
        break;
    }
    return REGEX_NONE;
}

static void test_random(void **state)
{
    (void)state;
    static const char letters[] = "aabbc012x";
    uint64_t matches = 0, empty = 0, endless = 0;
    uint32_t count = rounds(3000, 100000);
    for (uint32_t round = 0; round < count; round++) {
        struct rng rng = {round, 0};
        struct grammar_fuel fuel;
        grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, NULL);
        struct regex_pool *pool = new_pool(&fuel);
        struct terms terms = {.count = 0};
        uint32_t root = make_term(&rng, &terms, 1 + (uint32_t)rng_below(&rng, 4));
        regex_node_id node = build(pool, &terms, root);
        bool is_empty = regex_is_empty_language(pool, node);
        if (regex_pool_status(pool) == STATUS_LIMIT) { /* a search without an end */
            endless++;
            regex_pool_free(pool);
            continue;
        }
        empty += is_empty;
        for (uint32_t i = 0; i < 24; i++) {
            char text[TEXT_BYTES];
            size_t length = rng_below(&rng, TEXT_BYTES + 1);
            for (size_t j = 0; j < length; j++)
                text[j] = letters[rng_below(&rng, sizeof letters - 1)];
            struct slice slice = {text, length};
            bool wanted = (ends(&terms, root, slice, 0) >> length & 1) != 0;
            if (regex_matches(pool, node, slice) != wanted || (wanted && is_empty))
                fail_msg("round %u: \"%.*s\" should %smatch", round, (int)length, text,
                         wanted ? "" : "not ");
            matches += wanted;
        }
        assert_int_equal(regex_pool_status(pool), STATUS_OK);
        regex_pool_free(pool);
    }
    printf("%u regexes, %u of them empty, %u of %u texts match\n", count, (uint32_t)empty,
           (uint32_t)matches, 24 * count);
    assert_true(empty > 0);
    assert_true(endless * 1000 <= count);
    assert_true(matches > count);
}

/* --- normal forms --- */

static void test_laws(void **state)
{
    (void)state;
    struct regex_pool *pool = new_pool(NULL);
    regex_node_id a = set_of(pool, "a"), b = set_of(pool, "b"), ab = text_of(pool, "ab");
    assert_int_equal(regex_or(pool, a, b), set_of(pool, "ab"));
    assert_int_equal(regex_and(pool, a, b), REGEX_NONE);
    assert_int_equal(regex_or(pool, ab, REGEX_NONE), ab);
    assert_int_equal(regex_or(pool, ab, REGEX_ALL), REGEX_ALL);
    assert_int_equal(regex_or(pool, ab, regex_not(pool, ab)), REGEX_ALL);
    assert_int_equal(regex_and(pool, ab, regex_not(pool, ab)), REGEX_NONE);
    assert_int_equal(regex_not(pool, regex_not(pool, ab)), ab);
    assert_int_equal(regex_cat(pool, REGEX_NONE, ab), REGEX_NONE);
    assert_int_equal(regex_cat(pool, ab, REGEX_EMPTY), ab);
    assert_int_equal(regex_or(pool, regex_or(pool, ab, REGEX_EMPTY), ab),
                     regex_or(pool, REGEX_EMPTY, ab));
    assert_int_equal(regex_cat(pool, regex_cat(pool, ab, ab), a),
                     regex_cat(pool, ab, regex_cat(pool, ab, a)));
    regex_node_id many = regex_repeat(pool, ab, 0, REGEX_UNBOUNDED);
    assert_int_equal(regex_repeat(pool, many, 2, 7), many);
    assert_int_equal(regex_repeat(pool, regex_repeat(pool, ab, 1, 999), 1, 999),
                     regex_repeat(pool, ab, 1, 998001));
    assert_int_not_equal(regex_repeat(pool, regex_repeat(pool, ab, 2, 2), 0, 3),
                         regex_repeat(pool, ab, 0, 6));
    assert_int_equal(regex_cat(pool, regex_repeat(pool, a, 1, 3), regex_repeat(pool, a, 2, 5)),
                     regex_repeat(pool, a, 3, 8));
    assert_int_equal(regex_or(pool, regex_cat(pool, regex_repeat(pool, a, 1, 3), b),
                              regex_cat(pool, regex_repeat(pool, a, 2, 5), b)),
                     regex_cat(pool, regex_repeat(pool, a, 1, 5), b));
    assert_int_equal(regex_repeat(pool, ab, 3, 2), REGEX_NONE);
    assert_int_equal(regex_pool_status(pool), STATUS_OK);
    regex_pool_free(pool);
}

/* Counts are not expanded: a repetition takes one node, a step at most a few. */
static void test_counts_are_lazy(void **state)
{
    (void)state;
    struct regex_pool *pool = new_pool(NULL);
    size_t before = regex_pool_bytes(pool);
    regex_node_id node = regex_repeat(pool, text_of(pool, "ab"), 1000, 60000);
    assert_true(regex_pool_bytes(pool) < before + 4096);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_false(regex_is_nullable(pool, node));
        node = regex_derive(pool, regex_derive(pool, node, 'a'), 'b');
    }
    assert_true(regex_is_nullable(pool, node));
    assert_int_equal(regex_derive(pool, node, 'b'), REGEX_NONE);
    regex_pool_free(pool);
}

static void test_remainders(void **state)
{
    (void)state;
    struct regex_pool *pool = new_pool(NULL);
    regex_node_id sevens = regex_mod(pool, 7, 0), large = regex_mod(pool, 4000000007u, 5);
    for (uint32_t i = 0; i < 2000; i++) {
        char text[16];
        snprintf(text, sizeof text, "%u", i);
        assert_int_equal(is_match(pool, sevens, text), i % 7 == 0);
    }
    assert_true(is_match(pool, large, "4000000012"));
    assert_true(is_match(pool, large, "8000000019"));
    assert_false(is_match(pool, large, "4000000013"));
    assert_true(is_match(pool, regex_mod(pool, 1, 0), "123"));
    assert_false(is_match(pool, regex_mod(pool, 1, 0), "12a"));
    /* No number of two digits is a multiple of 101 but 0. */
    struct byte_set digits = {{0}};
    byte_set_add_range(&digits, '1', '9');
    regex_node_id two = regex_repeat(pool, regex_bytes(pool, &digits), 2, 2);
    assert_true(regex_is_empty_language(pool, regex_and(pool, two, regex_mod(pool, 101, 0))));
    assert_false(regex_is_empty_language(pool, regex_and(pool, two, regex_mod(pool, 97, 0))));
    regex_pool_free(pool);
}

static void test_cut_bytes(void **state)
{
    (void)state;
    struct regex_pool *pool = new_pool(NULL);
    struct byte_set missing = {{0}};
    byte_set_add(&missing, 'b');
    regex_pool_cut(pool, &missing);
    assert_int_equal(text_of(pool, "abc"), REGEX_NONE);
    assert_int_equal(set_of(pool, "ab"), set_of(pool, "a"));
    /* What is left of the contrary needs the byte that is missing. */
    regex_node_id some = regex_repeat(pool, set_of(pool, "ab"), 1, 1);
    assert_true(regex_is_empty_language(pool, regex_and(pool, some, regex_not(pool, some))));
    uint8_t class_of[256], first[256];
    regex_node_id roots[] = {set_of(pool, "ac"), text_of(pool, "a"), regex_mod(pool, 3, 0)};
    uint32_t classes = regex_pool_classes(pool, roots, 3, class_of, first);
    assert_int_equal(classes, 1 + 3 + 10); /* b; a, c, the others; ten digits */
    assert_int_equal(class_of['b'], 0);
    assert_int_equal(first[0], 'b');
    for (uint32_t byte = 0; byte < 256; byte++) {
        assert_true(class_of[byte] < classes);
        assert_int_equal(class_of[byte] == 0, byte == 'b');
        assert_int_equal(class_of[first[class_of[byte]]], class_of[byte]);
    }
    assert_int_not_equal(class_of['a'], class_of['c']);
    assert_int_equal(class_of['x'], class_of[0xff]);
    regex_pool_free(pool);
}

/* --- bounds --- */

static void test_fuel(void **state)
{
    (void)state;
    atomic_bool cancel = false;
    struct grammar_fuel fuel;
    grammar_fuel_init(&fuel, 10000, &cancel);
    struct regex_pool *pool = new_pool(&fuel);
    regex_node_id ten = regex_repeat(pool, set_of(pool, "ab"), 10, 10);
    regex_node_id node = regex_cat(pool, regex_repeat(pool, set_of(pool, "ab"), 0, 40000), ten);
    assert_int_equal(regex_pool_status(pool), STATUS_OK);
    /* Whether both can match at once shows only after all 40,000 counts. */
    regex_node_id never = regex_and(pool, regex_cat(pool, node, text_of(pool, "c")),
                                    regex_cat(pool, node, text_of(pool, "d")));
    assert_false(regex_is_empty_language(pool, never));
    assert_int_equal(regex_pool_status(pool), STATUS_LIMIT);
    assert_int_equal(fuel.left, 0);
    assert_int_equal(regex_or(pool, ten, node), REGEX_NONE);
    regex_pool_free(pool);

    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, &cancel);
    pool = new_pool(&fuel);
    atomic_store(&cancel, true);
    uint32_t steps = 0;
    while (regex_pool_status(pool) == STATUS_OK && steps < 2 * LIMIT_COMPILE_LOOK)
        (void)regex_repeat(pool, set_of(pool, "a"), 2, 3 + steps++);
    assert_int_equal(regex_pool_status(pool), STATUS_CANCELLED);
    assert_true(steps <= LIMIT_COMPILE_LOOK);
    regex_pool_free(pool);
}

static void test_too_many_nodes(void **state)
{
    (void)state;
    struct regex_pool *pool = new_pool(NULL);
    regex_node_id a = set_of(pool, "a");
    for (uint32_t i = 0; i <= LIMIT_GRAMMAR_NODES && regex_pool_status(pool) == STATUS_OK; i++)
        (void)regex_repeat(pool, a, 2, 3 + i);
    assert_int_equal(regex_pool_status(pool), STATUS_LIMIT);
    regex_pool_free(pool);

    pool = new_pool(NULL);
    regex_node_id deep = text_of(pool, "ab");
    for (uint32_t i = 0; i <= LIMIT_GRAMMAR_NESTING; i++)
        deep = regex_repeat(pool, regex_or(pool, deep, text_of(pool, "cd")), 2, 3);
    assert_int_equal(regex_pool_status(pool), STATUS_LIMIT);
    regex_pool_free(pool);
}

/* The search with a bound says nothing where the whole search finds that nothing matches. */
static void test_bounded_search(void **state)
{
    (void)state;
    struct regex_pool *pool = new_pool(NULL);
    regex_node_id node = regex_repeat(pool, set_of(pool, "ab"), 100, 100);
    regex_node_id never = regex_and(pool, regex_cat(pool, node, text_of(pool, "c")),
                                    regex_cat(pool, node, text_of(pool, "d")));
    assert_false(regex_is_seen_empty(pool, never, 50));
    assert_true(regex_is_seen_empty(pool, never, 1000));
    assert_true(regex_is_empty_language(pool, never));
    assert_int_equal(regex_pool_status(pool), STATUS_OK);
    regex_pool_free(pool);
}

/* Whichever allocation fails, the pool says NO_MEMORY and can be freed. */
static void test_no_memory(void **state)
{
    (void)state;
    enum status status = STATUS_NO_MEMORY;
    uint32_t failures = 0;
    for (int n = 1; status != STATUS_OK; n++) {
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        struct regex_pool *pool;
        status = regex_pool_new(NULL, &pool);
        if (status == STATUS_OK) {
            regex_node_id node = regex_repeat(pool, text_of(pool, "abcab"), 0, 9);
            node = regex_or(pool, node, regex_not(pool, set_of(pool, "xyz")));
            node = regex_or(pool, node, regex_repeat(pool, text_of(pool, "abcab"), 2, 12));
            for (uint32_t i = 0; i < 100; i++)
                node = regex_or(pool, node, regex_repeat(pool, set_of(pool, "q"), i, 2 * i));
            (void)regex_is_empty_language(pool, regex_and(pool, node, text_of(pool, "ab")));
            status = regex_pool_status(pool);
        }
        mem_hook_set(NULL, NULL);
        regex_pool_free(pool);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        failures += status != STATUS_OK;
    }
    assert_true(failures > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),          cmocka_unit_test(test_laws),
        cmocka_unit_test(test_counts_are_lazy), cmocka_unit_test(test_remainders),
        cmocka_unit_test(test_cut_bytes),       cmocka_unit_test(test_fuel),
        cmocka_unit_test(test_too_many_nodes),  cmocka_unit_test(test_bounded_search),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
