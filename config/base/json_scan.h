/* json_scan: one pass over JSON text from outside: is it one object within bounds, and where are
 * the few fields that are asked for.
 *
 * Owns:     nothing; spans point into the text.
 * Thread:   any.
 * Cost:     O(bytes), about 0.6 µs a KiB of text; no allocation, no recursion, no tree.
 * Not here: what fields mean (edge_body, engine_http/face_request).
 *
 * Accepted is a part of what jansson accepts with JSON_ALLOW_NUL, with the same values of the
 * fields asked for: RFC 8259 and nothing beside it, UTF-8 throughout (RFC 3629: no overlong forms,
 * no surrogates; noncharacters such as U+FFFF are characters), \u0000 in values and not in names,
 * no half of a surrogate pair as an escape (RFC 7493 forbids it, no text has one), integers of 64
 * bits with a sign, decimal numbers below 1e308 (the exact greatest double would need big
 * arithmetic), one object at the top. At most LIMIT_JSON_DEPTH levels, LIMIT_JSON_ELEMENTS values,
 * and at the top LIMIT_JSON_MEMBERS members with names of LIMIT_NAME_BYTES.
 *
 * A name that stands twice at the top is refused, however it is written (with escapes or without).
 * Deeper duplicates are not looked for: that needs memory for each name. The engine's face, whose
 * jansson keeps its names anyway, refuses those.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

/* JSON text of one value as it is written: a string has its quotes and its escapes. The type is its
 * own so that the compiler refuses it wherever the value of a string is wanted: what a string says
 * is read by json_scan_unescape or json_scan_is alone. */
struct json_value {
    const char *bytes; /* NULL: there is no value */
    size_t length;
};

/* A member of the top object: asked for by `name`, `value` filled as it is written (a string with
 * its quotes), {NULL, 0} when it is not there. */
struct json_scan_field {
    const char *name;
    struct json_value value;
};

/* INVALID with a text that tells place and kind of the fault, never what stands there. On failure
 * the values mean nothing. */
enum status json_scan(struct slice text, struct json_scan_field *fields, size_t count);
/* The same with a limit of values of its own. */
enum status json_scan_most(struct slice text, struct json_scan_field *fields, size_t count,
                           uint32_t elements_most);

/* --- values that json_scan has found --- */

bool json_scan_is_null(struct json_value value);
bool json_scan_is_string(struct json_value value);
bool json_scan_is_object(struct json_value value);
/* Whether a string has \u0000 in it. What json_scan_unescape writes then has a NUL before its end,
 * so its length is not that of a C string. */
bool json_scan_has_nul(struct json_value value);
/* Whether the value is true or false, and which. */
bool json_scan_bool(struct json_value value, bool *out);
/* Whether the value is the string `text`, however it is written (with escapes or without). */
bool json_scan_is(struct json_value value, const char *text);
/* The string unescaped and terminated, cut at a character when it is longer than the room; returns
 * the bytes written. `value` is a string. */
size_t json_scan_unescape(struct json_value value, char *out, size_t capacity);
/* The value's own text, to be scanned again or written into other JSON; never to be compared with a
 * string, kept as a name or shown to a person. */
static inline struct slice json_scan_text(struct json_value value)
{
    return (struct slice){value.bytes, value.length};
}
