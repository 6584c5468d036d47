/* edge_usage_form: query strings right and wrong, pages, whose words are whose. */
#include "gateway/edge/pages/edge_usage_form.h"

#include "tests/unit/edge_text_kit.h"

enum { DAY = 86400 };
static const int64_t NOW = 1700050000; /* 2023-11-15 12:06:40 UTC */
static const int64_t MIDNIGHT = 1700006400;

static struct ledger_usage_filter filter;

static struct edge_usage_form right_of(enum edge_usage_kind kind, const char *query)
{
    struct edge_usage_form form;
    filter = (struct ledger_usage_filter){0};
    if (edge_usage_form_read(kind, slice_of(query), NOW, &form,
                             kind == EDGE_USAGE_OWN ? NULL : &filter) != STATUS_OK)
        fail_msg("%s: %s", query, status_note()->message);
    return form;
}

static void wrong_of(enum edge_usage_kind kind, const char *query, enum status status,
                     const char *param)
{
    struct edge_usage_form form;
    filter = (struct ledger_usage_filter){0};
    enum status got = edge_usage_form_read(kind, slice_of(query), NOW, &form,
                                           kind == EDGE_USAGE_OWN ? NULL : &filter);
    if (got != status || strcmp(status_note()->param, param) != 0)
        fail_msg("%s: %s, %s", query, status_name(got), status_note()->param);
}

static struct edge_usage_form right(const char *query)
{
    return right_of(EDGE_USAGE_OWN, query);
}

static void wrong(const char *query, enum status status, const char *param)
{
    wrong_of(EDGE_USAGE_OWN, query, status, param);
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

static void test_filled_query(void **state)
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
}

static void test_admins_words(void **state)
{
    (void)state;
    struct edge_usage_form form =
        right_of(EDGE_USAGE_ALL,
                 "start_time=0&group_by=tenant,class&tenant_id=tnt_1,tnt_2&key_id=key_a%2Ckey_b"
                 "&model=org%2Fm%20l,a+b%2Bc&class=batch,realtime&format=csv");
    assert_int_equal(form.group_by, LEDGER_USAGE_TENANT | LEDGER_USAGE_CLASS);
    assert_true(form.is_csv);
    assert_int_equal(filter.tenants.count, 2);
    assert_string_equal(filter.tenants.words[1], "tnt_2");
    assert_int_equal(filter.keys.count, 2);
    assert_string_equal(filter.keys.words[1], "key_b");
    assert_int_equal(filter.models.count, 2);
    assert_string_equal(filter.models.words[0], "org/m l");
    assert_string_equal(filter.models.words[1], "a b+c");
    assert_int_equal(filter.classes.count, 2);
    static const char *const lists[] = {"tenant_id=",
                                        "tenant_id=a,",
                                        "tenant_id=a%20b",
                                        "tenant_id=%zz",
                                        "tenant_id=a%0",
                                        "key_id=a%00",
                                        "key_id=a/b",
                                        "model=%0a",
                                        "model=a,,b",
                                        "class=urgent",
                                        "class=",
                                        "format=xml",
                                        "tenant_id=a&tenant_id=b"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char query[96];
        char param[16];
        snprintf(query, sizeof query, "start_time=0&%s", lists[i]);
        snprintf(param, sizeof param, "%.*s", (int)strcspn(lists[i], "="), lists[i]);
        wrong_of(EDGE_USAGE_ALL, query, STATUS_INVALID, param);
    }
    wrong_of(EDGE_USAGE_ALL, "start_time=0&model=0,1,2,3,4,5,6,7,8,9,a,b,c,d,e,f,g",
             STATUS_OUT_OF_RANGE, "model");
    wrong_of(EDGE_USAGE_ALL, "start_time=0&project_ids=a", STATUS_UNSUPPORTED, "query");
    wrong_of(EDGE_USAGE_ALL, "start_time=0&tenant_id[]=a", STATUS_UNSUPPORTED, "query");
    wrong_of(EDGE_USAGE_ALL, "start_time=0&group_by=project_id", STATUS_INVALID, "group_by");
    wrong("start_time=0&format=csv", STATUS_UNSUPPORTED, "query");
}

