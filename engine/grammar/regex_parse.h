/* regex_parse: the text of a regex (ECMA-262, a subset) to a node.
 *
 * Owns:     nothing; the node is in the pool.
 * Thread:   that of the pool.
 * Cost:     O(bytes) steps of fuel, and the nodes.
 * Not here: what nodes mean (regex), strings of JSON and their escapes (regex_write).
 *
 * Supported are alternatives, groups (named ones too), classes, `.`, `* + ? {m,n}` (a lazy one
 * matches the same texts as a greedy one), `\d \w \s` and their negations, escapes of characters,
 * `^` and `$` at the outer edges, and lookahead outside of groups. The error for an unsupported
 * construct names it: `\b`, other lookaround, back references, `\p`, anchors inside the regex. A
 * regex is read as with the flag `u`: a character is a code point.
 */
#pragma once

#include <stddef.h>

#include "engine/grammar/regex.h"

enum regex_match {
    REGEX_WHOLE,  /* the regex matches the whole text */
    REGEX_SEARCH, /* it matches somewhere in the text, as `pattern` of JSON Schema does */
};

/* Flags, for what other dialects write behind the regex. */
enum {
    REGEX_DOT_ALL = 1,     /* `.` matches line ends too */
    REGEX_IGNORE_CASE = 2, /* of the letters A to Z */
};

struct regex_error {
    size_t offset;     /* of the byte in the source */
    char message[200]; /* a whole sentence; it names the construct */
};

/* On failure `*out` is REGEX_NONE and `error` is filled:
 *   INVALID      the regex is broken, or is no UTF-8
 *   UNSUPPORTED  a construct that is known and not supported
 *   LIMIT        too large, or out of fuel
 *   CANCELLED, NO_MEMORY */
enum status regex_parse(struct regex_pool *pool, struct slice source, enum regex_match match,
                        regex_node_id *out, struct regex_error *error);
enum status regex_parse_flags(struct regex_pool *pool, struct slice source, enum regex_match match,
                              uint32_t flags, regex_node_id *out, struct regex_error *error);
