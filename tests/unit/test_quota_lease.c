/* quota_lease: buckets against a model that counts again from the start; leases that end in every
 * way; guesses; what a refusal leaves behind. */
#include "auth/limits/quota_lease.h"

#include "config/base/rng.h"
#include "tests/unit/base_kit.h"

static const int64_t MINUTE_US = 60000000;

static struct quota_limits_set set_of(enum quota_limit limit, int64_t most)
{
    struct quota_limits_set set = {0};
    set.values[limit].limit = most;
    return set;
}

static struct quota_account account_of(struct quota_limits_set set)
{
    struct quota_account account;
    quota_lease_init(&account, &set, 0);
    return account;
}

static bool reserve(struct quota_account *account, int64_t now_us, size_t body, int64_t most,
                    struct quota_lease *lease, struct quota_denial *denial)
{
    const struct quota_ask ask = {.body_bytes = body,
                                  .output_most = most,
                                  .deadline_us = now_us + MINUTE_US,
                                  .now_us = now_us};
    return quota_lease_reserve(account, &ask, lease, denial);
}

static void count(struct quota_account *account, int64_t prompt, int64_t output)
{
    quota_lease_count(account,
                      &(struct quota_use){.requests = 1, .prompt = prompt, .output = output});
}

static int64_t left_of(struct quota_account *account, enum quota_limit limit, int64_t now_us)
{
    return quota_lease_standing(account, limit, now_us).remaining;
}

static void test_a_bucket_fills_steadily(void **state)
{
    (void)state;
    struct quota_account account = account_of(set_of(QUOTA_REQUESTS_PER_MINUTE, 6));
    struct quota_lease leases[7];
    struct quota_denial denial;
    for (int i = 0; i < 6; i++)
        assert_true(reserve(&account, 0, 4, 1, &leases[i], &denial));
    assert_false(reserve(&account, 0, 4, 1, &leases[6], &denial));
    assert_int_equal(denial.limit, QUOTA_REQUESTS_PER_MINUTE);
    assert_int_equal(denial.most, 6);
    assert_int_equal(denial.used, 6);
    assert_int_equal(denial.requested, 1);
    assert_int_equal(denial.reset_us, MINUTE_US / 6);
    assert_false(reserve(&account, denial.reset_us - 1, 4, 1, &leases[6], &denial));
    assert_int_equal(denial.reset_us, 1);
    assert_true(reserve(&account, MINUTE_US / 6, 4, 1, &leases[6], &denial));
    for (int i = 0; i < 7; i++)
        quota_lease_settle(&leases[i], 1, 0, 1, MINUTE_US / 6);
    struct quota_standing standing =
        quota_lease_standing(&account, QUOTA_REQUESTS_PER_MINUTE, MINUTE_US / 6);
    assert_int_equal(standing.limit, 6);
    assert_int_equal(standing.remaining, 0);
    assert_int_equal(standing.reset_us, MINUTE_US);
    assert_int_equal(left_of(&account, QUOTA_REQUESTS_PER_MINUTE, INT64_MAX / 2), 6);
}

static void test_all_pass_or_none_is_charged(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_REQUESTS_PER_MINUTE, 10);
    set.values[QUOTA_TOKENS_PER_MINUTE].limit = 100;
    set.values[QUOTA_CONCURRENT_REQUESTS].limit = 1;
    struct quota_account account = account_of(set);
    struct quota_lease first;
    struct quota_lease second;
    struct quota_denial denial;
    assert_true(reserve(&account, 0, 40, 20, &first, &denial));
    int64_t tokens = left_of(&account, QUOTA_TOKENS_PER_MINUTE, 0);
    assert_int_equal(tokens, 100 - 10 - 20);
    assert_false(reserve(&account, 0, 40, 20, &second, &denial));
    assert_int_equal(denial.limit, QUOTA_CONCURRENT_REQUESTS);
    assert_null(second.account);
    assert_int_equal(left_of(&account, QUOTA_REQUESTS_PER_MINUTE, 0), 9);
    assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_MINUTE, 0), tokens);
    quota_lease_settle(&second, 5, 0, 5, 0); /* never opened */
    quota_lease_settle(&first, 0, 0, 0, 0);  /* no engine has seen it: it cost nothing */
    quota_lease_settle(&first, 9, 0, 9, 0);  /* once */
    assert_int_equal(left_of(&account, QUOTA_REQUESTS_PER_MINUTE, 0), 10);
    assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_MINUTE, 0), 100);
    assert_int_equal(left_of(&account, QUOTA_CONCURRENT_REQUESTS, 0), 1);
}

