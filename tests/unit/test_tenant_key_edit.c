/* tenant_key_edit: making, changing, rotating and revoking keys; and a random walk of all changes
 * of tenants and keys beside a model. */
#include "auth/tenants/tenant_directory.h"
#include "tests/unit/tenant_kit.h"

#include "config/base/rng.h"

static enum status create(struct tenant_kit *kit, const char *tenant_id,
                          struct tenant_key_fields fields, struct tenant_key *out)
{
    char value[LIMIT_KEY_BYTES];
    return tenants_key_create(kit->tenants, &change, slice_of(tenant_id), &fields, out, value);
}

static enum status update(struct tenant_kit *kit, const struct tenant_key *key,
                          struct tenant_key_fields fields, struct tenant_key *out)
{
    return tenants_key_update(kit->tenants, &change, slice_of(key->tenant_id), slice_of(key->id),
                              &fields, out);
}

static enum status rotate(struct tenant_kit *kit, const struct tenant_key *key, int64_t overlap_s,
                          struct tenant_key *out, char value[LIMIT_KEY_BYTES])
{
    return tenants_key_rotate(kit->tenants, &change, slice_of(key->tenant_id), slice_of(key->id),
                              overlap_s, out, value);
}

static enum status revoke_key(struct tenant_kit *kit, const struct tenant_key *key,
                              struct tenant_key *out)
{
    return tenants_key_revoke(kit->tenants, &change, slice_of(key->tenant_id), slice_of(key->id),
                              out);
}

static struct tenant_key get(struct tenant_kit *kit, const struct tenant_key *key)
{
    struct tenant_key out;
    assert_int_equal(
        tenants_key_get(kit->tenants, slice_of(key->tenant_id), slice_of(key->id), &out),
        STATUS_OK);
    return out;
}

static void test_create(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    struct tenant_key key;
    assert_int_equal(create(kit, one.id, (struct tenant_key_fields){0}, &key), STATUS_OK);
    assert_string_equal(key.name, "unnamed");
    assert_int_equal(key.scopes, AUTH_SCOPES_TENANT);
    assert_int_equal(key.expires_at_s, 0);
    assert_int_equal(key.revision, 1);
    /* Scopes of the other kind, none, none for an admin key. */
    static const struct {
        bool is_admin;
        struct tenant_key_fields fields;
        enum status status;
        const char *param;
    } rows[] = {
        {false,
         {.given = TENANT_KEY_SCOPES, .scopes = AUTH_SCOPE_ADMIN_READ},
         STATUS_INVALID,
         "scopes"},
        {false, {.given = TENANT_KEY_SCOPES, .scopes = 0}, STATUS_INVALID, "scopes"},
        {true,
         {.given = TENANT_KEY_SCOPES, .scopes = AUTH_SCOPE_INFERENCE},
         STATUS_INVALID,
         "scopes"},
        {true, {0}, STATUS_INVALID, "scopes"},
        {false,
         {.given = TENANT_KEY_EXPIRES, .expires_at_s = KIT_START_S},
         STATUS_OUT_OF_RANGE,
         "expires_at"},
        {false,
         {.given = TENANT_KEY_EXPIRES, .expires_at_s = LIMIT_TIME_S + 1},
         STATUS_OUT_OF_RANGE,
         "expires_at"},
        {false, {.given = TENANT_KEY_NAME, .name = {"", 0}}, STATUS_INVALID, "name"},
        {false, {.given = TENANT_KEY_EXPIRES, .expires_at_s = KIT_START_S + 1}, STATUS_OK, ""},
        {false, {.given = TENANT_KEY_EXPIRES, .expires_at_s = LIMIT_TIME_S}, STATUS_OK, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(create(kit, rows[i].is_admin ? "" : one.id, rows[i].fields, &key),
                         rows[i].status);
        if (rows[i].status != STATUS_OK)
            assert_string_equal(status_note()->param, rows[i].param);
    }
    assert_int_equal(tenants_key_get(kit->tenants, slice_of(one.id), SLICE("key_no"), &key),
                     STATUS_NOT_FOUND);
}

static void test_update(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    struct tenant two = tenant_kit_tenant(kit, "two");
    char value[LIMIT_KEY_BYTES];
    struct tenant_key key = tenant_kit_key(kit, one.id, value);
    struct tenant_key out;
    const struct tenant_key_fields all = {.given = TENANT_KEY_NAME | TENANT_KEY_SCOPES |
                                                   TENANT_KEY_EXPIRES,
                                          .name = SLICE("new"),
                                          .scopes = AUTH_SCOPE_INFERENCE,
                                          .expires_at_s = KIT_START_S + 10};
    for (int i = 0; i < 2; i++) { /* the second time nothing changes */
        assert_int_equal(update(kit, &key, all, &out), STATUS_OK);
        assert_int_equal(out.revision, 2);
    }
    assert_string_equal(out.name, "new");
    assert_int_equal(out.scopes, AUTH_SCOPE_INFERENCE);
    struct tenant_key wrong = key;
    memcpy(wrong.tenant_id, two.id, sizeof wrong.tenant_id);
    assert_int_equal(update(kit, &wrong, all, &out), STATUS_NOT_FOUND);
    tenant_kit_pass(kit, 10);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_EXPIRED);
    /* An end that was passed may be taken back, as long as the key was not rotated. */
    const struct tenant_key_fields never = {.given = TENANT_KEY_EXPIRES};
    assert_int_equal(update(kit, &key, never, &out), STATUS_OK);
    assert_int_equal(out.expires_at_s, 0);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
    const struct tenant_change other = {.actor = &actor, .revision_count = 1, .revisions = {2}};
    assert_int_equal(
        tenants_key_update(kit->tenants, &other, slice_of(one.id), slice_of(key.id), &all, &out),
        STATUS_CHANGED);
    assert_int_equal(revoke_key(kit, &key, &out), STATUS_OK);
    assert_int_equal(update(kit, &key, never, &out), STATUS_CONFLICT);
    assert_int_equal(tenants_archive(kit->tenants, &change, slice_of(two.id), &two), STATUS_OK);
    assert_int_equal(create(kit, two.id, (struct tenant_key_fields){0}, &out), STATUS_CONFLICT);
}

