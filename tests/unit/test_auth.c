#include "auth/auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <stdio.h>

#include "auth/credential/api_key.h"
#include "auth/credential/auth_file.h"
#include "auth/credential/auth_secrets.h"
#include "auth/identity/auth_refusals.h"
#include "config/base/hash.h"
#include "config/base/mem.h"
#include "tests/unit/tenant_kit.h"

struct fixture {
    char folder[64];
    char database[96];
    struct store *store;
    struct auth *auth;
};

static void fixture_start(struct fixture *fixture)
{
    assert_int_equal(store_open(&fixture->store, fixture->database), STATUS_OK);
    assert_int_equal(auth_open(&fixture->auth, fixture->folder, fixture->store), STATUS_OK);
}

static void fixture_stop(struct fixture *fixture)
{
    auth_close(fixture->auth);
    store_close(fixture->store);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    snprintf(fixture->folder, sizeof fixture->folder, "/tmp/test_auth.XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->database, sizeof fixture->database, "%s/banyan.db", fixture->folder);
    fixture_start(fixture);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"banyan.db", "banyan.db-wal", "banyan.db-shm",
                                        "secrets",   "admin.key",     "moved"};
    struct fixture *fixture = *state;
    fixture_stop(fixture);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", fixture->folder, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(fixture->folder), 0); /* nothing else was left behind */
    free(fixture);
    return 0;
}

static void make_tenant(struct fixture *fixture, const char *name, struct tenant *tenant,
                        char value[LIMIT_KEY_BYTES])
{
    struct tenants *tenants = auth_tenants(fixture->auth);
    struct tenant_key key;
    assert_int_equal(kit_tenant(tenants, slice_of(name), 100, tenant), STATUS_OK);
    assert_int_equal(kit_key(tenants, slice_of(tenant->id), SLICE("k"), 0, &key, value), STATUS_OK);
}

static enum status authenticate(struct fixture *fixture, struct slice text, bool want_admin,
                                struct principal *out)
{
    return auth_authenticate(fixture->auth, &(struct auth_credential){.text = text}, want_admin,
                             out);
}

static void read_admin_key(struct fixture *fixture, char value[LIMIT_KEY_BYTES])
{
    char path[128];
    snprintf(path, sizeof path, "%s/admin.key", fixture->folder);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(value, LIMIT_KEY_BYTES, file));
    fclose(file);
    value[strcspn(value, "\n")] = '\0';
}

static void test_two_tenants(void **state)
{
    struct fixture *fixture = *state;
    struct tenant one;
    struct tenant two;
    char key_one[LIMIT_KEY_BYTES];
    char key_two[LIMIT_KEY_BYTES];
    make_tenant(fixture, "one", &one, key_one);
    make_tenant(fixture, "two", &two, key_two);
    struct principal p1;
    struct principal p2;
    assert_int_equal(authenticate(fixture, slice_of(key_one), false, &p1), STATUS_OK);
    assert_int_equal(authenticate(fixture, slice_of(key_two), false, &p2), STATUS_OK);
    assert_string_equal(p1.tenant_id, one.id);
    assert_string_equal(p2.tenant_id, two.id);
    assert_false(p1.is_admin);
    assert_int_equal(p1.scopes, AUTH_SCOPES_TENANT);
    assert_int_equal(p1.weight, 100);
    assert_memory_not_equal(p1.domain, p2.domain, 16);
    assert_memory_not_equal(p1.tenant_hash, p2.tenant_hash, 16);
    assert_memory_not_equal(p1.tenant_hash, p1.domain, 16);

    /* The same after a restart: names before the engine are stable. */
    fixture_stop(fixture);
    fixture_start(fixture);
    struct principal again;
    assert_int_equal(authenticate(fixture, slice_of(key_one), false, &again), STATUS_OK);
    assert_memory_equal(again.domain, p1.domain, 16);
    assert_memory_equal(again.tenant_hash, p1.tenant_hash, 16);
    assert_string_equal(again.key_id, p1.key_id);
}

