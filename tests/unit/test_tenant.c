#include "auth/limits/quota_limits_hooks.h"
#include "auth/tenants/tenant.h"

#include "tests/unit/base_kit.h"

#include <jansson.h>
#include <pthread.h>
#include <sqlite3.h>

#include "auth/auth.h"
#include "auth/credential/api_key.h"
#include "auth/tenants/tenant_auth.h"
#include "tests/unit/tenant_kit.h"

struct fixture {
    char folder[64];
    char path[96];
    struct store *store;
    struct tenants *tenants;
    struct clock clock;
};

static const uint8_t pepper[32] = {1, 2, 3};
static const uint8_t domain[32] = {4, 5, 6};
enum { START_S = 1790000000 };

static struct tenants_options options_of(struct fixture *fixture)
{
    return (struct tenants_options){.store = fixture->store,
                                    .pepper = pepper,
                                    .domain = domain,
                                    .clock = &fixture->clock,
                                    .limits = &quota_limits_hooks};
}

static void fixture_start(struct fixture *fixture)
{
    assert_int_equal(store_open(&fixture->store, fixture->path), STATUS_OK);
    const struct tenants_options options = options_of(fixture);
    assert_int_equal(tenants_open(&fixture->tenants, &options), STATUS_OK);
}

static void fixture_stop(struct fixture *fixture)
{
    tenants_close(fixture->tenants);
    store_close(fixture->store);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    kit_folder_make(fixture->folder);
    clock_manual_init(&fixture->clock, START_S * INT64_C(1000000));
    snprintf(fixture->path, sizeof fixture->path, "%s/banyan.db", fixture->folder);
    fixture_start(fixture);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    fixture_stop(fixture);
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

static void execute(struct fixture *fixture, const char *sql)
{
    struct sqlite3 *connection;
    assert_int_equal(store_begin(fixture->store, &connection), STATUS_OK);
    assert_int_equal(store_execute(connection, sql), STATUS_OK);
    assert_int_equal(store_end(fixture->store, true), STATUS_OK);
}

static struct tenant create(struct fixture *fixture, const char *name)
{
    struct tenant tenant;
    assert_int_equal(kit_tenant(fixture->tenants, slice_of(name), 100, &tenant), STATUS_OK);
    return tenant;
}

static enum tenant_match match_key(struct fixture *fixture, const char *value)
{
    struct api_key read;
    struct principal principal;
    uint8_t hash[AUTH_CRYPTO_BYTES];
    assert_int_equal(api_key_read(slice_of(value), &read), STATUS_OK);
    assert_int_equal(auth_crypto_hmac(pepper, slice_of(value), hash), STATUS_OK);
    return tenants_key_match(fixture->tenants, read.id, hash, &principal);
}

static void test_create_and_get(void **state)
{
    struct fixture *fixture = *state;
    struct tenant made = create(fixture, "gr\xc3\xbc\xc3\x9f \"acme\"");
    assert_memory_equal(made.id, "tnt_", 4);
    assert_int_equal(strlen(made.id), 24);
    assert_int_equal(made.state, TENANT_ACTIVE);
    assert_int_equal(made.weight, 100);
    assert_true(made.created_at_s > 1700000000);
    for (int restart = 0; restart < 2; restart++) {
        struct tenant found;
        assert_int_equal(tenants_get(fixture->tenants, slice_of(made.id), &found), STATUS_OK);
        assert_string_equal(found.name, made.name);
        assert_int_equal(found.weight, 100);
        assert_int_equal(found.created_at_s, made.created_at_s);
        assert_int_equal(tenants_get(fixture->tenants, SLICE("tnt_no"), &found), STATUS_NOT_FOUND);
        fixture_stop(fixture);
        fixture_start(fixture);
    }
}

static void test_create_is_checked(void **state)
{
    struct fixture *fixture = *state;
    struct tenant tenant;
    char name[LIMIT_NAME_BYTES];
    memset(name, 'x', sizeof name);
    struct slice most = {name, LIMIT_NAME_BYTES - 1};
    struct slice more = {name, LIMIT_NAME_BYTES};
    struct tenants *tenants = fixture->tenants;
    assert_int_equal(kit_tenant(tenants, most, 1, &tenant), STATUS_OK);
    assert_int_equal(strlen(tenant.name), LIMIT_NAME_BYTES - 1);
    assert_int_equal(kit_tenant(tenants, more, 1, &tenant), STATUS_INVALID);
    assert_string_equal(status_note()->param, "name");
    assert_int_equal(kit_tenant(tenants, SLICE(""), 1, &tenant), STATUS_INVALID);
    assert_int_equal(kit_tenant(tenants, SLICE("a\nb"), 1, &tenant), STATUS_INVALID);
    assert_int_equal(kit_tenant(tenants, SLICE("\xff"), 1, &tenant), STATUS_INVALID);
    assert_int_equal(kit_tenant(tenants, SLICE("a\0b"), 1, &tenant), STATUS_INVALID);
    assert_int_equal(kit_tenant(tenants, SLICE("a"), 0, &tenant), STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "weight");
    assert_int_equal(kit_tenant(tenants, SLICE("a"), 1001, &tenant), STATUS_OUT_OF_RANGE);
    assert_int_equal(kit_tenant(tenants, SLICE("a"), 1000, &tenant), STATUS_OK);
    assert_int_equal(kit_tenant(tenants, SLICE("a"), 5, &tenant), STATUS_EXISTS);
    assert_string_equal(status_note()->param, "name");
    /* A refused one left no row and no audit row. */
    struct tenant list[10];
    struct audit_row audit[10];
    size_t count;
    bool has_more;
    assert_int_equal(tenants_list(tenants, SLICE(""), list, 10, &count, &has_more), STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(tenants_audit_list(tenants, &anything, 0, audit, 10, &count, &has_more),
                     STATUS_OK);
    assert_int_equal(count, 2);
}

static void test_name_of_an_archived_tenant_is_free(void **state)
{
    struct fixture *fixture = *state;
    struct tenant tenant = create(fixture, "acme");
    execute(fixture, "update tenants set state = 2");
    fixture_stop(fixture);
    fixture_start(fixture);
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES];
    assert_int_equal(kit_key(fixture->tenants, slice_of(tenant.id), SLICE("k"), 0, &key, value),
                     STATUS_CONFLICT);
    create(fixture, "acme");
}

static void test_list_in_pages(void **state)
{
    struct fixture *fixture = *state;
    enum { TENANTS = 7 };
    struct tenant made[TENANTS];
    for (int i = 0; i < TENANTS; i++) {
        char name[24];
        snprintf(name, sizeof name, "tenant %d", i);
        made[i] = create(fixture, name);
    }
    for (size_t page = 1; page <= TENANTS + 1; page++) {
        char after[LIMIT_ID_BYTES] = "";
        size_t seen = 0;
        bool has_more = true;
        while (has_more) {
            struct tenant list[TENANTS + 1];
            size_t count;
            assert_int_equal(
                tenants_list(fixture->tenants, slice_of(after), list, page, &count, &has_more),
                STATUS_OK);
            for (size_t i = 0; i < count; i++)
                assert_string_equal(list[i].id, made[seen + i].id);
            seen += count;
            assert_true(count == page || !has_more);
            snprintf(after, sizeof after, "%s", list[count - 1].id);
        }
        assert_int_equal(seen, TENANTS);
    }
    struct tenant list[1];
    size_t count;
    bool has_more;
    assert_int_equal(tenants_list(fixture->tenants, SLICE("tnt_x"), list, 1, &count, &has_more),
                     STATUS_INVALID);
    assert_string_equal(status_note()->param, "after");
    assert_int_equal(tenants_list(fixture->tenants, SLICE(""), list, 0, &count, &has_more),
                     STATUS_OK);
    assert_int_equal(count, 0);
    assert_true(has_more);
}

static void test_keys(void **state)
{
    struct fixture *fixture = *state;
    struct tenant one = create(fixture, "one");
    struct tenant two = create(fixture, "two");
    struct tenant_key keys[3];
    struct tenant_key admin;
    char values[3][LIMIT_KEY_BYTES];
    char admin_value[LIMIT_KEY_BYTES];
    struct tenants *tenants = fixture->tenants;
    for (int i = 0; i < 3; i++)
        assert_int_equal(kit_key(tenants, slice_of(one.id), SLICE("name"), 0, &keys[i], values[i]),
                         STATUS_OK);
    assert_int_equal(
        kit_key(tenants, SLICE(""), SLICE("admin"), AUTH_SCOPE_ADMIN_READ, &admin, admin_value),
        STATUS_OK);
    assert_memory_equal(admin_value, "sk-by-admin-", 12);
    assert_string_equal(admin.tenant_id, "");
    assert_int_equal(admin.scopes, AUTH_SCOPE_ADMIN_READ);
    for (int restart = 0; restart < 2; restart++) {
        tenants = fixture->tenants;
        struct tenant_key list[5];
        size_t count;
        bool has_more;
        assert_int_equal(
            tenants_key_list(tenants, slice_of(one.id), SLICE(""), list, 5, &count, &has_more),
            STATUS_OK);
        assert_int_equal(count, 3);
        assert_false(has_more);
        for (int i = 0; i < 3; i++) {
            assert_string_equal(list[i].id, keys[i].id);
            assert_string_equal(list[i].redacted, keys[i].redacted);
            assert_null(strstr(values[i], list[i].redacted));
            assert_int_equal(match_key(fixture, values[i]), TENANT_MATCH_OPEN);
        }
        assert_int_equal(tenants_key_list(tenants, slice_of(one.id), slice_of(keys[0].id), list, 1,
                                          &count, &has_more),
                         STATUS_OK);
        assert_string_equal(list[0].id, keys[1].id);
        assert_true(has_more);
        assert_int_equal(
            tenants_key_list(tenants, slice_of(two.id), SLICE(""), list, 5, &count, &has_more),
            STATUS_OK);
        assert_int_equal(count, 0);
        /* Another tenant's key is no place to begin after, and shows nowhere. */
        assert_int_equal(tenants_key_list(tenants, slice_of(two.id), slice_of(keys[0].id), list, 5,
                                          &count, &has_more),
                         STATUS_INVALID);
        assert_int_equal(
            tenants_key_list(tenants, SLICE(""), SLICE(""), list, 5, &count, &has_more), STATUS_OK);
        assert_int_equal(count, 1);
        assert_string_equal(list[0].id, admin.id);
        assert_int_equal(
            tenants_key_list(tenants, SLICE("tnt_no"), SLICE(""), list, 5, &count, &has_more),
            STATUS_NOT_FOUND);
        assert_int_equal(tenants_key_count(tenants), 4);
        assert_int_equal(tenants_admin_key_count(tenants, AUTH_SCOPE_ADMIN_READ, 0), 1);
        assert_int_equal(tenants_admin_key_count(tenants, AUTH_SCOPE_ADMIN_KEYS, 0), 0);
        fixture_stop(fixture);
        fixture_start(fixture);
    }
}

static void test_key_create_is_checked(void **state)
{
    struct fixture *fixture = *state;
    struct tenant one = create(fixture, "one");
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES] = "x";
    struct tenants *tenants = fixture->tenants;
    assert_int_equal(kit_key(tenants, SLICE("tnt_no"), SLICE("k"), 0, &key, value),
                     STATUS_NOT_FOUND);
    assert_string_equal(value, ""); /* nothing that looks like a key is left */
    assert_int_equal(kit_key(tenants, slice_of(one.id), SLICE(""), 0, &key, value), STATUS_INVALID);
    assert_int_equal(kit_key(tenants, slice_of(one.id), SLICE("k"), 1, &key, value),
                     STATUS_INVALID);
    assert_string_equal(status_note()->param, "scopes");
    assert_int_equal(kit_key(tenants, SLICE(""), SLICE("k"), 0, &key, value), STATUS_INVALID);
    assert_int_equal(kit_key(tenants, SLICE(""), SLICE("k"), 1u << 5, &key, value), STATUS_INVALID);
}