/* A request that the engine refuses after it has parsed and tokenised it: five of a limit of five
 * pass, each with the input that was estimated; only output and concurrency come back. */
static void test_work_on_text_counts(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_REQUESTS_PER_MINUTE, 5);
    set.values[QUOTA_INPUT_TOKENS_PER_MINUTE].limit = 1000;
    set.values[QUOTA_OUTPUT_TOKENS_PER_MINUTE].limit = 1000;
    set.values[QUOTA_CONCURRENT_REQUESTS].limit = 1;
    set.values[QUOTA_TOKENS_PER_DAY].limit = 1000;
    struct quota_account account = account_of(set);
    struct quota_lease lease;
    struct quota_denial denial;
    quota_lease_worked(&(struct quota_lease){0}); /* not open: nothing */
    for (int i = 1; i <= 5; i++) {
        assert_true(reserve(&account, 0, 40, 20, &lease, &denial));
        quota_lease_worked(&lease);
        quota_lease_settle(&lease, 0, 0, 0, 0);
        quota_lease_settle(&lease, 0, 0, 0, 0); /* once */
        assert_int_equal(left_of(&account, QUOTA_REQUESTS_PER_MINUTE, 0), 5 - i);
        assert_int_equal(left_of(&account, QUOTA_INPUT_TOKENS_PER_MINUTE, 0), 1000 - 10 * i);
        assert_int_equal(left_of(&account, QUOTA_OUTPUT_TOKENS_PER_MINUTE, 0), 1000);
        assert_int_equal(left_of(&account, QUOTA_CONCURRENT_REQUESTS, 0), 1);
        assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_DAY, 0), 1000); /* nothing is billed */
    }
    assert_false(reserve(&account, 0, 40, 20, &lease, &denial));
    assert_int_equal(denial.limit, QUOTA_REQUESTS_PER_MINUTE);
    /* One whose prompt was computed costs what it used, worked on or not. */
    assert_true(reserve(&account, MINUTE_US, 40, 20, &lease, &denial));
    quota_lease_worked(&lease);
    quota_lease_settle(&lease, 7, 0, 3, MINUTE_US);
    assert_int_equal(left_of(&account, QUOTA_INPUT_TOKENS_PER_MINUTE, MINUTE_US), 993);
    assert_int_equal(left_of(&account, QUOTA_OUTPUT_TOKENS_PER_MINUTE, MINUTE_US), 997);
}

/* The lease was over before its request: the request counts all the same, once. */
static void test_work_behind_the_deadline_counts(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_REQUESTS_PER_MINUTE, 5);
    set.values[QUOTA_CONCURRENT_REQUESTS].limit = 1;
    struct quota_account account = account_of(set);
    struct quota_lease lease;
    struct quota_lease second;
    struct quota_denial denial;
    assert_true(reserve(&account, 0, 40, 20, &lease, &denial));
    lease.deadline_us = 1;
    assert_true(reserve(&account, 2, 40, 20, &second, &denial)); /* the first one is expired */
    assert_true(lease.is_expired);
    quota_lease_worked(&lease);
    quota_lease_settle(&lease, 0, 0, 0, 2);
    assert_int_equal(left_of(&account, QUOTA_REQUESTS_PER_MINUTE, 2), 3);
    quota_lease_settle(&second, 0, 0, 0, 2);
    assert_int_equal(left_of(&account, QUOTA_REQUESTS_PER_MINUTE, 2), 4);
}

/* Work on text takes a request and bytes; a spent budget of tokens, or a bucket that owes, is none
 * of its business; once an engine has worked it is paid. */