static void test_rotate(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    char values[3][LIMIT_KEY_BYTES];
    struct tenant_key key = tenant_kit_key(kit, one.id, values[0]);
    struct tenant_key next;
    struct tenant_key out;
    const struct tenant_key_fields month = {.given = TENANT_KEY_EXPIRES | TENANT_KEY_SCOPES,
                                            .scopes = AUTH_SCOPE_USAGE_READ,
                                            .expires_at_s = KIT_START_S + 2592000};
    assert_int_equal(update(kit, &key, month, &out), STATUS_OK);
    tenant_kit_pass(kit, 1000);
    assert_int_equal(rotate(kit, &key, LIMIT_OVERLAP_S + 1, &next, values[1]), STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "overlap_s");
    assert_string_equal(values[1], "");
    assert_int_equal(rotate(kit, &key, 60, &next, values[1]), STATUS_OK);
    assert_string_equal(next.name, key.name);
    assert_int_equal(next.scopes, AUTH_SCOPE_USAGE_READ);
    assert_int_equal(next.expires_at_s, KIT_START_S + 1000 + 2592000); /* as long a life */
    struct tenant_key old = get(kit, &key);
    assert_string_equal(old.rotated_to, next.id);
    assert_int_equal(old.expires_at_s, KIT_START_S + 1060);
    assert_int_equal(old.revision, 3);
    assert_int_equal(tenant_kit_match(kit, values[0]), TENANT_MATCH_OPEN);
    assert_int_equal(tenant_kit_match(kit, values[1]), TENANT_MATCH_OPEN);
    assert_int_equal(rotate(kit, &key, 60, &out, values[2]), STATUS_CONFLICT); /* once */
    /* A rotated key may end earlier, never later. */
    struct tenant_key_fields end = {.given = TENANT_KEY_EXPIRES,
                                    .expires_at_s = KIT_START_S + 1061};
    assert_int_equal(update(kit, &key, end, &out), STATUS_OUT_OF_RANGE);
    end.expires_at_s = 0;
    assert_int_equal(update(kit, &key, end, &out), STATUS_OUT_OF_RANGE);
    end.expires_at_s = KIT_START_S + 1059;
    assert_int_equal(update(kit, &key, end, &out), STATUS_OK);
    tenant_kit_pass(kit, 59);
    assert_int_equal(tenant_kit_match(kit, values[0]), TENANT_MATCH_EXPIRED);
    assert_int_equal(tenant_kit_match(kit, values[1]), TENANT_MATCH_OPEN);
    /* At once. */
    assert_int_equal(rotate(kit, &next, 0, &out, values[2]), STATUS_OK);
    assert_int_equal(tenant_kit_match(kit, values[1]), TENANT_MATCH_EXPIRED);
    assert_int_equal(tenant_kit_match(kit, values[2]), TENANT_MATCH_OPEN);
    for (int restart = 0; restart < 2; restart++) {
        assert_string_equal(get(kit, &next).rotated_to, out.id);
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
    }
    assert_int_equal(tenant_kit_match(kit, values[2]), TENANT_MATCH_OPEN);
}

