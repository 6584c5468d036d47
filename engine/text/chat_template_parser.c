#include "engine/text/chat_template_parser.h"

#include "config/base/mem.h"
#include "config/base/utf8.h"
#include "engine/text/template_expression.h"

enum { PARSER_NONE = UINT32_MAX };

enum parser_kind {
    PARSER_IF,
    PARSER_FOR,
    PARSER_FOR_ELSE,
    PARSER_SET,
    PARSER_MACRO,
    PARSER_CALL,
    PARSER_FILTER,
    PARSER_GENERATION,
};

static const char *const PARSER_KINDS[] = {
    [PARSER_IF] = "if",         [PARSER_FOR] = "for",
    [PARSER_FOR_ELSE] = "for",  [PARSER_SET] = "set",
    [PARSER_MACRO] = "macro",   [PARSER_CALL] = "call",
    [PARSER_FILTER] = "filter", [PARSER_GENERATION] = "generation",
};

/* An open statement. */
struct parser_block {
    enum parser_kind kind;
    bool has_else;
    uint32_t line;
    uint32_t pending; /* the instruction that jumps past the branch, loop or body, or PARSER_NONE */
    uint32_t ends;    /* the last of the jumps to the end, which are linked through .a */
    uint32_t nexts;   /* of a for: the last of the jumps to the next round */
    uint32_t from;    /* set, filter, call: instructions [from, middle) that run after the body */
    uint32_t middle;
    uint32_t packed;   /* of a call: its arguments */
    uint32_t macro;    /* of a call */
    struct slice name; /* of a set */
};

struct parser {
    struct template_compile compile;
    struct parser_block blocks[LIMIT_TEMPLATE_DEPTH];
    uint32_t block_count;
};

static enum status parser_emit(struct parser *parser, uint32_t kind, uint32_t a, uint32_t b)
{
    return template_compile_emit(&parser->compile, kind, a, b);
}

static uint32_t parser_count(const struct parser *parser)
{
    return parser->compile.program->count;
}

/* Emits a jump that is linked into a list. */
static enum status parser_link(struct parser *parser, uint32_t kind, uint32_t *list)
{
    uint32_t jump = parser_count(parser);
    TRY(parser_emit(parser, kind, *list, 0));
    *list = jump;
    return STATUS_OK;
}

static void parser_patch_list(struct parser *parser, uint32_t list)
{
    while (list != PARSER_NONE) {
        uint32_t before = parser->compile.program->code[list].a;
        template_compile_patch(&parser->compile, list);
        list = before;
    }
}

static enum status parser_open(struct parser *parser, enum parser_kind kind,
                               struct parser_block **out)
{
    if (parser->block_count == LIMIT_TEMPLATE_DEPTH)
        FAIL(STATUS_LIMIT, "line %u: statements are nested deeper than %d",
             parser->compile.token.line, LIMIT_TEMPLATE_DEPTH);
    *out = &parser->blocks[parser->block_count++];
    **out = (struct parser_block){.kind = kind,
                                  .line = parser->compile.token.line,
                                  .pending = PARSER_NONE,
                                  .ends = PARSER_NONE,
                                  .nexts = PARSER_NONE};
    return STATUS_OK;
}

/* Returns the innermost open statement, which must be of one of two kinds. */
static enum status parser_current(struct parser *parser, enum parser_kind kind,
                                  enum parser_kind other, const char *word,
                                  struct parser_block **out)
{
    struct parser_block *block =
        parser->block_count > 0 ? &parser->blocks[parser->block_count - 1] : NULL;
    if (block == NULL || (block->kind != kind && block->kind != other))
        TEMPLATE_WRONG(&parser->compile, "nothing is open for", slice_of(word));
    *out = block;
    return STATUS_OK;
}

/* --- if --- */

static enum status statement_if(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(template_expression_list(&parser->compile, true));
    TRY(parser_open(parser, PARSER_IF, &block));
    block->pending = parser_count(parser);
    return parser_emit(parser, CHAT_TEMPLATE_CODE_JUMP_FALSE, 0, 0);
}

/* Ends a branch, whose condition jumps to here. */
static enum status branch_end(struct parser *parser, struct parser_block *block, const char *word)
{
    if (block->has_else)
        TEMPLATE_WRONG(&parser->compile, "after 'else' there is another", slice_of(word));
    TRY(parser_link(parser, CHAT_TEMPLATE_CODE_JUMP, &block->ends));
    template_compile_patch(&parser->compile, block->pending);
    block->pending = PARSER_NONE;
    return STATUS_OK;
}

