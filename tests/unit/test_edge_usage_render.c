/* edge_usage_render: the answers' bytes, in our shape, OpenAI's, and as CSV. */
#include "gateway/edge/pages/edge_usage_render.h"

#include "tests/unit/edge_text_kit.h"

static const int64_t MIDNIGHT = 1700006400;

static struct buffer out;

static int setup(void **state)
{
    (void)state;
    buffer_init(&out, 65536);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buffer_deinit(&out);
    return 0;
}

static struct ledger_usage_row rows[] = {{.start_s = MIDNIGHT + 3600,
                                          .tenant_id = "tnt_1",
                                          .key_id = "key_1",
                                          .model = "a\"b",
                                          .service_class = "realtime",
                                          .requests = 1,
                                          .prompt_tokens = 5,
                                          .cached_tokens = 3,
                                          .completion_tokens = 4,
                                          .cost_nano = 1234567890},
                                         {.start_s = MIDNIGHT + 3600,
                                          .tenant_id = "tnt_2",
                                          .key_id = "key_2",
                                          .model = "=m,1",
                                          .service_class = "batch",
                                          .requests = INT64_MAX,
                                          .prompt_tokens = 6,
                                          .cached_tokens = 0,
                                          .completion_tokens = 8,
                                          .cost_nano = INT64_MAX}};

static const char *render(struct edge_usage_form form, size_t count, int64_t end_s,
                          const char *currency)
{
    struct ledger_usage_page page = {rows, count, end_s};
    buffer_clear(&out);
    edge_usage_render(&form, &page, currency, &out);
    assert_int_equal(out.status, STATUS_OK);
    return out.bytes;
}

static struct edge_usage_form form_of(enum edge_usage_kind kind, uint32_t group_by)
{
    return (struct edge_usage_form){.kind = kind,
                                    .start_s = MIDNIGHT,
                                    .end_s = MIDNIGHT + 4 * 3600,
                                    .width_s = 3600,
                                    .buckets = 3,
                                    .group_by = group_by};
}

static void test_own(void **state)
{
    (void)state;
    render(form_of(EDGE_USAGE_OWN, LEDGER_USAGE_KEY | LEDGER_USAGE_MODEL), 2, MIDNIGHT + 7200,
           "usd");
    edge_text_same(
        buffer_slice(&out),
        "{\"object\":\"page\",\"data\":["
        "{\"object\":\"bucket\",\"start_time\":1700006400,\"end_time\":1700010000,\"results\":[]},"
        "{\"object\":\"bucket\",\"start_time\":1700010000,\"end_time\":1700013600,\"results\":["
        "{\"object\":\"usage.result\",\"num_model_requests\":1,\"input_tokens\":5,"
        "\"input_cached_tokens\":3,\"output_tokens\":4,\"cost_nano\":1234567890,"
        "\"currency\":\"usd\",\"key_id\":\"key_1\",\"model\":\"a\\\"b\",\"class\":null},"
        "{\"object\":\"usage.result\",\"num_model_requests\":9223372036854775807,"
        "\"input_tokens\":6,\"input_cached_tokens\":0,\"output_tokens\":8,"
        "\"cost_nano\":9223372036854775807,\"currency\":\"usd\",\"key_id\":\"key_2\","
        "\"model\":\"=m,1\",\"class\":null}]}],"
        "\"has_more\":true,\"next_page\":\"page_1700013600\"}");
    struct edge_usage_form form = form_of(EDGE_USAGE_OWN, 0);
    form.start_s = form.end_s - 3600;
    render(form, 0, form.end_s, "");
    edge_text_same(
        buffer_slice(&out),
        "{\"object\":\"page\",\"data\":[{\"object\":\"bucket\",\"start_time\":1700017200,"
        "\"end_time\":1700020800,\"results\":[]}],\"has_more\":false,"
        "\"next_page\":null}");
}

static void test_all(void **state)
{
    (void)state;
    const char *text = render(form_of(EDGE_USAGE_ALL, LEDGER_USAGE_TENANT | LEDGER_USAGE_CLASS), 1,
                              MIDNIGHT + 4 * 3600, "");
    edge_text_has(text, "\"cost_nano\":1234567890,\"currency\":null,\"tenant_id\":\"tnt_1\","
                        "\"key_id\":null,\"model\":null,\"class\":\"realtime\"}]}");
    edge_text_has(text, "\"has_more\":false,\"next_page\":null}");
}

static void test_organization(void **state)
{
    (void)state;
    const char *text =
        render(form_of(EDGE_USAGE_ORGANIZATION, LEDGER_USAGE_TENANT | LEDGER_USAGE_CLASS), 2,
               MIDNIGHT + 7200, "usd");
    edge_text_has(text, "{\"object\":\"organization.usage.completions.result\",\"input_tokens\":5,"
                        "\"input_cached_tokens\":3,\"input_cache_write_tokens\":0,"
                        "\"input_uncached_tokens\":2,"
                        "\"output_tokens\":4,\"input_audio_tokens\":0,\"output_audio_tokens\":0,"
                        "\"num_model_requests\":1,\"project_id\":\"tnt_1\",\"user_id\":null,"
                        "\"api_key_id\":null,\"model\":null,\"batch\":null,"
                        "\"service_tier\":\"priority\"}");
    edge_text_has(text, "\"service_tier\":\"flex\"}");
    text = render(form_of(EDGE_USAGE_COSTS, LEDGER_USAGE_TENANT), 2, MIDNIGHT + 7200, "eur");
    edge_text_has(text, "{\"object\":\"organization.costs.result\",\"amount\":{\"value\":"
                        "1.234567890,\"currency\":\"eur\"},\"line_item\":null,"
                        "\"project_id\":\"tnt_1\",\"api_key_id\":null}");
    edge_text_has(text, "\"value\":9223372036.854775807,");
}

