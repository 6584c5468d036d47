#include "engine/text/chat_template_probe.h"

#define PROBE_USER SLICE("{\"role\":\"user\",\"content\":\"qzuserqz\"}")

/* Whether a render succeeds and has `word`; gives its bytes if `out` is not NULL. */
static bool probe_render(const struct chat_template *chat_template,
                         const struct chat_template_args *args, const char *word, bool *succeeds,
                         struct chat_template_text *out)
{
    struct chat_template_text text;
    *succeeds = chat_template_render(chat_template, args, &text) == STATUS_OK;
    bool has_word = *succeeds && text.bytes.length > 0 &&
                    memmem(text.bytes.bytes, text.bytes.length, word, strlen(word)) != NULL;
    if (out != NULL)
        *out = text;
    else
        chat_template_text_free(&text);
    return has_word;
}

/* A template takes parts when it makes the same of one part as of its text. */
static enum chat_template_content probe_content(const struct chat_template *chat_template,
                                                struct chat_template_args args)
{
    const struct chat_message string = {.json = PROBE_USER};
    const struct chat_message parts = {
        .json =
            SLICE("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"qzuserqz\"}]}")};
    struct chat_template_text of_string;
    struct chat_template_text of_parts;
    bool succeeds;
    args.content = CHAT_TEMPLATE_CONTENT_ANY;
    args.message_count = 1;
    args.messages = &string;
    bool takes_string = probe_render(chat_template, &args, "qzuserqz", &succeeds, &of_string);
    args.messages = &parts;
    bool takes_parts = probe_render(chat_template, &args, "qzuserqz", &succeeds, &of_parts);
    bool is_same = slice_equals(buffer_slice(&of_string.bytes), buffer_slice(&of_parts.bytes));
    chat_template_text_free(&of_string);
    chat_template_text_free(&of_parts);
    if (takes_string)
        return takes_parts && is_same ? CHAT_TEMPLATE_CONTENT_ANY : CHAT_TEMPLATE_CONTENT_STRING;
    return takes_parts ? CHAT_TEMPLATE_CONTENT_PARTS : CHAT_TEMPLATE_CONTENT_STRING;
}

/* A template needs content when it takes a call of a tool beside an empty text, and refuses it or
 * writes Python's None beside no content. */
static bool probe_needs_content(const struct chat_template *chat_template,
                                struct chat_template_args args)
{
#define PROBE_CALL(content)                                                                        \
    SLICE("{\"role\":\"assistant\",\"content\":" content                                           \
          ",\"tool_calls\":[{\"type\":\"function\","                                               \
          "\"id\":\"qzcallid1\",\"function\":{\"name\":\"qztoolqz\",\"arguments\":{}}}]}")
    const struct chat_message empty[] = {{.json = PROBE_USER}, {.json = PROBE_CALL("\"\"")}};
    const struct chat_message none[] = {{.json = PROBE_USER}, {.json = PROBE_CALL("null")}};
#undef PROBE_CALL
    bool takes_empty;
    bool takes_none;
    args.message_count = 2;
    args.messages = empty;
    (void)probe_render(chat_template, &args, "None", &takes_empty, NULL);
    args.messages = none;
    bool writes_none = probe_render(chat_template, &args, "None", &takes_none, NULL);
    return takes_empty && (!takes_none || writes_none);
}

void chat_template_probe(const struct chat_template *chat_template, struct slice bos_token,
                         struct slice eos_token, struct chat_template_takes *out)
{
    const struct chat_message messages[2] = {
        {.json = SLICE("{\"role\":\"system\",\"content\":\"qzsystemqz\"}")}, {.json = PROBE_USER}};
    struct chat_template_args args = {
        .add_generation_prompt = true, .bos_token = bos_token, .eos_token = eos_token};
    bool succeeds;
    *out = (struct chat_template_takes){.content = probe_content(chat_template, args)};
    args.content = out->content;
    out->needs_content = probe_needs_content(chat_template, args);
    args.needs_content = out->needs_content;
    args.messages = messages;
    args.message_count = 2;
    bool has_system = probe_render(chat_template, &args, "qzsystemqz", &succeeds, NULL);
    out->ignores_system = succeeds && !has_system;
    args.tools =
        SLICE("[{\"type\":\"function\",\"function\":{\"name\":\"qztoolqz\",\"description\":\"a\","
              "\"parameters\":{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"string\","
              "\"description\":\"c\"}},\"required\":[\"b\"]}}}]");
    for (size_t skip = 0; skip < 2 && !out->tools; skip++) { /* with a system message and without */
        args.messages = messages + skip;
        args.message_count = 2 - skip;
        out->tools = probe_render(chat_template, &args, "qztoolqz", &succeeds, NULL);
    }
}
