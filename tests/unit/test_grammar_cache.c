/* grammar_cache: what is found, that domains see nothing of each other, bounds of a domain and of
 * all, and grammars that are in use when they go. */
#include "engine/grammar/grammar_cache.h"

#include "config/base/limits_grammar.h"
#include "tests/unit/grammar_kit.h"

static struct grammar_cache_domain domain_of(uint32_t number)
{
    struct grammar_cache_domain domain = {{0}};
    memcpy(domain.bytes, &number, sizeof number);
    return domain;
}

static struct grammar *make(const char *text)
{
    struct kit_grammar kit;
    struct grammar *grammar;
    kit_begin(&kit);
    grammar_symbol start = grammar_text(kit.builder, slice_of(text));
    assert_int_equal(kit_finish(&kit, start, &grammar), STATUS_OK);
    return grammar;
}

/* Keeps a grammar of its own under this source. */
static void keep(struct grammar_cache *cache, uint32_t domain, const char *source)
{
    struct grammar *grammar = make("x");
    grammar_cache_keep(cache, domain_of(domain), 1, 0, slice_of(source), grammar);
    grammar_drop(grammar);
}

static bool has(struct grammar_cache *cache, uint32_t domain, const char *source)
{
    struct grammar *grammar = grammar_cache_find(cache, domain_of(domain), 1, 0, slice_of(source));
    grammar_drop(grammar);
    return grammar != NULL;
}

static void test_what_is_kept_is_found_by_its_domain_alone(void **state)
{
    (void)state;
    struct grammar_cache *cache;
    assert_int_equal(grammar_cache_new(64 << 20, &cache), STATUS_OK);
    struct grammar *grammar = make("a");
    grammar_cache_keep(cache, domain_of(1), 1, 2, SLICE("source"), grammar);
    struct grammar *found = grammar_cache_find(cache, domain_of(1), 1, 2, SLICE("source"));
    assert_ptr_equal(found, grammar);
    grammar_drop(found);
    assert_null(grammar_cache_find(cache, domain_of(2), 1, 2, SLICE("source")));
    assert_null(grammar_cache_find(cache, domain_of(1), 2, 2, SLICE("source")));
    assert_null(grammar_cache_find(cache, domain_of(1), 1, 3, SLICE("source")));
    assert_null(grammar_cache_find(cache, domain_of(1), 1, 2, SLICE("sourc")));
    assert_null(grammar_cache_find(cache, domain_of(1), 1, 2, SLICE("sourcf")));
    assert_null(grammar_cache_find(cache, domain_of(1), 1, 2, SLICE("")));
    struct grammar_cache_counts counts;
    grammar_cache_count(cache, &counts);
    assert_int_equal(counts.hits, 1);
    assert_int_equal(counts.misses, 6);
    assert_int_equal(counts.grammars, 1);
    assert_int_equal(counts.domains, 1);
    assert_int_equal(counts.bytes >= grammar_bytes(grammar) + 6, 1);
    grammar_cache_free(cache);
    assert_true(grammar_bytes(grammar) > 0); /* it lives on */
    grammar_drop(grammar);
}

static void test_the_same_source_is_kept_once(void **state)
{
    (void)state;
    struct grammar_cache *cache;
    struct grammar_cache_counts counts;
    assert_int_equal(grammar_cache_new(64 << 20, &cache), STATUS_OK);
    keep(cache, 1, "s");
    keep(cache, 1, "s");
    keep(cache, 2, "s");
    grammar_cache_count(cache, &counts);
    assert_int_equal(counts.grammars, 2);
    assert_int_equal(counts.domains, 2);
    grammar_cache_free(cache);
}

