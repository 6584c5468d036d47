/* edge_usage_form: query strings right and wrong, pages, and the answer's bytes. */
#include "gateway/edge/edge_usage_form.h"

#include "tests/unit/edge_text_kit.h"

enum { DAY = 86400 };
static const int64_t NOW = 1700050000; /* 2023-11-15 12:06:40 UTC */
static const int64_t MIDNIGHT = 1700006400;

static struct edge_usage_form right(const char *query)
{
    struct edge_usage_form form;
    if (edge_usage_form_read(slice_of(query), NOW, &form) != STATUS_OK)
        fail_msg("%s: %s", query, status_note()->message);
    return form;
}

static void wrong(const char *query, enum status status, const char *param)
{
    struct edge_usage_form form;
    enum status got = edge_usage_form_read(slice_of(query), NOW, &form);
    if (got != status || strcmp(status_note()->param, param) != 0)
        fail_msg("%s: %s, %s", query, status_name(got), status_note()->param);
}

static void same(const struct edge_usage_form *form, int64_t start_s, int64_t end_s,
                 uint32_t buckets)
{
    assert_int_equal(form->start_s, start_s);
    assert_int_equal(form->end_s, end_s);
    assert_int_equal(form->buckets, buckets);
}

static void test_ranges(void **state)
{
    (void)state;
    struct edge_usage_form form = right("start_time=1700050000");
    same(&form, MIDNIGHT, MIDNIGHT + DAY, 1);
    assert_int_equal(form.width_s, DAY);
    assert_int_equal(form.group_by, 0);
    form = right("start_time=0");
    same(&form, 0, MIDNIGHT + DAY, 7);
    form = right("start_time=1700006400&end_time=1700006401&bucket_width=1h");
    same(&form, MIDNIGHT, MIDNIGHT + 3600, 1);
    form = right("start_time=1700006399&end_time=1700010000&bucket_width=1h");
    same(&form, MIDNIGHT - 3600, MIDNIGHT + 3600, 2); /* end_time is not in it any more */
    form = right("start_time=1700006399&end_time=1700010001&bucket_width=1h");
    same(&form, MIDNIGHT - 3600, MIDNIGHT + 7200, 3);
    form = right("&start_time=1700006400&&bucket_width=1m&end_time=1800000000&limit=1440&");
    assert_int_equal(form.buckets, 1440);
    form = right("start_time=253402300798&end_time=253402300799");
    assert_int_equal(form.buckets, 1);
    form = right("start_time=0&bucket_width=1m");
    assert_int_equal(form.buckets, 60);
    form = right("start_time=0&bucket_width=1h");
    assert_int_equal(form.buckets, 24);
}

static void test_limits_by_width(void **state)
{
    (void)state;
    assert_int_equal(right("start_time=0&limit=31").buckets, 31);
    wrong("start_time=0&limit=32", STATUS_OUT_OF_RANGE, "limit");
    assert_int_equal(right("start_time=0&bucket_width=1h&limit=168").buckets, 168);
    wrong("start_time=0&bucket_width=1h&limit=169", STATUS_OUT_OF_RANGE, "limit");
    assert_int_equal(right("start_time=0&bucket_width=1m&limit=1440").buckets, 1440);
    wrong("start_time=0&bucket_width=1m&limit=1441", STATUS_OUT_OF_RANGE, "limit");
    assert_int_equal(right("start_time=0&limit=1").buckets, 1);
    wrong("start_time=0&limit=0", STATUS_OUT_OF_RANGE, "limit");
    wrong("start_time=0&limit=-1", STATUS_INVALID, "limit");
    wrong("start_time=0&limit=", STATUS_INVALID, "limit");
    wrong("start_time=0&limit", STATUS_INVALID, "limit");
    wrong("start_time=0&limit=99999999999999999999999", STATUS_OUT_OF_RANGE, "limit");
}

static void test_groups(void **state)
{
    (void)state;
    assert_int_equal(right("start_time=0&group_by=key").group_by, LEDGER_USAGE_KEY);
    assert_int_equal(right("start_time=0&group_by=class,key,model").group_by,
                     LEDGER_USAGE_KEY | LEDGER_USAGE_MODEL | LEDGER_USAGE_CLASS);
    assert_int_equal(right("start_time=0&group_by=model%2Ckey%2cclass").group_by,
                     LEDGER_USAGE_KEY | LEDGER_USAGE_MODEL | LEDGER_USAGE_CLASS);
    const char *const lists[] = {"",      "keys", "key,",   ",key",      "key,,model", "key,key",
                                 "key%2", "Key",  "tenant", "key model", "%2C"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char query[64];
        snprintf(query, sizeof query, "start_time=0&group_by=%s", lists[i]);
        wrong(query, STATUS_INVALID, "group_by");
    }
}

