/* auth_token: what a token opens, for how long it is known, and what makes it unknown again. */
#include "auth/identity/auth_token.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/issuer_kit.h"

#define ISS "https://issuer.example"

struct fixture {
    struct issuer_kit *kit;
    struct auth_method_context context;
    atomic_uint_fast64_t refused[AUTH_REFUSALS];
    struct jwt_kit_key keys[2]; /* EdDSA "d", HS256 "h" */
    struct issuer issuer;
    struct tenant tenant;
    struct buffer token;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    void *kit;
    issuer_kit_setup(&kit);
    fixture->kit = kit;
    fixture->context.tenants = fixture->kit->base->tenants;
    fixture->context.issuers = fixture->kit->issuers;
    fixture->context.refused = fixture->refused;
    memcpy(fixture->context.pepper, kit_pepper, sizeof kit_pepper);
    assert_int_equal(auth_token_open(&fixture->context.tokens), STATUS_OK);
    fixture->keys[0] = jwt_kit_make(AUTH_JWT_EDDSA, "d", 0);
    fixture->keys[1] = jwt_kit_make(AUTH_JWT_HS256, "h", 0);
    fixture->issuer = issuer_kit_make(fixture->kit, "idp", ISS, fixture->keys, 2);
    assert_int_equal(kit_tenant(fixture->context.tenants, SLICE("acme"), 7, &fixture->tenant),
                     STATUS_OK);
    buffer_init(&fixture->token, 1 << 16);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    void *kit = fixture->kit;
    auth_token_close(fixture->context.tokens);
    jwt_kit_free(&fixture->keys[0]);
    buffer_deinit(&fixture->token);
    free(fixture);
    return issuer_kit_teardown(&kit);
}

/* A token of key `with` for the tenant, valid for so long from now. */
static struct slice token_for(struct fixture *fixture, int with, int64_t seconds)
{
    char claims[512];
    int64_t now_s = clock_wall_us(&fixture->kit->base->clock) / 1000000;
    snprintf(claims, sizeof claims,
             "{\"iss\":\"%s\",\"aud\":\"banyan\",\"iat\":%lld,\"exp\":%lld,\"tenant\":\"%s\"}", ISS,
             (long long)now_s, (long long)(now_s + seconds), fixture->tenant.id);
    return jwt_kit_token(&fixture->token, &fixture->keys[with], claims);
}

static enum status ask(struct fixture *fixture, struct slice token, struct principal *out)
{
    const struct auth_credential credential = {.text = token};
    return auth_token_authenticate(&fixture->context, &credential, false, out);
}

/* Unknown, checked, and what it is then. */
static enum status checked(struct fixture *fixture, struct slice token)
{
    struct principal principal;
    assert_false(auth_token_is_known(&fixture->context, token));
    assert_int_equal(ask(fixture, token, &principal), STATUS_UNAVAILABLE);
    enum status status = auth_token_check(&fixture->context, token, true);
    assert_true(auth_token_is_known(&fixture->context, token));
    assert_int_equal(ask(fixture, token, &principal), status);
    return status;
}

static void refused_for(struct fixture *fixture, struct slice token, enum auth_jwt_reason reason)
{
    assert_int_equal(checked(fixture, token), STATUS_KEY_INVALID);
    assert_string_equal(status_note()->message, auth_jwt_guard_text(reason));
}

static void test_principal(void **state)
{
    struct fixture *fixture = *state;
    struct principal principal;
    char tenant_id[LIMIT_ID_BYTES];
    char issuer_id[LIMIT_ID_BYTES];
    for (int i = 0; i < 2; i++) {
        struct slice token = token_for(fixture, i, 600);
        assert_int_equal(checked(fixture, token), STATUS_OK);
        assert_int_equal(ask(fixture, token, &principal), STATUS_OK);
        assert_false(principal.is_admin);
        assert_string_equal(principal.tenant_id, fixture->tenant.id);
        assert_string_equal(principal.key_id, fixture->issuer.id);
        assert_int_equal(principal.scopes, AUTH_SCOPES_TENANT);
        assert_int_equal(principal.weight, 7);
        assert_int_equal(principal.visible_count, 1);
        assert_int_equal(
            tenants_find_hash(fixture->context.tenants, principal.tenant_hash, tenant_id),
            STATUS_OK);
        assert_string_equal(tenant_id, fixture->tenant.id);
        assert_int_equal(issuers_find_hash(fixture->context.issuers, principal.key_hash, issuer_id),
                         STATUS_OK);
        assert_string_equal(issuer_id, fixture->issuer.id);
        const struct auth_credential credential = {.text = token};
        assert_int_equal(auth_token_authenticate(&fixture->context, &credential, true, &principal),
                         STATUS_KEY_INVALID);
    }
    assert_int_equal(tenants_find_hash(fixture->context.tenants, principal.key_hash, tenant_id),
                     STATUS_NOT_FOUND);
    assert_true(auth_token_recognises(&(struct auth_credential){.text = SLICE("a.b")}));
    assert_false(auth_token_recognises(&(struct auth_credential){.text = SLICE("sk-by-abc")}));
    assert_false(auth_token_recognises(&(struct auth_credential){.text = SLICE("")}));
}

