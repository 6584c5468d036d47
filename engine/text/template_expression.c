#include "engine/text/template_expression.h"

#include <stdlib.h>

#include "engine/text/template_filter.h"
#include "engine/text/template_method.h"
#include "engine/text/template_test.h"

enum { EXPRESSION_NONE = UINT32_MAX };

static enum status parse_unary(struct template_compile *compile, bool has_filters);

static enum status expression_enter(struct template_compile *compile)
{
    if (compile->depth == LIMIT_TEMPLATE_DEPTH)
        FAIL(STATUS_LIMIT, "line %u: an expression is nested deeper than %d", compile->token.line,
             LIMIT_TEMPLATE_DEPTH);
    compile->depth++;
    return STATUS_OK;
}

/* --- literals --- */

static enum status parse_string(struct template_compile *compile)
{
    struct buffer *literals = &compile->program->literals;
    size_t offset = literals->length;
    while (compile->token.kind == CHAT_TEMPLATE_LEXER_STRING) { /* those side by side are one */
        TRY(chat_template_lexer_unescape(&compile->token, literals));
        TRY(template_compile_next(compile));
    }
    TRY(literals->status);
    return template_compile_emit(compile, CHAT_TEMPLATE_CODE_STRING, (uint32_t)offset,
                                 (uint32_t)(literals->length - offset));
}

/* Emits a number of 64 bits. */
static enum status emit_wide(struct template_compile *compile, uint32_t kind, uint64_t bits)
{
    return template_compile_emit(compile, kind, (uint32_t)bits, (uint32_t)(bits >> 32));
}

static enum status parse_number(struct template_compile *compile)
{
    char digits[40];
    size_t length = 0;
    struct slice text = compile->token.text;
    bool is_float = compile->token.kind == CHAT_TEMPLATE_LEXER_FLOAT;
    for (size_t i = 0; i < text.length && length < sizeof digits - 1; i++) {
        if (text.bytes[i] != '_')
            digits[length++] = text.bytes[i];
    }
    digits[length] = '\0';
    bool is_plain = strspn(digits, is_float ? "0123456789.eE+-" : "0123456789") == length;
    if (text.length >= sizeof digits || !is_plain || (!is_float && length > 18))
        TEMPLATE_REFUSE(compile, "number", text);
    if (is_float) {
        double number = strtod(digits, NULL);
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        TRY(emit_wide(compile, CHAT_TEMPLATE_CODE_FLOAT, bits));
    } else {
        TRY(emit_wide(compile, CHAT_TEMPLATE_CODE_INTEGER, (uint64_t)strtoll(digits, NULL, 10)));
    }
    return template_compile_next(compile);
}

static enum status parse_name(struct template_compile *compile)
{
    static const struct {
        const char *word;
        uint32_t kind;
        uint32_t value;
    } constants[] = {
        {"true", CHAT_TEMPLATE_CODE_BOOL, 1},  {"True", CHAT_TEMPLATE_CODE_BOOL, 1},
        {"false", CHAT_TEMPLATE_CODE_BOOL, 0}, {"False", CHAT_TEMPLATE_CODE_BOOL, 0},
        {"none", CHAT_TEMPLATE_CODE_NONE, 0},  {"None", CHAT_TEMPLATE_CODE_NONE, 0},
    };
    struct slice name;
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (template_compile_at_name(compile, constants[i].word)) {
            TRY(template_compile_emit(compile, constants[i].kind, constants[i].value, 0));
            return template_compile_next(compile);
        }
    }
    TRY(template_compile_take_name(compile, &name));
    return template_compile_load(compile, name);
}

