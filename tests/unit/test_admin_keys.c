/* admin_keys: create, list and revoke over the config API; a value is shown once. */
#include "gateway/admin/admin_keys.h"

#include "config/base/mem.h"
#include "gateway/admin/admin_change.h"
#include "tests/unit/edge_kit.h"

static char keys_path[128];

static void make(const char *body, char value[128], char id[64])
{
    snprintf(keys_path, sizeof keys_path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    assert_int_equal(edge_kit_admin("POST", keys_path, body), 201);
    edge_kit_member("key", value, 128);
    edge_kit_member("id", id, 64);
}

static void test_value_is_shown_once(void **state)
{
    (void)state;
    char value[128], id[64];
    make("{\"name\":\"laptop\"}", value, id);
    edge_text_has(answer, "\"object\":\"key\"");
    edge_text_has(answer, "\"name\":\"laptop\"");
    edge_text_has(answer, "\"expires_at\":null,\"revoked_at\":null,\"last_used_at\":null,"
                          "\"rotated_to\":null,\"revision\":1");
    edge_text_has(answer, "\"scopes\":[\"usage:read\",\"inference\"]");
    assert_int_equal(strncmp(value, "sk-by-", 6), 0);
    assert_int_equal(edge_kit_admin("GET", keys_path, ""), 200);
    edge_text_has(answer, id);
    edge_text_has(answer, "\"redacted\":\"sk-by-");
    assert_null(strstr(answer, value));
    assert_null(strstr(answer, "\"key\":"));
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=100", ""), 200);
    assert_null(strstr(answer, value));
}

static void test_revoked_key_opens_nothing(void **state)
{
    (void)state;
    char value[128], id[64], path[192];
    make("", value, id); /* a body may be left out: the name is optional */
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", edge_kit_bearer(value), ""), 200);
    snprintf(path, sizeof path, "%s/%s", keys_path, id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    assert_null(strstr(answer, "\"revoked_at\":null"));
    edge_text_has(answer, "\"revision\":2");
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", edge_kit_bearer(value), ""), 401);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", edge_kit_bearer(kit.key), ""),
                     200);
}

static void test_refusals(void **state)
{
    (void)state;
    char path[192];
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/tenants/tnt_nothere/keys", "{}"), 404);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/tenants/tnt_nothere/keys", ""), 404);
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys/key_nothere", kit.tenant_id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 404);
    snprintf(path, sizeof path, "/admin/v1/tenants/tnt_nothere/keys/%s", kit.key_id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 404);
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    assert_int_equal(edge_kit_admin("POST", path, "{\"scopes\":[]}"), 400);
    edge_text_has(answer, "\"param\":\"scopes\"");
}

/* --- without an edge: the functions themselves, with an allocator that fails --- */

struct alone {
    struct store *store;
    struct auth *auth;
    struct admin admin;
    struct tenant tenant;
    struct tenant_key key;
};

static struct admin_call call_of(struct alone *alone, const char *path, const char *body)
{
    struct admin_call call = {.admin = &alone->admin,
                              .principal = {.is_admin = true, .scopes = AUTH_SCOPES_ADMIN},
                              .method = SLICE("POST"),
                              .path = slice_of(path),
                              .body = slice_of(body),
                              .idempotency_key = SLICE("again"),
                              .is_kept = true,
                              .code = 200};
    call.arguments[0] = slice_of(alone->tenant.id);
    call.arguments[1] = slice_of(alone->key.id);
    buffer_init(&call.out, LIMIT_ADMIN_ANSWER_BYTES);
    return call;
}

static int rows_of(struct alone *alone, const char *table)
{
    struct sqlite3 *connection;
    sqlite3_stmt *statement;
    char sql[64];
    snprintf(sql, sizeof sql, "select count(*) from %s", table);
    assert_int_equal(store_begin(alone->store, &connection), STATUS_OK);
    assert_int_equal(sqlite3_prepare_v2(connection, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int rows = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    assert_int_equal(store_end(alone->store, false), STATUS_OK);
    return rows;
}

static int fail_at(void *context, size_t bytes)
{
    int *left = context;
    (void)bytes;
    return --*left == 0;
}

/* Whatever allocation fails: no key, no audit row, no kept answer, or all three. */
static void fail_each(struct alone *alone, const char *path, const char *body, admin_function act)
{
    int failures = 0;
    for (int n = 1;; n++) {
        int keys = rows_of(alone, "keys");
        int audit = rows_of(alone, "audit");
        int answers = rows_of(alone, "answers");
        struct admin_call call = call_of(alone, path, body);
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = admin_change_replay(&call);
        if (status == STATUS_NOT_FOUND)
            status = act(&call);
        mem_hook_set(NULL, NULL);
        int made = status == STATUS_OK;
        if (made)
            edge_text_has(call.out.bytes, "\"key\":\"sk-by-");
        buffer_deinit(&call.out);
        assert_int_equal(rows_of(alone, "keys"), keys + made);
        assert_int_equal(rows_of(alone, "audit"), audit + made);
        assert_int_equal(rows_of(alone, "answers"), answers + made);
        if (left > 0) {
            assert_int_equal(status, STATUS_OK);
            break;
        }
        assert_int_equal(status, STATUS_NO_MEMORY);
        failures++;
    }
    assert_true(failures >= 5);
}

static void test_memory_fails_at_each_allocation(void **state)
{
    (void)state;
    struct alone alone = {0};
    const struct audit_actor actor = {.peer = "test", .scopes = AUTH_SCOPES_ADMIN};
    const struct tenant_change change = {.actor = &actor};
    const struct tenant_fields fields = {.given = TENANT_NAME, .name = SLICE("one")};
    const struct tenant_key_fields none = {0};
    char dir[64], path[128], value[LIMIT_KEY_BYTES];
    edge_kit_dir(dir);
    snprintf(path, sizeof path, "%s/banyan.db", dir);
    assert_int_equal(store_open(&alone.store, path), STATUS_OK);
    assert_int_equal(auth_open(&alone.auth, dir, alone.store), STATUS_OK);
    alone.admin.auth = alone.auth;
    struct tenants *tenants = auth_tenants(alone.auth);
    assert_int_equal(tenants_create(tenants, &change, &fields, &alone.tenant), STATUS_OK);
    assert_int_equal(
        tenants_key_create(tenants, &change, slice_of(alone.tenant.id), &none, &alone.key, value),
        STATUS_OK);
    fail_each(&alone, "/admin/v1/tenants/t/keys", "{\"name\":\"k\"}", admin_keys_create);
    struct sqlite3 *connection;
    assert_int_equal(store_begin(alone.store, &connection), STATUS_OK);
    assert_int_equal(store_execute(connection, "delete from answers"), STATUS_OK);
    assert_int_equal(store_end(alone.store, true), STATUS_OK);
    fail_each(&alone, "/admin/v1/tenants/t/keys/k/rotate", "{\"overlap_s\":9}", admin_keys_rotate);
    auth_close(alone.auth);
    store_close(alone.store);
    edge_kit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_value_is_shown_once),
        cmocka_unit_test(test_revoked_key_opens_nothing),
        cmocka_unit_test(test_refusals),
    };
    /* By itself: the hook is the whole process's, and an edge allocates when it likes. */
    const struct CMUnitTest alone[] = {cmocka_unit_test(test_memory_fails_at_each_allocation)};
    int failed = cmocka_run_group_tests(alone, NULL, NULL);
    return failed + cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
