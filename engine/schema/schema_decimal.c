#include "engine/schema/schema_decimal.h"

_Static_assert(LIMIT_JSON_FRACTION_DIGITS == 17, "SCHEMA_DECIMAL_ONE has as many zeros");
_Static_assert(LIMIT_JSON_INTEGER_DIGITS + LIMIT_JSON_FRACTION_DIGITS < 36,
               "SCHEMA_DECIMAL_MOST is above all");

enum { EXPONENT_MOST = 1000000 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads what follows an e, and keeps it within bounds that are far beyond all that fits. */
static int32_t read_exponent(struct slice text, size_t at)
{
    bool is_negative = at < text.length && text.bytes[at] == '-';
    if (at < text.length && !is_digit(text.bytes[at]))
        at++;
    int32_t exponent = 0;
    for (; at < text.length; at++) {
        if (exponent < EXPONENT_MOST)
            exponent = exponent * 10 + (text.bytes[at] - '0');
    }
    return is_negative ? -exponent : exponent;
}

enum schema_decimal_fit schema_decimal_read(struct slice text, schema_decimal *out)
{
    size_t at = text.length > 0 && text.bytes[0] == '-' ? 1 : 0;
    bool is_negative = at == 1;
    size_t end = at;
    int32_t before = 0; /* digits before the point */
    bool has_point = false;
    for (; end < text.length && (is_digit(text.bytes[end]) || text.bytes[end] == '.'); end++) {
        has_point = has_point || text.bytes[end] == '.';
        before += !has_point;
    }
    /* The power of ten of the next digit. */
    int32_t power = before - 1 + (end < text.length ? read_exponent(text, end + 1) : 0);
    schema_decimal value = 0;
    enum schema_decimal_fit fit = SCHEMA_DECIMAL_EXACT;
    for (; at < end && fit != SCHEMA_DECIMAL_TOO_LARGE; at++) {
        if (text.bytes[at] == '.')
            continue;
        int digit = text.bytes[at] - '0';
        if (digit != 0 && power >= LIMIT_JSON_INTEGER_DIGITS) {
            fit = SCHEMA_DECIMAL_TOO_LARGE;
            value = SCHEMA_DECIMAL_MOST - 1;
        } else if (digit != 0 && power < -LIMIT_JSON_FRACTION_DIGITS) {
            fit = SCHEMA_DECIMAL_CUT;
        } else if (digit != 0) {
            schema_decimal part = digit;
            for (int32_t i = -LIMIT_JSON_FRACTION_DIGITS; i < power; i++)
                part *= 10;
            value += part;
        }
        power--;
    }
    *out = is_negative ? -value : value;
    return fit;
}

size_t schema_decimal_write(schema_decimal value, char out[SCHEMA_DECIMAL_BYTES])
{
    char digits[SCHEMA_DECIMAL_BYTES];
    size_t count = 0;
    size_t length = 0;
    if (value < 0) {
        out[length++] = '-';
        value = -value;
    }
    while (value != 0 || count <= LIMIT_JSON_FRACTION_DIGITS) {
        digits[count++] = (char)('0' + (int)(value % 10));
        value /= 10;
    }
    size_t last = 0; /* the digit that is written last */
    while (last < LIMIT_JSON_FRACTION_DIGITS && digits[last] == '0')
        last++;
    for (size_t i = count; i > last; i--) {
        if (i == LIMIT_JSON_FRACTION_DIGITS)
            out[length++] = '.';
        out[length++] = digits[i - 1];
    }
    return length;
}

schema_decimal schema_decimal_floor(schema_decimal value)
{
    schema_decimal whole = value / SCHEMA_DECIMAL_ONE;
    return value < 0 && !schema_decimal_is_integer(value) ? whole - 1 : whole;
}

schema_decimal schema_decimal_ceiling(schema_decimal value)
{
    return -schema_decimal_floor(-value);
}
