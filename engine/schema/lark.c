#include "engine/schema/lark.h"

#include <stdlib.h>

#include "config/base/limits_grammar.h"
#include "config/base/mem.h"
#include "engine/grammar/regex_parse.h"
#include "engine/schema/schema_compile.h"

enum progress { NOT_BEGUN, BEGUN, DONE };

/* What a name became. */
struct meaning {
    enum progress progress; /* of the regex of a terminal */
    regex_node_id regex;
    grammar_symbol symbol; /* GRAMMAR_NOTHING: not made yet */
};

struct lark {
    struct grammar_builder *builder;
    struct regex_pool *regexes;
    const struct constraint_options *options;
    struct lark_error *error;
    struct lark_read read;
    struct meaning *meanings; /* of each definition */
    uint32_t *by_name;        /* definitions, sorted */
    grammar_symbol *stack;    /* parts of the nodes that are being made */
    uint32_t stack_count;
    uint32_t depth;
    grammar_symbol ignored; /* optional; GRAMMAR_NOTHING: nothing is ignored */
};

#define REFUSE(lark, line, status, keyword, ...)                                                   \
    return lark_read_fail((lark)->error, (status), (line), (keyword), __VA_ARGS__)

static int quoted(struct slice text)
{
    return (int)(text.length < 64 ? text.length : 64);
}

/* The builder's first failure, with its sentence. */
static enum status check(struct lark *lark, uint32_t line)
{
    enum status status = grammar_builder_status(lark->builder);
    if (status == STATUS_OK)
        return STATUS_OK;
    REFUSE(lark, line, status, "", "The grammar is too complex: %s.", status_note()->message);
}

/* --- names --- */