static void test_standing(void **state)
{
    struct fixture *fixture = *state;
    struct tenant one = create(fixture, "one");
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES];
    char stranger[LIMIT_KEY_BYTES];
    assert_int_equal(kit_key(fixture->tenants, slice_of(one.id), SLICE("k"), 0, &key, value),
                     STATUS_OK);
    api_key_make(false, stranger);
    assert_int_equal(match_key(fixture, value), TENANT_MATCH_OPEN);
    assert_int_equal(match_key(fixture, stranger), TENANT_MATCH_WRONG);
    /* The right id, another secret. */
    uint8_t hash[AUTH_CRYPTO_BYTES] = {0};
    struct principal principal;
    assert_int_equal(tenants_key_match(fixture->tenants, key.id, hash, &principal),
                     TENANT_MATCH_WRONG);
    static const struct {
        const char *sql;
        enum tenant_match match;
    } cases[] = {
        {"update keys set expires_at_s = 1790000001", TENANT_MATCH_OPEN},
        {"update keys set expires_at_s = 1790000000", TENANT_MATCH_EXPIRED}, /* START_S */
        {"update keys set expires_at_s = 0; update tenants set state = 1", TENANT_MATCH_SUSPENDED},
        {"update tenants set state = 2", TENANT_MATCH_ARCHIVED},
        {"update keys set revoked_at_s = 5", TENANT_MATCH_REVOKED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        execute(fixture, cases[i].sql);
        fixture_stop(fixture);
        fixture_start(fixture);
        assert_int_equal(match_key(fixture, value), cases[i].match);
    }
}

