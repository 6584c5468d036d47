#include "auth/tenants/tenant_answer.h"

#include "tests/unit/tenant_kit.h"

static struct tenant_request request_of(struct tenant_kit *kit, const char *name, const char *body)
{
    struct tenant_request request = {.actor_key_id = "key_a"};
    snprintf(request.name, sizeof request.name, "%s", name);
    assert_int_equal(tenants_answer_print(kit->tenants, SLICE("POST"), SLICE("/p"), SLICE(""),
                                          slice_of(body), request.print),
                     STATUS_OK);
    return request;
}

static enum status keep(struct tenant_kit *kit, const struct tenant_request *request,
                        const char *body)
{
    struct sqlite3 *connection;
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    const struct tenant_change kept = {.request = request, .answer_code = 201};
    enum status status = tenant_answer_keep(kit->tenants, connection, &kept, slice_of(body));
    assert_int_equal(store_end(kit->store, status == STATUS_OK), STATUS_OK);
    return status;
}

static enum status find(struct tenant_kit *kit, const struct tenant_request *request,
                        const char *expected)
{
    struct tenant_answer answer = {0};
    buffer_init(&answer.body, 4096);
    enum status status = tenants_answer_find(kit->tenants, request, &answer);
    if (status == STATUS_OK) {
        assert_string_equal(answer.body.bytes, expected);
        assert_int_equal(answer.code, 201);
        assert_int_equal(answer.revision, 1);
    } else {
        assert_int_equal(answer.body.length, 0);
    }
    buffer_deinit(&answer.body);
    return status;
}

static void test_the_same_answer_again(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_request one = request_of(kit, "n", "{}");
    assert_int_equal(find(kit, &one, ""), STATUS_NOT_FOUND);
    assert_int_equal(keep(kit, &one, "sk-by-the-answer"), STATUS_OK);
    for (int restart = 0; restart < 2; restart++) {
        assert_int_equal(find(kit, &one, "sk-by-the-answer"), STATUS_OK);
        struct tenant_request other = request_of(kit, "n", "{ }");
        assert_int_equal(find(kit, &other, ""), STATUS_REUSED);
        assert_string_equal(status_note()->param, "idempotency-key");
        other = request_of(kit, "m", "{}");
        assert_int_equal(find(kit, &other, ""), STATUS_NOT_FOUND);
        other = one;
        snprintf(other.actor_key_id, sizeof other.actor_key_id, "key_b");
        assert_int_equal(find(kit, &other, ""), STATUS_NOT_FOUND); /* each admin has their own */
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
    }
}

static void test_a_day(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_request one = request_of(kit, "n", "{}");
    struct tenant_request two = request_of(kit, "n", "{\"other\":1}");
    assert_int_equal(keep(kit, &one, "first"), STATUS_OK);
    tenant_kit_pass(kit, LIMIT_IDEMPOTENCY_S - 1);
    assert_int_equal(find(kit, &one, "first"), STATUS_OK);
    tenant_kit_pass(kit, 1);
    assert_int_equal(find(kit, &one, ""), STATUS_NOT_FOUND);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from answers"), 1);
    assert_int_equal(keep(kit, &two, "second"), STATUS_OK); /* takes the old one's place */
    assert_int_equal(find(kit, &two, "second"), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from answers"), 1);
    tenant_kit_pass(kit, LIMIT_IDEMPOTENCY_S);
    assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from answers"), 0);
    /* Behind a step of the clock back: a day of it is borne. */
    assert_int_equal(keep(kit, &one, "first"), STATUS_OK);
    for (int more = 0; more < 2; more++) {
        tenant_kit_pass(kit, more != 0 ? -1 : -LIMIT_IDEMPOTENCY_S);
        assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
        assert_int_equal(tenant_kit_number(kit, "select count(*) from answers"), 1 - more);
    }
}

/* What is kept cannot be read in the file, and opens in its own row alone. */
static void test_sealed(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_request one = request_of(kit, "one", "{}");
    struct tenant_request two = request_of(kit, "two", "{}");
    assert_int_equal(keep(kit, &one, "sk-by-SECRETSECRET"), STATUS_OK);
    assert_int_equal(keep(kit, &two, "sk-by-ANOTHERONE"), STATUS_OK);
    assert_int_equal(
        tenant_kit_number(kit, "select count(*) from answers where instr(sealed, 'SECRET')"), 0);
    tenant_kit_execute(kit, "update answers set sealed = (select sealed from answers where name = "
                            "'one') where name = 'two'");
    assert_int_equal(find(kit, &two, ""), STATUS_CORRUPT);
    assert_int_equal(find(kit, &one, "sk-by-SECRETSECRET"), STATUS_OK);
    tenant_kit_execute(kit, "update answers set code = 200 where name = 'one'");
    assert_int_equal(find(kit, &one, ""), STATUS_CORRUPT);
    tenant_kit_execute(kit, "update answers set sealed = x'00'");
    assert_int_equal(find(kit, &one, ""), STATUS_CORRUPT);
}

/* Method, path, person and body each make another call; where one ends is part of it. */
static void test_prints(void **state)
{
    struct tenant_kit *kit = *state;
    uint8_t first[32];
    uint8_t other[32];
    static const char long_name[] = "3 https://login.example.com/organisation/people/anna";
    static const char long_other[] = "3 https://login.example.com/organisation/people/boris";
    static const char *const calls[][4] = {
        {"POST", "/p", long_name, "body"},  {"PUT", "/p", long_name, "body"},
        {"POST", "/q", long_name, "body"},  {"POST", "/p", long_name, "Body"},
        {"POST", "/pb", long_name, "ody"},  {"POST", "/p", long_name, ""},
        {"POST", "/p", long_other, "body"}, {"POST", "/p", "", "body"}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(tenants_answer_print(kit->tenants, slice_of(calls[i][0]),
                                              slice_of(calls[i][1]), slice_of(calls[i][2]),
                                              slice_of(calls[i][3]), i == 0 ? first : other),
                         STATUS_OK);
        if (i > 0)
            assert_memory_not_equal(first, other, sizeof first);
    }
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(tenants_answer_print(kit->tenants, SLICE("POST"), SLICE("/p"), SLICE(""),
                                          SLICE("b"), other),
                     STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_request one = request_of(kit, "n", "{}");
    int failures = 0;
    for (int n = 1;; n++) {
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status = keep(kit, &one, "answer");
        mem_hook_set(NULL, NULL);
        if (left > 0) {
            assert_int_equal(status, STATUS_OK);
            break;
        }
        failures++;
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_int_equal(find(kit, &one, ""), STATUS_NOT_FOUND);
    }
    assert_true(failures >= 2);
    assert_int_equal(find(kit, &one, "answer"), STATUS_OK);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, tenant_kit_setup, tenant_kit_teardown)
    const struct CMUnitTest tests[] = {
        T(test_the_same_answer_again),           T(test_a_day), T(test_sealed), T(test_prints),
        T(test_memory_fails_at_each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
