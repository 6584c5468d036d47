/* answer_body_json: reads calls whose bodies are JSON.
 *
 *   OBJECT, BARE   {"name":"f","arguments":{…}}       members in any order, or "parameters";
 *                                                     without a mark before it the name is first
 *   ARRAY          [{"name":…,"arguments":…},…]       or one object
 *   NAMED          f, separator, {…}                  or "function", separator, f, newline,
 *                                                     ```json, {…}, ```
 *
 * Owns:     nothing; the state is the splitter's.
 * Thread:   one at a time.
 * Cost:     O(1) a byte.
 * Not here: marks around calls (answer_split), other bodies.
 *
 * Arguments are the model's own bytes. Those that come before the name are held.
 */
#pragma once

#include "engine/answer/answer_emit.h"
#include "engine/answer/answer_format.h"
#include "engine/answer/answer_json.h"
#include "engine/answer/answer_step.h"

enum { ANSWER_BODY_WORD_BYTES = 80 };

struct answer_body_json {
    enum answer_body body;
    const struct answer_tools *tools; /* not NULL: no mark was before it */
    uint8_t state;
    uint8_t member; /* the one whose value is read */
    bool is_in_array;
    bool is_escaped;
    bool is_named;    /* the name is given out */
    bool is_complete; /* the arguments are */
    struct answer_json value;
    uint32_t from; /* arguments that came before the name: a part of what is held */
    uint32_t length;
    uint32_t word_length; /* a key, or the name */
    char word[ANSWER_BODY_WORD_BYTES];
};

void answer_body_json_begin(struct answer_body_json *json, enum answer_body body);
/* The same without a mark before it: the name comes first, and is one of `tools`. */
void answer_body_json_begin_unmarked(struct answer_body_json *json,
                                     const struct answer_tools *tools);
enum answer_step answer_body_json_byte(struct answer_body_json *json, struct answer_emit *emit,
                                       char byte);
/* NAMED: the separator has come. Inside of arguments it ends the call. */
enum answer_step answer_body_json_separator(struct answer_body_json *json,
                                            struct answer_emit *emit);
/* NAMED: whether the separator is expected now. */
bool answer_body_json_is_in_name(const struct answer_body_json *json);
