#include "auth/auth.h"

#include <stdio.h>

#include "auth/credential/api_key.h"
#include "auth/credential/auth_file.h"
#include "auth/credential/auth_secrets.h"
#include "auth/identity/auth_method.h"
#include "auth/identity/auth_token.h"
#include "auth/limits/quota_limits_hooks.h"
#include "auth/limits/quota_limits_key.h"
#include "auth/tenants/certificate_auth.h"
#include "auth/tenants/certificate_records.h"
#include "auth/tenants/issuer_records.h"
#include "auth/tenants/tenant_auth.h"
#include "auth/tenants/tenant_copy.h"
#include "config/base/mem.h"

struct auth {
    struct auth_method_context context; /* its members do not change once the auth is open */
    atomic_uint_fast64_t refused[AUTH_REFUSALS];
};

static const char admin_key_file[] = "admin.key";
/* Holds a new key until its row is in the database; then it replaces admin.key. */
static const char admin_key_next_file[] = "admin.key.next";

static const struct {
    bool (*recognises)(const struct auth_credential *credential);
    enum status (*authenticate)(struct auth_method_context *context,
                                const struct auth_credential *credential, bool want_admin,
                                struct principal *out);
} methods[] = {
#define METHOD(name) {auth_##name##_recognises, auth_##name##_authenticate},
#include "auth/identity/methods.def"
#undef METHOD
};

static enum status open_tenants(struct auth *auth, struct store *store,
                                const struct auth_secrets *secrets)
{
    const struct tenants_options options = {.store = store,
                                            .pepper = secrets->pepper,
                                            .domain = secrets->domain,
                                            .limits = &quota_limits_hooks};
    return tenants_open(&auth->context.tenants, &options);
}

static enum status open_secrets(struct auth *auth, const char *data_dir, struct store *store)
{
    struct auth_secrets secrets;
    enum status status = auth_secrets_read(data_dir, &secrets);
    bool is_new = status == STATUS_NOT_FOUND;
    if (is_new) {
        /* Opened with zeros as secrets, only to count the keys in the database. */
        memset(&secrets, 0, sizeof secrets);
        TRY(open_tenants(auth, store, &secrets));
        size_t keys = tenants_key_count(auth->context.tenants);
        tenants_close(auth->context.tenants);
        auth->context.tenants = NULL;
        if (keys > 0)
            FAIL(STATUS_CORRUPT,
                 "the file of secrets is gone: put it back, since the %zu keys in "
                 "the database open nothing without it",
                 keys);
        status = auth_secrets_make(data_dir, &secrets);
    }
    if (status == STATUS_OK) {
        memcpy(auth->context.pepper, secrets.pepper, sizeof auth->context.pepper);
        status = open_tenants(auth, store, &secrets);
    }
    auth_crypto_forget(&secrets, sizeof secrets);
    TRY(status);
    TRY(issuers_open(&auth->context.issuers, auth->context.tenants, auth->context.pepper,
                     data_dir));
    TRY(certificates_open(&auth->context.certificates, auth->context.tenants));
    return auth_token_open(&auth->context.tokens);
}

