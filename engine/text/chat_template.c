#include "engine/text/chat_template.h"

#include <string.h>

#include "config/base/mem.h"
#include "engine/text/chat_template_eval.h"
#include "engine/text/chat_template_parser.h"

struct chat_template {
    struct chat_template_program program;
};

/* Turns \r\n and \r into \n, as Jinja does before it parses a template. */
static void compile_newlines(struct slice source, struct buffer *out)
{
    for (size_t at = 0; at < source.length; at++) {
        char c = source.bytes[at];
        if (c != '\r')
            buffer_append_char(out, c);
        else if (at + 1 == source.length || source.bytes[at + 1] != '\n')
            buffer_append_char(out, '\n');
    }
}

enum status chat_template_compile(struct chat_template **out, struct slice source)
{
    *out = NULL;
    if (source.length > LIMIT_TEMPLATE_BYTES)
        FAIL(STATUS_LIMIT, "the chat template is longer than %d bytes", LIMIT_TEMPLATE_BYTES);
    struct chat_template *chat_template = mem_zalloc(1, sizeof(*chat_template));
    if (chat_template == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the chat template");
    struct buffer text;
    buffer_init(&text, LIMIT_TEMPLATE_BYTES);
    compile_newlines(source, &text);
    enum status status = text.status;
    if (status == STATUS_OK)
        status = chat_template_parser_run(&chat_template->program, buffer_slice(&text));
    buffer_deinit(&text);
    if (status != STATUS_OK) {
        mem_free(chat_template);
        return status;
    }
    *out = chat_template;
    return STATUS_OK;
}

void chat_template_destroy(struct chat_template *chat_template)
{
    if (chat_template == NULL)
        return;
    chat_template_parser_free(&chat_template->program);
    mem_free(chat_template);
}

static bool writes_at(struct slice text, size_t at, struct slice part)
{
    return part.length <= text.length - at && memcmp(text.bytes + at, part.bytes, part.length) == 0;
}

/* Marks how far this literal can continue text: `reached[i]` says that text[0 … i) can be written
 * so that it ends where a literal ends. True when the end of the text is reached. */
static bool writes_literal(struct slice text, struct slice literal, const bool *reached, bool *next)
{
    for (size_t at = 0; at < text.length; at++) {
        if (at == 0) { /* the text may begin inside the literal */
            if (memmem(literal.bytes, literal.length, text.bytes, text.length) != NULL)
                return true;
            for (size_t length = 1; length < text.length && length <= literal.length; length++)
                next[length] |=
                    memcmp(text.bytes, literal.bytes + literal.length - length, length) == 0;
        } else if (reached[at]) {
            size_t left = text.length - at;
            if (literal.length >= left && memcmp(text.bytes + at, literal.bytes, left) == 0)
                return true;
            if (literal.length > 0 && writes_at(text, at, literal))
                next[at + literal.length] = true;
        }
    }
    return false;
}

bool chat_template_writes(const struct chat_template *chat_template, struct slice text)
{
    const struct chat_template_program *program = &chat_template->program;
    bool reached[LIMIT_TOKEN_BYTES + 1] = {false};
    bool before[LIMIT_TOKEN_BYTES + 1];
    ASSERT(text.length >= 1);
    ASSERT(text.length <= LIMIT_TOKEN_BYTES);
    do { /* a round that reaches nothing new is the last */
        memcpy(before, reached, sizeof(before));
        for (uint32_t i = 0; i < program->count; i++) {
            const struct chat_template_code *code = &program->code[i];
            if (code->kind != CHAT_TEMPLATE_CODE_TEXT && code->kind != CHAT_TEMPLATE_CODE_STRING)
                continue;
            const struct slice literal = {program->literals.bytes + code->a, code->b};
            if (writes_literal(text, literal, reached, reached))
                return true;
        }
    } while (memcmp(before, reached, sizeof(before)) != 0);
    return false;
}

enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_template_args *args,
                                 struct chat_template_text *out)
{
    return chat_template_eval_run(&chat_template->program, args, out, NULL);
}

void chat_template_text_free(struct chat_template_text *text)
{
    buffer_deinit(&text->bytes);
    mem_free(text->spans);
    *text = (struct chat_template_text){0};
}
