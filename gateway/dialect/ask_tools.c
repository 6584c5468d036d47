#include "gateway/dialect/ask_tools.h"

#include <stdio.h>
#include <string.h>

#include "engine/answer/answer_grammar.h"
#include "gateway/dialect/ask_block.h"
#include "gateway/dialect/ask_generic.h"
#include "gateway/dialect/ask_json.h"
#include "gateway/dialect/ask_read.h"

enum { PATH_BYTES = 96, LINES_BYTES_MAX = 2 * LIMIT_BODY_BYTES };

bool ask_tools_allows(const struct ask_tools *tools, size_t index)
{
    return (tools->allowed[index / 64] >> index % 64 & 1) != 0;
}

struct slice ask_tools_name(const struct ask_tools *tools, size_t index)
{
    const json_t *function = json_object_get(json_array_get(tools->list, index), "function");
    const json_t *name = json_object_get(function, "name");
    return (struct slice){json_string_value(name), json_string_length(name)};
}

/* The index of a tool, or the number of tools. */
static size_t tools_find(const struct ask_tools *tools, struct slice name)
{
    size_t i = 0;
    while (i < tools->count && !slice_equals(ask_tools_name(tools, i), name))
        i++;
    return i;
}

/* --- tools --- */

static enum status tool_name(const json_t *function, const char *path)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    struct slice name;
    const json_t *value = json_object_get(function, "name");
    if (value == NULL)
        FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
    TRY(ask_json_word(value, path, &name));
    if (name.length == 0 || name.length > LIMIT_TOOL_NAME_BYTES ||
        strspn(name.bytes, letters) != name.length)
        FAIL_PARAM(STATUS_INVALID, path,
                   "Invalid '%s': a name has 1 to %d letters, digits, underscores and hyphens.",
                   path, LIMIT_TOOL_NAME_BYTES);
    return STATUS_OK;
}

static enum status tool_check(const json_t *tool, size_t index)
{
    char path[PATH_BYTES];
    struct slice word;
    bool is_strict;
    snprintf(path, sizeof path, "tools[%zu]", index);
    TRY(ask_json_object(tool, path));
    snprintf(path, sizeof path, "tools[%zu].type", index);
    const json_t *type = json_object_get(tool, "type");
    if (type != NULL)
        TRY(ask_json_word(type, path, &word));
    if (type != NULL && !slice_is(word, "function"))
        FAIL_PARAM(STATUS_UNSUPPORTED, path,
                   "Unsupported value: '%s' must be 'function' here; this server runs no tools of "
                   "its own.",
                   path);
    snprintf(path, sizeof path, "tools[%zu].function", index);
    const json_t *function = json_object_get(tool, "function");
    if (function == NULL)
        FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
    TRY(ask_json_object(function, path));
    snprintf(path, sizeof path, "tools[%zu].function.name", index);
    TRY(tool_name(function, path));
    snprintf(path, sizeof path, "tools[%zu].function.parameters", index);
    const json_t *parameters = json_object_get(function, "parameters");
    if (parameters != NULL && !json_is_null(parameters))
        TRY(ask_json_object(parameters, path));
    snprintf(path, sizeof path, "tools[%zu].function.strict", index);
    const json_t *strict = json_object_get(function, "strict");
    if (strict != NULL && !json_is_null(strict))
        TRY(ask_json_bool(strict, path, &is_strict));
    return STATUS_OK;
}

enum status ask_tools_read(struct ask *ask, const struct ask_value *value)
{
    struct ask_tools *tools = &ask->tools;
    tools->list = value->json;
    for (size_t i = 0; i < json_array_size(value->json); i++) {
        TRY(tool_check(json_array_get(value->json, i), i));
        size_t other = tools_find(tools, ask_tools_name(tools, i));
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "tools[%zu].function.name", i);
        if (other < i)
            FAIL_PARAM(STATUS_INVALID, path, "Invalid '%s': tools[%zu] has the same name.", path,
                       other);
        tools->count++;
    }
    return STATUS_OK;
}

/* --- which of them may be called --- */

enum status ask_tools_read_choice(struct ask *ask, const struct ask_value *value)
{
    ask->tools.choice_json = value->json;
    return STATUS_OK;
}

enum status ask_tools_read_parallel(struct ask *ask, const struct ask_value *value)
{
    ask->tools.is_single = ask->tools.is_single || !value->yes;
    return STATUS_OK;
}

