/* quota: accounts follow their limits; budgets come back from the ledger, over restarts and
 * midnights; what refusals say. */
#include "auth/ledger/ledger.h"
#include "auth/limits/quota.h"

#include "auth/limits/quota_limits_key.h"
#include "tests/unit/tenant_kit.h"

struct fixture {
    struct tenant_kit *kit;
    char path[96];
    struct ledger *ledger;
    struct ledger_usage *usage;
    struct quota *quota;
    struct tenant tenant;
    uint64_t rows;
};

static void quota_start(struct fixture *fixture)
{
    const struct quota_options options = {.tenants = fixture->kit->tenants,
                                          .usage = fixture->usage,
                                          .clock = &fixture->kit->clock,
                                          .ledger_path = fixture->path};
    assert_int_equal(quota_open(&fixture->quota, &options), STATUS_OK);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    tenant_kit_setup((void **)&fixture->kit);
    snprintf(fixture->path, sizeof fixture->path, "%s/ledger.db", fixture->kit->folder);
    assert_int_equal(ledger_open(&fixture->ledger,
                                 &(struct ledger_options){.path = fixture->path,
                                                          .price = price_of_row,
                                                          .price_context = fixture->kit->tenants}),
                     STATUS_OK);
    assert_int_equal(ledger_usage_open(&fixture->usage, fixture->path), STATUS_OK);
    fixture->tenant = tenant_kit_tenant(fixture->kit, "acme");
    quota_start(fixture);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    quota_close(fixture->quota);
    ledger_usage_close(fixture->usage);
    ledger_close(fixture->ledger);
    tenant_kit_teardown((void **)&fixture->kit);
    free(fixture);
    return 0;
}

static void limit_put(struct fixture *fixture, enum quota_limit limit, int64_t most)
{
    struct quota_tenant wanted = {.set.cached_percent = -1};
    struct quota_tenant out;
    wanted.set.values[limit].limit = most;
    assert_int_equal(quota_limits_put(fixture->kit->tenants, &change, slice_of(fixture->tenant.id),
                                      &wanted, &out),
                     STATUS_OK);
}

static enum status reserve_by(struct fixture *fixture, const char *key_id,
                              struct quota_leases *leases, struct quota_denial *denial)
{
    const struct quota_demand demand = {.tenant_id = fixture->tenant.id,
                                        .key_id = key_id,
                                        .body_bytes = 40,
                                        .output_most = 10,
                                        .deadline_ms = 1000};
    return quota_reserve(fixture->quota, &demand, leases, denial);
}

static enum status reserve(struct fixture *fixture, struct quota_leases *leases,
                           struct quota_denial *denial)
{
    return reserve_by(fixture, NULL, leases, denial);
}

static _Atomic int64_t committed_nano; /* of the last row */

static void on_committed(void *context, enum status status, int64_t cost_nano)
{
    (void)context;
    assert_int_equal(status, STATUS_OK);
    committed_nano = cost_nano;
}

/* A request that is over: settled, and its row in the ledger. */
static void use_by(struct fixture *fixture, const char *key_id, int64_t prompt, int64_t output)
{
    struct ledger_row row = {.at_us = clock_wall_us(&fixture->kit->clock),
                             .prompt_tokens = (uint32_t)prompt,
                             .completion_tokens = (uint32_t)output};
    snprintf(row.request_id, sizeof row.request_id, "req_%d", (int)++fixture->rows);
    memcpy(row.tenant_id, fixture->tenant.id, sizeof row.tenant_id);
    snprintf(row.key_id, sizeof row.key_id, "%s", key_id);
    assert_int_equal(ledger_append(fixture->ledger, &row, on_committed, NULL), STATUS_OK);
    struct ledger_totals totals;
    for (int i = 0; i < 30000; i++) {
        ledger_totals(fixture->ledger, &totals);
        if (totals.queued == 0 && totals.rows == fixture->rows)
            break;
        usleep(1000);
    }
    assert_int_equal(totals.rows, fixture->rows);
    quota_count(
        fixture->quota, fixture->tenant.id, key_id,
        &(struct quota_use){
            .requests = 1, .prompt = prompt, .output = output, .cost_nano = committed_nano});
}