/* Elements up to the closing bracket; returns how many, and whether a comma ended the last one. */
static enum status parse_elements(struct template_compile *compile, const char *close,
                                  uint32_t *count, bool *has_comma)
{
    *count = 0;
    *has_comma = false;
    while (!template_compile_at(compile, close)) {
        if (*count > 0 && !*has_comma)
            TEMPLATE_WRONG(compile, "a comma is missing before", compile->token.text);
        TRY(template_expression_parse(compile, true));
        ++*count;
        TRY(template_compile_accept(compile, ",", has_comma));
    }
    return template_compile_next(compile);
}

static enum status parse_dict(struct template_compile *compile)
{
    uint32_t count = 0;
    bool has_comma = true;
    TRY(template_compile_next(compile));
    while (!template_compile_at(compile, "}")) {
        if (!has_comma)
            TEMPLATE_WRONG(compile, "a comma is missing before", compile->token.text);
        TRY(template_expression_parse(compile, true));
        TRY(template_compile_expect(compile, ":"));
        TRY(template_expression_parse(compile, true));
        count++;
        TRY(template_compile_accept(compile, ",", &has_comma));
    }
    TRY(template_compile_next(compile));
    return template_compile_emit(compile, CHAT_TEMPLATE_CODE_DICT, count, 0);
}

static enum status parse_primary(struct template_compile *compile)
{
    uint32_t count;
    bool has_comma;
    switch (compile->token.kind) {
    case CHAT_TEMPLATE_LEXER_NAME:
        return parse_name(compile);
    case CHAT_TEMPLATE_LEXER_STRING:
        return parse_string(compile);
    case CHAT_TEMPLATE_LEXER_INTEGER:
    case CHAT_TEMPLATE_LEXER_FLOAT:
        return parse_number(compile);
    default:
        break;
    }
    if (template_compile_at(compile, "(")) {
        TRY(template_compile_next(compile));
        TRY(parse_elements(compile, ")", &count, &has_comma));
        if (count == 1 && !has_comma)
            return STATUS_OK;
        return template_compile_emit(compile, CHAT_TEMPLATE_CODE_TUPLE, count, 0);
    }
    if (template_compile_at(compile, "[")) {
        TRY(template_compile_next(compile));
        TRY(parse_elements(compile, "]", &count, &has_comma));
        return template_compile_emit(compile, CHAT_TEMPLATE_CODE_LIST, count, 0);
    }
    if (template_compile_at(compile, "{"))
        return parse_dict(compile);
    TEMPLATE_WRONG(compile, "a value is missing before", compile->token.text);
}

/* --- what follows a value: parts, calls, filters, tests --- */

/* Whether "name =" comes next: a named argument. */
static enum status call_is_named(struct template_compile *compile, bool *is_named)
{
    *is_named = false;
    if (compile->token.kind != CHAT_TEMPLATE_LEXER_NAME)
        return STATUS_OK;
    struct chat_template_lexer lexer = compile->lexer;
    struct chat_template_lexer_token token = compile->token;
    TRY(template_compile_next(compile));
    *is_named = template_compile_at(compile, "=");
    compile->lexer = lexer;
    compile->token = token;
    return STATUS_OK;
}

/* Arguments with their brackets; `*packed` says how many. */
static enum status parse_arguments(struct template_compile *compile, uint32_t *packed)
{
    uint32_t by_place = 0;
    uint32_t named = 0;
    bool has_comma = true;
    TRY(template_compile_expect(compile, "("));
    while (!template_compile_at(compile, ")")) {
        bool is_named;
        if (!has_comma)
            TEMPLATE_WRONG(compile, "a comma is missing before", compile->token.text);
        if (template_compile_at(compile, "*") || template_compile_at(compile, "**"))
            TEMPLATE_REFUSE(compile, "a list of arguments after", compile->token.text);
        TRY(call_is_named(compile, &is_named));
        if (is_named) {
            TRY(template_compile_emit_text(compile, CHAT_TEMPLATE_CODE_STRING,
                                           compile->token.text));
            TRY(template_compile_next(compile));
            TRY(template_compile_next(compile));
            named++;
        } else if (named > 0) {
            TEMPLATE_WRONG(compile, "an argument without a name stands behind a named one",
                           TEMPLATE_NO_NAME);
        } else {
            by_place++;
        }
        if (by_place + named > LIMIT_TEMPLATE_DEPTH)
            FAIL(STATUS_LIMIT, "line %u: a call has more than %d arguments", compile->token.line,
                 LIMIT_TEMPLATE_DEPTH);
        TRY(template_expression_parse(compile, true));
        TRY(template_compile_accept(compile, ",", &has_comma));
    }
    *packed = by_place | named << CHAT_TEMPLATE_CODE_NAMED;
    return template_compile_next(compile);
}