/* The overlap may not be longer than what the key has left; without one it is shortened to that. */
static void test_rotate_near_the_end(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    struct tenant_key key;
    struct tenant_key next;
    struct tenant_key out;
    char value[LIMIT_KEY_BYTES];
    assert_int_equal(create(kit, one.id,
                            (struct tenant_key_fields){.given = TENANT_KEY_EXPIRES,
                                                       .expires_at_s = KIT_START_S + 100},
                            &key),
                     STATUS_OK);
    assert_int_equal(rotate(kit, &key, 101, &next, value), STATUS_OUT_OF_RANGE);
    assert_int_equal(rotate(kit, &key, -1, &next, value), STATUS_OK);
    assert_int_equal(get(kit, &key).expires_at_s, KIT_START_S + 100);
    assert_int_equal(rotate(kit, &next, 100, &out, value), STATUS_OK);
    tenant_kit_pass(kit, 100);
    assert_int_equal(rotate(kit, &out, -1, &next, value), STATUS_CONFLICT); /* expired */
    key = tenant_kit_key(kit, one.id, value);
    assert_int_equal(revoke_key(kit, &key, &out), STATUS_OK);
    assert_int_equal(rotate(kit, &key, -1, &next, value), STATUS_CONFLICT); /* revoked */
    key = tenant_kit_key(kit, one.id, value);
    assert_int_equal(rotate(kit, &key, -1, &next, value), STATUS_OK);
    assert_int_equal(get(kit, &key).expires_at_s, KIT_START_S + 100 + TENANT_OVERLAP_DEFAULT_S);
}

/* A key made while the clock ran ahead has a length of life that means nothing: the next one lives
 * at least as long as the old one would have. */
static void test_rotate_behind_a_stepped_clock(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    char value[LIMIT_KEY_BYTES];
    tenant_kit_pass(kit, 100000);
    struct tenant_key key = tenant_kit_key(kit, one.id, value);
    struct tenant_key next;
    tenant_kit_pass(kit, -100000);
    const struct tenant_key_fields end = {.given = TENANT_KEY_EXPIRES,
                                          .expires_at_s = KIT_START_S + 5000};
    assert_int_equal(update(kit, &key, end, &next), STATUS_OK);
    assert_int_equal(rotate(kit, &key, 0, &next, value), STATUS_OK);
    assert_int_equal(next.expires_at_s, KIT_START_S + 5000);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
}

