/* price: which price counts for a row, from when; refusals that change nothing, restarts. */
#include "auth/limits/quota_limits_hooks.h"
#include "auth/tenants/price.h"

#include "auth/limits/quota_limits.h"
#include "auth/tenants/tenant_directory.h"
#include "tests/unit/tenant_kit.h"

static struct price wanted_of(const char *plan_id, const char *model, const char *class,
                              int64_t input_nano)
{
    struct price wanted = {.currency = "eur",
                           .input_nano = input_nano,
                           .cached_input_nano = input_nano / 10,
                           .output_nano = 2 * input_nano,
                           .effective_at_s = -1};
    snprintf(wanted.plan_id, sizeof wanted.plan_id, "%s", plan_id);
    snprintf(wanted.model, sizeof wanted.model, "%s", model);
    snprintf(wanted.service_class, sizeof wanted.service_class, "%s", class);
    return wanted;
}

static struct price make(struct tenant_kit *kit, const char *plan_id, const char *model,
                         const char *class, int64_t input_nano)
{
    struct price out;
    struct price wanted = wanted_of(plan_id, model, class, input_nano);
    assert_int_equal(price_create(kit->tenants, &change, &wanted, &out), STATUS_OK);
    return out;
}

static char *plan_of(struct tenant_kit *kit, const char *tenant_id)
{
    static struct quota_plan plan;
    struct quota_plan_fields fields = {.name = SLICE("gold")};
    struct quota_tenant wanted = {.set.cached_percent = -1};
    struct quota_tenant out;
    assert_int_equal(quota_limits_plan_create(kit->tenants, &change, &fields, &plan), STATUS_OK);
    snprintf(wanted.plan_id, sizeof wanted.plan_id, "%s", plan.id);
    assert_int_equal(quota_limits_put(kit->tenants, &change, slice_of(tenant_id), &wanted, &out),
                     STATUS_OK);
    return plan.id;
}

/* One whole input token: what the price in effect says of it. */
static int64_t cost_at(struct tenant_kit *kit, const char *tenant_id, const char *model,
                       const char *class, int64_t at_s)
{
    struct ledger_row row = {.at_us = at_s * 1000000, .prompt_tokens = 1};
    snprintf(row.tenant_id, sizeof row.tenant_id, "%s", tenant_id);
    snprintf(row.model, sizeof row.model, "%s", model);
    snprintf(row.service_class, sizeof row.service_class, "%s", class);
    return price_of_row(kit->tenants, &row);
}

static void test_the_price_that_says_most(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant plain = tenant_kit_tenant(kit, "plain");
    struct tenant gold = tenant_kit_tenant(kit, "gold");
    const char *plan = plan_of(kit, gold.id);
    assert_int_equal(cost_at(kit, gold.id, "m", "batch", KIT_START_S), 0);
    make(kit, "", "", "", 10);
    make(kit, "", "", "batch", 20);
    make(kit, "", "m", "", 30);
    make(kit, "", "m", "batch", 40);
    make(kit, plan, "", "", 50);
    make(kit, plan, "", "batch", 60);
    make(kit, plan, "m", "", 70);
    make(kit, plan, "m", "batch", 80);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(cost_at(kit, plain.id, "x", "standard", KIT_START_S), 10);
        assert_int_equal(cost_at(kit, plain.id, "x", "batch", KIT_START_S), 20);
        assert_int_equal(cost_at(kit, plain.id, "m", "standard", KIT_START_S), 30);
        assert_int_equal(cost_at(kit, plain.id, "m", "batch", KIT_START_S), 40);
        assert_int_equal(cost_at(kit, gold.id, "x", "standard", KIT_START_S), 50);
        assert_int_equal(cost_at(kit, gold.id, "x", "batch", KIT_START_S), 60);
        assert_int_equal(cost_at(kit, gold.id, "m", "standard", KIT_START_S), 70);
        assert_int_equal(cost_at(kit, gold.id, "m", "batch", KIT_START_S), 80);
        assert_int_equal(cost_at(kit, "tnt_nobody", "m", "batch", KIT_START_S), 40);
        assert_int_equal(cost_at(kit, gold.id, "m", "batch", KIT_START_S - 1), 0); /* before */
        tenant_kit_stop(kit); /* and as the file has it */
        tenant_kit_start(kit);
    }
}

static void test_from_a_moment_on(void **state)
{
    struct tenant_kit *kit = *state;
    struct price wanted = wanted_of("", "", "", 0);
    struct price out;
    static const int64_t after_s[] = {300, 100, 200}; /* not in their order */
    for (int i = 0; i < 3; i++) {
        wanted.effective_at_s = KIT_START_S + after_s[i];
        wanted.input_nano = after_s[i];
        assert_int_equal(price_create(kit->tenants, &change, &wanted, &out), STATUS_OK);
    }
    for (int64_t at = 0; at < 400; at++)
        assert_int_equal(cost_at(kit, "t", "m", "c", KIT_START_S + at), at / 100 * 100);
    /* A price of a model is in the place of the others only from its moment on. */
    wanted = wanted_of("", "m", "", 7);
    wanted.effective_at_s = KIT_START_S + 250;
    assert_int_equal(price_create(kit->tenants, &change, &wanted, &out), STATUS_OK);
    assert_int_equal(cost_at(kit, "t", "m", "c", KIT_START_S + 249), 200);
    assert_int_equal(cost_at(kit, "t", "m", "c", KIT_START_S + 350), 7);
    assert_int_equal(cost_at(kit, "t", "x", "c", KIT_START_S + 350), 300);
}

