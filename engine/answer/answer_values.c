#include "engine/answer/answer_values.h"

#include <stdio.h>
#include <string.h>

#include "config/base/json_read.h"
#include "config/base/limits.h"
#include "config/base/limits_grammar.h"
#include "engine/models/vocab.h"

enum {
    KEY_BYTES_MAX = 64,  /* of a key that no schema names */
    PATH_KEY_BYTES = 90, /* of a key in the path of an error */
    VALUES_MAX = 65536,  /* of a schema's text */
};

/* One schema at work. */
struct work {
    const struct answer_values *values;
    struct grammar_builder *builder;
    struct regex_pool *pool;
    regex_node_id any; /* any characters */
    struct json_read json;
    struct constraint_error *error;
    char path[CONSTRAINT_PATH_BYTES]; /* of the parameter at work */
    grammar_symbol free_value;        /* of Gemma; GRAMMAR_NOTHING until it is needed */
};

/* --- the schema --- */

static uint32_t kind_at(const struct work *work, uint32_t index)
{
    return work->json.values[index].kind;
}

/* The index of a member's value, or 0: index 0 is the schema itself, which is no member. */
static uint32_t member(const struct work *work, uint32_t object, const char *name)
{
    const struct json_read_value *value = kind_at(work, object) == JSON_READ_OBJECT
                                              ? json_read_member(&work->json, object, name)
                                              : NULL;
    return value != NULL ? (uint32_t)(value - work->json.values) : 0;
}

static bool is_word(const struct work *work, uint32_t index, const char *word)
{
    return index != 0 && kind_at(work, index) == JSON_READ_STRING &&
           slice_is(json_read_text(&work->json.values[index]), word);
}

/* Whether an array (index 0: none) has this string. */
static bool has_word(const struct work *work, uint32_t array, struct slice word)
{
    bool has = false;
    if (array == 0 || kind_at(work, array) != JSON_READ_ARRAY)
        return false;
    for (uint32_t i = array + 1; i < work->json.values[array].next; i = work->json.values[i].next)
        has = has || (kind_at(work, i) == JSON_READ_STRING &&
                      slice_equals(json_read_text(&work->json.values[i]), word));
    return has;
}

/* Whether a schema allows strings and nothing else, as the reader of calls is told (ask_tools). */
static bool is_string(const struct work *work, uint32_t schema)
{
    const uint32_t type = member(work, schema, "type");
    const uint32_t values = member(work, schema, "enum");
    if (type != 0)
        return is_word(work, type, "string");
    if (values == 0 || kind_at(work, values) != JSON_READ_ARRAY)
        return false;
    bool is = work->json.values[values].count > 0;
    for (uint32_t i = values + 1; i < work->json.values[values].next; i = work->json.values[i].next)
        is = is && kind_at(work, i) == JSON_READ_STRING;
    return is;
}

/* What a schema says beside `known` and notes cannot be held here: a strict tool is refused. */
static enum status check_keywords(const struct work *work, uint32_t schema,
                                  const char *const *known, bool *is_loose)
{
    static const char *const notes[] = {"type",     "title",      "description", "default",
                                        "examples", "$schema",    "$comment",    "$defs",
                                        "$id",      "deprecated", "definitions", NULL};
    const struct json_read_value *values = work->json.values;
    *is_loose = false;
    if (kind_at(work, schema) != JSON_READ_OBJECT)
        return STATUS_OK;
    for (uint32_t i = schema + 1; i < values[schema].next; i = values[i + 1].next) {
        const struct slice name = json_read_text(&values[i]);
        bool is_known = slice_starts_with(name, SLICE("x-"));
        for (size_t k = 0; notes[k] != NULL && !is_known; k++)
            is_known = slice_is(name, notes[k]);
        for (size_t k = 0; known[k] != NULL && !is_known; k++)
            is_known = slice_is(name, known[k]);
        if (is_known)
            continue;
        *is_loose = true;
        if (!work->values->options->strict)
            continue;
        struct constraint_error *error = work->error;
        snprintf(error->path, sizeof error->path, "%.150s.%.*s", work->path,
                 (int)(name.length < PATH_KEY_BYTES ? name.length : PATH_KEY_BYTES), name.bytes);
        snprintf(error->keyword, sizeof error->keyword, "%.*s",
                 (int)(name.length < 63 ? name.length : 63), name.bytes);
        snprintf(error->message, sizeof error->message,
                 "This keyword is not supported here in this model's calls; use 'strict': false.");
        return STATUS_UNSUPPORTED;
    }
    return STATUS_OK;
}