static void test_work_on_text(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_REQUESTS_PER_MINUTE, 10);
    set.values[QUOTA_TEXT_BYTES_PER_MINUTE].limit = 1000;
    set.values[QUOTA_TOKENS_PER_MINUTE].limit = 5;
    set.values[QUOTA_KV_TOKENS].limit = 5;
    set.values[QUOTA_TOKENS_PER_DAY].limit = 5;
    struct quota_account account = account_of(set);
    struct quota_lease lease;
    struct quota_lease other;
    struct quota_denial denial;
    const struct quota_ask ask = {.body_bytes = 600, .is_text = true, .deadline_us = MINUTE_US};
    assert_true(reserve(&account, 0, 4, 1, &other, &denial));
    quota_lease_prompt(&other, 50, 0, 0);
    quota_lease_settle(&other, 50, 0, 50, 0); /* the bucket owes, the budget is over */
    count(&account, 50, 50);
    assert_int_equal(left_of(&account, QUOTA_TEXT_BYTES_PER_MINUTE, 0), 996);
    assert_true(quota_lease_reserve(&account, &ask, &lease, &denial));
    assert_int_equal(left_of(&account, QUOTA_TEXT_BYTES_PER_MINUTE, 0), 396);
    assert_int_equal(left_of(&account, QUOTA_KV_TOKENS, 0), 5);
    assert_false(quota_lease_reserve(&account, &ask, &other, &denial));
    assert_int_equal(denial.limit, QUOTA_TEXT_BYTES_PER_MINUTE);
    assert_int_equal(denial.requested, 600);
    assert_false(denial.is_never);
    quota_lease_settle(&lease, 0, 0, 0, 0); /* the engine never had it */
    assert_int_equal(left_of(&account, QUOTA_TEXT_BYTES_PER_MINUTE, 0), 996);
    assert_int_equal(left_of(&account, QUOTA_REQUESTS_PER_MINUTE, 0), 9);
    assert_true(quota_lease_reserve(&account, &ask, &lease, &denial));
    quota_lease_worked(&lease);
    quota_lease_settle(&lease, 0, 0, 0, 0);
    assert_int_equal(left_of(&account, QUOTA_TEXT_BYTES_PER_MINUTE, 0), 396);
    assert_int_equal(left_of(&account, QUOTA_REQUESTS_PER_MINUTE, 0), 8);
}

static void test_too_large_is_told_apart(void **state)
{
    (void)state;
    struct quota_account account = account_of(set_of(QUOTA_INPUT_TOKENS_PER_MINUTE, 10));
    struct quota_lease lease;
    struct quota_denial denial;
    assert_false(reserve(&account, 0, 400, 1, &lease, &denial));
    assert_true(denial.is_never);
    assert_int_equal(denial.requested, 100);
    assert_int_equal(denial.reset_us, 0);
    /* So many bytes may be few tokens: it takes the whole bucket, and later what it has. */
    struct quota_limits_set set = set_of(QUOTA_TOKENS_PER_MINUTE, 30);
    account = account_of(set);
    assert_true(reserve(&account, 0, 400, 1, &lease, &denial));
    assert_int_equal(lease.input, 29);
    assert_int_equal(lease.output, 1);
    quota_lease_prompt(&lease, 12, 0, 0);
    assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_MINUTE, 0), 17);
    quota_lease_settle(&lease, 12, 0, 1, 0);
}

/* Of several spent budgets, the refusal names the one that is reset last. */
static void test_the_longest_budget_is_named(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_COST_PER_MONTH, 1);
    set.values[QUOTA_TOKENS_PER_MONTH].limit = 50;
    set.values[QUOTA_TOKENS_PER_DAY].limit = 50;
    set.values[QUOTA_REQUESTS_PER_DAY].limit = 1;
    struct quota_account account = account_of(set);
    struct quota_lease lease;
    struct quota_denial denial;
    count(&account, 40, 10);
    assert_false(reserve(&account, 0, 40, 1, &lease, &denial));
    assert_int_equal(denial.limit, QUOTA_TOKENS_PER_MONTH);
    account.set.values[QUOTA_TOKENS_PER_MONTH].limit = 500;
    assert_false(reserve(&account, 0, 40, 1, &lease, &denial));
    assert_int_equal(denial.limit, QUOTA_TOKENS_PER_DAY);
}

