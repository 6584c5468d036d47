/* template_compile: a program while it is made: the next token, instructions, scopes and names.
 *
 * Owns:     nothing; the caller owns the program.
 * Thread:   one, at start.
 * Cost:     O(names) for each use of a variable.
 * Not here: expressions (template_expression), statements (chat_template_parser).
 */
#pragma once

#include "engine/text/chat_template_code.h"
#include "engine/text/chat_template_lexer.h"

struct template_compile_scope {
    uint32_t id; /* in the program */
    uint32_t first_name;
};

struct template_compile_name {
    struct slice name;
    uint32_t slot;
};

struct template_compile {
    struct chat_template_lexer lexer;
    struct chat_template_lexer_token token; /* the next one, not yet consumed */
    struct chat_template_program *program;
    /* Scopes inside the template's own, whose names are in the program. */
    struct template_compile_scope scopes[LIMIT_TEMPLATE_DEPTH + 2];
    uint32_t scope_count;
    struct template_compile_name names[LIMIT_TEMPLATE_NAMES];
    uint32_t name_count;
    uint32_t depth; /* of the expression */
};

/* Fails with a message such as "line 3: filter 'x' is not supported". `name` may be empty. */
enum status template_compile_fail(const struct template_compile *compile, enum status status,
                                  const char *what, struct slice name, const char *end);
#define TEMPLATE_REFUSE(compile, what, name)                                                       \
    return template_compile_fail((compile), STATUS_UNSUPPORTED, (what), (name), " is not supported")
#define TEMPLATE_WRONG(compile, what, name)                                                        \
    return template_compile_fail((compile), STATUS_CORRUPT, (what), (name), "")
#define TEMPLATE_NO_NAME ((struct slice){NULL, 0})

/* --- tokens --- */

enum status template_compile_next(struct template_compile *compile);
bool template_compile_at_name(const struct template_compile *compile, const char *name);
bool template_compile_at(const struct template_compile *compile, const char *operator);
/* Consumes the operator when it comes next. */
enum status template_compile_accept(struct template_compile *compile, const char *operator,
                                    bool * is_there);
/* Consumes the operator or word, or fails. */
enum status template_compile_expect(struct template_compile *compile, const char *operator);
enum status template_compile_expect_name(struct template_compile *compile, const char *name);
/* Takes a name that may be a variable's. */
enum status template_compile_take_name(struct template_compile *compile, struct slice *out);

/* --- instructions --- */

enum status template_compile_emit(struct template_compile *compile, uint32_t kind, uint32_t a,
                                  uint32_t b);
/* Emits an instruction whose literal is `text`. */
enum status template_compile_emit_text(struct template_compile *compile, uint32_t kind,
                                       struct slice text);
/* Makes the jump at `jump` come here. */
void template_compile_patch(struct template_compile *compile, uint32_t jump);
/* The distance from the next instruction to the one at `target`. */
uint32_t template_compile_distance(const struct template_compile *compile, uint32_t target);
/* Moves the instructions [from, middle) behind all later ones. */
enum status template_compile_rotate(struct template_compile *compile, uint32_t from,
                                    uint32_t middle);

/* --- scopes and variables --- */

enum status template_compile_open(struct template_compile *compile, uint32_t *id);
void template_compile_close(struct template_compile *compile);
/* Gives `name` the next slot of the innermost scope, which is not the template's. */
enum status template_compile_declare(struct template_compile *compile, struct slice name);
/* Emits the instruction that pushes a variable, or pops into one. */
enum status template_compile_load(struct template_compile *compile, struct slice name);
enum status template_compile_store(struct template_compile *compile, struct slice name);
/* The slot of a name in the template's scope; it gets one if it has none. */
enum status template_compile_root(struct template_compile *compile, struct slice name,
                                  uint32_t *slot);
