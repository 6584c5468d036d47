/* issuer: made, changed, deleted, read again; keys inline and in a file; nothing of a secret in the
 * database. */
#include "auth/tenants/issuer.h"

#include <sys/stat.h>

#include "tests/unit/issuer_kit.h"

static struct jwt_kit_key secret_key(const char *kid)
{
    return jwt_kit_make(AUTH_JWT_HS256, kid, 0);
}

static bool has_key(struct issuer_kit *kit, const char *iss, const char *kid, uint64_t *print)
{
    int64_t now_s = clock_wall_us(&kit->base->clock) / 1000000;
    struct issuer_record *record = issuer_record_hold(kit->issuers, slice_of(iss));
    bool is_found = record != NULL && issuer_record_key(record, kid, now_s, print) != NULL;
    if (record != NULL)
        issuer_record_drop(record);
    return is_found;
}

static void test_life(void **state)
{
    struct issuer_kit *kit = *state;
    struct jwt_kit_key keys[2] = {jwt_kit_make(AUTH_JWT_EDDSA, "one", 0), secret_key("two")};
    struct issuer issuer = issuer_kit_make(kit, "idp", "https://a.example", keys, 2);
    struct issuer got;
    uint64_t prints[3];
    assert_memory_equal(issuer.id, "iss_", 4);
    assert_int_equal(issuer.revision, 1);
    assert_int_equal(issuer.key_count, 2);
    assert_string_equal(issuer.keys[1].kid, "two");
    assert_int_equal(issuer.scopes, AUTH_SCOPES_TENANT);
    assert_string_equal(issuer.tenant_claim, "tenant");
    assert_true(has_key(kit, "https://a.example", "one", &prints[0]));
    assert_true(has_key(kit, "https://a.example", "two", &prints[1]));
    assert_false(has_key(kit, "https://a.example", "three", &prints[2]));
    assert_false(has_key(kit, "https://a.example/", "one", &prints[2]));
    assert_true(issuers_has_key(kit->issuers, prints[0]));
    /* One key stays: only the other's print is gone. */
    uint64_t epoch = issuers_epoch(kit->issuers);
    issuer_kit_rotate(kit, &issuer, &keys[1], 1);
    assert_true(issuers_epoch(kit->issuers) != epoch);
    assert_false(issuers_has_key(kit->issuers, prints[0]));
    assert_true(issuers_has_key(kit->issuers, prints[1]));
    issuer_kit_restart(kit);
    assert_int_equal(issuer_get(kit->issuers, slice_of(issuer.id), &got), STATUS_OK);
    assert_int_equal(got.revision, 2);
    assert_int_equal(got.key_count, 1);
    assert_true(issuers_has_key(kit->issuers, prints[1]));
    /* Another rule: another print. */
    const struct issuer_fields fields = {.given = ISSUER_AUDIENCES,
                                         .audiences = SLICE("[\"banyan\",\"b\"]")};
    assert_int_equal(issuer_update(kit->issuers, &change, slice_of(issuer.id), &fields, &got),
                     STATUS_OK);
    assert_int_equal(got.audience_count, 2);
    assert_false(issuers_has_key(kit->issuers, prints[1]));
    assert_int_equal(issuer_delete(kit->issuers, &change, slice_of(issuer.id), &got), STATUS_OK);
    assert_int_equal(issuer_delete(kit->issuers, &change, slice_of(issuer.id), &got),
                     STATUS_NOT_FOUND);
    assert_false(has_key(kit, "https://a.example", "two", &prints[2]));
    assert_int_equal(tenant_kit_number(kit->base, "select count(*) from issuers"), 0);
    assert_int_equal(
        tenant_kit_number(kit->base, "select count(*) from audit where type like 'issuer.%'"), 4);
    jwt_kit_free(&keys[0]);
}

static void refused(struct issuer_kit *kit, const struct issuer_fields *fields, enum status status,
                    const char *param)
{
    struct issuer out;
    int64_t audits = tenant_kit_number(kit->base, "select count(*) from audit");
    assert_int_equal(issuer_create(kit->issuers, &change, fields, &out), status);
    assert_string_equal(status_note()->param, param);
    assert_int_equal(tenant_kit_number(kit->base, "select count(*) from audit"), audits);
}