/* Embeddings reserve no output, and say nothing of how long answers are. */
static void test_no_output(void **state)
{
    (void)state;
    struct quota_account account = account_of(set_of(QUOTA_TOKENS_PER_MINUTE, 1000));
    struct quota_lease lease;
    struct quota_denial denial;
    const struct quota_ask ask = {
        .body_bytes = 400, .has_no_output = true, .deadline_us = MINUTE_US};
    for (int i = 0; i < 100; i++) {
        assert_true(quota_lease_reserve(&account, &ask, &lease, &denial));
        assert_int_equal(lease.output, 0);
        assert_true(lease.input > 0);
        assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_MINUTE, 0), 1000 - 5 * i - lease.input);
        quota_lease_settle(&lease, 5, 0, 0, 0);
    }
    assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_MINUTE, 0), 500);
    assert_true(reserve(&account, 0, 400, 64000, &lease, &denial));
    assert_int_equal(lease.output, LIMIT_QUOTA_OUTPUT);
}

/* A guess is cut to what the limit allows beside the input, so that nobody is kept out for ever. */
static void test_guesses_follow_what_was_seen(void **state)
{
    (void)state;
    struct quota_account account = account_of(set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 1000000));
    struct quota_lease lease;
    struct quota_denial denial;
    assert_true(reserve(&account, 0, 400, 64000, &lease, &denial));
    assert_int_equal(lease.output, LIMIT_QUOTA_OUTPUT);
    assert_int_equal(lease.input, 100);
    quota_lease_settle(&lease, 200, 0, 200, 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(reserve(&account, 0, 400, 64000, &lease, &denial));
        assert_in_range(lease.output, 200, 255);
        quota_lease_settle(&lease, 200, 0, 200, 0);
    }
    assert_in_range(lease.input, 190, 200);
    assert_true(reserve(&account, 0, 400, 5, &lease, &denial));
    assert_int_equal(lease.output, 5); /* never more than was asked for */
    quota_lease_settle(&lease, 200, 0, 5, 0);
    for (int i = 0; i < 2000; i++) { /* habits change, and zero is a length too */
        assert_true(reserve(&account, 0, 400, 64000, &lease, &denial));
        quota_lease_settle(&lease, 200, 0, i % 2 == 0 ? 0 : 3, 0);
    }
    assert_true(reserve(&account, 0, 400, 64000, &lease, &denial));
    assert_int_equal(lease.output, 3);
    quota_lease_settle(&lease, 200, 0, INT32_MAX, 0);
    account = account_of(set_of(QUOTA_TOKENS_PER_MINUTE, 100));
    assert_true(reserve(&account, 0, 120, 64000, &lease, &denial));
    assert_int_equal(lease.input, 30);
    assert_int_equal(lease.output, 70);
}

static void test_the_prompt_as_it_is(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_INPUT_TOKENS_PER_MINUTE, 1000);
    set.values[QUOTA_KV_TOKENS].limit = 5000;
    struct quota_account account = account_of(set);
    struct quota_lease lease;
    struct quota_denial denial;
    assert_true(reserve(&account, 0, 400, 50, &lease, &denial));
    assert_int_equal(left_of(&account, QUOTA_INPUT_TOKENS_PER_MINUTE, 0), 900);
    quota_lease_prompt(&lease, 800, 700, 0);
    assert_int_equal(left_of(&account, QUOTA_INPUT_TOKENS_PER_MINUTE, 0), 900);
    assert_int_equal(left_of(&account, QUOTA_KV_TOKENS, 0), 5000 - 850);
    quota_lease_prompt(&lease, 2000, 0, 0); /* it owes */
    assert_int_equal(left_of(&account, QUOTA_INPUT_TOKENS_PER_MINUTE, 0), 0);
    quota_lease_settle(&lease, 2000, 0, 1, 0);
    assert_int_equal(quota_lease_standing(&account, QUOTA_INPUT_TOKENS_PER_MINUTE, 0).reset_us,
                     2 * MINUTE_US);
    assert_int_equal(left_of(&account, QUOTA_KV_TOKENS, 0), 5000);
    set.cached_percent = 50;
    assert_int_equal(quota_lease_input(&set, 100, 51), 49 + 26);
}

static void test_extension_until_a_limit_is_met(void **state)
{
    (void)state;
    struct quota_account account = account_of(set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 100));
    struct quota_lease lease;
    struct quota_denial denial;
    assert_true(reserve(&account, 0, 4, 10, &lease, &denial));
    lease.output_most = 0; /* as if more choices came than were asked for */
    int64_t output = 0;
    while (quota_lease_extend(&lease, output, 0, &denial))
        output++;
    assert_int_equal(output, 100); /* to the last token, and not one more */
    assert_int_equal(denial.limit, QUOTA_OUTPUT_TOKENS_PER_MINUTE);
    quota_lease_settle(&lease, 1, 0, output, 0);
    assert_int_equal(left_of(&account, QUOTA_OUTPUT_TOKENS_PER_MINUTE, 0), 0);
    /* At its own max_tokens nothing more is asked for. */
    assert_true(reserve(&account, MINUTE_US, 4, 10, &lease, &denial));
    assert_true(quota_lease_extend(&lease, 10, MINUTE_US, &denial));
    assert_int_equal(lease.output, 10);
}