static void test_revoke(void **state)
{
    struct fixture *fixture = *state;
    struct tenant one = create(fixture, "one");
    struct tenant two = create(fixture, "two");
    struct tenant_key key;
    struct tenant_key revoked;
    struct tenant_key again;
    char value[LIMIT_KEY_BYTES];
    struct tenants *tenants = fixture->tenants;
    assert_int_equal(kit_key(tenants, slice_of(one.id), SLICE("k"), 0, &key, value), STATUS_OK);
    assert_int_equal(
        tenants_key_revoke(tenants, &change, slice_of(two.id), slice_of(key.id), &revoked),
        STATUS_NOT_FOUND); /* not theirs */
    assert_int_equal(tenants_key_revoke(tenants, &change, SLICE(""), slice_of(key.id), &revoked),
                     STATUS_NOT_FOUND);
    assert_int_equal(match_key(fixture, value), TENANT_MATCH_OPEN);
    assert_int_equal(
        tenants_key_revoke(tenants, &change, slice_of(one.id), slice_of(key.id), &revoked),
        STATUS_OK);
    assert_true(revoked.revoked_at_s > 0);
    assert_int_equal(match_key(fixture, value), TENANT_MATCH_REVOKED);
    assert_int_equal(
        tenants_key_revoke(tenants, &change, slice_of(one.id), slice_of(key.id), &again),
        STATUS_OK);
    assert_int_equal(again.revoked_at_s, revoked.revoked_at_s);
    struct audit_row audit[10];
    size_t count;
    bool has_more;
    assert_int_equal(tenants_audit_list(tenants, &anything, 0, audit, 10, &count, &has_more),
                     STATUS_OK);
    assert_int_equal(count, 4); /* two tenants, a key, one revocation */
}

