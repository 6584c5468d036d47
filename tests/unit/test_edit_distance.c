/* edit_distance: known distances, both directions, folding. */
#include "config/base/edit_distance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void test_known_distances(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *wanted;
        size_t distance;
    } rows[] = {
        {"", "", 0},       {"tenant", "tenant", 0},  {"tenant", "tenat", 1}, {"tenant", "", 6},
        {"", "key", 3},    {"kitten", "sitting", 3}, {"list", "lits", 2},    {"key", "monkey", 3},
        {"abc", "xyz", 3}, {"flaw", "lawn", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(edit_distance(rows[i].name, slice_of(rows[i].wanted), NULL),
                         rows[i].distance);
        assert_int_equal(edit_distance(rows[i].wanted, slice_of(rows[i].name), NULL),
                         rows[i].distance);
    }
}

static void test_longest_name(void **state)
{
    (void)state;
    char name[EDIT_DISTANCE_NAME_BYTES];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    char wanted[1000];
    memset(wanted, 'a', sizeof wanted);
    assert_int_equal(edit_distance(name, (struct slice){wanted, sizeof wanted}, NULL),
                     sizeof wanted - (sizeof name - 1));
}

static char fold_upper(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static void test_folding(void **state)
{
    (void)state;
    assert_int_equal(edit_distance("data_dir", SLICE("DATA_DIR"), NULL), 7);
    assert_int_equal(edit_distance("data_dir", SLICE("DATA_DIR"), fold_upper), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_distances),
        cmocka_unit_test(test_longest_name),
        cmocka_unit_test(test_folding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
