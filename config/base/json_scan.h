/* json_scan: one pass over JSON text from outside. It checks that the text is one object within
 * bounds, and finds the few fields that the caller asks for.
 *
 * Owns:     nothing; values point into the text.
 * Thread:   any.
 * Cost:     O(bytes), about 0.6 µs a KiB of text; no allocation, no recursion, no tree.
 * Not here: what fields mean (edge_body, dialect/ask).
 *
 * The accepted texts are a subset of what jansson accepts with JSON_ALLOW_NUL, and the requested
 * fields have the same values. The rules:
 *
 * - RFC 8259 without extensions, one object at the top.
 * - UTF-8 throughout by RFC 3629: no overlong forms, no surrogates. Noncharacters such as U+FFFF
 *   are characters.
 * - \u0000 may stand in values, not in names.
 * - No escape of half a surrogate pair (RFC 7493 forbids it).
 * - Integers fit 64 bits with a sign. Decimal numbers are below 1e308; the exact greatest double
 *   would need big arithmetic.
 * - At most LIMIT_JSON_DEPTH levels and LIMIT_JSON_ELEMENTS values; at the top at most
 *   LIMIT_JSON_MEMBERS members, with names of at most LIMIT_NAME_BYTES.
 *
 * A name that occurs twice at the top is refused, with or without escapes. Duplicates in deeper
 * levels are not searched for, which would need memory for each name; the engine's face refuses
 * them, because its jansson keeps all names anyway.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "config/base/slice.h"

/* The JSON text of one value as written: a string has its quotes and its escapes. It is a type of
 * its own so that the compiler refuses it where the value of a string is wanted. Only
 * json_scan_unescape and json_scan_is read what a string says. */
struct json_value {
    const char *bytes; /* NULL: there is no value */
    size_t length;
};

/* A field to find in the top object. The caller sets `name`; json_scan sets `value`, or {NULL, 0}
 * when the object lacks the field. */
struct json_scan_field {
    const char *name;
    struct json_value value;
};

/* Checks `text` and fills the values. INVALID: the message gives position and kind of the fault and
 * never quotes the text. On failure the values mean nothing. */
enum status json_scan(struct slice text, struct json_scan_field *fields, size_t count);
/* The same with the caller's limit of values. */
enum status json_scan_most(struct slice text, struct json_scan_field *fields, size_t count,
                           uint32_t elements_most);

/* --- values that json_scan found --- */

bool json_scan_is_null(struct json_value value);
bool json_scan_is_string(struct json_value value);
bool json_scan_is_object(struct json_value value);
/* Returns whether a string contains \u0000. json_scan_unescape then writes a NUL before the end, so
 * the length is not that of a C string. */
bool json_scan_has_nul(struct json_value value);
/* Returns whether the value is true or false; *out says which. */
bool json_scan_bool(struct json_value value, bool *out);
/* As json_scan_is, for a string longer than `text` of `length` bytes, which may have escapes. */
bool json_scan_is_decoded(struct json_value value, const char *text, size_t length);
/* Returns whether the value is the string `text`, with or without escapes.
 * An escape is longer than what it stands for, so only a longer string needs to be decoded. */
static inline bool json_scan_is(struct json_value value, const char *text)
{
    size_t length = strlen(text);
    if (value.length < length + 2 || value.bytes[0] != '"')
        return false;
    if (value.length == length + 2)
        return memcmp(value.bytes + 1, text, length) == 0 && memchr(text, '\\', length) == NULL;
    return (value.bytes[1] == text[0] || value.bytes[1] == '\\') &&
           json_scan_is_decoded(value, text, length);
}
/* Writes the string, unescaped and terminated, to `out` of `capacity` bytes, cut at a character
 * boundary when it does not fit. Returns the bytes written without the NUL. `value` must be a
 * string. */
size_t json_scan_unescape(struct json_value value, char *out, size_t capacity);
/* The value's JSON text, to scan it again or to write it into other JSON. Never compare it with a
 * string, keep it as a name or show it to a person. */
static inline struct slice json_scan_text(struct json_value value)
{
    return (struct slice){value.bytes, value.length};
}