static void test_bad_fields(void **state)
{
    struct issuer_kit *kit = *state;
    struct jwt_kit_key key = secret_key("a");
    struct buffer json = jwt_kit_jwks(&key, 1);
    const struct issuer_fields good = issuer_kit_fields("n", "i", buffer_slice(&json));
    char text[300];
    memset(text, 'x', sizeof text);
    static const struct {
        unsigned bit;
        const char *param;
    } required[] = {{ISSUER_NAME, "name"},
                    {ISSUER_ISSUER, "issuer"},
                    {ISSUER_AUDIENCES, "audiences"},
                    {ISSUER_ALGORITHMS, "algorithms"},
                    {ISSUER_JWKS, "jwks"}};
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        struct issuer_fields fields = good;
        fields.given &= ~required[i].bit;
        refused(kit, &fields, STATUS_INVALID, required[i].param);
    }
    struct issuer_fields fields = good;
    fields.issuer = (struct slice){text, LIMIT_ISSUER_BYTES};
    refused(kit, &fields, STATUS_OUT_OF_RANGE, "issuer");
    fields = good;
    fields.algorithms = 1u << AUTH_JWT_ALGORITHMS;
    refused(kit, &fields, STATUS_INVALID, "algorithms");
    fields = good;
    fields.algorithms = 1u << AUTH_JWT_ES256; /* the key is another's */
    refused(kit, &fields, STATUS_INVALID, "jwks.keys");
    fields = good;
    fields.given |= ISSUER_SCOPES;
    fields.scopes = AUTH_SCOPE_ADMIN_KEYS | AUTH_SCOPE_INFERENCE;
    refused(kit, &fields, STATUS_INVALID, "scopes");
    fields = good;
    fields.given |= ISSUER_MAX_LIFETIME;
    fields.max_lifetime_s = LIMIT_JWT_LIFETIME_S + 1;
    refused(kit, &fields, STATUS_OUT_OF_RANGE, "max_lifetime_s");
    fields = good;
    fields.given |= ISSUER_TENANTS;
    fields.tenants = SLICE("{\"a\":\"tnt_x\"}");
    refused(kit, &fields, STATUS_NOT_FOUND, "tenants.a");
    fields = good;
    fields.audiences = SLICE("[]");
    refused(kit, &fields, STATUS_OUT_OF_RANGE, "audiences");
    fields = good;
    fields.given |= ISSUER_JWKS_FILE;
    fields.jwks_file = SLICE("f");
    refused(kit, &fields, STATUS_INVALID, "jwks_file");
    fields = good;
    fields.given |= ISSUER_JWKS_REFRESH;
    fields.jwks_refresh_s = 301; /* of keys that are never fetched */
    refused(kit, &fields, STATUS_INVALID, "jwks_refresh_s");
    fields = good;
    fields.given |= ISSUER_JWKS_OVERLAP;
    refused(kit, &fields, STATUS_INVALID, "jwks_overlap_s");
    buffer_deinit(&json);
}

/* Names and iss are unique; the limit; a dry run and another revision change nothing. */
static void test_refusals(void **state)
{
    struct issuer_kit *kit = *state;
    struct jwt_kit_key key = secret_key("a");
    struct buffer json = jwt_kit_jwks(&key, 1);
    struct issuer issuer = issuer_kit_make(kit, "first", "https://first", &key, 1);
    struct issuer out;
    struct issuer_fields fields = issuer_kit_fields("first", "https://b", buffer_slice(&json));
    refused(kit, &fields, STATUS_EXISTS, "name");
    fields = issuer_kit_fields("b", "https://first", buffer_slice(&json));
    refused(kit, &fields, STATUS_EXISTS, "issuer");
    const struct tenant_change dry = {.actor = &actor, .is_dry_run = true};
    fields = issuer_kit_fields("dry", "https://dry", buffer_slice(&json));
    assert_int_equal(issuer_create(kit->issuers, &dry, &fields, &out), STATUS_OK);
    assert_int_equal(out.key_count, 1);
    assert_int_equal(issuer_get(kit->issuers, slice_of(out.id), &out), STATUS_NOT_FOUND);
    const struct tenant_change other = {.actor = &actor, .revision_count = 1, .revisions = {7}};
    assert_int_equal(issuer_delete(kit->issuers, &other, slice_of(issuer.id), &out),
                     STATUS_CHANGED);
    for (int i = 1; i < LIMIT_ISSUERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "https://n%d", i);
        (void)issuer_kit_make(kit, name, name, &key, 1);
    }
    refused(kit, &fields, STATUS_CONFLICT, "");
    struct issuer page[10];
    size_t count;
    bool has_more;
    assert_int_equal(issuer_list(kit->issuers, SLICE(""), page, 10, &count, &has_more), STATUS_OK);
    assert_int_equal(count, 10);
    assert_true(has_more);
    assert_string_equal(page[0].id, issuer.id);
    assert_int_equal(issuer_list(kit->issuers, slice_of(page[9].id), page, 10, &count, &has_more),
                     STATUS_OK);
    assert_string_equal(page[0].name, "https://n10");
    assert_int_equal(issuer_list(kit->issuers, SLICE("iss_x"), page, 10, &count, &has_more),
                     STATUS_INVALID);
    buffer_deinit(&json);
}