/* What an engine says at once may be more than a lease is extended by: what there is room for goes
 * on, to its own end; what there is not ends, or lowers, as it does token by token. */
static void test_many_tokens_at_once(void **state)
{
    (void)state;
    struct quota_account account = account_of(set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 1000));
    struct quota_lease lease;
    struct quota_denial denial;
    assert_true(reserve(&account, 0, 4, 700, &lease, &denial));
    assert_int_equal(lease.output, LIMIT_QUOTA_OUTPUT);
    for (int64_t output = 250; output <= 700; output += 150)
        assert_true(quota_lease_extend(&lease, output, 0, &denial));
    assert_int_equal(lease.output, 700);
    account = account_of((struct quota_limits_set){0});
    assert_true(reserve(&account, 0, 4, 300, &lease, &denial)); /* of each of a list of prompts */
    assert_true(quota_lease_extend(&lease, 310, 0, &denial));
    assert_true(lease.output > 310);
    account = account_of(set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 1000));
    assert_true(reserve(&account, 0, 4, 0, &lease, &denial));
    assert_true(quota_lease_extend(&lease, 900, 0, &denial));
    assert_false(quota_lease_extend(&lease, 1100, 0, &denial));
    assert_int_equal(denial.limit, QUOTA_OUTPUT_TOKENS_PER_MINUTE);
    assert_int_equal(left_of(&account, QUOTA_OUTPUT_TOKENS_PER_MINUTE, 0), 0);
    account = account_of(set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 1000));
    account.set.on_limit = QUOTA_ON_LIMIT_LOWER_CLASS;
    assert_true(reserve(&account, 0, 4, 0, &lease, &denial));
    assert_true(quota_lease_extend(&lease, 900, 0, &denial));
    assert_int_equal(denial.lowered, 0);
    assert_true(quota_lease_extend(&lease, 1100, 0, &denial));
    assert_int_equal(denial.lowered, 1u << QUOTA_OUTPUT_TOKENS_PER_MINUTE);
}

static void test_shadow_refuses_nobody(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_REQUESTS_PER_MINUTE, 1);
    set.values[QUOTA_REQUESTS_PER_MINUTE].is_shadow = true;
    set.values[QUOTA_OUTPUT_TOKENS_PER_MINUTE] = (struct quota_limits_value){20, true};
    struct quota_account account = account_of(set);
    struct quota_lease lease;
    struct quota_lease second;
    struct quota_denial denial;
    assert_true(reserve(&account, 0, 4, 0, &lease, &denial));
    assert_int_equal(denial.shadow, 0);
    assert_true(reserve(&account, 0, 4, 0, &second, &denial));
    assert_int_equal(denial.shadow,
                     1u << QUOTA_REQUESTS_PER_MINUTE | 1u << QUOTA_OUTPUT_TOKENS_PER_MINUTE);
    uint32_t told = 0;
    for (int64_t output = 0; output < 500; output++) {
        assert_true(quota_lease_extend(&lease, output, 0, &denial));
        told += denial.shadow != 0;
    }
    assert_int_equal(told, 1);
    quota_lease_settle(&lease, 1, 0, 500, 0);
    quota_lease_settle(&second, 1, 0, 500, 0);
    assert_int_equal(left_of(&account, QUOTA_REQUESTS_PER_MINUTE, 0), 0); /* the first one's */
}