static void use(struct fixture *fixture, int64_t prompt, int64_t output)
{
    use_by(fixture, "", prompt, output);
}

static void sums_by(struct fixture *fixture, const char *key_id)
{
    struct quota_sums read;
    assert_true(quota_wants_sums(fixture->quota, fixture->tenant.id, key_id));
    quota_sums_begin(fixture->quota, fixture->tenant.id, key_id, &read);
    assert_int_equal(quota_sums_read(&read), STATUS_OK);
    quota_sums_end(fixture->quota, &read);
    assert_false(quota_wants_sums(fixture->quota, fixture->tenant.id, key_id));
}

static void sums(struct fixture *fixture)
{
    sums_by(fixture, NULL);
}

static int64_t left_of(struct fixture *fixture, enum quota_limit limit)
{
    return quota_standing(fixture->quota, fixture->tenant.id, NULL, limit).remaining;
}

static void test_limits_hold_from_their_change(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases leases[3];
    struct quota_denial denial;
    assert_int_equal(reserve(fixture, &leases[0], &denial), STATUS_OK);
    limit_put(fixture, QUOTA_REQUESTS_PER_MINUTE, 1);
    assert_int_equal(reserve(fixture, &leases[1], &denial), STATUS_OK);
    assert_int_equal(reserve(fixture, &leases[2], &denial), STATUS_RATE_REQUESTS);
    assert_string_equal(status_note()->param, "requests_per_minute");
    assert_non_null(strstr(status_note()->message, fixture->tenant.id));
    assert_non_null(strstr(status_note()->message, "limit 1, used 1, requested 1. Please try "
                                                   "again in 1m0s."));
    tenant_kit_pass(fixture->kit, 60);
    assert_int_equal(reserve(fixture, &leases[2], &denial), STATUS_OK);
    limit_put(fixture, QUOTA_CONCURRENT_REQUESTS, 3);
    struct quota_leases more;
    assert_int_equal(reserve(fixture, &more, &denial), STATUS_RATE_REQUESTS);
    limit_put(fixture, QUOTA_INPUT_TOKENS_PER_MINUTE, 2);
    assert_int_equal(reserve(fixture, &more, &denial), STATUS_RATE_TOKENS);
    assert_non_null(strstr(status_note()->message, "too large"));
    assert_false(quota_wants_sums(fixture->quota, fixture->tenant.id, NULL));
}

static void test_budgets_come_back(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases lease;
    struct quota_denial denial;
    int64_t to_midnight = 86400 - KIT_START_S % 86400;
    use(fixture, 100, 50); /* before anybody asked */
    limit_put(fixture, QUOTA_TOKENS_PER_DAY, 200);
    sums(fixture);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_DAY), 50);
    assert_int_equal(reserve(fixture, &lease, &denial), STATUS_OK);
    quota_settle(fixture->quota, &lease, 30, 0, 10);
    use(fixture, 30, 10);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_DAY), 10);
    assert_int_equal(reserve(fixture, &lease, &denial), STATUS_QUOTA);
    assert_int_equal(denial.reset_us, to_midnight * 1000000);
    quota_close(fixture->quota); /* as kill -9: nothing is written down */
    quota_start(fixture);
    sums(fixture);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_DAY), 10);
    tenant_kit_pass(fixture->kit, to_midnight - 1);
    assert_false(quota_wants_sums(fixture->quota, fixture->tenant.id, NULL));
    tenant_kit_pass(fixture->kit, 1);
    sums(fixture);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_DAY), 200);
    use(fixture, 1, 1);
    tenant_kit_pass(fixture->kit, -2); /* the clock is set back: the day before it was */
    sums(fixture);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_DAY), 10);
}