/* A secret is in the file only sealed, and sealed for its own issuer. */
static void test_sealed(void **state)
{
    struct issuer_kit *kit = *state;
    struct jwt_kit_key key = secret_key("a");
    struct buffer text;
    struct issuer issuer = issuer_kit_make(kit, "a", "https://a", &key, 1);
    (void)issuer_kit_make(kit, "b", "https://b", &key, 1);
    buffer_init(&text, 128);
    jwt_kit_base64(&text, key.secret, key.secret_bytes);
    char sql[256];
    snprintf(sql, sizeof sql,
             "select count(*) from issuers where instr(cast(jwks as text), '%s') > 0", text.bytes);
    assert_int_equal(tenant_kit_number(kit->base, sql), 0);
    buffer_deinit(&text);
    tenant_kit_execute(kit->base, "update issuers set jwks = (select jwks from issuers where name "
                                  "= 'b') where name = 'a'");
    issuers_close(kit->issuers);
    assert_int_equal(issuers_open(&kit->issuers, kit->base->tenants, kit_pepper, kit->base->folder),
                     STATUS_CORRUPT);
    assert_null(kit->issuers);
    tenant_kit_execute(kit->base, "delete from issuers where name = 'a'");
    issuer_kit_start(kit);
    assert_int_equal(issuer_get(kit->issuers, slice_of(issuer.id), &issuer), STATUS_NOT_FOUND);
}

/* --- files of keys --- */

static void write_keys(struct issuer_kit *kit, const char *name, const char *text, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/jwks", kit->base->folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/jwks/%s", kit->base->folder, name);
    unlink(path);
    if (text == NULL)
        return;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

