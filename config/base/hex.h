/* hex: the value of hex digits.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: writing hex digits, which printf does.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the value of a hex digit, in either case; -1 for any other byte. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Returns the value of the four hex digits at `at`; -1 when `left` is less than four bytes, or one
 * of them is no digit. */
static inline int32_t hex_unit(const char *at, size_t left)
{
    int32_t unit = 0;
    if (left < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}
