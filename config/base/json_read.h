/* json_read: JSON text → an array of values in the order of the text, within the caller's bounds.
 *
 * Owns:     the array, and the strings that had escapes; other strings point into the text.
 * Thread:   any; what was read is not changed and may be shared.
 * Cost:     O(bytes); 24 bytes a value, a name counts as one; no recursion.
 * Not here: finding a few fields of a body without a tree (json_scan), what a field means.
 *
 * RFC 8259 without extensions, any value at the top, UTF-8 throughout. A name that stands twice in
 * one object is refused. So is an escape of half a surrogate pair, which is not a character.
 *
 * {"a": [1, 2.5]} becomes
 *
 *     0 OBJECT count 1, next 5    2 ARRAY count 2, next 5    4 FLOAT "2.5", next 5
 *     1 STRING "a", next 2        3 INTEGER "1", next 4
 *
 * `next` of a value is the index behind it and everything in it, so a reader walks over the members
 * of an object by taking a name at i, its value at i + 1, and the next name at that value's `next`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

enum json_read_kind {
    JSON_READ_NULL,
    JSON_READ_FALSE,
    JSON_READ_TRUE,
    JSON_READ_INTEGER, /* a number without point and exponent, of any size */
    JSON_READ_FLOAT,
    JSON_READ_STRING,
    JSON_READ_ARRAY,
    JSON_READ_OBJECT,
};

struct json_read_value {
    uint32_t kind; /* enum json_read_kind */
    uint32_t next;
    union {
        uint32_t count;  /* an array's elements, an object's members */
        uint32_t length; /* bytes of a string or a number */
    };
    const char *bytes; /* of a string without its escapes, of a number as it is written */
};

struct json_read_limits {
    uint32_t depth;  /* open arrays and objects */
    uint32_t values; /* names included */
};

struct json_read {
    struct json_read_value *values; /* [count]; the first one holds all others */
    uint32_t count;
    uint32_t capacity;
    char *strings; /* bytes of strings that had escapes */
    size_t strings_used;
};

/* Reads one value. `text` stays the caller's and must outlive `out`. INVALID names the position and
 * the fault, never the text; LIMIT, NO_MEMORY. After a failure nothing is left to free. */
enum status json_read(struct json_read *out, struct slice text,
                      const struct json_read_limits *limits);
void json_read_free(struct json_read *json);

/* Returns the text of a string or of a number; empty for every other kind. */
static inline struct slice json_read_text(const struct json_read_value *value)
{
    if (value->bytes == NULL) /* `length` is the count of an array or an object */
        return (struct slice){"", 0};
    return (struct slice){value->bytes, value->length};
}

/* Returns the value of the member `name` of the object at index `object`, or NULL. It looks at one
 * name after the other. */
const struct json_read_value *json_read_member(const struct json_read *json, uint32_t object,
                                               const char *name);
/* Returns whether `value` (may be NULL) is an integer that fits; only then sets `*out`. */
bool json_read_integer(const struct json_read_value *value, int64_t *out);
/* Returns whether `value` (may be NULL) is a number that a double holds; only then sets `*out`. The
 * double is the nearest one. */
bool json_read_number(const struct json_read_value *value, double *out);
