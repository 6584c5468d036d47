/* schema_text: the text of JSON as regexes: white space, strings and their escapes, numbers.
 *
 * Owns:     nothing; the regexes are in the builder's pool.
 * Thread:   that of the compilation.
 * Cost:     O(nodes) for a regex of characters that is written as text.
 * Not here: rules (schema_write), which characters a string may have (schema_string).
 *
 * Strings are described twice. Patterns, lengths and names speak of *characters*: the string's own
 * bytes in UTF-8. Between its quotes a string is *text*, in which a quote, a backslash and control
 * characters are escapes. Each character has one escape (the hexadecimal digits of \u00XX in
 * capitals or not), so the contrary of characters is also exact as text.
 */
#pragma once

#include "engine/grammar/regex.h"
#include "engine/schema/schema.h"

struct schema_text {
    /* characters */
    regex_node_id any_character;
    regex_node_id any_characters;
    /* text */
    regex_node_id blank; /* white space that is allowed between two tokens */
    regex_node_id quote;
    regex_node_id quoted_character;
    regex_node_id digit;
    regex_node_id zero;
    regex_node_id any_number;
    regex_node_id any_integer;
    regex_node_id plain_magnitude; /* a plain number without its sign */
    regex_node_id plain_number;
    regex_node_id plain_fraction; /* a plain number that is no integer */
    struct regex_writing writing;
};

/* Makes schema->text. */
enum status schema_text_begin(struct schema *schema);

regex_node_id schema_text_of(struct schema *schema, const char *text);
/* A digit from `low` to `high`. */
regex_node_id schema_text_digits(struct schema *schema, int low, int high);
regex_node_id schema_text_cat3(struct schema *schema, regex_node_id a, regex_node_id b,
                               regex_node_id c);
/* Whether it is seen that no text matches, by LIMIT_SCHEMA_EMPTY_STEPS derivatives. */
bool schema_text_is_empty(struct schema *schema, regex_node_id regex);
/* A string of these characters, with its quotes. */
regex_node_id schema_text_string(struct schema *schema, regex_node_id characters);
/* A string of any characters. */
regex_node_id schema_text_any_string(struct schema *schema, uint32_t length_min,
                                     uint32_t length_max);
/* Punctuation with the white space beside it: one of {}[], and the comma. */
regex_node_id schema_text_mark(struct schema *schema, char mark);
/* A name with its quotes and colon, and perhaps a comma before it. */
regex_node_id schema_text_name(struct schema *schema, regex_node_id characters, bool has_comma);

/* Several regexes, of which one matches. */
struct schema_text_many {
    regex_node_id *nodes;
    uint32_t count;
};
enum status schema_text_many_begin(struct schema *schema, uint32_t capacity,
                                   struct schema_text_many *many);
void schema_text_many_add(struct schema_text_many *many, regex_node_id node);
regex_node_id schema_text_many_or(struct schema *schema, struct schema_text_many *many);
