/* certificate: made, changed, revoked, read again; whose a certificate is, by fingerprint and by
 * name; rows that do not fit. */
#include "auth/tenants/certificate.h"

#include "auth/tenants/certificate_auth.h"
#include "auth/tenants/tenant_directory.h"
#include "tests/unit/certificate_kit.h"

static void test_fingerprint(void **state)
{
    struct certificate_kit *kit = *state;
    struct certificate row, got;
    struct peer_certificate peer = certificate_kit_peer(1);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_WRONG);
    row =
        certificate_kit_make(kit, kit->tenant.id, CERTIFICATE_FINGERPRINT, certificate_kit_hex(1));
    assert_memory_equal(row.id, "crt_", 4);
    assert_int_equal(row.revision, 1);
    assert_int_equal(row.scopes, AUTH_SCOPES_TENANT);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    assert_false(kit->principal.is_admin);
    assert_string_equal(kit->principal.tenant_id, kit->tenant.id);
    assert_string_equal(kit->principal.key_id, row.id);
    assert_int_equal(kit->principal.scopes, AUTH_SCOPES_TENANT);
    assert_int_equal(kit->principal.visible_count, 1);
    char id[LIMIT_ID_BYTES];
    assert_int_equal(certificates_find_hash(kit->certificates, kit->principal.key_hash, id),
                     STATUS_OK);
    assert_string_equal(id, row.id);
    peer = certificate_kit_peer(2);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_WRONG);
    /* Over a restart; then revoked at once and for ever. */
    certificate_kit_restart(kit);
    peer = certificate_kit_peer(1);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    assert_int_equal(certificate_revoke(kit->certificates, &change, slice_of(kit->tenant.id),
                                        slice_of(row.id), &got),
                     STATUS_OK);
    assert_int_equal(got.revision, 2);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_REVOKED);
    assert_int_equal(certificates_standing(kit->certificates, row.id, &kit->principal),
                     TENANT_MATCH_REVOKED);
    assert_int_equal(certificate_revoke(kit->certificates, &change, slice_of(kit->tenant.id),
                                        slice_of(row.id), &got),
                     STATUS_OK);
    assert_int_equal(got.revision, 2);
    struct certificate_fields fields =
        certificate_kit_fields(CERTIFICATE_FINGERPRINT, certificate_kit_hex(1));
    assert_int_equal(
        certificate_create(kit->certificates, &change, slice_of(kit->tenant.id), &fields, &got),
        STATUS_EXISTS);
    certificate_kit_restart(kit);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_REVOKED);
}

static void test_names(void **state)
{
    struct certificate_kit *kit = *state;
    struct certificate got;
    struct tenant other = tenant_kit_tenant(kit->base, "other");
    struct certificate uri =
        certificate_kit_make(kit, kit->tenant.id, CERTIFICATE_URI, "spiffe://example.org/A");
    struct certificate dns =
        certificate_kit_make(kit, other.id, CERTIFICATE_DNS, "Agent.Example.org");
    assert_string_equal(dns.value, "agent.example.org");
    struct peer_certificate peer = certificate_kit_peer(1);
    certificate_kit_name(&peer, PEER_NAME_DNS, "elsewhere.example.org");
    certificate_kit_name(&peer, PEER_NAME_URI, "spiffe://example.org/A");
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    assert_string_equal(kit->principal.key_id, uri.id);
    /* Of the other kind, of another case, longer, shorter: another name. */
    static const struct {
        enum peer_name_kind kind;
        const char *name;
    } others[] = {
        {PEER_NAME_DNS, "spiffe://example.org/A"},  {PEER_NAME_URI, "spiffe://example.org/a"},
        {PEER_NAME_URI, "spiffe://example.org/A/"}, {PEER_NAME_URI, "spiffe://example.org/"},
        {PEER_NAME_URI, "agent.example.org"},       {PEER_NAME_DNS, "example.org"},
        {PEER_NAME_DNS, "x.agent.example.org"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct peer_certificate stranger = certificate_kit_peer(2);
        certificate_kit_name(&stranger, others[i].kind, others[i].name);
        assert_int_equal(certificate_kit_match(kit, &stranger), TENANT_MATCH_WRONG);
        assert_false(kit->is_ambiguous);
    }
    /* Names of two rows say nothing; a row of its own fingerprint does. */
    certificate_kit_name(&peer, PEER_NAME_DNS, "agent.example.org");
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_WRONG);
    assert_true(kit->is_ambiguous);
    struct certificate own =
        certificate_kit_make(kit, other.id, CERTIFICATE_FINGERPRINT, certificate_kit_hex(1));
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    assert_string_equal(kit->principal.key_id, own.id);
    /* One certificate of a name is revoked alone. */
    assert_int_equal(
        certificate_revoke(kit->certificates, &change, slice_of(other.id), slice_of(own.id), &got),
        STATUS_OK);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_REVOKED);
    struct peer_certificate sister = certificate_kit_peer(3);
    certificate_kit_name(&sister, PEER_NAME_URI, "spiffe://example.org/A");
    assert_int_equal(certificate_kit_match(kit, &sister), TENANT_MATCH_OPEN);
    /* A revoked name's may be given to another tenant, again and again. */
    for (int round = 0; round < 3; round++) {
        assert_int_equal(certificate_revoke(kit->certificates, &change, slice_of(uri.tenant_id),
                                            slice_of(uri.id), &got),
                         STATUS_OK);
        assert_int_equal(certificate_kit_match(kit, &sister), TENANT_MATCH_REVOKED);
        uri = certificate_kit_make(kit, other.id, CERTIFICATE_URI, "spiffe://example.org/A");
        certificate_kit_restart(kit);
        assert_int_equal(certificate_kit_match(kit, &sister), TENANT_MATCH_OPEN);
        assert_string_equal(kit->principal.key_id, uri.id);
        assert_string_equal(kit->principal.tenant_id, other.id);
    }
}

