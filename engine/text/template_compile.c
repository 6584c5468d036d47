#include "engine/text/template_compile.h"

#include <stdio.h>

#include "config/base/mem.h"

enum status template_compile_fail(const struct template_compile *compile, enum status status,
                                  const char *what, struct slice name, const char *end)
{
    int length = (int)(name.length < 64 ? name.length : 64);
    if (length == 0)
        return status_fail(status, __FILE__, __LINE__, NULL, "line %u: %s%s", compile->token.line,
                           what, end);
    return status_fail(status, __FILE__, __LINE__, NULL, "line %u: %s '%.*s'%s",
                       compile->token.line, what, length, name.bytes, end);
}

static enum status compile_limit(const struct template_compile *compile, const char *what, int most)
{
    return status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL, "line %u: more than %d %s",
                       compile->token.line, most, what);
}

/* --- tokens --- */

enum status template_compile_next(struct template_compile *compile)
{
    return chat_template_lexer_next(&compile->lexer, &compile->token);
}

bool template_compile_at_name(const struct template_compile *compile, const char *name)
{
    return compile->token.kind == CHAT_TEMPLATE_LEXER_NAME && slice_is(compile->token.text, name);
}

bool template_compile_at(const struct template_compile *compile, const char *operator)
{
    return compile->token.kind == CHAT_TEMPLATE_LEXER_OPERATOR &&
           slice_is(compile->token.text, operator);
}

enum status template_compile_accept(struct template_compile *compile, const char *operator,
                                    bool * is_there)
{
    *is_there = template_compile_at(compile, operator);
    return *is_there ? template_compile_next(compile) : STATUS_OK;
}

enum status template_compile_expect(struct template_compile *compile, const char *operator)
{
    char what[64];
    if (template_compile_at(compile, operator))
        return template_compile_next(compile);
    snprintf(what, sizeof what, "'%s' is missing before", operator);
    TEMPLATE_WRONG(compile, what, compile->token.text);
}

enum status template_compile_expect_name(struct template_compile *compile, const char *name)
{
    char what[64];
    if (template_compile_at_name(compile, name))
        return template_compile_next(compile);
    snprintf(what, sizeof what, "'%s' is missing before", name);
    TEMPLATE_WRONG(compile, what, compile->token.text);
}

enum status template_compile_take_name(struct template_compile *compile, struct slice *out)
{
    static const char *const keywords[] = {"and", "or",   "not",  "in", "is",
                                           "if",  "else", "elif", "for"};
    static const char *const reserved[] = {"true", "false", "none",  "True",    "False",
                                           "None", "self",  "super", "varargs", "kwargs"};
    *out = compile->token.text;
    bool is_name = compile->token.kind == CHAT_TEMPLATE_LEXER_NAME;
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        is_name = is_name && !slice_is(*out, keywords[i]);
    if (!is_name)
        TEMPLATE_WRONG(compile, "a name is missing before", *out);
    if (out->length >= 2 && out->bytes[0] == '_' && out->bytes[1] == '_')
        TEMPLATE_REFUSE(compile, "name", *out);
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (slice_is(*out, reserved[i]))
            TEMPLATE_REFUSE(compile, "a variable of the name", *out);
    }
    return template_compile_next(compile);
}

/* --- instructions --- */