/* What the engine's records carry is what it was told: HMACs under the server's secret, from which
 * nobody else gets an id, and from which the server does in one look-up. */
static void test_account_of_a_record(void **state)
{
    struct fixture *fixture = *state;
    struct tenant tenants[3];
    struct principal principals[3];
    char value[LIMIT_KEY_BYTES];
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        make_tenant(fixture, name, &tenants[i], value);
        assert_int_equal(authenticate(fixture, slice_of(value), false, &principals[i]), STATUS_OK);
    }
    struct auth_secrets secrets;
    uint8_t mac[AUTH_CRYPTO_BYTES];
    char message[64];
    assert_int_equal(auth_secrets_read(fixture->folder, &secrets), STATUS_OK);
    snprintf(message, sizeof message, "key:%s", principals[0].key_id);
    assert_int_equal(auth_crypto_hmac(secrets.domain, slice_of(message), mac), STATUS_OK);
    assert_memory_equal(mac, principals[0].key_hash, 16);
    snprintf(message, sizeof message, "tenant:%s", principals[0].tenant_id);
    assert_int_equal(auth_crypto_hmac(secrets.domain, slice_of(message), mac), STATUS_OK);
    assert_memory_equal(mac, principals[0].tenant_hash, 16);
    for (int restart = 0; restart < 2; restart++) {
        char tenant_id[LIMIT_ID_BYTES] = "untouched";
        char key_id[LIMIT_ID_BYTES] = "untouched";
        /* One tenant's name with another's key is nobody. */
        assert_int_equal(auth_find_account(fixture->auth, principals[0].tenant_hash,
                                           principals[1].key_hash, tenant_id, key_id),
                         STATUS_NOT_FOUND);
        assert_int_equal(auth_find_account(fixture->auth, principals[0].tenant_hash,
                                           principals[0].tenant_hash, tenant_id, key_id),
                         STATUS_NOT_FOUND);
        assert_string_equal(tenant_id, "untouched");
        for (int i = 0; i < 3; i++) {
            assert_int_equal(auth_find_account(fixture->auth, principals[i].tenant_hash,
                                               principals[i].key_hash, tenant_id, key_id),
                             STATUS_OK);
            assert_string_equal(tenant_id, tenants[i].id);
            assert_string_equal(key_id, principals[i].key_id);
        }
        /* Also after a revocation, and after a restart. */
        struct tenant_key key;
        assert_int_equal(tenants_key_revoke(auth_tenants(fixture->auth), &change,
                                            slice_of(tenants[2].id), slice_of(key_id), &key),
                         STATUS_OK);
        fixture_stop(fixture);
        fixture_start(fixture);
    }
}

static void test_refusals(void **state)
{
    struct fixture *fixture = *state;
    struct tenant tenant;
    struct principal principal;
    char key[LIMIT_KEY_BYTES];
    make_tenant(fixture, "one", &tenant, key);
    assert_int_equal(authenticate(fixture, SLICE(""), false, &principal), STATUS_KEY_MISSING);
    assert_int_equal(authenticate(fixture, SLICE("sk-other"), false, &principal),
                     STATUS_KEY_INVALID);
    assert_non_null(strstr(status_note()->message, "form"));

    key[20] = key[20] == 'a' ? 'b' : 'a';
    assert_int_equal(authenticate(fixture, slice_of(key), false, &principal), STATUS_KEY_INVALID);
    assert_non_null(strstr(status_note()->message, "mistyped"));

    char stranger[LIMIT_KEY_BYTES];
    api_key_make(false, stranger);
    assert_int_equal(authenticate(fixture, slice_of(stranger), false, &principal),
                     STATUS_KEY_INVALID);
    assert_string_equal(status_note()->message, "the API key is not valid");
    assert_null(strstr(status_note()->message, stranger));
}

