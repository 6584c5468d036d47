/* cli_usage: what is asked page by page, and the tables, JSON and CSV made of it. */
#include "gateway/cli/cli_usage.h"

#include "tests/unit/cli_kit.h"

#define RESULT(model, cost)                                                                        \
    "{\"object\":\"usage.result\",\"num_model_requests\":3,\"input_tokens\":40,"                   \
    "\"input_cached_tokens\":5,\"output_tokens\":6,\"cost_nano\":" cost                            \
    ",\"currency\":\"usd\",\"tenant_id\":\"tnt_1\",\"key_id\":null,\"model\":\"" model             \
    "\",\"class\":null}"
#define PAGE(start, results, more)                                                                 \
    "{\"object\":\"page\",\"data\":[{\"object\":\"bucket\",\"start_time\":" start                  \
    ",\"end_time\":0,\"results\":[" results "]}],\"has_more\":" more ",\"next_page\":null}"
#define ROW(number)                                                                                \
    "{\"id\":\"row_" number "\",\"object\":\"usage.request\",\"time\":1790000000.250000,"          \
    "\"request_id\":\"req_" number "\",\"tenant_id\":\"tnt_1\",\"key_id\":\"key_1\","              \
    "\"model\":\"m\",\"route\":\"/v1\",\"class\":\"batch\",\"finish\":\"stop\",\"http_code\":200," \
    "\"input_tokens\":4,\"input_cached_tokens\":0,\"output_tokens\":5,\"cost_nano\":7,"            \
    "\"currency\":null}"
#define ROWS(rows, more)                                                                           \
    "{\"object\":\"list\",\"data\":[" rows                                                         \
    "],\"first_id\":null,\"last_id\":null,\"has_more\":" more "}"

/* An answer with another page behind it; "" for the last one. */
static void answer_page(const char *next, const char *body)
{
    char bytes[8192];
    snprintf(bytes, sizeof bytes, "HTTP/1.1 200 OK\r\n%s%s%scontent-length: %zu\r\n\r\n%s",
             next[0] != '\0' ? "x-next-page: " : "", next, next[0] != '\0' ? "\r\n" : "",
             strlen(body), body);
    cli_kit_say(CLI_KIT_KEEP, bytes);
}

