/* ask_read: one function for each field of ask_fields.def that is honoured. It takes a value whose
 * type and range are checked, checks what else the field demands, and writes it into the ask.
 *
 * Owns:     nothing; copies go into the ask's blocks.
 * Thread:   any.
 * Cost:     O(bytes of the value).
 * Not here: types and ranges of values, relations between fields (ask).
 */
#pragma once

#include "gateway/dialect/ask_types.h"

/* A value, and what it is by its type. */
struct ask_value {
    const char *name; /* of the field, which is its path */
    const json_t *json;
    bool yes;
    int64_t integer;
    double number;
    struct slice word;
};

#define HONOURED(field, in, kind, read)                                                            \
    enum status read(struct ask *ask, const struct ask_value *value);
#define HINT(field, in, kind)
#define REFUSED(field, in, instead)
#include "gateway/dialect/ask_fields.def"
#undef HONOURED
#undef HINT
#undef REFUSED
