/* price_rows: prices come out as they went in; rows out of their bounds. */
#include "auth/tenants/price_rows.h"

#include "tests/unit/tenant_kit.h"

static enum status take(void *context, const struct price *price)
{
    struct price **at = context;
    *(*at)++ = *price;
    return STATUS_OK;
}

static void test_round_trip(void **state)
{
    struct tenant_kit *kit = *state;
    struct sqlite3 *connection;
    struct price seen[3];
    struct price *end = seen;
    struct price price = {.id = "prc_1",
                          .plan_id = "pln_1",
                          .model = "it's",
                          .service_class = "batch",
                          .currency = "usd",
                          .input_nano = 1,
                          .cached_input_nano = 2,
                          .output_nano = LIMIT_PRICE_NANO,
                          .effective_at_s = 4,
                          .created_at_s = 5};
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(price_rows_insert(connection, &price), STATUS_OK);
    assert_int_equal(price_rows_insert(connection, &price), STATUS_EXISTS);
    struct price other = price;
    other.id[4] = '2';
    assert_int_equal(price_rows_insert(connection, &other), STATUS_EXISTS); /* of one moment */
    other.effective_at_s = 3;
    assert_int_equal(price_rows_insert(connection, &other), STATUS_OK);
    assert_int_equal(price_rows_load(connection, &end, take), STATUS_OK);
    assert_int_equal(end - seen, 2);
    assert_string_equal(seen[0].id, price.id);
    assert_string_equal(seen[0].plan_id, price.plan_id);
    assert_string_equal(seen[0].model, price.model);
    assert_string_equal(seen[0].service_class, price.service_class);
    assert_string_equal(seen[0].currency, price.currency);
    assert_int_equal(seen[0].input_nano, 1);
    assert_int_equal(seen[0].cached_input_nano, 2);
    assert_int_equal(seen[0].output_nano, LIMIT_PRICE_NANO);
    assert_int_equal(seen[0].effective_at_s, 4);
    assert_int_equal(seen[0].created_at_s, 5);
    assert_int_equal(price_rows_delete(connection, price.id), STATUS_OK);
    end = seen;
    assert_int_equal(price_rows_load(connection, &end, take), STATUS_OK);
    assert_int_equal(end - seen, 1);
    assert_string_equal(seen[0].id, other.id);
    assert_int_equal(store_end(kit->store, true), STATUS_OK);
}

static void test_rows_out_of_their_bounds(void **state)
{
    struct tenant_kit *kit = *state;
    static const char *const wrong[] = {"input_nano = -1",     "cached_input_nano = 1000000001",
                                        "output_nano = -5",    "currency = 'euro'",
                                        "effective_at_s = -1", "plan_id = printf('%100d', 1)"};
    struct price seen[1];
    struct sqlite3 *connection;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char sql[128];
        struct price *end = seen;
        tenant_kit_execute(kit, "delete from prices; insert into prices values (1, 'prc', '', '', "
                                "'', 'usd', 1, 1, 1, 1, 1)");
        snprintf(sql, sizeof sql, "update prices set %s", wrong[i]);
        tenant_kit_execute(kit, sql);
        assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
        assert_int_equal(price_rows_load(connection, &end, take), STATUS_CORRUPT);
        assert_int_equal(store_end(kit->store, false), STATUS_OK);
    }
    tenant_kit_execute(kit, "delete from prices");
}

int main(void)
{
#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, tenant_kit_setup, tenant_kit_teardown)
    const struct CMUnitTest tests[] = {
        WITH_KIT(test_round_trip),
        WITH_KIT(test_rows_out_of_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