static void test_states(void **state)
{
    struct certificate_kit *kit = *state;
    struct certificate got;
    struct tenant tenant;
    struct peer_certificate peer = certificate_kit_peer(1);
    struct certificate row =
        certificate_kit_make(kit, kit->tenant.id, CERTIFICATE_FINGERPRINT, certificate_kit_hex(1));
    struct certificate_fields fields = {.given = CERTIFICATE_EXPIRES | CERTIFICATE_LABEL |
                                                 CERTIFICATE_SCOPES,
                                        .label = SLICE("laptop"),
                                        .scopes = AUTH_SCOPE_INFERENCE,
                                        .expires_at_s = KIT_START_S + 100};
    struct slice owner = slice_of(kit->tenant.id);
    assert_int_equal(
        certificate_update(kit->certificates, &change, owner, slice_of(row.id), &fields, &got),
        STATUS_OK);
    assert_int_equal(got.revision, 2);
    assert_int_equal(
        certificate_update(kit->certificates, &change, owner, slice_of(row.id), &fields, &got),
        STATUS_OK);
    assert_int_equal(got.revision, 2); /* nothing changed */
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    assert_int_equal(kit->principal.scopes, AUTH_SCOPE_INFERENCE);
    tenant_kit_pass(kit->base, 99);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    tenant_kit_pass(kit->base, 1);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_EXPIRED);
    fields.expires_at_s = 0;
    assert_int_equal(
        certificate_update(kit->certificates, &change, owner, slice_of(row.id), &fields, &got),
        STATUS_OK);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    const struct tenant_fields suspend = {.given = TENANT_STATE, .state = TENANT_SUSPENDED};
    assert_int_equal(tenants_update(kit->base->tenants, &change, owner, &suspend, &tenant),
                     STATUS_OK);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_SUSPENDED);
    assert_int_equal(tenants_archive(kit->base->tenants, &change, owner, &tenant), STATUS_OK);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_ARCHIVED);
    struct certificate_fields more = certificate_kit_fields(CERTIFICATE_URI, "urn:x");
    assert_int_equal(certificate_create(kit->certificates, &change, owner, &more, &got),
                     STATUS_CONFLICT);
    assert_int_equal(
        certificate_update(kit->certificates, &change, owner, slice_of(row.id), &fields, &got),
        STATUS_CONFLICT);
    certificate_kit_restart(kit);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_ARCHIVED);
}

