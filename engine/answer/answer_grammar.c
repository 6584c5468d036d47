#include "engine/answer/answer_grammar.h"

#include <stdio.h>
#include <string.h>

#include "config/base/limits_tools.h"
#include "engine/answer/answer_values.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/regex.h"

/* Blanks and line ends that a model may write between the parts of a call, at one place. */
enum { BLANKS_MAX = 4, TOOLS_MAX = LIMIT_TOOLS };

bool answer_grammar_can(const struct answer_model *model, bool has_text)
{
    static const enum answer_mark marks[] = {ANSWER_START,   ANSWER_CHANNEL, ANSWER_CONSTRAIN,
                                             ANSWER_MESSAGE, ANSWER_END,     ANSWER_CALL_CLOSE};
    bool can = !has_text || model->format->marks[ANSWER_GROUP_OPEN] == NULL;
    /* Between messages there is nothing but their marks, so they must be control tokens. */
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        can =
            can && (model->format->body != ANSWER_HARMONY || model->tokens[marks[i]] != VOCAB_NONE);
    return can;
}

/* --- the source: lines of numbers, and after each its texts --- */

void answer_grammar_begin(struct buffer *source, enum answer_choice choice, bool is_single)
{
    buffer_printf(source, "%d %d\n", (int)choice, (int)is_single);
}

void answer_grammar_tool(struct buffer *source, uint32_t index, struct slice name, bool is_strict,
                         struct slice schema)
{
    buffer_printf(source, "%u %d %zu %zu\n", index, (int)is_strict, name.length, schema.length);
    buffer_append_slice(source, name);
    buffer_append_slice(source, schema);
}

struct tool {
    uint32_t index;
    bool is_strict;
    struct slice name;
    struct slice schema;
};

struct calls {
    const struct answer_model *model;
    enum answer_choice choice;
    bool is_single;
    uint64_t free[GRAMMAR_NOTES]; /* bit i: arguments of tool i do not follow their schema */
    uint32_t count;
    struct tool tools[TOOLS_MAX];
    struct grammar_builder *builder;
    struct regex_pool *pool;
    regex_node_id blanks;
    regex_node_id any; /* any characters */
};

/* Reads a line of up to four numbers; false when the source is broken. */
static bool source_line(struct slice *source, size_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        numbers[i] = 0;
        while (source->length > 0 && source->bytes[0] >= '0' && source->bytes[0] <= '9') {
            numbers[i] = numbers[i] * 10 + (size_t)(source->bytes[0] - '0');
            *source = (struct slice){source->bytes + 1, source->length - 1};
        }
        if (source->length == 0)
            return false;
        *source = (struct slice){source->bytes + 1, source->length - 1};
    }
    return true;
}

static struct slice source_text(struct slice *source, size_t length)
{
    const struct slice text = {source->bytes, length};
    *source = (struct slice){source->bytes + length, source->length - length};
    return text;
}

static bool source_read(struct calls *calls, struct slice source)
{
    size_t numbers[4];
    if (!source_line(&source, numbers, 2) || numbers[0] > ANSWER_CHOICE_REQUIRED)
        return false;
    calls->choice = (enum answer_choice)numbers[0];
    calls->is_single = numbers[1] != 0;
    while (source.length > 0) {
        if (calls->count == TOOLS_MAX || !source_line(&source, numbers, 4) ||
            numbers[2] > source.length || numbers[3] > source.length - numbers[2])
            return false;
        struct tool *tool = &calls->tools[calls->count++];
        tool->index = (uint32_t)numbers[0];
        tool->is_strict = numbers[1] != 0;
        tool->name = source_text(&source, numbers[2]);
        tool->schema = source_text(&source, numbers[3]);
    }
    return true;
}

/* --- small regexes --- */

static regex_node_id text_of(struct calls *calls, const char *text)
{
    return regex_text(calls->pool, slice_of(text));
}

