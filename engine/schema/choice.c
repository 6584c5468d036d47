#include "engine/schema/choice.h"

#include "config/base/json_read.h"
#include "config/base/limits_grammar.h"

/* The texts from `first` to `end` as one regex. Halves are put together, so that the tree of
 * alternatives is as deep as the logarithm of their number. */
static regex_node_id join(struct regex_pool *regexes, const struct json_read_value *texts,
                          uint32_t first, uint32_t end)
{
    if (end - first == 1)
        return regex_text(regexes, json_read_text(&texts[first]));
    uint32_t middle = first + (end - first) / 2;
    return regex_or(regexes, join(regexes, texts, first, middle),
                    join(regexes, texts, middle, end));
}

static enum status build(struct grammar_builder *builder, const struct json_read *json,
                         grammar_symbol *start)
{
    const struct json_read_value *values = json->values;
    if (values[0].kind != JSON_READ_ARRAY || values[0].count == 0)
        FAIL(STATUS_INVALID, "a choice is an array of at least one text");
    if (values[0].count > LIMIT_CHOICE_TEXTS)
        FAIL(STATUS_LIMIT, "a choice has at most %d texts", LIMIT_CHOICE_TEXTS);
    for (uint32_t i = 1; i < json->count; i++)
        if (values[i].kind != JSON_READ_STRING)
            FAIL(STATUS_INVALID, "a choice has texts alone");
    regex_node_id regex = join(grammar_builder_regexes(builder), values, 1, json->count);
    *start = grammar_lexeme(builder, regex, GRAMMAR_GREEDY);
    return grammar_builder_status(builder);
}

enum status choice_build(struct grammar_builder *builder, struct slice source,
                         grammar_symbol *start)
{
    static const struct json_read_limits limits = {.depth = 2, .values = LIMIT_CHOICE_TEXTS + 2};
    struct json_read json;
    *start = GRAMMAR_NOTHING;
    TRY(json_read(&json, source, &limits));
    enum status status = build(builder, &json, start);
    json_read_free(&json);
    return status;
}