/* The right public id with another secret and check digits that fit: only the hash can tell. */
static void test_other_secret(void **state)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    struct fixture *fixture = *state;
    struct tenant tenant;
    struct principal principal;
    struct api_key read;
    char key[LIMIT_KEY_BYTES];
    char forged[LIMIT_KEY_BYTES];
    make_tenant(fixture, "one", &tenant, key);
    api_key_make(false, forged);
    memcpy(forged + 6, key + 6, API_KEY_PUBLIC);
    size_t before = strlen(forged) - API_KEY_CHECK - 1;
    uint32_t crc = hash_crc32(forged, before);
    for (size_t i = API_KEY_CHECK; i > 0; i--, crc /= 62)
        forged[before + i] = digits[crc % 62];
    assert_int_equal(api_key_read(slice_of(forged), &read), STATUS_OK);
    assert_int_equal(authenticate(fixture, slice_of(forged), false, &principal),
                     STATUS_KEY_INVALID);
    assert_string_equal(status_note()->message, "the API key is not valid");
    assert_int_equal(authenticate(fixture, slice_of(key), false, &principal), STATUS_OK);
}

static void test_revoked(void **state)
{
    struct fixture *fixture = *state;
    struct tenant tenant;
    struct principal principal;
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES];
    make_tenant(fixture, "one", &tenant, value);
    assert_int_equal(authenticate(fixture, slice_of(value), false, &principal), STATUS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tenants_key_revoke(auth_tenants(fixture->auth), &change,
                                            slice_of(tenant.id), slice_of(principal.key_id), &key),
                         STATUS_OK);
    assert_int_equal(authenticate(fixture, slice_of(value), false, &principal), STATUS_KEY_INVALID);
    assert_string_equal(status_note()->message, "the API key is not valid");
    fixture_stop(fixture);
    fixture_start(fixture);
    assert_int_equal(authenticate(fixture, slice_of(value), false, &principal), STATUS_KEY_INVALID);
}

static void test_bootstrap(void **state)
{
    struct fixture *fixture = *state;
    struct principal principal;
    char value[LIMIT_KEY_BYTES];
    bool made;
    assert_int_equal(auth_bootstrap(fixture->auth, fixture->folder, &made), STATUS_OK);
    assert_true(made);
    read_admin_key(fixture, value);
    assert_int_equal(authenticate(fixture, slice_of(value), true, &principal), STATUS_OK);
    assert_true(principal.is_admin);
    assert_int_equal(principal.scopes, AUTH_SCOPES_ADMIN);
    assert_string_equal(principal.tenant_id, "");
    assert_int_equal(authenticate(fixture, slice_of(value), false, &principal), STATUS_KEY_INVALID);

    /* Not again, also after a restart … */
    assert_int_equal(auth_bootstrap(fixture->auth, fixture->folder, &made), STATUS_OK);
    assert_false(made);
    fixture_stop(fixture);
    fixture_start(fixture);
    assert_int_equal(auth_bootstrap(fixture->auth, fixture->folder, &made), STATUS_OK);
    assert_false(made);

    /* … but when nobody could make keys any more. Over the directory that cannot come about; by an
     * end that has passed, or by hand, it can. */
    struct tenant_key key;
    struct sqlite3 *connection;
    assert_int_equal(tenants_key_revoke(auth_tenants(fixture->auth), &change, SLICE(""),
                                        slice_of(principal.key_id), &key),
                     STATUS_CONFLICT);
    assert_int_equal(store_begin(fixture->store, &connection), STATUS_OK);
    assert_int_equal(store_execute(connection, "update keys set expires_at_s = 1000"), STATUS_OK);
    assert_int_equal(store_end(fixture->store, true), STATUS_OK);
    fixture_stop(fixture);
    fixture_start(fixture);
    assert_int_equal(auth_bootstrap(fixture->auth, fixture->folder, &made), STATUS_OK);
    assert_true(made);
    char second[LIMIT_KEY_BYTES];
    read_admin_key(fixture, second);
    assert_string_not_equal(value, second);
}

