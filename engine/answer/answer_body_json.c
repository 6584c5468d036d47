#include "engine/answer/answer_body_json.h"

#include <string.h>

enum state {
    STATE_OPEN,  /* { must come, or [ */
    STATE_FIRST, /* a key, or } */
    STATE_NEXT,  /* a key */
    STATE_KEY,   /* inside a key */
    STATE_COLON,
    STATE_VALUE,
    STATE_AFTER,   /* behind a member */
    STATE_BETWEEN, /* behind an object of an array */
    STATE_NAME,    /* NAMED: the name, or the word before a separator */
    STATE_LINE,    /* NAMED: the name up to the end of its line */
    STATE_FENCE,   /* NAMED: before the arguments */
};

enum member { MEMBER_OTHER, MEMBER_NAME, MEMBER_ARGUMENTS };

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static enum answer_step to(struct answer_body_json *json, enum state state)
{
    json->state = (uint8_t)state;
    return ANSWER_MORE;
}

void answer_body_json_begin(struct answer_body_json *json, enum answer_body body)
{
    *json = (struct answer_body_json){.body = body};
    json->state = body == ANSWER_NAMED ? STATE_NAME : STATE_OPEN;
}

void answer_body_json_begin_unmarked(struct answer_body_json *json,
                                     const struct answer_tools *tools)
{
    answer_body_json_begin(json, ANSWER_BARE);
    json->tools = tools;
}

bool answer_body_json_is_in_name(const struct answer_body_json *json)
{
    return json->state == STATE_NAME;
}

static bool word_add(struct answer_body_json *json, char byte)
{
    if (json->word_length == sizeof(json->word))
        return false;
    json->word[json->word_length++] = byte;
    return true;
}

static struct slice word_trimmed(const struct answer_body_json *json)
{
    struct slice word = {json->word, json->word_length};
    while (word.length > 0 && is_blank(word.bytes[0]))
        word = (struct slice){word.bytes + 1, word.length - 1};
    while (word.length > 0 && is_blank(word.bytes[word.length - 1]))
        word.length--;
    return word;
}

/* Gives the name out, and arguments that came before it. */
static bool name_out(struct answer_body_json *json, struct answer_emit *emit, struct slice name)
{
    struct slice early = {emit->held.bytes + json->from, json->length};
    if (json->length == 0)
        early = (struct slice){0};
    if (json->tools != NULL && !answer_tools_has(json->tools, name))
        return false;
    if (!answer_emit_begin(emit, name))
        return false;
    json->is_named = true;
    /* The beginning of a call drops what is held, but keeps the memory. */
    answer_emit_text(emit, ANSWER_CALL_ARGUMENTS, early);
    return true;
}

/* Where a body breaks: what may be kept of it. */
static enum answer_step broken(struct answer_body_json *json, struct answer_emit *emit)
{
    if (!json->is_named)
        return ANSWER_BROKEN;
    if (json->state == STATE_VALUE && json->member == MEMBER_ARGUMENTS)
        return ANSWER_RAW;
    answer_emit_end(emit, true);
    return ANSWER_ENDED;
}

/* The object of a call has ended. */
static enum answer_step object_ended(struct answer_body_json *json, struct answer_emit *emit)
{
    if (!json->is_named)
        return ANSWER_BROKEN;
    answer_emit_end(emit, true);
    const bool is_in_array = json->is_in_array;
    const enum answer_body body = json->body;
    answer_body_json_begin(json, body);
    json->is_in_array = is_in_array;
    if (!is_in_array)
        return ANSWER_DONE;
    return to(json, STATE_BETWEEN);
}

static enum answer_step value_ended(struct answer_body_json *json, struct answer_emit *emit)
{
    json->state = STATE_AFTER;
    if (json->member == MEMBER_ARGUMENTS)
        json->is_complete = true;
    if (json->member != MEMBER_NAME)
        return ANSWER_MORE;
    struct slice name = word_trimmed(json);
    bool is_text = name.length >= 2 && name.bytes[0] == '"';
    if (!is_text || json->is_named ||
        !name_out(json, emit, (struct slice){name.bytes + 1, name.length - 2}))
        return ANSWER_BROKEN;
    return ANSWER_MORE;
}

/* A byte that belongs to the value. */
static bool value_byte(struct answer_body_json *json, struct answer_emit *emit, char byte)
{
    if (json->member == MEMBER_NAME)
        return word_add(json, byte);
    if (json->member != MEMBER_ARGUMENTS || !answer_json_has_begun(&json->value))
        return true;
    if (json->is_named)
        answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, byte);
    else if (json->length++ == 0)
        json->from = (uint32_t)emit->held.length - 1; /* the byte is held already */
    return true;
}

static enum answer_step push_after(struct answer_body_json *json, struct answer_emit *emit,
                                   char byte)
{
    if (is_blank(byte))
        return ANSWER_MORE;
    if (byte == ',')
        return to(json, STATE_NEXT);
    return byte == '}' ? object_ended(json, emit) : broken(json, emit);
}

static enum answer_step push_value(struct answer_body_json *json, struct answer_emit *emit,
                                   char byte)
{
    enum answer_json_step step = answer_json_push(&json->value, byte);
    if (step == ANSWER_JSON_WRONG)
        return broken(json, emit);
    if (step == ANSWER_JSON_BEFORE) {
        enum answer_step ended = value_ended(json, emit);
        return ended == ANSWER_MORE ? push_after(json, emit, byte) : ended;
    }
    if (!value_byte(json, emit, byte))
        return ANSWER_BROKEN;
    return step == ANSWER_JSON_LAST ? value_ended(json, emit) : ANSWER_MORE;
}