static void test_what_a_row_costs(void **state)
{
    struct tenant_kit *kit = *state;
    make(kit, "", "", "", 100); /* cached 10, output 200 */
    struct ledger_row row = {.at_us = KIT_START_S * INT64_C(1000000),
                             .prompt_tokens = 1000,
                             .cached_tokens = 300,
                             .completion_tokens = 7};
    assert_int_equal(price_of_row(kit->tenants, &row), 700 * 100 + 300 * 10 + 7 * 200);
    row.cached_tokens = 5000; /* never more than there are */
    assert_int_equal(price_of_row(kit->tenants, &row), 1000 * 10 + 7 * 200);
    struct price wanted = wanted_of("", "dear", "", LIMIT_PRICE_NANO);
    struct price out;
    wanted.output_nano = LIMIT_PRICE_NANO;
    assert_int_equal(price_create(kit->tenants, &change, &wanted, &out), STATUS_OK);
    row = (struct ledger_row){.at_us = KIT_START_S * INT64_C(1000000),
                              .model = "dear",
                              .prompt_tokens = UINT32_MAX,
                              .completion_tokens = UINT32_MAX};
    assert_int_equal(price_of_row(kit->tenants, &row),
                     2 * INT64_C(1000000000) * (int64_t)UINT32_MAX);
}

static void refused(struct tenant_kit *kit, const struct price *wanted, enum status status,
                    const char *param)
{
    struct price out;
    assert_int_equal(price_create(kit->tenants, &change, wanted, &out), status);
    assert_string_equal(status_note()->param, param);
}

static void test_refusals_change_nothing(void **state)
{
    struct tenant_kit *kit = *state;
    struct price made = make(kit, "", "m", "", 5);
    int64_t rows = tenant_kit_number(kit, "select count(*) from audit");
    struct price wanted = wanted_of("", "m", "", 6);
    refused(kit, &wanted, STATUS_EXISTS, "effective_at"); /* the same second */
    wanted = wanted_of("pln_unknown", "", "", 6);
    refused(kit, &wanted, STATUS_NOT_FOUND, "plan");
    wanted = wanted_of("", "", "urgent", 6);
    refused(kit, &wanted, STATUS_INVALID, "class");
    wanted = wanted_of("", "a\nb", "", 6);
    refused(kit, &wanted, STATUS_INVALID, "model");
    wanted = wanted_of("", "", "", 6);
    snprintf(wanted.currency, sizeof wanted.currency, "usd");
    refused(kit, &wanted, STATUS_CONFLICT, "currency");
    snprintf(wanted.currency, sizeof wanted.currency, "EUR");
    refused(kit, &wanted, STATUS_INVALID, "currency");
    snprintf(wanted.currency, sizeof wanted.currency, "eu");
    refused(kit, &wanted, STATUS_INVALID, "currency");
    wanted = wanted_of("", "", "", 6);
    wanted.input_nano = -1;
    refused(kit, &wanted, STATUS_OUT_OF_RANGE, "input_nano");
    wanted = wanted_of("", "", "", 6);
    wanted.cached_input_nano = LIMIT_PRICE_NANO + INT64_C(1);
    refused(kit, &wanted, STATUS_OUT_OF_RANGE, "cached_input_nano");
    wanted = wanted_of("", "", "", 6);
    wanted.output_nano = INT64_MAX;
    refused(kit, &wanted, STATUS_OUT_OF_RANGE, "output_nano");
    const struct tenant_change dry = {.actor = &actor, .is_dry_run = true};
    struct price out;
    wanted = wanted_of("", "", "", 6);
    assert_int_equal(price_create(kit->tenants, &dry, &wanted, &out), STATUS_OK);
    assert_int_equal(price_delete(kit->tenants, &change, slice_of(out.id), &out), STATUS_NOT_FOUND);
    assert_int_equal(price_delete(kit->tenants, &change, slice_of(made.id), &out), STATUS_CONFLICT);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), rows);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from prices"), 1);
    assert_int_equal(cost_at(kit, "t", "m", "c", KIT_START_S), 5);
    assert_int_equal(cost_at(kit, "t", "x", "c", KIT_START_S), 0);
}