static enum status statement_elif(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(parser_current(parser, PARSER_IF, PARSER_IF, "elif", &block));
    TRY(branch_end(parser, block, "elif"));
    TRY(template_expression_list(&parser->compile, true));
    block->pending = parser_count(parser);
    return parser_emit(parser, CHAT_TEMPLATE_CODE_JUMP_FALSE, 0, 0);
}

static enum status statement_endif(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(parser_current(parser, PARSER_IF, PARSER_IF, "endif", &block));
    if (block->pending != PARSER_NONE)
        template_compile_patch(&parser->compile, block->pending);
    parser_patch_list(parser, block->ends);
    parser->block_count--;
    return STATUS_OK;
}

/* --- for --- */

enum { TARGETS = 8 };

struct targets {
    struct slice names[TARGETS];
    uint32_t count;
    bool is_tuple;
};

/* Names to which a for or set assigns: "a", "a, b" or "(a, b)". */
static enum status take_targets(struct parser *parser, struct targets *targets)
{
    struct template_compile *compile = &parser->compile;
    bool has_bracket;
    bool has_comma = false;
    *targets = (struct targets){0};
    TRY(template_compile_accept(compile, "(", &has_bracket));
    do {
        if (targets->count == TARGETS)
            TEMPLATE_REFUSE(compile, "a list of so many variables", TEMPLATE_NO_NAME);
        if (targets->count > 0 && compile->token.kind != CHAT_TEMPLATE_LEXER_NAME)
            break; /* a comma at the end */
        if (template_compile_at_name(compile, "loop"))
            TEMPLATE_REFUSE(compile, "a variable of the name", compile->token.text);
        TRY(template_compile_take_name(compile, &targets->names[targets->count++]));
        TRY(template_compile_accept(compile, ",", &has_comma));
        targets->is_tuple = targets->is_tuple || has_comma;
    } while (has_comma);
    return has_bracket ? template_compile_expect(compile, ")") : STATUS_OK;
}

static enum status store_targets(struct parser *parser, const struct targets *targets)
{
    if (targets->is_tuple)
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_UNPACK, targets->count, 0));
    for (uint32_t i = 0; i < targets->count; i++)
        TRY(template_compile_store(&parser->compile, targets->names[i]));
    return STATUS_OK;
}

/* Begins a loop over the value on the stack. */
static enum status for_begin(struct parser *parser, const struct targets *targets, uint32_t kind,
                             uint32_t *jump)
{
    struct template_compile *compile = &parser->compile;
    uint32_t scope;
    *jump = parser_count(parser);
    TRY(template_compile_open(compile, &scope));
    TRY(parser_emit(parser, kind, 0, scope));
    TRY(template_compile_declare(compile, SLICE("loop")));
    for (uint32_t i = 0; i < targets->count; i++)
        TRY(template_compile_declare(compile, targets->names[i]));
    return store_targets(parser, targets);
}

/* "for x in y if z": a loop that keeps the elements for which z is true, then one over these. */
static enum status for_filter(struct parser *parser, const struct targets *targets)
{
    struct template_compile *compile = &parser->compile;
    uint32_t jump;
    TRY(template_compile_next(compile));
    TRY(for_begin(parser, targets, CHAT_TEMPLATE_CODE_FILTER_FOR, &jump));
    TRY(template_expression_parse(compile, true));
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_COLLECT, 0, 0));
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_NEXT, template_compile_distance(compile, jump + 1),
                    0));
    template_compile_close(compile);
    template_compile_patch(compile, jump);
    return STATUS_OK;
}

static enum status statement_for(struct parser *parser)
{
    struct template_compile *compile = &parser->compile;
    struct parser_block *block = NULL;
    struct targets targets;
    TRY(take_targets(parser, &targets));
    TRY(template_compile_expect_name(compile, "in"));
    TRY(template_expression_list(compile, false));
    if (template_compile_at_name(compile, "if"))
        TRY(for_filter(parser, &targets));
    if (template_compile_at_name(compile, "recursive"))
        TEMPLATE_REFUSE(compile, "a loop that is", compile->token.text);
    TRY(parser_open(parser, PARSER_FOR, &block));
    return for_begin(parser, &targets, CHAT_TEMPLATE_CODE_FOR, &block->pending);
}

