/* quota_limits: plans, tenants' own limits over them, refusals that change nothing, restarts. */
#include "auth/limits/quota_limits.h"

#include "auth/tenants/tenant_directory.h"
#include "tests/unit/tenant_kit.h"

static struct quota_plan plan_make(struct tenant_kit *kit, const char *name, int64_t requests)
{
    struct quota_plan plan;
    struct quota_plan_fields fields = {.name = slice_of(name), .given = 1u};
    fields.set.values[QUOTA_REQUESTS_PER_MINUTE].limit = requests;
    assert_int_equal(quota_limits_plan_create(kit->tenants, &change, &fields, &plan), STATUS_OK);
    return plan;
}

static struct quota_tenant wanted_of(const char *plan_id)
{
    struct quota_tenant wanted = {.set.cached_percent = -1};
    snprintf(wanted.plan_id, sizeof wanted.plan_id, "%s", plan_id);
    return wanted;
}

static void test_own_limits_stand_over_the_plans(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct slice id = slice_of(tenant.id);
    struct quota_plan plan = plan_make(kit, "small", 10);
    struct quota_plan seen;
    struct quota_tenant wanted = wanted_of(plan.id);
    struct quota_tenant out;
    struct quota_limits_set set;
    assert_int_equal(strncmp(plan.id, "pln_", 4), 0);
    assert_int_equal(quota_limits_get(kit->tenants, id, &out), STATUS_OK);
    assert_int_equal(out.revision, 0);
    uint64_t generation = quota_limits_generation(kit->tenants);
    wanted.set.values[QUOTA_TOKENS_PER_DAY] = (struct quota_limits_value){500, true};
    wanted.set.cached_percent = 50;
    assert_int_equal(quota_limits_put(kit->tenants, &change, id, &wanted, &out), STATUS_OK);
    assert_true(quota_limits_generation(kit->tenants) > generation);
    assert_int_equal(out.revision, 1);
    for (int turn = 0; turn < 2; turn++) {
        quota_limits_resolve(kit->tenants, id, &set);
        assert_int_equal(set.values[QUOTA_REQUESTS_PER_MINUTE].limit, 10);
        assert_int_equal(set.values[QUOTA_TOKENS_PER_DAY].limit, 500);
        assert_true(set.values[QUOTA_TOKENS_PER_DAY].is_shadow);
        assert_int_equal(set.values[QUOTA_KV_TOKENS].limit, 0);
        assert_int_equal(set.cached_percent, 50);
        assert_int_equal(quota_limits_plan_get(kit->tenants, slice_of(plan.id), &seen), STATUS_OK);
        assert_int_equal(seen.tenants, 1);
        tenant_kit_stop(kit); /* and as the file has it */
        tenant_kit_start(kit);
    }
    wanted.set.values[QUOTA_REQUESTS_PER_MINUTE].limit = 3;
    assert_int_equal(quota_limits_put(kit->tenants, &change, id, &wanted, &out), STATUS_OK);
    quota_limits_resolve(kit->tenants, id, &set);
    assert_int_equal(set.values[QUOTA_REQUESTS_PER_MINUTE].limit, 3);
    assert_int_equal(quota_limits_put(kit->tenants, &change, id, &wanted, &out), STATUS_OK);
    assert_int_equal(out.revision, 2); /* as it was: no change */
    assert_int_equal(
        tenant_kit_number(kit, "select count(*) from audit where type = 'limits.updated'"), 2);
    quota_limits_resolve(kit->tenants, SLICE("tnt_nobody"), &set);
    assert_int_equal(set.values[QUOTA_REQUESTS_PER_MINUTE].limit, 0);
}

