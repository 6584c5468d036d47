/* schema: sets of equal claims are one set, memory is bounded, errors have a path. */
#include "engine/schema/schema.h"

#include "config/base/limits_grammar.h"
#include "config/base/limits_schema.h"
#include "engine/grammar/grammar_fuel.h"
#include "tests/unit/base_kit.h"

struct bed {
    struct grammar_fuel fuel;
    struct grammar_builder *builder;
    struct constraint_options options;
    struct constraint_error error;
    struct schema schema;
};

static void begin(struct bed *bed, const char *source)
{
    memset(bed, 0, sizeof *bed);
    grammar_fuel_init(&bed->fuel, LIMIT_COMPILE_STEPS, NULL);
    assert_int_equal(grammar_builder_new(&bed->fuel, &bed->builder), STATUS_OK);
    assert_int_equal(
        schema_begin(&bed->schema, bed->builder, slice_of(source), &bed->options, &bed->error),
        STATUS_OK);
}

static void end(struct bed *bed)
{
    schema_end(&bed->schema);
    grammar_builder_free(bed->builder);
}

static void equal_sets_are_one(void **state)
{
    (void)state;
    struct bed bed;
    begin(&bed, "[true, 1, 2]");
    const schema_claim any = schema_claim_of(SCHEMA_VALID, 1);
    const schema_claim claims[] = {schema_claim_of(SCHEMA_EQUAL, 2), any,
                                   schema_claim_of(SCHEMA_EQUAL, 2)};
    schema_set_id a, b, none;
    assert_int_equal(schema_set_of(&bed.schema, &any, 1, &none), STATUS_OK);
    assert_int_equal(none, SCHEMA_SET_ANY);
    assert_int_equal(schema_set_of(&bed.schema, claims, 3, &a), STATUS_OK);
    assert_int_equal(schema_set_of(&bed.schema, claims, 1, &b), STATUS_OK);
    assert_int_equal(a, b);
    assert_int_equal(bed.schema.sets[a].count, 1);
    end(&bed);
}

static void sets_are_found_among_many(void **state)
{
    (void)state;
    struct bed bed;
    schema_set_id first = 0, id;
    begin(&bed, "[1]");
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 2000; i++) {
            const schema_claim claims[] = {schema_claim_of(SCHEMA_EQUAL, i),
                                           schema_claim_of(SCHEMA_NOT_EQUAL, 2000 - i)};
            assert_int_equal(schema_set_of(&bed.schema, claims, 2, &id), STATUS_OK);
            first = i == 0 && round == 0 ? id : first;
            assert_int_equal(id, first + i);
        }
    }
    end(&bed);
}

static void members_are_found(void **state)
{
    (void)state;
    struct bed bed;
    begin(&bed, "{\"a\": {\"b\": 1}, \"c\": 2}");
    uint32_t a = schema_member(&bed.schema, 0, "a");
    assert_int_equal(a, 2);
    assert_int_equal(schema_member(&bed.schema, a, "b"), 4);
    assert_int_equal(schema_member(&bed.schema, 0, "b"), 0);
    assert_int_equal(schema_member(&bed.schema, 4, "b"), 0);
    enum status status = schema_fail(&bed.schema, STATUS_INVALID, 4, NULL, "Number %d.", 7);
    assert_int_equal(status, STATUS_INVALID);
    assert_string_equal(bed.error.path, ".a.b");
    assert_string_equal(bed.error.keyword, "b");
    assert_string_equal(bed.error.message, "Number 7.");
    end(&bed);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    struct bed bed;
    begin(&bed, "true");
    size_t taken = 0;
    while (schema_take(&bed.schema, 1 << 20) != NULL)
        taken += 1 << 20;
    assert_true(taken <= LIMIT_SCHEMA_BYTES);
    assert_true(taken > LIMIT_SCHEMA_BYTES / 2);
    while (schema_take(&bed.schema, 1 << 10) != NULL)
        ;
    assert_int_equal(schema_no_room(&bed.schema), STATUS_LIMIT);
    end(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_sets_are_one),
        cmocka_unit_test(sets_are_found_among_many),
        cmocka_unit_test(members_are_found),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
