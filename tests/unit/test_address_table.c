/* address_table: limits at n and n + 1, the bucket, /64 and mapped addresses, and a random run
 * against a list that does the same by search. */
#include "gateway/http/address_table.h"

#include <arpa/inet.h>
#include <string.h>

#include "base_kit.h"
#include "config/base/rng.h"

enum { SECOND_US = 1000000 };

static struct address_table *table_of(uint32_t connections, uint32_t rate, uint32_t rows)
{
    struct address_table *table;
    struct address_table_limits limits = {connections, rate, rows};
    assert_int_equal(address_table_create(&table, &limits), STATUS_OK);
    return table;
}

static enum address_verdict enter(struct address_table *table, const char *address, int64_t now_us,
                                  uint32_t *row)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
        return address_table_enter(table, (struct sockaddr *)&v4, now_us, row);
    assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return address_table_enter(table, (struct sockaddr *)&v6, now_us, row);
}

static void test_connections(void **state)
{
    (void)state;
    struct address_table *table = table_of(3, 0, 8);
    uint32_t rows[3], refused, other;
    for (int i = 0; i < 3; i++)
        assert_int_equal(enter(table, "192.0.2.1", 0, &rows[i]), ADDRESS_ADMITTED);
    assert_int_equal(enter(table, "192.0.2.1", 0, &refused), ADDRESS_HAS_TOO_MANY);
    assert_int_equal(refused, ADDRESS_NONE);
    assert_int_equal(enter(table, "192.0.2.2", 0, &other), ADDRESS_ADMITTED);
    address_table_check(table);
    address_table_leave(table, rows[1], 1);
    assert_int_equal(enter(table, "192.0.2.1", 1, &rows[1]), ADDRESS_ADMITTED);
    for (int i = 0; i < 3; i++)
        address_table_leave(table, rows[i], 2);
    address_table_leave(table, other, 2);
    address_table_leave(table, ADDRESS_NONE, 2);
    address_table_check(table);
    assert_int_equal(address_table_count(table), 2); /* not forgotten within the second */
    assert_int_equal(enter(table, "192.0.2.3", 2 + SECOND_US, &other), ADDRESS_ADMITTED);
    assert_int_equal(address_table_count(table), 1);
    address_table_check(table);
    address_table_destroy(table);
}

static void test_rate(void **state)
{
    (void)state;
    struct address_table *table = table_of(0, 50, 8);
    uint32_t row;
    for (int i = 0; i < 50; i++) { /* a second's worth at once */
        assert_int_equal(enter(table, "192.0.2.1", 0, &row), ADDRESS_ADMITTED);
        address_table_leave(table, row, 0);
    }
    assert_int_equal(enter(table, "192.0.2.1", 0, &row), ADDRESS_IS_TOO_FAST);
    assert_int_equal(enter(table, "192.0.2.1", 19999, &row), ADDRESS_IS_TOO_FAST);
    assert_int_equal(enter(table, "192.0.2.1", 20000, &row), ADDRESS_ADMITTED);
    assert_int_equal(enter(table, "192.0.2.1", 20000, &row), ADDRESS_IS_TOO_FAST);
    assert_int_equal(enter(table, "192.0.2.2", 20000, &row), ADDRESS_ADMITTED);
    int admitted = 0;
    for (int64_t at_us = 20000 + 10 * SECOND_US; at_us < 20000 + 12 * SECOND_US; at_us += 1000)
        admitted += enter(table, "192.0.2.1", at_us, &row) == ADDRESS_ADMITTED;
    assert_int_equal(admitted, 50 + 99); /* the bucket, and what fills in during 1.999 s */
    address_table_check(table);
    address_table_destroy(table);
}

/* Twice as many a second while somebody who was authenticated is there, and no longer. */
static void test_proven(void **state)
{
    (void)state;
    struct address_table *table = table_of(0, 50, 8);
    uint32_t kept, row;
    assert_int_equal(enter(table, "192.0.2.1", 0, &kept), ADDRESS_ADMITTED);
    address_table_prove(table, kept);
    address_table_prove(table, ADDRESS_NONE);
    for (int round = 2; round > 0; round--) {
        int admitted = 0;
        int64_t now_us = (3 - round) * 10 * SECOND_US;
        while (enter(table, "192.0.2.1", now_us, &row) == ADDRESS_ADMITTED) {
            address_table_leave(table, row, now_us);
            admitted++;
        }
        assert_int_equal(admitted, round * 50);
        if (round == 2)
            address_table_leave(table, kept, now_us);
    }
    address_table_check(table);
    address_table_destroy(table);
}

