#include "gateway/admin/admin_query.h"

#include "tests/unit/edge_text_kit.h"

static void test_query(void **state)
{
    (void)state;
    struct admin_query query;
    assert_int_equal(admin_query_read((struct slice){0}, ADMIN_QUERY_LIST, &query), STATUS_OK);
    assert_int_equal(query.limit, ADMIN_QUERY_LIMIT_DEFAULT);
    assert_string_equal(query.after, "");
    assert_false(query.is_descending);
    assert_int_equal(
        admin_query_read(SLICE("limit=100&after=tnt_aZ9&order=desc"), ADMIN_QUERY_LIST, &query),
        STATUS_OK);
    assert_int_equal(query.limit, ADMIN_QUERY_LIMIT_MAX);
    assert_string_equal(query.after, "tnt_aZ9");
    assert_true(query.is_descending);
    assert_int_equal(admin_query_read(SLICE("after=&&order=asc&"), ADMIN_QUERY_LIST, &query),
                     STATUS_OK);
    assert_string_equal(query.after, "");
    static const struct {
        const char *text;
        enum status status;
        const char *param;
    } wrong[] = {
        {"limit=0", STATUS_OUT_OF_RANGE, "limit"},
        {"limit=101", STATUS_OUT_OF_RANGE, "limit"},
        {"limit=", STATUS_OUT_OF_RANGE, "limit"},
        {"limit=99999999999999999999999999", STATUS_OUT_OF_RANGE, "limit"},
        {"limit=-1", STATUS_INVALID, "limit"},
        {"limit=1x", STATUS_INVALID, "limit"},
        {"after=a%20b", STATUS_INVALID, "after"},
        {"after=0123456789012345678901234567890123456789", STATUS_INVALID, "after"},
        {"order=up", STATUS_INVALID, "order"},
        {"dry_run=true", STATUS_UNSUPPORTED, "dry_run"},
        {"limit=1&limit=2", STATUS_UNSUPPORTED, "limit"},
        {"order=asc&order=asc", STATUS_UNSUPPORTED, "order"},
        {"colour=red", STATUS_UNSUPPORTED, "colour"},
        {"=1", STATUS_UNSUPPORTED, ""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (admin_query_read(slice_of(wrong[i].text), ADMIN_QUERY_LIST, &query) != wrong[i].status)
            fail_msg("%s", wrong[i].text);
        assert_string_equal(status_note()->param, wrong[i].param);
    }
}

/* A name means something only where it is served; a long one is cut in the message. */
static void test_kinds(void **state)
{
    (void)state;
    struct admin_query query;
    assert_int_equal(admin_query_read(SLICE("dry_run=true"), ADMIN_QUERY_CHANGE, &query),
                     STATUS_OK);
    assert_true(query.is_dry_run);
    assert_int_equal(admin_query_read(SLICE("dry_run=false"), ADMIN_QUERY_CHANGE, &query),
                     STATUS_OK);
    assert_false(query.is_dry_run);
    static const char *const wrong[] = {"dry_run=1", "dry_run=", "dry_run", "dry_run=True"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(admin_query_read(slice_of(wrong[i]), ADMIN_QUERY_CHANGE, &query),
                         STATUS_INVALID);
        assert_string_equal(status_note()->param, "dry_run");
    }
    assert_int_equal(admin_query_read(SLICE("limit=1"), ADMIN_QUERY_CHANGE, &query),
                     STATUS_UNSUPPORTED);
    assert_string_equal(status_note()->param, "limit");
    assert_int_equal(admin_query_read(SLICE("limit=1"), 0, &query), STATUS_UNSUPPORTED);
    assert_int_equal(admin_query_read(SLICE("&&"), 0, &query), STATUS_OK);
    char name[512];
    memset(name, 'n', sizeof name);
    assert_int_equal(admin_query_read((struct slice){name, sizeof name}, 0, &query),
                     STATUS_UNSUPPORTED);
    assert_int_equal(strlen(status_note()->param), 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
