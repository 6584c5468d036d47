/* ask_constraint: the fields that say what an answer must be. Each gives the engine one constraint,
 * and a request has at most one. Their functions stand in ask_read.h. */
#include <stdio.h>
#include <string.h>

#include "config/base/limits_grammar.h"
#include "gateway/dialect/ask_block.h"
#include "gateway/dialect/ask_json.h"
#include "gateway/dialect/ask_read.h"

enum { PATH_BYTES = 96 };

/* `path` is a string literal or a name of ask_fields.def: the engine's request points at it. */
static enum status constraint_set(struct ask *ask, enum constraint_kind kind, const char *path,
                                  struct slice source)
{
    struct engine_constraint *constraint = &ask->engine.constraint;
    if (constraint->is_set)
        FAIL_PARAM(STATUS_INVALID, path,
                   "Invalid '%s': '%.*s' constrains the answer already; give only one constraint.",
                   path, (int)constraint->field.length, constraint->field.bytes);
    if (source.length > LIMIT_GRAMMAR_SOURCE_BYTES)
        FAIL_PARAM(STATUS_SCHEMA_LIMIT, path,
                   "Invalid '%s': it has %zu bytes, and at most %d are taken.", path, source.length,
                   LIMIT_GRAMMAR_SOURCE_BYTES);
    constraint->is_set = true;
    constraint->kind = kind;
    constraint->field = slice_of(path);
    constraint->source = source;
    return STATUS_OK;
}

/* A schema as an object, as true or false, or as a text that holds one. */
static enum status constraint_schema(struct ask *ask, const json_t *json, const char *path)
{
    struct slice source;
    if (json_is_string(json))
        TRY(ask_json_string(json, path, &source));
    else if (json_is_object(json) || json_is_boolean(json))
        TRY(ask_block_json(json, &ask->blocks, &source));
    else
        return ask_json_wrong_type(json, path, "an object");
    return constraint_set(ask, CONSTRAINT_JSON_SCHEMA, path, source);
}

static enum status constraint_text(struct ask *ask, enum constraint_kind kind, const json_t *json,
                                   const char *path)
{
    struct slice source;
    TRY(ask_json_string(json, path, &source));
    if (source.length == 0)
        FAIL_PARAM(STATUS_INVALID, path, "Invalid '%s': it is empty.", path);
    return constraint_set(ask, kind, path, source);
}

static enum status constraint_choice(struct ask *ask, const json_t *json, const char *path)
{
    struct slice source;
    size_t count;
    TRY(ask_json_array(json, path, 1024, &count));
    if (count == 0)
        FAIL_PARAM(STATUS_INVALID, path, "Invalid '%s': there is no text to choose.", path);
    for (size_t i = 0; i < count; i++) {
        char where[PATH_BYTES];
        snprintf(where, sizeof where, "%.64s[%zu]", path, i);
        TRY(ask_json_string(json_array_get(json, i), where, &source));
    }
    TRY(ask_block_json(json, &ask->blocks, &source));
    return constraint_set(ask, CONSTRAINT_CHOICE, path, source);
}

/* --- response_format --- */

static enum status format_schema(struct ask *ask, const json_t *format)
{
    static const char path[] = "response_format.json_schema";
    static const char *const known[] = {"name", "description", "schema", "strict", NULL};
    const json_t *named = json_object_get(format, "json_schema");
    struct slice word;
    if (named == NULL)
        FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
    TRY(ask_json_object(named, path));
    TRY(ask_json_members(named, path, known));
    const json_t *name = json_object_get(named, "name");
    const json_t *schema = json_object_get(named, "schema");
    const json_t *strict = json_object_get(named, "strict");
    if (name != NULL && !json_is_null(name))
        TRY(ask_json_word(name, "response_format.json_schema.name", &word));
    if (schema == NULL || json_is_null(schema))
        FAIL_PARAM(STATUS_INVALID, "response_format.json_schema.schema",
                   "Missing required parameter: 'response_format.json_schema.schema'.");
    bool is_strict = false;
    bool has_strict = strict != NULL && !json_is_null(strict);
    if (has_strict)
        TRY(ask_json_bool(strict, "response_format.json_schema.strict", &is_strict));
    TRY(constraint_schema(ask, schema, "response_format.json_schema.schema"));
    ask->engine.constraint.options.strict = is_strict;
    ask->engine.constraint.options.disable_additional_properties = !has_strict;
    return STATUS_OK;
}