/* Joins texts with blanks between them: each NULL in the list stands for the name. */
static regex_node_id head_of(struct calls *calls, struct slice name, const char *const *parts,
                             size_t count)
{
    regex_node_id head = REGEX_EMPTY;
    for (size_t i = 0; i < count; i++) {
        regex_node_id part =
            parts[i] != NULL ? text_of(calls, parts[i]) : regex_text(calls->pool, name);
        head = regex_cat(calls->pool, head, part);
        /* A name stands in its quotes without blanks. */
        bool is_inside = parts[i] == NULL || (i + 1 < count && parts[i + 1] == NULL);
        if (!is_inside && i + 1 < count)
            head = regex_cat(calls->pool, head, calls->blanks);
    }
    return head;
}

static bool mark_is_token(const struct calls *calls, enum answer_mark mark)
{
    return calls->model->tokens[mark] != VOCAB_NONE;
}

/* A mark, with what is written around it if it is text. */
static grammar_symbol mark_of(struct calls *calls, enum answer_mark mark)
{
    if (mark_is_token(calls, mark))
        return grammar_token(calls->builder, calls->model->tokens[mark]);
    return grammar_text(calls->builder, slice_of(calls->model->format->marks[mark]));
}

static grammar_symbol lexeme(struct calls *calls, regex_node_id regex)
{
    return grammar_lexeme(calls->builder, regex, GRAMMAR_GREEDY);
}

static grammar_symbol row(struct calls *calls, grammar_symbol a, grammar_symbol b, grammar_symbol c)
{
    const grammar_symbol symbols[] = {a, b, c};
    return grammar_sequence(calls->builder, symbols, 3);
}

/* --- arguments --- */

static void arguments_are_free(struct calls *calls, const struct tool *tool)
{
    _Static_assert(TOOLS_MAX <= 64 * GRAMMAR_NOTES, "a bit for each tool");
    calls->free[tool->index / 64 % GRAMMAR_NOTES] |= UINT64_C(1) << tool->index % 64;
}

/* In formats that do not write them as one JSON object. */
static enum status values_of(struct calls *calls, const struct tool *tool,
                             const struct constraint_options *options, grammar_symbol *out,
                             struct constraint_error *error)
{
    const struct answer_values values = {.builder = calls->builder,
                                         .options = options,
                                         .blanks = calls->blanks,
                                         .quote_token = calls->model->tokens[ANSWER_QUOTE],
                                         .quote_text = calls->model->format->marks[ANSWER_QUOTE]};
    struct slice schema = tool->schema;
    enum status status = STATUS_INVALID;
    for (int i = 0; i < 2 && status == STATUS_INVALID; i++) {
        status = calls->model->format->body == ANSWER_XML
                     ? answer_values_xml(&values, schema, out, error)
                     : answer_values_gemma(&values, schema, out, error);
        if (tool->is_strict)
            break;
        schema = (struct slice){0}; /* as for other formats, a schema without values is none */
        if (status == STATUS_INVALID && i == 0)
            arguments_are_free(calls, tool);
    }
    return status;
}

static enum status arguments_of(struct calls *calls, const struct tool *tool,
                                const struct constraint_options *options, grammar_symbol *out,
                                struct constraint_error *error)
{
    struct constraint_options own = *options;
    struct constraint_error wrong = {0};
    own.strict = tool->is_strict;
    own.disable_additional_properties = true;
    enum status status = STATUS_UNSUPPORTED;
    const enum answer_body body = calls->model->format->body;
    if (body == ANSWER_XML || body == ANSWER_GEMMA)
        status = values_of(calls, tool, &own, out, &wrong);
    else if (tool->schema.length > 0)
        status = constraint_build(CONSTRAINT_JSON_SCHEMA, tool->schema, &own, calls->builder, out,
                                  &wrong);
    const bool is_free = (status == STATUS_UNSUPPORTED || status == STATUS_INVALID) &&
                         body != ANSWER_XML && body != ANSWER_GEMMA;
    if (is_free && !tool->is_strict && tool->schema.length > 0)
        arguments_are_free(calls, tool);
    if (is_free && (!tool->is_strict || tool->schema.length == 0))
        status = constraint_build(CONSTRAINT_JSON_OBJECT, (struct slice){0}, &own, calls->builder,
                                  out, &wrong);
    if (status != STATUS_OK) {
        *error = wrong;
        snprintf(error->path, sizeof error->path, "[%u].function.parameters%.180s", tool->index,
                 wrong.path);
    }
    return status;
}

