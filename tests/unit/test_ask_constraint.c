#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/dialect/ask.h"

/* A chat, a completion or a generation with more fields: "," and members, or "". */
static enum status parse_with(struct ask *request, enum ask_dialect dialect, const char *fields)
{
    static struct answer_model answer;
    const struct ask_model model = {.name = "m", .vocab = 100, .answer = &answer};
    char body[1024];
    answer.format = answer_format_named("hermes");
    snprintf(body, sizeof body, "{\"model\":\"m\",%s%s}",
             dialect == ASK_CHAT ? "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
                                 : "\"prompt\":\"Hi\"",
             fields);
    return ask_parse(request, dialect, slice_of(body), &model);
}

static void check_constraint(enum ask_dialect dialect, const char *fields,
                             enum constraint_kind kind, const char *field, const char *source)
{
    struct ask request;
    assert_int_equal(parse_with(&request, dialect, fields), STATUS_OK);
    const struct engine_constraint *constraint = &request.engine.constraint;
    assert_int_equal(constraint->is_set, field != NULL);
    if (field != NULL) {
        assert_int_equal(constraint->kind, kind);
        assert_true(slice_is(constraint->field, field));
        assert_true(slice_is(constraint->source, source));
    }
    ask_deinit(&request);
}

static void test_constraints(void **state)
{
    (void)state;
    static const char schema_field[] = "response_format.json_schema.schema";
    check_constraint(ASK_CHAT, "", CONSTRAINT_REGEX, NULL, "");
    check_constraint(ASK_CHAT, ",\"response_format\":{\"type\":\"text\"}", CONSTRAINT_REGEX, NULL,
                     "");
    check_constraint(ASK_CHAT, ",\"response_format\":{\"type\":\"json_object\"}",
                     CONSTRAINT_JSON_OBJECT, "response_format", "");
    check_constraint(
        ASK_TEXT,
        ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\","
        "\"schema\":{\"type\":\"object\",\"a\":1}}}",
        CONSTRAINT_JSON_SCHEMA, schema_field, "{\"type\":\"object\",\"a\":1}");
    check_constraint(ASK_CHAT, ",\"guided_json\":\"{}\"", CONSTRAINT_JSON_SCHEMA, "guided_json",
                     "{}");
    check_constraint(ASK_CHAT, ",\"guided_json\":false", CONSTRAINT_JSON_SCHEMA, "guided_json",
                     "false");
    /* Numbers mean what was sent: 0.1 is no number of 17 digits. */
    check_constraint(ASK_CHAT, ",\"guided_json\":{\"multipleOf\":0.1,\"enum\":[99.99,1e-7,-3]}",
                     CONSTRAINT_JSON_SCHEMA, "guided_json",
                     "{\"multipleOf\":0.1,\"enum\":[99.99,1e-7,-3]}");
    check_constraint(ASK_CHAT, ",\"guided_json\":{\"const\":0.12345678901234567}",
                     CONSTRAINT_JSON_SCHEMA, "guided_json", "{\"const\":0.12345678901234566}");
    check_constraint(ASK_CHAT, ",\"regex\":\"a+\"", CONSTRAINT_REGEX, "regex", "a+");
    check_constraint(ASK_GENERATE, ",\"structured_outputs\":{\"choice\":[\"a\",\"b\"]}",
                     CONSTRAINT_CHOICE, "structured_outputs.choice", "[\"a\",\"b\"]");
    check_constraint(ASK_GENERATE,
                     ",\"structured_outputs\":{\"grammar\":\"start: X\",\"json\":null}",
                     CONSTRAINT_LARK, "structured_outputs.grammar", "start: X");
}

/* The constraint holds behind reasoning that the prompt has opened, or from the first token on. */
static void test_reasoning(void **state)
{
    (void)state;
    static const char *const fields[] = {"", ",\"regex\":\"a\"",
                                         ",\"regex\":\"a\",\"skip_special_tokens\":false"};
    struct answer_model answer = {.format = answer_format_named("hermes"), .has_reasoning = true};
    const struct ask_model model = {.name = "m", .vocab = 100, .answer = &answer};
    for (size_t i = 0; i < 3; i++) {
        char body[256];
        struct ask request;
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]%s}",
                 fields[i]);
        assert_int_equal(ask_parse(&request, ASK_CHAT, slice_of(body), &model), STATUS_OK);
        assert_int_equal(request.is_split, i < 2);
        assert_int_equal(request.is_constrained, i > 0);
        assert_int_equal(request.engine.wants_marks, i < 2);
        ask_deinit(&request);
    }
}

/* Without a word about it, objects are closed; `strict` decides if it is there. */
static void test_strict(void **state)
{
    (void)state;
    static const struct {
        const char *strict;
        bool is_strict;
        bool is_closed;
    } cases[] = {
        {"", false, true}, {",\"strict\":false", false, false}, {",\"strict\":true", true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char fields[160];
        struct ask request;
        snprintf(
            fields, sizeof fields,
            ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}%s}}",
            cases[i].strict);
        assert_int_equal(parse_with(&request, ASK_CHAT, fields), STATUS_OK);
        const struct constraint_options *options = &request.engine.constraint.options;
        assert_int_equal(options->strict, cases[i].is_strict);
        assert_int_equal(options->disable_additional_properties, cases[i].is_closed);
        ask_deinit(&request);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_strict),
        cmocka_unit_test(test_reasoning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
