/* admin_change: revisions, dry runs and idempotency keys, as a client sees them. */
#include "gateway/admin/admin_change.h"

#include "tests/unit/edge_kit.h"

#define TENANTS "/admin/v1/tenants"

/* As edge_kit_admin, with one more header line. */
static int ask(const char *method, const char *path, const char *header, const char *body)
{
    char headers[512];
    snprintf(headers, sizeof headers, "%s%s", edge_kit_bearer(kit.admin_key), header);
    return edge_kit_ask(kit.admin_port, method, path, headers, body);
}

static void make(const char *name, char path[160])
{
    char id[64], body[64];
    snprintf(body, sizeof body, "{\"name\":\"%s\"}", name);
    assert_int_equal(edge_kit_admin("POST", TENANTS, body), 201);
    edge_kit_member("id", id, sizeof id);
    edge_text_has(answer, "etag: \"1\"");
    snprintf(path, 160, TENANTS "/%s", id);
}

static void test_two_writers_of_one_revision(void **state)
{
    (void)state;
    char path[160];
    make("writers", path);
    assert_int_equal(ask("PATCH", path, "if-match: \"1\"\r\n", "{\"weight\":2}"), 200);
    edge_text_has(answer, "etag: \"2\"");
    assert_int_equal(ask("PATCH", path, "if-match: \"1\"\r\n", "{\"weight\":3}"), 412);
    edge_text_has(answer, "\"code\":\"revision_mismatch\"");
    edge_text_has(answer, "\"param\":\"if-match\"");
    assert_int_equal(ask("DELETE", path, "if-match: \"1\"\r\n", ""), 412);
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, "\"weight\":2,");
    edge_text_has(answer, "etag: \"2\"");
}

static void test_forms_of_if_match(void **state)
{
    (void)state;
    char path[160];
    make("forms", path);
    static const struct {
        const char *tags;
        int code;
    } rows[] = {
        {"\"1\"", 200},
        {"*", 200},
        {"\"7\", \"1\"", 200},
        {"\"7\",\"8\"", 412},
        {"W/\"1\"", 412}, /* weak tags never match here */
        {"\"one\"", 412},
        {"\"01\"", 412},
        {"\"\"", 412},
        {"1", 400},
        {"\"1", 400},
        {"\"1\"x", 400},
        {"\"9999999999999999999\"", 412},
        {"", 400},
        {"\"1\" \"2\"", 400},
        {"\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\"", 200},
        {"\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"", 400},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char header[256];
        snprintf(header, sizeof header, "if-match: %s\r\n", rows[i].tags);
        /* The same as it is: allowed, and no new revision. */
        if (ask("PATCH", path, header, "{\"weight\":100}") != rows[i].code)
            fail_msg("%s: %s", rows[i].tags, answer);
        if (rows[i].code == 400)
            edge_text_has(answer, "\"param\":\"if-match\"");
    }
}

/* Limits that were never put have no revision to name. */
static void test_a_tag_before_the_first_revision(void **state)
{
    (void)state;
    static const char *const tags[] = {"W/\"1\"", "\"0\"", "\"one\"", "\"1\""};
    char path[160], limits[200];
    make("unlimited", path);
    snprintf(limits, sizeof limits, "%s/limits", path);
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        char header[64];
        snprintf(header, sizeof header, "if-match: %s\r\n", tags[i]);
        if (ask("PUT", limits, header, "{\"tokens_per_day\":1}") != 412)
            fail_msg("%s: %s", tags[i], answer);
    }
    assert_int_equal(ask("PUT", limits, "if-match: *\r\n", "{\"tokens_per_day\":1}"), 200);
}

/* Two headers are two opinions, whichever comes first. */
static void test_headers_that_stand_twice(void **state)
{
    (void)state;
    char path[160];
    make("doubled", path);
    assert_int_equal(ask("PATCH", path, "if-match: \"1\"\r\nif-match: \"2\"\r\n", "{}"), 400);
    edge_text_has(answer, "\"param\":\"if-match\"");
    assert_int_equal(ask("GET", path, "if-none-match: *\r\nif-none-match: *\r\n", ""), 400);
    edge_text_has(answer, "\"param\":\"if-none-match\"");
}

static void test_not_modified(void **state)
{
    (void)state;
    char path[160];
    make("reader", path);
    assert_int_equal(ask("GET", path, "if-none-match: \"1\"\r\n", ""), 304);
    edge_text_has(answer, "etag: \"1\"");
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
    assert_int_equal(ask("GET", path, "if-none-match: W/\"1\", \"9\"\r\n", ""), 304);
    assert_int_equal(ask("GET", path, "if-none-match: *\r\n", ""), 304);
    assert_int_equal(ask("GET", path, "if-none-match: \"2\"\r\n", ""), 200);
    assert_int_equal(ask("GET", path, "if-none-match: nonsense\r\n", ""), 200);
    assert_int_equal(ask("GET", TENANTS "/tnt_nothere", "if-none-match: *\r\n", ""), 404);
}

static int audit_rows(void)
{
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    char last[32];
    edge_kit_member("last_id", last, sizeof last);
    return (int)strtol(last, NULL, 10);
}