static enum answer_step push_key(struct answer_body_json *json, struct answer_emit *emit, char byte)
{
    if (byte == '"' && !json->is_escaped) {
        const struct slice key = {json->word, json->word_length};
        json->member = MEMBER_OTHER;
        if (slice_is(key, "name"))
            json->member = MEMBER_NAME;
        else if (slice_is(key, "arguments") || slice_is(key, "parameters"))
            json->member = MEMBER_ARGUMENTS;
        /* A second name or second arguments are no call's. */
        bool is_twice = (json->member == MEMBER_NAME && json->is_named) ||
                        (json->member == MEMBER_ARGUMENTS && (json->is_complete));
        bool is_early = json->tools != NULL && !json->is_named && json->member != MEMBER_NAME;
        json->word_length = 0;
        json->value = (struct answer_json){0};
        return is_twice || is_early ? broken(json, emit) : to(json, STATE_COLON);
    }
    json->is_escaped = byte == '\\' && !json->is_escaped;
    /* A longer key is another one, whatever it is. */
    (void)word_add(json, byte);
    return ANSWER_MORE;
}

static enum answer_step push_open(struct answer_body_json *json, struct answer_emit *emit,
                                  char byte)
{
    if (is_blank(byte))
        return ANSWER_MORE;
    if (byte == '[' && json->body == ANSWER_ARRAY && !json->is_in_array) {
        json->is_in_array = true;
        return ANSWER_MORE;
    }
    return byte == '{' ? to(json, STATE_FIRST) : broken(json, emit);
}

static enum answer_step push_between(struct answer_body_json *json, struct answer_emit *emit,
                                     char byte)
{
    if (is_blank(byte))
        return ANSWER_MORE;
    if (byte == ',')
        return to(json, STATE_OPEN);
    if (byte == ']') {
        emit->held.length = 0;
        return ANSWER_DONE;
    }
    return ANSWER_ENDED;
}

enum answer_step answer_body_json_separator(struct answer_body_json *json, struct answer_emit *emit)
{
    if (json->state != STATE_NAME) {
        if (!json->is_named)
            return ANSWER_BROKEN;
        answer_emit_end(emit, true);
        return ANSWER_ENDED;
    }
    if (slice_is(word_trimmed(json), "function")) {
        json->word_length = 0;
        return to(json, STATE_LINE);
    }
    json->member = MEMBER_ARGUMENTS;
    return to(json, STATE_FENCE);
}

/* The bodies that begin with the name. */
static enum answer_step push_named(struct answer_body_json *json, struct answer_emit *emit,
                                   char byte)
{
    enum answer_json_step step;
    switch ((enum state)json->state) {
    case STATE_LINE:
        if (byte == '\n') {
            json->member = MEMBER_ARGUMENTS;
            return to(json, STATE_FENCE);
        }
        return word_add(json, byte) ? ANSWER_MORE : ANSWER_BROKEN;
    case STATE_FENCE:
        if (is_blank(byte) || byte == '`' || strchr("json", byte) != NULL)
            return byte == '\0' ? ANSWER_BROKEN : ANSWER_MORE;
        if (byte != '{' || !name_out(json, emit, word_trimmed(json)))
            return ANSWER_BROKEN;
        json->state = STATE_VALUE;
        (void)answer_json_push(&json->value, byte);
        answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, byte);
        return ANSWER_MORE;
    case STATE_VALUE:
        step = answer_json_push(&json->value, byte);
        if (step == ANSWER_JSON_WRONG)
            return ANSWER_RAW;
        answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, byte);
        if (step != ANSWER_JSON_LAST)
            return ANSWER_MORE;
        answer_emit_end(emit, true);
        return ANSWER_DONE;
    default:
        return word_add(json, byte) ? ANSWER_MORE : ANSWER_BROKEN;
    }
}

static enum answer_step push_colon(struct answer_body_json *json, struct answer_emit *emit,
                                   char byte)
{
    if (is_blank(byte))
        return ANSWER_MORE;
    return byte == ':' ? to(json, STATE_VALUE) : broken(json, emit);
}

static enum answer_step push_member(struct answer_body_json *json, struct answer_emit *emit,
                                    char byte)
{
    if (is_blank(byte))
        return ANSWER_MORE;
    if (byte != '"')
        return broken(json, emit);
    json->word_length = 0;
    json->is_escaped = false;
    return to(json, STATE_KEY);
}

static enum answer_step push_object(struct answer_body_json *json, struct answer_emit *emit,
                                    char byte)
{
    switch ((enum state)json->state) {
    case STATE_OPEN:
        return push_open(json, emit, byte);
    case STATE_FIRST:
    case STATE_NEXT:
        return push_member(json, emit, byte);
    case STATE_KEY:
        return push_key(json, emit, byte);
    case STATE_COLON:
        return push_colon(json, emit, byte);
    case STATE_VALUE:
        return push_value(json, emit, byte);
    case STATE_BETWEEN:
        return push_between(json, emit, byte);
    default:
        return push_after(json, emit, byte);
    }
}

enum answer_step answer_body_json_byte(struct answer_body_json *json, struct answer_emit *emit,
                                       char byte)
{
    /* Until the name is known everything is held, in case that this is no call. */
    const bool is_held = !json->is_named;
    if (is_held && !answer_emit_hold(emit, (struct slice){&byte, 1}))
        return ANSWER_BROKEN;
    enum answer_step step =
        json->body == ANSWER_NAMED ? push_named(json, emit, byte) : push_object(json, emit, byte);
    /* The byte is looked at again. */
    if (is_held && (step == ANSWER_BROKEN || step == ANSWER_ENDED) && !json->is_named)
        emit->held.length--;
    return step;
}
