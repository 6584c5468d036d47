#include "engine/text/chat_template_parser.h"

#include "config/base/mem.h"
#include "engine/text/chat_template_lexer.h"

enum { PARSER_NONE = UINT32_MAX };

/* An operator or bracket that waits for its right operand or its closing bracket. */
struct parser_operator {
    uint32_t kind;       /* the kind of its instruction, or PARSER_* when it has none */
    uint32_t precedence; /* 0 for brackets, which only the closing bracket pops */
    uint32_t line;
    uint32_t patch; /* the jump of `and` and `or` that comes here */
};
enum { PARSER_GROUP = 1000, PARSER_SUBSCRIPT, PARSER_RAISE, PARSER_AND, PARSER_OR };

/* An open statement. */
struct parser_block {
    bool is_for;
    bool has_else;
    uint32_t line;
    uint32_t pending; /* the instruction that jumps past the branch or loop, or PARSER_NONE */
    uint32_t ends;    /* the last of the jumps to the end of an if, which are chained through .a */
};

struct parser {
    struct chat_template_lexer lexer;
    struct chat_template_lexer_token token; /* the next one, not yet consumed */
    struct chat_template_program *program;
    struct slice names[LIMIT_TEMPLATE_NAMES];
    struct parser_operator operators[LIMIT_TEMPLATE_DEPTH];
    uint32_t operator_count;
    struct parser_block blocks[LIMIT_TEMPLATE_DEPTH];
    uint32_t block_count;
    uint32_t loop_count;
    bool can_subscript; /* the operand just read is a name or part of one */
};

#define PARSER_REFUSE(parser, ...)                                                                 \
    return parser_refuse((parser), STATUS_UNSUPPORTED, __VA_ARGS__, " is not supported")
#define PARSER_WRONG(parser, ...) return parser_refuse((parser), STATUS_CORRUPT, __VA_ARGS__, "")

/* Fails with a message such as "line 3: filter 'tojson' is not supported". */
static enum status parser_refuse(const struct parser *parser, enum status status, const char *what,
                                 struct slice name, const char *end)
{
    int length = (int)(name.length < 64 ? name.length : 64);
    if (length == 0)
        return status_fail(status, __FILE__, __LINE__, NULL, "line %u: %s%s", parser->token.line,
                           what, end);
    return status_fail(status, __FILE__, __LINE__, NULL, "line %u: %s '%.*s'%s", parser->token.line,
                       what, length, name.bytes, end);
}

static const struct slice PARSER_NO_NAME = {NULL, 0};

/* --- tokens and instructions --- */

static enum status parser_next(struct parser *parser)
{
    return chat_template_lexer_next(&parser->lexer, &parser->token);
}

static bool parser_at_name(const struct parser *parser, const char *name)
{
    return parser->token.kind == CHAT_TEMPLATE_LEXER_NAME && slice_is(parser->token.text, name);
}

static bool parser_at_operator(const struct parser *parser, const char *text)
{
    return parser->token.kind == CHAT_TEMPLATE_LEXER_OPERATOR && slice_is(parser->token.text, text);
}

static enum status parser_expect_end(struct parser *parser, enum chat_template_lexer_kind end)
{
    if (parser->token.kind != end)
        PARSER_WRONG(parser, "the tag should end before", parser->token.text);
    return parser_next(parser);
}