static void test_a_lease_past_its_deadline(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_CONCURRENT_REQUESTS, 1);
    set.values[QUOTA_OUTPUT_TOKENS_PER_MINUTE].limit = 1000;
    struct quota_account account = account_of(set);
    struct quota_lease lost;
    struct quota_lease lease;
    struct quota_denial denial;
    assert_true(reserve(&account, 0, 4, 100, &lost, &denial));
    assert_false(reserve(&account, MINUTE_US - 1, 4, 100, &lease, &denial));
    assert_true(reserve(&account, MINUTE_US, 4, 100, &lease, &denial));
    assert_true(quota_lease_extend(&lost, 500, MINUTE_US, &denial));
    quota_lease_prompt(&lost, 7, 0, MINUTE_US);
    quota_lease_settle(&lost, 7, 0, 60, MINUTE_US); /* it lived after all: what it used counts */
    assert_int_equal(left_of(&account, QUOTA_OUTPUT_TOKENS_PER_MINUTE, MINUTE_US), 840);
    assert_int_equal(left_of(&account, QUOTA_CONCURRENT_REQUESTS, MINUTE_US), 0);
    quota_lease_settle(&lease, 7, 0, 10, MINUTE_US);
    assert_int_equal(left_of(&account, QUOTA_CONCURRENT_REQUESTS, MINUTE_US), 1);
}

static void test_limits_change_under_way(void **state)
{
    (void)state;
    struct quota_account account = account_of(set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 100));
    struct quota_lease lease;
    struct quota_denial denial;
    assert_true(reserve(&account, 0, 4, 60, &lease, &denial));
    struct quota_limits_set set = set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 200);
    quota_lease_set(&account, &set, 0);
    assert_int_equal(left_of(&account, QUOTA_OUTPUT_TOKENS_PER_MINUTE, 0), 140);
    set = set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 50);
    quota_lease_set(&account, &set, 0);
    assert_int_equal(left_of(&account, QUOTA_OUTPUT_TOKENS_PER_MINUTE, 0), 0);
    set = set_of(QUOTA_TOKENS_PER_DAY, 50);
    quota_lease_set(&account, &set, 0);
    assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_DAY, 0), 0); /* what runs counts at once */
    quota_lease_settle(&lease, 4, 0, 10, 0);
    set = set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 100000);
    quota_lease_set(&account, &set, 0);
    assert_true(reserve(&account, 0, 4, 90000, &lease, &denial));
    lease.charged = 1u << QUOTA_OUTPUT_TOKENS_PER_MINUTE;
    quota_lease_settle(&lease, 4, 0, 90000, 0);
    set = set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 10); /* a lower limit makes no debt of hours */
    quota_lease_set(&account, &set, 0);
    assert_int_equal(quota_lease_standing(&account, QUOTA_OUTPUT_TOKENS_PER_MINUTE, 0).reset_us,
                     MINUTE_US);
    set = set_of(QUOTA_TOKENS_PER_DAY, 50);
    quota_lease_set(&account, &set, 0);
    assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_DAY, 0), 50);
    count(&account, 4, 10);
    assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_DAY, 0), 36);
    count(&account, 40, 10);
    assert_false(reserve(&account, 0, 4, 60, &lease, &denial));
    assert_int_equal(denial.limit, QUOTA_TOKENS_PER_DAY);
    assert_int_equal(denial.used, 64);
}

/* --- random traffic beside a model --- */

enum { EVENTS = 4000, OPEN = 24 };

struct model {
    int64_t limit;
    struct {
        int64_t at_us;
        int64_t amount; /* taken; below 0: given back */
    } events[EVENTS];
    int count;
};

static void model_take(struct model *model, int64_t at_us, int64_t amount)
{
    assert_true(model->count < EVENTS);
    model->events[model->count].at_us = at_us;
    model->events[model->count++].amount = amount;
}

/* Tokens left, counted again from the start, in 1/60,000,000 of one. */
static int64_t model_left(const struct model *model, int64_t now_us)
{
    __int128 full = (__int128)model->limit * MINUTE_US;
    __int128 level = full;
    int64_t at_us = 0;
    for (int i = 0; i <= model->count; i++) {
        int64_t next_us = i < model->count ? model->events[i].at_us : now_us;
        level += (__int128)(next_us - at_us) * model->limit;
        level = level > full ? full : level;
        if (i < model->count)
            level -= (__int128)model->events[i].amount * MINUTE_US;
        level = level > full ? full : level;
        at_us = next_us;
    }
    return level > 0 ? (int64_t)(level / MINUTE_US) : 0;
}

struct traffic {
    struct rng rng;
    struct quota_account account;
    struct model model; /* of tokens_per_minute */
    struct quota_lease leases[OPEN];
    int64_t real_output[OPEN];
    int64_t now_us;
    int64_t counted; /* output and input that were used */
    int64_t longest; /* lease that ever was */
};

