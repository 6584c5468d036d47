/* auth_certificate: a certificate as a credential, alone and beside a key. */
#include "auth/auth.h"
#include "auth/identity/auth_method.h"

#include "tests/unit/base_kit.h"
#include "tests/unit/certificate_kit.h"

struct fixture {
    char folder[64];
    struct store *store;
    struct auth *auth;
    struct tenant tenants[2];
    char keys[2][LIMIT_KEY_BYTES];
};

static int setup(void **state)
{
    char path[96];
    struct fixture *f = calloc(1, sizeof *f);
    kit_folder_make(f->folder);
    snprintf(path, sizeof path, "%s/banyan.db", f->folder);
    assert_int_equal(store_open(&f->store, path), STATUS_OK);
    assert_int_equal(auth_open(&f->auth, f->folder, f->store), STATUS_OK);
    for (unsigned i = 0; i < 2; i++) {
        struct tenant_key key;
        struct certificate row;
        assert_int_equal(kit_tenant(auth_tenants(f->auth), slice_of(i == 0 ? "one" : "two"), 100,
                                    &f->tenants[i]),
                         STATUS_OK);
        assert_int_equal(kit_key(auth_tenants(f->auth), slice_of(f->tenants[i].id), SLICE("k"), 0,
                                 &key, f->keys[i]),
                         STATUS_OK);
        const struct certificate_fields fields =
            certificate_kit_fields(CERTIFICATE_FINGERPRINT, certificate_kit_hex(i));
        assert_int_equal(certificate_create(auth_certificates(f->auth), &change,
                                            slice_of(f->tenants[i].id), &fields, &row),
                         STATUS_OK);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    auth_close(f->auth);
    store_close(f->store);
    kit_folder_remove(f->folder);
    free(f);
    return 0;
}

static enum status ask(struct fixture *f, const char *text, const struct peer_certificate *peer,
                       bool must_agree, bool want_admin, struct principal *out)
{
    const struct auth_credential credential = {
        .text = slice_of(text), .certificate = peer, .must_agree = must_agree};
    return auth_authenticate(f->auth, &credential, want_admin, out);
}

static void test_alone(void **state)
{
    struct fixture *f = *state;
    struct principal principal;
    struct tenant_key about;
    const struct peer_certificate peer = certificate_kit_peer(1),
                                  stranger = certificate_kit_peer(9);
    for (int must = 0; must < 2; must++) {
        assert_int_equal(ask(f, "", &peer, must, false, &principal), STATUS_OK);
        assert_string_equal(principal.tenant_id, f->tenants[1].id);
        assert_int_equal(ask(f, "", &stranger, must, false, &principal), STATUS_KEY_INVALID);
        assert_int_equal(ask(f, "", &peer, must, true, &principal), STATUS_KEY_INVALID);
        assert_int_equal(ask(f, "", NULL, must, false, &principal), STATUS_KEY_MISSING);
    }
    assert_int_equal(ask(f, "", &peer, false, false, &principal), STATUS_OK);
    assert_int_equal(auth_key_about(f->auth, &principal, &about), STATUS_OK);
    assert_string_equal(about.id, principal.key_id);
    assert_string_equal(about.name, "unnamed");
    assert_int_equal(about.scopes, AUTH_SCOPES_TENANT);
    char tenant_id[LIMIT_ID_BYTES], key_id[LIMIT_ID_BYTES];
    assert_int_equal(
        auth_find_account(f->auth, principal.tenant_hash, principal.key_hash, tenant_id, key_id),
        STATUS_OK);
    assert_string_equal(tenant_id, f->tenants[1].id);
    assert_string_equal(key_id, principal.key_id);
    assert_int_equal(auth_refresh(f->auth, &principal), STATUS_OK);
    struct certificate row;
    assert_int_equal(certificate_revoke(auth_certificates(f->auth), &change,
                                        slice_of(principal.tenant_id), slice_of(principal.key_id),
                                        &row),
                     STATUS_OK);
    assert_int_equal(auth_refresh(f->auth, &principal), STATUS_KEY_INVALID);
    assert_int_equal(ask(f, "", &peer, false, false, &principal), STATUS_KEY_INVALID);
    assert_non_null(strstr(status_note()->message, "revoked"));
}

static void test_beside_a_key(void **state)
{
    struct fixture *f = *state;
    struct principal principal;
    const struct peer_certificate own = certificate_kit_peer(0), other = certificate_kit_peer(1),
                                  stranger = certificate_kit_peer(9);
    /* The header decides; a certificate that need not be there is not even looked at. */
    const struct peer_certificate *shown[] = {NULL, &own, &other, &stranger};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(ask(f, f->keys[0], shown[i], false, false, &principal), STATUS_OK);
        assert_string_equal(principal.tenant_id, f->tenants[0].id);
        assert_memory_equal(principal.key_id, "key_", 4);
        assert_int_equal(ask(f, "sk-by-wrong", shown[i], false, false, &principal),
                         STATUS_KEY_INVALID);
        assert_int_equal(ask(f, f->keys[0], shown[i], true, false, &principal),
                         i == 1 ? STATUS_OK : STATUS_FORBIDDEN);
    }
    assert_int_equal(ask(f, "sk-by-wrong", &own, true, false, &principal), STATUS_KEY_INVALID);
}

static void test_admins(void **state)
{
    struct fixture *f = *state;
    struct principal principal;
    struct certificate row;
    char admin[LIMIT_KEY_BYTES];
    struct tenant_key key;
    const struct peer_certificate peer = certificate_kit_peer(5), tenants = certificate_kit_peer(0);
    struct certificate_fields fields =
        certificate_kit_fields(CERTIFICATE_FINGERPRINT, certificate_kit_hex(5));
    fields.given |= CERTIFICATE_SCOPES;
    fields.scopes = AUTH_SCOPE_ADMIN_READ;
    assert_int_equal(
        kit_key(auth_tenants(f->auth), SLICE(""), SLICE("a"), AUTH_SCOPES_ADMIN, &key, admin),
        STATUS_OK);
    assert_int_equal(
        certificate_create(auth_certificates(f->auth), &change, SLICE(""), &fields, &row),
        STATUS_OK);
    assert_int_equal(ask(f, "", &peer, false, true, &principal), STATUS_OK);
    assert_true(principal.is_admin);
    assert_int_equal(principal.scopes, AUTH_SCOPE_ADMIN_READ);
    assert_int_equal(auth_refresh(f->auth, &principal), STATUS_OK);
    assert_int_equal(ask(f, "", &peer, false, false, &principal), STATUS_KEY_INVALID);
    assert_int_equal(ask(f, admin, &peer, true, true, &principal), STATUS_OK);
    assert_int_equal(principal.scopes, AUTH_SCOPES_ADMIN);
    assert_int_equal(ask(f, admin, &tenants, true, true, &principal), STATUS_FORBIDDEN);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_alone),
        WITH_FIXTURE(test_beside_a_key),
        WITH_FIXTURE(test_admins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
