/* admin_body: reads the JSON objects that admins send: known fields, right types, nothing else.
 *
 * Owns:     the parsed tree of one body.
 * Thread:   any.
 * Cost:     one jansson tree of at most LIMIT_ADMIN_BODY_BYTES of text.
 * Not here: what values mean (auth/tenant checks those).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

enum admin_body_kind { ADMIN_BODY_TEXT, ADMIN_BODY_NUMBER };

struct admin_body_field {
    const char *name;
    enum admin_body_kind kind;
    bool is_required;
    int64_t least; /* numbers */
    int64_t most;  /* numbers; bytes of a text */
    /* Results. */
    bool is_given;
    char text[256]; /* valid UTF-8 without NUL */
    int64_t number;
};

/* Fills `fields` from a JSON object. INVALID, OUT_OF_RANGE or UNSUPPORTED (a field that is not in
 * the list), with param; an empty body counts as {}. */
enum status admin_body_read(struct slice body, struct admin_body_field *fields, size_t count);
