/* schema_merge: branches that exclude each other, and schemas with too many alternatives. */
#include "tests/unit/schema_kit.h"

static void branches_exclude_each_other(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\",\"c\"]},\"x\":{"
         "\"type\":\"integer\"}},\"required\":[\"k\"],\"additionalProperties\":false,\"allOf\":[{"
         "\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}}},\"then\":{\"properties\":{\"x\":{"
         "\"const\":0}}}},{\"if\":{\"properties\":{\"k\":{\"const\":\"b\"}}},\"then\":{"
         "\"properties\":{\"x\":{\"const\":1}}}},{\"if\":{\"properties\":{\"k\":{\"const\":\"c\"}}}"
         ",\"then\":{\"properties\":{\"x\":{\"const\":2}}}}]}",
         {"{\"k\":\"a\",\"x\":0}", "{\"k\":\"c\",\"x\":2}", "{\"k\":\"b\"}"},
         {"{\"k\":\"a\",\"x\":1}", "{\"k\":\"b\",\"x\":0}"}},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"allOf\":[{\"anyOf\":[{\"type\":"
         "\"null\"},{\"type\":\"integer\"}]}]}",
         {"null"},
         {"\"x\"", "1"}},
    };
    KIT_TRY(cases);
}

static void alternatives_are_bounded(void **state)
{
    (void)state;
    struct buffer source;
    buffer_init(&source, 4096);
    buffer_append_text(&source, "{\"type\":\"object\",\"allOf\":[{}");
    for (int i = 0; i < 20; i++)
        buffer_printf(&source, ",{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}",
                      i, i);
    buffer_append_text(&source, "]}");
    const struct kit_refusal refusal = {source.bytes, STATUS_LIMIT, "", ""};
    kit_try_refusals(&kit_loose, &refusal, 1);
    buffer_deinit(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_exclude_each_other),
        cmocka_unit_test(alternatives_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