static enum status parser_emit(struct parser *parser, uint32_t kind, uint32_t a, uint32_t b)
{
    struct chat_template_program *program = parser->program;
    if (program->count == program->capacity) {
        if (program->count == LIMIT_TEMPLATE_NODES)
            FAIL(STATUS_LIMIT, "line %u: the template is longer than %d instructions",
                 parser->token.line, LIMIT_TEMPLATE_NODES);
        uint32_t capacity = program->capacity == 0 ? 64 : program->capacity * 2;
        struct chat_template_code *code = mem_realloc(program->code, capacity * sizeof(*code));
        if (code == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for the chat template");
        program->code = code;
        program->capacity = capacity;
    }
    program->code[program->count++] = (struct chat_template_code){kind, parser->token.line, a, b};
    return STATUS_OK;
}

/* Emits the literal whose bytes are in program->literals from `offset` on. */
static enum status parser_emit_literal(struct parser *parser, uint32_t kind, size_t offset)
{
    const struct buffer *literals = &parser->program->literals;
    TRY(literals->status);
    return parser_emit(parser, kind, (uint32_t)offset, (uint32_t)(literals->length - offset));
}

static void parser_patch(struct parser *parser, uint32_t jump)
{
    parser->program->code[jump].a = parser->program->count;
}

/* Returns the number of a variable, a new one if the name is new. Unknown names are undefined at
 * run time. */
static enum status parser_variable(struct parser *parser, struct slice name, uint32_t *out)
{
    uint32_t *count = &parser->program->name_count;
    for (uint32_t i = 0; i < *count; i++) {
        if (slice_equals(parser->names[i], name)) {
            *out = i;
            return STATUS_OK;
        }
    }
    if (*count == LIMIT_TEMPLATE_NAMES)
        FAIL(STATUS_LIMIT, "line %u: more than %d variables", parser->token.line,
             LIMIT_TEMPLATE_NAMES);
    parser->names[*count] = name;
    *out = (*count)++;
    return STATUS_OK;
}

/* --- expressions --- */

struct parser_word {
    const char *text;
    uint32_t value;
    uint32_t precedence;
};

/* Jinja's precedence, loosest first: or, and, not, comparisons, + and -, ~, %. */
enum { PARSER_PRECEDENCE_NOT = 3, PARSER_PRECEDENCE_COMPARE = 4 };
static const struct parser_word PARSER_BINARY[] = {
    {"or", PARSER_OR, 1},
    {"and", PARSER_AND, 2},
    {"==", CHAT_TEMPLATE_CODE_EQUAL, PARSER_PRECEDENCE_COMPARE},
    {"!=", CHAT_TEMPLATE_CODE_NOT_EQUAL, PARSER_PRECEDENCE_COMPARE},
    {"<", CHAT_TEMPLATE_CODE_LESS, PARSER_PRECEDENCE_COMPARE},
    {"<=", CHAT_TEMPLATE_CODE_LESS_EQUAL, PARSER_PRECEDENCE_COMPARE},
    {">", CHAT_TEMPLATE_CODE_GREATER, PARSER_PRECEDENCE_COMPARE},
    {">=", CHAT_TEMPLATE_CODE_GREATER_EQUAL, PARSER_PRECEDENCE_COMPARE},
    {"in", CHAT_TEMPLATE_CODE_IN, PARSER_PRECEDENCE_COMPARE},
    {"+", CHAT_TEMPLATE_CODE_ADD, 5},
    {"-", CHAT_TEMPLATE_CODE_SUBTRACT, 5},
    {"~", CHAT_TEMPLATE_CODE_JOIN, 6},
    {"%", CHAT_TEMPLATE_CODE_MODULO, 7},
};
static const struct parser_word PARSER_LOOP[] = {
    {"index", CHAT_TEMPLATE_CODE_LOOP_INDEX, 0},   {"index0", CHAT_TEMPLATE_CODE_LOOP_INDEX0, 0},
    {"first", CHAT_TEMPLATE_CODE_LOOP_FIRST, 0},   {"last", CHAT_TEMPLATE_CODE_LOOP_LAST, 0},
    {"length", CHAT_TEMPLATE_CODE_LOOP_LENGTH, 0},
};
static const struct parser_word PARSER_TESTS[] = {
    {"defined", CHAT_TEMPLATE_CODE_TEST_DEFINED, 0},
    {"undefined", CHAT_TEMPLATE_CODE_TEST_UNDEFINED, 0},
    {"none", CHAT_TEMPLATE_CODE_TEST_NONE, 0},
    {"string", CHAT_TEMPLATE_CODE_TEST_STRING, 0},
};
static const struct parser_word PARSER_FILTERS[] = {
#define CHAT_FILTER(NAME, name) {#name, CHAT_TEMPLATE_CODE_FILTER_##NAME, 0},
#include "engine/text/chat_filters.def"
#undef CHAT_FILTER
};
/* Keys that a message may have in the public formats. Those that our messages
 * lack are undefined. */
static const struct parser_word PARSER_KEYS[] = {
    {"role", 0, 0},       {"content", 0, 0},      {"name", 0, 0},
    {"tool_calls", 0, 0}, {"tool_call_id", 0, 0}, {"reasoning_content", 0, 0},
};
#define PARSER_WORDS(table) table, sizeof(table) / sizeof((table)[0])

static const struct parser_word *parser_find(struct slice text, const struct parser_word *words,
                                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_is(text, words[i].text))
            return &words[i];
    }
    return NULL;
}

