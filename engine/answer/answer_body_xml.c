#include "engine/answer/answer_body_xml.h"

#include <string.h>

enum state {
    STATE_FUNCTION, /* <function= must come */
    STATE_NAME,
    STATE_PARAMETER, /* <parameter= must come, or </function> */
    STATE_KEY,
    STATE_TEXT, /* up to </parameter> */
};

#define TAG_FUNCTION      "<function="
#define TAG_FUNCTION_END  "</function>"
#define TAG_PARAMETER     "<parameter="
#define TAG_PARAMETER_END "</parameter>"

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void answer_body_xml_begin(struct answer_body_xml *xml, const struct answer_tools *tools)
{
    *xml = (struct answer_body_xml){.tools = tools};
}

/* Adds a byte to the tag; whether it is still the beginning of `wanted`. */
static bool tag_fits(const struct answer_body_xml *xml, const char *wanted)
{
    return xml->tag_length <= strlen(wanted) && memcmp(xml->tag, wanted, xml->tag_length) == 0;
}

static bool tag_is(const struct answer_body_xml *xml, const char *wanted)
{
    return xml->tag_length == strlen(wanted) && tag_fits(xml, wanted);
}

static enum answer_step to(struct answer_body_xml *xml, enum state state)
{
    xml->state = (uint8_t)state;
    xml->tag_length = 0;
    xml->word_length = 0;
    return ANSWER_MORE;
}

static enum answer_step broken(struct answer_body_xml *xml, struct answer_emit *emit)
{
    if (!xml->is_named)
        return ANSWER_BROKEN;
    answer_emit_text(emit, ANSWER_CALL_ARGUMENTS, xml->has_parameters ? SLICE("}") : SLICE("{}"));
    answer_emit_end(emit, true);
    /* Bytes that looked like a tag are text behind the call; the last one is looked at again. */
    if (xml->tag_length > 0)
        (void)answer_emit_hold(emit, (struct slice){xml->tag, xml->tag_length - 1u});
    return ANSWER_ENDED;
}

/* --- texts of parameters --- */

static void text_begin(struct answer_body_xml *xml, struct answer_emit *emit)
{
    const struct slice key = {xml->word, xml->word_length};
    const struct slice name = {xml->name, xml->name_length};
    answer_emit_text(emit, ANSWER_CALL_ARGUMENTS,
                     xml->has_parameters ? SLICE(",\"") : SLICE("{\""));
    for (size_t i = 0; i < key.length; i++)
        answer_emit_escaped(emit, key.bytes[i]);
    answer_emit_text(emit, ANSWER_CALL_ARGUMENTS, SLICE("\":"));
    xml->is_text =
        xml->tools->is_text != NULL && xml->tools->is_text(xml->tools->context, name, key);
    if (xml->is_text)
        answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, '"');
    xml->has_parameters = true;
    xml->has_newline = false;
    xml->is_at_start = true;
    xml->is_json = true;
    xml->json = (struct answer_json){0};
    emit->held.length = 0;
}

/* The text is a string after all: what is held of it is given out. */
static void text_is_string(struct answer_body_xml *xml, struct answer_emit *emit)
{
    xml->is_text = true;
    answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, '"');
    for (size_t i = 0; i < emit->held.length; i++)
        answer_emit_escaped(emit, emit->held.bytes[i]);
    emit->held.length = 0;
}

/* One byte of a text that is no part of a tag. A string streams; what may be JSON is held. */
static void text_value(struct answer_body_xml *xml, struct answer_emit *emit, char byte)
{
    if (!xml->is_text) {
        enum answer_json_step step =
            xml->is_json ? answer_json_push(&xml->json, byte) : ANSWER_JSON_WRONG;
        /* Only white space may follow a value. */
        if (step == ANSWER_JSON_BEFORE && !is_blank(byte))
            step = ANSWER_JSON_WRONG;
        xml->is_json = step != ANSWER_JSON_WRONG;
        if (xml->is_json && answer_emit_hold(emit, (struct slice){&byte, 1}))
            return;
        text_is_string(xml, emit);
    }
    answer_emit_escaped(emit, byte);
}

static void text_byte(struct answer_body_xml *xml, struct answer_emit *emit, char byte)
{
    if (byte == '\n' && xml->is_at_start) {
        xml->is_at_start = false;
        return;
    }
    xml->is_at_start = false;
    if (xml->has_newline)
        text_value(xml, emit, '\n');
    xml->has_newline = byte == '\n';
    if (!xml->has_newline)
        text_value(xml, emit, byte);
}