static void test_plans_change(void **state)
{
    struct tenant_kit *kit = *state;
    struct quota_plan plan = plan_make(kit, "small", 10);
    struct quota_plan other = plan_make(kit, "large", 20);
    struct quota_plan out[3];
    size_t count;
    bool has_more;
    struct quota_plan_fields fields = {.name = SLICE("tiny"), .given = 1u << QUOTA_KV_TOKENS};
    fields.set.values[QUOTA_KV_TOKENS].limit = 4096;
    assert_int_equal(
        quota_limits_plan_update(kit->tenants, &change, slice_of(plan.id), &fields, out),
        STATUS_OK);
    assert_int_equal(out->revision, 2);
    assert_int_equal(out->set.values[QUOTA_REQUESTS_PER_MINUTE].limit, 10); /* not given: stays */
    fields.set.values[QUOTA_KV_TOKENS].limit = 0;
    assert_int_equal(
        quota_limits_plan_update(kit->tenants, &change, slice_of(plan.id), &fields, out),
        STATUS_OK);
    assert_int_equal(out->set.values[QUOTA_KV_TOKENS].limit, 0);
    assert_int_equal(quota_limits_plan_list(kit->tenants, SLICE(""), out, 1, &count, &has_more),
                     STATUS_OK);
    assert_string_equal(out->name, "tiny");
    assert_true(has_more);
    assert_int_equal(
        quota_limits_plan_list(kit->tenants, slice_of(plan.id), out, 3, &count, &has_more),
        STATUS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(out->id, other.id);
    assert_false(has_more);
    assert_int_equal(
        quota_limits_plan_list(kit->tenants, SLICE("pln_no"), out, 3, &count, &has_more),
        STATUS_INVALID);
    assert_int_equal(quota_limits_plan_delete(kit->tenants, &change, slice_of(other.id), out),
                     STATUS_OK);
    assert_int_equal(quota_limits_plan_get(kit->tenants, slice_of(other.id), out),
                     STATUS_NOT_FOUND);
    assert_int_equal(quota_limits_plan_delete(kit->tenants, &change, slice_of(other.id), out),
                     STATUS_NOT_FOUND);
}

/* Archived tenants neither keep a plan nor can they lose it themselves. */
static void test_a_plan_in_use_stays(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct quota_plan plan = plan_make(kit, "small", 10);
    struct quota_tenant wanted = wanted_of(plan.id);
    struct quota_tenant out;
    struct quota_plan gone;
    assert_int_equal(quota_limits_put(kit->tenants, &change, slice_of(tenant.id), &wanted, &out),
                     STATUS_OK);
    assert_int_equal(quota_limits_plan_delete(kit->tenants, &change, slice_of(plan.id), &gone),
                     STATUS_CONFLICT);
    assert_int_equal(tenants_archive(kit->tenants, &change, slice_of(tenant.id), &tenant),
                     STATUS_OK);
    assert_int_equal(quota_limits_put(kit->tenants, &change, slice_of(tenant.id), &wanted, &out),
                     STATUS_CONFLICT);
    assert_int_equal(quota_limits_plan_delete(kit->tenants, &change, slice_of(plan.id), &gone),
                     STATUS_OK);
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    assert_int_equal(quota_limits_get(kit->tenants, slice_of(tenant.id), &out), STATUS_OK);
    assert_string_equal(out.plan_id, "");
}

static void test_refusals_change_nothing(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct slice id = slice_of(tenant.id);
    struct quota_plan plan = plan_make(kit, "small", 10);
    struct quota_plan out;
    struct quota_tenant wanted = wanted_of("pln_unknown");
    struct quota_tenant limits;
    struct quota_plan_fields fields = {.name = SLICE("small")};
    uint64_t generation = quota_limits_generation(kit->tenants);
    int64_t rows = tenant_kit_number(kit, "select count(*) from audit");
    const struct tenant_change stale = {.actor = &actor, .revision_count = 1, .revisions = {9}};
    const struct tenant_change dry = {.actor = &actor, .is_dry_run = true};
    assert_int_equal(quota_limits_plan_create(kit->tenants, &change, &fields, &out), STATUS_EXISTS);
    fields.name = (struct slice){0};
    assert_int_equal(quota_limits_plan_create(kit->tenants, &change, &fields, &out),
                     STATUS_INVALID);
    fields.name = SLICE("a\nb");
    assert_int_equal(quota_limits_plan_create(kit->tenants, &change, &fields, &out),
                     STATUS_INVALID);
    fields.name = SLICE("new");
    fields.has_percent = true;
    fields.set.cached_percent = 101;
    assert_int_equal(quota_limits_plan_create(kit->tenants, &change, &fields, &out),
                     STATUS_OUT_OF_RANGE);
    fields.has_percent = false;
    assert_int_equal(
        quota_limits_plan_update(kit->tenants, &stale, slice_of(plan.id), &fields, &out),
        STATUS_CHANGED);
    assert_int_equal(quota_limits_plan_create(kit->tenants, &dry, &fields, &out), STATUS_OK);
    assert_int_equal(quota_limits_put(kit->tenants, &change, id, &wanted, &limits),
                     STATUS_NOT_FOUND);
    assert_string_equal(status_note()->param, "plan");
    wanted = wanted_of("");
    wanted.set.values[0].limit = LIMIT_QUOTA_RATE + INT64_C(1);
    assert_int_equal(quota_limits_put(kit->tenants, &change, id, &wanted, &limits),
                     STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "requests_per_minute");
    wanted = wanted_of(plan.id);
    assert_int_equal(quota_limits_put(kit->tenants, &dry, id, &wanted, &limits), STATUS_OK);
    assert_int_equal(quota_limits_put(kit->tenants, &stale, id, &wanted, &limits), STATUS_CHANGED);
    assert_int_equal(quota_limits_put(kit->tenants, &change, SLICE("tnt_x"), &wanted, &limits),
                     STATUS_NOT_FOUND);
    assert_int_equal(quota_limits_generation(kit->tenants), generation);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), rows);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from plans"), 1);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from tenant_limits"), 0);
}

