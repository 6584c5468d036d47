/* decimal: whole numbers that a text writes in decimal digits.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over the text.
 * Not here: signs, fractions and exponents (json_scan), units (config_option).
 */
#pragma once

#include "config/base/slice.h"

enum decimal {
    DECIMAL_READ,
    DECIMAL_MALFORMED, /* empty, or with a byte that is no digit */
    DECIMAL_TOO_LARGE, /* digits alone, and above `most` */
};

/* Reads a text of digits and nothing else; zeros may stand before the number. `*out` is changed
 * only by DECIMAL_READ. */
enum decimal decimal_read(struct slice text, uint64_t most, uint64_t *out);