static void test_audit(void **state)
{
    struct fixture *fixture = *state;
    char name[LIMIT_NAME_BYTES];
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES];
    memset(name, '"', sizeof name - 1); /* the longest that JSON makes of a name */
    name[sizeof name - 1] = '\0';
    struct tenant one = create(fixture, name);
    assert_int_equal(kit_key(fixture->tenants, slice_of(one.id), slice_of(name), 0, &key, value),
                     STATUS_OK);
    assert_int_equal(
        tenants_key_revoke(fixture->tenants, &change, slice_of(one.id), slice_of(key.id), &key),
        STATUS_OK);
    static const char *const types[] = {"tenant.created", "key.created", "key.revoked"};
    int64_t after = 0;
    for (int i = 0; i < 3; i++) {
        struct audit_row row;
        size_t count;
        bool has_more;
        assert_int_equal(
            tenants_audit_list(fixture->tenants, &anything, after, &row, 1, &count, &has_more),
            STATUS_OK);
        assert_int_equal(count, 1);
        assert_int_equal(has_more, i < 2);
        assert_string_equal(row.type, types[i]);
        assert_string_equal(row.actor_key_id, actor.key_id);
        assert_string_equal(row.peer, actor.peer);
        assert_string_equal(row.request_id, actor.request_id);
        assert_string_equal(row.subject, i == 0 ? one.id : key.id);
        assert_true(row.at_us > INT64_C(1700000000000000));
        assert_null(strstr(row.detail, "sk-by-"));
        json_t *detail = json_loads(row.detail, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(detail);
        if (i == 1)
            assert_string_equal(json_string_value(json_object_get(detail, "tenant")), one.id);
        json_decref(detail);
        after = row.id;
    }
}

