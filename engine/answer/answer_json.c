#include "engine/answer/answer_json.h"

#include <string.h>

enum state {
    STATE_VALUE,       /* a value must come */
    STATE_FIRST_VALUE, /* the same, or the end of an array */
    STATE_FIRST_KEY,   /* a key, or the end of an object */
    STATE_KEY,         /* a key must come */
    STATE_KEY_TEXT,    /* inside a key */
    STATE_KEY_ESCAPE,
    STATE_KEY_HEX,
    STATE_COLON,
    STATE_TEXT, /* inside a string */
    STATE_ESCAPE,
    STATE_HEX,
    STATE_WORD,  /* true, false, null */
    STATE_MINUS, /* numbers: a digit must come */
    STATE_ZERO,
    STATE_DIGITS,
    STATE_POINT, /* a digit must come */
    STATE_FRACTION,
    STATE_EXPONENT,      /* a sign or a digit must come */
    STATE_EXPONENT_SIGN, /* a digit must come */
    STATE_EXPONENT_DIGITS,
    STATE_AFTER, /* behind a value inside an array or object */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum answer_json_step to(struct answer_json *json, enum state state)
{
    json->state = (uint8_t)state;
    return ANSWER_JSON_MORE;
}

/* A value has ended with this byte. */
static enum answer_json_step ended(struct answer_json *json)
{
    json->state = STATE_AFTER;
    return json->depth == 0 ? ANSWER_JSON_LAST : ANSWER_JSON_MORE;
}

static enum answer_json_step opened(struct answer_json *json, bool is_object)
{
    if (json->depth == ANSWER_JSON_DEPTH)
        return ANSWER_JSON_WRONG;
    uint64_t bit = UINT64_C(1) << json->depth++;
    json->objects = is_object ? json->objects | bit : json->objects & ~bit;
    return to(json, is_object ? STATE_FIRST_KEY : STATE_FIRST_VALUE);
}

static enum answer_json_step closed(struct answer_json *json, bool is_object)
{
    if (json->depth == 0 || (json->objects >> (json->depth - 1) & 1) != is_object)
        return ANSWER_JSON_WRONG;
    json->depth--;
    return ended(json);
}

static enum answer_json_step push_value(struct answer_json *json, char c)
{
    if (is_blank(c))
        return ANSWER_JSON_MORE;
    if (c == '"')
        return to(json, STATE_TEXT);
    if (c == '{' || c == '[')
        return opened(json, c == '{');
    if (c == ']' && json->state == STATE_FIRST_VALUE)
        return closed(json, false);
    if (c == 't' || c == 'f' || c == 'n') {
        json->word = c;
        json->letter = 1;
        return to(json, STATE_WORD);
    }
    if (c == '-')
        return to(json, STATE_MINUS);
    if (is_digit(c))
        return to(json, c == '0' ? STATE_ZERO : STATE_DIGITS);
    return ANSWER_JSON_WRONG;
}

static enum answer_json_step push_word(struct answer_json *json, char c)
{
    const char *word = json->word == 't' ? "true" : json->word == 'f' ? "false" : "null";
    if (word[json->letter] != c)
        return ANSWER_JSON_WRONG;
    json->letter++;
    return word[json->letter] == '\0' ? ended(json) : ANSWER_JSON_MORE;
}

static enum answer_json_step push_text(struct answer_json *json, char c, bool is_key)
{
    if ((unsigned char)c < 0x20)
        return ANSWER_JSON_WRONG;
    if (c == '\\')
        return to(json, is_key ? STATE_KEY_ESCAPE : STATE_ESCAPE);
    if (c != '"')
        return ANSWER_JSON_MORE;
    return is_key ? to(json, STATE_COLON) : ended(json);
}

static enum answer_json_step push_escape(struct answer_json *json, char c, bool is_key)
{
    if (c == 'u') {
        json->left = 4;
        return to(json, is_key ? STATE_KEY_HEX : STATE_HEX);
    }
    if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL)
        return ANSWER_JSON_WRONG;
    return to(json, is_key ? STATE_KEY_TEXT : STATE_TEXT);
}