static void test_how_long(void **state)
{
    struct fixture *fixture = *state;
    struct principal principal;
    struct slice token = token_for(fixture, 1, 100);
    assert_int_equal(checked(fixture, token), STATUS_OK);
    tenant_kit_pass(fixture->kit->base, 99);
    assert_int_equal(ask(fixture, token, &principal), STATUS_OK);
    tenant_kit_pass(fixture->kit->base, 1);
    refused_for(fixture, token, AUTH_JWT_EXPIRED);
    /* A bad one is remembered for ten seconds. */
    tenant_kit_pass(fixture->kit->base, LIMIT_TOKEN_BAD_S - 1);
    assert_true(auth_token_is_known(&fixture->context, token));
    tenant_kit_pass(fixture->kit->base, 1);
    refused_for(fixture, token, AUTH_JWT_EXPIRED);
    /* A good one no longer than five minutes. */
    token = token_for(fixture, 1, 3600);
    assert_int_equal(checked(fixture, token), STATUS_OK);
    tenant_kit_pass(fixture->kit->base, LIMIT_TOKEN_S - 1);
    assert_true(auth_token_is_known(&fixture->context, token));
    tenant_kit_pass(fixture->kit->base, 1);
    assert_int_equal(checked(fixture, token), STATUS_OK);
}

/* Old key, both, new key: no token is unknown that need not be. */
static void test_rotation(void **state)
{
    struct fixture *fixture = *state;
    struct principal principal;
    struct slice token = token_for(fixture, 0, 600);
    struct jwt_kit_key both[2] = {fixture->keys[0], jwt_kit_make(AUTH_JWT_EDDSA, "new", 0)};
    struct buffer other;
    assert_int_equal(checked(fixture, token), STATUS_OK);
    issuer_kit_rotate(fixture->kit, &fixture->issuer, both, 2);
    assert_int_equal(ask(fixture, token, &principal), STATUS_OK); /* not checked again */
    buffer_init(&other, 1 << 16);
    struct fixture as_new = *fixture;
    as_new.keys[0] = both[1];
    as_new.token = other;
    struct slice new = token_for(&as_new, 0, 600);
    assert_int_equal(checked(fixture, new), STATUS_OK);
    issuer_kit_rotate(fixture->kit, &fixture->issuer, &both[1], 1);
    assert_int_equal(ask(fixture, new, &principal), STATUS_OK);
    refused_for(fixture, token, AUTH_JWT_KEY);
    /* What was bad may be good when keys change: it is not remembered beyond that. */
    issuer_kit_rotate(fixture->kit, &fixture->issuer, both, 2);
    assert_int_equal(ask(fixture, token, &principal), STATUS_OK); /* known, and its key is back */
    buffer_deinit(&as_new.token);
    jwt_kit_free(&both[1]);
}

static void test_issuers_end(void **state)
{
    struct fixture *fixture = *state;
    struct issuer out;
    struct principal principal;
    struct slice token = token_for(fixture, 1, 600);
    assert_int_equal(checked(fixture, token), STATUS_OK);
    const struct issuer_fields fields = {.given = ISSUER_AUDIENCES,
                                         .audiences = SLICE("[\"other\"]")};
    assert_int_equal(issuer_update(fixture->context.issuers, &change, slice_of(fixture->issuer.id),
                                   &fields, &out),
                     STATUS_OK);
    refused_for(fixture, token, AUTH_JWT_AUDIENCE);
    assert_int_equal(
        issuer_delete(fixture->context.issuers, &change, slice_of(fixture->issuer.id), &out),
        STATUS_OK);
    refused_for(fixture, token, AUTH_JWT_ISSUER);
    assert_int_equal(ask(fixture, token, &principal), STATUS_KEY_INVALID);
}