static void test_dry_runs(void **state)
{
    (void)state;
    char path[160], dry[200], keys[200];
    make("dry", path);
    int rows = audit_rows();
    snprintf(dry, sizeof dry, "%s?dry_run=true", path);
    snprintf(keys, sizeof keys, "%s/keys?dry_run=true", path);
    assert_int_equal(edge_kit_admin("POST", TENANTS "?dry_run=true", "{\"name\":\"new\"}"), 200);
    edge_text_has(answer, "\"dry_run\":true}");
    assert_null(strstr(answer, "etag:"));
    assert_int_equal(edge_kit_admin("POST", TENANTS "?dry_run=true", "{\"name\":\"dry\"}"), 409);
    assert_int_equal(edge_kit_admin("POST", TENANTS "?dry_run=true", "{\"name\":7}"), 400);
    assert_int_equal(edge_kit_admin("PATCH", dry, "{\"weight\":9}"), 200);
    edge_text_has(answer, "\"weight\":9");
    edge_text_has(answer, "\"revision\":2,\"dry_run\":true}");
    assert_int_equal(ask("PATCH", dry, "if-match: \"2\"\r\n", "{\"weight\":9}"), 412);
    assert_int_equal(edge_kit_admin("DELETE", dry, ""), 200);
    edge_text_has(answer, "\"state\":\"archived\"");
    assert_int_equal(edge_kit_admin("POST", keys, "{}"), 200);
    edge_text_has(answer, "\"dry_run\":true}");
    assert_null(strstr(answer, "\"key\":")); /* no value of a key that is not there */
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, "\"state\":\"active\",\"weight\":100");
    edge_text_has(answer, "etag: \"1\"");
    assert_int_equal(audit_rows(), rows);
    assert_int_equal(edge_kit_admin("POST", TENANTS "?dry_run=false", "{\"name\":\"wet\"}"), 201);
    assert_int_equal(edge_kit_admin("POST", TENANTS "?dry_run=maybe", "{\"name\":\"x\"}"), 400);
    edge_text_has(answer, "\"param\":\"dry_run\"");
}

static void test_idempotency_keys(void **state)
{
    (void)state;
    char path[160], keys[200], first[128], again[128], id[64];
    make("twice", path);
    snprintf(keys, sizeof keys, "%s/keys", path);
    const char *header = "idempotency-key: a-b-c\r\n";
    assert_int_equal(ask("POST", keys, header, "{\"name\":\"k\"}"), 201);
    assert_null(strstr(answer, "idempotent-replayed"));
    edge_kit_member("key", first, sizeof first);
    edge_kit_member("id", id, sizeof id);
    int rows = audit_rows();
    for (int restart = 0; restart < 2; restart++) {
        assert_int_equal(ask("POST", keys, header, "{\"name\":\"k\"}"), 201);
        edge_text_has(answer, "idempotent-replayed: true");
        edge_text_has(answer, "etag: \"1\"");
        edge_text_has(answer, "cache-control: no-store");
        edge_kit_member("key", again, sizeof again);
        assert_string_equal(first, again);
        assert_int_equal(ask("POST", keys, header, "{\"name\":\"other\"}"), 422);
        edge_text_has(answer, "\"code\":\"idempotency_key_reused\"");
        assert_int_equal(ask("POST", TENANTS, header, "{\"name\":\"k\"}"), 422);
        edge_kit_end();
        edge_kit_run();
    }
    assert_int_equal(audit_rows(), rows);
    /* A refused call keeps nothing: the key is free for the right one. */
    header = "idempotency-key: d\r\n";
    assert_int_equal(ask("POST", keys, header, "{\"name\":7}"), 400);
    assert_int_equal(ask("POST", keys, header, "{\"name\":\"k\"}"), 201);
    /* A dry run is none of it. */
    snprintf(keys, sizeof keys, "%s/keys?dry_run=true", path);
    header = "idempotency-key: e\r\n";
    assert_int_equal(ask("POST", keys, header, "{}"), 200);
    snprintf(keys, sizeof keys, "%s/keys", path);
    assert_int_equal(ask("POST", keys, header, "{}"), 201);
    assert_null(strstr(answer, "idempotent-replayed"));
}

static void test_forms_of_idempotency_keys(void **state)
{
    (void)state;
    char header[512], key[300];
    memset(key, 'k', sizeof key);
    for (int length = LIMIT_IDEMPOTENCY_KEY_BYTES; length <= LIMIT_IDEMPOTENCY_KEY_BYTES + 1;
         length++) {
        char body[64];
        snprintf(header, sizeof header, "idempotency-key: %.*s\r\n", length, key);
        snprintf(body, sizeof body, "{\"name\":\"length %d\"}", length);
        assert_int_equal(ask("POST", TENANTS, header, body),
                         length == LIMIT_IDEMPOTENCY_KEY_BYTES ? 201 : 400);
    }
    static const char *const wrong[] = {"idempotency-key: a b\r\n", "idempotency-key: \r\n",
                                        "idempotency-key: \xc3\xa9\r\n",
                                        "idempotency-key: a\r\nidempotency-key: b\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (ask("POST", TENANTS, wrong[i], "{\"name\":\"never\"}") != 400)
            fail_msg("%s: %s", wrong[i], answer);
        edge_text_has(answer, "\"param\":\"idempotency-key\"");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_writers_of_one_revision),
        cmocka_unit_test(test_forms_of_if_match),
        cmocka_unit_test(test_a_tag_before_the_first_revision),
        cmocka_unit_test(test_headers_that_stand_twice),
        cmocka_unit_test(test_not_modified),
        cmocka_unit_test(test_dry_runs),
        cmocka_unit_test(test_idempotency_keys),
        cmocka_unit_test(test_forms_of_idempotency_keys),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
