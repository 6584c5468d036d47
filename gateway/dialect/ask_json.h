/* ask_json: reads JSON values of a request by type, with errors that say what is wrong.
 *
 * Owns:     nothing; the values belong to the request's root.
 * Thread:   any.
 * Cost:     O(1) for a value.
 * Not here: which fields exist (ask).
 *
 * Every function takes the path of the value ("messages[0].role"), which becomes the error's param,
 * and fails with INVALID (wrong type) or OUT_OF_RANGE. No value is clamped.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

/* Parses a body; `*out` is a reference of the caller's. INVALID unless the body is an object
 * without duplicate keys and without NUL in keys, with at most LIMIT_JSON_DEPTH levels and
 * LIMIT_JSON_ELEMENTS values. Strings may have NUL characters: read them with ask_json_string or
 * ask_json_word. */
enum status ask_json_parse(struct slice body, json_t **out);

enum status ask_json_bool(const json_t *value, const char *path, bool *out);
enum status ask_json_integer(const json_t *value, const char *path, int64_t least, int64_t most,
                             int64_t *out);
/* A number in [least, most], or in (least, most] when `is_open`. */
enum status ask_json_number(const json_t *value, const char *path, double least, double most,
                            bool is_open, double *out);
enum status ask_json_string(const json_t *value, const char *path, struct slice *out);
/* A string that is a name or a word: INVALID when it has a NUL character. */
enum status ask_json_word(const json_t *value, const char *path, struct slice *out);
enum status ask_json_array(const json_t *value, const char *path, size_t most, size_t *count);
enum status ask_json_object(const json_t *value, const char *path);
/* An object whose members are all in `known`, a list that ends with NULL. Other members may be
 * there with the value null; else UNSUPPORTED names the first one. */
enum status ask_json_members(const json_t *value, const char *path, const char *const *known);
/* Fails with "Invalid type for 'x': expected an integer, but got a string instead." */
enum status ask_json_wrong_type(const json_t *value, const char *path, const char *expected);