/* What a tenant is counts at each request, whatever is known of the token. */
static void test_tenants_state(void **state)
{
    struct fixture *fixture = *state;
    struct principal principal;
    struct tenant out;
    struct tenants *tenants = fixture->context.tenants;
    struct slice id = slice_of(fixture->tenant.id);
    struct slice token = token_for(fixture, 1, 600);
    struct tenant_fields fields = {.given = TENANT_STATE, .state = TENANT_SUSPENDED};
    assert_int_equal(checked(fixture, token), STATUS_OK);
    assert_int_equal(tenants_update(tenants, &change, id, &fields, &out), STATUS_OK);
    assert_int_equal(ask(fixture, token, &principal), STATUS_FORBIDDEN);
    fields.state = TENANT_ACTIVE;
    assert_int_equal(tenants_update(tenants, &change, id, &fields, &out), STATUS_OK);
    assert_int_equal(ask(fixture, token, &principal), STATUS_OK);
    assert_int_equal(tenants_archive(tenants, &change, id, &out), STATUS_OK);
    assert_int_equal(ask(fixture, token, &principal), STATUS_KEY_INVALID);
}

/* Too long to be looked at, and still answered without a check. */
static void test_too_long(void **state)
{
    struct fixture *fixture = *state;
    struct principal principal;
    char *bytes = malloc(LIMIT_JWT_BYTES + 1);
    memset(bytes, '.', LIMIT_JWT_BYTES + 1);
    const struct slice token = {bytes, LIMIT_JWT_BYTES + 1};
    assert_true(auth_token_is_known(&fixture->context, token));
    assert_int_equal(ask(fixture, token, &principal), STATUS_KEY_INVALID);
    assert_string_equal(status_note()->message, auth_jwt_guard_text(AUTH_JWT_LENGTH));
    assert_int_equal(auth_token_check(&fixture->context, token, true), STATUS_KEY_INVALID);
    free(bytes);
}

static void test_no_memory(void **state)
{
    struct fixture *fixture = *state;
    struct slice token = token_for(fixture, 1, 600);
    enum status status = STATUS_NO_MEMORY;
    for (int nth = 1; status != STATUS_OK; nth++) {
        int left = nth;
        mem_hook_set(kit_fail_at, &left);
        status = auth_token_check(&fixture->context, token, true);
        mem_hook_set(NULL, NULL);
        assert_true(nth < 1000);
    }
    for (int nth = 1; nth <= 3; nth++) {
        struct auth_tokens *tokens;
        int left = nth;
        mem_hook_set(kit_fail_at, &left);
        assert_int_equal(auth_token_open(&tokens), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
        assert_null(tokens);
    }
}

/* --- threads --- */

struct race {
    struct fixture *fixture;
    struct slice token;
    atomic_bool is_over;
    atomic_int failures;
};

static void *race_ask(void *context)
{
    struct race *race = context;
    struct principal principal;
    while (!atomic_load(&race->is_over)) {
        enum status status = ask(race->fixture, race->token, &principal);
        if (status == STATUS_UNAVAILABLE)
            status = auth_token_check(&race->fixture->context, race->token, true);
        if (status != STATUS_OK)
            atomic_fetch_add(&race->failures, 1);
    }
    return NULL;
}

/* A key that stays, another that comes and goes: the one's token is never refused. */
static void test_threads(void **state)
{
    struct fixture *fixture = *state;
    struct race race = {.fixture = fixture};
    pthread_t threads[2];
    struct slice token = token_for(fixture, 1, 600);
    race.token = token;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race_ask, &race), 0);
    for (int i = 0; i < 30; i++)
        issuer_kit_rotate(fixture->kit, &fixture->issuer, &fixture->keys[i % 2],
                          i % 2 == 0 ? 2 : 1);
    atomic_store(&race.is_over, true);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&race.failures), 0);
}

/* --- admins --- */

/* A token with one more member, for the tenant or (`tenant` "") for nobody. */
static struct slice token_with(struct fixture *fixture, const char *tenant, const char *member)
{
    char claims[1024];
    int64_t now_s = clock_wall_us(&fixture->kit->base->clock) / 1000000;
    snprintf(claims, sizeof claims,
             "{\"iss\":\"%s\",\"aud\":\"banyan\",\"exp\":%lld,\"tenant\":\"%s\"%s}", ISS,
             (long long)(now_s + 600), tenant, member);
    return jwt_kit_token(&fixture->token, &fixture->keys[0], claims);
}

static uint32_t admin_scopes(struct fixture *fixture, struct slice token)
{
    struct principal principal = {.scopes = ~0u};
    (void)auth_token_check(&fixture->context, token, true);
    const struct auth_credential credential = {.text = token};
    enum status status = auth_token_authenticate(&fixture->context, &credential, true, &principal);
    if (status != STATUS_OK) {
        assert_int_equal(status, STATUS_KEY_INVALID);
        return 0;
    }
    assert_true(principal.is_admin);
    assert_string_equal(principal.tenant_id, "");
    assert_string_equal(principal.key_id, fixture->issuer.id);
    assert_true(issuers_has_key(fixture->context.issuers, principal.proof));
    return principal.scopes;
}

