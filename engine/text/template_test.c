#include "engine/text/template_test.h"

#include "engine/text/template_parts.h"

#define TEMPLATE_TEST(name, params)                                                                \
    static enum status template_test_##name(struct template_run *run,                              \
                                            const struct template_args *args, bool *out);
#include "engine/text/template_tests.def"
#undef TEMPLATE_TEST

static const struct {
    const char *name;
    const char *params;
    enum status (*call)(struct template_run *run, const struct template_args *args, bool *out);
} tests[] = {
#define TEMPLATE_TEST(name, params) {#name, params, template_test_##name},
#include "engine/text/template_tests.def"
#undef TEMPLATE_TEST
};

uint32_t template_test_find(struct slice name)
{
    for (uint32_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (slice_is(name, tests[i].name))
            return i;
    }
    return TEMPLATE_TEST_NONE;
}

enum status template_test_call(struct template_run *run, uint32_t test, struct template_value value,
                               const struct template_call *call, bool *out)
{
    struct template_args args;
    TRY(template_call_bind(run, call, value, tests[test].params, &args));
    if (tests[test].params[0] != '\0' && args.at[0].kind == TEMPLATE_ABSENT)
        TEMPLATE_FAIL(run, STATUS_INVALID, "the test '%s' needs an argument", tests[test].name);
    return tests[test].call(run, &args, out);
}

/* A test that looks at the kind of its value alone. */
#define TEST_OF_KIND(name, condition)                                                              \
    static enum status template_test_##name(struct template_run *run,                              \
                                            const struct template_args *args, bool *out)           \
    {                                                                                              \
        struct template_value value = args->value;                                                 \
        (void)run;                                                                                 \
        *out = (condition);                                                                        \
        return STATUS_OK;                                                                          \
    }

TEST_OF_KIND(boolean, value.kind == TEMPLATE_BOOL)
TEST_OF_KIND(callable, value.kind == TEMPLATE_MACRO || value.kind == TEMPLATE_FUNCTION ||
                           value.kind == TEMPLATE_METHOD)
TEST_OF_KIND(defined, value.kind != TEMPLATE_UNDEFINED)
TEST_OF_KIND(undefined, value.kind == TEMPLATE_UNDEFINED)
TEST_OF_KIND(false, value.kind == TEMPLATE_BOOL && value.integer == 0)
TEST_OF_KIND(true, value.kind == TEMPLATE_BOOL && value.integer != 0)
TEST_OF_KIND(float, value.kind == TEMPLATE_FLOAT)
TEST_OF_KIND(integer, value.kind == TEMPLATE_INTEGER || value.kind == TEMPLATE_BIG)
TEST_OF_KIND(number, template_value_is_small_number(value) || value.kind == TEMPLATE_BIG)
TEST_OF_KIND(mapping, value.kind == TEMPLATE_DICT)
TEST_OF_KIND(none, value.kind == TEMPLATE_NONE)
TEST_OF_KIND(string, value.kind == TEMPLATE_STRING)
/* An undefined value counts as an empty sequence, as in jinja2. */
TEST_OF_KIND(sequence, template_value_is_sequence(value) || value.kind == TEMPLATE_STRING ||
                           value.kind == TEMPLATE_DICT || value.kind == TEMPLATE_UNDEFINED)
TEST_OF_KIND(iterable, (value.kind >= TEMPLATE_LIST && value.kind <= TEMPLATE_ITERATOR) ||
                           value.kind == TEMPLATE_STRING || value.kind == TEMPLATE_UNDEFINED ||
                           value.kind == TEMPLATE_LOOP)

/* --- tests with an argument --- */

static enum status template_test_eq(struct template_run *run, const struct template_args *args,
                                    bool *out)
{
    return template_parts_equal(run, args->value, args->at[0], out);
}

static enum status template_test_equalto(struct template_run *run, const struct template_args *args,
                                         bool *out)
{
    return template_test_eq(run, args, out);
}

static enum status template_test_ne(struct template_run *run, const struct template_args *args,
                                    bool *out)
{
    TRY(template_test_eq(run, args, out));
    *out = !*out;
    return STATUS_OK;
}

static enum status template_test_ge(struct template_run *run, const struct template_args *args,
                                    bool *out)
{
    int order = 0;
    TRY(template_parts_order(run, args->value, args->at[0], &order));
    *out = order >= 0;
    return STATUS_OK;
}

static enum status template_test_lt(struct template_run *run, const struct template_args *args,
                                    bool *out)
{
    TRY(template_test_ge(run, args, out));
    *out = !*out;
    return STATUS_OK;
}

static enum status template_test_gt(struct template_run *run, const struct template_args *args,
                                    bool *out)
{
    int order = 0;
    TRY(template_parts_order(run, args->value, args->at[0], &order));
    *out = order > 0;
    return STATUS_OK;
}

static enum status template_test_le(struct template_run *run, const struct template_args *args,
                                    bool *out)
{
    TRY(template_test_gt(run, args, out));
    *out = !*out;
    return STATUS_OK;
}

static enum status template_test_in(struct template_run *run, const struct template_args *args,
                                    bool *out)
{
    return template_parts_in(run, args->value, args->at[0], out);
}

static enum status test_divides(struct template_run *run, struct template_value value, int64_t by,
                                int64_t *rest)
{
    if (value.kind != TEMPLATE_INTEGER && value.kind != TEMPLATE_BOOL)
        TEMPLATE_FAIL(run, STATUS_INVALID, "%s is not a whole number",
                      template_value_kind_name(value));
    if (by == 0)
        TEMPLATE_FAIL(run, STATUS_INVALID, "a number is divided by zero");
    *rest = by == -1 ? 0 : value.integer % by; /* INT64_MIN % -1 traps */
    return STATUS_OK;
}

static enum status template_test_divisibleby(struct template_run *run,
                                             const struct template_args *args, bool *out)
{
    int64_t by = 0;
    int64_t rest = 0;
    TRY(template_call_integer(run, args->at[0], 0, &by));
    TRY(test_divides(run, args->value, by, &rest));
    *out = rest == 0;
    return STATUS_OK;
}

static enum status template_test_even(struct template_run *run, const struct template_args *args,
                                      bool *out)
{
    int64_t rest = 0;
    TRY(test_divides(run, args->value, 2, &rest));
    *out = rest == 0;
    return STATUS_OK;
}

static enum status template_test_odd(struct template_run *run, const struct template_args *args,
                                     bool *out)
{
    TRY(template_test_even(run, args, out));
    *out = !*out;
    return STATUS_OK;
}