/* admin.key opens something at every moment: a key whose row could not be made does not replace it,
 * and one whose process ended before the file had its place gets the place at the next start. */
static void test_admin_key_file(void **state)
{
    struct fixture *fixture = *state;
    struct tenant_key key;
    char first[LIMIT_KEY_BYTES];
    char value[LIMIT_KEY_BYTES];
    char longest[LIMIT_NAME_BYTES + 1] = "";
    bool made;
    assert_int_equal(auth_bootstrap(fixture->auth, fixture->folder, &made), STATUS_OK);
    read_admin_key(fixture, first);
    memset(longest, 'x', LIMIT_NAME_BYTES);
    assert_int_equal(
        auth_admin_key_make(fixture->auth, fixture->folder, slice_of(longest), "here", &key),
        STATUS_INVALID);
    read_admin_key(fixture, value);
    assert_string_equal(value, first);

    static const char stranger[] = "sk-by-nobody's\n";
    assert_int_equal(auth_file_write(fixture->folder, "admin.key.next", slice_of(stranger), false),
                     STATUS_OK);
    assert_int_equal(auth_bootstrap(fixture->auth, fixture->folder, &made), STATUS_OK);
    read_admin_key(fixture, value);
    assert_string_equal(value, first);

    assert_int_equal(
        auth_admin_key_make(fixture->auth, fixture->folder, SLICE("next"), "here", &key),
        STATUS_OK);
    read_admin_key(fixture, value);
    assert_string_not_equal(value, first);
    assert_int_equal(auth_file_rename(fixture->folder, "admin.key", "admin.key.next"), STATUS_OK);
    assert_int_equal(auth_file_write(fixture->folder, "admin.key", slice_of(first), false),
                     STATUS_OK);
    assert_int_equal(auth_bootstrap(fixture->auth, fixture->folder, &made), STATUS_OK);
    assert_false(made);
    read_admin_key(fixture, first);
    assert_string_equal(first, value); /* teardown: nothing else was left behind */
}

/* A look counts nothing, whatever it finds. */
static void test_a_look_counts_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct principal principal;
    const struct auth_credential strange = {.text = SLICE("sk-by-nonsense")};
    assert_int_equal(auth_look(fixture->auth, &strange, false, &principal), STATUS_KEY_INVALID);
    assert_int_equal(auth_look(fixture->auth, &(struct auth_credential){0}, false, &principal),
                     STATUS_KEY_MISSING);
    for (int i = 1; i < AUTH_REFUSALS; i++)
        assert_int_equal(auth_refused_count(fixture->auth, (enum auth_refusal)i), 0);
    assert_int_equal(auth_authenticate(fixture->auth, &strange, false, &principal),
                     STATUS_KEY_INVALID);
    assert_int_equal(auth_refused_count(fixture->auth, AUTH_REFUSAL_APIKEY_FORM), 1);
}