/* Ends the rounds of a loop. */
static enum status for_end(struct parser *parser, const struct parser_block *block)
{
    struct template_compile *compile = &parser->compile;
    parser_patch_list(parser, block->nexts);
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_NEXT,
                    template_compile_distance(compile, block->pending + 1), 0));
    template_compile_close(compile);
    return STATUS_OK;
}

/* The branch of a for that runs when there was no element. */
static enum status for_else(struct parser *parser, struct parser_block *block)
{
    uint32_t scope;
    TRY(for_end(parser, block));
    TRY(parser_link(parser, CHAT_TEMPLATE_CODE_JUMP, &block->ends));
    template_compile_patch(&parser->compile, block->pending);
    block->kind = PARSER_FOR_ELSE;
    TRY(template_compile_open(&parser->compile, &scope));
    return parser_emit(parser, CHAT_TEMPLATE_CODE_OPEN, 0, scope);
}

static enum status statement_else(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(parser_current(parser, PARSER_IF, PARSER_FOR, "else", &block));
    if (block->kind == PARSER_FOR)
        return for_else(parser, block);
    TRY(branch_end(parser, block, "else"));
    block->has_else = true;
    return STATUS_OK;
}

static enum status statement_endfor(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(parser_current(parser, PARSER_FOR, PARSER_FOR_ELSE, "endfor", &block));
    if (block->kind == PARSER_FOR) {
        TRY(for_end(parser, block));
        template_compile_patch(&parser->compile, block->pending);
    } else {
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_CLOSE, 0, 0));
        template_compile_close(&parser->compile);
    }
    parser_patch_list(parser, block->ends);
    parser->block_count--;
    return STATUS_OK;
}

/* break and continue: of the innermost loop, from which nothing that collects text separates. */
static enum status statement_leave(struct parser *parser, bool is_break)
{
    const char *word = is_break ? "break" : "continue";
    for (uint32_t i = parser->block_count; i > 0; i--) {
        struct parser_block *block = &parser->blocks[i - 1];
        if (block->kind == PARSER_FOR)
            return parser_link(parser,
                               is_break ? CHAT_TEMPLATE_CODE_BREAK : CHAT_TEMPLATE_CODE_JUMP,
                               is_break ? &block->ends : &block->nexts);
        if (block->kind != PARSER_IF && block->kind != PARSER_FOR_ELSE &&
            block->kind != PARSER_GENERATION)
            TEMPLATE_REFUSE(&parser->compile, "inside of a block with a text of its own, a",
                            slice_of(word));
    }
    TEMPLATE_WRONG(&parser->compile, "outside of a for there is a", slice_of(word));
}

static enum status statement_break(struct parser *parser)
{
    return statement_leave(parser, true);
}

static enum status statement_continue(struct parser *parser)
{
    return statement_leave(parser, false);
}

/* --- set and filter --- */

/* Opens a statement whose body's text is collected; [from, here) runs on the text afterwards. */
static enum status capture_begin(struct parser *parser, enum parser_kind kind, uint32_t from,
                                 struct parser_block **out)
{
    uint32_t scope;
    TRY(parser_open(parser, kind, out));
    (*out)->from = from;
    (*out)->middle = parser_count(parser);
    TRY(template_compile_open(&parser->compile, &scope));
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_CAPTURE, 0, 0));
    return parser_emit(parser, CHAT_TEMPLATE_CODE_OPEN, 0, scope);
}

static enum status capture_end(struct parser *parser, const struct parser_block *block)
{
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_CLOSE, 0, 0));
    template_compile_close(&parser->compile);
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_CAPTURED, 0, 0));
    return template_compile_rotate(&parser->compile, block->from, block->middle);
}

/* "set space.name = value" */
static enum status set_part(struct parser *parser, struct slice space)
{
    struct template_compile *compile = &parser->compile;
    struct slice name;
    TRY(template_compile_next(compile));
    TRY(template_compile_take_name(compile, &name));
    TRY(template_compile_expect(compile, "="));
    TRY(template_expression_list(compile, true));
    TRY(template_compile_load(compile, space));
    return template_compile_emit_text(compile, CHAT_TEMPLATE_CODE_SET_PART, name);
}