static void traffic_end(struct traffic *traffic, int at)
{
    struct quota_lease *lease = &traffic->leases[at];
    bool is_refused = rng_below(&traffic->rng, 8) == 0;
    int64_t prompt = is_refused ? 0 : 1 + (int64_t)rng_below(&traffic->rng, 60);
    int64_t used = is_refused ? 0 : prompt + traffic->real_output[at];
    model_take(&traffic->model, traffic->now_us, used - lease->input - lease->output);
    traffic->counted += used;
    traffic->longest = used > traffic->longest ? used : traffic->longest;
    quota_lease_settle(lease, prompt, 0, is_refused ? 0 : traffic->real_output[at],
                       traffic->now_us);
}

static void traffic_turn(struct traffic *traffic)
{
    struct quota_denial denial;
    int at = (int)rng_below(&traffic->rng, OPEN);
    struct quota_lease *lease = &traffic->leases[at];
    traffic->now_us += (int64_t)rng_below(&traffic->rng, 3000000);
    int64_t left = left_of(&traffic->account, QUOTA_TOKENS_PER_MINUTE, traffic->now_us);
    assert_int_equal(left, model_left(&traffic->model, traffic->now_us));
    if (lease->account == NULL) {
        bool is_in = reserve(&traffic->account, traffic->now_us, rng_below(&traffic->rng, 200),
                             (int64_t)rng_below(&traffic->rng, 100), lease, &denial);
        lease->deadline_us = INT64_MAX;
        traffic->real_output[at] = 0;
        assert_int_equal(is_in, lease->input + lease->output <= left);
        if (is_in)
            model_take(&traffic->model, traffic->now_us, lease->input + lease->output);
    } else if (rng_below(&traffic->rng, 3) == 0) {
        traffic_end(traffic, at);
    } else {
        int64_t had = lease->output;
        traffic->real_output[at] += (int64_t)rng_below(&traffic->rng, 40);
        if (traffic->real_output[at] > lease->output)
            traffic->real_output[at] = lease->output;
        (void)quota_lease_extend(lease, traffic->real_output[at], traffic->now_us, &denial);
        if (lease->output != had)
            model_take(&traffic->model, traffic->now_us, lease->output - had);
    }
}

static void test_random_traffic_beside_a_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct traffic *traffic = calloc(1, sizeof *traffic);
        traffic->rng.seed = seed;
        traffic->model.limit = 100 + (int64_t)(seed * 37);
        traffic->account = account_of(set_of(QUOTA_TOKENS_PER_MINUTE, traffic->model.limit));
        for (int i = 0; i < 800; i++)
            traffic_turn(traffic);
        for (int i = 0; i < OPEN; i++) {
            if (traffic->leases[i].account != NULL)
                traffic_end(traffic, i);
        }
        for (int i = 0; i < QUOTA_LIMITS; i++)
            assert_int_equal(traffic->account.held[i], 0);
        assert_null(traffic->account.leases);
        /* What was used in all, and what the limit allows in that time and a lease of each. */
        assert_true(traffic->counted <= traffic->model.limit +
                                            traffic->now_us / MINUTE_US * traffic->model.limit +
                                            traffic->model.limit + OPEN * traffic->longest);
        free(traffic);
    }
}

/* What cannot be paid goes on in the lowest class, uncharged; requests and what is under way never
 * do. */