static void test_admins(void **state)
{
    struct fixture *fixture = *state;
    struct principal principal;
    enum { OPS = AUTH_SCOPE_ADMIN_READ | AUTH_SCOPE_ADMIN_WRITE, LOOK = AUTH_SCOPE_METRICS_READ };
    const struct issuer_fields fields = {
        .given = ISSUER_ADMIN_CLAIM | ISSUER_ADMINS,
        .admin_claim = SLICE("groups"),
        .admins = SLICE("{\"ops\":\"admin:read admin:write\",\"look\":\"metrics:read\"}")};
    const char *id = fixture->tenant.id;
    struct slice before = token_with(fixture, id, ",\"groups\":\"ops\"");
    assert_int_equal(admin_scopes(fixture, before), 0);
    assert_string_equal(status_note()->message, auth_jwt_guard_text(AUTH_JWT_ADMIN));
    assert_int_equal(issuer_update(fixture->kit->issuers, &change, slice_of(fixture->issuer.id),
                                   &fields, &fixture->issuer),
                     STATUS_OK);
    static const struct {
        const char *member;
        uint32_t scopes;
    } cases[] = {
        {",\"groups\":\"ops\"", OPS},
        {",\"groups\":[\"x\",\"look\",\"ops\",\"ops\"]", OPS | LOOK},
        {",\"groups\":\"look users\"", LOOK},
        /* Neither other words, nor scopes' own words, nor other types and places open anything. */
        {"", 0},
        {",\"groups\":\"\"", 0},
        {",\"groups\":[]", 0},
        {",\"groups\":\"Ops\"", 0},
        {",\"groups\":\"opsx\"", 0},
        {",\"groups\":\"admin:read admin:write admin:keys\"", 0},
        {",\"groups\":[\"ops\",7]", 0},
        {",\"groups\":[[\"ops\"]]", 0},
        {",\"groups\":{\"ops\":true}", 0},
        {",\"groups\":true", 0},
        {",\"group\":\"ops\",\"scope\":\"admin:keys\",\"scopes\":[\"admin:keys\"]", 0},
        {",\"x\":{\"groups\":\"ops\"}", 0},
        {",\"groups\":\"ops admin:keys\",\"is_admin\":true", OPS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct slice token = token_with(fixture, id, cases[i].member);
        assert_int_equal(admin_scopes(fixture, token), cases[i].scopes);
        /* For the tenants' API it is what it was: a tenant's token, with a tenant's scopes. */
        assert_int_equal(ask(fixture, token, &principal), STATUS_OK);
        assert_false(principal.is_admin);
        assert_int_equal(principal.scopes, AUTH_SCOPES_TENANT);
    }
    /* Without a tenant it opens the config API alone; twice the member is no token. */
    struct slice alone = token_with(fixture, "", ",\"groups\":\"ops\"");
    assert_int_equal(admin_scopes(fixture, alone), OPS);
    assert_int_equal(ask(fixture, alone, &principal), STATUS_KEY_INVALID);
    assert_string_equal(status_note()->message, auth_jwt_guard_text(AUTH_JWT_TENANT));
    struct slice twice = token_with(fixture, id, ",\"groups\":\"look\",\"groups\":\"ops\"");
    assert_int_equal(admin_scopes(fixture, twice), 0);
    /* Another rule: known tokens are asked again, and have what it says now. */
    alone = token_with(fixture, "", ",\"groups\":\"ops\"");
    const struct issuer_fields less = {.given = ISSUER_ADMINS,
                                       .admins = SLICE("{\"ops\":\"admin:read\"}")};
    assert_int_equal(issuer_update(fixture->kit->issuers, &change, slice_of(fixture->issuer.id),
                                   &less, &fixture->issuer),
                     STATUS_OK);
    const struct auth_credential credential = {.text = alone};
    assert_int_equal(auth_token_authenticate(&fixture->context, &credential, true, &principal),
                     STATUS_UNAVAILABLE);
    assert_int_equal(admin_scopes(fixture, alone), AUTH_SCOPE_ADMIN_READ);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_principal),   TEST(test_how_long),      TEST(test_rotation),
        TEST(test_issuers_end), TEST(test_tenants_state), TEST(test_too_long),
        TEST(test_no_memory),   TEST(test_threads),       TEST(test_admins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