enum status auth_open(struct auth **out, const char *data_dir, struct store *store)
{
    *out = NULL;
    struct auth *auth = mem_zalloc(1, sizeof *auth);
    if (auth == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the authentication");
    auth->context.refused = auth->refused;
    enum status status = open_secrets(auth, data_dir, store);
    if (status != STATUS_OK) {
        auth_close(auth);
        return status;
    }
    *out = auth;
    return STATUS_OK;
}

void auth_close(struct auth *auth)
{
    if (auth == NULL)
        return;
    auth_token_close(auth->context.tokens);
    certificates_close(auth->context.certificates);
    issuers_close(auth->context.issuers);
    tenants_close(auth->context.tenants);
    auth_crypto_forget(auth, sizeof *auth);
    mem_free(auth);
}

struct tenants *auth_tenants(struct auth *auth)
{
    return auth->context.tenants;
}

struct issuers *auth_issuers(struct auth *auth)
{
    return auth->context.issuers;
}

struct certificates *auth_certificates(struct auth *auth)
{
    return auth->context.certificates;
}

/* --- many changes as one --- */

enum status auth_copy_begin(struct auth *auth, struct auth **copy)
{
    struct auth_method_context *of = &auth->context;
    struct auth *made = mem_zalloc(1, sizeof *made);
    *copy = NULL;
    if (made == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a copy of the directory");
    made->context.refused = made->refused;
    enum status status = tenant_copy_begin(of->tenants, &made->context.tenants);
    if (status == STATUS_OK) {
        status = issuers_open(&made->context.issuers, made->context.tenants, of->pepper,
                              of->issuers->data_dir);
        if (status == STATUS_OK)
            status = certificates_open(&made->context.certificates, made->context.tenants);
        if (status != STATUS_OK) {
            if (made->context.issuers != NULL)
                issuers_close(made->context.issuers);
            tenant_copy_end(of->tenants, made->context.tenants);
        }
    }
    if (status == STATUS_OK)
        *copy = made;
    else
        mem_free(made);
    return status;
}

enum status auth_copy_end(struct auth *auth, struct auth *copy, bool is_kept)
{
    enum status status = STATUS_OK;
    struct tenants *tenants = auth->context.tenants;
    if (is_kept)
        status = tenant_copy_swap(tenants, copy->context.tenants);
    if (is_kept && status == STATUS_OK)
        issuer_records_adopt(auth->context.issuers, copy->context.issuers);
    if (is_kept && status == STATUS_OK)
        certificate_records_adopt(auth->context.certificates, copy->context.certificates);
    certificates_close(copy->context.certificates);
    issuers_close(copy->context.issuers);
    tenant_copy_end(tenants, copy->context.tenants);
    mem_free(copy);
    return status;
}

enum status auth_find_account(struct auth *auth, const uint8_t tenant_hash[16],
                              const uint8_t key_hash[16], char tenant_id[LIMIT_ID_BYTES],
                              char key_id[LIMIT_ID_BYTES])
{
    struct auth_method_context *context = &auth->context;
    if (issuers_find_hash(context->issuers, key_hash, key_id) == STATUS_OK ||
        certificates_find_hash(context->certificates, key_hash, key_id) == STATUS_OK)
        return tenants_find_hash(context->tenants, tenant_hash, tenant_id);
    return tenants_find_account(context->tenants, tenant_hash, key_hash, tenant_id, key_id);
}

/* When key and certificate must agree: the key decides who is calling, and the certificate must
 * belong to the same tenant. */
static enum status check_agrees(struct auth *auth, const struct auth_credential *credential,
                                bool want_admin, const struct principal *found)
{
    struct principal other;
    const struct auth_credential alone = {.certificate = credential->certificate};
    if (credential->certificate == NULL ||
        auth_certificate_authenticate(&auth->context, &alone, want_admin, &other) != STATUS_OK ||
        strcmp(found->tenant_id, other.tenant_id) != 0)
        FAIL(STATUS_FORBIDDEN,
             "The client certificate of this connection is not the same tenant's as the key.");
    return STATUS_OK;
}

enum status auth_authenticate(struct auth *auth, const struct auth_credential *credential,
                              bool want_admin, struct principal *out)
{
    bool is_text = credential->text.length > 0;
    if (!is_text && credential->certificate == NULL) {
        auth_refused(auth, AUTH_REFUSAL_MISSING);
        FAIL(STATUS_KEY_MISSING,
             "no API key was given; send it as 'Authorization: Bearer sk-by-…'");
    }
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (!methods[i].recognises(credential))
            continue;
        TRY(methods[i].authenticate(&auth->context, credential, want_admin, out));
        if (!out->is_admin)
            quota_limits_key_class(auth->context.tenants, out);
        return is_text && credential->must_agree ? check_agrees(auth, credential, want_admin, out)
                                                 : STATUS_OK;
    }
    FAIL(STATUS_KEY_INVALID, "the credential has no form that is known here");
}

enum status auth_look(const struct auth *auth, const struct auth_credential *credential,
                      bool want_admin, struct principal *out)
{
    struct auth copy = {.context = auth->context};
    copy.context.refused = copy.refused; /* these counts are dropped */
    enum status status = auth_authenticate(&copy, credential, want_admin, out);
    auth_crypto_forget(&copy, sizeof copy);
    return status;
}

void auth_refused(struct auth *auth, enum auth_refusal refusal)
{
    atomic_fetch_add_explicit(&auth->context.refused[refusal], 1, memory_order_relaxed);
}

uint64_t auth_refused_count(const struct auth *auth, enum auth_refusal refusal)
{
    return atomic_load_explicit(&auth->context.refused[refusal], memory_order_relaxed);
}

bool auth_wants_check(struct auth *auth, struct slice credential)
{
    return auth_token_recognises(&(struct auth_credential){.text = credential}) &&
           !auth_token_is_known(&auth->context, credential);
}

enum status auth_check(struct auth *auth, struct slice credential, bool may_wait)
{
    return auth_token_check(&auth->context, credential, may_wait);
}

enum status auth_key_about(struct auth *auth, const struct principal *principal,
                           struct tenant_key *out)
{
    struct issuer issuer;
    struct certificate certificate;
    struct auth_method_context *context = &auth->context;
    struct slice tenant_id = slice_of(principal->tenant_id);
    struct slice id = slice_of(principal->key_id);
    *out = (struct tenant_key){.scopes = principal->scopes};
    memcpy(out->id, principal->key_id, sizeof out->id);
    memcpy(out->tenant_id, principal->tenant_id, sizeof out->tenant_id);
    if (issuer_get(context->issuers, id, &issuer) == STATUS_OK) {
        out->created_at_s = issuer.created_at_s;
        out->revision = issuer.revision;
        memcpy(out->name, issuer.name, sizeof out->name);
        return STATUS_OK;
    }
    if (certificate_get(context->certificates, tenant_id, id, &certificate) == STATUS_OK) {
        out->created_at_s = certificate.created_at_s;
        out->expires_at_s = certificate.expires_at_s;
        out->revision = certificate.revision;
        memcpy(out->name, certificate.label, sizeof out->name);
        return STATUS_OK;
    }
    return tenants_key_get(context->tenants, tenant_id, id, out);
}

enum status auth_refresh(struct auth *auth, struct principal *principal)
{
    const struct principal before = *principal;
    struct auth_method_context *context = &auth->context;
    if (before.proof != 0 && !issuers_has_key(context->issuers, before.proof))
        FAIL(STATUS_KEY_INVALID, "the token is not valid any more");
    if (before.proof != 0)
        return STATUS_OK;
    enum tenant_match match =
        certificates_standing(context->certificates, before.key_id, principal);
    if (match == TENANT_MATCH_WRONG)
        match = tenants_key_standing(context->tenants, before.key_id, principal);
    switch (match) {
    case TENANT_MATCH_OPEN:
        return STATUS_OK;
    case TENANT_MATCH_SUSPENDED:
        FAIL(STATUS_FORBIDDEN, "the tenant of this API key is suspended");
    default:
        FAIL(STATUS_KEY_INVALID, "the API key is not valid any more");
    }
}

enum status auth_admin_key_make(struct auth *auth, const char *data_dir, struct slice name,
                                const char *peer, struct tenant_key *out)
{
    /* The file is written before the row: a key in the database whose value nobody can read would
     * keep the next start from making another one. It replaces admin.key only after the row,
     * because until then the old key is the valid one. */
    char value[LIMIT_KEY_BYTES];
    char line[LIMIT_KEY_BYTES + 1];
    struct audit_actor actor = {.scopes = AUTH_SCOPES_ADMIN};
    const struct tenant_change change = {.actor = &actor};
    const struct tenant_key_fields fields = {
        .given = TENANT_KEY_NAME | TENANT_KEY_SCOPES, .name = name, .scopes = AUTH_SCOPES_ADMIN};
    snprintf(actor.peer, sizeof actor.peer, "%s", peer);
    api_key_make(true, value);
    snprintf(line, sizeof line, "%s\n", value);
    enum status status = auth_file_write(data_dir, admin_key_next_file, slice_of(line), true);
    if (status == STATUS_OK) {
        status = tenants_key_adopt(auth->context.tenants, &change, SLICE(""), &fields, value, out);
        if (status != STATUS_OK)
            auth_file_remove(data_dir, admin_key_next_file);
    }
    if (status == STATUS_OK)
        status = auth_file_rename(data_dir, admin_key_next_file, admin_key_file);
    auth_crypto_forget(value, sizeof value);
    auth_crypto_forget(line, sizeof line);
    return status;
}

/* Completes what an earlier process has begun. If it ended after the key's row was written, the key
 * in admin.key.next is valid and the file is renamed. If it ended before, the file opens nothing
 * and is removed. */
static enum status bootstrap_finish(struct auth *auth, const char *data_dir)
{
    struct buffer text;
    struct principal principal;
    buffer_init(&text, LIMIT_SECRETS_BYTES);
    enum status status = auth_file_read(data_dir, admin_key_next_file, &text);
    if (status == STATUS_OK) {
        struct slice value = buffer_slice(&text);
        value.length -= value.length > 0 && value.bytes[value.length - 1] == '\n';
        const struct auth_credential credential = {.text = value};
        status = value.length > 0 && auth_look(auth, &credential, true, &principal) == STATUS_OK
                     ? auth_file_rename(data_dir, admin_key_next_file, admin_key_file)
                     : auth_file_remove(data_dir, admin_key_next_file);
    } else if (status == STATUS_NOT_FOUND) {
        status = STATUS_OK;
    }
    if (text.bytes != NULL)
        auth_crypto_forget(text.bytes, text.capacity);
    buffer_deinit(&text);
    return status;
}

enum status auth_bootstrap(struct auth *auth, const char *data_dir, bool *made)
{
    struct tenant_key key;
    bool has_all = true;
    *made = false;
    TRY(bootstrap_finish(auth, data_dir));
    for (uint32_t scope = 1; scope <= AUTH_SCOPES_ADMIN; scope <<= 1)
        has_all = has_all && tenants_admin_key_count(auth->context.tenants, scope, 0) > 0;
    if (has_all)
        return STATUS_OK;
    TRY(auth_admin_key_make(auth, data_dir, SLICE("first start"), "first start", &key));
    *made = true;
    return STATUS_OK;
}