/* --- one call --- */

/* {"name": "f", "arguments": …} */
static grammar_symbol object_of(struct calls *calls, const struct tool *tool,
                                grammar_symbol arguments, regex_node_id before, regex_node_id after)
{
    const bool is_bare = calls->model->format->body == ANSWER_BARE;
    const char *const parts[] = {
        "{", "\"name\"", ":", "\"", NULL, "\"", ",", is_bare ? "\"parameters\"" : "\"arguments\"",
        ":", ""};
    regex_node_id head = regex_cat(
        calls->pool, before, head_of(calls, tool->name, parts, sizeof parts / sizeof parts[0]));
    regex_node_id tail =
        regex_cat(calls->pool, calls->blanks, regex_cat(calls->pool, text_of(calls, "}"), after));
    return row(calls, lexeme(calls, head), arguments, lexeme(calls, tail));
}

/* `before` the name, the name and `after` it, arguments, `end`, and the closing mark. */
static grammar_symbol tagged_of(struct calls *calls, const struct tool *tool, const char *before,
                                const char *after, grammar_symbol arguments, const char *end)
{
    regex_node_id head = regex_cat(
        calls->pool, text_of(calls, before),
        regex_cat(calls->pool, regex_text(calls->pool, tool->name), text_of(calls, after)));
    if (end[0] == '\0') { /* the arguments have their own end */
        const grammar_symbol symbols[] = {lexeme(calls, head), arguments,
                                          mark_of(calls, ANSWER_CALL_CLOSE)};
        return grammar_sequence(calls->builder, symbols, 3);
    }
    regex_node_id tail = regex_cat(calls->pool, calls->blanks,
                                   regex_cat(calls->pool, text_of(calls, end), calls->blanks));
    head = regex_cat(calls->pool, calls->blanks, head);
    if (!mark_is_token(calls, ANSWER_CALL_CLOSE)) {
        tail = regex_cat(calls->pool, tail,
                         text_of(calls, calls->model->format->marks[ANSWER_CALL_CLOSE]));
        return row(calls, lexeme(calls, head), arguments, lexeme(calls, tail));
    }
    const grammar_symbol symbols[] = {lexeme(calls, head), arguments, lexeme(calls, tail),
                                      mark_of(calls, ANSWER_CALL_CLOSE)};
    return grammar_sequence(calls->builder, symbols, 4);
}

/* A message to a function, from its channel's mark to the end of its text. The name stands behind
 * the channel or before it. */
static grammar_symbol message_of(struct calls *calls, const struct tool *tool,
                                 grammar_symbol arguments)
{
    regex_node_id name = regex_cat(calls->pool, text_of(calls, "to=functions."),
                                   regex_text(calls->pool, tool->name));
    regex_node_id json = regex_repeat(calls->pool, text_of(calls, " json"), 0, 1);
    regex_node_id blank = regex_repeat(calls->pool, text_of(calls, " "), 0, 1);
    regex_node_id behind =
        regex_cat(calls->pool, text_of(calls, "commentary "),
                  regex_cat(calls->pool, name, regex_or(calls->pool, json, blank)));
    regex_node_id alone =
        regex_cat(calls->pool, text_of(calls, "commentary"), regex_or(calls->pool, json, blank));
    grammar_symbol channel = mark_of(calls, ANSWER_CHANNEL);
    const grammar_symbol heads[] = {
        row(calls, grammar_sequence(calls->builder, NULL, 0), channel, lexeme(calls, behind)),
        row(calls, lexeme(calls, regex_cat(calls->pool, text_of(calls, " "), name)), channel,
            lexeme(calls, alone))};
    const grammar_symbol type[] = {mark_of(calls, ANSWER_CONSTRAIN),
                                   grammar_text(calls->builder, SLICE("json"))};
    const grammar_symbol symbols[] = {
        grammar_either(calls->builder, heads, 2),
        grammar_optional(calls->builder, grammar_sequence(calls->builder, type, 2)),
        mark_of(calls, ANSWER_MESSAGE), arguments};
    return grammar_sequence(calls->builder, symbols, 4);
}