static enum status expression_push(struct parser *parser, uint32_t kind, uint32_t precedence,
                                   uint32_t patch)
{
    if (parser->operator_count == LIMIT_TEMPLATE_DEPTH)
        FAIL(STATUS_LIMIT, "line %u: an expression is nested deeper than %d", parser->token.line,
             LIMIT_TEMPLATE_DEPTH);
    parser->operators[parser->operator_count++] =
        (struct parser_operator){kind, precedence, parser->token.line, patch};
    return STATUS_OK;
}

/* Pops and emits the operators that bind at least as tightly as `precedence`. */
static enum status expression_pop(struct parser *parser, uint32_t precedence)
{
    while (parser->operator_count > 0) {
        struct parser_operator top = parser->operators[parser->operator_count - 1];
        if (top.precedence == 0 || top.precedence < precedence)
            break;
        parser->operator_count--;
        if (top.kind == PARSER_AND || top.kind == PARSER_OR)
            parser_patch(parser, top.patch);
        else
            TRY(parser_emit(parser, top.kind, 0, 0));
    }
    return STATUS_OK;
}

/* Parses `loop` and its attribute. */
static enum status expression_loop(struct parser *parser)
{
    if (parser->loop_count == 0)
        PARSER_WRONG(parser, "'loop' outside of a for", PARSER_NO_NAME);
    TRY(parser_next(parser));
    if (!parser_at_operator(parser, "."))
        PARSER_REFUSE(parser, "'loop' without one of its attributes", PARSER_NO_NAME);
    TRY(parser_next(parser));
    const struct parser_word *word = parser_find(parser->token.text, PARSER_WORDS(PARSER_LOOP));
    if (parser->token.kind != CHAT_TEMPLATE_LEXER_NAME || word == NULL)
        PARSER_REFUSE(parser, "loop attribute", parser->token.text);
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_LOOP, word->value, 0));
    return parser_next(parser);
}

static enum status expression_call(struct parser *parser, struct slice name)
{
    if (!slice_is(name, "raise_exception"))
        PARSER_REFUSE(parser, "function", name);
    TRY(expression_push(parser, PARSER_RAISE, 0, 0));
    return parser_next(parser);
}

static enum status expression_integer(struct parser *parser, bool is_negative)
{
    struct slice text = parser->token.text;
    int32_t value = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.bytes[i];
        if (c < '0' || c > '9' || text.length > 9)
            PARSER_REFUSE(parser, "number", text);
        value = value * 10 + (c - '0');
    }
    value = is_negative ? -value : value;
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_INTEGER, (uint32_t)value, 0));
    return parser_next(parser);
}

