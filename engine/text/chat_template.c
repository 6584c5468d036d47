#include "engine/text/chat_template.h"

#include "config/base/mem.h"
#include "engine/text/chat_template_eval.h"
#include "engine/text/chat_template_parser.h"

struct chat_template {
    struct chat_template_program program;
};

/* Writes \r\n and \r as \n, as Jinja does before it looks at a template. */
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

enum status chat_template_render(const struct chat_template *chat_template,
                                 const struct chat_template_args *args, struct buffer *out,
                                 struct tokenizer_span *spans, size_t span_capacity,
                                 size_t *span_count)
{
    return chat_template_eval_run(&chat_template->program, args, out, spans, span_capacity,
                                  span_count, NULL);
}