/* The body of a call behind its mark, up to its end. */
static grammar_symbol body_of(struct calls *calls, const struct tool *tool,
                              grammar_symbol arguments)
{
    const struct answer_format *format = calls->model->format;
    const char *close = format->marks[ANSWER_CALL_CLOSE];
    if (format->body == ANSWER_HARMONY)
        return message_of(calls, tool, arguments);
    if (format->body == ANSWER_XML)
        return tagged_of(calls, tool, "<function=", ">", arguments, "</function>");
    if (format->body == ANSWER_GEMMA)
        return tagged_of(calls, tool, "call:", "{", arguments, "");
    if (format->body != ANSWER_NAMED) {
        regex_node_id after = REGEX_EMPTY;
        bool is_text = close != NULL && !mark_is_token(calls, ANSWER_CALL_CLOSE);
        if (is_text)
            after = regex_cat(calls->pool, calls->blanks, text_of(calls, close));
        grammar_symbol body = object_of(calls, tool, arguments, calls->blanks, after);
        if (close == NULL || is_text)
            return body;
        const grammar_symbol closed[] = {body, mark_of(calls, ANSWER_CALL_CLOSE)};
        return grammar_sequence(calls->builder, closed, 2);
    }
    grammar_symbol name = grammar_text(calls->builder, tool->name);
    if (close == NULL) /* name, separator, arguments */
        return row(calls, name, mark_of(calls, ANSWER_SEPARATOR), arguments);
    regex_node_id fence =
        regex_cat(calls->pool, regex_text(calls->pool, tool->name), text_of(calls, "\n```json\n"));
    const grammar_symbol symbols[] = {grammar_text(calls->builder, SLICE("function")),
                                      mark_of(calls, ANSWER_SEPARATOR),
                                      lexeme(calls, fence),
                                      arguments,
                                      grammar_text(calls->builder, SLICE("\n```")),
                                      mark_of(calls, ANSWER_CALL_CLOSE)};
    return grammar_sequence(calls->builder, symbols, sizeof symbols / sizeof symbols[0]);
}

/* --- answers --- */

/* The rules that answers are made of. */
struct parts {
    grammar_symbol body;     /* of any tool, behind the mark */
    grammar_symbol unmarked; /* a call without a mark, or GRAMMAR_NOTHING */
};

static enum status parts_make(struct calls *calls, const struct constraint_options *options,
                              struct parts *out, struct constraint_error *error)
{
    const enum answer_body body = calls->model->format->body;
    const bool has_unmarked = body == ANSWER_OBJECT || body == ANSWER_BARE;
    out->body = grammar_rule(calls->builder);
    out->unmarked = has_unmarked ? grammar_rule(calls->builder) : GRAMMAR_NOTHING;
    for (uint32_t i = 0; i < calls->count; i++) {
        grammar_symbol arguments;
        TRY(arguments_of(calls, &calls->tools[i], options, &arguments, error));
        grammar_symbol one = body_of(calls, &calls->tools[i], arguments);
        grammar_rule_add(calls->builder, out->body, &one, 1);
        if (has_unmarked) {
            one = object_of(calls, &calls->tools[i], arguments, calls->blanks, REGEX_EMPTY);
            grammar_rule_add(calls->builder, out->unmarked, &one, 1);
        }
    }
    return STATUS_OK;
}