static void test_kinds(void **state)
{
    (void)state;
    struct address_table *table = table_of(1, 0, 16);
    uint32_t row;
    assert_int_equal(enter(table, "2001:db8:0:1::1", 0, &row), ADDRESS_ADMITTED);
    assert_int_equal(enter(table, "2001:db8:0:1:ffff::2", 0, &row), ADDRESS_HAS_TOO_MANY);
    assert_int_equal(enter(table, "2001:db8:0:2::1", 0, &row), ADDRESS_ADMITTED);
    assert_int_equal(enter(table, "192.0.2.1", 0, &row), ADDRESS_ADMITTED);
    assert_int_equal(enter(table, "::ffff:192.0.2.1", 0, &row), ADDRESS_HAS_TOO_MANY);
    assert_int_equal(enter(table, "::ffff:192.0.2.2", 0, &row), ADDRESS_ADMITTED);
    struct sockaddr unix_peer = {.sa_family = AF_UNIX};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(address_table_enter(table, &unix_peer, 0, &row), ADDRESS_ADMITTED);
        assert_int_equal(row, ADDRESS_NONE);
    }
    address_table_check(table);
    address_table_destroy(table);
}

/* With every row taken the oldest address without connections gives way, never one with some. */
static void test_full(void **state)
{
    (void)state;
    struct address_table *table = table_of(1, 1, 3);
    uint32_t kept, row;
    assert_int_equal(enter(table, "192.0.2.1", 0, &kept), ADDRESS_ADMITTED);
    for (int i = 2; i < 100; i++) {
        char address[32];
        snprintf(address, sizeof(address), "192.0.2.%d", i);
        assert_int_equal(enter(table, address, 0, &row), ADDRESS_ADMITTED);
        address_table_leave(table, row, 0);
        address_table_check(table);
        assert_true(address_table_count(table) <= 3);
    }
    assert_int_equal(enter(table, "192.0.2.99", 0, &row), ADDRESS_IS_TOO_FAST); /* still known */
    assert_int_equal(enter(table, "192.0.2.1", SECOND_US, &row), ADDRESS_HAS_TOO_MANY);
    address_table_leave(table, kept, SECOND_US);
    address_table_destroy(table);
}

struct model {
    uint32_t connections;
    int64_t tokens_us;
    int64_t filled_us;
    uint32_t rows[8];
};

static void test_against_model(void **state)
{
    (void)state;
    enum { ADDRESSES = 40, STEPS = 20000, MOST = 8, RATE = 20 };
    static struct model models[ADDRESSES];
    memset(models, 0, sizeof(models));
    for (int i = 0; i < ADDRESSES; i++)
        models[i].tokens_us = SECOND_US;
    struct address_table *table = table_of(MOST, RATE, MOST * ADDRESSES + 1);
    struct rng rng = {.seed = 4711};
    int64_t now_us = 0;
    for (int step = 0; step < STEPS; step++) {
        now_us += (int64_t)rng_below(&rng, 3000);
        struct model *model = &models[rng_below(&rng, ADDRESSES)];
        if (model->connections > 0 && rng_below(&rng, 2) == 0) {
            address_table_leave(table, model->rows[--model->connections], now_us);
            continue;
        }
        model->tokens_us += now_us - model->filled_us;
        model->tokens_us = model->tokens_us > SECOND_US ? SECOND_US : model->tokens_us;
        model->filled_us = now_us;
        enum address_verdict wanted = model->tokens_us < SECOND_US / RATE ? ADDRESS_IS_TOO_FAST
                                      : model->connections >= MOST        ? ADDRESS_HAS_TOO_MANY
                                                                          : ADDRESS_ADMITTED;
        struct sockaddr_in peer = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = (uint32_t)(model - models)};
        uint32_t row;
        assert_int_equal(address_table_enter(table, (struct sockaddr *)&peer, now_us, &row),
                         wanted);
        if (wanted == ADDRESS_ADMITTED) {
            model->tokens_us -= SECOND_US / RATE;
            model->rows[model->connections++] = row;
        }
        if (step % 100 == 0)
            address_table_check(table);
    }
    address_table_check(table);
    address_table_destroy(table);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct address_table *table = NULL;
    struct address_table_limits limits = {1, 1, 8};
    for (int nth = 1; nth <= 3; nth++) {
        int left = nth;
        mem_hook_set(kit_fail_at, &left);
        assert_int_equal(address_table_create(&table, &limits), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
        assert_null(table);
    }
    limits.rows = 0;
    assert_int_equal(address_table_create(&table, &limits), STATUS_INVALID);
    address_table_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections), cmocka_unit_test(test_rate),
        cmocka_unit_test(test_proven),      cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_full),        cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