/* Parses a name as an operand; `*is_operand` is false when it only opened or negated one. */
static enum status expression_name(struct parser *parser, bool *is_operand)
{
    static const struct parser_word literals[] = {
        {"true", 1, 0}, {"True", 1, 0}, {"false", 0, 0}, {"False", 0, 0}};
    static const struct parser_word reserved[] = {{"and", 0, 0}, {"or", 0, 0},  {"in", 0, 0},
                                                  {"is", 0, 0},  {"if", 0, 0},  {"else", 0, 0},
                                                  {"for", 0, 0}, {"elif", 0, 0}};
    struct slice name = parser->token.text;
    if (slice_is(name, "not")) {
        uint32_t count = parser->operator_count;
        if (count > 0 && parser->operators[count - 1].precedence > PARSER_PRECEDENCE_NOT)
            PARSER_WRONG(parser, "an operand should stand before", name);
        *is_operand = false;
        TRY(expression_push(parser, CHAT_TEMPLATE_CODE_NOT, PARSER_PRECEDENCE_NOT, 0));
        return parser_next(parser);
    }
    if (parser_find(name, PARSER_WORDS(reserved)) != NULL)
        PARSER_WRONG(parser, "an operand should stand before", name);
    const struct parser_word *literal = parser_find(name, PARSER_WORDS(literals));
    if (literal != NULL) {
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_BOOL, literal->value, 0));
        return parser_next(parser);
    }
    if (slice_is(name, "none") || slice_is(name, "None")) {
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_NONE, 0, 0));
        return parser_next(parser);
    }
    if (slice_is(name, "loop"))
        return expression_loop(parser);
    if (name.bytes[0] == '_')
        PARSER_REFUSE(parser, "name", name);
    TRY(parser_next(parser));
    if (parser_at_operator(parser, "(")) {
        *is_operand = false;
        return expression_call(parser, name);
    }
    uint32_t variable;
    TRY(parser_variable(parser, name, &variable));
    parser->can_subscript = true;
    return parser_emit(parser, CHAT_TEMPLATE_CODE_NAME, variable, 0);
}

static enum status expression_operand(struct parser *parser, bool *is_operand)
{
    const struct chat_template_lexer_token *token = &parser->token;
    parser->can_subscript = false;
    *is_operand = true;
    if (token->kind == CHAT_TEMPLATE_LEXER_NAME)
        return expression_name(parser, is_operand);
    if (token->kind == CHAT_TEMPLATE_LEXER_INTEGER)
        return expression_integer(parser, false);
    if (token->kind == CHAT_TEMPLATE_LEXER_STRING) {
        size_t offset = parser->program->literals.length;
        TRY(chat_template_lexer_unescape(token, &parser->program->literals));
        TRY(parser_emit_literal(parser, CHAT_TEMPLATE_CODE_STRING, offset));
        return parser_next(parser);
    }
    if (parser_at_operator(parser, "(")) {
        *is_operand = false;
        TRY(expression_push(parser, PARSER_GROUP, 0, 0));
        return parser_next(parser);
    }
    if (parser_at_operator(parser, "-")) {
        TRY(parser_next(parser));
        if (token->kind != CHAT_TEMPLATE_LEXER_INTEGER)
            PARSER_REFUSE(parser, "a minus sign before anything but a number", PARSER_NO_NAME);
        return expression_integer(parser, true);
    }
    if (parser_at_operator(parser, "["))
        PARSER_REFUSE(parser, "a list literal", PARSER_NO_NAME);
    if (parser_at_operator(parser, "{"))
        PARSER_REFUSE(parser, "a mapping literal", PARSER_NO_NAME);
    if (parser_at_operator(parser, ":"))
        PARSER_REFUSE(parser, "a slice", PARSER_NO_NAME);
    PARSER_WRONG(parser, "an operand is missing before", token->text);
}

/* Attributes and keys come from a fixed list, so only messages have parts that can be read. */
static enum status expression_check_key(struct parser *parser, struct slice key)
{
    if (parser_find(key, PARSER_WORDS(PARSER_KEYS)) == NULL)
        PARSER_REFUSE(parser, "attribute", key);
    return STATUS_OK;
}