static void test_admins(void **state)
{
    struct certificate_kit *kit = *state;
    struct certificate row;
    struct peer_certificate peer = certificate_kit_peer(1);
    struct certificate_fields fields =
        certificate_kit_fields(CERTIFICATE_FINGERPRINT, certificate_kit_hex(1));
    assert_int_equal(certificate_create(kit->certificates, &change, SLICE(""), &fields, &row),
                     STATUS_INVALID); /* an admin's scopes are said */
    fields.given |= CERTIFICATE_SCOPES;
    fields.scopes = AUTH_SCOPE_INFERENCE;
    assert_int_equal(certificate_create(kit->certificates, &change, SLICE(""), &fields, &row),
                     STATUS_INVALID);
    fields.scopes = AUTH_SCOPE_ADMIN_READ | AUTH_SCOPE_ADMIN_KEYS;
    const struct audit_actor weak = {.key_id = "key_weak", .scopes = AUTH_SCOPE_ADMIN_KEYS};
    const struct tenant_change by_weak = {.actor = &weak};
    assert_int_equal(certificate_create(kit->certificates, &by_weak, SLICE(""), &fields, &row),
                     STATUS_FORBIDDEN);
    fields.given |= CERTIFICATE_EXPIRES;
    fields.expires_at_s = KIT_START_S + 10;
    assert_int_equal(certificate_create(kit->certificates, &change, SLICE(""), &fields, &row),
                     STATUS_OK);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    assert_true(kit->principal.is_admin);
    assert_string_equal(kit->principal.tenant_id, "");
    assert_int_equal(kit->principal.scopes, fields.scopes);
    assert_int_equal(kit->principal.visible_count, 0);
    fields.given = CERTIFICATE_EXPIRES;
    fields.expires_at_s = 0;
    assert_int_equal(
        certificate_update(kit->certificates, &by_weak, SLICE(""), slice_of(row.id), &fields, &row),
        STATUS_FORBIDDEN);
    /* A tenant's path does not lead to it. */
    struct certificate got;
    assert_int_equal(
        certificate_get(kit->certificates, slice_of(kit->tenant.id), slice_of(row.id), &got),
        STATUS_NOT_FOUND);
    assert_int_equal(certificate_revoke(kit->certificates, &change, slice_of(kit->tenant.id),
                                        slice_of(row.id), &got),
                     STATUS_NOT_FOUND);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
}