static void test_csv(void **state)
{
    (void)state;
    struct edge_usage_form form = form_of(EDGE_USAGE_ALL, 0);
    form.is_csv = true;
    render(form, 2, MIDNIGHT + 7200, "usd");
    edge_text_same(buffer_slice(&out),
                   "start_time,end_time,tenant_id,key_id,model,class,num_model_requests,"
                   "input_tokens,input_cached_tokens,output_tokens,cost_nano,currency\r\n"
                   "2023-11-15T01:00:00Z,2023-11-15T02:00:00Z,tnt_1,key_1,\"a\"\"b\",realtime,"
                   "1,5,3,4,1234567890,usd\r\n"
                   "2023-11-15T01:00:00Z,2023-11-15T02:00:00Z,tnt_2,key_2,\"'=m,1\",batch,"
                   "9223372036854775807,6,0,8,9223372036854775807,usd\r\n");
}

/* What a spreadsheet would compute, or take for the end of a cell, it does not. */
static void test_csv_of_hostile_names(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"=1+1", ",'=1+1,"},
        {"+1", ",'+1,"},
        {"-1", ",'-1,"},
        {"@SUM(1)", ",'@SUM(1),"},
        {"\tx", ",'\tx,"},
        {"\rx", ",\"'\rx\","},
        {"a\nb", ",\"a\nb\","},
        {"a,b", ",\"a,b\","},
        {"\"", ",\"\"\"\","},
        {"plain-1.gguf", ",plain-1.gguf,"},
        {"", ",,"},
    };
    struct edge_usage_form form = form_of(EDGE_USAGE_ALL, 0);
    form.is_csv = true;
    struct ledger_usage_row saved = rows[0];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(rows[0].model, sizeof rows[0].model, "%s", names[i][0]);
        edge_text_has(render(form, 1, MIDNIGHT + 7200, "usd"), names[i][1]);
    }
    rows[0] = saved;
}

static void test_requests(void **state)
{
    (void)state;
    struct ledger_row row = {.sequence = 281474976710657,
                             .at_us = INT64_C(1700006400000042),
                             .request_id = "req_1",
                             .tenant_id = "tnt_1",
                             .key_id = "key_1",
                             .model = "m",
                             .route = "/v1/completions",
                             .service_class = "batch",
                             .finish = "stop",
                             .http_code = 200,
                             .prompt_tokens = 5,
                             .cached_tokens = 2,
                             .completion_tokens = 3,
                             .reasoning_tokens = 1,
                             .cost_nano = 9,
                             .is_estimated = true,
                             .queue_us = 1,
                             .prefill_us = 2,
                             .decode_us = 3,
                             .total_us = 4};
    struct ledger_requests requests = {
        .rows = &row, .count = 1, .last = 281474976710659, .has_more = true};
    struct edge_usage_form form = {.kind = EDGE_USAGE_REQUESTS};
    edge_usage_render_requests(&form, &requests, "usd", &out);
    edge_text_same(buffer_slice(&out),
                   "{\"object\":\"list\",\"data\":[{\"id\":\"row_281474976710657\","
                   "\"object\":\"usage.request\",\"time\":1700006400.000042,"
                   "\"request_id\":\"req_1\",\"tenant_id\":\"tnt_1\",\"key_id\":\"key_1\","
                   "\"model\":\"m\",\"route\":\"/v1/completions\",\"class\":\"batch\","
                   "\"finish\":\"stop\",\"http_code\":200,\"input_tokens\":5,"
                   "\"input_cached_tokens\":2,\"output_tokens\":3,\"output_reasoning_tokens\":1,"
                   "\"is_estimated\":true,"
                   "\"queue_us\":1,\"prefill_us\":2,\"decode_us\":3,\"total_us\":4,"
                   "\"cost_nano\":9,\"currency\":\"usd\"}],\"first_id\":\"row_281474976710657\","
                   "\"last_id\":\"row_281474976710659\",\"has_more\":true}");
    buffer_clear(&out);
    form.is_csv = true;
    edge_usage_render_requests(&form, &requests, "", &out);
    edge_text_has(out.bytes,
                  "\r\nrow_281474976710657,2023-11-15T00:00:00.000042Z,req_1,tnt_1,key_1,"
                  "m,/v1/completions,batch,stop,200,5,2,3,true,1,2,3,4,9,\r\n");
    requests = (struct ledger_requests){0};
    buffer_clear(&out);
    form.is_csv = false;
    edge_usage_render_requests(&form, &requests, "", &out);
    edge_text_same(buffer_slice(&out), "{\"object\":\"list\",\"data\":[],\"first_id\":null,"
                                       "\"last_id\":null,\"has_more\":false}");
}

int main(void)
{
#define WITH_OUT(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_OUT(test_own),
        WITH_OUT(test_all),
        WITH_OUT(test_organization),
        WITH_OUT(test_csv),
        WITH_OUT(test_csv_of_hostile_names),
        WITH_OUT(test_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
