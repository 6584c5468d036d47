#include "engine/schema/constraint.h"

#include <stdio.h>

#include "config/base/limits_grammar.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/regex_parse.h"
#include "engine/schema/choice.h"
#include "engine/schema/lark.h"
#include "engine/schema/schema_compile.h"

/* Fills in what a part that has no sentence of its own leaves open. */
static enum status fail(struct constraint_error *error, enum status status, const char *message)
{
    if (status != STATUS_OK && error->message[0] == '\0') {
        const char *text = message;
        if (status == STATUS_NO_MEMORY)
            text = "There is no memory for the constraint.";
        else if (status == STATUS_CANCELLED)
            text = "The compilation was cancelled.";
        else if (status == STATUS_LIMIT)
            text = "The constraint is too complex.";
        snprintf(error->message, sizeof error->message, "%s", text);
    }
    return status;
}

static enum status build_regex(struct slice source, struct grammar_builder *builder,
                               grammar_symbol *start, struct constraint_error *error)
{
    struct regex_pool *pool = grammar_builder_regexes(builder);
    struct regex_error wrong = {0};
    regex_node_id regex;
    enum status status = regex_parse(pool, source, REGEX_WHOLE, &regex, &wrong);
    if (status != STATUS_OK) {
        snprintf(error->message, sizeof error->message, "%s", wrong.message);
        return fail(error, status, "The regex is not valid.");
    }
    *start = grammar_lexeme(builder, regex, GRAMMAR_GREEDY);
    return fail(error, grammar_builder_status(builder), "The regex is too complex.");
}

static enum status build_choice(struct slice source, struct grammar_builder *builder,
                                grammar_symbol *start, struct constraint_error *error)
{
    enum status status = choice_build(builder, source, start);
    if (status == STATUS_INVALID)
        snprintf(error->message, sizeof error->message, "%.255s", status_note()->message);
    return fail(error, status, "The choice is not valid.");
}

static enum status build_lark(struct slice source, const struct constraint_options *options,
                              struct grammar_builder *builder, grammar_symbol *start,
                              struct constraint_error *error)
{
    struct lark_error wrong = {0};
    enum status status = lark_build(builder, source, options, start, &wrong);
    if (status == STATUS_OK)
        return STATUS_OK;
    if (wrong.line > 0)
        snprintf(error->path, sizeof error->path, "line %u", wrong.line);
    snprintf(error->keyword, sizeof error->keyword, "%s", wrong.keyword);
    snprintf(error->message, sizeof error->message, "%s", wrong.message);
    return fail(error, status, "The grammar is not valid.");
}

enum status constraint_build(enum constraint_kind kind, struct slice source,
                             const struct constraint_options *options,
                             struct grammar_builder *builder, uint32_t *start,
                             struct constraint_error *error)
{
    *start = GRAMMAR_NOTHING;
    *error = (struct constraint_error){0};
    switch (kind) {
    case CONSTRAINT_JSON_SCHEMA:
        return schema_compile(builder, source, options, start, error);
    case CONSTRAINT_JSON_OBJECT:
        return schema_compile_object(builder, options, start, error);
    case CONSTRAINT_REGEX:
        return build_regex(source, builder, start, error);
    case CONSTRAINT_CHOICE:
        return build_choice(source, builder, start, error);
    case CONSTRAINT_LARK:
        return build_lark(source, options, builder, start, error);
    default:
        ASSERT(false);
    }
    return STATUS_OK;
}

enum status constraint_compile(enum constraint_kind kind, struct slice source,
                               const struct constraint_options *options, struct grammar_fuel *fuel,
                               struct grammar **out, struct constraint_error *error)
{
    struct grammar_builder *builder;
    grammar_symbol start;
    struct byte_set missing;
    *out = NULL;
    *error = (struct constraint_error){0};
    enum status status = grammar_builder_new(fuel, &builder);
    if (status != STATUS_OK)
        return fail(error, status, "");
    memcpy(missing.words, options->missing_bytes, sizeof missing.words);
    regex_pool_cut(grammar_builder_regexes(builder), &missing);
    status = constraint_build(kind, source, options, builder, &start, error);
    if (status == STATUS_OK)
        status = fail(error, grammar_finish(builder, start, out), "No text can match.");
    grammar_builder_free(builder);
    return status;
}