static enum status statement_set(struct parser *parser)
{
    struct template_compile *compile = &parser->compile;
    struct parser_block *block = NULL;
    struct targets targets;
    uint32_t from = parser_count(parser);
    TRY(take_targets(parser, &targets));
    if (template_compile_at(compile, ".") && !targets.is_tuple)
        return set_part(parser, targets.names[0]);
    bool has_value;
    TRY(template_compile_accept(compile, "=", &has_value));
    if (has_value) {
        TRY(template_expression_list(compile, true));
        return store_targets(parser, &targets);
    }
    if (targets.is_tuple)
        TEMPLATE_WRONG(compile, "'=' is missing before", compile->token.text);
    TRY(template_expression_filters(compile, false));
    TRY(capture_begin(parser, PARSER_SET, from, &block));
    block->name = targets.names[0];
    return STATUS_OK;
}

static enum status statement_endset(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(parser_current(parser, PARSER_SET, PARSER_SET, "endset", &block));
    TRY(capture_end(parser, block));
    parser->block_count--;
    return template_compile_store(&parser->compile, block->name);
}

static enum status statement_filter(struct parser *parser)
{
    struct parser_block *block = NULL;
    uint32_t from = parser_count(parser);
    TRY(template_expression_filters(&parser->compile, true));
    return capture_begin(parser, PARSER_FILTER, from, &block);
}

static enum status statement_endfilter(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(parser_current(parser, PARSER_FILTER, PARSER_FILTER, "endfilter", &block));
    TRY(capture_end(parser, block));
    parser->block_count--;
    return parser_emit(parser, CHAT_TEMPLATE_CODE_PRINT, 0, 0);
}

/* The text that a model wrote, for training; here it is a block like any other. */
static enum status statement_generation(struct parser *parser)
{
    struct parser_block *block = NULL;
    uint32_t scope;
    TRY(parser_open(parser, PARSER_GENERATION, &block));
    TRY(template_compile_open(&parser->compile, &scope));
    return parser_emit(parser, CHAT_TEMPLATE_CODE_OPEN, 0, scope);
}

static enum status statement_endgeneration(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(parser_current(parser, PARSER_GENERATION, PARSER_GENERATION, "endgeneration", &block));
    parser->block_count--;
    template_compile_close(&parser->compile);
    return parser_emit(parser, CHAT_TEMPLATE_CODE_CLOSE, 0, 0);
}

/* --- macro and call --- */

/* Parses "(a, b=1)"; the values of parameters that were not given are the macro's first
 * instructions. */
static enum status macro_params(struct parser *parser, struct chat_template_macro *macro)
{
    struct template_compile *compile = &parser->compile;
    struct chat_template_program *program = compile->program;
    bool has_comma = true;
    TRY(template_compile_expect(compile, "("));
    while (!template_compile_at(compile, ")")) {
        struct slice name;
        bool has_value;
        if (!has_comma)
            TEMPLATE_WRONG(compile, "a comma is missing before", compile->token.text);
        TRY(template_compile_take_name(compile, &name));
        TRY(template_compile_declare(compile, name));
        if (program->param_count == LIMIT_TEMPLATE_NAMES || macro->params == LIMIT_TEMPLATE_DEPTH)
            FAIL(STATUS_LIMIT, "line %u: too many parameters of macros", compile->token.line);
        program->params[program->param_count++] =
            (struct chat_template_word){(uint32_t)program->literals.length, (uint32_t)name.length};
        buffer_append_slice(&program->literals, name);
        TRY(program->literals.status);
        macro->params++;
        TRY(template_compile_accept(compile, "=", &has_value));
        uint32_t jump = program->count;
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_JUMP_GIVEN, 0, macro->params));
        if (has_value)
            TRY(template_expression_parse(compile, true));
        else
            TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_UNDEFINED, 0, 0));
        TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_SET, 0, macro->params));
        template_compile_patch(compile, jump);
        TRY(template_compile_accept(compile, ",", &has_comma));
    }
    return template_compile_next(compile);
}