/* Text without the mark of a call, and that does not begin like a call without a mark. */
static regex_node_id free_text(struct calls *calls, regex_node_id regex)
{
    struct regex_pool *pool = calls->pool;
    const enum answer_body body = calls->model->format->body;
    bool may_be_unmarked = body == ANSWER_OBJECT || body == ANSWER_BARE;
    if (!may_be_unmarked || calls->choice == ANSWER_CHOICE_NONE)
        return regex;
    static const struct regex_range blank[] = {
        {' ', ' '}, {'\n', '\n'}, {'\r', '\r'}, {'\t', '\t'}};
    regex_node_id blanks = regex_repeat(pool, regex_chars(pool, blank, 4), 0, REGEX_UNBOUNDED);
    regex_node_id start = regex_cat(pool, regex_cat(pool, blanks, text_of(calls, "{")),
                                    regex_cat(pool, blanks, text_of(calls, "\"name\"")));
    return regex_and(pool, regex, regex_not(pool, regex_cat(pool, start, REGEX_ALL)));
}

/* `regex` without texts that hold the mark of a call. */
static regex_node_id without_mark(struct calls *calls, regex_node_id regex)
{
    struct regex_pool *pool = calls->pool;
    if (mark_is_token(calls, ANSWER_CALL_OPEN))
        return regex;
    regex_node_id mark = text_of(calls, calls->model->format->marks[ANSWER_CALL_OPEN]);
    regex_node_id with = regex_cat(pool, REGEX_ALL, regex_cat(pool, mark, REGEX_ALL));
    return regex_and(pool, regex, regex_not(pool, with));
}

static grammar_symbol text_without_mark(struct calls *calls)
{
    return lexeme(calls, free_text(calls, without_mark(calls, calls->any)));
}

/* A call of a list: text up to its mark if `has_text`, then the body. */
static grammar_symbol marked_call(struct calls *calls, const struct parts *parts, bool has_text)
{
    const struct answer_format *format = calls->model->format;
    const bool is_array = format->body == ANSWER_ARRAY;
    grammar_symbol body = parts->body;
    if (is_array) { /* [ {…}, {…} ] */
        grammar_symbol open = grammar_text(calls->builder, SLICE("["));
        grammar_symbol close = grammar_text(calls->builder, SLICE("]"));
        grammar_symbol comma =
            lexeme(calls, regex_cat(calls->pool, calls->blanks, text_of(calls, ",")));
        grammar_symbol more = grammar_rule(calls->builder);
        const grammar_symbol longer[] = {more, comma, parts->body};
        grammar_rule_add(calls->builder, more, &parts->body, 1);
        if (!calls->is_single)
            grammar_rule_add(calls->builder, more, longer, 3);
        body = row(calls, open, more, close);
    }
    grammar_symbol mark = mark_of(calls, ANSWER_CALL_OPEN);
    if (mark_is_token(calls, ANSWER_CALL_OPEN)) {
        grammar_symbol before = grammar_rule(calls->builder);
        if (has_text)
            before = grammar_optional(calls->builder, text_without_mark(calls));
        else
            grammar_rule_add(calls->builder, before, NULL, 0);
        return row(calls, before, mark, body);
    }
    regex_node_id opening = text_of(calls, format->marks[ANSWER_CALL_OPEN]);
    regex_node_id led = regex_cat(calls->pool, has_text ? calls->any : calls->blanks, opening);
    if (has_text)
        led = free_text(calls, led);
    const grammar_symbol symbols[] = {
        grammar_lexeme(calls->builder, led, has_text ? GRAMMAR_LAZY : GRAMMAR_GREEDY), body};
    return grammar_sequence(calls->builder, symbols, 2);
}

/* Around all calls of an answer. */
static grammar_symbol grouped(struct calls *calls, grammar_symbol list)
{
    if (calls->model->format->marks[ANSWER_GROUP_OPEN] == NULL)
        return list;
    return row(calls, mark_of(calls, ANSWER_GROUP_OPEN), list, mark_of(calls, ANSWER_GROUP_CLOSE));
}

/* One call, or a list of them. */
static grammar_symbol calls_list(struct calls *calls, grammar_symbol first, grammar_symbol next)
{
    grammar_symbol list = grammar_rule(calls->builder);
    const grammar_symbol longer[] = {list, next};
    grammar_rule_add(calls->builder, list, &first, 1);
    if (!calls->is_single && calls->model->format->body != ANSWER_ARRAY)
        grammar_rule_add(calls->builder, list, longer, 2);
    return list;
}