/* What has not come into effect may go, and the currency with the last one. */
static void test_delete_and_list(void **state)
{
    struct tenant_kit *kit = *state;
    struct price made[3];
    struct price out[3];
    char currency[PRICE_CURRENCY_BYTES];
    size_t count;
    bool has_more;
    price_currency(kit->tenants, currency);
    assert_string_equal(currency, "");
    for (int i = 0; i < 3; i++) {
        struct price wanted = wanted_of("", "", "", i);
        wanted.effective_at_s = KIT_START_S + 10 + i;
        assert_int_equal(price_create(kit->tenants, &change, &wanted, &made[i]), STATUS_OK);
    }
    price_currency(kit->tenants, currency);
    assert_string_equal(currency, "eur");
    assert_int_equal(price_delete(kit->tenants, &change, slice_of(made[1].id), out), STATUS_OK);
    assert_int_equal(price_list(kit->tenants, SLICE(""), out, 1, &count, &has_more), STATUS_OK);
    assert_string_equal(out->id, made[0].id);
    assert_true(has_more);
    assert_int_equal(price_list(kit->tenants, slice_of(made[0].id), out, 3, &count, &has_more),
                     STATUS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(out->id, made[2].id);
    assert_false(has_more);
    assert_int_equal(price_list(kit->tenants, slice_of(made[1].id), out, 3, &count, &has_more),
                     STATUS_INVALID);
    assert_int_equal(price_get(kit->tenants, slice_of(made[1].id), out), STATUS_NOT_FOUND);
    assert_int_equal(price_get(kit->tenants, slice_of(made[2].id), out), STATUS_OK);
    assert_int_equal(price_delete(kit->tenants, &change, slice_of(made[0].id), out), STATUS_OK);
    assert_int_equal(price_delete(kit->tenants, &change, slice_of(made[2].id), out), STATUS_OK);
    price_currency(kit->tenants, currency);
    assert_string_equal(currency, "");
    assert_int_equal(cost_at(kit, "t", "m", "c", KIT_START_S + 100), 0);
}

/* As many as there may be, in an order that is none, against a walk over all of them. */
static void test_look_ups_of_many(void **state)
{
    struct tenant_kit *kit = *state;
    static struct price made[200];
    enum { PRICES = sizeof made / sizeof made[0] };
    for (int i = 0; i < PRICES; i++) {
        char model[16];
        snprintf(model, sizeof model, "m%d", i * 7 % 20);
        struct price wanted = wanted_of("", model, i % 2 == 0 ? "batch" : "", i);
        wanted.effective_at_s = KIT_START_S + i * 37 % PRICES;
        assert_int_equal(price_create(kit->tenants, &change, &wanted, &made[i]), STATUS_OK);
    }
    for (int at = -1; at <= PRICES; at++) {
        char model[16];
        snprintf(model, sizeof model, "m%d", (at + 1) % 20);
        const struct price *found = NULL;
        for (int wide = 0; wide < 2 && found == NULL; wide++) {
            for (int i = 0; i < PRICES; i++) {
                if (strcmp(made[i].model, model) == 0 &&
                    strcmp(made[i].service_class, wide == 0 ? "batch" : "") == 0 &&
                    made[i].effective_at_s <= KIT_START_S + at &&
                    (found == NULL || made[i].effective_at_s > found->effective_at_s))
                    found = &made[i];
            }
        }
        assert_int_equal(cost_at(kit, "t", model, "batch", KIT_START_S + at),
                         found != NULL ? found->input_nano : 0);
    }
}

static void test_limit(void **state)
{
    struct tenant_kit *kit = *state;
    struct price wanted = wanted_of("", "", "", 1);
    struct price out;
    tenant_kit_execute(
        kit, "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1024) "
             "insert into prices select i, 'prc_' || i, '', 'm' || i, '', 'eur', 1, 1, 1, 0, 0 "
             "from n");
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    assert_int_equal(cost_at(kit, "t", "m1024", "batch", KIT_START_S), 1);
    refused(kit, &wanted, STATUS_CONFLICT, "");
    tenant_kit_execute(kit, "insert into prices values (2000, 'x', '', '', '', 'eur', 1, 1, 1, 0, "
                            "0)");
    tenants_close(kit->tenants);
    const struct tenants_options options = {.pepper = kit_pepper,
                                            .domain = kit_domain,
                                            .clock = &kit->clock,
                                            .store = kit->store,
                                            .limits = &quota_limits_hooks};
    assert_int_equal(tenants_open(&kit->tenants, &options), STATUS_LIMIT);
    tenant_kit_execute(kit, "delete from prices where number > 1; update prices set output_nano = "
                            "1000000001");
    assert_int_equal(tenants_open(&kit->tenants, &options), STATUS_CORRUPT);
    tenant_kit_execute(kit, "delete from prices");
    assert_int_equal(tenants_open(&kit->tenants, &options), STATUS_OK);
    assert_int_equal(price_create(kit->tenants, &change, &wanted, &out), STATUS_OK);
}

int main(void)
{
#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, tenant_kit_setup, tenant_kit_teardown)
    const struct CMUnitTest tests[] = {
        WITH_KIT(test_the_price_that_says_most),
        WITH_KIT(test_from_a_moment_on),
        WITH_KIT(test_what_a_row_costs),
        WITH_KIT(test_refusals_change_nothing),
        WITH_KIT(test_delete_and_list),
        WITH_KIT(test_look_ups_of_many),
        WITH_KIT(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