/* Nobody gives what they do not have, by no way: making, changing, rotating. */
static void test_no_more_than_the_actors_scopes(void **state)
{
    struct tenant_kit *kit = *state;
    struct audit_actor small = {.scopes = AUTH_SCOPE_ADMIN_KEYS | AUTH_SCOPE_ADMIN_READ};
    const struct tenant_change by_small = {.actor = &small};
    char value[LIMIT_KEY_BYTES];
    struct tenant_key root = tenant_kit_key(kit, "", value);
    struct tenant_key made;
    struct tenant_key out;
    struct tenant_key_fields scopes = {.given = TENANT_KEY_SCOPES,
                                       .scopes = AUTH_SCOPE_ADMIN_WRITE | AUTH_SCOPE_ADMIN_READ};
    assert_int_equal(tenants_key_create(kit->tenants, &by_small, SLICE(""), &scopes, &made, value),
                     STATUS_FORBIDDEN);
    assert_string_equal(status_note()->param, "scopes");
    scopes.scopes = AUTH_SCOPE_ADMIN_READ;
    assert_int_equal(tenants_key_create(kit->tenants, &by_small, SLICE(""), &scopes, &made, value),
                     STATUS_OK);
    scopes.scopes = AUTH_SCOPE_ADMIN_READ | AUTH_SCOPE_METRICS_READ;
    assert_int_equal(
        tenants_key_update(kit->tenants, &by_small, SLICE(""), slice_of(made.id), &scopes, &out),
        STATUS_FORBIDDEN);
    assert_int_equal(
        tenants_key_rotate(kit->tenants, &by_small, SLICE(""), slice_of(root.id), 0, &out, value),
        STATUS_FORBIDDEN);
    /* What a key had it may keep, and lose. */
    tenant_kit_key(kit, "", value);
    scopes.scopes = AUTH_SCOPE_ADMIN_WRITE;
    assert_int_equal(
        tenants_key_update(kit->tenants, &by_small, SLICE(""), slice_of(root.id), &scopes, &out),
        STATUS_OK);
    /* A longer life of its value, which somebody may have kept, is such a gift too; a shorter one
     * is not. */
    struct tenant_key old;
    struct tenant_key_fields end = {.given = TENANT_KEY_SCOPES | TENANT_KEY_EXPIRES,
                                    .scopes = AUTH_SCOPES_ADMIN,
                                    .expires_at_s = KIT_START_S + 10};
    assert_int_equal(create(kit, "", end, &old), STATUS_OK);
    end.given = TENANT_KEY_EXPIRES;
    for (int64_t at_s = 9; at_s <= 12; at_s++) {
        end.expires_at_s = at_s < 12 ? KIT_START_S + at_s : 0;
        assert_int_equal(
            tenants_key_update(kit->tenants, &by_small, SLICE(""), slice_of(old.id), &end, &out),
            at_s == 9 ? STATUS_OK : STATUS_FORBIDDEN);
    }
    assert_string_equal(status_note()->param, "expires_at");
    tenant_kit_pass(kit, 9); /* expired */
    assert_int_equal(
        tenants_key_update(kit->tenants, &by_small, SLICE(""), slice_of(old.id), &end, &out),
        STATUS_FORBIDDEN);
    assert_int_equal(update(kit, &old, end, &out), STATUS_OK);
    /* A tenant's key has scopes of its own, which need none of the actor's. */
    struct tenant one = tenant_kit_tenant(kit, "one");
    scopes.scopes = AUTH_SCOPES_TENANT;
    assert_int_equal(
        tenants_key_create(kit->tenants, &by_small, slice_of(one.id), &scopes, &out, value),
        STATUS_OK);
}