static enum status expression_attribute(struct parser *parser)
{
    TRY(parser_next(parser));
    struct slice name = parser->token.text;
    if (parser->token.kind != CHAT_TEMPLATE_LEXER_NAME)
        PARSER_REFUSE(parser, "attribute", name);
    if (!parser->can_subscript)
        PARSER_REFUSE(parser, "an attribute of an expression:", name);
    TRY(expression_check_key(parser, name));
    size_t offset = parser->program->literals.length;
    buffer_append_slice(&parser->program->literals, name);
    TRY(parser_emit_literal(parser, CHAT_TEMPLATE_CODE_STRING, offset));
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_INDEX, 0, 0));
    return parser_next(parser);
}

static enum status expression_subscript(struct parser *parser)
{
    if (!parser->can_subscript)
        PARSER_REFUSE(parser, "a subscript of an expression", PARSER_NO_NAME);
    TRY(expression_push(parser, PARSER_SUBSCRIPT, 0, 0));
    TRY(parser_next(parser));
    if (parser->token.kind == CHAT_TEMPLATE_LEXER_STRING)
        return expression_check_key(parser, parser->token.text);
    return STATUS_OK;
}

/* Parses a closing bracket, which ends a group, a subscript or the one call. */
static enum status expression_close(struct parser *parser)
{
    bool is_square = parser_at_operator(parser, "]");
    TRY(expression_pop(parser, 1));
    uint32_t count = parser->operator_count;
    uint32_t kind = count > 0 ? parser->operators[count - 1].kind : PARSER_NONE;
    if (count == 0 || is_square != (kind == PARSER_SUBSCRIPT))
        PARSER_WRONG(parser, "a bracket that nothing opens:", parser->token.text);
    parser->operator_count--;
    if (kind == PARSER_SUBSCRIPT)
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_INDEX, 0, 0));
    if (kind == PARSER_RAISE)
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_RAISE, 0, 0));
    parser->can_subscript = kind == PARSER_SUBSCRIPT;
    return parser_next(parser);
}

static enum status expression_filter(struct parser *parser)
{
    TRY(parser_next(parser));
    const struct parser_word *word = parser_find(parser->token.text, PARSER_WORDS(PARSER_FILTERS));
    if (parser->token.kind != CHAT_TEMPLATE_LEXER_NAME || word == NULL)
        PARSER_REFUSE(parser, "filter", parser->token.text);
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_FILTER, word->value, 0));
    TRY(parser_next(parser));
    if (parser_at_operator(parser, "("))
        PARSER_REFUSE(parser, "an argument of filter", slice_of(word->text));
    parser->can_subscript = false;
    return STATUS_OK;
}

static enum status expression_test(struct parser *parser)
{
    TRY(parser_next(parser));
    bool is_negated = parser_at_name(parser, "not");
    if (is_negated)
        TRY(parser_next(parser));
    const struct parser_word *word = parser_find(parser->token.text, PARSER_WORDS(PARSER_TESTS));
    if (parser->token.kind != CHAT_TEMPLATE_LEXER_NAME || word == NULL)
        PARSER_REFUSE(parser, "test", parser->token.text);
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_TEST, word->value, is_negated));
    parser->can_subscript = false;
    return parser_next(parser);
}

static enum status expression_binary(struct parser *parser, struct parser_word word)
{
    TRY(expression_pop(parser, word.precedence + (word.precedence == PARSER_PRECEDENCE_COMPARE)));
    uint32_t count = parser->operator_count;
    if (word.precedence == PARSER_PRECEDENCE_COMPARE && count > 0 &&
        parser->operators[count - 1].precedence == PARSER_PRECEDENCE_COMPARE)
        PARSER_REFUSE(parser, "a chain of comparisons", PARSER_NO_NAME);
    uint32_t patch = parser->program->count;
    if (word.value == PARSER_AND)
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_JUMP_FALSE_KEEP, 0, 0));
    if (word.value == PARSER_OR)
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_JUMP_TRUE_KEEP, 0, 0));
    TRY(expression_push(parser, word.value, word.precedence, patch));
    return parser_next(parser);
}