/* 2026-09-21 08:26 + 9 days = 30 September, then October. */
static void test_months_end(void **state)
{
    struct fixture *fixture = *state;
    struct quota_standing standing;
    limit_put(fixture, QUOTA_TOKENS_PER_MONTH, 1000);
    use(fixture, 100, 0);
    tenant_kit_pass(fixture->kit, 9 * 86400);
    use(fixture, 10, 1);
    sums(fixture);
    standing = quota_standing(fixture->quota, fixture->tenant.id, NULL, QUOTA_TOKENS_PER_MONTH);
    assert_int_equal(standing.remaining, 889);
    assert_in_range(standing.reset_us, 1, INT64_C(86400) * 1000000);
    tenant_kit_pass(fixture->kit, standing.reset_us / 1000000);
    sums(fixture);
    standing = quota_standing(fixture->quota, fixture->tenant.id, NULL, QUOTA_TOKENS_PER_MONTH);
    assert_int_equal(standing.remaining, 1000);
    assert_int_equal(standing.reset_us, INT64_C(31) * 86400 * 1000000);
}

static void long_answer(struct fixture *fixture, struct quota_leases *leases)
{
    struct quota_denial denial;
    const struct quota_demand demand = {
        .tenant_id = fixture->tenant.id, .body_bytes = 40, .deadline_ms = UINT32_MAX};
    assert_int_equal(quota_reserve(fixture->quota, &demand, leases, &denial), STATUS_OK);
    quota_prompt(fixture->quota, leases, 10, 0);
}

/* A long answer goes on into the next day: what was used on the day before does not end it, what is
 * used of this one does. */
static void test_an_answer_over_midnight(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases leases;
    struct quota_denial denial;
    limit_put(fixture, QUOTA_TOKENS_PER_DAY, 300);
    sums(fixture);
    long_answer(fixture, &leases);
    use(fixture, 290, 0); /* by others, beside it */
    assert_false(quota_extend(fixture->quota, &leases, LIMIT_QUOTA_OUTPUT, &denial));
    tenant_kit_pass(fixture->kit, 86400 - KIT_START_S % 86400);
    assert_true(quota_extend(fixture->quota, &leases, LIMIT_QUOTA_OUTPUT, &denial));
    assert_false(quota_extend(fixture->quota, &leases, 290, &denial));
    assert_int_equal(denial.limit, QUOTA_TOKENS_PER_DAY);
    quota_settle(fixture->quota, &leases, 10, 0, 290);
    use(fixture, 10, 290);
    sums(fixture);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_DAY), 0);
}

/* A clock that is a day ahead for a moment makes no budget new. */
static void test_midnight_is_taken_back(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases leases;
    struct quota_denial denial;
    limit_put(fixture, QUOTA_TOKENS_PER_DAY, 300);
    sums(fixture);
    long_answer(fixture, &leases);
    use(fixture, 295, 0); /* by others, beside it */
    tenant_kit_pass(fixture->kit, 86400);
    assert_true(quota_extend(fixture->quota, &leases, LIMIT_QUOTA_OUTPUT, &denial));
    tenant_kit_pass(fixture->kit, -86400);
    assert_false(quota_extend(fixture->quota, &leases, 1000, &denial));
    assert_int_equal(denial.limit, QUOTA_TOKENS_PER_DAY);
    tenant_kit_pass(fixture->kit, 86400);
    assert_true(quota_extend(fixture->quota, &leases, LIMIT_QUOTA_OUTPUT, &denial));
    quota_settle(fixture->quota, &leases, 1, 0, 0);
    tenant_kit_pass(fixture->kit, -86400);
    assert_false(quota_wants_sums(fixture->quota, fixture->tenant.id, NULL));
    assert_int_equal(reserve(fixture, &leases, &denial), STATUS_QUOTA);
}

static int64_t to_months_end_s(struct fixture *fixture)
{
    return quota_standing(fixture->quota, fixture->tenant.id, NULL, QUOTA_TOKENS_PER_MONTH)
               .reset_us /
           1000000;
}