static void test_the_last_key_that_makes_keys(void **state)
{
    struct tenant_kit *kit = *state;
    char value[LIMIT_KEY_BYTES];
    struct tenant_key root = tenant_kit_key(kit, "", value);
    struct tenant_key out;
    struct tenant_key next;
    struct tenant_key_fields less = {.given = TENANT_KEY_SCOPES, .scopes = AUTH_SCOPE_ADMIN_READ};
    struct tenant_key_fields end = {.given = TENANT_KEY_EXPIRES,
                                    .expires_at_s = KIT_START_S + 1000};
    assert_int_equal(revoke_key(kit, &root, &out), STATUS_CONFLICT);
    assert_int_equal(update(kit, &root, less, &out), STATUS_CONFLICT);
    assert_int_equal(update(kit, &root, end, &out), STATUS_CONFLICT);
    assert_int_equal(get(kit, &root).revision, 1);
    /* Each scope for itself: whoever has the others cannot give it back. */
    struct tenant_key other;
    for (uint32_t scope = 1; scope <= AUTH_SCOPES_ADMIN; scope <<= 1) {
        less.scopes = AUTH_SCOPES_ADMIN & ~scope;
        assert_int_equal(update(kit, &root, less, &out), STATUS_CONFLICT);
        assert_non_null(strstr(status_note()->message, auth_scope_word(scope)));
        assert_int_equal(create(kit, "", less, &other), STATUS_OK);
        assert_int_equal(update(kit, &root, less, &out), STATUS_CONFLICT);
        assert_int_equal(revoke_key(kit, &root, &out), STATUS_CONFLICT);
        assert_int_equal(revoke_key(kit, &other, &out), STATUS_OK);
    }
    less.scopes = AUTH_SCOPES_ADMIN & ~(uint32_t)AUTH_SCOPE_ADMIN_KEYS; /* what counts stays */
    assert_int_equal(create(kit, "", less, &other), STATUS_OK);
    less.scopes = AUTH_SCOPE_ADMIN_KEYS;
    assert_int_equal(update(kit, &root, less, &out), STATUS_OK);
    /* A rotation leaves another one; the old one may then go. */
    assert_int_equal(rotate(kit, &root, 10, &next, value), STATUS_OK);
    assert_int_equal(revoke_key(kit, &root, &out), STATUS_OK);
    assert_int_equal(revoke_key(kit, &next, &out), STATUS_CONFLICT);
    /* A second one that will expire, or has, does not count. */
    assert_int_equal(
        create(kit, "",
               (struct tenant_key_fields){.given = TENANT_KEY_EXPIRES | TENANT_KEY_SCOPES,
                                          .scopes = AUTH_SCOPE_ADMIN_KEYS,
                                          .expires_at_s = KIT_START_S + 5},
               &out),
        STATUS_OK);
    assert_int_equal(revoke_key(kit, &next, &out), STATUS_CONFLICT);
    tenant_kit_pass(kit, 5);
    assert_int_equal(revoke_key(kit, &next, &out), STATUS_CONFLICT);
    tenant_kit_key(kit, "", value);
    assert_int_equal(revoke_key(kit, &next, &out), STATUS_OK);
}

static void test_dry_run(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    char value[LIMIT_KEY_BYTES];
    char none[LIMIT_KEY_BYTES];
    struct tenant_key key = tenant_kit_key(kit, one.id, value);
    struct tenant_key out;
    const struct tenant_change dry = {.actor = &actor, .is_dry_run = true};
    const struct tenant_key_fields name = {.given = TENANT_KEY_NAME, .name = SLICE("other")};
    struct slice tenant_id = slice_of(one.id);
    struct slice key_id = slice_of(key.id);
    int64_t rows = tenant_kit_number(kit, "select count(*) from audit");
    assert_int_equal(tenants_key_create(kit->tenants, &dry, tenant_id, &name, &out, none),
                     STATUS_OK);
    assert_string_equal(none, "");
    assert_int_equal(tenants_key_get(kit->tenants, tenant_id, slice_of(out.id), &out),
                     STATUS_NOT_FOUND);
    assert_int_equal(tenants_key_update(kit->tenants, &dry, tenant_id, key_id, &name, &out),
                     STATUS_OK);
    assert_string_equal(out.name, "other");
    assert_int_equal(tenants_key_rotate(kit->tenants, &dry, tenant_id, key_id, 0, &out, none),
                     STATUS_OK);
    assert_string_equal(none, "");
    assert_int_equal(tenants_key_revoke(kit->tenants, &dry, tenant_id, key_id, &out), STATUS_OK);
    assert_int_not_equal(out.revoked_at_s, 0);
    assert_int_equal(get(kit, &key).revision, 1);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), rows);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from keys"), 1);
}

/* --- a random walk beside a model --- */

enum { MODEL_TENANTS = 6, MODEL_KEYS = 40, STEPS = 1500 };

struct model_key {
    struct tenant_key key; /* as it should be */
    int tenant;
    char value[LIMIT_KEY_BYTES];
};

struct model {
    struct tenant_kit *kit;
    struct rng rng;
    int64_t now_s;
    struct tenant tenants[MODEL_TENANTS];
    int tenant_count;
    struct model_key keys[MODEL_KEYS];
    int key_count;
};

