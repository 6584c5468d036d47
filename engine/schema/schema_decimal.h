/* schema_decimal: numbers of a schema, exact to LIMIT_JSON_FRACTION_DIGITS digits.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(digits).
 * Not here: regexes of numbers (schema_number).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits_schema.h"
#include "config/base/slice.h"

/* A number times 10^LIMIT_JSON_FRACTION_DIGITS. */
typedef __int128 schema_decimal;

enum schema_decimal_fit {
    SCHEMA_DECIMAL_EXACT,
    SCHEMA_DECIMAL_CUT,      /* digits that do not fit are cut, so it is nearer to zero */
    SCHEMA_DECIMAL_TOO_LARGE /* it is the greatest or least decimal */
};

enum { SCHEMA_DECIMAL_BYTES = LIMIT_JSON_INTEGER_DIGITS + LIMIT_JSON_FRACTION_DIGITS + 4 };

/* 1 as a decimal, and one more than the greatest value of which a number is taken. */
#define SCHEMA_DECIMAL_ONE  ((schema_decimal)100000000000000000)
#define SCHEMA_DECIMAL_MOST (SCHEMA_DECIMAL_ONE * SCHEMA_DECIMAL_ONE * 100)

/* Reads a number as JSON writes it. */
enum schema_decimal_fit schema_decimal_read(struct slice text, schema_decimal *out);
/* Writes it without needless digits; returns the length. */
size_t schema_decimal_write(schema_decimal value, char out[SCHEMA_DECIMAL_BYTES]);

static inline bool schema_decimal_is_integer(schema_decimal value)
{
    return value % SCHEMA_DECIMAL_ONE == 0;
}
/* The next integer that is at most, or at least, the value; as a number, not as a decimal. */
schema_decimal schema_decimal_floor(schema_decimal value);
schema_decimal schema_decimal_ceiling(schema_decimal value);