/* The longest audit row there can be fits. */
static void test_everything_at_its_longest(void **state)
{
    struct tenant_kit *kit = *state;
    char name[LIMIT_NAME_BYTES];
    struct quota_plan out;
    struct quota_plan_fields fields = {.given = ~0u, .has_percent = true};
    memset(name, '"', sizeof name - 1);
    fields.name = (struct slice){name, sizeof name - 1};
    fields.set.cached_percent = 100;
    for (int i = 0; i < QUOTA_LIMITS; i++)
        fields.set.values[i] =
            (struct quota_limits_value){quota_limits_form((enum quota_limit)i)->most, true};
    assert_int_equal(quota_limits_plan_create(kit->tenants, &change, &fields, &out), STATUS_OK);
    struct buffer text;
    buffer_init(&text, 4096);
    quota_limits_append(&out.set, false, &text);
    assert_non_null(strstr(text.bytes, ",\"tokens_per_month\":{\"limit\":1000000000000000,"
                                       "\"mode\":\"shadow\"},"));
    assert_non_null(strstr(text.bytes, "\"mode\":\"shadow\"},\"cached_input_percent\":100"));
    buffer_deinit(&text);
}

static struct principal principal_of(struct tenant_kit *kit, const struct tenant *tenant)
{
    struct principal principal = {0};
    assert_int_equal(tenants_match_tenant(kit->tenants, tenant->id, &principal), TENANT_MATCH_OPEN);
    return principal;
}

/* A tenant's limits stand over its plan, the plan over the tenant. */
static void test_class_and_weight(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct quota_plan plan;
    struct quota_plan_fields fields = {.name = SLICE("urgent"),
                                       .has_weight = true,
                                       .has_default_class = true,
                                       .has_best_class = true,
                                       .set = {.weight = 7,
                                               .default_class = SERVICE_CLASS_BATCH + 1,
                                               .best_class = SERVICE_CLASS_STANDARD + 1}};
    struct quota_tenant wanted, out;
    assert_int_equal(principal_of(kit, &tenant).weight, tenant.weight);
    assert_int_equal(quota_limits_plan_create(kit->tenants, &change, &fields, &plan), STATUS_OK);
    wanted = wanted_of(plan.id);
    assert_int_equal(quota_limits_put(kit->tenants, &change, slice_of(tenant.id), &wanted, &out),
                     STATUS_OK);
    for (int turn = 0; turn < 2; turn++) {
        struct principal seen = principal_of(kit, &tenant);
        assert_int_equal(seen.weight, 7);
        assert_int_equal(seen.default_class, SERVICE_CLASS_BATCH);
        assert_int_equal(seen.best_class, SERVICE_CLASS_STANDARD);
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
    }
    wanted.set.default_class = SERVICE_CLASS_REALTIME + 1; /* above the plan's best: as that */
    assert_int_equal(quota_limits_put(kit->tenants, &change, slice_of(tenant.id), &wanted, &out),
                     STATUS_OK);
    assert_int_equal(principal_of(kit, &tenant).default_class, SERVICE_CLASS_STANDARD);
    wanted.set.best_class = SERVICE_CLASS_BATCH + 1; /* above its own best: refused */
    assert_int_equal(quota_limits_put(kit->tenants, &change, slice_of(tenant.id), &wanted, &out),
                     STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "default_class");
    wanted.set = (struct quota_limits_set){.cached_percent = -1, .weight = LIMIT_WEIGHT + 1};
    assert_int_equal(quota_limits_put(kit->tenants, &change, slice_of(tenant.id), &wanted, &out),
                     STATUS_OUT_OF_RANGE);
    wanted = wanted_of("");
    assert_int_equal(quota_limits_put(kit->tenants, &change, slice_of(tenant.id), &wanted, &out),
                     STATUS_OK);
    assert_int_equal(principal_of(kit, &tenant).weight, tenant.weight);
    assert_int_equal(principal_of(kit, &tenant).default_class, tenant.default_class);
}

static void test_limit(void **state)
{
    struct tenant_kit *kit = *state;
    struct quota_plan plan;
    char name[32];
    for (int i = 0; i < LIMIT_PLANS; i++) {
        snprintf(name, sizeof name, "plan %d", i);
        plan_make(kit, name, i + 1);
    }
    const struct quota_plan_fields more = {.name = SLICE("one more")};
    assert_int_equal(quota_limits_plan_create(kit->tenants, &change, &more, &plan),
                     STATUS_CONFLICT);
}

int main(void)
{
#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, tenant_kit_setup, tenant_kit_teardown)
    const struct CMUnitTest tests[] = {
        WITH_KIT(test_class_and_weight),
        WITH_KIT(test_own_limits_stand_over_the_plans),
        WITH_KIT(test_plans_change),
        WITH_KIT(test_a_plan_in_use_stays),
        WITH_KIT(test_refusals_change_nothing),
        WITH_KIT(test_everything_at_its_longest),
        WITH_KIT(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