static enum tenant_match model_match(const struct model *model, const struct model_key *key)
{
    enum tenant_state owner = model->tenants[key->tenant].state;
    if (key->key.revoked_at_s != 0)
        return TENANT_MATCH_REVOKED;
    if (key->key.expires_at_s != 0 && key->key.expires_at_s <= model->now_s)
        return TENANT_MATCH_EXPIRED;
    if (owner == TENANT_ARCHIVED)
        return TENANT_MATCH_ARCHIVED;
    return owner == TENANT_SUSPENDED ? TENANT_MATCH_SUSPENDED : TENANT_MATCH_OPEN;
}

static void model_compare(struct model *model)
{
    for (int i = 0; i < model->tenant_count; i++) {
        struct tenant found;
        const struct tenant *wanted = &model->tenants[i];
        assert_int_equal(tenants_get(model->kit->tenants, slice_of(wanted->id), &found), STATUS_OK);
        assert_string_equal(found.name, wanted->name);
        assert_int_equal(found.state, wanted->state);
        assert_int_equal(found.weight, wanted->weight);
        assert_int_equal(found.revision, wanted->revision);
    }
    for (int i = 0; i < model->key_count; i++) {
        const struct model_key *wanted = &model->keys[i];
        struct tenant_key found = get(model->kit, &wanted->key);
        assert_int_equal(tenant_kit_match(model->kit, wanted->value), model_match(model, wanted));
        assert_int_equal(found.scopes, wanted->key.scopes);
        assert_int_equal(found.expires_at_s, wanted->key.expires_at_s);
        assert_int_equal(found.revoked_at_s, wanted->key.revoked_at_s);
        assert_int_equal(found.revision, wanted->key.revision);
        assert_string_equal(found.rotated_to, wanted->key.rotated_to);
        assert_string_equal(found.name, wanted->key.name);
    }
}

static void step_create(struct model *model)
{
    char name[16];
    snprintf(name, sizeof name, "t%d", (int)rng_below(&model->rng, MODEL_TENANTS));
    bool is_taken = false;
    for (int i = 0; i < model->tenant_count; i++)
        is_taken |=
            strcmp(model->tenants[i].name, name) == 0 && model->tenants[i].state != TENANT_ARCHIVED;
    struct tenant made;
    if (model->tenant_count == MODEL_TENANTS)
        return;
    enum status status = kit_tenant(model->kit->tenants, slice_of(name), 7, &made);
    assert_int_equal(status, is_taken ? STATUS_EXISTS : STATUS_OK);
    if (status == STATUS_OK)
        model->tenants[model->tenant_count++] = made;
}

static void step_state(struct model *model)
{
    struct tenant *tenant = &model->tenants[rng_below(&model->rng, (uint32_t)model->tenant_count)];
    const struct tenant_fields fields = {
        .given = TENANT_STATE,
        .state = rng_below(&model->rng, 2) == 0 ? TENANT_ACTIVE : TENANT_SUSPENDED};
    struct tenant out;
    struct slice id = slice_of(tenant->id);
    if (rng_below(&model->rng, 12) == 0) {
        assert_int_equal(tenants_archive(model->kit->tenants, &change, id, &out), STATUS_OK);
        tenant->revision += tenant->state != TENANT_ARCHIVED;
        tenant->state = TENANT_ARCHIVED;
        return;
    }
    enum status status = tenants_update(model->kit->tenants, &change, id, &fields, &out);
    assert_int_equal(status, tenant->state == TENANT_ARCHIVED ? STATUS_CONFLICT : STATUS_OK);
    if (status == STATUS_OK) {
        tenant->revision += tenant->state != fields.state;
        tenant->state = fields.state;
    }
}

