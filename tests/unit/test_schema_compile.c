/* schema_compile: a whole schema from its text to a grammar; failing memory; hostile schemas. */
#include "tests/unit/schema_kit.h"

static void sources_that_are_no_schema(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"", STATUS_INVALID, "", ""},
        {"{", STATUS_INVALID, "", ""},
        {"3", STATUS_INVALID, "", ""},
        {"false", STATUS_INVALID, "", ""},
        {"{\"a\":1,\"a\":2}", STATUS_INVALID, "", ""},
    };
    KIT_TRY_REFUSALS(cases);
}

static void a_bool_is_a_schema(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"true", {"1", "{}"}, {"x"}},
    };
    KIT_TRY(cases);
}

static void memory_may_fail(void **state)
{
    (void)state;
    static const char source[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,\"x\"]},"
                                 "\"b\":{\"items\":{\"$ref\":\"#\"}}},\"minProperties\":1}";
    enum status status = STATUS_NO_MEMORY;
    for (int fail_at = 1; status != STATUS_OK; fail_at++) {
        struct grammar *grammar;
        struct constraint_error error;
        int left = fail_at;
        mem_hook_set(kit_fail_at, &left);
        status = kit_compile(CONSTRAINT_JSON_SCHEMA, source, &kit_loose, &grammar, &error);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        assert_true((grammar != NULL) == (status == STATUS_OK));
        grammar_drop(grammar);
    }
}

static void hostile_schemas_are_bounded(void **state)
{
    (void)state;
    struct buffer source;
    buffer_init(&source, 300 * 1024);
    for (int i = 0; i < 10000; i++) /* deeper than json_read goes */
        buffer_append_text(&source, "{\"items\":");
    buffer_append_text(&source, "{}");
    const struct kit_refusal deep = {source.bytes, STATUS_LIMIT, "", ""};
    kit_try_refusals(&kit_loose, &deep, 1);
    buffer_clear(&source);
    buffer_append_text(&source, "{\"properties\":{\"a\":{}");
    for (int i = 0; i < 10000; i++)
        buffer_printf(&source, ",\"k%d\":{}", i);
    buffer_append_text(&source, "}}");
    const struct kit_refusal wide = {source.bytes, STATUS_LIMIT, ".properties", "properties"};
    kit_try_refusals(&kit_loose, &wide, 1);
    buffer_deinit(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_that_are_no_schema),
        cmocka_unit_test(a_bool_is_a_schema),
        cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(hostile_schemas_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