/* Begins the body of a macro, past which the instruction at block->pending jumps. */
static enum status macro_begin(struct parser *parser, struct parser_block *block, bool has_params)
{
    struct template_compile *compile = &parser->compile;
    struct chat_template_program *program = compile->program;
    if (program->macro_count == LIMIT_TEMPLATE_NAMES)
        FAIL(STATUS_LIMIT, "line %u: more than %d macros and calls", compile->token.line,
             LIMIT_TEMPLATE_NAMES);
    block->macro = program->macro_count++;
    block->pending = program->count;
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_JUMP, 0, 0));
    struct chat_template_macro *macro = &program->macros[block->macro];
    *macro =
        (struct chat_template_macro){.entry = program->count, .first_param = program->param_count};
    TRY(template_compile_open(compile, &macro->scope));
    TRY(template_compile_declare(compile, SLICE("caller")));
    return has_params ? macro_params(parser, macro) : STATUS_OK;
}

static enum status macro_end(struct parser *parser, const struct parser_block *block)
{
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_RETURN, 0, 0));
    template_compile_close(&parser->compile);
    template_compile_patch(&parser->compile, block->pending);
    return STATUS_OK;
}

static enum status statement_macro(struct parser *parser)
{
    struct template_compile *compile = &parser->compile;
    struct parser_block *block = NULL;
    struct slice name;
    if (compile->scope_count > 0)
        TEMPLATE_REFUSE(compile, "a macro inside of a loop, a macro or a block", TEMPLATE_NO_NAME);
    TRY(template_compile_take_name(compile, &name));
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_MACRO, compile->program->macro_count, 0));
    TRY(template_compile_store(compile, name));
    TRY(parser_open(parser, PARSER_MACRO, &block));
    return macro_begin(parser, block, true);
}

static enum status statement_endmacro(struct parser *parser)
{
    struct parser_block *block = NULL;
    TRY(parser_current(parser, PARSER_MACRO, PARSER_MACRO, "endmacro", &block));
    parser->block_count--;
    return macro_end(parser, block);
}

/* "call(x) f(a)": the body is a macro that f gets as `caller`. The instructions of f(a) stand in
 * front of the body here, and go behind it at its end. The parameters are in front of f(a) in the
 * source, so the lexer goes back to them. */
static enum status statement_call(struct parser *parser)
{
    struct template_compile *compile = &parser->compile;
    struct chat_template_program *program = compile->program;
    struct parser_block *block = NULL;
    struct chat_template_lexer lexer = compile->lexer;
    struct chat_template_lexer_token token = compile->token;
    bool has_params = template_compile_at(compile, "(");
    for (uint32_t depth = 0; has_params;) {
        depth += template_compile_at(compile, "(");
        depth -= template_compile_at(compile, ")");
        TRY(template_compile_next(compile));
        if (depth == 0)
            break;
        if (compile->token.kind == CHAT_TEMPLATE_LEXER_BLOCK_END)
            TEMPLATE_WRONG(compile, "a bracket is not closed", TEMPLATE_NO_NAME);
    }
    uint32_t from = program->count;
    TRY(template_expression_parse(compile, true));
    if (program->count == from || program->code[program->count - 1].kind != CHAT_TEMPLATE_CODE_CALL)
        TEMPLATE_WRONG(compile, "'call' needs a call", TEMPLATE_NO_NAME);
    uint32_t packed = program->code[--program->count].b;
    TRY(parser_open(parser, PARSER_CALL, &block));
    block->from = from;
    block->middle = program->count;
    block->packed = packed;
    struct chat_template_lexer end_lexer = compile->lexer;
    struct chat_template_lexer_token end_token = compile->token;
    if (has_params) {
        compile->lexer = lexer;
        compile->token = token;
    }
    TRY(macro_begin(parser, block, has_params));
    compile->lexer = end_lexer;
    compile->token = end_token;
    return STATUS_OK;
}

static enum status statement_endcall(struct parser *parser)
{
    struct parser_block *block = NULL;
    struct template_compile *compile = &parser->compile;
    TRY(parser_current(parser, PARSER_CALL, PARSER_CALL, "endcall", &block));
    TRY(macro_end(parser, block));
    TRY(template_compile_rotate(compile, block->from, block->middle));
    TRY(template_compile_emit_text(compile, CHAT_TEMPLATE_CODE_STRING, SLICE("caller")));
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_MACRO, block->macro, 0));
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_CALL, 0,
                    block->packed + (1u << CHAT_TEMPLATE_CODE_NAMED)));
    parser->block_count--;
    return parser_emit(parser, CHAT_TEMPLATE_CODE_PRINT, 0, 0);
}