/* Parses what may follow an operand. `*wants_operand` says whether an operand must follow,
 * `*is_done` that the expression ended before the current token. */
static enum status expression_after(struct parser *parser, bool *wants_operand, bool *is_done)
{
    const struct chat_template_lexer_token *token = &parser->token;
    bool is_name = token->kind == CHAT_TEMPLATE_LEXER_NAME;
    *wants_operand = false;
    *is_done = token->kind == CHAT_TEMPLATE_LEXER_PRINT_END ||
               token->kind == CHAT_TEMPLATE_LEXER_BLOCK_END;
    if (*is_done)
        return STATUS_OK;
    if (token->kind != CHAT_TEMPLATE_LEXER_OPERATOR && !is_name)
        PARSER_WRONG(parser, "an operator is missing before", token->text);
    if (parser_at_operator(parser, "."))
        return expression_attribute(parser);
    if (parser_at_operator(parser, "|"))
        return expression_filter(parser);
    if (parser_at_operator(parser, ")") || parser_at_operator(parser, "]"))
        return expression_close(parser);
    if (parser_at_operator(parser, "}"))
        PARSER_WRONG(parser, "a bracket is not closed", PARSER_NO_NAME);
    if (parser_at_name(parser, "is"))
        return expression_test(parser);
    *wants_operand = true;
    if (parser_at_operator(parser, "["))
        return expression_subscript(parser);
    if (parser_at_operator(parser, "("))
        PARSER_REFUSE(parser, "a call", PARSER_NO_NAME);
    if (parser_at_operator(parser, ":"))
        PARSER_REFUSE(parser, "a slice", PARSER_NO_NAME);
    if (parser_at_operator(parser, ","))
        PARSER_REFUSE(parser, "a list of values", PARSER_NO_NAME);
    if (parser_at_name(parser, "if"))
        PARSER_REFUSE(parser, "'if' inside an expression", PARSER_NO_NAME);
    if (parser_at_name(parser, "not")) {
        TRY(parser_next(parser));
        if (!parser_at_name(parser, "in"))
            PARSER_WRONG(parser, "'in' is missing before", token->text);
        return expression_binary(parser, (struct parser_word){"not in", CHAT_TEMPLATE_CODE_NOT_IN,
                                                              PARSER_PRECEDENCE_COMPARE});
    }
    const struct parser_word *word = parser_find(token->text, PARSER_WORDS(PARSER_BINARY));
    if (word == NULL)
        PARSER_REFUSE(parser, is_name ? "after a value, the word" : "operator", token->text);
    return expression_binary(parser, *word);
}

/* Emits instructions that leave the expression's value on the stack. */
static enum status parser_expression(struct parser *parser)
{
    bool wants_operand = true;
    bool is_done = false;
    ASSERT(parser->operator_count == 0);
    while (!is_done) {
        if (wants_operand) {
            bool is_operand;
            TRY(expression_operand(parser, &is_operand));
            wants_operand = !is_operand;
        } else {
            TRY(expression_after(parser, &wants_operand, &is_done));
        }
    }
    TRY(expression_pop(parser, 1));
    if (parser->operator_count > 0)
        PARSER_WRONG(parser, "a bracket is not closed", PARSER_NO_NAME);
    return STATUS_OK;
}

/* --- statements --- */

static enum status statement_open(struct parser *parser, bool is_for, uint32_t pending)
{
    if (parser->block_count == LIMIT_TEMPLATE_DEPTH)
        FAIL(STATUS_LIMIT, "line %u: statements are nested deeper than %d", parser->token.line,
             LIMIT_TEMPLATE_DEPTH);
    parser->blocks[parser->block_count++] = (struct parser_block){
        .is_for = is_for, .line = parser->token.line, .pending = pending, .ends = PARSER_NONE};
    return STATUS_OK;
}

static enum status statement_if(struct parser *parser)
{
    TRY(parser_expression(parser));
    TRY(statement_open(parser, false, parser->program->count));
    return parser_emit(parser, CHAT_TEMPLATE_CODE_JUMP_FALSE, 0, 0);
}

