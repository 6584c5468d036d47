/* answer_json: follows one JSON value byte by byte.
 *
 * Owns:     nothing; the state is the caller's.
 * Thread:   one at a time.
 * Cost:     O(1) a byte; no allocation.
 * Not here: what the value means (answer_body_*), reading whole texts (config/base/json_read).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { ANSWER_JSON_DEPTH = 64 };

/* Zero-initialise it to begin; white space before the value is taken. */
struct answer_json {
    uint64_t objects; /* bit i: level i is an object, else an array */
    uint8_t depth;
    uint8_t state;
    uint8_t left;   /* hex digits that are still missing */
    uint8_t letter; /* of true, false or null: the next one */
    char word;      /* its first letter */
};

enum answer_json_step {
    ANSWER_JSON_MORE,   /* the byte belongs to the value, which goes on */
    ANSWER_JSON_LAST,   /* the byte is the value's last one */
    ANSWER_JSON_BEFORE, /* the value, a number, has ended before the byte */
    ANSWER_JSON_WRONG,  /* no JSON value has this byte here */
};

enum answer_json_step answer_json_push(struct answer_json *json, char byte);
/* Whether the value could end here: a number at the end of the text. */
bool answer_json_may_end(const struct answer_json *json);
/* Whether a byte of the value itself has come, not only white space before it. */
bool answer_json_has_begun(const struct answer_json *json);
