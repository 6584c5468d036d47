#include "engine/answer/answer_body_gemma.h"

#include <string.h>

enum state {
    STATE_NAME,  /* call:name, up to the brace */
    STATE_KEY,   /* before a key, or the end of the object */
    STATE_WORD,  /* inside a bare key */
    STATE_QUOTE, /* inside a key with marks */
    STATE_COLON,
    STATE_VALUE, /* a value, or what follows one */
    STATE_TEXT,  /* inside a string */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void answer_body_gemma_begin(struct answer_body_gemma *gemma)
{
    *gemma = (struct answer_body_gemma){0};
}

static enum answer_step to(struct answer_body_gemma *gemma, enum state state)
{
    gemma->state = (uint8_t)state;
    return ANSWER_MORE;
}

static bool is_in_object(const struct answer_body_gemma *gemma)
{
    return (gemma->objects >> (gemma->depth - 1) & 1) != 0;
}

static enum answer_step opened(struct answer_body_gemma *gemma, bool is_object)
{
    if (gemma->depth == ANSWER_JSON_DEPTH)
        return ANSWER_RAW;
    uint64_t bit = UINT64_C(1) << gemma->depth++;
    gemma->objects = is_object ? gemma->objects | bit : gemma->objects & ~bit;
    return to(gemma, is_object ? STATE_KEY : STATE_VALUE);
}

static enum answer_step closed(struct answer_body_gemma *gemma, struct answer_emit *emit,
                               bool is_object)
{
    if (is_in_object(gemma) != is_object)
        return ANSWER_RAW;
    answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, is_object ? '}' : ']');
    if (--gemma->depth > 0)
        return to(gemma, STATE_VALUE);
    answer_emit_end(emit, true);
    return ANSWER_DONE;
}

static enum answer_step push_name(struct answer_body_gemma *gemma, struct answer_emit *emit,
                                  char byte)
{
    static const char before[] = "call:";
    if (gemma->word_length == 0 && is_blank(byte))
        return ANSWER_MORE;
    const size_t skip = sizeof(before) - 1;
    if (byte == '{' && gemma->word_length > skip) {
        const struct slice name = {gemma->word + skip, gemma->word_length - skip};
        if (!answer_emit_begin(emit, name))
            return ANSWER_BROKEN;
        gemma->is_named = true;
        answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, '{');
        return opened(gemma, true);
    }
    bool is_wrong = gemma->word_length < skip && byte != before[gemma->word_length];
    if (is_wrong || gemma->word_length == sizeof(gemma->word))
        return ANSWER_BROKEN;
    gemma->word[gemma->word_length++] = byte;
    return ANSWER_MORE;
}

static enum answer_step push_key(struct answer_body_gemma *gemma, struct answer_emit *emit,
                                 char byte)
{
    if (is_blank(byte))
        return ANSWER_MORE;
    if (byte == '}')
        return closed(gemma, emit, true);
    if (byte == ':' || byte == ',' || byte == '{' || byte == '[' || byte == ']')
        return ANSWER_RAW;
    answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, '"');
    answer_emit_escaped(emit, byte);
    return to(gemma, STATE_WORD);
}

static enum answer_step push_value(struct answer_body_gemma *gemma, struct answer_emit *emit,
                                   char byte)
{
    if (byte == '}' || byte == ']')
        return closed(gemma, emit, byte == '}');
    answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, byte);
    if (byte == '{' || byte == '[')
        return opened(gemma, byte == '{');
    return byte == ',' && is_in_object(gemma) ? to(gemma, STATE_KEY) : ANSWER_MORE;
}

enum answer_step answer_body_gemma_byte(struct answer_body_gemma *gemma, struct answer_emit *emit,
                                        char byte)
{
    enum answer_step step = ANSWER_MORE;
    if (!gemma->is_named && !answer_emit_hold(emit, (struct slice){&byte, 1}))
        return ANSWER_BROKEN;
    switch ((enum state)gemma->state) {
    case STATE_NAME:
        step = push_name(gemma, emit, byte);
        if (step == ANSWER_BROKEN)
            emit->held.length--; /* the byte is looked at again */
        return step;
    case STATE_KEY:
        return push_key(gemma, emit, byte);
    case STATE_WORD:
        if (byte == ':') {
            answer_emit_text(emit, ANSWER_CALL_ARGUMENTS, SLICE("\":"));
            return to(gemma, STATE_VALUE);
        }
        answer_emit_escaped(emit, byte);
        return ANSWER_MORE;
    case STATE_COLON:
        if (byte != ':')
            return is_blank(byte) ? ANSWER_MORE : ANSWER_RAW;
        answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, ':');
        return to(gemma, STATE_VALUE);
    case STATE_QUOTE:
    case STATE_TEXT:
        answer_emit_escaped(emit, byte);
        return ANSWER_MORE;
    default:
        return push_value(gemma, emit, byte);
    }
}

enum answer_step answer_body_gemma_quote(struct answer_body_gemma *gemma, struct answer_emit *emit)
{
    if (!gemma->is_named)
        return ANSWER_BROKEN;
    answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, '"');
    switch ((enum state)gemma->state) {
    case STATE_KEY:
        return to(gemma, STATE_QUOTE);
    case STATE_QUOTE:
        return to(gemma, STATE_COLON);
    case STATE_VALUE:
        return to(gemma, STATE_TEXT);
    default:
        return to(gemma, STATE_VALUE);
    }
}
