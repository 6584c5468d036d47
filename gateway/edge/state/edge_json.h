/* edge_json: walks over JSON text and returns slices of it, so that the engine's bytes reach the
 * client unchanged: numbers are not formatted again, and strings are not unescaped.
 *
 * Owns:     nothing; results point into the text.
 * Thread:   any.
 * Cost:     O(bytes) for each walk, no allocation, no recursion.
 * Not here: validation of what clients send (edge_body, and the engine's face behind it).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/json_scan.h"

/* A position in an object or array. edge_json_object and edge_json_array set it. A zeroed walk over
 * a text that begins behind the opening bracket works too. */
struct edge_json_walk {
    struct slice text;
    size_t at;
    bool is_started;
};

/* Begins a walk over the members of an object, or over the elements of an array. PROTOCOL when
 * `text` does not begin with that kind of container. */
enum status edge_json_object(struct edge_json_walk *walk, struct slice text);
enum status edge_json_array(struct edge_json_walk *walk, struct slice text);

/* The next member or element; `found` is false at the end. A member's key is JSON text too, quotes
 * included. PROTOCOL when the part that the walk has to look at is not JSON. */
enum status edge_json_member(struct edge_json_walk *walk, bool *found, struct json_value *key,
                             struct json_value *value);
enum status edge_json_element(struct edge_json_walk *walk, bool *found, struct json_value *value);

/* Appends what stands between the quotes of a JSON string, still escaped. PROTOCOL when the value
 * is not a string. */
enum status edge_json_append_inside(struct buffer *out, struct json_value value);
/* Reads a whole number from 0 to `most`. PROTOCOL when the value is anything else. */
enum status edge_json_number(struct json_value value, uint64_t most, uint64_t *out);
/* The same for text that is not JSON, such as a header or a query parameter. */
enum status edge_json_digits(struct slice text, uint64_t most, uint64_t *out);
/* Whether `text` is an error object with that code. If so, `message` holds its message, cut when it
 * is longer than `message_bytes`. */
bool edge_json_is_error(struct slice text, const char *code, char *message, size_t message_bytes);
/* The HTTP code for the error object (the value of "error") with which an engine ended an answer.
 * The object's type and code are compared with those of http_error: an invalid request gives 400, a
 * queue timeout, a busy or unavailable engine and a used-up share give their own codes, and
 * everything else gives 500. */
int edge_json_error_code(struct slice error);
/* Whether `text` is the error with which an engine says that the request's tenant has used up its
 * share of the engine, while other tenants may still have room (STATUS_ENGINE_SHARE). */
bool edge_json_is_own_share(struct slice text);
/* What stands between the brackets of an array, without the space at both ends; "" for an empty
 * array. PROTOCOL when the value is not an array. */
enum status edge_json_inside(struct json_value array, struct slice *inside);