/* Reasoning that comes first. Where the prompt has opened it, the engine has given the mark to the
 * grammar's runs. */
static grammar_symbol behind_reasoning(struct calls *calls, grammar_symbol answer)
{
    if (!calls->model->has_reasoning)
        return answer;
    regex_node_id close = REGEX_EMPTY;
    regex_node_id open = REGEX_EMPTY;
    if (!mark_is_token(calls, ANSWER_REASON_OPEN))
        open = regex_cat(calls->pool, calls->blanks,
                         text_of(calls, calls->model->format->marks[ANSWER_REASON_OPEN]));
    if (!mark_is_token(calls, ANSWER_REASON_CLOSE))
        close = text_of(calls, calls->model->format->marks[ANSWER_REASON_CLOSE]);
    grammar_symbol text =
        close == REGEX_EMPTY
            ? grammar_optional(calls->builder, lexeme(calls, calls->any))
            : grammar_lexeme(calls->builder,
                             without_mark(calls, regex_cat(calls->pool, calls->any, close)),
                             GRAMMAR_LAZY);
    const grammar_symbol reasoning[] = {
        open == REGEX_EMPTY ? mark_of(calls, ANSWER_REASON_OPEN) : lexeme(calls, open), text,
        close == REGEX_EMPTY ? mark_of(calls, ANSWER_REASON_CLOSE)
                             : grammar_sequence(calls->builder, NULL, 0)};
    const grammar_symbol symbols[] = {
        grammar_optional(calls->builder, grammar_sequence(calls->builder, reasoning, 3)), answer};
    return grammar_sequence(calls->builder, symbols, 2);
}

/* Beside text, reasoning needs rules of its own only where its marks are control tokens. */
static grammar_symbol behind_token_reasoning(struct calls *calls, grammar_symbol answer)
{
    return mark_is_token(calls, ANSWER_REASON_CLOSE) ? behind_reasoning(calls, answer) : answer;
}

/* --- answers that are messages --- */

/* A message of a channel that holds text, without the mark of its end. */
static grammar_symbol text_message(struct calls *calls, regex_node_id channels)
{
    grammar_symbol text = grammar_optional(calls->builder, lexeme(calls, calls->any));
    const grammar_symbol symbols[] = {mark_of(calls, ANSWER_CHANNEL), lexeme(calls, channels),
                                      mark_of(calls, ANSWER_MESSAGE), text};
    return grammar_sequence(calls->builder, symbols, 4);
}

/* `end` of one message, and the start of the next. */
static grammar_symbol next_message(struct calls *calls, enum answer_mark end)
{
    return row(calls, mark_of(calls, end), mark_of(calls, ANSWER_START),
               grammar_text(calls->builder, SLICE("assistant")));
}

/* Messages before the last one are reasoning or, where text may come, comments. The last one is the
 * final message, or calls; the end token may stand in the place of its mark. */
static grammar_symbol messages_of(struct calls *calls, grammar_symbol call)
{
    const bool has_text = calls->choice != ANSWER_CHOICE_REQUIRED;
    regex_node_id channels = text_of(calls, "analysis");
    if (has_text)
        channels = regex_or(calls->pool, channels, text_of(calls, "commentary"));
    grammar_symbol early = grammar_rule(calls->builder);
    const grammar_symbol more[] = {early, text_message(calls, channels),
                                   next_message(calls, ANSWER_END)};
    grammar_rule_add(calls->builder, early, NULL, 0);
    grammar_rule_add(calls->builder, early, more, 3);
    grammar_symbol last = grammar_rule(calls->builder);
    if (has_text) {
        grammar_symbol final[] = {text_message(calls, text_of(calls, "final")),
                                  grammar_optional(calls->builder, mark_of(calls, ANSWER_END))};
        grammar_rule_add(calls->builder, last, final, 2);
    }
    if (call != GRAMMAR_NOTHING) {
        grammar_symbol list = grammar_rule(calls->builder);
        const grammar_symbol longer[] = {list, next_message(calls, ANSWER_CALL_CLOSE), call};
        grammar_rule_add(calls->builder, list, &call, 1);
        if (!calls->is_single)
            grammar_rule_add(calls->builder, list, longer, 3);
        const grammar_symbol ended[] = {
            list, grammar_optional(calls->builder, mark_of(calls, ANSWER_CALL_CLOSE))};
        grammar_rule_add(calls->builder, last, ended, 2);
    }
    const grammar_symbol all[] = {early, last};
    return grammar_sequence(calls->builder, all, 2);
}