static void test_on_limit_lower_class(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_OUTPUT_TOKENS_PER_MINUTE, 20);
    set.values[QUOTA_TOKENS_PER_DAY].limit = 100;
    set.values[QUOTA_CONCURRENT_REQUESTS].limit = 2;
    set.on_limit = QUOTA_ON_LIMIT_LOWER_CLASS;
    struct quota_account account = account_of(set);
    const struct quota_ask ask = {.body_bytes = 8, .output_most = 500, .deadline_us = MINUTE_US};
    struct quota_lease first, second, third;
    struct quota_denial denial;
    assert_true(quota_lease_reserve(&account, &ask, &first, &denial));
    assert_int_equal(denial.lowered, 0);
    quota_lease_prompt(&first, 2, 0, 0);
    uint32_t lowered = 0;
    for (int64_t output = 1; output <= 60; output++) {
        assert_true(quota_lease_extend(&first, output, 0, &denial));
        lowered |= denial.lowered;
        if (lowered == 0)
            assert_true(output <= 20);
    }
    assert_int_equal(lowered, 1u << QUOTA_OUTPUT_TOKENS_PER_MINUTE);
    assert_true(quota_lease_reserve(&account, &ask, &second, &denial)); /* and from its beginning */
    assert_int_equal(denial.lowered & 1u << QUOTA_OUTPUT_TOKENS_PER_MINUTE,
                     1u << QUOTA_OUTPUT_TOKENS_PER_MINUTE);
    assert_false(quota_lease_reserve(&account, &ask, &third, &denial));
    assert_int_equal(denial.limit, QUOTA_CONCURRENT_REQUESTS);
    quota_lease_settle(&second, 2, 0, 30, 0);
    quota_lease_settle(&first, 2, 0, 60, 0);
    count(&account, 2, 30);
    count(&account, 2, 60);
    struct quota_standing standing =
        quota_lease_standing(&account, QUOTA_OUTPUT_TOKENS_PER_MINUTE, 0);
    assert_int_equal(standing.remaining, 0);
    assert_in_range(standing.reset_us, 1, MINUTE_US); /* it owes nothing */
    assert_int_equal(left_of(&account, QUOTA_TOKENS_PER_DAY, 0), 6);
    count(&account, 0, 50); /* the day's budget is over-drawn: lowered, too */
    assert_true(quota_lease_reserve(&account, &ask, &third, &denial));
    assert_true((denial.lowered & 1u << QUOTA_TOKENS_PER_DAY) != 0);
    quota_lease_settle(&third, 0, 0, 0, 0);
    set.on_limit = QUOTA_ON_LIMIT_STOP;
    quota_lease_set(&account, &set, 0);
    assert_false(quota_lease_reserve(&account, &ask, &third, &denial));
}

/* An agent: 64,000 asked for, 200 taken, 20 requests a minute, 100,000 tokens a minute, prompts of
 * 2,000 tokens. The first one too is let in: a guess is never the whole of what is asked for. */
static void test_agent(void **state)
{
    (void)state;
    struct quota_limits_set set = set_of(QUOTA_TOKENS_PER_MINUTE, 100000);
    set.values[QUOTA_REQUESTS_PER_MINUTE].limit = 20;
    struct quota_account account = account_of(set);
    struct quota_lease leases[8] = {0};
    struct quota_denial denial;
    int64_t reserved = 0;
    for (int i = 0; i < 2000; i++) { /* 100 minutes, eight answers under way at a time */
        int64_t now_us = i * (MINUTE_US / 20);
        struct quota_lease *lease = &leases[i % 8];
        const struct quota_ask ask = {.body_bytes = 8000,
                                      .output_most = 64000,
                                      .deadline_us = now_us + 10 * MINUTE_US,
                                      .now_us = now_us};
        quota_lease_settle(lease, 2000, 0, 200, now_us);
        assert_true(quota_lease_reserve(&account, &ask, lease, &denial));
        quota_lease_prompt(lease, 2000, 0, now_us);
        for (int64_t output = 1; output <= 200; output++)
            assert_true(quota_lease_extend(lease, output, now_us, &denial));
        reserved = lease->output;
    }
    assert_in_range(reserved, 200, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on_limit_lower_class),
        cmocka_unit_test(test_agent),
        cmocka_unit_test(test_a_bucket_fills_steadily),
        cmocka_unit_test(test_all_pass_or_none_is_charged),
        cmocka_unit_test(test_work_on_text_counts),
        cmocka_unit_test(test_work_behind_the_deadline_counts),
        cmocka_unit_test(test_work_on_text),
        cmocka_unit_test(test_too_large_is_told_apart),
        cmocka_unit_test(test_the_longest_budget_is_named),
        cmocka_unit_test(test_no_output),
        cmocka_unit_test(test_guesses_follow_what_was_seen),
        cmocka_unit_test(test_the_prompt_as_it_is),
        cmocka_unit_test(test_extension_until_a_limit_is_met),
        cmocka_unit_test(test_many_tokens_at_once),
        cmocka_unit_test(test_shadow_refuses_nobody),
        cmocka_unit_test(test_a_lease_past_its_deadline),
        cmocka_unit_test(test_limits_change_under_way),
        cmocka_unit_test(test_random_traffic_beside_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