static enum status parse_call(struct template_compile *compile)
{
    uint32_t packed;
    TRY(parse_arguments(compile, &packed));
    return template_compile_emit(compile, CHAT_TEMPLATE_CODE_CALL, 0, packed);
}

static enum status parse_attribute(struct template_compile *compile)
{
    struct slice name = compile->token.text;
    if (compile->token.kind == CHAT_TEMPLATE_LEXER_INTEGER) {
        TRY(parse_number(compile));
        return template_compile_emit(compile, CHAT_TEMPLATE_CODE_ITEM, 0, 0);
    }
    if (compile->token.kind != CHAT_TEMPLATE_LEXER_NAME)
        TEMPLATE_WRONG(compile, "a name is missing before", name);
    if (name.length >= 2 && name.bytes[0] == '_' && name.bytes[1] == '_')
        TEMPLATE_REFUSE(compile, "attribute", name);
    TRY(template_compile_emit_text(compile, CHAT_TEMPLATE_CODE_ATTRIBUTE, name));
    TRY(template_compile_next(compile));
    if (template_compile_at(compile, "(") && !template_method_is_known(name))
        TEMPLATE_REFUSE(compile, "method", name);
    return STATUS_OK;
}

/* x[i], or a slice with up to three parts. */
static enum status parse_item(struct template_compile *compile)
{
    uint32_t parts = 0;
    bool is_slice = false;
    for (uint32_t i = 0; i < 3 && !template_compile_at(compile, "]"); i++) {
        bool has_colon;
        if (!template_compile_at(compile, ":")) {
            TRY(template_expression_parse(compile, true));
            parts |= 1u << i;
        }
        if (i == 2)
            break;
        TRY(template_compile_accept(compile, ":", &has_colon));
        if (!has_colon)
            break;
        is_slice = true;
    }
    if (template_compile_at(compile, ","))
        TEMPLATE_REFUSE(compile, "an index of several values", TEMPLATE_NO_NAME);
    TRY(template_compile_expect(compile, "]"));
    if (is_slice)
        return template_compile_emit(compile, CHAT_TEMPLATE_CODE_SLICE, parts, 0);
    if (parts == 0)
        TEMPLATE_WRONG(compile, "an index is missing", TEMPLATE_NO_NAME);
    return template_compile_emit(compile, CHAT_TEMPLATE_CODE_ITEM, 0, 0);
}

static enum status parse_postfix(struct template_compile *compile)
{
    for (;;) {
        bool is_there;
        TRY(template_compile_accept(compile, ".", &is_there));
        if (is_there) {
            TRY(parse_attribute(compile));
            continue;
        }
        TRY(template_compile_accept(compile, "[", &is_there));
        if (is_there) {
            TRY(parse_item(compile));
            continue;
        }
        if (!template_compile_at(compile, "("))
            return STATUS_OK;
        TRY(parse_call(compile));
    }
}

static enum status parse_filter(struct template_compile *compile)
{
    uint32_t packed = 0;
    struct slice name = compile->token.text;
    if (compile->token.kind != CHAT_TEMPLATE_LEXER_NAME)
        TEMPLATE_WRONG(compile, "a filter is missing before", name);
    uint32_t filter = template_filter_find(name);
    if (filter == TEMPLATE_FILTER_NONE)
        TEMPLATE_REFUSE(compile, "filter", name);
    TRY(template_compile_next(compile));
    if (template_compile_at(compile, "("))
        TRY(parse_arguments(compile, &packed));
    return template_compile_emit(compile, CHAT_TEMPLATE_CODE_FILTER, filter, packed);
}