/* Writes a value of the schema as JSON again. */
static void write_value(const struct work *work, uint32_t index, struct buffer *out);

static void write_members(const struct work *work, uint32_t object, struct buffer *out)
{
    const struct json_read_value *values = work->json.values;
    for (uint32_t i = object + 1; i < values[object].next; i = values[i + 1].next) {
        if (i > object + 1)
            buffer_append_char(out, ',');
        buffer_append_json_string(out, json_read_text(&values[i]));
        buffer_append_char(out, ':');
        write_value(work, i + 1, out);
    }
}

static void write_value(const struct work *work, uint32_t index, struct buffer *out)
{
    const struct json_read_value *values = work->json.values;
    switch ((enum json_read_kind)values[index].kind) {
    case JSON_READ_NULL:
        buffer_append_text(out, "null");
        return;
    case JSON_READ_FALSE:
        buffer_append_text(out, "false");
        return;
    case JSON_READ_TRUE:
        buffer_append_text(out, "true");
        return;
    case JSON_READ_STRING:
        buffer_append_json_string(out, json_read_text(&values[index]));
        return;
    case JSON_READ_ARRAY:
        buffer_append_char(out, '[');
        for (uint32_t i = index + 1; i < values[index].next; i = values[i].next) {
            if (i > index + 1)
                buffer_append_char(out, ',');
            write_value(work, i, out);
        }
        buffer_append_char(out, ']');
        return;
    case JSON_READ_OBJECT:
        buffer_append_char(out, '{');
        write_members(work, index, out);
        buffer_append_char(out, '}');
        return;
    default:
        buffer_append_slice(out, json_read_text(&values[index]));
    }
}

/* Builds JSON under the schema at an index, which keeps the definitions of the whole. Where that
 * is not supported, a tool that is not strict may write `instead`. */
static enum status build_json(struct work *work, uint32_t schema, const char *instead,
                              grammar_symbol *out)
{
    static const char *const shared[] = {"$defs", "definitions"};
    struct constraint_error wrong = {0};
    struct buffer text;
    buffer_init(&text, LIMIT_GRAMMAR_SOURCE_BYTES);
    if (kind_at(work, schema) == JSON_READ_OBJECT) {
        buffer_append_char(&text, '{');
        write_members(work, schema, &text);
        for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
            const uint32_t of_all = member(work, 0, shared[i]);
            if (of_all == 0 || member(work, schema, shared[i]) != 0)
                continue;
            buffer_printf(&text, "%s\"%s\":", text.length > 1 ? "," : "", shared[i]);
            write_value(work, of_all, &text);
        }
        buffer_append_char(&text, '}');
    } else {
        write_value(work, schema, &text);
    }
    enum status status = text.status;
    if (status == STATUS_OK)
        status = constraint_build(CONSTRAINT_JSON_SCHEMA, buffer_slice(&text),
                                  work->values->options, work->builder, out, &wrong);
    const bool is_free = status == STATUS_UNSUPPORTED || status == STATUS_INVALID;
    if (is_free && !work->values->options->strict)
        status = constraint_build(CONSTRAINT_JSON_SCHEMA, slice_of(instead), work->values->options,
                                  work->builder, out, &wrong);
    buffer_deinit(&text);
    if (status == STATUS_OK)
        return STATUS_OK;
    *work->error = wrong;
    snprintf(work->error->path, sizeof work->error->path, "%.110s%.130s", work->path, wrong.path);
    return status;
}