/* A midnight is no month's end; and a shadow limit tells nothing of what another month used. */
static void test_an_answer_over_a_months_end(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases leases;
    struct quota_denial denial;
    struct quota_tenant shadow = {.set.cached_percent = -1};
    struct quota_tenant out;
    limit_put(fixture, QUOTA_TOKENS_PER_MONTH, 900);
    sums(fixture);
    long_answer(fixture, &leases);
    use(fixture, 640, 0);
    tenant_kit_pass(fixture->kit, 86400);
    assert_false(quota_extend(fixture->quota, &leases, LIMIT_QUOTA_OUTPUT, &denial));
    assert_int_equal(denial.limit, QUOTA_TOKENS_PER_MONTH);
    tenant_kit_pass(fixture->kit, to_months_end_s(fixture));
    assert_true(quota_extend(fixture->quota, &leases, LIMIT_QUOTA_OUTPUT, &denial));
    quota_settle(fixture->quota, &leases, 10, 0, LIMIT_QUOTA_OUTPUT);

    shadow.set.values[QUOTA_TOKENS_PER_MONTH] = (struct quota_limits_value){600, true};
    assert_int_equal(quota_limits_put(fixture->kit->tenants, &change, slice_of(fixture->tenant.id),
                                      &shadow, &out),
                     STATUS_OK);
    sums(fixture);
    long_answer(fixture, &leases);
    use(fixture, 590, 0);
    tenant_kit_pass(fixture->kit, to_months_end_s(fixture));
    assert_true(quota_extend(fixture->quota, &leases, LIMIT_QUOTA_OUTPUT, &denial));
    assert_int_equal(denial.shadow, 0);
    quota_settle(fixture->quota, &leases, 10, 0, LIMIT_QUOTA_OUTPUT);
}

/* Rows that are counted while the sums are read are not forgotten. */
static void test_counted_meanwhile(void **state)
{
    struct fixture *fixture = *state;
    struct quota_sums read;
    limit_put(fixture, QUOTA_TOKENS_PER_DAY, 1000);
    use(fixture, 100, 0);
    quota_sums_begin(fixture->quota, fixture->tenant.id, NULL, &read);
    assert_int_equal(quota_sums_read(&read), STATUS_OK);
    use(fixture, 50, 0);
    quota_sums_end(fixture->quota, &read);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_DAY), 850);
}

static void price_put(struct fixture *fixture, int64_t input_nano, int64_t output_nano)
{
    struct price out;
    const struct price price = {.currency = "usd",
                                .input_nano = input_nano,
                                .cached_input_nano = 1,
                                .output_nano = output_nano,
                                .effective_at_s = -1};
    assert_int_equal(price_create(fixture->kit->tenants, &change, &price, &out), STATUS_OK);
}

static enum status reserve_priced(struct fixture *fixture, int64_t output_most,
                                  struct quota_leases *leases, struct quota_denial *denial)
{
    const struct quota_demand demand = {.tenant_id = fixture->tenant.id,
                                        .model = "m",
                                        .service_class = "standard",
                                        .body_bytes = 40, /* 10 tokens */
                                        .output_most = output_most,
                                        .deadline_ms = 1000};
    return quota_reserve(fixture->quota, &demand, leases, denial);
}

static void quota_restart(struct fixture *fixture)
{
    quota_close(fixture->quota);
    quota_start(fixture);
    sums(fixture);
}

static void test_requests_of_a_day(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases leases[3];
    struct quota_denial denial;
    limit_put(fixture, QUOTA_REQUESTS_PER_DAY, 3);
    use(fixture, 10, 5);
    use(fixture, 0, 0); /* work on text alone has a row, and counts */
    sums(fixture);
    assert_int_equal(left_of(fixture, QUOTA_REQUESTS_PER_DAY), 1);
    assert_int_equal(reserve(fixture, &leases[0], &denial), STATUS_OK);
    assert_int_equal(left_of(fixture, QUOTA_REQUESTS_PER_DAY), 0);
    assert_int_equal(reserve(fixture, &leases[1], &denial), STATUS_QUOTA);
    assert_string_equal(status_note()->param, "requests_per_day");
    assert_non_null(strstr(status_note()->message, "limit 3, used 3, requested 1. It is reset in"));
    quota_settle(fixture->quota, &leases[0], 0, 0, 0); /* without a row it is given back */
    assert_int_equal(left_of(fixture, QUOTA_REQUESTS_PER_DAY), 1);
    use(fixture, 1, 1);
    assert_int_equal(reserve(fixture, &leases[1], &denial), STATUS_QUOTA);
    quota_restart(fixture);
    assert_int_equal(left_of(fixture, QUOTA_REQUESTS_PER_DAY), 0);
    tenant_kit_pass(fixture->kit, 86400 - KIT_START_S % 86400);
    sums(fixture);
    assert_int_equal(left_of(fixture, QUOTA_REQUESTS_PER_DAY), 3);
}