static int compare(struct slice a, struct slice b)
{
    size_t length = a.length < b.length ? a.length : b.length;
    int order = length != 0 ? memcmp(a.bytes, b.bytes, length) : 0;
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_names(const void *left, const void *right, void *definitions)
{
    const struct lark_definition *all = definitions;
    return compare(all[*(const uint32_t *)left].name, all[*(const uint32_t *)right].name);
}

static uint32_t find_name(const struct lark *lark, struct slice name)
{
    uint32_t low = 0;
    uint32_t high = lark->read.definition_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t at = lark->by_name[middle];
        int order = compare(lark->read.definitions[at].name, name);
        if (order == 0)
            return at;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return LARK_NONE;
}

static enum status sort_names(struct lark *lark)
{
    struct lark_read *read = &lark->read;
    for (uint32_t i = 0; i < read->definition_count; i++)
        lark->by_name[i] = i;
    qsort_r(lark->by_name, read->definition_count, sizeof *lark->by_name, compare_names,
            read->definitions);
    for (uint32_t i = 1; i < read->definition_count; i++) {
        const struct lark_definition *a = &read->definitions[lark->by_name[i - 1]];
        const struct lark_definition *b = &read->definitions[lark->by_name[i]];
        if (slice_equals(a->name, b->name))
            REFUSE(lark, a->line > b->line ? a->line : b->line, STATUS_INVALID, "",
                   "\"%.*s\" is defined twice.", quoted(a->name), a->name.bytes);
    }
    return STATUS_OK;
}

/* --- regexes of terminals --- */

static enum status make_regex(struct lark *lark, uint32_t node, regex_node_id *out);

static enum status parse_regex(struct lark *lark, struct slice source, uint32_t flags,
                               uint32_t line, regex_node_id *out)
{
    struct regex_error error;
    enum status status = regex_parse_flags(lark->regexes, source, REGEX_WHOLE, flags, out, &error);
    if (status != STATUS_OK)
        REFUSE(lark, line, status, "/", "The regex: %s", error.message);
    return STATUS_OK;
}

static enum status make_common(struct lark *lark, const struct lark_definition *definition,
                               regex_node_id *out)
{
    static const struct {
        const char *name;
        const char *regex;
    } common[] = {
#define LARK_COMMON(name, regex) {name, regex},
#include "engine/schema/lark_common.def"
#undef LARK_COMMON
    };
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (slice_is(definition->imported, common[i].name))
            return parse_regex(lark, slice_of(common[i].regex), 0, definition->line, out);
    REFUSE(lark, definition->line, STATUS_UNSUPPORTED, "%import", "common has no \"%.*s\".",
           quoted(definition->imported), definition->imported.bytes);
}

/* The regex of a definition, made once. */
static enum status make_terminal(struct lark *lark, uint32_t at, uint32_t line, regex_node_id *out)
{
    const struct lark_definition *definition = &lark->read.definitions[at];
    struct meaning *meaning = &lark->meanings[at];
    if (!definition->is_terminal)
        REFUSE(lark, line, STATUS_INVALID, "", "A terminal uses the rule \"%.*s\".",
               quoted(definition->name), definition->name.bytes);
    if (meaning->progress == BEGUN)
        REFUSE(lark, line, STATUS_INVALID, "", "The terminal \"%.*s\" refers to itself.",
               quoted(definition->name), definition->name.bytes);
    if (meaning->progress == NOT_BEGUN) {
        meaning->progress = BEGUN;
        if (definition->node == LARK_NONE)
            TRY(make_common(lark, definition, &meaning->regex));
        else
            TRY(make_regex(lark, definition->node, &meaning->regex));
        meaning->progress = DONE;
    }
    *out = meaning->regex;
    return STATUS_OK;
}

/* A text in which letters of ASCII have either case. */
static regex_node_id any_case_text(struct lark *lark, struct slice text)
{
    regex_node_id all = REGEX_EMPTY;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.bytes[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        char other = is_letter ? (char)(c ^ 0x20) : c;
        regex_node_id one =
            regex_or(lark->regexes, regex_text(lark->regexes, (struct slice){&c, 1}),
                     regex_text(lark->regexes, (struct slice){&other, 1}));
        all = regex_cat(lark->regexes, all, one);
    }
    return all;
}

static enum status find_terminal(struct lark *lark, const struct lark_node *node,
                                 regex_node_id *out)
{
    uint32_t at = find_name(lark, node->text);
    if (at == LARK_NONE)
        REFUSE(lark, node->line, STATUS_INVALID, "", "\"%.*s\" is not defined.", quoted(node->text),
               node->text.bytes);
    return make_terminal(lark, at, node->line, out);
}

/* Of a node with parts. */
static enum status make_parts(struct lark *lark, const struct lark_node *node, regex_node_id *out)
{
    bool is_sequence = node->kind == LARK_SEQUENCE;
    *out = is_sequence ? REGEX_EMPTY : REGEX_NONE;
    for (uint32_t part = node->first; part != LARK_NONE; part = lark->read.nodes[part].next) {
        regex_node_id regex;
        TRY(make_regex(lark, part, &regex));
        *out = is_sequence ? regex_cat(lark->regexes, *out, regex)
                           : regex_or(lark->regexes, *out, regex);
    }
    return STATUS_OK;
}

static enum status make_regex_of(struct lark *lark, const struct lark_node *node,
                                 regex_node_id *out)
{
    switch (node->kind) {
    case LARK_TEXT:
        *out = node->any_case ? any_case_text(lark, node->text)
                              : regex_text(lark->regexes, node->text);
        return STATUS_OK;
    case LARK_RANGE: {
        struct regex_range range = {node->min, node->max};
        *out = regex_chars(lark->regexes, &range, 1);
        return STATUS_OK;
    }
    case LARK_REGEX:
        return parse_regex(lark, node->text,
                           (node->any_case ? REGEX_IGNORE_CASE : 0) |
                               (node->dot_all ? REGEX_DOT_ALL : 0),
                           node->line, out);
    case LARK_NAME:
        return find_terminal(lark, node, out);
    case LARK_CONTROL:
        REFUSE(lark, node->line, STATUS_INVALID, "<", "A terminal has a control token.");
    case LARK_JSON:
        REFUSE(lark, node->line, STATUS_INVALID, "%json", "A terminal has a schema.");
    case LARK_EITHER:
    case LARK_SEQUENCE:
        return make_parts(lark, node, out);
    case LARK_REPEAT: {
        regex_node_id part;
        TRY(make_regex(lark, node->first, &part));
        *out = regex_repeat(lark->regexes, part, node->min,
                            node->max == LARK_NONE ? REGEX_UNBOUNDED : node->max);
        return STATUS_OK;
    }
    }
    return STATUS_INVALID;
}

static enum status make_regex(struct lark *lark, uint32_t node, regex_node_id *out)
{
    const struct lark_node *of = &lark->read.nodes[node];
    if (lark->depth == LIMIT_LARK_TERMINALS)
        REFUSE(lark, of->line, STATUS_LIMIT, "", "Terminals refer to each other %d deep.",
               LIMIT_LARK_TERMINALS);
    lark->depth++;
    enum status status = make_regex_of(lark, of, out);
    lark->depth--;
    return status == STATUS_OK ? check(lark, of->line) : status;
}

/* --- rules --- */

static enum status make_symbol(struct lark *lark, uint32_t node, grammar_symbol *out);

/* A lexeme, and behind it what is ignored. */
static grammar_symbol make_lexeme(struct lark *lark, regex_node_id regex)
{
    grammar_symbol both[2] = {grammar_lexeme(lark->builder, regex, GRAMMAR_GREEDY), lark->ignored};
    return grammar_sequence(lark->builder, both, lark->ignored != GRAMMAR_NOTHING ? 2 : 1);
}

static enum status make_name(struct lark *lark, const struct lark_node *node, grammar_symbol *out)
{
    uint32_t at = find_name(lark, node->text);
    if (at == LARK_NONE)
        REFUSE(lark, node->line, STATUS_INVALID, "", "\"%.*s\" is not defined.", quoted(node->text),
               node->text.bytes);
    struct meaning *meaning = &lark->meanings[at];
    if (lark->read.definitions[at].is_terminal && meaning->symbol == GRAMMAR_NOTHING) {
        regex_node_id regex;
        TRY(make_terminal(lark, at, node->line, &regex));
        meaning->symbol = make_lexeme(lark, regex);
    }
    *out = meaning->symbol;
    return STATUS_OK;
}

static enum status make_control(struct lark *lark, const struct lark_node *node,
                                grammar_symbol *out)
{
    const struct lark_tokens *tokens = lark->options->tokens;
    uint32_t token;
    if (tokens == NULL || !tokens->find(tokens->context, node->text, &token))
        REFUSE(lark, node->line, STATUS_INVALID, "<", "The model has no control token \"%.*s\".",
               quoted(node->text), node->text.bytes);
    *out = grammar_token(lark->builder, token);
    return STATUS_OK;
}

/* Values under a schema, and behind them what is ignored. */
static enum status make_json(struct lark *lark, const struct lark_node *node, grammar_symbol *out)
{
    struct constraint_error wrong;
    grammar_symbol both[2] = {GRAMMAR_NOTHING, lark->ignored};
    enum status status = schema_compile(lark->builder, node->text, lark->options, &both[0], &wrong);
    if (status != STATUS_OK)
        REFUSE(lark, node->line, status, "%json", "The schema at \"%.80s\": %s", wrong.path,
               wrong.message);
    *out = grammar_sequence(lark->builder, both, lark->ignored != GRAMMAR_NOTHING ? 2 : 1);
    return STATUS_OK;
}

static enum status make_list(struct lark *lark, const struct lark_node *node, grammar_symbol *out)
{
    uint32_t first = lark->stack_count;
    for (uint32_t part = node->first; part != LARK_NONE; part = lark->read.nodes[part].next) {
        grammar_symbol symbol;
        TRY(make_symbol(lark, part, &symbol));
        lark->stack[lark->stack_count++] = symbol;
    }
    uint32_t count = lark->stack_count - first;
    lark->stack_count = first;
    *out = node->kind == LARK_SEQUENCE ? grammar_sequence(lark->builder, lark->stack + first, count)
                                       : grammar_either(lark->builder, lark->stack + first, count);
    return STATUS_OK;
}

/* Recursion is as deep as brackets are nested. */
static enum status make_symbol(struct lark *lark, uint32_t node, grammar_symbol *out)
{
    const struct lark_node *of = &lark->read.nodes[node];
    regex_node_id regex;
    switch (of->kind) {
    case LARK_TEXT:
    case LARK_RANGE:
    case LARK_REGEX:
        TRY(make_regex(lark, node, &regex));
        *out = make_lexeme(lark, regex);
        break;
    case LARK_NAME:
        TRY(make_name(lark, of, out));
        break;
    case LARK_CONTROL:
        TRY(make_control(lark, of, out));
        break;
    case LARK_JSON:
        TRY(make_json(lark, of, out));
        break;
    case LARK_EITHER:
    case LARK_SEQUENCE:
        TRY(make_list(lark, of, out));
        break;
    case LARK_REPEAT:
        TRY(make_symbol(lark, of->first, out));
        *out = grammar_repeat(lark->builder, *out, of->min,
                              of->max == LARK_NONE ? GRAMMAR_UNBOUNDED : of->max);
        break;
    }
    return check(lark, of->line);
}

/* One lexeme for all that is ignored, so that it is bounded however it is repeated. */
static enum status make_ignored(struct lark *lark)
{
    regex_node_id any = REGEX_NONE;
    if (lark->read.ignored_count == 0)
        return STATUS_OK;
    for (uint32_t i = 0; i < lark->read.ignored_count; i++) {
        regex_node_id regex;
        TRY(make_regex(lark, lark->read.ignored[i], &regex));
        any = regex_or(lark->regexes, any, regex);
    }
    struct byte_set bytes;
    memset(&bytes, 0xff, sizeof bytes);
    regex_node_id bounded =
        regex_repeat(lark->regexes, regex_bytes(lark->regexes, &bytes), 1, LIMIT_LARK_IGNORED);
    regex_node_id many = regex_repeat(lark->regexes, any, 1, REGEX_UNBOUNDED);
    grammar_symbol lexeme =
        grammar_lexeme(lark->builder, regex_and(lark->regexes, many, bounded), GRAMMAR_GREEDY);
    lark->ignored = grammar_optional(lark->builder, lexeme);
    return check(lark, 0);
}

static enum status build(struct lark *lark, grammar_symbol *start)
{
    struct lark_read *read = &lark->read;
    TRY(sort_names(lark));
    uint32_t first = find_name(lark, SLICE("start"));
    if (first == LARK_NONE)
        REFUSE(lark, 0, STATUS_INVALID, "", "The grammar has no rule \"start\".");
    TRY(make_ignored(lark));
    for (uint32_t i = 0; i < read->definition_count; i++)
        if (!read->definitions[i].is_terminal)
            lark->meanings[i].symbol = grammar_rule(lark->builder);
    for (uint32_t i = 0; i < read->definition_count; i++) {
        const struct lark_definition *definition = &read->definitions[i];
        regex_node_id regex;
        grammar_symbol symbol;
        if (definition->is_terminal) {
            TRY(make_terminal(lark, i, definition->line, &regex));
        } else {
            TRY(make_symbol(lark, definition->node, &symbol));
            grammar_rule_add(lark->builder, lark->meanings[i].symbol, &symbol, 1);
        }
    }
    *start = lark->meanings[first].symbol;
    return check(lark, 0);
}

enum status lark_build(struct grammar_builder *builder, struct slice source,
                       const struct constraint_options *options, grammar_symbol *start,
                       struct lark_error *error)
{
    struct lark lark = {.builder = builder,
                        .regexes = grammar_builder_regexes(builder),
                        .options = options,
                        .error = error};
    *start = GRAMMAR_NOTHING;
    TRY(lark_read(&lark.read, source, error));
    size_t definitions = lark.read.definition_count;
    lark.meanings = mem_zalloc(definitions + 1, sizeof *lark.meanings);
    lark.by_name = mem_zalloc(definitions + 1, sizeof *lark.by_name);
    lark.stack = mem_zalloc(lark.read.node_count + (size_t)1, sizeof *lark.stack);
    enum status status = STATUS_OK;
    if (lark.meanings == NULL || lark.by_name == NULL || lark.stack == NULL)
        status =
            lark_read_fail(error, STATUS_NO_MEMORY, 0, "", "There is no memory for the grammar.");
    else
        status = build(&lark, start);
    mem_free(lark.meanings);
    mem_free(lark.by_name);
    mem_free(lark.stack);
    lark_read_free(&lark.read);
    return status;
}