/* Whether a value comes next that is a test's argument without brackets. */
static bool test_has_argument(const struct template_compile *compile)
{
    switch (compile->token.kind) {
    case CHAT_TEMPLATE_LEXER_NAME:
        return !template_compile_at_name(compile, "else") &&
               !template_compile_at_name(compile, "or") &&
               !template_compile_at_name(compile, "and") &&
               !template_compile_at_name(compile, "is") && !template_compile_at_name(compile, "if");
    case CHAT_TEMPLATE_LEXER_STRING:
    case CHAT_TEMPLATE_LEXER_INTEGER:
    case CHAT_TEMPLATE_LEXER_FLOAT:
        return true;
    default:
        return template_compile_at(compile, "[") || template_compile_at(compile, "{");
    }
}

static enum status parse_test(struct template_compile *compile)
{
    uint32_t packed = 0;
    bool is_negated = template_compile_at_name(compile, "not");
    if (is_negated)
        TRY(template_compile_next(compile));
    struct slice name = compile->token.text;
    if (compile->token.kind != CHAT_TEMPLATE_LEXER_NAME)
        TEMPLATE_WRONG(compile, "a test is missing before", name);
    uint32_t test = template_test_find(name);
    if (test == TEMPLATE_TEST_NONE)
        TEMPLATE_REFUSE(compile, "test", name);
    TRY(template_compile_next(compile));
    if (template_compile_at(compile, "(")) {
        TRY(parse_arguments(compile, &packed));
    } else if (test_has_argument(compile)) {
        packed = 1;
        TRY(parse_primary(compile));
        TRY(parse_postfix(compile));
    }
    TRY(template_compile_emit(compile, CHAT_TEMPLATE_CODE_TEST, test, packed));
    return is_negated ? template_compile_emit(compile, CHAT_TEMPLATE_CODE_NOT, 0, 0) : STATUS_OK;
}

enum status template_expression_filters(struct template_compile *compile, bool is_open)
{
    if (is_open)
        TRY(parse_filter(compile));
    for (;;) {
        bool is_there;
        TRY(template_compile_accept(compile, "|", &is_there));
        if (is_there) {
            TRY(parse_filter(compile));
        } else if (template_compile_at_name(compile, "is")) {
            TRY(template_compile_next(compile));
            TRY(parse_test(compile));
        } else if (template_compile_at(compile, "(")) {
            TRY(parse_call(compile));
        } else {
            return STATUS_OK;
        }
    }
}

/* --- operators, tightest first --- */

static enum status parse_sign(struct template_compile *compile, uint32_t kind)
{
    TRY(expression_enter(compile));
    TRY(template_compile_next(compile));
    TRY(parse_unary(compile, false));
    compile->depth--;
    return template_compile_emit(compile, kind, 0, 0);
}

static enum status parse_unary(struct template_compile *compile, bool has_filters)
{
    if (template_compile_at(compile, "-"))
        TRY(parse_sign(compile, CHAT_TEMPLATE_CODE_NEGATE));
    else if (template_compile_at(compile, "+"))
        TRY(parse_sign(compile, CHAT_TEMPLATE_CODE_PLUS));
    else
        TRY(parse_primary(compile));
    TRY(parse_postfix(compile));
    return has_filters ? template_expression_filters(compile, false) : STATUS_OK;
}

struct operator
{
    const char *text;
    uint32_t kind;
};