/* Reserved at the price of the beginning, charged as the ledger's row says. */
static void test_costs_of_a_day_and_a_month(void **state)
{
    static const enum quota_limit limits[] = {QUOTA_COST_PER_DAY, QUOTA_COST_PER_MONTH};
    struct fixture *fixture = *state;
    price_put(fixture, 10, 100);
    for (size_t i = 0; i < 2; i++) {
        struct quota_leases leases;
        struct quota_denial denial;
        limit_put(fixture, limits[i], 100000);
        if (i == 0) /* they are of all budgets */
            sums(fixture);
        int64_t had = left_of(fixture, limits[i]);
        assert_int_equal(had, i == 0 ? 100000 : 100000 - 2600); /* the day's use is the month's */
        assert_int_equal(reserve_priced(fixture, 20, &leases, &denial), STATUS_OK);
        assert_int_equal(left_of(fixture, limits[i]), had - 10 * 10 - 20 * 100);
        quota_prompt(fixture->quota, &leases, 12, 5);
        assert_int_equal(left_of(fixture, limits[i]), had - 7 * 10 - 5 * 1 - 20 * 100);
        quota_settle(fixture->quota, &leases, 12, 5, 15);
        assert_int_equal(left_of(fixture, limits[i]), had);
        tenant_kit_pass(fixture->kit, 1);
        use(fixture, 10, 25);
        assert_int_equal(committed_nano, 2600);
        assert_int_equal(left_of(fixture, limits[i]), had - 2600);
        quota_restart(fixture);
        assert_int_equal(left_of(fixture, limits[i]), had - 2600);
    }
    tenant_kit_pass(fixture->kit, 86400);
    limit_put(fixture, QUOTA_COST_PER_DAY, 1000);
    sums(fixture);
    assert_int_equal(left_of(fixture, QUOTA_COST_PER_DAY), 1000);
}

static void test_a_cost_refuses_and_ends(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases leases;
    struct quota_denial denial;
    limit_put(fixture, QUOTA_COST_PER_DAY, 5000);
    sums(fixture);
    assert_int_equal(reserve_priced(fixture, 0, &leases, &denial), STATUS_OK); /* no price yet */
    quota_settle(fixture->quota, &leases, 0, 0, 0);
    price_put(fixture, 10, 100);
    /* What is left bounds the guess: (5000 - 10 * 10) / 100 tokens. */
    assert_int_equal(reserve_priced(fixture, 0, &leases, &denial), STATUS_OK);
    assert_int_equal(left_of(fixture, QUOTA_COST_PER_DAY), 0);
    quota_prompt(fixture->quota, &leases, 10, 0);
    assert_true(quota_extend(fixture->quota, &leases, 48, &denial));
    assert_false(quota_extend(fixture->quota, &leases, 49, &denial));
    assert_int_equal(denial.limit, QUOTA_COST_PER_DAY);
    quota_settle(fixture->quota, &leases, 10, 0, 49);
    use(fixture, 10, 49);
    assert_int_equal(left_of(fixture, QUOTA_COST_PER_DAY), 0);
    assert_int_equal(reserve_priced(fixture, 1, &leases, &denial), STATUS_QUOTA);
    assert_string_equal(status_note()->param, "cost_per_day");
    assert_int_equal(denial.requested, 10 * 10 + 100);
}

static void key_limit_put(struct fixture *fixture, const char *key_id, enum quota_limit limit,
                          int64_t most)
{
    struct quota_limits_set set = {.cached_percent = -1};
    struct quota_key_limits out;
    set.values[limit].limit = most;
    assert_int_equal(quota_limits_key_put(fixture->kit->tenants, &change,
                                          slice_of(fixture->tenant.id), slice_of(key_id), &set,
                                          &out),
                     STATUS_OK);
}

static int64_t left_by(struct fixture *fixture, const char *key_id, enum quota_limit limit)
{
    return quota_standing(fixture->quota, fixture->tenant.id, key_id, limit).remaining;
}