static void remove_keys(struct issuer_kit *kit)
{
    char path[128];
    snprintf(path, sizeof path, "%s/jwks/idp.json", kit->base->folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/jwks", kit->base->folder);
    assert_int_equal(rmdir(path), 0);
}

static void test_file(void **state)
{
    struct issuer_kit *kit = *state;
    struct jwt_kit_key keys[2] = {secret_key("one"), secret_key("two")};
    struct buffer first = jwt_kit_jwks(keys, 1);
    struct buffer both = jwt_kit_jwks(keys, 2);
    struct issuer_fields fields = issuer_kit_fields("f", "https://f", (struct slice){NULL, 0});
    struct issuer issuer;
    uint64_t print;
    fields.given = (fields.given & ~(unsigned)ISSUER_JWKS) | ISSUER_JWKS_FILE;
    fields.jwks_file = SLICE("../secrets");
    refused(kit, &fields, STATUS_INVALID, "jwks_file");
    fields.jwks_file = SLICE("idp.json");
    refused(kit, &fields, STATUS_INVALID, "jwks_file"); /* it is not there */
    write_keys(kit, "idp.json", first.bytes, 0666);
    refused(kit, &fields, STATUS_INVALID, "jwks_file"); /* anybody could write it */
    write_keys(kit, "idp.json", "{", 0644);
    refused(kit, &fields, STATUS_INVALID, "jwks");
    write_keys(kit, "idp.json", first.bytes, 0644);
    assert_int_equal(issuer_create(kit->issuers, &change, &fields, &issuer), STATUS_OK);
    assert_true(has_key(kit, "https://f", "one", &print));
    assert_int_equal(tenant_kit_number(kit->base, "select length(jwks) from issuers"), 0);
    /* What a token asks for is looked for at once, but not again and again. */
    struct issuer_record *record = issuer_record_hold(kit->issuers, SLICE("https://f"));
    write_keys(kit, "idp.json", both.bytes, 0644);
    assert_int_equal(issuer_record_refresh(kit->issuers, record), ISSUER_NEWS_NONE);
    tenant_kit_pass(kit->base, LIMIT_TOKEN_BAD_S);
    assert_int_equal(issuer_record_refresh(kit->issuers, record), ISSUER_NEWS_KEYS);
    assert_true(has_key(kit, "https://f", "two", &print));
    /* An old record: look again. */
    assert_int_equal(issuer_record_refresh(kit->issuers, record), ISSUER_NEWS_KEYS);
    issuer_record_drop(record);
    /* A file that is gone or broken leaves the keys there were, and says so. */
    write_keys(kit, "idp.json", "[]", 0644);
    issuers_refresh(kit->issuers);
    assert_true(has_key(kit, "https://f", "two", &print));
    assert_int_equal(issuer_get(kit->issuers, slice_of(issuer.id), &issuer), STATUS_OK);
    assert_true(strlen(issuer.jwks_error) > 10);
    write_keys(kit, "idp.json", NULL, 0);
    issuers_refresh(kit->issuers);
    assert_true(issuers_has_key(kit->issuers, print));
    write_keys(kit, "idp.json", both.bytes, 0644);
    issuers_refresh(kit->issuers);
    assert_int_equal(issuer_get(kit->issuers, slice_of(issuer.id), &issuer), STATUS_OK);
    assert_string_equal(issuer.jwks_error, "");
    /* A start without the file: no keys, and no reason not to start. */
    write_keys(kit, "idp.json", NULL, 0);
    issuer_kit_restart(kit);
    assert_false(has_key(kit, "https://f", "two", &print));
    write_keys(kit, "idp.json", both.bytes, 0644);
    issuers_refresh(kit->issuers);
    assert_true(has_key(kit, "https://f", "two", &print));
    /* Keys that are given take the file's place. */
    issuer_kit_rotate(kit, &issuer, keys, 1);
    assert_int_equal(issuer_get(kit->issuers, slice_of(issuer.id), &issuer), STATUS_OK);
    assert_string_equal(issuer.jwks_file, "");
    remove_keys(kit);
    buffer_deinit(&first);
    buffer_deinit(&both);
}

/* Every allocation fails once: the call fails whole, or has happened. */
static void test_no_memory(void **state)
{
    struct issuer_kit *kit = *state;
    struct jwt_kit_key key = secret_key("a");
    struct buffer json = jwt_kit_jwks(&key, 1);
    const struct issuer_fields fields = issuer_kit_fields("a", "https://a", buffer_slice(&json));
    struct issuer issuer;
    enum status status = STATUS_NO_MEMORY;
    for (int nth = 1; status != STATUS_OK; nth++) {
        int left = nth;
        mem_hook_set(kit_fail_at, &left);
        status = issuer_create(kit->issuers, &change, &fields, &issuer);
        mem_hook_set(NULL, NULL);
        assert_int_equal(tenant_kit_number(kit->base, "select count(*) from issuers"),
                         status == STATUS_OK);
        assert_true(nth < 1000);
    }
    status = STATUS_NO_MEMORY;
    for (int nth = 1; status != STATUS_OK; nth++) {
        int left = nth;
        issuers_close(kit->issuers);
        mem_hook_set(kit_fail_at, &left);
        status = issuers_open(&kit->issuers, kit->base->tenants, kit_pepper, kit->base->folder);
        mem_hook_set(NULL, NULL);
        assert_int_equal(kit->issuers != NULL, status == STATUS_OK);
        assert_true(nth < 1000);
    }
    buffer_deinit(&json);
}

static void test_hash(void **state)
{
    struct issuer_kit *kit = *state;
    struct jwt_kit_key key = secret_key("a");
    struct issuer issuer = issuer_kit_make(kit, "a", "https://a", &key, 1);
    char id[LIMIT_ID_BYTES];
    uint8_t hash[16];
    struct issuer_record *record = issuer_record_hold(kit->issuers, SLICE("https://a"));
    memcpy(hash, issuer_record_hash(record), sizeof hash);
    issuer_record_drop(record);
    assert_int_equal(issuers_find_hash(kit->issuers, hash, id), STATUS_OK);
    assert_string_equal(id, issuer.id);
    hash[0] ^= 1;
    assert_int_equal(issuers_find_hash(kit->issuers, hash, id), STATUS_NOT_FOUND);
}

/* Nobody makes or changes an issuer whose admins may do more than they may themselves. */
static void test_admins_of_admins(void **state)
{
    struct issuer_kit *kit = *state;
    struct jwt_kit_key key = secret_key("a");
    struct buffer json = jwt_kit_jwks(&key, 1);
    struct audit_actor lesser = {.key_id = "key_lesser",
                                 .scopes = AUTH_SCOPE_ADMIN_KEYS | AUTH_SCOPE_ADMIN_READ};
    const struct tenant_change by_lesser = {.actor = &lesser};
    struct issuer_fields fields = issuer_kit_fields("a", "https://a", buffer_slice(&json));
    struct issuer issuer, told;
    fields.given |= ISSUER_ADMINS;
    fields.admins = SLICE("{\"ops\":\"admin:read\"}");
    refused(kit, &fields, STATUS_INVALID, "admins"); /* no claim */
    fields.given |= ISSUER_ADMIN_CLAIM;
    fields.admin_claim = SLICE("groups");
    static const char *const wrong[] = {"{\"ops\":\"\"}",
                                        "{\"ops\":\"admin\"}",
                                        "{\"ops\":\"inference\"}",
                                        "{\"ops\":\"priority\"}",
                                        "{\"ops\":\"admin:read \"}",
                                        "{\"ops\":\" admin:read\"}",
                                        "{\"ops\":\"admin:read  usage:read\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fields.admins = slice_of(wrong[i]);
        refused(kit, &fields, STATUS_INVALID, "admins.ops");
    }
    fields.admins = SLICE("{\"ops\":\"admin:read admin:write\"}");
    assert_int_equal(issuer_create(kit->issuers, &by_lesser, &fields, &issuer), STATUS_FORBIDDEN);
    assert_string_equal(status_note()->param, "admins");
    assert_int_equal(issuer_create(kit->issuers, &change, &fields, &issuer), STATUS_OK);
    assert_int_equal(issuer.admin_count, 1);
    /* Not its keys, not its rules, and not by taking the scope away in the same breath. */
    const struct issuer_fields changes[] = {
        {.given = ISSUER_JWKS, .jwks = buffer_slice(&json)},
        {.given = ISSUER_AUDIENCES, .audiences = SLICE("[\"b\"]")},
        {.given = ISSUER_ADMINS, .admins = SLICE("{\"mine\":\"admin:keys\"}")}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        assert_int_equal(
            issuer_update(kit->issuers, &by_lesser, slice_of(issuer.id), &changes[i], &told),
            STATUS_FORBIDDEN);
        assert_string_equal(status_note()->param, "admins");
    }
    issuer_kit_restart(kit);
    assert_int_equal(issuer_get(kit->issuers, slice_of(issuer.id), &told), STATUS_OK);
    assert_string_equal(told.admins[0].value, "ops");
    assert_int_equal(told.admins[0].scopes, AUTH_SCOPE_ADMIN_READ | AUTH_SCOPE_ADMIN_WRITE);
    fields = (struct issuer_fields){.given = ISSUER_ADMINS,
                                    .admins = SLICE("{\"ops\":\"admin:read admin:keys\"}")};
    assert_int_equal(issuer_update(kit->issuers, &change, slice_of(issuer.id), &fields, &told),
                     STATUS_OK);
    assert_int_equal(
        issuer_update(kit->issuers, &by_lesser, slice_of(issuer.id), &changes[0], &told),
        STATUS_OK);
    buffer_deinit(&json);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, issuer_kit_setup, issuer_kit_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_life), TEST(test_bad_fields), TEST(test_refusals), TEST(test_sealed),
        TEST(test_file), TEST(test_no_memory),  TEST(test_hash),     TEST(test_admins_of_admins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