static void test_bad_fields(void **state)
{
    struct certificate_kit *kit = *state;
    struct certificate got;
    struct slice owner = slice_of(kit->tenant.id);
    char long_uri[LIMIT_PEER_NAME_BYTES + 1];
    memset(long_uri, 'a', sizeof long_uri);
    memcpy(long_uri, "urn:", 4);
    long_uri[LIMIT_PEER_NAME_BYTES] = '\0';
    const struct {
        enum certificate_match match;
        const char *value;
        enum status status;
    } rows[] = {
        {CERTIFICATE_FINGERPRINT, "", STATUS_INVALID},
        {CERTIFICATE_FINGERPRINT, "abcd", STATUS_INVALID},
        {CERTIFICATE_FINGERPRINT, "zz", STATUS_INVALID},
        {CERTIFICATE_URI, "", STATUS_OUT_OF_RANGE},
        {CERTIFICATE_URI, "no scheme", STATUS_INVALID},
        {CERTIFICATE_URI, "noscheme", STATUS_INVALID},
        {CERTIFICATE_URI, "urn:a\tb", STATUS_INVALID},
        {CERTIFICATE_URI, "urn:\xc3\xa4", STATUS_INVALID},
        {CERTIFICATE_URI, long_uri, STATUS_OUT_OF_RANGE},
        {CERTIFICATE_DNS, "*.example.org", STATUS_INVALID},
        {CERTIFICATE_DNS, "a b", STATUS_INVALID},
        {CERTIFICATE_DNS, "a/b", STATUS_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct certificate_fields fields = certificate_kit_fields(rows[i].match, rows[i].value);
        if (certificate_create(kit->certificates, &change, owner, &fields, &got) != rows[i].status)
            fail_msg("%d '%s'", (int)rows[i].match, rows[i].value);
        assert_string_equal(status_note()->param, certificate_match_name(rows[i].match));
    }
    struct certificate_fields fields = {.given = CERTIFICATE_LABEL, .label = SLICE("x")};
    assert_int_equal(certificate_create(kit->certificates, &change, owner, &fields, &got),
                     STATUS_INVALID);
    fields = certificate_kit_fields(CERTIFICATE_URI, "urn:x");
    assert_int_equal(
        certificate_create(kit->certificates, &change, SLICE("tnt_nobody"), &fields, &got),
        STATUS_NOT_FOUND);
    fields.given |= CERTIFICATE_EXPIRES;
    fields.expires_at_s = KIT_START_S;
    assert_int_equal(certificate_create(kit->certificates, &change, owner, &fields, &got),
                     STATUS_OUT_OF_RANGE);
    /* At the limit; with colons and in capitals; twice is refused; a dry run leaves nothing. */
    long_uri[LIMIT_PEER_NAME_BYTES - 1] = '\0';
    fields = certificate_kit_fields(CERTIFICATE_URI, long_uri);
    const struct tenant_change dry = {.actor = &actor, .is_dry_run = true};
    assert_int_equal(certificate_create(kit->certificates, &dry, owner, &fields, &got), STATUS_OK);
    assert_int_equal(certificate_create(kit->certificates, &change, owner, &fields, &got),
                     STATUS_OK);
    assert_int_equal(certificate_create(kit->certificates, &change, owner, &fields, &got),
                     STATUS_EXISTS);
    char colons[96] = "";
    for (int i = 0; i < 32; i++)
        snprintf(colons + 3 * i, sizeof colons - 3 * (size_t)i, i < 31 ? "0A:" : "0A");
    fields = certificate_kit_fields(CERTIFICATE_FINGERPRINT, colons);
    assert_int_equal(certificate_create(kit->certificates, &change, owner, &fields, &got),
                     STATUS_OK);
    assert_memory_equal(got.value, "0a0a0a", 6);
    assert_int_equal(strlen(got.value), 64);
    colons[1] = ':';
    fields = certificate_kit_fields(CERTIFICATE_FINGERPRINT, colons);
    assert_int_equal(certificate_create(kit->certificates, &change, owner, &fields, &got),
                     STATUS_INVALID);
}

static void test_lists(void **state)
{
    enum { ROWS = 25 };
    struct certificate_kit *kit = *state;
    struct tenant other = tenant_kit_tenant(kit->base, "other");
    struct certificate page[10];
    char after[LIMIT_ID_BYTES] = "";
    size_t count, seen = 0;
    bool has_more = true;
    for (unsigned i = 0; i < ROWS; i++) {
        (void)certificate_kit_make(kit, kit->tenant.id, CERTIFICATE_FINGERPRINT,
                                   certificate_kit_hex(2 * i));
        (void)certificate_kit_make(kit, other.id, CERTIFICATE_FINGERPRINT,
                                   certificate_kit_hex(2 * i + 1));
    }
    while (has_more) {
        assert_int_equal(certificate_list(kit->certificates, slice_of(other.id), slice_of(after),
                                          page, 10, &count, &has_more),
                         STATUS_OK);
        for (size_t i = 0; i < count; i++, seen++) {
            assert_string_equal(page[i].tenant_id, other.id);
            assert_string_equal(page[i].value, certificate_kit_hex((unsigned)(2 * seen + 1)));
        }
        memcpy(after, page[count - 1].id, sizeof after);
    }
    assert_int_equal(seen, ROWS);
    assert_int_equal(
        certificate_list(kit->certificates, SLICE(""), SLICE(""), page, 10, &count, &has_more),
        STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(certificate_list(kit->certificates, slice_of(kit->tenant.id), slice_of(after),
                                      page, 10, &count, &has_more),
                     STATUS_INVALID);
    assert_int_equal(certificate_list(kit->certificates, SLICE("tnt_nobody"), SLICE(""), page, 10,
                                      &count, &has_more),
                     STATUS_NOT_FOUND);
}

static void test_last_use(void **state)
{
    struct certificate_kit *kit = *state;
    struct certificate rows[3];
    struct certificate seen;
    static const char written[] = "select sum(last_used_at_s) from certificates";
    for (unsigned i = 0; i < 3; i++)
        rows[i] = certificate_kit_make(kit, kit->tenant.id, CERTIFICATE_FINGERPRINT,
                                       certificate_kit_hex(i + 1));
    assert_int_equal(rows[0].last_used_at_s, 0);
    assert_int_equal(certificates_used_flush(kit->certificates), STATUS_OK);
    struct peer_certificate peer = certificate_kit_peer(2);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    int64_t now_s = tenant_directory_now_s(kit->base->tenants);
    struct slice owner = slice_of(kit->tenant.id);
    assert_int_equal(certificate_get(kit->certificates, owner, slice_of(rows[1].id), &seen),
                     STATUS_OK);
    assert_int_equal(seen.last_used_at_s, now_s);
    assert_int_equal(seen.revision, 1);
    assert_int_equal(tenant_kit_number(kit->base, written), 0);
    assert_int_equal(certificates_used_flush(kit->certificates), STATUS_OK);
    assert_int_equal(certificates_used_flush(kit->certificates), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit->base, written), now_s);
    certificate_kit_restart(kit);
    assert_int_equal(certificate_get(kit->certificates, owner, slice_of(rows[1].id), &seen),
                     STATUS_OK);
    assert_int_equal(seen.last_used_at_s, now_s);
    /* What opens nothing was not used. */
    assert_int_equal(
        certificate_revoke(kit->certificates, &change, owner, slice_of(rows[0].id), &seen),
        STATUS_OK);
    peer = certificate_kit_peer(1);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_REVOKED);
    assert_int_equal(certificate_get(kit->certificates, owner, slice_of(rows[0].id), &seen),
                     STATUS_OK);
    assert_int_equal(seen.last_used_at_s, 0);
    /* A write that fails is tried again. */
    tenant_kit_execute(kit->base, "create trigger t before update of last_used_at_s on "
                                  "certificates begin select raise(abort, 'no'); end");
    peer = certificate_kit_peer(3);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_OPEN);
    assert_int_not_equal(certificates_used_flush(kit->certificates), STATUS_OK);
    tenant_kit_execute(kit->base, "drop trigger t");
    assert_int_equal(certificates_used_flush(kit->certificates), STATUS_OK);
    assert_true(tenant_kit_number(kit->base, written) >= 2 * now_s);
}

