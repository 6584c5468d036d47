/* parity_templates FILE: renders the cases that tests/parity/jinja/templates.py wrote, and compares
 * every byte with what jinja2 rendered. Prints a JSON line for each difference and one at the end.
 * Where jinja2 fails, so must this. */
#include <jansson.h>
#include <stdio.h>

#include "engine/text/chat_template.h"

enum { MESSAGES = 64 };

static struct slice string_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return (struct slice){json_string_value(value), json_string_length(value)};
}

static void difference(const json_t *template, const json_t *chat, const char *what,
                       struct slice got)
{
    json_t *line = json_pack(
        "{s:O, s:O, s:s, s:O, s:o}", "template", json_object_get(template, "name"), "chat",
        json_object_get(chat, "name"), "difference", what, "wanted", json_object_get(chat, "text"),
        "got", json_stringn(got.bytes != NULL ? got.bytes : "", got.length));
    json_dumpf(line, stdout, JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(line);
}

/* Returns whether the chat renders as in the reference. */
static bool chat_agrees(const struct chat_template *compiled, const struct clock *clock,
                        const json_t *template, const json_t *chat)
{
    struct chat_message messages[MESSAGES] = {0};
    const json_t *list = json_object_get(chat, "messages");
    size_t count = json_array_size(list);
    ASSERT(count <= MESSAGES);
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(list, i);
        messages[i].json = (struct slice){json_string_value(one), json_string_length(one)};
    }
    const struct chat_template_args args = {
        .messages = messages,
        .message_count = count,
        .content = CHAT_TEMPLATE_CONTENT_ANY,
        .add_generation_prompt = json_is_true(json_object_get(chat, "prompt")),
        .tools = string_of(chat, "tools"),
        .documents = string_of(chat, "documents"),
        .values = string_of(chat, "values"),
        .bos_token = SLICE("<s>"),
        .eos_token = SLICE("</s>"),
        .clock = clock,
    };
    struct chat_template_text text;
    enum status status = chat_template_render(compiled, &args, &text);
    bool is_refused = json_is_null(json_object_get(chat, "text"));
    bool agrees = is_refused ? status != STATUS_OK
                             : status == STATUS_OK &&
                                   slice_equals(buffer_slice(&text.bytes), string_of(chat, "text"));
    if (!agrees && status == STATUS_OK)
        difference(template, chat, is_refused ? "not refused" : "text", buffer_slice(&text.bytes));
    else if (!agrees)
        difference(template, chat, "refused", slice_of(status_note()->message));
    chat_template_text_free(&text);
    return agrees;
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *root = argc == 2 ? json_load_file(argv[1], 0, &error) : NULL;
    size_t compiled_count = 0;
    size_t chats = 0;
    size_t refused = 0;
    size_t equal = 0;
    struct clock clock;
    if (root == NULL) {
        fprintf(stderr, "usage: parity_templates FILE (made by tests/parity/jinja/templates.py)\n");
        return 2;
    }
    clock_manual_init(&clock, json_integer_value(json_object_get(root, "now_s")) * 1000000);
    const json_t *templates = json_object_get(root, "templates");
    for (size_t i = 0; i < json_array_size(templates); i++) {
        const json_t *template = json_array_get(templates, i);
        const json_t *list = json_object_get(template, "chats");
        struct chat_template *compiled = NULL;
        if (chat_template_compile(&compiled, string_of(template, "source")) != STATUS_OK) {
            difference(template, NULL, "not compiled", slice_of(status_note()->message));
            chats += json_array_size(list);
            continue;
        }
        compiled_count++;
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *chat = json_array_get(list, k);
            chats++;
            refused += json_is_null(json_object_get(chat, "text"));
            equal += chat_agrees(compiled, &clock, template, chat);
        }
        chat_template_destroy(compiled);
    }
    printf("{\"templates\":%zu,\"compiled\":%zu,\"chats\":%zu,\"refused_by_both\":%zu,\"equal\":%"
           "zu}\n",
           json_array_size(templates), compiled_count, chats, refused, equal);
    bool is_right = compiled_count == json_array_size(templates) && equal == chats && chats > 0;
    json_decref(root);
    return is_right ? 0 : 1;
}