/* Levels of operators that associate to the left: the loosest first. */
enum { LEVEL_SUM, LEVEL_CONCAT, LEVEL_PRODUCT, LEVEL_POWER, LEVEL_UNARY };
static const struct operator OPERATORS[LEVEL_UNARY][5] = {
    [LEVEL_SUM] = {{"+", CHAT_TEMPLATE_CODE_ADD}, {"-", CHAT_TEMPLATE_CODE_SUBTRACT}},
    [LEVEL_CONCAT] = {{"~", CHAT_TEMPLATE_CODE_CONCAT}},
    [LEVEL_PRODUCT] = {{"*", CHAT_TEMPLATE_CODE_MULTIPLY},
                       {"/", CHAT_TEMPLATE_CODE_DIVIDE},
                       {"//", CHAT_TEMPLATE_CODE_FLOOR},
                       {"%", CHAT_TEMPLATE_CODE_MODULO}},
    [LEVEL_POWER] = {{"**", CHAT_TEMPLATE_CODE_POWER}},
};

static uint32_t level_operator(const struct template_compile *compile, const struct operator* table)
{
    for (size_t i = 0; table[i].text != NULL; i++) {
        if (template_compile_at(compile, table[i].text))
            return table[i].kind;
    }
    return EXPRESSION_NONE;
}

/* Recurses once for each level. */
static enum status parse_level(struct template_compile *compile, int level)
{
    if (level == LEVEL_UNARY)
        return parse_unary(compile, true);
    TRY(parse_level(compile, level + 1));
    for (;;) {
        uint32_t kind = level_operator(compile, OPERATORS[level]);
        if (kind == EXPRESSION_NONE)
            return STATUS_OK;
        TRY(template_compile_next(compile));
        TRY(parse_level(compile, level + 1));
        TRY(template_compile_emit(compile, kind, 0, 0));
    }
}

/* Takes a comparison if one comes next. */
static enum status compare_operator(struct template_compile *compile, uint32_t *kind)
{
    static const struct operator table[] = {
        {"==", CHAT_TEMPLATE_CODE_EQUAL},
        {"!=", CHAT_TEMPLATE_CODE_NOT_EQUAL},
        {"<", CHAT_TEMPLATE_CODE_LESS},
        {"<=", CHAT_TEMPLATE_CODE_LESS_EQUAL},
        {">", CHAT_TEMPLATE_CODE_GREATER},
        {">=", CHAT_TEMPLATE_CODE_GREATER_EQUAL},
        {NULL, 0},
    };
    *kind = level_operator(compile, table);
    if (*kind != EXPRESSION_NONE)
        return template_compile_next(compile);
    if (template_compile_at_name(compile, "in")) {
        *kind = CHAT_TEMPLATE_CODE_IN;
        return template_compile_next(compile);
    }
    if (!template_compile_at_name(compile, "not"))
        return STATUS_OK;
    TRY(template_compile_next(compile));
    *kind = CHAT_TEMPLATE_CODE_NOT_IN;
    return template_compile_expect_name(compile, "in");
}

/* a < b < c compares b with c only when a < b; each value is found once. */
static enum status parse_compare(struct template_compile *compile)
{
    struct chat_template_program *program = compile->program;
    uint32_t chain = EXPRESSION_NONE; /* the last jump to the end; they are linked through .a */
    uint32_t kind;
    TRY(parse_level(compile, LEVEL_SUM));
    TRY(compare_operator(compile, &kind));
    while (kind != EXPRESSION_NONE) {
        uint32_t next;
        TRY(parse_level(compile, LEVEL_SUM));
        TRY(compare_operator(compile, &next));
        if (next == EXPRESSION_NONE) {
            TRY(template_compile_emit(compile, kind, 0, 0));
        } else {
            uint32_t jump = program->count;
            TRY(template_compile_emit(compile, CHAT_TEMPLATE_CODE_CHAIN, chain, kind));
            chain = jump;
        }
        kind = next;
    }
    while (chain != EXPRESSION_NONE) {
        uint32_t before = program->code[chain].a;
        template_compile_patch(compile, chain);
        chain = before;
    }
    return STATUS_OK;
}