/* --- the template --- */

static enum status parser_statement(struct parser *parser)
{
    static const struct {
        const char *word;
        enum status (*parse)(struct parser *parser);
    } statements[] = {
        {"if", statement_if},
        {"elif", statement_elif},
        {"else", statement_else},
        {"endif", statement_endif},
        {"for", statement_for},
        {"endfor", statement_endfor},
        {"break", statement_break},
        {"continue", statement_continue},
        {"set", statement_set},
        {"endset", statement_endset},
        {"filter", statement_filter},
        {"endfilter", statement_endfilter},
        {"macro", statement_macro},
        {"endmacro", statement_endmacro},
        {"call", statement_call},
        {"endcall", statement_endcall},
        {"generation", statement_generation},
        {"endgeneration", statement_endgeneration},
    };
    struct template_compile *compile = &parser->compile;
    struct slice word = compile->token.text;
    if (compile->token.kind != CHAT_TEMPLATE_LEXER_NAME)
        TEMPLATE_WRONG(compile, "a statement is missing before", word);
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!slice_is(word, statements[i].word))
            continue;
        TRY(template_compile_next(compile));
        return statements[i].parse(parser);
    }
    TEMPLATE_REFUSE(compile, "statement", word);
}

static enum status parser_end_tag(struct parser *parser, enum chat_template_lexer_kind end)
{
    struct template_compile *compile = &parser->compile;
    if (compile->token.kind != end)
        TEMPLATE_WRONG(compile, "the tag should end before", compile->token.text);
    return template_compile_next(compile);
}

static enum status parser_tag(struct parser *parser)
{
    struct template_compile *compile = &parser->compile;
    enum chat_template_lexer_kind kind = compile->token.kind;
    if (kind == CHAT_TEMPLATE_LEXER_TEXT) {
        TRY(template_compile_emit_text(compile, CHAT_TEMPLATE_CODE_TEXT, compile->token.text));
        return template_compile_next(compile);
    }
    TRY(template_compile_next(compile));
    if (kind == CHAT_TEMPLATE_LEXER_BLOCK_BEGIN) {
        TRY(parser_statement(parser));
        return parser_end_tag(parser, CHAT_TEMPLATE_LEXER_BLOCK_END);
    }
    ASSERT(kind == CHAT_TEMPLATE_LEXER_PRINT_BEGIN);
    TRY(template_expression_list(compile, true));
    TRY(parser_emit(parser, CHAT_TEMPLATE_CODE_PRINT, 0, 0));
    return parser_end_tag(parser, CHAT_TEMPLATE_LEXER_PRINT_END);
}

static enum status run_template(struct parser *parser)
{
    static const char *const given[CHAT_TEMPLATE_CODE_NAME_GIVEN] = {
        "messages", "add_generation_prompt", "bos_token", "eos_token", "tools", "documents"};
    struct template_compile *compile = &parser->compile;
    uint32_t slot;
    for (uint32_t i = 0; i < CHAT_TEMPLATE_CODE_NAME_GIVEN; i++)
        TRY(template_compile_root(compile, slice_of(given[i]), &slot));
    TRY(template_compile_next(compile));
    while (compile->token.kind != CHAT_TEMPLATE_LEXER_END)
        TRY(parser_tag(parser));
    if (parser->block_count > 0)
        FAIL(STATUS_CORRUPT, "line %u: '%s' is not closed",
             parser->blocks[parser->block_count - 1].line,
             PARSER_KINDS[parser->blocks[parser->block_count - 1].kind]);
    return parser_emit(parser, CHAT_TEMPLATE_CODE_END, 0, 0);
}

enum status chat_template_parser_run(struct chat_template_program *out, struct slice source)
{
    *out = (struct chat_template_program){.scope_count = 1};
    if (!utf8_is_valid(source.bytes, source.length))
        FAIL(STATUS_CORRUPT, "the chat template is not valid UTF-8");
    struct parser *parser = mem_zalloc(1, sizeof(*parser));
    if (parser == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the chat template");
    parser->compile.program = out;
    /* Literals are shorter than their source; names stand among them once more. */
    buffer_init(&out->literals, 2 * source.length + 256);
    chat_template_lexer_init(&parser->compile.lexer, source);
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