static void text_end(struct answer_body_xml *xml, struct answer_emit *emit)
{
    if (!xml->is_text && !(xml->is_json && answer_json_may_end(&xml->json)))
        text_is_string(xml, emit);
    if (xml->is_text) {
        answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, '"');
        return;
    }
    answer_emit_text(emit, ANSWER_CALL_ARGUMENTS, buffer_slice(&emit->held));
    emit->held.length = 0;
}

/* --- tags --- */

static enum answer_step push_function(struct answer_body_xml *xml, struct answer_emit *emit,
                                      char byte)
{
    if (xml->tag_length == 0 && is_blank(byte))
        return ANSWER_MORE;
    xml->tag[xml->tag_length++] = byte;
    if (tag_is(xml, TAG_FUNCTION))
        return to(xml, STATE_NAME);
    return tag_fits(xml, TAG_FUNCTION) ? ANSWER_MORE : broken(xml, emit);
}

static enum answer_step push_name(struct answer_body_xml *xml, struct answer_emit *emit, char byte)
{
    if (byte == '>') {
        memcpy(xml->name, xml->word, xml->word_length);
        xml->name_length = xml->word_length;
        if (!answer_emit_begin(emit, (struct slice){xml->name, xml->name_length}))
            return ANSWER_BROKEN;
        xml->is_named = true;
        return to(xml, STATE_PARAMETER);
    }
    if (xml->word_length == sizeof(xml->word))
        return ANSWER_BROKEN;
    xml->word[xml->word_length++] = byte;
    return ANSWER_MORE;
}

static enum answer_step push_parameter(struct answer_body_xml *xml, struct answer_emit *emit,
                                       char byte)
{
    if (xml->tag_length == 0 && is_blank(byte))
        return ANSWER_MORE;
    xml->tag[xml->tag_length++] = byte;
    if (tag_is(xml, TAG_PARAMETER))
        return to(xml, STATE_KEY);
    if (tag_is(xml, TAG_FUNCTION_END)) {
        xml->tag_length = 0;
        (void)broken(xml, emit); /* ends the call in the same way */
        return ANSWER_DONE;
    }
    if (tag_fits(xml, TAG_PARAMETER) || tag_fits(xml, TAG_FUNCTION_END))
        return ANSWER_MORE;
    return broken(xml, emit);
}

static enum answer_step push_key(struct answer_body_xml *xml, struct answer_emit *emit, char byte)
{
    if (byte == '>') {
        text_begin(xml, emit);
        return to(xml, STATE_TEXT);
    }
    if (xml->word_length == sizeof(xml->word))
        return broken(xml, emit);
    xml->word[xml->word_length++] = byte;
    return ANSWER_MORE;
}

static enum answer_step push_text(struct answer_body_xml *xml, struct answer_emit *emit, char byte)
{
    xml->tag[xml->tag_length++] = byte;
    while (xml->tag_length > 0 && !tag_fits(xml, TAG_PARAMETER_END)) {
        text_byte(xml, emit, xml->tag[0]);
        memmove(xml->tag, xml->tag + 1, --xml->tag_length);
    }
    if (!tag_is(xml, TAG_PARAMETER_END))
        return ANSWER_MORE;
    text_end(xml, emit);
    return to(xml, STATE_PARAMETER);
}

enum answer_step answer_body_xml_byte(struct answer_body_xml *xml, struct answer_emit *emit,
                                      char byte)
{
    const bool is_held = !xml->is_named;
    if (is_held && !answer_emit_hold(emit, (struct slice){&byte, 1}))
        return ANSWER_BROKEN;
    enum answer_step step;
    switch ((enum state)xml->state) {
    case STATE_FUNCTION:
        step = push_function(xml, emit, byte);
        break;
    case STATE_NAME:
        step = push_name(xml, emit, byte);
        break;
    case STATE_PARAMETER:
        step = push_parameter(xml, emit, byte);
        break;
    case STATE_KEY:
        step = push_key(xml, emit, byte);
        break;
    default:
        step = push_text(xml, emit, byte);
        break;
    }
    if (step == ANSWER_BROKEN)
        emit->held.length--; /* the byte is looked at again */
    return step;
}

bool answer_body_xml_is_in_text(const struct answer_body_xml *xml)
{
    return xml->state == STATE_TEXT;
}

enum answer_step answer_body_xml_close(struct answer_body_xml *xml, struct answer_emit *emit)
{
    if (xml->state == STATE_TEXT) { /* the tag that ends the text is missing */
        for (uint8_t i = 0; i < xml->tag_length; i++)
            text_byte(xml, emit, xml->tag[i]);
        text_end(xml, emit);
    }
    xml->tag_length = 0;
    return broken(xml, emit) == ANSWER_BROKEN ? ANSWER_BROKEN : ANSWER_DONE;
}
