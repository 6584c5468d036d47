/* Which experts a row uses, their weights, and the order of the pairs; the same in every table. */
#include "kernels/kernels_experts.h"

#include "config/base/limits.h"
#include "tests/unit/experts_kit.h"

struct routed {
    struct kernels *kernels;
    void *buffer;
    struct kernels_routes routes;
};

static struct routed route_open(const char *isa, uint32_t threads, uint32_t rows_max,
                                uint32_t experts, uint32_t used)
{
    struct routed out = {.kernels = kit_kernels(isa, threads, rows_max, 32)};
    out.buffer = kernels_buffer_create(out.kernels, kernels_routes_bytes(rows_max, experts, used));
    assert_non_null(out.buffer);
    kernels_routes_init(&out.routes, out.buffer, rows_max, experts, used);
    return out;
}

static void route_close(struct routed *routed)
{
    kernels_buffer_destroy(routed->kernels, routed->buffer);
    kernels_destroy(routed->kernels);
}

static void route_run(const struct routed *routed, const float *logits, uint32_t rows,
                      bool is_normalised)
{
    kernels_route(routed->kernels, &(struct route_args){.logits = logits,
                                                        .rows = rows,
                                                        .is_normalised = is_normalised,
                                                        .routes = &routed->routes});
}

/* The example of kernels_experts.h, with weights by hand. */
static void test_by_hand(void **state)
{
    (void)state;
    const float logits[2][4] = {{1, -5, 2, 0}, {0, -5, 3, 1}};
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct routed routed = route_open(*isa, 1, 2, 4, 2);
        const struct kernels_routes *routes = &routed.routes;
        route_run(&routed, logits[0], 2, true);
        assert_memory_equal(routes->expert, ((const uint32_t[]){2, 0, 2, 3}), 16);
        assert_memory_equal(routes->begin, ((const uint32_t[]){0, 1, 1, 3, 4}), 20);
        assert_memory_equal(routes->row, ((const uint32_t[]){0, 0, 1, 1}), 16);
        assert_memory_equal(routes->place, ((const uint32_t[]){1, 0, 2, 3}), 16);
        assert_float_equal(routes->weight[0], (float)(1 / (1 + exp(-1))), 1e-6f);
        assert_float_equal(routes->weight[1], (float)(exp(-1) / (1 + exp(-1))), 1e-6f);
        route_run(&routed, logits[0], 1, false);
        const double sum = 1 + exp(-1) + exp(-2) + exp(-7);
        assert_float_equal(routes->weight[0], (float)(1 / sum), 1e-6f);
        assert_float_equal(routes->weight[1], (float)(exp(-1) / sum), 1e-6f);
        route_close(&routed);
    }
}

/* Softmax over all, divided by the sum of the chosen, is softmax over the chosen. */
static void test_two_forms_are_one(void **state)
{
    (void)state;
    enum { ROWS = 50, EXPERTS = 64, USED = 8 };
    struct rng rng = {.seed = 8};
    float *logits = kit_floats(&rng, ROWS * EXPERTS, 6);
    float all[ROWS * USED];
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct routed routed = route_open(*isa, 2, ROWS, EXPERTS, USED);
        route_run(&routed, logits, ROWS, false);
        memcpy(all, routed.routes.weight, sizeof all);
        route_run(&routed, logits, ROWS, true);
        for (uint32_t r = 0; r < ROWS; r++) {
            float sum = 0;
            for (uint32_t i = 0; i < USED; i++)
                sum += all[r * USED + i];
            for (uint32_t i = 0; i < USED; i++)
                assert_float_equal(routed.routes.weight[r * USED + i], all[r * USED + i] / sum,
                                   1e-6f);
        }
        route_close(&routed);
    }
    free(logits);
}

/* Of equal logits the lower expert wins, also where they end the list. */
static void test_equal_logits(void **state)
{
    (void)state;
    const float logits[3][5] = {{1, 1, 1, 1, 1}, {0, 2, 1, 2, 1}, {0, -0.0f, -1, -1, -1}};
    struct routed routed = route_open("ref_int8", 1, 3, 5, 3);
    route_run(&routed, logits[0], 3, true);
    assert_memory_equal(routed.routes.expert, ((const uint32_t[]){0, 1, 2, 1, 3, 2, 0, 1, 2}), 36);
    for (int i = 0; i < 3; i++)
        assert_float_equal(routed.routes.weight[i], 1.0f / 3, 1e-7f);
    route_close(&routed);
}

/* A NaN is chosen last, like −∞, and never twice. Only the row that has it gets weights that are
 * not numbers. */