enum status ask_constraint_response_format(struct ask *ask, const struct ask_value *value)
{
    static const char *const schema_members[] = {"type", "json_schema", NULL};
    static const char *const others[] = {"type", NULL};
    const json_t *type = json_object_get(value->json, "type");
    struct slice word = {0};
    if (json_is_string(type))
        TRY(ask_json_word(type, "response_format.type", &word));
    bool is_schema = slice_is(word, "json_schema");
    TRY(ask_json_members(value->json, value->name, is_schema ? schema_members : others));
    if (slice_is(word, "text"))
        return STATUS_OK;
    if (slice_is(word, "json_object"))
        return constraint_set(ask, CONSTRAINT_JSON_OBJECT, "response_format", (struct slice){0});
    if (is_schema)
        return format_schema(ask, value->json);
    FAIL_PARAM(STATUS_UNSUPPORTED, "response_format.type",
               "Unsupported value: 'response_format.type' must be 'text', 'json_object' or "
               "'json_schema'.");
}

/* --- vLLM's and SGLang's fields --- */

enum status ask_constraint_structured_outputs(struct ask *ask, const struct ask_value *value)
{
    static const char *const known[] = {"json",
                                        "json_object",
                                        "regex",
                                        "choice",
                                        "grammar",
                                        "disable_any_whitespace",
                                        "disable_additional_properties",
                                        NULL};
    const char *key;
    json_t *json;
    struct constraint_options *options = &ask->engine.constraint.options;
    const bool had = ask->engine.constraint.is_set;
    bool is_asked = false;
    TRY(ask_json_members(value->json, value->name, known));
    json_object_foreach((json_t *)(uintptr_t)value->json, key, json)
    {
        if (json_is_null(json))
            continue;
        if (strcmp(key, "json") == 0)
            TRY(constraint_schema(ask, json, "structured_outputs.json"));
        else if (strcmp(key, "regex") == 0)
            TRY(constraint_text(ask, CONSTRAINT_REGEX, json, "structured_outputs.regex"));
        else if (strcmp(key, "choice") == 0)
            TRY(constraint_choice(ask, json, "structured_outputs.choice"));
        else if (strcmp(key, "grammar") == 0)
            TRY(constraint_text(ask, CONSTRAINT_LARK, json, "structured_outputs.grammar"));
        else if (strcmp(key, "json_object") == 0)
            TRY(ask_json_bool(json, "structured_outputs.json_object", &is_asked));
    }
    if (is_asked)
        TRY(constraint_set(ask, CONSTRAINT_JSON_OBJECT, "structured_outputs.json_object",
                           (struct slice){0}));
    if (!ask->engine.constraint.is_set || had)
        FAIL_PARAM(STATUS_INVALID, value->name,
                   "Invalid 'structured_outputs': give exactly one of 'json', 'json_object', "
                   "'regex', 'choice' and 'grammar'.");
    const json_t *no_white = json_object_get(value->json, "disable_any_whitespace");
    const json_t *closed = json_object_get(value->json, "disable_additional_properties");
    if (no_white != NULL && !json_is_null(no_white))
        TRY(ask_json_bool(no_white, "structured_outputs.disable_any_whitespace",
                          &options->disable_any_whitespace));
    options->disable_additional_properties = true;
    if (closed != NULL && !json_is_null(closed))
        TRY(ask_json_bool(closed, "structured_outputs.disable_additional_properties",
                          &options->disable_additional_properties));
    return STATUS_OK;
}

enum status ask_constraint_guided_json(struct ask *ask, const struct ask_value *value)
{
    TRY(constraint_schema(ask, value->json, "guided_json"));
    ask->engine.constraint.options.disable_additional_properties = true;
    return STATUS_OK;
}

enum status ask_constraint_guided_regex(struct ask *ask, const struct ask_value *value)
{
    return constraint_text(ask, CONSTRAINT_REGEX, value->json, value->name);
}

enum status ask_constraint_guided_choice(struct ask *ask, const struct ask_value *value)
{
    return constraint_choice(ask, value->json, "guided_choice");
}

enum status ask_constraint_guided_grammar(struct ask *ask, const struct ask_value *value)
{
    return constraint_text(ask, CONSTRAINT_LARK, value->json, "guided_grammar");
}
