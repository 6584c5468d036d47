#include "gateway/admin/admin_list.h"

#include "config/base/rng.h"
#include "tests/unit/edge_text_kit.h"

static void test_query(void **state)
{
    (void)state;
    struct admin_list_query query;
    assert_int_equal(admin_list_query_read((struct slice){0}, &query), STATUS_OK);
    assert_int_equal(query.limit, ADMIN_LIST_DEFAULT);
    assert_string_equal(query.after, "");
    assert_false(query.is_descending);
    assert_int_equal(admin_list_query_read(SLICE("limit=100&after=tnt_aZ9&order=desc"), &query),
                     STATUS_OK);
    assert_int_equal(query.limit, ADMIN_LIST_MAX);
    assert_string_equal(query.after, "tnt_aZ9");
    assert_true(query.is_descending);
    assert_int_equal(admin_list_query_read(SLICE("after=&&order=asc&"), &query), STATUS_OK);
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
        {"dry_run=true", STATUS_UNSUPPORTED, "query"},
        {"=1", STATUS_UNSUPPORTED, "query"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (admin_list_query_read(slice_of(wrong[i].text), &query) != wrong[i].status)
            fail_msg("%s", wrong[i].text);
        assert_string_equal(status_note()->param, wrong[i].param);
    }
}

/* A directory of the numbers 1 … count, each its own id. */
static int rows_count;

static enum status number_page(void *context, const char *after, void *rows, size_t capacity,
                               size_t *count, bool *has_more)
{
    (void)context;
    int first = (after[0] != '\0' ? (int)strtol(after, NULL, 10) : 0) + 1;
    int *out = rows;
    *count = 0;
    while (*count < capacity && first <= rows_count)
        out[(*count)++] = first++;
    *has_more = first <= rows_count;
    return STATUS_OK;
}

static void number_id(const void *row, char out[LIMIT_ID_BYTES])
{
    snprintf(out, LIMIT_ID_BYTES, "%d", *(const int *)row);
}

static void number_render(const void *row, struct buffer *out)
{
    buffer_printf(out, "%d", *(const int *)row);
}

static const struct admin_list_source source = {sizeof(int), number_page, number_id, number_render,
                                                NULL};

static void check(size_t limit, const char *after, bool is_descending, const char *expected)
{
    struct admin_list_query query = {.limit = limit, .is_descending = is_descending};
    snprintf(query.after, sizeof query.after, "%s", after);
    struct buffer out;
    buffer_init(&out, 65536);
    assert_int_equal(admin_list_render(&source, &query, &out), STATUS_OK);
    edge_text_same(buffer_slice(&out), expected);
    buffer_deinit(&out);
}

static void test_shape(void **state)
{
    (void)state;
    rows_count = 0;
    check(
        2, "", false,
        "{\"object\":\"list\",\"data\":[],\"first_id\":null,\"last_id\":null,\"has_more\":false}");
    rows_count = 3;
    check(2, "", false,
          "{\"object\":\"list\",\"data\":[1,2],\"first_id\":\"1\",\"last_id\":\"2\","
          "\"has_more\":true}");
    check(2, "2", false,
          "{\"object\":\"list\",\"data\":[3],\"first_id\":\"3\",\"last_id\":\"3\","
          "\"has_more\":false}");
    check(2, "", true,
          "{\"object\":\"list\",\"data\":[3,2],\"first_id\":\"3\",\"last_id\":\"2\","
          "\"has_more\":true}");
    check(2, "2", true,
          "{\"object\":\"list\",\"data\":[1],\"first_id\":\"1\",\"last_id\":\"1\","
          "\"has_more\":false}");
    check(3, "", true,
          "{\"object\":\"list\",\"data\":[3,2,1],\"first_id\":\"3\",\"last_id\":\"1\","
          "\"has_more\":false}");
    struct admin_list_query query = {.limit = 2, .is_descending = true, .after = "77"};
    struct buffer out;
    buffer_init(&out, 65536);
    assert_int_equal(admin_list_render(&source, &query, &out), STATUS_NOT_FOUND);
    buffer_deinit(&out);
}

/* Every size and page size, from both ends: each row once, in order. */
static void test_pages_cover_everything(void **state)
{
    (void)state;
    struct rng rng = {.seed = 5};
    for (int round = 0; round < 200; round++) {
        rows_count = (int)rng_below(&rng, 350);
        size_t limit = 1 + (size_t)rng_below(&rng, ADMIN_LIST_MAX);
        bool is_descending = rng_below(&rng, 2) == 1;
        struct admin_list_query query = {.limit = limit, .is_descending = is_descending};
        int expected = is_descending ? rows_count : 1;
        bool has_more = true;
        while (has_more) {
            struct buffer out;
            buffer_init(&out, 65536);
            assert_int_equal(admin_list_render(&source, &query, &out), STATUS_OK);
            const char *at = strchr(out.bytes, '[') + 1;
            while (*at != ']') {
                char *end;
                assert_int_equal(strtol(at, &end, 10), expected);
                snprintf(query.after, sizeof query.after, "%d", expected);
                expected += is_descending ? -1 : 1;
                at = *end == ',' ? end + 1 : end;
            }
            has_more = strstr(out.bytes, "\"has_more\":true") != NULL;
            buffer_deinit(&out);
        }
        assert_int_equal(expected, is_descending ? 0 : rows_count + 1);
    }
}

static void test_without_memory(void **state)
{
    (void)state;
    struct edge_text_failing failing = {.fails_at = 0};
    struct admin_list_query query = {.limit = 2};
    struct buffer out;
    buffer_init(&out, 65536);
    mem_hook_set(edge_text_hook, &failing);
    assert_int_equal(admin_list_render(&source, &query, &out), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_pages_cover_everything),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
