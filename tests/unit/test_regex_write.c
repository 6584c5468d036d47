#include "config/base/rng.h"
#include "engine/grammar/regex.h"
#include "tests/kit/rounds.h"
#include "tests/unit/base_kit.h"

/* Bytes as in strings of JSON: a quote, a backslash and a line end are escapes. */
static void make_writing(struct regex_pool *pool, struct regex_writing *writing)
{
    *writing = (struct regex_writing){.plain = {{0}}};
    byte_set_add_range(&writing->plain, 0x20, 0xff);
    struct byte_set marks = {{0}};
    byte_set_add(&marks, '"');
    byte_set_add(&marks, '\\');
    writing->plain = byte_set_without(writing->plain, &marks);
    writing->other['"'] = regex_text(pool, SLICE("\\\""));
    writing->other['\\'] = regex_text(pool, SLICE("\\\\"));
    writing->other['\n'] = regex_text(pool, SLICE("\\n"));
}

static size_t escape(struct slice text, char *out)
{
    size_t length = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.bytes[i];
        if (c == '"' || c == '\\' || c == '\n')
            out[length++] = '\\';
        out[length++] = c == '\n' ? 'n' : c;
    }
    return length;
}

static regex_node_id make(struct regex_pool *pool, struct rng *rng, uint32_t depth)
{
    static const struct regex_range sets[] = {{'a', 'b'},  {'\n', '\n'},  {'"', '"'},
                                              {'\\', 'a'}, {0, 0x10ffff}, {'n', 'n'}};
    uint64_t way = depth == 0 ? 0 : rng_below(rng, 6);
    if (way == 0)
        return regex_chars(pool, &sets[rng_below(rng, 6)], 1);
    regex_node_id a = make(pool, rng, depth - 1);
    if (way == 1)
        return regex_not(pool, a);
    if (way == 2)
        return regex_repeat(pool, a, (uint32_t)rng_below(rng, 2), 2 + (uint32_t)rng_below(rng, 3));
    regex_node_id b = make(pool, rng, depth - 1);
    return way == 3   ? regex_or(pool, a, b)
           : way == 4 ? regex_and(pool, a, b)
                      : regex_cat(pool, a, b);
}

/* What matches a text matches its writing, and nothing else matches. */
static void test_random(void **state)
{
    (void)state;
    static const char letters[] = "ab\n\"\\n";
    struct regex_pool *pool;
    struct regex_writing writing;
    uint32_t matches = 0;
    for (uint32_t round = 0; round < rounds(1000, 50000); round++) {
        struct rng rng = {round, 0};
        assert_int_equal(regex_pool_new(NULL, &pool), STATUS_OK);
        make_writing(pool, &writing);
        regex_node_id node = make(pool, &rng, (uint32_t)rng_below(&rng, 5));
        regex_node_id written = regex_write(pool, &writing, node);
        for (uint32_t i = 0; i < 20; i++) {
            char text[6], out[12];
            struct slice slice = {text, rng_below(&rng, sizeof text + 1)};
            for (size_t j = 0; j < slice.length; j++)
                text[j] = letters[rng_below(&rng, sizeof letters - 1)];
            struct slice escaped = {out, escape(slice, out)};
            bool wanted = regex_matches(pool, node, slice);
            if (regex_matches(pool, written, escaped) != wanted)
                fail_msg("round %u: \"%.*s\"", round, (int)escaped.length, out);
            matches += wanted;
            /* A text with bytes that stand alone nowhere. */
            if (memchr(text, '\n', slice.length) != NULL)
                assert_false(regex_matches(pool, written, slice));
        }
        assert_int_equal(regex_pool_status(pool), STATUS_OK);
        regex_pool_free(pool);
    }
    printf("%u texts match\n", matches);
    assert_true(matches > 1000);
}

static void test_runs_are_kept(void **state)
{
    (void)state;
    struct regex_pool *pool;
    assert_int_equal(regex_pool_new(NULL, &pool), STATUS_OK);
    struct regex_writing writing;
    make_writing(pool, &writing);
    struct regex_range all = {0, 0x10ffff};
    regex_node_id node = regex_repeat(pool, regex_chars(pool, &all, 1), 0, 5);
    node = regex_cat(pool, regex_write(pool, &writing, node), regex_text(pool, SLICE("\"")));
    struct regex_run run = regex_run_of(pool, node);
    assert_int_equal(run.max, 5);
    assert_true(run.is_exact);
    uint32_t count;
    const struct regex_range *ranges = regex_chars_of(pool, run.chars, &count);
    const struct regex_range wanted[] = {
        {0x20, '!'}, {'#', '['}, {']', 0xd7ff}, {0xe000, 0x10ffff}};
    assert_int_equal(count, 4);
    assert_memory_equal(ranges, wanted, sizeof wanted);
    regex_pool_free(pool);
}

/* A long text and a deep nesting take no C stack. */
static void test_large(void **state)
{
    (void)state;
    struct regex_pool *pool;
    assert_int_equal(regex_pool_new(NULL, &pool), STATUS_OK);
    struct regex_writing writing;
    make_writing(pool, &writing);
    regex_node_id node = REGEX_EMPTY;
    for (uint32_t i = 0; i < 50000; i++)
        node = regex_cat(pool, regex_text(pool, SLICE("\"")),
                         regex_or(pool, regex_text(pool, SLICE("ab")), node));
    node = regex_write(pool, &writing, node);
    assert_int_equal(regex_pool_status(pool), STATUS_OK);
    assert_true(regex_matches(pool, node, SLICE("\\\"\\\"\\\"ab")));
    assert_false(regex_matches(pool, node, SLICE("\\\"\\\"\"ab")));
    regex_node_id number = regex_mod(pool, 7, 3);
    assert_int_equal(regex_write(pool, &writing, number), number);
    writing.plain = (struct byte_set){{0}};
    assert_int_equal(regex_write(pool, &writing, number), REGEX_NONE);
    assert_int_equal(regex_pool_status(pool), STATUS_LIMIT);
    regex_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_runs_are_kept),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