/* Whichever of the two refuses, neither is charged. */
static void test_a_key_beside_its_tenant(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases leases[3];
    struct quota_denial denial;
    limit_put(fixture, QUOTA_REQUESTS_PER_MINUTE, 3);
    key_limit_put(fixture, "key_a", QUOTA_REQUESTS_PER_MINUTE, 1);
    key_limit_put(fixture, "key_c", QUOTA_REQUESTS_PER_MINUTE, 3);
    assert_int_equal(reserve_by(fixture, "key_a", &leases[0], &denial), STATUS_OK);
    assert_int_equal(reserve_by(fixture, "key_a", &leases[1], &denial), STATUS_RATE_REQUESTS);
    assert_int_equal(denial.scope, QUOTA_KEY);
    assert_non_null(strstr(status_note()->message, "for key key_a on requests_per_minute: "));
    assert_int_equal(left_of(fixture, QUOTA_REQUESTS_PER_MINUTE), 2);
    assert_int_equal(reserve_by(fixture, "key_b", &leases[1], &denial), STATUS_OK);
    assert_int_equal(reserve_by(fixture, "key_c", &leases[2], &denial), STATUS_OK);
    quota_settle(fixture->quota, &leases[2], 0, 0, 0); /* never begun: it cost neither */
    assert_int_equal(left_by(fixture, "key_c", QUOTA_REQUESTS_PER_MINUTE), 3);
    assert_int_equal(reserve(fixture, &leases[2], &denial), STATUS_OK);
    assert_int_equal(left_of(fixture, QUOTA_REQUESTS_PER_MINUTE), 0);
    struct quota_leases refused;
    assert_int_equal(reserve_by(fixture, "key_c", &refused, &denial), STATUS_RATE_REQUESTS);
    assert_int_equal(denial.scope, QUOTA_TENANT);
    assert_non_null(strstr(status_note()->message, "for tenant tnt_"));
    assert_int_equal(left_by(fixture, "key_c", QUOTA_REQUESTS_PER_MINUTE), 3);
    assert_int_equal(left_by(fixture, "key_b", QUOTA_REQUESTS_PER_MINUTE), 0); /* it has none */
    key_limit_put(fixture, "key_b", QUOTA_CONCURRENT_REQUESTS, 1); /* from the next one on */
    tenant_kit_pass(fixture->kit, 60);
    assert_int_equal(reserve_by(fixture, "key_b", &refused, &denial), STATUS_OK);
    assert_int_equal(reserve_by(fixture, "key_b", &leases[0], &denial), STATUS_RATE_REQUESTS);
    assert_int_equal(denial.limit, QUOTA_CONCURRENT_REQUESTS);
}

static void test_a_keys_stream_is_extended_by_both(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases leases;
    struct quota_denial denial;
    limit_put(fixture, QUOTA_OUTPUT_TOKENS_PER_MINUTE, 1000);
    key_limit_put(fixture, "key_a", QUOTA_OUTPUT_TOKENS_PER_MINUTE, 40);
    assert_int_equal(reserve_by(fixture, "key_a", &leases, &denial), STATUS_OK);
    quota_prompt(fixture->quota, &leases, 10, 0);
    assert_true(quota_extend(fixture->quota, &leases, 8, &denial));
    int64_t output = 9;
    while (output < 1000 && quota_extend(fixture->quota, &leases, output, &denial))
        output++;
    assert_int_equal(output, 40);
    assert_int_equal(denial.scope, QUOTA_KEY);
    quota_settle(fixture->quota, &leases, 10, 0, 40);
    assert_int_equal(left_by(fixture, "key_a", QUOTA_OUTPUT_TOKENS_PER_MINUTE), 0);
    assert_int_equal(left_of(fixture, QUOTA_OUTPUT_TOKENS_PER_MINUTE), 960);
}