/* Lists as the official clients write them, and as curl users do. */
static void test_openais_words(void **state)
{
    (void)state;
    struct edge_usage_form form = right_of(
        EDGE_USAGE_ORGANIZATION, "start_time=0&project_ids[]=tnt_1&project_ids%5B%5D=tnt_2"
                                 "&project_ids=tnt_3,tnt_4&group_by[]=project_id&group_by=model"
                                 "&group_by=service_tier,api_key_id&models=m&batch=true");
    assert_int_equal(form.group_by, LEDGER_USAGE_TENANT | LEDGER_USAGE_KEY | LEDGER_USAGE_MODEL |
                                        LEDGER_USAGE_CLASS);
    assert_int_equal(filter.tenants.count, 4);
    assert_string_equal(filter.tenants.words[3], "tnt_4");
    assert_int_equal(filter.classes.count, 1);
    assert_string_equal(filter.classes.words[0], "batch");
    right_of(EDGE_USAGE_ORGANIZATION, "start_time=0&batch=false");
    assert_int_equal(filter.classes.count, 2);
    form = right_of(EDGE_USAGE_COSTS, "start_time=0&limit=180&group_by[]=project_id");
    assert_int_equal(form.buckets, 180);
    assert_int_equal(right_of(EDGE_USAGE_COSTS, "start_time=0&bucket_width=1d").buckets, 7);
    wrong_of(EDGE_USAGE_COSTS, "start_time=0&bucket_width=1h", STATUS_INVALID, "bucket_width");
    wrong_of(EDGE_USAGE_COSTS, "start_time=0&limit=181", STATUS_OUT_OF_RANGE, "limit");
    wrong_of(EDGE_USAGE_COSTS, "start_time=0&group_by=line_item", STATUS_INVALID, "group_by");
    wrong_of(EDGE_USAGE_ORGANIZATION, "start_time=0&group_by=user_id", STATUS_INVALID, "group_by");
    wrong_of(EDGE_USAGE_ORGANIZATION, "start_time=0&group_by=batch", STATUS_INVALID, "group_by");
    wrong_of(EDGE_USAGE_ORGANIZATION, "start_time=0&batch=1", STATUS_INVALID, "batch");
    wrong_of(EDGE_USAGE_ORGANIZATION, "start_time[]=0", STATUS_UNSUPPORTED, "query");
    wrong_of(EDGE_USAGE_ORGANIZATION, "start_time=0&[]=0", STATUS_UNSUPPORTED, "query");
    wrong_of(EDGE_USAGE_ORGANIZATION, "start_time=0&user_ids=u", STATUS_UNSUPPORTED, "query");
    wrong_of(EDGE_USAGE_ORGANIZATION, "start_time=0&start_time=0", STATUS_INVALID, "start_time");
}

static void test_requests_words(void **state)
{
    (void)state;
    struct edge_usage_form form = right_of(EDGE_USAGE_REQUESTS, "");
    assert_int_equal(form.start_s, 0);
    assert_true(form.end_s > NOW + 1); /* rows of the future too */
    assert_int_equal(form.buckets, 100);
    assert_int_equal(form.after, 0);
    form = right_of(EDGE_USAGE_REQUESTS,
                    "start_time=1700000001&end_time=1700000003&after=row_281474976710657"
                    "&order=desc&limit=1000&tenant_id=tnt_1");
    assert_int_equal(form.start_s, 1700000001);
    assert_int_equal(form.end_s, 1700000003);
    assert_int_equal(form.buckets, 1000);
    assert_true(form.is_descending);
    assert_true(form.after == INT64_C(281474976710657));
    static const char *const marks[] = {"",      "row_", "row_0",
                                        "row_x", "5",    "row_9999999999999999999"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        char query[64];
        snprintf(query, sizeof query, "after=%s", marks[i]);
        wrong_of(EDGE_USAGE_REQUESTS, query, STATUS_INVALID, "after");
    }
    wrong_of(EDGE_USAGE_REQUESTS, "limit=1001", STATUS_OUT_OF_RANGE, "limit");
    wrong_of(EDGE_USAGE_REQUESTS, "order=up", STATUS_INVALID, "order");
    wrong_of(EDGE_USAGE_REQUESTS, "group_by=key", STATUS_UNSUPPORTED, "query");
    wrong_of(EDGE_USAGE_REQUESTS, "bucket_width=1d", STATUS_UNSUPPORTED, "query");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),         cmocka_unit_test(test_limits_by_width),
        cmocka_unit_test(test_groups),         cmocka_unit_test(test_wrong_queries),
        cmocka_unit_test(test_pages),          cmocka_unit_test(test_filled_query),
        cmocka_unit_test(test_admins_words),   cmocka_unit_test(test_openais_words),
        cmocka_unit_test(test_requests_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