/* Allows the tool that {"function":{"name":…}} names. */
static enum status choice_allow(struct ask_tools *tools, const json_t *named, const char *path)
{
    char where[PATH_BYTES];
    struct slice name;
    const json_t *function = json_object_get(named, "function");
    snprintf(where, sizeof where, "%.60s.function", path);
    if (function == NULL)
        FAIL_PARAM(STATUS_INVALID, where, "Missing required parameter: '%s'.", where);
    TRY(ask_json_object(function, where));
    snprintf(where, sizeof where, "%.60s.function.name", path);
    const json_t *json = json_object_get(function, "name");
    if (json == NULL)
        FAIL_PARAM(STATUS_INVALID, where, "Missing required parameter: '%s'.", where);
    TRY(ask_json_word(json, where, &name));
    size_t index = tools_find(tools, name);
    if (index == tools->count)
        FAIL_PARAM(STATUS_INVALID, where, "Invalid '%s': the request has no tool of this name.",
                   where);
    tools->allowed[index / 64] |= UINT64_C(1) << index % 64;
    return STATUS_OK;
}

static enum status choice_mode(struct ask_tools *tools, const json_t *value, const char *path)
{
    struct slice word;
    TRY(ask_json_word(value, path, &word));
    if (slice_is(word, "auto"))
        tools->choice = ASK_TOOLS_AUTO;
    else if (slice_is(word, "none"))
        tools->choice = ASK_TOOLS_NONE;
    else if (slice_is(word, "required"))
        tools->choice = ASK_TOOLS_REQUIRED;
    else
        FAIL_PARAM(STATUS_INVALID, path,
                   "Invalid value for '%s': it is 'none', 'auto', 'required', or names tools.",
                   path);
    return STATUS_OK;
}

/* {"mode":…,"tools":[{"type":"function","function":{"name":…}},…]} */
static enum status choice_allowed(struct ask_tools *tools, const json_t *value)
{
    static const char path[] = "tool_choice.allowed_tools";
    size_t count;
    if (value == NULL)
        FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
    TRY(ask_json_object(value, path));
    const json_t *mode = json_object_get(value, "mode");
    if (mode == NULL)
        FAIL_PARAM(STATUS_INVALID, "tool_choice.allowed_tools.mode",
                   "Missing required parameter: 'tool_choice.allowed_tools.mode'.");
    TRY(choice_mode(tools, mode, "tool_choice.allowed_tools.mode"));
    const json_t *list = json_object_get(value, "tools");
    if (list == NULL)
        FAIL_PARAM(STATUS_INVALID, "tool_choice.allowed_tools.tools",
                   "Missing required parameter: 'tool_choice.allowed_tools.tools'.");
    TRY(ask_json_array(list, "tool_choice.allowed_tools.tools", LIMIT_TOOLS, &count));
    memset(tools->allowed, 0, sizeof tools->allowed);
    for (size_t i = 0; i < count; i++) {
        char where[PATH_BYTES];
        snprintf(where, sizeof where, "tool_choice.allowed_tools.tools[%zu]", i);
        TRY(choice_allow(tools, json_array_get(list, i), where));
    }
    return STATUS_OK;
}

static enum status choice_object(struct ask_tools *tools, const json_t *value)
{
    struct slice type = SLICE("");
    const json_t *json = json_object_get(value, "type");
    if (json != NULL)
        TRY(ask_json_word(json, "tool_choice.type", &type));
    if (slice_is(type, "allowed_tools"))
        return choice_allowed(tools, json_object_get(value, "allowed_tools"));
    if (!slice_is(type, "function"))
        FAIL_PARAM(STATUS_UNSUPPORTED, "tool_choice.type",
                   "Unsupported value: 'tool_choice.type' must be 'function' or 'allowed_tools' "
                   "here.");
    tools->choice = ASK_TOOLS_REQUIRED;
    tools->is_single = true;
    memset(tools->allowed, 0, sizeof tools->allowed);
    return choice_allow(tools, value, "tool_choice");
}

static enum status choice_check(struct ask_tools *tools)
{
    const json_t *value = tools->choice_json;
    if (value == NULL)
        return STATUS_OK;
    if (json_is_object(value))
        TRY(choice_object(tools, value));
    else if (json_is_string(value))
        TRY(choice_mode(tools, value, "tool_choice"));
    else
        return ask_json_wrong_type(value, "tool_choice", "a string or an object");
    bool is_any = false;
    for (size_t i = 0; i < tools->count; i++)
        is_any = is_any || ask_tools_allows(tools, i);
    if (tools->choice == ASK_TOOLS_REQUIRED && !is_any)
        FAIL_PARAM(STATUS_INVALID, "tool_choice",
                   "Invalid 'tool_choice': a call is required, but no tool may be called.");
    return STATUS_OK;
}

