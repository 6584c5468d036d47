#include "gateway/pool/pool_row.h"

#include "tests/unit/base_kit.h"

static const struct pool_row defaults = {.kind = "auto", .weight = POOL_ROW_WEIGHT};

static void test_rows(void **state)
{
    (void)state;
    struct pool_row rows[LIMIT_POOL_ENGINES];
    uint32_t count = 0;
    assert_int_equal(
        pool_rows_read("http://127.0.0.1:8000/v1  "
                       "url=http://[::1]:9,model=small,kind=vllm,key_file=/k,requests=8,weight=200",
                       &defaults, rows, &count),
        STATUS_OK);
    assert_int_equal(count, 2);
    assert_string_equal(rows[0].url, "http://127.0.0.1:8000/v1");
    assert_string_equal(rows[0].name, "127.0.0.1:8000");
    assert_string_equal(rows[0].kind, "auto");
    assert_int_equal(rows[0].weight, 100);
    assert_string_equal(rows[1].url, "http://[::1]:9");
    assert_string_equal(rows[1].name, "[::1]:9");
    assert_string_equal(rows[1].model, "small");
    assert_string_equal(rows[1].kind, "vllm");
    assert_string_equal(rows[1].key_file, "/k");
    assert_int_equal(rows[1].requests, 8);
    assert_int_equal(rows[1].weight, 200);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        enum status status;
        const char *says;
    } cases[] = {
        {"url=http://a:1,weight=0", STATUS_INVALID, "weight"},
        {"url=http://a:1,weight=1001", STATUS_INVALID, "weight"},
        {"url=http://a:1,requests=x", STATUS_INVALID, "requests"},
        {"url=http://a:1,speed=9", STATUS_INVALID, "speed is not known"},
        {"model=a,kind=vllm", STATUS_INVALID, "no url"},
        {"url=http://a:1,model", STATUS_INVALID, "url=…"},
        {"url=,model=a", STATUS_INVALID, "empty"},
        {"url=http://a:1,name=a\"b", STATUS_INVALID, "letters"},
        {"http://a:1 http://a:1", STATUS_EXISTS, "a:1"},
        {"url=http://a:1,name=x url=http://b:1,name=x", STATUS_EXISTS, "name x"},
        {"url=http://a:1,name=x url=http://a:1,name=y", STATUS_EXISTS, "name y"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pool_row rows[LIMIT_POOL_ENGINES];
        uint32_t count = 0;
        assert_int_equal(pool_rows_read(cases[i].list, &defaults, rows, &count), cases[i].status);
        if (strstr(status_note()->message, cases[i].says) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].says, status_note()->message);
    }
    char many[LIMIT_POOL_ENGINES * 16 + 64] = "";
    for (int i = 0; i <= LIMIT_POOL_ENGINES; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "http://a:%d ", i + 1);
    struct pool_row rows[LIMIT_POOL_ENGINES];
    uint32_t count = 0;
    assert_int_equal(pool_rows_read(many, &defaults, rows, &count), STATUS_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
