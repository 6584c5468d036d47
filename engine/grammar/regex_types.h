/* regex_types: ids of regexes and small values that the files of a pool share.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Not here: what is done with them (regex).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t regex_node_id;

#define REGEX_NONE      ((regex_node_id)0) /* matches nothing */
#define REGEX_EMPTY     ((regex_node_id)1) /* matches the empty text alone */
#define REGEX_ALL       ((regex_node_id)2) /* matches every string of bytes, UTF-8 or not */
#define REGEX_UNBOUNDED UINT32_MAX         /* `max` of regex_repeat */

/* Code points from `first` to `last`, both included. */
struct regex_range {
    uint32_t first;
    uint32_t last;
};

/* What a state of a lexer can tell about masks: the regex is `X{min,max} tail` where X holds each
 * character of a class by itself. Texts of at most `max` such characters can go on. */
struct regex_run {
    uint32_t chars; /* a class of regex_chars_of, or REGEX_RUN_NONE */
    uint32_t max;   /* or REGEX_UNBOUNDED */
    bool is_exact;  /* longer texts of the class cannot go on: the tail begins with other bytes */
};
#define REGEX_RUN_NONE UINT32_MAX