/* Returns the innermost open statement, which must be a for if `is_for`, otherwise an if. */
static enum status statement_current(struct parser *parser, bool is_for, const char *word,
                                     struct parser_block **out)
{
    struct parser_block *block =
        parser->block_count > 0 ? &parser->blocks[parser->block_count - 1] : NULL;
    if (block == NULL || block->is_for != is_for)
        PARSER_WRONG(parser, "nothing is open for", slice_of(word));
    *out = block;
    return STATUS_OK;
}

/* Parses elif and else. Ends the branch before it, whose condition jumps to here. */
static enum status statement_branch(struct parser *parser, bool is_else)
{
    struct parser_block *block = NULL;
    const char *word = is_else ? "else" : "elif";
    if (is_else && parser->block_count > 0 && parser->blocks[parser->block_count - 1].is_for)
        PARSER_REFUSE(parser, "'else' of a for", PARSER_NO_NAME);
    TRY(statement_current(parser, false, word, &block));
    if (block->has_else)
        PARSER_WRONG(parser, "after 'else' there is another", slice_of(word));
    uint32_t end = parser->program->count;
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_JUMP, block->ends, 0));
    block->ends = end;
    parser_patch(parser, block->pending);
    block->pending = PARSER_NONE;
    block->has_else = is_else;
    if (is_else)
        return STATUS_OK;
    TRY(parser_expression(parser));
    block->pending = parser->program->count;
    return parser_emit(parser, CHAT_TEMPLATE_CODE_JUMP_FALSE, 0, 0);
}

static enum status statement_endif(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(statement_current(parser, false, "endif", &block));
    if (block->pending != PARSER_NONE)
        parser_patch(parser, block->pending);
    for (uint32_t end = block->ends; end != PARSER_NONE;) {
        uint32_t before = parser->program->code[end].a;
        parser_patch(parser, end);
        end = before;
    }
    parser->block_count--;
    return STATUS_OK;
}

/* Parses the name to which a for or set assigns. */
static enum status statement_target(struct parser *parser, const char *word, uint32_t *variable)
{
    struct slice name = parser->token.text;
    if (parser->token.kind != CHAT_TEMPLATE_LEXER_NAME)
        PARSER_WRONG(parser, "a name is missing after", slice_of(word));
    if (slice_is(name, "loop") || name.bytes[0] == '_')
        PARSER_REFUSE(parser, "a variable of the name", name);
    TRY(parser_variable(parser, name, variable));
    TRY(parser_next(parser));
    if (parser_at_operator(parser, ","))
        PARSER_REFUSE(parser, "several variables after", slice_of(word));
    if (parser_at_operator(parser, ".") || parser_at_operator(parser, "["))
        PARSER_REFUSE(parser, "a part of a variable after", slice_of(word));
    return STATUS_OK;
}

static enum status statement_for(struct parser *parser)
{
    uint32_t variable;
    TRY(statement_target(parser, "for", &variable));
    if (!parser_at_name(parser, "in"))
        PARSER_WRONG(parser, "'in' is missing before", parser->token.text);
    TRY(parser_next(parser));
    TRY(parser_expression(parser));
    TRY(statement_open(parser, true, parser->program->count));
    parser->loop_count++;
    return parser_emit(parser, CHAT_TEMPLATE_CODE_FOR, 0, variable);
}

static enum status statement_endfor(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(statement_current(parser, true, "endfor", &block));
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_NEXT, block->pending + 1, 0));
    parser_patch(parser, block->pending);
    parser->block_count--;
    parser->loop_count--;
    return STATUS_OK;
}

static enum status statement_set(struct parser *parser)
{
    uint32_t variable;
    TRY(statement_target(parser, "set", &variable));
    if (!parser_at_operator(parser, "="))
        PARSER_REFUSE(parser, "'set' without '='", PARSER_NO_NAME);
    TRY(parser_next(parser));
    TRY(parser_expression(parser));
    return parser_emit(parser, CHAT_TEMPLATE_CODE_SET, variable, 0);
}