static void test_wrong_queries(void **state)
{
    (void)state;
    wrong("", STATUS_INVALID, "start_time");
    wrong("end_time=5", STATUS_INVALID, "start_time");
    wrong("start_time=x", STATUS_INVALID, "start_time");
    wrong("start_time=1e9", STATUS_INVALID, "start_time");
    wrong("start_time=", STATUS_INVALID, "start_time");
    wrong("start_time=253402300800", STATUS_OUT_OF_RANGE, "start_time");
    wrong("start_time=9223372036854775808", STATUS_OUT_OF_RANGE, "start_time");
    wrong("start_time=1&start_time=2", STATUS_INVALID, "start_time");
    wrong("start_time=1&start_time", STATUS_INVALID, "start_time");
    wrong("start_time=5&end_time=5", STATUS_OUT_OF_RANGE, "end_time");
    wrong("start_time=5&end_time=4", STATUS_OUT_OF_RANGE, "end_time");
    wrong("start_time=1700050001", STATUS_OUT_OF_RANGE, "start_time"); /* of the future */
    wrong("start_time=0&bucket_width=1w", STATUS_INVALID, "bucket_width");
    wrong("start_time=0&bucket_width=", STATUS_INVALID, "bucket_width");
    wrong("start_time=0&tenant=tnt_1", STATUS_UNSUPPORTED, "query");
    wrong("start_time=0&Limit=1", STATUS_UNSUPPORTED, "query");
    wrong("=1", STATUS_UNSUPPORTED, "query");
}

static void test_pages(void **state)
{
    (void)state;
    struct edge_usage_form form = right("start_time=1699660800&page=page_1699747200&limit=2");
    same(&form, 1699747200, MIDNIGHT + DAY, 2);
    const char *const pages[] = {"",
                                 "1699747200",
                                 "page_",
                                 "page_x",
                                 "page_1699747201", /* no bucket's start */
                                 "page_1699574400", /* before the range */
                                 "page_1700092800", /* its end */
                                 "page_9999999999999999"};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        char query[96];
        snprintf(query, sizeof query, "start_time=1699660800&page=%s", pages[i]);
        wrong(query, STATUS_INVALID, "page");
    }
}

static void test_answer(void **state)
{
    (void)state;
    struct edge_usage_form form = right(
        "start_time=1700006400&end_time=1700020000&bucket_width=1h&group_by=key,model&limit=3");
    struct ledger_usage_query query = {0};
    edge_usage_form_fill(&form, &query);
    assert_int_equal(query.start_s, MIDNIGHT);
    assert_int_equal(query.buckets, 3);
    assert_int_equal(query.width_s, 3600);
    assert_int_equal(query.group_by, LEDGER_USAGE_KEY | LEDGER_USAGE_MODEL);
    struct ledger_usage_row rows[] = {{.start_s = MIDNIGHT + 3600,
                                       .key_id = "key_1",
                                       .model = "a\"b",
                                       .requests = 1,
                                       .prompt_tokens = 2,
                                       .cached_tokens = 3,
                                       .completion_tokens = 4},
                                      {.start_s = MIDNIGHT + 3600,
                                       .key_id = "key_2",
                                       .model = "m",
                                       .requests = INT64_MAX,
                                       .prompt_tokens = 6,
                                       .cached_tokens = 7,
                                       .completion_tokens = 8}};
    struct ledger_usage_page page = {rows, 2, MIDNIGHT + 2 * 3600};
    struct buffer out;
    buffer_init(&out, 65536);
    edge_usage_form_render(&form, &page, &out);
    edge_text_same(
        buffer_slice(&out),
        "{\"object\":\"page\",\"data\":["
        "{\"object\":\"bucket\",\"start_time\":1700006400,\"end_time\":1700010000,\"results\":[]},"
        "{\"object\":\"bucket\",\"start_time\":1700010000,\"end_time\":1700013600,\"results\":["
        "{\"object\":\"usage.result\",\"num_model_requests\":1,\"input_tokens\":2,"
        "\"input_cached_tokens\":3,\"output_tokens\":4,\"key_id\":\"key_1\",\"model\":\"a\\\"b\","
        "\"class\":null},"
        "{\"object\":\"usage.result\",\"num_model_requests\":9223372036854775807,"
        "\"input_tokens\":6,\"input_cached_tokens\":7,\"output_tokens\":8,\"key_id\":\"key_2\","
        "\"model\":\"m\",\"class\":null}]}],"
        "\"has_more\":true,\"next_page\":\"page_1700013600\"}");
    buffer_clear(&out);
    page = (struct ledger_usage_page){NULL, 0, form.end_s};
    form.start_s = form.end_s - 3600;
    edge_usage_form_render(&form, &page, &out);
    edge_text_same(
        buffer_slice(&out),
        "{\"object\":\"page\",\"data\":[{\"object\":\"bucket\",\"start_time\":1700017200,"
        "\"end_time\":1700020800,\"results\":[]}],\"has_more\":false,"
        "\"next_page\":null}");
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges), cmocka_unit_test(test_limits_by_width),
        cmocka_unit_test(test_groups), cmocka_unit_test(test_wrong_queries),
        cmocka_unit_test(test_pages),  cmocka_unit_test(test_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
