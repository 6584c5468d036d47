/* edge_json: walks over JSON text and hands out spans, so that an engine's bytes are passed on as
 * they are: no number is re-formatted, no string is unescaped.
 *
 * Owns:     nothing; spans point into the text.
 * Thread:   any.
 * Cost:     O(bytes) for each walk, no allocation, no recursion.
 * Not here: validation of what clients send (edge_body, and the engine's face behind it).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/json_scan.h"

/* A place in an object or array. Zero it to be at the start. */
struct edge_json_walk {
    struct slice text;
    size_t at;
    bool is_started;
};

/* A walk over the members of an object or the elements of an array; PROTOCOL when `text` is no
 * container of that kind. */
enum status edge_json_object(struct edge_json_walk *walk, struct slice text);
enum status edge_json_array(struct edge_json_walk *walk, struct slice text);

/* The next member (its key is a string's JSON text too) or element; `found` false at the end.
 * PROTOCOL when the text is not JSON as far as the walk has to look. */
enum status edge_json_member(struct edge_json_walk *walk, bool *found, struct json_value *key,
                             struct json_value *value);
enum status edge_json_element(struct edge_json_walk *walk, bool *found, struct json_value *value);

/* Appends the inside of a string, still escaped, to the inside of another one. PROTOCOL when the
 * value is no string. */
enum status edge_json_append_inside(struct buffer *out, struct json_value value);
/* A whole number from 0 to `most`. PROTOCOL when the value is anything else. */
enum status edge_json_number(struct json_value value, uint64_t most, uint64_t *out);
/* The same of text that is no JSON: of a header, or of a query. */
enum status edge_json_digits(struct slice text, uint64_t most, uint64_t *out);
/* Whether `text` is an error object of that code; then `message` is its message, maybe cut. */
bool edge_json_is_error(struct slice text, const char *code, char *message, size_t message_bytes);
/* The HTTP code for the error object (the value of "error") with which an engine ended an answer.
 * Types and codes are those of http_error: 400 for an invalid request; 503 for a queue timeout, a
 * busy or unavailable engine, or a used-up share; 500 for everything else. */
int edge_json_error_code(struct slice error);
/* Whether `text` is the error object of an engine whose room for the request's tenant is used up,
 * while it may have room for other tenants (STATUS_ENGINE_SHARE). */
bool edge_json_is_own_share(struct slice text);
/* The inside of an array without its brackets and outer space; "" for an empty one. */
enum status edge_json_inside(struct json_value array, struct slice *inside);
