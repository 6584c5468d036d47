#include "engine/answer/answer_format.h"

static const struct answer_format formats[] = {
#define ANSWER_FORMAT(row, kind, letters, first, second, ...)                                      \
    {.name = #row,                                                                                 \
     .body = ANSWER_##kind,                                                                        \
     .id_letters = (letters),                                                                      \
     .holds = {(first), (second)},                                                                 \
     .marks = {__VA_ARGS__}},
#include "engine/answer/answer_formats.def"
#undef ANSWER_FORMAT
};

enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

const struct answer_format *answer_format_named(const char *name)
{
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    }
    return NULL;
}

static bool find_holds(struct slice text, const char *part)
{
    size_t length = strlen(part);
    return length == 0 ||
           (text.length > 0 && memmem(text.bytes, text.length, part, length) != NULL);
}

/* The last row holds for every template. */
static const struct answer_format *find_row(struct slice chat_template, bool takes_tools)
{
    for (size_t i = 0; i + 1 < FORMATS && takes_tools; i++) {
        if (find_holds(chat_template, formats[i].holds[0]) &&
            find_holds(chat_template, formats[i].holds[1]))
            return &formats[i];
    }
    return &formats[FORMATS - 1];
}

void answer_format_find(struct answer_model *out, struct slice chat_template, bool takes_tools,
                        const struct vocab *vocab)
{
    const struct answer_format *format = find_row(chat_template, takes_tools);
    const char *close = format->marks[ANSWER_REASON_CLOSE];
    *out = (struct answer_model){.format = format};
    out->has_reasoning =
        format->body == ANSWER_HARMONY || (close != NULL && find_holds(chat_template, close));
    out->reads_effort = find_holds(chat_template, "reasoning_effort");
    out->reads_thinking = find_holds(chat_template, "enable_thinking");
    out->reads_verbosity = find_holds(chat_template, "verbosity");
    for (size_t i = 0; i < ANSWER_MARKS; i++)
        out->tokens[i] = VOCAB_NONE;
    for (uint32_t id = 0; vocab != NULL && id < vocab_size(vocab); id++) {
        for (size_t i = 0; i < ANSWER_MARKS && vocab_is_control(vocab, id); i++) {
            if (format->marks[i] != NULL && slice_is(vocab_bytes(vocab, id), format->marks[i]))
                out->tokens[i] = id;
        }
    }
}

enum answer_mark answer_format_mark(const struct answer_model *model, uint32_t token)
{
    size_t i = 0;
    while (i < ANSWER_MARKS && model->tokens[i] != token)
        i++;
    return token == VOCAB_NONE ? ANSWER_MARKS : (enum answer_mark)i;
}
