#include "config/base/decimal.h"

enum decimal decimal_read(struct slice text, uint64_t most, uint64_t *out)
{
    uint64_t number = 0;
    bool is_too_large = false;
    for (size_t i = 0; i < text.length; i++) {
        const char c = text.bytes[i];
        if (c < '0' || c > '9')
            return DECIMAL_MALFORMED;
        is_too_large = is_too_large || __builtin_mul_overflow(number, UINT64_C(10), &number) ||
                       __builtin_add_overflow(number, (uint64_t)(c - '0'), &number) ||
                       number > most;
    }
    if (text.length == 0)
        return DECIMAL_MALFORMED;
    if (is_too_large)
        return DECIMAL_TOO_LARGE;
    *out = number;
    return DECIMAL_READ;
}