static void test_not_numbers(void **state)
{
    (void)state;
    const float logits[4][3] = {
        {NAN, 1, 2}, {NAN, NAN, NAN}, {1, NAN, -INFINITY}, {INFINITY, 0, 0}};
    struct routed routed = route_open("ref_int8", 1, 5, 3, 2);
    const float *weight = routed.routes.weight;
    const float plain[3] = {0, 1, 2};
    float all[5][3];
    memcpy(all, logits, sizeof logits);
    memcpy(all[4], plain, sizeof plain);
    route_run(&routed, all[0], 5, false);
    assert_memory_equal(routed.routes.expert, ((const uint32_t[]){2, 1, 0, 1, 0, 1, 0, 1, 2, 1}),
                        40);
    for (int i = 0; i < 8; i++)
        assert_true(isnan(weight[i]) || (i == 7 && weight[i] == 0));
    assert_true(isfinite(weight[8]) && isfinite(weight[9]));
    assert_int_equal(routed.routes.begin[3], 10);
    route_run(&routed, all[0], 1, true); /* the NaN is not in this sum */
    assert_float_equal(weight[0] + weight[1], 1, 1e-6f);
    route_close(&routed);
}

/* Pairs by expert, row and slot, each once, whatever the routing. */
static void check_order(const struct kernels_routes *routes, uint32_t rows)
{
    uint32_t before = 0;
    assert_int_equal(routes->begin[0], 0);
    assert_int_equal(routes->begin[routes->experts], rows * routes->used);
    for (uint32_t e = 0; e < routes->experts; e++) {
        assert_true(routes->begin[e] <= routes->begin[e + 1]);
        for (uint32_t i = routes->begin[e]; i < routes->begin[e + 1]; i++) {
            const uint32_t r = routes->row[i];
            uint32_t slot = 0;
            while (slot < routes->used && routes->place[r * routes->used + slot] != i)
                slot++;
            assert_true(slot < routes->used);
            assert_int_equal(routes->expert[r * routes->used + slot], e);
            const uint32_t pair = r * routes->used + slot;
            assert_true(i == routes->begin[e] || pair > before);
            before = pair;
        }
    }
}

static void test_order_of_pairs(void **state)
{
    (void)state;
    static const uint32_t row_counts[] = {0, 1, 2, 15, 16, 17, 90};
    static const uint32_t shapes[][2] = {{1, 1}, {2, 2}, {7, 3}, {64, 8}, {LIMIT_EXPERTS, 16}};
    struct rng rng = {.seed = 3};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct routed routed = route_open("ref_int8", 3, 90, shapes[s][0], shapes[s][1]);
        for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++)
            for (int routing = 0; routing < EXPERTS_ROUTINGS; routing++) {
                float *logits = experts_kit_logits(&rng, (enum experts_routing)routing,
                                                   row_counts[i], shapes[s][0]);
                route_run(&routed, logits, row_counts[i], true);
                check_order(&routed.routes, row_counts[i]);
                free(logits);
            }
        route_close(&routed);
    }
}

/* A row's experts and weights have the same bits alone, beside others, and in every table. */
static void test_bits_of_a_row(void **state)
{
    (void)state;
    enum { ROWS = 33, EXPERTS = 40, USED = 6 };
    struct rng rng = {.seed = 9};
    float *logits = kit_floats(&rng, ROWS * EXPERTS, 9);
    uint32_t expert[ROWS * USED];
    float weight[ROWS * USED];
    for (int normalised = 0; normalised < 2; normalised++) {
        struct routed judge = route_open("ref_int8", 1, ROWS, EXPERTS, USED);
        for (uint32_t r = 0; r < ROWS; r++) {
            route_run(&judge, logits + r * EXPERTS, 1, normalised == 1);
            memcpy(expert + r * USED, judge.routes.expert, USED * sizeof *expert);
            memcpy(weight + r * USED, judge.routes.weight, USED * sizeof *weight);
        }
        route_close(&judge);
        for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
            struct routed routed = route_open(*isa, 3, ROWS, EXPERTS, USED);
            route_run(&routed, logits, ROWS, normalised == 1);
            assert_memory_equal(routed.routes.expert, expert, sizeof expert);
            kit_assert_same_bits(routed.routes.weight, weight, ROWS * USED);
            route_close(&routed);
        }
    }
    free(logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),        cmocka_unit_test(test_two_forms_are_one),
        cmocka_unit_test(test_equal_logits),   cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_order_of_pairs), cmocka_unit_test(test_bits_of_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