static enum status emit_reserve(struct template_compile *compile, uint32_t more)
{
    struct chat_template_program *program = compile->program;
    if (program->count + more > LIMIT_TEMPLATE_NODES)
        return compile_limit(compile, "instructions", LIMIT_TEMPLATE_NODES);
    if (program->count + more <= program->capacity)
        return STATUS_OK;
    uint32_t capacity = program->capacity == 0 ? 64 : program->capacity;
    while (capacity < program->count + more)
        capacity *= 2;
    struct chat_template_code *code = mem_realloc(program->code, capacity * sizeof(*code));
    if (code == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the chat template");
    program->code = code;
    program->capacity = capacity;
    return STATUS_OK;
}

enum status template_compile_emit(struct template_compile *compile, uint32_t kind, uint32_t a,
                                  uint32_t b)
{
    struct chat_template_program *program = compile->program;
    TRY(emit_reserve(compile, 1));
    program->code[program->count++] = (struct chat_template_code){kind, compile->token.line, a, b};
    return STATUS_OK;
}

enum status template_compile_emit_text(struct template_compile *compile, uint32_t kind,
                                       struct slice text)
{
    struct buffer *literals = &compile->program->literals;
    size_t offset = literals->length;
    buffer_append_slice(literals, text);
    TRY(literals->status);
    return template_compile_emit(compile, kind, (uint32_t)offset, (uint32_t)text.length);
}

uint32_t template_compile_distance(const struct template_compile *compile, uint32_t target)
{
    return target - compile->program->count; /* modulo 2^32: may be backwards */
}

void template_compile_patch(struct template_compile *compile, uint32_t jump)
{
    compile->program->code[jump].a = compile->program->count - jump;
}

enum status template_compile_rotate(struct template_compile *compile, uint32_t from,
                                    uint32_t middle)
{
    struct chat_template_program *program = compile->program;
    uint32_t moved = middle - from;
    uint32_t rest = program->count - middle;
    struct chat_template_code *code = program->code;
    TRY(emit_reserve(compile, moved)); /* the place for a copy */
    code = program->code;
    memmove(code + program->count, code + from, moved * sizeof(*code));
    memmove(code + from, code + middle, rest * sizeof(*code));
    memmove(code + from + rest, code + program->count, moved * sizeof(*code));
    for (uint32_t i = 0; i < program->macro_count; i++) {
        if (program->macros[i].entry >= middle)
            program->macros[i].entry -= moved;
    }
    return STATUS_OK;
}

/* --- scopes and variables --- */

enum status template_compile_open(struct template_compile *compile, uint32_t *id)
{
    struct chat_template_program *program = compile->program;
    if (program->scope_count == LIMIT_TEMPLATE_NAMES)
        return compile_limit(compile, "loops, macros and blocks", LIMIT_TEMPLATE_NAMES);
    if (compile->scope_count == sizeof compile->scopes / sizeof compile->scopes[0])
        return compile_limit(compile, "statements inside each other", LIMIT_TEMPLATE_DEPTH);
    *id = program->scope_count++;
    program->scopes[*id] = (struct chat_template_scope){0};
    compile->scopes[compile->scope_count++] =
        (struct template_compile_scope){*id, compile->name_count};
    return STATUS_OK;
}

void template_compile_close(struct template_compile *compile)
{
    ASSERT(compile->scope_count > 0);
    compile->name_count = compile->scopes[--compile->scope_count].first_name;
}

enum status template_compile_declare(struct template_compile *compile, struct slice name)
{
    ASSERT(compile->scope_count > 0);
    struct template_compile_scope *scope = &compile->scopes[compile->scope_count - 1];
    if (compile->name_count == LIMIT_TEMPLATE_NAMES)
        return compile_limit(compile, "variables", LIMIT_TEMPLATE_NAMES);
    uint32_t slot = compile->program->scopes[scope->id].slots++;
    compile->names[compile->name_count++] = (struct template_compile_name){name, slot};
    return STATUS_OK;
}

enum status template_compile_root(struct template_compile *compile, struct slice name,
                                  uint32_t *slot)
{
    struct chat_template_program *program = compile->program;
    struct chat_template_scope *root = &program->scopes[0];
    for (uint32_t i = 0; i < root->slots; i++) {
        const struct chat_template_word *word = &program->names[i];
        if (slice_equals((struct slice){program->literals.bytes + word->offset, word->length},
                         name)) {
            *slot = i;
            return STATUS_OK;
        }
    }
    if (root->slots == LIMIT_TEMPLATE_NAMES)
        return compile_limit(compile, "variables", LIMIT_TEMPLATE_NAMES);
    size_t offset = program->literals.length;
    buffer_append_slice(&program->literals, name);
    TRY(program->literals.status);
    *slot = root->slots++;
    program->names[*slot] = (struct chat_template_word){(uint32_t)offset, (uint32_t)name.length};
    return STATUS_OK;
}

/* Finds a variable in the scopes from the `inner`-th one outwards. */
static enum status variable_find(struct template_compile *compile, struct slice name,
                                 uint32_t inner, uint32_t *outwards, uint32_t *slot)
{
    uint32_t end =
        inner == compile->scope_count ? compile->name_count : compile->scopes[inner].first_name;
    for (uint32_t scope = inner; scope > 0; scope--) {
        uint32_t first = compile->scopes[scope - 1].first_name;
        for (uint32_t i = first; i < end; i++) {
            if (slice_equals(compile->names[i].name, name)) {
                *outwards = compile->scope_count - scope;
                *slot = compile->names[i].slot;
                return STATUS_OK;
            }
        }
        end = first;
    }
    *outwards = compile->scope_count;
    return template_compile_root(compile, name, slot);
}

enum status template_compile_load(struct template_compile *compile, struct slice name)
{
    uint32_t outwards;
    uint32_t slot;
    TRY(variable_find(compile, name, compile->scope_count, &outwards, &slot));
    return template_compile_emit(compile, CHAT_TEMPLATE_CODE_NAME, outwards, slot);
}

enum status template_compile_store(struct template_compile *compile, struct slice name)
{
    struct chat_template_program *program = compile->program;
    uint32_t outwards;
    uint32_t slot;
    uint32_t from;
    TRY(variable_find(compile, name, compile->scope_count, &outwards, &slot));
    if (outwards > 0) { /* the first one here: a copy, which the scope gets when it begins */
        uint32_t id = compile->scopes[compile->scope_count - 1].id;
        TRY(variable_find(compile, name, compile->scope_count - 1, &outwards, &from));
        if (program->copy_count == LIMIT_TEMPLATE_NAMES)
            return compile_limit(compile, "variables", LIMIT_TEMPLATE_NAMES);
        slot = program->scopes[id].slots;
        TRY(template_compile_declare(compile, name));
        program->copies[program->copy_count++] =
            (struct chat_template_copy){id, slot, outwards, from};
    }
    return template_compile_emit(compile, CHAT_TEMPLATE_CODE_SET, 0, slot);
}