/* What a principal may, looked at again: what was taken from it is gone. */
static void test_refresh(void **state)
{
    struct fixture *fixture = *state;
    struct tenants *tenants = auth_tenants(fixture->auth);
    struct tenant tenant;
    struct tenant_key key;
    struct principal principal;
    char value[LIMIT_KEY_BYTES];
    make_tenant(fixture, "one", &tenant, value);
    assert_int_equal(authenticate(fixture, slice_of(value), false, &principal), STATUS_OK);
    assert_int_equal(auth_refresh(fixture->auth, &principal), STATUS_OK);
    const struct tenant_key_fields scopes = {.given = TENANT_KEY_SCOPES,
                                             .scopes = AUTH_SCOPE_USAGE_READ};
    assert_int_equal(tenants_key_update(tenants, &change, slice_of(tenant.id),
                                        slice_of(principal.key_id), &scopes, &key),
                     STATUS_OK);
    assert_int_equal(auth_refresh(fixture->auth, &principal), STATUS_OK);
    assert_int_equal(principal.scopes, AUTH_SCOPE_USAGE_READ);
    const struct tenant_fields suspended = {.given = TENANT_STATE, .state = TENANT_SUSPENDED};
    assert_int_equal(tenants_update(tenants, &change, slice_of(tenant.id), &suspended, &tenant),
                     STATUS_OK);
    assert_int_equal(auth_refresh(fixture->auth, &principal), STATUS_FORBIDDEN);
    assert_int_equal(tenants_archive(tenants, &change, slice_of(tenant.id), &tenant), STATUS_OK);
    assert_int_equal(auth_refresh(fixture->auth, &principal), STATUS_KEY_INVALID);
    struct principal nobody = {.key_id = "key_nobody"};
    assert_int_equal(auth_refresh(fixture->auth, &nobody), STATUS_KEY_INVALID);
}

static void test_tenant_key_opens_no_admin_face(void **state)
{
    struct fixture *fixture = *state;
    struct tenant tenant;
    struct principal principal;
    char value[LIMIT_KEY_BYTES];
    make_tenant(fixture, "one", &tenant, value);
    assert_int_equal(authenticate(fixture, slice_of(value), true, &principal), STATUS_KEY_INVALID);
}

static void test_lost_secrets_stop_the_start(void **state)
{
    struct fixture *fixture = *state;
    struct tenant tenant;
    char value[LIMIT_KEY_BYTES];
    char path[128];
    char moved[128];
    snprintf(path, sizeof path, "%s/secrets", fixture->folder);
    snprintf(moved, sizeof moved, "%s/moved", fixture->folder);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    make_tenant(fixture, "one", &tenant, value);
    auth_close(fixture->auth);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(auth_open(&fixture->auth, fixture->folder, fixture->store), STATUS_CORRUPT);
    assert_null(fixture->auth);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rename(moved, path), 0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(auth_open(&fixture->auth, fixture->folder, fixture->store), STATUS_FORBIDDEN);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(auth_open(&fixture->auth, fixture->folder, fixture->store), STATUS_OK);
    struct principal principal;
    assert_int_equal(authenticate(fixture, slice_of(value), false, &principal), STATUS_OK);
}

/* Every allocation of an opening fails once: an error each time, nothing leaked (ASan says). */
static int fail_at(void *context, size_t bytes)
{
    int *left = context;
    (void)bytes;
    return --*left == 0;
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct fixture *fixture = *state;
    struct tenant tenant;
    char value[LIMIT_KEY_BYTES];
    make_tenant(fixture, "one", &tenant, value);
    fixture_stop(fixture);
    int failures = 0;
    for (int n = 1;; n++) {
        int left = n;
        enum status status;
        mem_hook_set(fail_at, &left);
        status = store_open(&fixture->store, fixture->database);
        if (status == STATUS_OK) {
            status = auth_open(&fixture->auth, fixture->folder, fixture->store);
            if (status != STATUS_OK)
                store_close(fixture->store);
        }
        mem_hook_set(NULL, NULL);
        if (left > 0) {
            assert_int_equal(status, STATUS_OK);
            break;
        }
        if (status == STATUS_OK) { /* the folder's name: made already */
            fixture_stop(fixture);
            continue;
        }
        assert_int_equal(status, STATUS_NO_MEMORY);
        failures++;
    }
    assert_true(failures >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_tenants, setup, teardown),
        cmocka_unit_test_setup_teardown(test_account_of_a_record, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_secret, setup, teardown),
        cmocka_unit_test_setup_teardown(test_revoked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bootstrap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_admin_key_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_look_counts_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refresh, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tenant_key_opens_no_admin_face, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_secrets_stop_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails_at_each_allocation, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
