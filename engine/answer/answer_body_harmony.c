#include "engine/answer/answer_body_harmony.h"

#include <string.h>

enum { HEAD_BYTES_MAX = 512 };

/* The text of a message has ended. */
static void message_end(struct answer_body_harmony *harmony, struct answer_emit *emit)
{
    if (emit->is_open)
        answer_emit_end(emit, true);
    *harmony = (struct answer_body_harmony){.has_calls = harmony->has_calls};
}

/* The name behind "to=functions." in a head, or an empty one. */
static struct slice head_recipient(struct slice head)
{
    static const char to[] = "to=functions.";
    const size_t skip = sizeof(to) - 1;
    const char *at = head.length > 0 ? memmem(head.bytes, head.length, to, skip) : NULL;
    struct slice name = {0};
    if (at == NULL)
        return name;
    name.bytes = at + skip;
    const char *end = head.bytes + head.length;
    while (name.bytes + name.length < end && name.bytes[name.length] != ' ' &&
           name.bytes[name.length] != '<')
        name.length++;
    return name;
}

/* The head has ended: what the text is. */
static void head_end(struct answer_body_harmony *harmony, struct answer_emit *emit)
{
    struct slice head = buffer_slice(&emit->held);
    struct slice channel = {0};
    if (harmony->has_channel)
        channel = (struct slice){head.bytes + harmony->channel, head.length - harmony->channel};
    struct slice name = head_recipient(head);
    harmony->kind = ANSWER_CONTENT;
    if (slice_starts_with(channel, SLICE("analysis")) && name.length == 0)
        harmony->kind = ANSWER_REASONING;
    else if (name.length > 0 && harmony->has_calls && answer_emit_begin(emit, name))
        harmony->kind = ANSWER_CALL_ARGUMENTS;
    harmony->is_in_text = true;
    emit->held.length = 0;
}

void answer_body_harmony_byte(struct answer_body_harmony *harmony, struct answer_emit *emit,
                              char byte)
{
    if (harmony->is_in_text) {
        answer_emit_byte(emit, harmony->kind, byte);
        return;
    }
    if (emit->held.length < HEAD_BYTES_MAX) {
        (void)answer_emit_hold(emit, (struct slice){&byte, 1});
        return;
    }
    /* No head is so long: the model does not keep to the format. */
    answer_emit_release(emit);
    answer_emit_byte(emit, ANSWER_CONTENT, byte);
    harmony->is_in_text = true;
    harmony->has_channel = false;
    harmony->kind = ANSWER_CONTENT;
}

void answer_body_harmony_mark(struct answer_body_harmony *harmony, struct answer_emit *emit,
                              enum answer_mark mark)
{
    switch (mark) {
    case ANSWER_START:
        message_end(harmony, emit);
        emit->held.length = 0;
        return;
    case ANSWER_CHANNEL:
        if (harmony->is_in_text)
            message_end(harmony, emit);
        (void)answer_emit_hold(emit, SLICE(" ")); /* parts the words before and behind it */
        harmony->has_channel = true;
        harmony->channel = (uint32_t)emit->held.length;
        return;
    case ANSWER_MESSAGE:
        if (!harmony->is_in_text)
            head_end(harmony, emit);
        return;
    case ANSWER_CONSTRAIN:
        if (!harmony->is_in_text)
            (void)answer_emit_hold(emit, SLICE(" "));
        return;
    default:
        message_end(harmony, emit);
        emit->held.length = 0;
        return;
    }
}

void answer_body_harmony_end(struct answer_body_harmony *harmony, struct answer_emit *emit)
{
    /* A head without a channel was no head. */
    if (!harmony->is_in_text && !harmony->has_channel)
        answer_emit_release(emit);
    message_end(harmony, emit);
}