/* Its sums are those of its own rows. */
static void test_a_keys_budget(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases leases;
    struct quota_denial denial;
    limit_put(fixture, QUOTA_TOKENS_PER_MONTH, 1000);
    key_limit_put(fixture, "key_a", QUOTA_TOKENS_PER_DAY, 100);
    use_by(fixture, "key_a", 50, 10);
    use_by(fixture, "key_b", 60, 10);
    for (int turn = 0; turn < 2; turn++) {
        sums_by(fixture, "key_a");
        assert_int_equal(left_by(fixture, "key_a", QUOTA_TOKENS_PER_DAY), 40);
        assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_MONTH), 870);
        quota_close(fixture->quota);
        quota_start(fixture);
    }
    sums_by(fixture, "key_a");
    use_by(fixture, "key_a", 40, 0);
    assert_int_equal(reserve_by(fixture, "key_a", &leases, &denial), STATUS_QUOTA);
    assert_int_equal(denial.scope, QUOTA_KEY);
    assert_int_equal(reserve_by(fixture, "key_b", &leases, &denial), STATUS_OK);
}

/* A process that ends says nothing; the next one knows what the last minute used. */
static void test_a_restart_makes_no_bucket_full(void **state)
{
    struct fixture *fixture = *state;
    limit_put(fixture, QUOTA_TOKENS_PER_MINUTE, 100);
    key_limit_put(fixture, "key_a", QUOTA_REQUESTS_PER_MINUTE, 10);
    use_by(fixture, "key_a", 10, 10); /* older than a minute when it counts */
    tenant_kit_pass(fixture->kit, 40);
    use_by(fixture, "key_a", 20, 10);
    use_by(fixture, "key_b", 5, 5);
    use_by(fixture, "key_a", 0, 0); /* never begun */
    tenant_kit_pass(fixture->kit, 30);
    quota_close(fixture->quota);
    quota_start(fixture);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_MINUTE), 60);
    assert_int_equal(left_by(fixture, "key_a", QUOTA_REQUESTS_PER_MINUTE), 9);
    /* A record of the process before that comes behind. Whatever comes, there is no debt. */
    quota_recall(fixture->quota, fixture->tenant.id, "key_a", 10, 0, 10);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_MINUTE), 40);
    quota_recall(fixture->quota, fixture->tenant.id, "key_a", 1000, 0, 10);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_MINUTE), 0);
    tenant_kit_pass(fixture->kit, 6);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_MINUTE), 10);
    tenant_kit_pass(fixture->kit, -3600); /* the clock is set back: what is of the future is none */
    quota_close(fixture->quota);
    quota_start(fixture);
    assert_int_equal(left_of(fixture, QUOTA_TOKENS_PER_MINUTE), 100);
}

static void test_durations(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } rows[] = {{-5, "0s"},
                {0, "0s"},
                {1, "1ms"},
                {17000, "17ms"},
                {999001, "1s"},
                {1500000, "1.500s"},
                {60000000, "1m0s"},
                {59999999, "1m0s"},
                {360000000, "6m0s"},
                {360000001, "6m1s"},
                {4320000000, "1h12m0s"}};
    char out[QUOTA_DURATION_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        quota_duration(rows[i].us, out);
        assert_string_equal(out, rows[i].text);
    }
}

static void test_without_memory(void **state)
{
    struct fixture *fixture = *state;
    struct quota_leases lease;
    struct quota_denial denial;
    for (int at = 1; at <= 2; at++) {
        int left = at;
        mem_hook_set(kit_fail_at, &left);
        enum status status = reserve(fixture, &lease, &denial);
        mem_hook_set(NULL, NULL);
        assert_int_equal(status, STATUS_NO_MEMORY);
    }
    assert_int_equal(reserve(fixture, &lease, &denial), STATUS_OK);
    quota_settle(fixture->quota, &lease, 1, 0, 1);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(test_limits_hold_from_their_change),
        WITH(test_budgets_come_back),
        WITH(test_months_end),
        WITH(test_an_answer_over_midnight),
        WITH(test_midnight_is_taken_back),
        WITH(test_an_answer_over_a_months_end),
        WITH(test_counted_meanwhile),
        WITH(test_requests_of_a_day),
        WITH(test_costs_of_a_day_and_a_month),
        WITH(test_a_cost_refuses_and_ends),
        WITH(test_a_key_beside_its_tenant),
        WITH(test_a_keys_stream_is_extended_by_both),
        WITH(test_a_keys_budget),
        WITH(test_a_restart_makes_no_bucket_full),
        WITH(test_without_memory),
        cmocka_unit_test(test_durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