static enum status answer_rules(struct calls *calls, const struct constraint_options *options,
                                grammar_symbol *out, struct constraint_error *error)
{
    const bool is_bare = calls->model->format->body == ANSWER_BARE;
    const bool is_harmony = calls->model->format->body == ANSWER_HARMONY;
    struct parts parts = {GRAMMAR_NOTHING, GRAMMAR_NOTHING};
    if (calls->choice == ANSWER_CHOICE_NONE && is_harmony) {
        *out = messages_of(calls, GRAMMAR_NOTHING);
        return STATUS_OK;
    }
    if (calls->choice == ANSWER_CHOICE_NONE) {
        *out = behind_token_reasoning(calls,
                                      grammar_optional(calls->builder, text_without_mark(calls)));
        return STATUS_OK;
    }
    TRY(parts_make(calls, options, &parts, error));
    if (is_harmony) {
        *out = messages_of(calls, parts.body);
        return STATUS_OK;
    }
    if (calls->choice == ANSWER_CHOICE_REQUIRED) {
        grammar_symbol call = is_bare ? parts.unmarked : marked_call(calls, &parts, false);
        *out = behind_reasoning(calls, grouped(calls, calls_list(calls, call, call)));
        return STATUS_OK;
    }
    grammar_symbol call = grammar_rule(calls->builder);
    grammar_symbol marked = marked_call(calls, &parts, true);
    grammar_rule_add(calls->builder, call, &marked, 1);
    if (parts.unmarked != GRAMMAR_NOTHING)
        grammar_rule_add(calls->builder, call, &parts.unmarked, 1);
    grammar_symbol list = grammar_optional(calls->builder, calls_list(calls, call, call));
    const grammar_symbol symbols[] = {list,
                                      grammar_optional(calls->builder, text_without_mark(calls))};
    *out = behind_token_reasoning(calls, grammar_sequence(calls->builder, symbols, 2));
    return STATUS_OK;
}

enum status answer_grammar_compile(const struct answer_model *model, struct slice source,
                                   const struct constraint_options *options,
                                   struct grammar_fuel *fuel, struct grammar **out,
                                   struct constraint_error *error)
{
    static const struct regex_range blank[] = {{' ', ' '}, {'\n', '\n'}};
    static const struct regex_range all[] = {{0, 0x10ffff}};
    struct calls calls = {.model = model};
    struct byte_set missing;
    grammar_symbol start = GRAMMAR_NOTHING;
    *out = NULL;
    *error = (struct constraint_error){0};
    ASSERT(answer_grammar_can(model, false));
    if (!source_read(&calls, source))
        FAIL(STATUS_INVALID, "the source of calls is broken");
    TRY(grammar_builder_new(fuel, &calls.builder));
    calls.pool = grammar_builder_regexes(calls.builder);
    memcpy(missing.words, options->missing_bytes, sizeof missing.words);
    regex_pool_cut(calls.pool, &missing);
    calls.blanks = regex_repeat(calls.pool, regex_chars(calls.pool, blank, 2), 0, BLANKS_MAX);
    calls.any = regex_repeat(calls.pool, regex_chars(calls.pool, all, 1), 0, REGEX_UNBOUNDED);
    enum status status = answer_rules(&calls, options, &start, error);
    if (status == STATUS_OK) {
        status = grammar_finish(calls.builder, start, out);
        if (status != STATUS_OK)
            snprintf(error->message, sizeof error->message, "%s",
                     status == STATUS_INVALID ? "No call can match."
                                              : "The tools are too complex.");
        else
            grammar_note(*out, calls.free);
    }
    grammar_builder_free(calls.builder);
    return status;
}