static enum status parser_statement(struct parser *parser)
{
    struct slice word = parser->token.text;
    if (parser->token.kind != CHAT_TEMPLATE_LEXER_NAME)
        PARSER_WRONG(parser, "a statement is missing before", word);
    static const struct parser_word words[] = {{"if", 0, 0},    {"elif", 1, 0}, {"else", 2, 0},
                                               {"endif", 3, 0}, {"for", 4, 0},  {"endfor", 5, 0},
                                               {"set", 6, 0}};
    const struct parser_word *known = parser_find(word, PARSER_WORDS(words));
    if (known == NULL)
        PARSER_REFUSE(parser, "statement", word);
    TRY(parser_next(parser));
    switch (known->value) {
    case 0:
        return statement_if(parser);
    case 1:
        return statement_branch(parser, false);
    case 2:
        return statement_branch(parser, true);
    case 3:
        return statement_endif(parser);
    case 4:
        return statement_for(parser);
    case 5:
        return statement_endfor(parser);
    default:
        return statement_set(parser);
    }
}

/* --- the template --- */

static enum status run_text(struct parser *parser)
{
    size_t offset = parser->program->literals.length;
    buffer_append_slice(&parser->program->literals, parser->token.text);
    TRY(parser_emit_literal(parser, CHAT_TEMPLATE_CODE_TEXT, offset));
    return parser_next(parser);
}

static enum status run_template(struct parser *parser)
{
    static const char *const given[CHAT_TEMPLATE_CODE_NAME_GIVEN] = {
        "messages", "add_generation_prompt", "bos_token", "eos_token", "tools", "documents"};
    for (uint32_t i = 0; i < CHAT_TEMPLATE_CODE_NAME_GIVEN; i++)
        parser->names[i] = slice_of(given[i]);
    parser->program->name_count = CHAT_TEMPLATE_CODE_NAME_GIVEN;
    TRY(parser_next(parser));
    while (parser->token.kind != CHAT_TEMPLATE_LEXER_END) {
        if (parser->token.kind == CHAT_TEMPLATE_LEXER_TEXT) {
            TRY(run_text(parser));
        } else if (parser->token.kind == CHAT_TEMPLATE_LEXER_PRINT_BEGIN) {
            TRY(parser_next(parser));
            TRY(parser_expression(parser));
            TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_PRINT, 0, 0));
            TRY(parser_expect_end(parser, CHAT_TEMPLATE_LEXER_PRINT_END));
        } else {
            ASSERT(parser->token.kind == CHAT_TEMPLATE_LEXER_BLOCK_BEGIN);
            TRY(parser_next(parser));
            TRY(parser_statement(parser));
            TRY(parser_expect_end(parser, CHAT_TEMPLATE_LEXER_BLOCK_END));
        }
    }
    if (parser->block_count > 0)
        FAIL(STATUS_CORRUPT, "line %u: '%s' is not closed",
             parser->blocks[parser->block_count - 1].line,
             parser->blocks[parser->block_count - 1].is_for ? "for" : "if");
    return parser_emit(parser, CHAT_TEMPLATE_CODE_END, 0, 0);
}

enum status chat_template_parser_run(struct chat_template_program *out, struct slice source)
{
    *out = (struct chat_template_program){0};
    struct parser *parser = mem_zalloc(1, sizeof(*parser));
    if (parser == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the chat template");
    parser->program = out;
    buffer_init(&out->literals, source.length); /* no literal is longer than its source */
    chat_template_lexer_init(&parser->lexer, source);
    enum status status = run_template(parser);
    mem_free(parser);
    if (status != STATUS_OK)
        chat_template_parser_free(out);
    return status;
}

void chat_template_parser_free(struct chat_template_program *program)
{
    mem_free(program->code);
    buffer_deinit(&program->literals);
    *program = (struct chat_template_program){0};
}
