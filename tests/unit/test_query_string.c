#include "gateway/http/query_string.h"

#include "tests/unit/edge_text_kit.h"

static void test_pairs_in_order(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *value;
        bool has_equals;
    } pairs[] = {{"a", "1", true}, {"b", "", true},       {"c", "", false},
                 {"", "", false},  {"d", "x=y%20", true}, {"", "z", true}};
    struct slice rest = SLICE("a=1&b=&c&&d=x=y%20&=z&");
    struct query_string_pair pair;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_true(query_string_next(&rest, &pair));
        edge_text_same(pair.name, pairs[i].name);
        edge_text_same(pair.value, pairs[i].value);
        assert_non_null(pair.value.bytes);
        assert_int_equal(pair.has_equals, pairs[i].has_equals);
        assert_int_equal(query_string_is_empty(&pair), i == 3);
    }
    assert_false(query_string_next(&rest, &pair));
}

/* The pairs and the "&" between them are the whole query, whatever bytes it has. */
static void test_nothing_is_lost(void **state)
{
    (void)state;
    static const char letters[] = "&=a";
    char text[6];
    for (int number = 0; number < 729; number++) {
        for (int i = 0, left = number; i < 6; i++, left /= 3)
            text[i] = letters[left % 3];
        struct slice rest = {text, sizeof text};
        struct query_string_pair pair;
        size_t bytes = 0;
        while (query_string_next(&rest, &pair)) {
            assert_ptr_equal(pair.name.bytes, text + bytes);
            bytes += pair.name.length + pair.has_equals + pair.value.length;
            bytes += bytes < sizeof text;
        }
        assert_int_equal(bytes, sizeof text);
        assert_int_equal(rest.length, 0);
    }
}

static void test_no_query(void **state)
{
    (void)state;
    struct slice rest = {0};
    struct query_string_pair pair;
    assert_false(query_string_next(&rest, &pair));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_in_order),
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_no_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