/* --- parts of rules --- */

static grammar_symbol lexeme(struct work *work, regex_node_id regex)
{
    return grammar_lexeme(work->builder, regex, GRAMMAR_GREEDY);
}

static grammar_symbol text_of(struct work *work, const char *text)
{
    return grammar_text(work->builder, slice_of(text));
}

static grammar_symbol sequence(struct work *work, grammar_symbol a, grammar_symbol b,
                               grammar_symbol c)
{
    const grammar_symbol symbols[] = {a, b, c};
    return grammar_sequence(work->builder, symbols, 3);
}

static grammar_symbol nothing_more(struct work *work)
{
    return grammar_sequence(work->builder, NULL, 0);
}

/* `symbol` any number of times. */
static grammar_symbol list_of(struct work *work, grammar_symbol symbol)
{
    grammar_symbol list = grammar_rule(work->builder);
    const grammar_symbol longer[] = {list, symbol};
    grammar_rule_add(work->builder, list, NULL, 0);
    grammar_rule_add(work->builder, list, longer, 2);
    return list;
}

/* Letters of a key that no schema names. */
static regex_node_id free_key(struct work *work)
{
    static const struct regex_range letters[] = {{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}};
    return regex_repeat(work->pool, regex_chars(work->pool, letters, 4), 1, KEY_BYTES_MAX);
}

/* The strings that a schema allows, each with `behind` after it; REGEX_NONE: any string. */
static regex_node_id named_strings(struct work *work, uint32_t schema, const char *behind)
{
    const uint32_t values = member(work, schema, "enum");
    const uint32_t only = member(work, schema, "const");
    regex_node_id all = REGEX_NONE;
    uint32_t from = only;
    uint32_t to = only != 0 ? only + 1 : 0;
    if (only == 0 && values != 0 && kind_at(work, values) == JSON_READ_ARRAY) {
        from = values + 1;
        to = work->json.values[values].next;
    }
    for (uint32_t i = from; i < to; i = work->json.values[i].next) {
        if (kind_at(work, i) != JSON_READ_STRING)
            continue;
        regex_node_id one = regex_text(work->pool, json_read_text(&work->json.values[i]));
        one = regex_cat(work->pool, one, regex_text(work->pool, slice_of(behind)));
        all = regex_or(work->pool, all, one);
    }
    return all;
}

static const char *const string_words[] = {"enum", "const", NULL};
static const char *const object_words[] = {"properties", "required", "additionalProperties", NULL};

/* Sets the path of errors to a property. */
static void path_set(struct work *work, const char *before, struct slice key)
{
    snprintf(work->path, sizeof work->path, "%.130s.properties.%.*s", before,
             (int)(key.length < PATH_KEY_BYTES ? key.length : PATH_KEY_BYTES), key.bytes);
}

/* A name of `required` that is no property: no value, or one that nothing is known of. */
static enum status check_required(struct work *work, uint32_t schema, bool *is_loose)
{
    const uint32_t required = member(work, schema, "required");
    const uint32_t properties = member(work, schema, "properties");
    const uint32_t more = member(work, schema, "additionalProperties");
    if (required == 0 || kind_at(work, required) != JSON_READ_ARRAY)
        return STATUS_OK;
    const struct json_read_value *values = work->json.values;
    for (uint32_t i = required + 1; i < values[required].next; i = values[i].next) {
        bool is_named = false;
        for (uint32_t k = properties + 1; properties != 0 && k < values[properties].next;
             k = values[k + 1].next)
            is_named =
                is_named || slice_equals(json_read_text(&values[k]), json_read_text(&values[i]));
        if (is_named)
            continue;
        *is_loose = true;
        const bool is_closed = more != 0 && kind_at(work, more) == JSON_READ_FALSE;
        if (!is_closed && !work->values->options->strict)
            continue;
        snprintf(work->error->path, sizeof work->error->path, "%.200s.required", work->path);
        snprintf(work->error->keyword, sizeof work->error->keyword, "required");
        snprintf(work->error->message, sizeof work->error->message,
                 "It names a property that 'properties' does not have.");
        return is_closed ? STATUS_INVALID : STATUS_UNSUPPORTED;
    }
    return STATUS_OK;
}

