#include "gateway/admin/admin_list.h"

#include "config/base/rng.h"
#include "tests/unit/edge_text_kit.h"

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

static void number_render(void *context, const void *row, struct buffer *out)
{
    (void)context;
    buffer_printf(out, "%d", *(const int *)row);
}

static const struct admin_list_source source = {sizeof(int), number_page, number_id, number_render,
                                                NULL};

static void check(size_t limit, const char *after, bool is_descending, const char *expected)
{
    struct admin_query query = {.limit = limit, .is_descending = is_descending};
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
    struct admin_query query = {.limit = 2, .is_descending = true, .after = "77"};
    struct buffer out;
    buffer_init(&out, 65536);
    assert_int_equal(admin_list_render(&source, &query, &out), STATUS_INVALID);
    buffer_deinit(&out);
}

/* Every size and page size, from both ends: each row once, in order. */
static void test_pages_cover_everything(void **state)
{
    (void)state;
    struct rng rng = {.seed = 5};
    for (int round = 0; round < 200; round++) {
        rows_count = (int)rng_below(&rng, 350);
        size_t limit = 1 + (size_t)rng_below(&rng, ADMIN_QUERY_LIMIT_MAX);
        bool is_descending = rng_below(&rng, 2) == 1;
        struct admin_query query = {.limit = limit, .is_descending = is_descending};
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
    struct admin_query query = {.limit = 2};
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
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_pages_cover_everything),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
