/* schema_write_object: commas between optional members, and counts. */
#include "engine/grammar/grammar_force.h"
#include "tests/unit/schema_kit.h"

static void commas_stand_between_members(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{"
         "\"const\":3}},\"additionalProperties\":{\"const\":4}}",
         {"{}", "{\"a\":1,\"c\":3}", "{\"c\":3,\"d\":4,\"e\":4}", "{\"d\":4}",
          "{\"a\":1,\"b\":2,\"c\":3}"},
         {"{,\"a\":1}", "{\"a\":1 \"b\":2}", "{\"a\":1,}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{"
         "\"const\":3},\"d\":{\"const\":4}},\"required\":[\"b\",\"c\"],\"additionalProperties\":"
         "false}",
         {"{\"b\":2,\"c\":3}", "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}"},
         {"{\"b\":2}", "{\"a\":1,\"c\":3}"}},
    };
    KIT_TRY(cases);
}

#define ONE "{\"const\":1}"

static void optional_members_come_in_any_order(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":" ONE ",\"b\":" ONE ",\"c\":" ONE
         "},\"additionalProperties\":{\"const\":4}}",
         {"{\"c\":1,\"a\":1,\"b\":1}", "{\"b\":1,\"a\":1}",
          "{\"d\":4,\"c\":1,\"e\":4,\"f\":4,\"a\":1}", "{\"d\":4,\"d\":4,\"a\":1,\"d\":4}"},
         {"{\"a\":1,\"a\":1}", "{\"b\":1,\"a\":1,\"b\":1}", "{\"a\":4}", "{\"d\":1}",
          "{\"d\":4,\"a\":1,\"e\":4,\"a\":1}"}},
        /* a, d and f are optional */
        {"{\"type\":\"object\",\"properties\":{\"a\":" ONE ",\"b\":" ONE ",\"c\":" ONE ",\"d\":" ONE
         ",\"e\":" ONE ",\"f\":" ONE
         "},\"required\":[\"b\",\"c\",\"e\"],\"additionalProperties\":{\"const\":4}}",
         {"{\"b\":1,\"c\":1,\"e\":1}", "{\"b\":1,\"c\":1,\"a\":1,\"e\":1,\"d\":1}",
          "{\"x\":4,\"a\":1,\"b\":1,\"c\":1,\"e\":1,\"x\":4,\"f\":1}",
          "{\"b\":1,\"c\":1,\"e\":1,\"f\":1,\"d\":1,\"a\":1}"},
         {"{\"f\":1,\"b\":1,\"c\":1,\"e\":1}", "{\"b\":1,\"a\":1,\"c\":1,\"e\":1}",
          "{\"b\":1,\"c\":1,\"f\":1,\"e\":1}", "{\"b\":1,\"c\":1,\"e\":1,\"a\":1,\"a\":1}",
          "{\"c\":1,\"b\":1,\"e\":1}", "{\"b\":1,\"c\":1}"}},
    };
    static const struct kit_case strict[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":" ONE ",\"b\":" ONE
         "},\"additionalProperties\":{\"const\":4}}",
         {"{\"a\":1,\"b\":1,\"c\":4}"},
         {"{\"b\":1,\"a\":1}", "{\"c\":4,\"a\":1}"}},
    };
    KIT_TRY(cases);
    KIT_TRY_STRICT(strict);
}

/* With more optional members than may be told apart, they come in order; others come between. */
static void many_members_come_in_order(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":" ONE ",\"b\":" ONE ",\"c\":" ONE ",\"d\":" ONE
         ",\"e\":" ONE ",\"f\":" ONE ",\"g\":" ONE ",\"h\":" ONE ",\"i\":" ONE ",\"j\":" ONE
         ",\"k\":" ONE ",\"l\":" ONE ",\"m\":" ONE "},\"required\":[\"c\",\"m\"]}",
         {"{\"a\":1,\"b\":1,\"c\":1,\"m\":1}",
          "{\"x\":2,\"a\":1,\"c\":1,\"y\":2,\"y\":3,\"l\":1,\"m\":1,\"z\":{}}",
          "{\"x\":2,\"c\":1,\"x\":2,\"m\":1}"},
         {"{\"b\":1,\"a\":1,\"c\":1,\"m\":1}", "{\"c\":1,\"e\":1,\"d\":1,\"m\":1}", "{\"x\":1}",
          "{\"c\":1,\"m\":1,\"m\":1}"}},
    };
    KIT_TRY(cases);
}

/* Where a required member must come next, its name is forced. */
static void required_names_are_forced(void **state)
{
    (void)state;
    static const char schema[] = "{\"properties\":{\"name\":" ONE ",\"size\":" ONE ",\"mass\":" ONE
                                 "},\"required\":[\"name\",\"size\"],\"type\":\"object\"}";
    const struct constraint_options options = {.disable_any_whitespace = true};
    struct token_trie *trie = kit_bytes();
    struct constraint_error error;
    struct grammar *grammar;
    struct grammar_run *run;
    char bytes[64];
    assert_int_equal(kit_compile(CONSTRAINT_JSON_SCHEMA, schema, &options, &grammar, &error),
                     STATUS_OK);
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    const size_t count = grammar_force_bytes(run, bytes, sizeof bytes);
    assert_memory_equal(bytes, "{\"name\":1,\"size\":1", count);
    assert_int_equal(count, strlen("{\"name\":1,\"size\":1"));
    grammar_run_free(run);
    grammar_drop(grammar);
    token_trie_free(trie);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_members),
        cmocka_unit_test(optional_members_come_in_any_order),
        cmocka_unit_test(many_members_come_in_order),
        cmocka_unit_test(required_names_are_forced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