/* Whether the schema at an index is no more than a list of properties. */
static enum status check_object(struct work *work, uint32_t schema, bool *is_listed)
{
    bool is_loose;
    const uint32_t properties = member(work, schema, "properties");
    TRY(check_keywords(work, schema, object_words, &is_loose));
    TRY(check_required(work, schema, &is_loose));
    *is_listed = !is_loose && properties != 0 && kind_at(work, properties) == JSON_READ_OBJECT;
    return STATUS_OK;
}

/* --- tags --- */

/* The text of a parameter with the tag that ends it. */
static enum status xml_value(struct work *work, uint32_t schema, grammar_symbol *out)
{
    const regex_node_id close = regex_text(work->pool, SLICE("</parameter>"));
    if (!is_string(work, schema)) {
        TRY(build_json(work, schema, "true", out));
        *out =
            sequence(work, *out, lexeme(work, regex_cat(work->pool, work->values->blanks, close)),
                     nothing_more(work));
        return STATUS_OK;
    }
    bool is_loose;
    TRY(check_keywords(work, schema, string_words, &is_loose));
    const regex_node_id named = named_strings(work, schema, "\n</parameter>");
    *out =
        named != REGEX_NONE
            ? lexeme(work, named)
            : grammar_lexeme(work->builder, regex_cat(work->pool, work->any, close), GRAMMAR_LAZY);
    return STATUS_OK;
}

static regex_node_id xml_tag(struct work *work, regex_node_id key)
{
    const regex_node_id open = regex_text(work->pool, SLICE("<parameter="));
    const regex_node_id end = regex_text(work->pool, SLICE(">\n"));
    regex_node_id tag = regex_cat(work->pool, work->values->blanks, open);
    return regex_cat(work->pool, tag, regex_cat(work->pool, key, end));
}

static grammar_symbol xml_free(struct work *work)
{
    const regex_node_id close = regex_text(work->pool, SLICE("</parameter>"));
    grammar_symbol text =
        grammar_lexeme(work->builder, regex_cat(work->pool, work->any, close), GRAMMAR_LAZY);
    return list_of(work, sequence(work, lexeme(work, xml_tag(work, free_key(work))), text,
                                  nothing_more(work)));
}

static enum status xml_all(struct work *work, grammar_symbol *out)
{
    bool is_listed;
    const uint32_t properties = member(work, 0, "properties");
    const uint32_t required = member(work, 0, "required");
    TRY(check_object(work, 0, &is_listed));
    if (!is_listed) {
        *out = xml_free(work);
        return STATUS_OK;
    }
    const struct json_read_value *values = work->json.values;
    *out = nothing_more(work);
    for (uint32_t i = properties + 1; i < values[properties].next; i = values[i + 1].next) {
        const struct slice key = json_read_text(&values[i]);
        grammar_symbol value;
        path_set(work, "", key);
        TRY(xml_value(work, i + 1, &value));
        grammar_symbol one =
            sequence(work, lexeme(work, xml_tag(work, regex_text(work->pool, key))), value,
                     nothing_more(work));
        if (!has_word(work, required, key))
            one = grammar_optional(work->builder, one);
        *out = sequence(work, *out, one, nothing_more(work));
    }
    return STATUS_OK;
}

/* --- Gemma --- */

static enum status gemma_value(struct work *work, uint32_t schema, grammar_symbol *out);