static void test_as_many_as_there_may_be(void **state)
{
    struct certificate_kit *kit = *state;
    struct certificate got;
    struct certificate_fields fields = certificate_kit_fields(CERTIFICATE_DNS, "more.example.org");
    char sql[480];
    snprintf(sql, sizeof sql,
             "with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) "
             "insert into certificates (id, tenant_id, label, kind, value, scopes, created_at_s, "
             "expires_at_s, revoked_at_s, revision) select printf('crt_%%020d', i), '%s', 'l', 0, "
             "printf('%%064x', i), %u, 5, 0, 0, 1 from n",
             LIMIT_CERTIFICATES - 1, kit->tenant.id, (unsigned)AUTH_SCOPES_TENANT);
    tenant_kit_execute(kit->base, sql);
    certificate_kit_restart(kit);
    certificate_kit_make(kit, kit->tenant.id, CERTIFICATE_DNS, "last.example.org");
    assert_int_equal(
        certificate_create(kit->certificates, &change, slice_of(kit->tenant.id), &fields, &got),
        STATUS_CONFLICT);
    assert_int_equal(tenant_kit_number(kit->base, "select count(*) from certificates"),
                     LIMIT_CERTIFICATES);
}

static void test_a_row_out_of_its_bounds(void **state)
{
    struct certificate_kit *kit = *state;
    struct certificates *again = NULL;
    (void)certificate_kit_make(kit, kit->tenant.id, CERTIFICATE_URI, "urn:x");
    tenant_kit_execute(kit->base, "update certificates set revision = 0");
    assert_int_equal(certificates_open(&again, kit->base->tenants), STATUS_CORRUPT);
    assert_null(again);
    tenant_kit_execute(kit->base, "update certificates set revision = 1");
    tenant_kit_fill_disk(kit->base, true);
    enum status status = STATUS_OK;
    char uri[32];
    for (int i = 0; i < 1000 && status == STATUS_OK; i++) { /* until the last page is full */
        struct certificate got;
        snprintf(uri, sizeof uri, "urn:%d", i);
        struct certificate_fields fields = certificate_kit_fields(CERTIFICATE_URI, uri);
        status =
            certificate_create(kit->certificates, &change, slice_of(kit->tenant.id), &fields, &got);
    }
    assert_int_equal(status, STATUS_STORAGE_FULL);
    struct peer_certificate peer = certificate_kit_peer(1);
    certificate_kit_name(&peer, PEER_NAME_URI, uri);
    assert_int_equal(certificate_kit_match(kit, &peer), TENANT_MATCH_WRONG);
    tenant_kit_fill_disk(kit->base, false);
}

#define WITH_KIT(test)                                                                             \
    cmocka_unit_test_setup_teardown(test, certificate_kit_setup, certificate_kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_KIT(test_fingerprint),
        WITH_KIT(test_names),
        WITH_KIT(test_states),
        WITH_KIT(test_admins),
        WITH_KIT(test_bad_fields),
        WITH_KIT(test_lists),
        WITH_KIT(test_last_use),
        WITH_KIT(test_as_many_as_there_may_be),
        WITH_KIT(test_a_row_out_of_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
