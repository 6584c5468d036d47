/* schema_object: the order of properties, required ones, names and counts. */
#include "tests/unit/schema_kit.h"

static void optional_properties_come_at_their_place_or_later(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"null\"},\"c\":{\"type\":\"null\"}},\"required\":[\"b\"],\"additionalProperties\":"
         "false}",
         {"{\"b\":null}", "{\"a\":1,\"b\":null}", "{\"a\": 1, \"b\": null, \"c\": null}",
          "{\n  \"b\": null,\n  \"c\": null\n}", "{\"b\":null,\"c\":null,\"a\":1}"},
         {"{}", "{\"a\":1}", "{\"c\":null,\"b\":null}", "{\"b\":null,}", "{,\"b\":null}",
          "{\"b\":null,\"d\":1}", "{\"b\":null,\"a\":1,\"a\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"required\":[\"z\"]}",
         {"{\"z\":1}", "{\"a\":null,\"z\":[]}", "{\"z\":1,\"q\":2}"},
         {"{}", "{\"a\":null}", "{\"z\":1,\"a\":1}"}},
    };
    KIT_TRY(cases);
}

static void other_names(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":"
         "{\"type\":\"integer\"}}",
         {"{}", "{\"b\":1}", "{\"a\":null,\"b\":1,\"c\":2}"},
         {"{\"a\":1}", "{\"b\":null}"}},
        {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{"
         "\"minimum\":5}},\"additionalProperties\":false}",
         {"{\"x\":1}", "{\"xy\":5}", "{\"y\":7}"},
         {"{\"xy\":4}", "{\"z\":1}", "{\"x\":null}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-c]+$\"},"
         "\"additionalProperties\":{\"type\":\"null\"}}",
         {"{\"abc\":null}"},
         {"{\"d\":null}"}},
        {"{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"null\"},\"d\":{\"type\":\"null\"}"
         "},\"propertyNames\":{\"maxLength\":1},\"additionalProperties\":false}",
         {"{}", "{\"d\":null}"},
         {"{\"ab\":null}"}},
    };
    KIT_TRY(cases);
}

static void counts_of_members(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"},"
         "\"c\":{\"type\":\"null\"}},\"additionalProperties\":false,\"minProperties\":1,"
         "\"maxProperties\":2}",
         {"{\"a\":null}", "{\"a\":null,\"c\":null}", "{\"b\":null,\"c\":null}"},
         {"{}", "{\"a\":null,\"b\":null,\"c\":null}"}},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},\"minProperties\":1,"
         "\"maxProperties\":2}",
         {"{\"a\":null}", "{\"a\":null,\"b\":null}"},
         {"{}", "{\"a\":null,\"b\":null,\"c\":null}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":"
         "{\"type\":\"null\"},\"minProperties\":2}",
         {"{\"a\":null,\"b\":null}", "{\"a\":null,\"b\":null,\"c\":null}"},
         {"{}", "{\"a\":null}", "{\"b\":null,\"b\":null}"}},
        {"{\"type\":\"object\",\"maxProperties\":0}", {"{}"}, {"{\"a\":1}"}},
    };
    KIT_TRY(cases);
}

static void what_an_object_must_not_be(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,2]},\"b\":{\"type\":\"null\"}},"
         "\"additionalProperties\":false,\"not\":{\"properties\":{\"a\":{\"const\":1}}}}",
         {"{\"a\":2}", "{\"a\":2,\"b\":null}"},
         {"{}", "{\"a\":1}"}},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},\"not\":{"
         "\"patternProperties\":{\"^x\":{\"minimum\":3}}}}",
         {"{\"x\":1}", "{\"xy\":2}"},
         {"{}", "{\"x\":3}", "{\"y\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":"
         "{\"type\":\"null\"},\"not\":{\"properties\":{\"a\":{}},\"additionalProperties\":false}}",
         {"{\"b\":null}", "{\"a\":null,\"b\":null}"},
         {"{}", "{\"a\":null}"}},
    };
    KIT_TRY(cases);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"properties\":[]}", STATUS_INVALID, ".properties", "properties"},
        {"{\"required\":\"a\"}", STATUS_INVALID, ".required", "required"},
        {"{\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}", STATUS_INVALID,
         "", ""},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},\"minProperties\":2}",
         STATUS_UNSUPPORTED, "", ""},
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{}},\"unevaluatedProperties\":false}",
         STATUS_UNSUPPORTED, ".unevaluatedProperties", "unevaluatedProperties"},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optional_properties_come_at_their_place_or_later),
        cmocka_unit_test(other_names),
        cmocka_unit_test(counts_of_members),
        cmocka_unit_test(what_an_object_must_not_be),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