/* `named`, or any text if that is REGEX_NONE, between two marks. */
static grammar_symbol gemma_string(struct work *work, regex_node_id named)
{
    const struct answer_values *values = work->values;
    if (values->quote_token != VOCAB_NONE) {
        grammar_symbol mark = grammar_token(work->builder, values->quote_token);
        grammar_symbol text =
            grammar_optional(work->builder, lexeme(work, named != REGEX_NONE ? named : work->any));
        return sequence(work, mark, text, mark);
    }
    regex_node_id mark = regex_text(work->pool, slice_of(values->quote_text));
    if (named != REGEX_NONE)
        return lexeme(work, regex_cat(work->pool, mark, regex_cat(work->pool, named, mark)));
    grammar_symbol text =
        grammar_lexeme(work->builder, regex_cat(work->pool, work->any, mark), GRAMMAR_LAZY);
    return sequence(work, lexeme(work, mark), text, nothing_more(work));
}

static grammar_symbol gemma_array(struct work *work, grammar_symbol item)
{
    grammar_symbol more = grammar_rule(work->builder);
    const grammar_symbol longer[] = {more, text_of(work, ","), item};
    grammar_rule_add(work->builder, more, &item, 1);
    grammar_rule_add(work->builder, more, longer, 3);
    return sequence(work, text_of(work, "["), grammar_optional(work->builder, more),
                    text_of(work, "]"));
}

/* Members of an object without its opening brace; keys are those of nobody's schema. */
static grammar_symbol gemma_free_members(struct work *work, grammar_symbol value)
{
    const regex_node_id colon = regex_text(work->pool, SLICE(":"));
    grammar_symbol one = sequence(work, lexeme(work, regex_cat(work->pool, free_key(work), colon)),
                                  value, nothing_more(work));
    grammar_symbol more = grammar_rule(work->builder);
    const grammar_symbol longer[] = {more, text_of(work, ","), one};
    grammar_rule_add(work->builder, more, &one, 1);
    grammar_rule_add(work->builder, more, longer, 3);
    return sequence(work, grammar_optional(work->builder, more), text_of(work, "}"),
                    nothing_more(work));
}

/* Any value; one recursive rule. */
static enum status gemma_any(struct work *work, grammar_symbol *out)
{
    static const char scalars[] = "{\"type\":[\"number\",\"boolean\",\"null\"]}";
    struct constraint_error wrong;
    if (work->free_value == GRAMMAR_NOTHING) {
        grammar_symbol scalar;
        TRY(constraint_build(CONSTRAINT_JSON_SCHEMA, SLICE(scalars), work->values->options,
                             work->builder, &scalar, &wrong));
        work->free_value = grammar_rule(work->builder);
        const grammar_symbol ways[] = {
            scalar, gemma_string(work, REGEX_NONE), gemma_array(work, work->free_value),
            sequence(work, text_of(work, "{"), gemma_free_members(work, work->free_value),
                     nothing_more(work))};
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
            grammar_rule_add(work->builder, work->free_value, &ways[i], 1);
    }
    *out = work->free_value;
    return STATUS_OK;
}

static grammar_symbol gemma_key(struct work *work, struct slice key)
{
    bool is_bare = key.length > 0;
    for (size_t i = 0; i < key.length; i++) {
        char c = key.bytes[i];
        is_bare = is_bare && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.');
    }
    const regex_node_id text = regex_text(work->pool, key);
    const regex_node_id colon = regex_text(work->pool, SLICE(":"));
    if (is_bare)
        return lexeme(work, regex_cat(work->pool, text, colon));
    return sequence(work, gemma_string(work, text), lexeme(work, colon), nothing_more(work));
}

/* The members of the schema at an index, and the closing brace. Optional ones may be left out, so
 * `none` is what has come while no member has, and `some` what has come with a member. */