static void test_secrets_are_not_in_the_file(void **state)
{
    struct fixture *fixture = *state;
    struct tenant one = create(fixture, "one");
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES];
    assert_int_equal(kit_key(fixture->tenants, slice_of(one.id), SLICE("k"), 0, &key, value),
                     STATUS_OK);
    fixture_stop(fixture); /* everything is in the file itself now */
    FILE *file = fopen(fixture->path, "r");
    static char bytes[1 << 20];
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    fixture_start(fixture);
    char secret[API_KEY_SECRET + 1];
    snprintf(secret, sizeof secret, "%.*s", API_KEY_SECRET, value + 6 + API_KEY_PUBLIC + 1);
    assert_non_null(memmem(bytes, length, key.id, strlen(key.id)));
    assert_null(memmem(bytes, length, secret, strlen(secret)));
}

/* A change that the file refuses changes nothing in memory. */
static void test_failed_commit(void **state)
{
    struct fixture *fixture = *state;
    struct tenant one = create(fixture, "one");
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES];
    assert_int_equal(kit_key(fixture->tenants, slice_of(one.id), SLICE("k"), 0, &key, value),
                     STATUS_OK);
    execute(fixture, "create trigger t before insert on audit begin select raise(abort, 'no'); "
                     "end");
    struct tenant tenant;
    struct tenant_key other;
    struct tenants *tenants = fixture->tenants;
    assert_int_equal(kit_tenant(tenants, SLICE("two"), 1, &tenant), STATUS_CONFLICT);
    assert_int_equal(
        tenants_key_revoke(tenants, &change, slice_of(one.id), slice_of(key.id), &other),
        STATUS_CONFLICT);
    assert_int_equal(match_key(fixture, value), TENANT_MATCH_OPEN);
    char refused[LIMIT_KEY_BYTES];
    assert_int_equal(kit_key(tenants, slice_of(one.id), SLICE("k"), 0, &other, refused),
                     STATUS_CONFLICT);
    assert_int_equal(tenants_key_count(tenants), 1);
    execute(fixture, "drop trigger t");
    assert_int_equal(kit_tenant(tenants, SLICE("two"), 1, &tenant), STATUS_OK);
}