static void step_key_create(struct model *model)
{
    if (model->key_count == MODEL_KEYS)
        return;
    struct model_key *key = &model->keys[model->key_count];
    key->tenant = (int)rng_below(&model->rng, (uint32_t)model->tenant_count);
    const struct tenant *owner = &model->tenants[key->tenant];
    int64_t life_s = (int64_t)rng_below(&model->rng, 3) * 400;
    const struct tenant_key_fields fields = {
        .given = TENANT_KEY_EXPIRES, .expires_at_s = life_s > 0 ? model->now_s + life_s : 0};
    enum status status = tenants_key_create(model->kit->tenants, &change, slice_of(owner->id),
                                            &fields, &key->key, key->value);
    assert_int_equal(status, owner->state == TENANT_ARCHIVED ? STATUS_CONFLICT : STATUS_OK);
    model->key_count += status == STATUS_OK;
}

static void step_key_update(struct model *model, struct model_key *key)
{
    int64_t later_s = (int64_t)rng_below(&model->rng, 900) - 100;
    const struct tenant_key_fields fields = {.given = TENANT_KEY_EXPIRES,
                                             .expires_at_s = model->now_s + later_s};
    struct tenant_key out;
    bool is_same = fields.expires_at_s == key->key.expires_at_s;
    bool is_rotated = key->key.rotated_to[0] != '\0';
    enum status expected = STATUS_OK;
    if (model->tenants[key->tenant].state == TENANT_ARCHIVED || key->key.revoked_at_s != 0)
        expected = STATUS_CONFLICT;
    else if (!is_same &&
             (later_s <= 0 || (is_rotated && fields.expires_at_s > key->key.expires_at_s)))
        expected = STATUS_OUT_OF_RANGE;
    assert_int_equal(update(model->kit, &key->key, fields, &out), expected);
    if (expected == STATUS_OK && !is_same) {
        key->key.expires_at_s = fields.expires_at_s;
        key->key.revision++;
    }
}

static void step_key_rotate(struct model *model, struct model_key *key)
{
    struct model_key *next = &model->keys[model->key_count];
    int64_t overlap_s = (int64_t)rng_below(&model->rng, 600);
    if (model->key_count == MODEL_KEYS)
        return;
    enum tenant_match standing = model_match(model, key);
    int64_t left_s = key->key.expires_at_s - model->now_s;
    enum status expected = STATUS_OK;
    if (model->tenants[key->tenant].state == TENANT_ARCHIVED || standing == TENANT_MATCH_REVOKED ||
        standing == TENANT_MATCH_EXPIRED || key->key.rotated_to[0] != '\0')
        expected = STATUS_CONFLICT;
    else if (key->key.expires_at_s != 0 && overlap_s > left_s)
        expected = STATUS_OUT_OF_RANGE;
    next->tenant = key->tenant;
    assert_int_equal(rotate(model->kit, &key->key, overlap_s, &next->key, next->value), expected);
    if (expected != STATUS_OK)
        return;
    model->key_count++;
    key->key.expires_at_s = model->now_s + overlap_s;
    key->key.revision++;
    memcpy(key->key.rotated_to, next->key.id, sizeof key->key.rotated_to);
}

static void step_key_revoke(struct model *model, struct model_key *key)
{
    struct tenant_key out;
    assert_int_equal(revoke_key(model->kit, &key->key, &out), STATUS_OK);
    if (key->key.revoked_at_s == 0) {
        key->key.revoked_at_s = model->now_s;
        key->key.revision++;
    }
}

static void step(struct model *model)
{
    uint64_t what = rng_below(&model->rng, 16);
    struct model_key *key = NULL;
    if (model->key_count > 0)
        key = &model->keys[rng_below(&model->rng, (uint32_t)model->key_count)];
    if (what < 2 || model->tenant_count == 0)
        step_create(model);
    else if (what < 4)
        step_state(model);
    else if (what < 7 || key == NULL)
        step_key_create(model);
    else if (what < 10)
        step_key_update(model, key);
    else if (what < 13)
        step_key_rotate(model, key);
    else if (what < 14)
        step_key_revoke(model, key);
    else {
        int64_t seconds = (int64_t)rng_below(&model->rng, 120);
        model->now_s += seconds;
        tenant_kit_pass(model->kit, seconds);
    }
}