static void test_tables(void **state)
{
    (void)state;
    answer_page("page_1790000000", PAGE("1789913600", RESULT("m", "1234567890"), "true"));
    answer_page("", PAGE("1790000000", RESULT("n", "5"), "false"));
    assert_int_equal(CLI_KIT_RUN("usage", "show", "--from", "2026-09-20", "--to",
                                 "2026-09-22T08:30", "--by", "tenant,model", "--tenants", "tnt_1",
                                 "--keys", "key_1,key_2", "--model", "a/b", "--class", "batch"),
                     CLI_DONE);
    cli_kit_has(cli_kit.seen,
                "GET /admin/v1/usage?start_time=1789862400&end_time=1790065800&bucket_width=1d&"
                "limit=31&group_by=tenant%2Cmodel&tenant_id=tnt_1&key_id=key_1,key_2&model=a%2Fb&"
                "class=batch HTTP/1.1\r\n");
    cli_kit_has(cli_kit.seen, "&class=batch&page=page_1790000000 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out,
                "FROM                  TENANT  MODEL  REQUESTS  INPUT  CACHED  OUTPUT");
    cli_kit_has(cli_kit.out,
                "2026-09-20 14:13:20Z  tnt_1   m             3     40       5       6  "
                "1.234567890 usd\n");
    cli_kit_has(cli_kit.out, "2026-09-21 14:13:20Z  tnt_1   n ");
    cli_kit_has(cli_kit.out, "0.000000005 usd\n");
    assert_int_equal(cli_kit.steps_done, 2);
    answer_page("", PAGE("1789913600", "", "false"));
    assert_int_equal(CLI_KIT_RUN("usage", "show", "--width", "1h"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "&bucket_width=1h&limit=168 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.err, "none\n");
}

static void test_json_and_csv(void **state)
{
    (void)state;
    answer_page("page_1", PAGE("1", RESULT("m", "1"), "true"));
    answer_page("", PAGE("2", RESULT("n", "2"), "false"));
    assert_int_equal(CLI_KIT_RUN("usage", "show", "--json"), CLI_DONE);
    cli_kit_has(cli_kit.out, "\"start_time\":1,");
    cli_kit_has(cli_kit.out, "\"start_time\":2,");
    cli_kit_has(cli_kit.out, "\"has_more\":false,");
    answer_page("page_2", "a,b\r\n1,2\r\n");
    answer_page("page_3", "a,b\r\n");
    answer_page("", "a,b\r\n3,4\r\n");
    assert_int_equal(CLI_KIT_RUN("usage", "show", "--csv"), CLI_DONE);
    assert_string_equal(cli_kit.out, "a,b\r\n1,2\r\n3,4\r\n");
    cli_kit_has(cli_kit.seen, "&format=csv&page=page_3 HTTP/1.1\r\n");
}

static void test_requests(void **state)
{
    (void)state;
    answer_page("row_8", ROWS(ROW("9"), "true"));
    answer_page("row_7", ROWS("", "true")); /* a page may be empty and not be the last */
    answer_page("row_6", ROWS(ROW("7") "," ROW("6"), "true"));
    assert_int_equal(CLI_KIT_RUN("usage", "requests", "--limit", "2"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "GET /admin/v1/usage/requests?start_time=0&order=desc&limit=2 HTTP");
    cli_kit_has(cli_kit.seen, "&limit=2&after=row_7 HTTP/1.1\r\n");
    cli_kit_has(cli_kit.out, "2026-09-21 14:13:20Z  req_9    tnt_1   m      batch  stop     200");
    cli_kit_has(cli_kit.out, "req_7");
    assert_null(strstr(cli_kit.out, "req_6"));
    cli_kit_has(cli_kit.err, "there are more");
    answer_page("row_8", "id\r\nrow_9\r\n");
    answer_page("", "id\r\nrow_7\r\n");
    assert_int_equal(CLI_KIT_RUN("usage", "requests", "--csv", "--from", "1790000000"), CLI_DONE);
    cli_kit_has(cli_kit.seen, "?start_time=1790000000&order=desc&limit=1000&format=csv HTTP");
    assert_string_equal(cli_kit.out, "id\r\nrow_9\r\nrow_7\r\n");
}

static void test_wrong_words_and_answers(void **state)
{
    (void)state;
    assert_int_equal(CLI_KIT_RUN("usage", "show", "--from", "yesterday"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("usage", "show", "--from", "2026-13-01"), CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("usage", "show", "--from", "2026-09-22", "--to", "2026-09-22"),
                     CLI_USAGE);
    assert_int_equal(CLI_KIT_RUN("usage", "requests", "--by", "model"), CLI_USAGE);
    assert_int_equal(cli_kit.steps_done, 0); /* nothing was sent */
    answer_page("", "{\"object\":\"page\"}");
    assert_int_equal(CLI_KIT_RUN("usage", "show"), CLI_UNREACHED);
    answer_page("", "no line");
    assert_int_equal(CLI_KIT_RUN("usage", "show", "--csv"), CLI_UNREACHED);
    answer_page("page_5", PAGE("1", "", "true"));
    answer_page("page_5", PAGE("1", "", "true"));
    assert_int_equal(CLI_KIT_RUN("usage", "show"), CLI_UNREACHED);
    cli_kit_has(cli_kit.err, "the server's pages do not end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_tables, cli_kit_clear),
        cmocka_unit_test_setup(test_json_and_csv, cli_kit_clear),
        cmocka_unit_test_setup(test_requests, cli_kit_clear),
        cmocka_unit_test_setup(test_wrong_words_and_answers, cli_kit_clear),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