static enum status gemma_members(struct work *work, uint32_t schema, grammar_symbol *out)
{
    const uint32_t properties = member(work, schema, "properties");
    const uint32_t required = member(work, schema, "required");
    const struct json_read_value *values = work->json.values;
    grammar_symbol none = nothing_more(work);
    grammar_symbol some = GRAMMAR_NOTHING;
    char before[CONSTRAINT_PATH_BYTES];
    memcpy(before, work->path, sizeof before);
    for (uint32_t i = properties + 1; i < values[properties].next; i = values[i + 1].next) {
        const struct slice key = json_read_text(&values[i]);
        grammar_symbol value;
        path_set(work, before, key);
        TRY(gemma_value(work, i + 1, &value));
        const grammar_symbol one = sequence(work, gemma_key(work, key), value, nothing_more(work));
        const grammar_symbol more = grammar_rule(work->builder);
        const grammar_symbol later[] = {some, text_of(work, ","), one};
        const grammar_symbol first[] = {none, one};
        const bool is_optional = !has_word(work, required, key);
        if (some != GRAMMAR_NOTHING)
            grammar_rule_add(work->builder, more, later, 3);
        if (none != GRAMMAR_NOTHING)
            grammar_rule_add(work->builder, more, first, 2);
        if (some != GRAMMAR_NOTHING && is_optional)
            grammar_rule_add(work->builder, more, &some, 1);
        some = more;
        none = is_optional ? none : GRAMMAR_NOTHING;
    }
    memcpy(work->path, before, sizeof before);
    const grammar_symbol ends[] = {none, some};
    const grammar_symbol all = grammar_rule(work->builder);
    for (size_t i = 0; i < 2; i++) {
        if (ends[i] != GRAMMAR_NOTHING)
            grammar_rule_add(work->builder, all, &ends[i], 1);
    }
    *out = sequence(work, all, text_of(work, "}"), nothing_more(work));
    return STATUS_OK;
}

static enum status gemma_list(struct work *work, uint32_t schema, grammar_symbol *out)
{
    static const char *const words[] = {"items", NULL};
    const uint32_t items = member(work, schema, "items");
    grammar_symbol item;
    bool is_loose;
    TRY(check_keywords(work, schema, words, &is_loose));
    if (items != 0 && !is_loose)
        TRY(gemma_value(work, items, &item));
    else
        TRY(gemma_any(work, &item));
    *out = gemma_array(work, item);
    return STATUS_OK;
}

static enum status gemma_object(struct work *work, uint32_t schema, grammar_symbol *out)
{
    bool is_listed;
    TRY(check_object(work, schema, &is_listed));
    if (is_listed)
        return gemma_members(work, schema, out);
    grammar_symbol value;
    TRY(gemma_any(work, &value));
    *out = gemma_free_members(work, value);
    return STATUS_OK;
}

/* Values of the type that the string at `type` names. */
static enum status gemma_typed(struct work *work, uint32_t schema, uint32_t type,
                               grammar_symbol *out)
{
    static const char *const none[] = {NULL};
    bool is_loose;
    if (is_word(work, type, "array"))
        return gemma_list(work, schema, out);
    if (is_word(work, type, "object")) {
        TRY(gemma_object(work, schema, out));
        *out = sequence(work, text_of(work, "{"), *out, nothing_more(work));
        return STATUS_OK;
    }
    TRY(check_keywords(work, schema, none, &is_loose));
    if (is_word(work, type, "string")) {
        *out = gemma_string(work, REGEX_NONE);
        return STATUS_OK;
    }
    if (kind_at(work, type) != JSON_READ_STRING) {
        snprintf(work->error->path, sizeof work->error->path, "%.240s.type", work->path);
        snprintf(work->error->message, sizeof work->error->message,
                 "'type' names a type, or a list of types.");
        return STATUS_INVALID;
    }
    char text[64];
    const struct slice word = json_read_text(&work->json.values[type]);
    snprintf(text, sizeof text, "{\"type\":\"%.*s\"}", (int)(word.length < 16 ? word.length : 16),
             word.bytes);
    return constraint_build(CONSTRAINT_JSON_SCHEMA, slice_of(text), work->values->options,
                            work->builder, out, work->error);
}

