#include "gateway/pool/pool_copy.h"

#include "tests/unit/base_kit.h"

/* The copy has the same texts when what it was made from is gone. */
static void test_a_copy_outlives_its_request(void **state)
{
    (void)state;
    char text[] = "prompt\0tools\0low\0stop\0{}\0user\0hi\0{\"a\":1}";
    const struct slice parts[] = {{text, 6},      {text + 7, 5},  {text + 13, 3}, {text + 17, 4},
                                  {text + 22, 2}, {text + 25, 4}, {text + 30, 2}, {text + 33, 7}};
    struct engine_message messages[2] = {{.role = parts[5], .content = parts[6]},
                                         {.json = parts[7]}};
    struct engine_request request = {.prompt_kind = ENGINE_PROMPT_CHAT,
                                     .text = parts[0],
                                     .messages = messages,
                                     .message_count = 2,
                                     .inputs = {.tools = parts[1], .effort = parts[2]},
                                     .stop = {parts[3]},
                                     .stop_count = 1,
                                     .constraint = {.is_set = true, .source = parts[4]},
                                     .choices = 3,
                                     .sampling = {.temperature = 0.5F}};
    struct pool_copy *copy;
    assert_int_equal(pool_copy_create(&copy, &request), STATUS_OK);
    memset(text, 'x', sizeof text);
    memset(messages, 0, sizeof messages);
    memset(&request, 0, sizeof request);
    const struct engine_request *got = pool_copy_request(copy);
    assert_true(slice_is(got->text, "prompt"));
    assert_true(slice_is(got->inputs.tools, "tools"));
    assert_true(slice_is(got->inputs.effort, "low"));
    assert_int_equal(got->inputs.values.length, 0);
    assert_true(slice_is(got->stop[0], "stop"));
    assert_true(slice_is(got->constraint.source, "{}"));
    assert_true(slice_is(got->messages[0].role, "user"));
    assert_true(slice_is(got->messages[0].content, "hi"));
    assert_true(slice_is(got->messages[1].json, "{\"a\":1}"));
    assert_int_equal(got->choices, 3);
    assert_true(got->sampling.temperature == 0.5F);
    pool_copy_destroy(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_copy_outlives_its_request)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