/* --- what the splitter knows of them --- */

/* Whether a schema allows strings and nothing else. */
static bool schema_is_string(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    const json_t *values = json_object_get(schema, "enum");
    bool is_string = json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
    for (size_t i = 0; i < json_array_size(values) && type == NULL; i++)
        is_string = json_is_string(json_array_get(values, i)) && (is_string || i == 0);
    return is_string;
}

/* One line of the list: where it begins, and its bytes. */
struct line {
    uint32_t from;
    uint32_t length;
};

static void lines_add(struct buffer *lines, struct buffer *places, struct slice tool,
                      const char *parameter)
{
    const uint32_t from = (uint32_t)lines->length;
    buffer_append_slice(lines, tool);
    buffer_append_char(lines, '\t');
    buffer_append_text(lines, parameter);
    const struct line line = {from, (uint32_t)lines->length - from};
    buffer_append(places, &line, sizeof line);
}

static int line_compare(struct slice a, struct slice b)
{
    const size_t least = a.length < b.length ? a.length : b.length;
    const int order = memcmp(a.bytes, b.bytes, least);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int line_order(const void *left, const void *right, void *context)
{
    const char *bytes = context;
    const struct line *a = left;
    const struct line *b = right;
    return line_compare((struct slice){bytes + a->from, a->length},
                        (struct slice){bytes + b->from, b->length});
}

static enum status lines_make(struct ask_tools *tools)
{
    struct buffer places;
    buffer_init(&places, LINES_BYTES_MAX);
    buffer_init(&tools->lines, LINES_BYTES_MAX);
    for (size_t i = 0; i < tools->count; i++) {
        const json_t *function = json_object_get(json_array_get(tools->list, i), "function");
        const json_t *parameters = json_object_get(function, "parameters");
        const char *key;
        json_t *schema;
        if (!ask_tools_allows(tools, i))
            continue;
        lines_add(&tools->lines, &places, ask_tools_name(tools, i), "");
        json_object_foreach(json_object_get(parameters, "properties"), key, schema)
        {
            if (key[0] != '\0' && schema_is_string(schema))
                lines_add(&tools->lines, &places, ask_tools_name(tools, i), key);
        }
    }
    const uint32_t count = (uint32_t)(places.length / sizeof(struct line));
    if (count > 0)
        qsort_r(places.bytes, count, sizeof(struct line), line_order, tools->lines.bytes);
    buffer_append_slice(&tools->lines, buffer_slice(&places));
    buffer_append(&tools->lines, &count, sizeof count);
    if (places.status != STATUS_OK)
        tools->lines.status = places.status;
    buffer_deinit(&places);
    return tools->lines.status;
}

/* Looks a line up in the sorted places behind the lines. */
static bool lines_have(const struct buffer *lines, struct slice wanted)
{
    uint32_t count = 0;
    if (lines->length < sizeof count)
        return false;
    const char *end = lines->bytes + lines->length - sizeof count;
    memcpy(&count, end, sizeof count);
    const char *places = end - count * sizeof(struct line);
    for (uint32_t low = 0, high = count; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        struct line line;
        memcpy(&line, places + middle * sizeof line, sizeof line);
        const int order =
            line_compare(wanted, (struct slice){lines->bytes + line.from, line.length});
        if (order == 0)
            return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

bool ask_tools_is_text(void *context, struct slice tool, struct slice parameter)
{
    enum { LINE_BYTES = LIMIT_TOOL_NAME_BYTES + 512 };
    char line[LINE_BYTES];
    if (tool.length + parameter.length + 1 > LINE_BYTES)
        return false;
    memcpy(line, tool.bytes, tool.length);
    line[tool.length] = '\t';
    memcpy(line + tool.length + 1, parameter.bytes, parameter.length);
    return lines_have(context, (struct slice){line, tool.length + 1 + parameter.length});
}

bool ask_tools_has(void *context, struct slice tool)
{
    return ask_tools_is_text(context, tool, SLICE(""));
}

/* --- the constraint --- */

static enum status constraint_source(const struct ask_tools *tools, struct buffer *source)
{
    static const enum answer_choice choices[] = {[ASK_TOOLS_AUTO] = ANSWER_CHOICE_AUTO,
                                                 [ASK_TOOLS_NONE] = ANSWER_CHOICE_NONE,
                                                 [ASK_TOOLS_REQUIRED] = ANSWER_CHOICE_REQUIRED};
    void *texts = NULL;
    enum status status = STATUS_OK;
    answer_grammar_begin(source, choices[tools->choice], tools->is_single);
    for (size_t i = 0; i < tools->count && tools->choice != ASK_TOOLS_NONE; i++) {
        const json_t *function = json_object_get(json_array_get(tools->list, i), "function");
        const json_t *schema = json_object_get(function, "parameters");
        struct slice text = {0};
        if (!ask_tools_allows(tools, i))
            continue;
        if (json_object_size(schema) > 0)
            TRY_OUT(ask_block_json(schema, &texts, &text));
        answer_grammar_tool(source, (uint32_t)i, ask_tools_name(tools, i),
                            json_is_true(json_object_get(function, "strict")), text);
    }
    status = source->status;
out:
    ask_block_free(texts);
    return status;
}

/* Calls are constrained as far as the model's format can be. A constraint of the whole answer goes
 * before calls that may be left out. */
static enum status constraint_make(struct ask *ask)
{
    const struct ask_tools *tools = &ask->tools;
    struct engine_constraint *constraint = &ask->engine.constraint;
    const bool is_required = tools->choice == ASK_TOOLS_REQUIRED;
    struct buffer source;
    if (constraint->is_set && is_required)
        FAIL_PARAM(STATUS_INVALID, "tool_choice",
                   "Invalid 'tool_choice': '%.*s' constrains the answer already; give only one "
                   "constraint.",
                   (int)constraint->field.length, constraint->field.bytes);
    if (!answer_grammar_can(ask->model.answer, !is_required) && is_required)
        FAIL_PARAM(STATUS_UNSUPPORTED, "tool_choice",
                   "Unsupported value: 'tool_choice' must be 'auto' or 'none' for this model.");
    ask->tools.is_free = tools->choice != ASK_TOOLS_NONE && !constraint->is_set &&
                         !answer_grammar_can(ask->model.answer, !is_required);
    if (constraint->is_set || !answer_grammar_can(ask->model.answer, !is_required))
        return STATUS_OK;
    buffer_init(&source, LINES_BYTES_MAX);
    enum status status = constraint_source(tools, &source);
    if (status == STATUS_OK)
        status = ask_block_copy(buffer_slice(&source), &ask->blocks, &constraint->source);
    buffer_deinit(&source);
    constraint->is_set = status == STATUS_OK;
    constraint->is_calls = true;
    constraint->field = SLICE("tools");
    return status;
}

static enum status names_make(struct ask_tools *tools)
{
    buffer_init(&tools->names, LIMIT_TOOLS * (LIMIT_TOOL_NAME_BYTES + 1));
    for (size_t i = 0; i < tools->count; i++) {
        buffer_append_slice(&tools->names, ask_tools_name(tools, i));
        buffer_append_char(&tools->names, '\n');
    }
    return tools->names.status;
}

static enum status check_foreign(struct ask *ask)
{
    const struct ask_tools *tools = &ask->tools;
    struct engine_inputs *inputs = &ask->engine.inputs;
    if (tools->count == 0)
        return STATUS_OK;
    inputs->is_single_call = tools->is_single;
    TRY(ask_block_json(tools->list, &ask->blocks, &inputs->tools));
    if (tools->choice_json == NULL)
        return STATUS_OK;
    return ask_block_json(tools->choice_json, &ask->blocks, &inputs->tool_choice);
}

enum status ask_tools_check(struct ask *ask)
{
    struct ask_tools *tools = &ask->tools;
    const struct answer_model *model = ask->model.answer;
    TRY(choice_check(tools));
    if (ask->model.is_foreign)
        return check_foreign(ask);
    /* Behind reasoning that the prompt has opened a constraint holds; else from the first token on,
     * and then the answer has no reasoning. */
    ask->is_constrained = ask->engine.constraint.is_set && tools->count == 0;
    ask->is_split = tools->count > 0 ||
                    (model->has_reasoning && !(ask->is_constrained && ask->engine.shows_control));
    if (ask->is_split && ask->engine.shows_control)
        FAIL_PARAM(STATUS_INVALID, "skip_special_tokens",
                   "Invalid 'skip_special_tokens': control tokens cannot be shown beside calls of "
                   "tools or reasoning.");
    ask->engine.wants_marks = ask->is_split;
    if (tools->count > 0) {
        TRY(lines_make(tools));
        TRY(names_make(tools));
        TRY(constraint_make(ask));
    }
    if (ask_generic_is_needed(ask))
        return ask_generic_apply(ask);
    return tools->count == 0 ? STATUS_OK
                             : ask_block_json(tools->list, &ask->blocks, &ask->engine.inputs.tools);
}