/* One of several: the types of a list, or the schemas of `anyOf`. */
static enum status gemma_either(struct work *work, uint32_t schema, uint32_t list, bool is_types,
                                grammar_symbol *out)
{
    *out = grammar_rule(work->builder);
    for (uint32_t i = list + 1; i < work->json.values[list].next; i = work->json.values[i].next) {
        grammar_symbol one;
        if (is_types)
            TRY(gemma_typed(work, schema, i, &one));
        else
            TRY(gemma_value(work, i, &one));
        grammar_rule_add(work->builder, *out, &one, 1);
    }
    return STATUS_OK;
}

/* Whether a schema allows numbers, booleans and null alone: they are written as in JSON. */
static bool is_scalar(const struct work *work, uint32_t schema)
{
    static const char *const words[] = {"integer", "number", "boolean", "null"};
    const uint32_t type = member(work, schema, "type");
    const uint32_t values = member(work, schema, "enum");
    bool is = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        is = is || is_word(work, type, words[i]);
    if (type != 0 || values == 0 || kind_at(work, values) != JSON_READ_ARRAY)
        return is;
    is = true;
    for (uint32_t i = values + 1; i < work->json.values[values].next; i = work->json.values[i].next)
        is = is && kind_at(work, i) < JSON_READ_STRING;
    return is;
}

static enum status gemma_value(struct work *work, uint32_t schema, grammar_symbol *out)
{
    static const char *const any_of[] = {"anyOf", NULL};
    static const char *const none[] = {NULL};
    const uint32_t type = member(work, schema, "type");
    const uint32_t either = member(work, schema, "anyOf");
    bool is_loose = false;
    if (is_string(work, schema)) {
        TRY(check_keywords(work, schema, string_words, &is_loose));
        *out = gemma_string(work, named_strings(work, schema, ""));
        return STATUS_OK;
    }
    if (kind_at(work, schema) == JSON_READ_FALSE || is_scalar(work, schema))
        return build_json(work, schema, "{\"type\":[\"number\",\"boolean\",\"null\"]}", out);
    if (type != 0 && kind_at(work, type) == JSON_READ_STRING)
        return gemma_typed(work, schema, type, out);
    if (type != 0 && kind_at(work, type) == JSON_READ_ARRAY)
        return gemma_either(work, schema, type, true, out);
    TRY(check_keywords(work, schema, either != 0 ? any_of : none, &is_loose));
    if (either != 0 && !is_loose && kind_at(work, either) == JSON_READ_ARRAY)
        return gemma_either(work, schema, either, false, out);
    return gemma_any(work, out);
}

/* --- all --- */

static enum status build(const struct answer_values *values, struct slice schema, bool is_gemma,
                         grammar_symbol *out, struct constraint_error *error)
{
    static const struct regex_range all[] = {{0, 0x10ffff}};
    const struct json_read_limits limits = {LIMIT_JSON_DEPTH, VALUES_MAX};
    struct work work = {.values = values,
                        .builder = values->builder,
                        .pool = grammar_builder_regexes(values->builder),
                        .error = error};
    *out = GRAMMAR_NOTHING;
    if (schema.length == 0)
        schema = SLICE("{}");
    enum status status = json_read(&work.json, schema, &limits);
    if (status != STATUS_OK) {
        snprintf(error->message, sizeof error->message, "The schema cannot be read as JSON.");
        return status;
    }
    work.any = regex_repeat(work.pool, regex_chars(work.pool, all, 1), 0, REGEX_UNBOUNDED);
    status = is_gemma ? gemma_object(&work, 0, out) : xml_all(&work, out);
    json_read_free(&work.json);
    return status;
}

enum status answer_values_xml(const struct answer_values *values, struct slice schema,
                              grammar_symbol *out, struct constraint_error *error)
{
    return build(values, schema, false, out, error);
}

enum status answer_values_gemma(const struct answer_values *values, struct slice schema,
                                grammar_symbol *out, struct constraint_error *error)
{
    return build(values, schema, true, out, error);
}