static enum status parse_not(struct template_compile *compile)
{
    uint32_t count = 0;
    while (template_compile_at_name(compile, "not")) {
        TRY(template_compile_next(compile));
        count++;
    }
    TRY(parse_compare(compile));
    for (; count > 0; count--)
        TRY(template_compile_emit(compile, CHAT_TEMPLATE_CODE_NOT, 0, 0));
    return STATUS_OK;
}

static enum status parse_and(struct template_compile *compile)
{
    TRY(parse_not(compile));
    while (template_compile_at_name(compile, "and")) {
        uint32_t jump = compile->program->count;
        TRY(template_compile_emit(compile, CHAT_TEMPLATE_CODE_JUMP_FALSE_KEEP, 0, 0));
        TRY(template_compile_next(compile));
        TRY(parse_not(compile));
        template_compile_patch(compile, jump);
    }
    return STATUS_OK;
}

static enum status parse_or(struct template_compile *compile)
{
    TRY(parse_and(compile));
    while (template_compile_at_name(compile, "or")) {
        uint32_t jump = compile->program->count;
        TRY(template_compile_emit(compile, CHAT_TEMPLATE_CODE_JUMP_TRUE_KEEP, 0, 0));
        TRY(template_compile_next(compile));
        TRY(parse_and(compile));
        template_compile_patch(compile, jump);
    }
    return STATUS_OK;
}

/* Behind a value whose instructions begin at `begin`: "if b else c". The value is computed only if
 * b is true, so its instructions go behind those of b:
 *
 *     b · JUMP_FALSE else · a · JUMP end · else: c · end:
 */
static enum status parse_if(struct template_compile *compile, uint32_t begin)
{
    struct chat_template_program *program = compile->program;
    uint32_t middle = program->count;
    TRY(template_compile_next(compile));
    TRY(parse_or(compile));
    uint32_t jump_else = program->count - (middle - begin);
    TRY(template_compile_emit(compile, CHAT_TEMPLATE_CODE_JUMP_FALSE, 0, 0));
    TRY(template_compile_rotate(compile, begin, middle));
    uint32_t jump_end = program->count;
    TRY(template_compile_emit(compile, CHAT_TEMPLATE_CODE_JUMP, 0, 0));
    template_compile_patch(compile, jump_else);
    if (template_compile_at_name(compile, "else")) {
        TRY(template_compile_next(compile));
        TRY(template_expression_parse(compile, true));
    } else {
        TRY(template_compile_emit(compile, CHAT_TEMPLATE_CODE_UNDEFINED, 0, 0));
    }
    template_compile_patch(compile, jump_end);
    return STATUS_OK;
}

enum status template_expression_parse(struct template_compile *compile, bool has_if)
{
    uint32_t begin = compile->program->count;
    TRY(expression_enter(compile));
    TRY(parse_or(compile));
    while (has_if && template_compile_at_name(compile, "if"))
        TRY(parse_if(compile, begin));
    compile->depth--;
    return STATUS_OK;
}

enum status template_expression_list(struct template_compile *compile, bool has_if)
{
    uint32_t count = 1;
    bool has_comma;
    TRY(template_expression_parse(compile, has_if));
    if (!template_compile_at(compile, ","))
        return STATUS_OK;
    TRY(template_compile_accept(compile, ",", &has_comma));
    while (has_comma && compile->token.kind != CHAT_TEMPLATE_LEXER_PRINT_END &&
           compile->token.kind != CHAT_TEMPLATE_LEXER_BLOCK_END) {
        TRY(template_expression_parse(compile, has_if));
        count++;
        TRY(template_compile_accept(compile, ",", &has_comma));
    }
    return template_compile_emit(compile, CHAT_TEMPLATE_CODE_TUPLE, count, 0);
}