static void test_model(void **state)
{
    static struct model model;
    int restarts = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        void *fresh = NULL;
        assert_int_equal(tenant_kit_setup(&fresh), 0);
        model = (struct model){.kit = fresh, .rng = {.seed = seed}, .now_s = KIT_START_S};
        for (int i = 0; i < STEPS / 6; i++) {
            step(&model);
            model_compare(&model);
            if (rng_below(&model.rng, 50) == 0) {
                restarts++;
                tenant_kit_stop(model.kit);
                tenant_kit_start(model.kit);
                model_compare(&model);
            }
        }
        assert_true(model.key_count > 10);
        assert_int_equal(tenant_kit_teardown(&fresh), 0);
    }
    assert_true(restarts > 5);
    (void)state;
}

static void test_full_disk(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    char value[LIMIT_KEY_BYTES];
    char other[LIMIT_KEY_BYTES];
    struct tenant_key key = tenant_kit_key(kit, one.id, value);
    struct tenant_key out;
    tenant_kit_fill_disk(kit, true);
    enum status status = STATUS_OK;
    int made = 0;
    for (; made < 200 && status == STATUS_OK; made++) /* until the pages that are there are full */
        status = create(kit, one.id, (struct tenant_key_fields){0}, &out);
    assert_int_equal(status, STATUS_STORAGE_FULL);
    do /* nor is there room for the least row of the audit, and each change has one */
        status = tenants_audit_add(kit->tenants, &change, "x", SLICE("x"), SLICE("{}"));
    while (status == STATUS_OK);
    assert_int_equal(status, STATUS_STORAGE_FULL);
    assert_int_equal(tenants_key_count(kit->tenants), (size_t)made);
    assert_int_equal(rotate(kit, &key, 0, &out, other), STATUS_STORAGE_FULL);
    assert_string_equal(other, "");
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
    assert_int_equal(get(kit, &key).revision, 1);
    tenant_kit_fill_disk(kit, false);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from keys"), made);
    assert_int_equal(rotate(kit, &key, 0, &out, other), STATUS_OK);
    assert_int_equal(tenant_kit_match(kit, other), TENANT_MATCH_OPEN);
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    char value[LIMIT_KEY_BYTES];
    char other[LIMIT_KEY_BYTES];
    struct tenant_key key = tenant_kit_key(kit, one.id, value);
    struct tenant_key out;
    int failures = 0;
    for (int n = 1;; n++) {
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status = rotate(kit, &key, 0, &out, other);
        mem_hook_set(NULL, NULL);
        if (left > 0) {
            assert_int_equal(status, STATUS_OK);
            break;
        }
        failures++;
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_string_equal(other, "");
        assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
        assert_int_equal(tenants_key_count(kit->tenants), 1);
        assert_int_equal(tenant_kit_number(kit, "select count(*) from keys"), 1);
    }
    assert_true(failures >= 2);
    assert_int_equal(tenant_kit_match(kit, other), TENANT_MATCH_OPEN);
}

/* The index says how many there are: as if there were all but one. */
static void test_limit(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    struct tenant_key last, more;
    char value[LIMIT_KEY_BYTES];
    size_t count = kit->tenants->keys_by_id.count;
    kit->tenants->keys_by_id.count = LIMIT_KEYS - 1;
    assert_int_equal(create(kit, one.id, (struct tenant_key_fields){0}, &last), STATUS_OK);
    assert_int_equal(create(kit, one.id, (struct tenant_key_fields){0}, &more), STATUS_CONFLICT);
    assert_int_equal(rotate(kit, &last, 0, &more, value), STATUS_CONFLICT);
    kit->tenants->keys_by_id.count = count + 1;
    assert_int_equal(rotate(kit, &last, 0, &more, value), STATUS_OK);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, tenant_kit_setup, tenant_kit_teardown)
    const struct CMUnitTest tests[] = {
        T(test_create),
        T(test_update),
        T(test_rotate),
        T(test_rotate_near_the_end),
        T(test_rotate_behind_a_stepped_clock),
        T(test_no_more_than_the_actors_scopes),
        T(test_the_last_key_that_makes_keys),
        T(test_dry_run),
        cmocka_unit_test(test_model),
        T(test_limit),
        T(test_full_disk),
        T(test_memory_fails_at_each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
