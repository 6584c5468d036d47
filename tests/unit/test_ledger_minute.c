/* ledger_minute: which rows are of the last minute, of a file with rows of all ages. */
#include "auth/ledger/ledger_minute.h"

#include "tests/unit/base_kit.h"

#include <sqlite3.h>

#include "config/store.h"

enum { NOW_S = 1790000000 };

struct seen {
    int rows;
    int texts;
    int64_t tokens;
    char key_id[LIMIT_ID_BYTES];
};

static void take(void *context, const struct ledger_minute_row *row)
{
    struct seen *seen = context;
    seen->rows++;
    seen->texts += row->is_text;
    seen->tokens += row->prompt_tokens - row->cached_tokens + row->completion_tokens;
    memcpy(seen->key_id, row->key_id, sizeof seen->key_id);
    assert_string_equal(row->tenant_id, "tnt_1");
}

/* `count` rows of that age, newer in the file than those before. */
static void put(sqlite3 *connection, int64_t age_us, int count)
{
    char sql[512];
    snprintf(
        sql, sizeof sql,
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) insert "
        "into requests (at_us, request_id, tenant_id, key_id, model, route, service_class, "
        "finish, http_code, prompt_tokens, cached_tokens, completion_tokens, is_estimated, "
        "queue_us, prefill_us, decode_us, total_us) select %lld, '', 'tnt_1', 'key_1', '', '', "
        "iif(i %% 3 = 0, 'text', 'batch'), '', 200, 5, 2, 7, 0, 0, 0, 0, 0 from n",
        count, (long long)(NOW_S * INT64_C(1000000) - age_us));
    assert_int_equal(store_execute(connection, sql), STATUS_OK);
}

static struct seen read_all(const char *path)
{
    struct seen seen = {0};
    assert_int_equal(ledger_minute_read(path, NOW_S * INT64_C(1000000), &seen, take), STATUS_OK);
    return seen;
}

static void test_which_rows(void **state)
{
    char folder[64], path[96];
    struct ledger *ledger;
    sqlite3 *connection;
    struct seen seen = {0};
    (void)state;
    kit_folder_make(folder);
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    assert_int_equal(ledger_minute_read(folder, 0, &seen, take), STATUS_IO);
    assert_int_equal(ledger_open(&ledger, &(struct ledger_options){.path = path}), STATUS_OK);
    ledger_close(ledger);
    assert_int_equal(read_all(path).rows, 0);
    assert_int_equal(store_connect(&connection, path, false), STATUS_OK);
    put(connection, 59999999, 1); /* too far behind old ones to be looked for */
    put(connection, 60000000, 1000);
    put(connection, 59999999, 2);
    put(connection, 60000000, 999); /* waited for their records */
    put(connection, 0, 3);
    put(connection, -1, 4); /* of the future */
    seen = read_all(path);
    assert_int_equal(seen.rows, 5);
    assert_int_equal(seen.tokens, 50);
    assert_string_equal(seen.key_id, "key_1");
    put(connection, 1, 3000); /* and all of these */
    assert_int_equal(read_all(path).rows, 3005);
    assert_int_equal(read_all(path).texts, 1001);
    sqlite3_close(connection);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_which_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