static enum answer_json_step push_hex(struct answer_json *json, char c, bool is_key)
{
    if (!is_digit(c) && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F'))
        return ANSWER_JSON_WRONG;
    if (--json->left == 0)
        return to(json, is_key ? STATE_KEY_TEXT : STATE_TEXT);
    return ANSWER_JSON_MORE;
}

static enum answer_json_step push_key(struct answer_json *json, char c)
{
    if (is_blank(c))
        return ANSWER_JSON_MORE;
    if (c == '"')
        return to(json, STATE_KEY_TEXT);
    if (c == '}' && json->state == STATE_FIRST_KEY)
        return closed(json, true);
    return ANSWER_JSON_WRONG;
}

static enum answer_json_step push_after(struct answer_json *json, char c)
{
    if (is_blank(c))
        return ANSWER_JSON_MORE;
    bool is_object = (json->objects >> (json->depth - 1) & 1) != 0;
    if (c == ',')
        return to(json, is_object ? STATE_KEY : STATE_VALUE);
    if (c == '}' || c == ']')
        return closed(json, c == '}');
    return ANSWER_JSON_WRONG;
}

/* A number has ended before the byte. */
static enum answer_json_step number_ended(struct answer_json *json, char c)
{
    json->state = STATE_AFTER;
    return json->depth == 0 ? ANSWER_JSON_BEFORE : push_after(json, c);
}

static enum answer_json_step push_number(struct answer_json *json, char c)
{
    const enum state state = (enum state)json->state;
    bool has_digits = state == STATE_ZERO || state == STATE_DIGITS;
    if (is_digit(c)) {
        if (state == STATE_ZERO)
            return ANSWER_JSON_WRONG;
        if (state == STATE_MINUS)
            return to(json, c == '0' ? STATE_ZERO : STATE_DIGITS);
        if (state == STATE_POINT)
            return to(json, STATE_FRACTION);
        if (state == STATE_EXPONENT || state == STATE_EXPONENT_SIGN)
            return to(json, STATE_EXPONENT_DIGITS);
        return ANSWER_JSON_MORE;
    }
    if (c == '.' && has_digits)
        return to(json, STATE_POINT);
    if ((c == 'e' || c == 'E') && (has_digits || state == STATE_FRACTION))
        return to(json, STATE_EXPONENT);
    if ((c == '+' || c == '-') && state == STATE_EXPONENT)
        return to(json, STATE_EXPONENT_SIGN);
    if (has_digits || state == STATE_FRACTION || state == STATE_EXPONENT_DIGITS)
        return number_ended(json, c);
    return ANSWER_JSON_WRONG;
}

enum answer_json_step answer_json_push(struct answer_json *json, char byte)
{
    switch ((enum state)json->state) {
    case STATE_VALUE:
    case STATE_FIRST_VALUE:
        return push_value(json, byte);
    case STATE_FIRST_KEY:
    case STATE_KEY:
        return push_key(json, byte);
    case STATE_KEY_TEXT:
    case STATE_TEXT:
        return push_text(json, byte, json->state == STATE_KEY_TEXT);
    case STATE_KEY_ESCAPE:
    case STATE_ESCAPE:
        return push_escape(json, byte, json->state == STATE_KEY_ESCAPE);
    case STATE_KEY_HEX:
    case STATE_HEX:
        return push_hex(json, byte, json->state == STATE_KEY_HEX);
    case STATE_COLON:
        if (is_blank(byte))
            return ANSWER_JSON_MORE;
        return byte == ':' ? to(json, STATE_VALUE) : ANSWER_JSON_WRONG;
    case STATE_WORD:
        return push_word(json, byte);
    case STATE_AFTER:
        return json->depth == 0 ? ANSWER_JSON_BEFORE : push_after(json, byte);
    default:
        return push_number(json, byte);
    }
}

bool answer_json_may_end(const struct answer_json *json)
{
    const enum state state = (enum state)json->state;
    return json->depth == 0 &&
           (state == STATE_ZERO || state == STATE_DIGITS || state == STATE_FRACTION ||
            state == STATE_EXPONENT_DIGITS || state == STATE_AFTER);
}

bool answer_json_has_begun(const struct answer_json *json)
{
    return json->state != STATE_VALUE || json->depth > 0;
}