static void test_damaged_rows_stop_the_start(void **state)
{
    struct fixture *fixture = *state;
    struct tenant one = create(fixture, "one");
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES];
    assert_int_equal(kit_key(fixture->tenants, slice_of(one.id), SLICE("k"), 0, &key, value),
                     STATUS_OK);
    const struct tenants_options options = options_of(fixture);
    static const char *const damages[][2] = {
        {"update tenants set name = hex(zeroblob(64))", "update tenants set name = 'one'"},
        {"update keys set scopes = -1", "update keys set scopes = 0"},
        {"update keys set revoked_at_s = -1", "update keys set revoked_at_s = 0"},
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        execute(fixture, damages[i][0]);
        struct tenants *tenants;
        assert_int_equal(tenants_open(&tenants, &options), STATUS_CORRUPT);
        assert_null(tenants);
        execute(fixture, damages[i][1]);
    }
    /* A key whose tenant was lost must never come back as an admin key. */
    sqlite3 *connection;
    assert_int_equal(sqlite3_open(fixture->path, &connection), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(connection, "update keys set tenant_id = 'tnt_lost'", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(connection);
    struct tenants *tenants;
    assert_int_equal(tenants_open(&tenants, &options), STATUS_CORRUPT);
}

struct race {
    struct fixture *fixture;
    char id[LIMIT_ID_BYTES];
    int number;
};

static void *change_and_look(void *context)
{
    struct race *race = context;
    for (int i = 0; i < 10; i++) {
        char name[32];
        struct tenant tenant;
        struct tenant_key key;
        struct tenant list[100];
        char value[LIMIT_KEY_BYTES];
        size_t count;
        bool has_more;
        snprintf(name, sizeof name, "t %d %d", race->number, i);
        if (kit_tenant(race->fixture->tenants, slice_of(name), 1, &tenant) != STATUS_OK ||
            kit_key(race->fixture->tenants, slice_of(tenant.id), SLICE("k"), 0, &key, value) !=
                STATUS_OK ||
            match_key(race->fixture, value) != TENANT_MATCH_OPEN ||
            tenants_list(race->fixture->tenants, SLICE(""), list, 100, &count, &has_more) !=
                STATUS_OK ||
            tenants_key_revoke(race->fixture->tenants, &change, slice_of(tenant.id),
                               slice_of(key.id), &key) != STATUS_OK ||
            match_key(race->fixture, value) != TENANT_MATCH_REVOKED)
            return "failed";
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct fixture *fixture = *state;
    pthread_t threads[3];
    struct race races[3];
    for (int i = 0; i < 3; i++) {
        races[i] = (struct race){.fixture = fixture, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, change_and_look, &races[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    struct tenant before[40];
    struct tenant after[40];
    size_t count;
    bool has_more;
    assert_int_equal(tenants_list(fixture->tenants, SLICE(""), before, 40, &count, &has_more),
                     STATUS_OK);
    assert_int_equal(count, 30);
    fixture_stop(fixture);
    fixture_start(fixture);
    assert_int_equal(tenants_list(fixture->tenants, SLICE(""), after, 40, &count, &has_more),
                     STATUS_OK);
    assert_int_equal(count, 30);
    for (int i = 0; i < 30; i++) /* the order in memory is that of the file */
        assert_string_equal(before[i].id, after[i].id);
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct fixture *fixture = *state;
    struct tenants *tenants = fixture->tenants;
    size_t wanted = 0;
    int failures = 0;
    for (int n = 1;; n++) {
        struct tenant tenant;
        struct tenant_key key;
        char name[32];
        char value[LIMIT_KEY_BYTES];
        int left = n;
        snprintf(name, sizeof name, "tenant %d", n);
        mem_hook_set(kit_fail_at, &left);
        enum status status = kit_tenant(tenants, slice_of(name), 1, &tenant);
        enum status second = STATUS_OK;
        if (status == STATUS_OK)
            second = kit_key(tenants, slice_of(tenant.id), SLICE("k"), 0, &key, value);
        mem_hook_set(NULL, NULL);
        wanted += status == STATUS_OK;
        struct tenant list[100];
        size_t count;
        bool has_more;
        assert_int_equal(tenants_list(tenants, SLICE(""), list, 100, &count, &has_more), STATUS_OK);
        assert_int_equal(count, wanted);
        if (left > 0) {
            assert_int_equal(second, STATUS_OK);
            break;
        }
        failures++;
        assert_int_equal(status != STATUS_OK ? status : second, STATUS_NO_MEMORY);
    }
    assert_true(failures >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_create_and_get, setup, teardown),
        cmocka_unit_test_setup_teardown(test_create_is_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_name_of_an_archived_tenant_is_free, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_in_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_key_create_is_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_standing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_revoke, setup, teardown),
        cmocka_unit_test_setup_teardown(test_audit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_secrets_are_not_in_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_rows_stop_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails_at_each_allocation, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