/* A domain over its count loses its own least recently used grammar, and no other domain does. */
static void test_a_domain_pushes_out_its_own_alone(void **state)
{
    (void)state;
    struct grammar_cache *cache;
    struct grammar_cache_counts counts;
    char source[16];
    assert_int_equal(grammar_cache_new((size_t)256 << 20, &cache), STATUS_OK);
    keep(cache, 7, "of a neighbour");
    for (uint32_t i = 0; i < LIMIT_GRAMMAR_DOMAIN_COUNT + 3; i++) {
        snprintf(source, sizeof source, "%u", i);
        keep(cache, 1, source);
        assert_true(has(cache, 1, "0")); /* used, so it stays */
    }
    assert_true(has(cache, 7, "of a neighbour"));
    assert_false(has(cache, 1, "1"));
    assert_false(has(cache, 1, "3"));
    assert_true(has(cache, 1, "4"));
    grammar_cache_count(cache, &counts);
    assert_int_equal(counts.grammars, LIMIT_GRAMMAR_DOMAIN_COUNT + 1);
    assert_int_equal(counts.evicted, 3);
    grammar_cache_free(cache);
}

/* The domain with the most bytes pays when all are over the limit. */
static void test_the_largest_domain_pays_for_all(void **state)
{
    (void)state;
    struct grammar_cache *cache;
    struct grammar_cache_counts counts;
    char source[16];
    struct grammar *one = make("x");
    size_t bytes = grammar_bytes(one);
    grammar_drop(one);
    size_t limit = 12 * (bytes + 256);
    assert_int_equal(grammar_cache_new(limit, &cache), STATUS_OK);
    keep(cache, 1, "small");
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(source, sizeof source, "%u", i);
        keep(cache, 2 + i % 2, source);
        grammar_cache_count(cache, &counts);
        assert_true(counts.bytes <= limit);
    }
    assert_true(counts.evicted > 80);
    assert_true(has(cache, 1, "small"));
    assert_true(has(cache, 3, "99"));
    grammar_cache_free(cache);
}

static void test_a_cache_without_room_keeps_nothing(void **state)
{
    (void)state;
    struct grammar_cache *cache;
    struct grammar_cache_counts counts;
    assert_int_equal(grammar_cache_new(0, &cache), STATUS_OK);
    keep(cache, 1, "s");
    grammar_cache_count(cache, &counts);
    assert_int_equal(counts.grammars, 0);
    assert_false(has(cache, 1, "s"));
    grammar_cache_free(cache);
    grammar_cache_free(NULL);
}

static void test_a_grammar_in_use_survives_its_place(void **state)
{
    (void)state;
    struct grammar_cache *cache;
    char source[16];
    assert_int_equal(grammar_cache_new((size_t)256 << 20, &cache), STATUS_OK);
    keep(cache, 1, "first");
    struct grammar *held = grammar_cache_find(cache, domain_of(1), 1, 0, SLICE("first"));
    assert_non_null(held);
    for (uint32_t i = 0; i <= LIMIT_GRAMMAR_DOMAIN_COUNT; i++) {
        snprintf(source, sizeof source, "%u", i);
        keep(cache, 1, source);
    }
    assert_false(has(cache, 1, "first"));
    assert_int_equal(grammar_lexemes(held), 1);
    grammar_drop(held);
    grammar_cache_free(cache);
}

static void test_without_memory_nothing_is_kept(void **state)
{
    (void)state;
    struct grammar_cache *cache;
    struct grammar_cache_counts counts;
    struct grammar *grammar = make("x");
    assert_int_equal(grammar_cache_new(64 << 20, &cache), STATUS_OK);
    for (int at = 1; at <= 2; at++) {
        int left = at;
        mem_hook_set(kit_fail_at, &left);
        grammar_cache_keep(cache, domain_of(1), 1, 0, SLICE("s"), grammar);
        mem_hook_set(NULL, NULL);
        grammar_cache_count(cache, &counts);
        assert_int_equal(counts.grammars, 0);
        assert_int_equal(counts.domains, 0);
    }
    keep(cache, 1, "s");
    assert_true(has(cache, 1, "s"));
    grammar_drop(grammar);
    grammar_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_kept_is_found_by_its_domain_alone),
        cmocka_unit_test(test_the_same_source_is_kept_once),
        cmocka_unit_test(test_a_domain_pushes_out_its_own_alone),
        cmocka_unit_test(test_the_largest_domain_pays_for_all),
        cmocka_unit_test(test_a_cache_without_room_keeps_nothing),
        cmocka_unit_test(test_a_grammar_in_use_survives_its_place),
        cmocka_unit_test(test_without_memory_nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
